"""Reading CSV, TSV and JSON lines."""

import csv
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbert.data import read_columns

# csv ends rows at \r and \n alike, and cannot keep a NUL.
TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0")
)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1))
def test_what_was_written_is_read(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("columns")
    texts, labels = [list(column) for column in zip(*rows, strict=True)]
    for name, delimiter in (("a.csv", ","), ("a.tsv", "\t")):
        with open(folder / name, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(
                file, delimiter=delimiter, quoting=csv.QUOTE_ALL
            )
            writer.writerow(["label", "other", "text"])
            writer.writerows((b, "x", a) for a, b in rows)
        assert read_columns(folder / name, "text", "label") == [texts, labels]
    lines = [json.dumps({"text": a, "label": b}) for a, b in rows]
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n\n")
    assert read_columns(folder / "a.jsonl", "text", "label") == [texts, labels]


def test_byte_order_mark_long_cells_and_numbers(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"\ufefftext,label\n{'x' * 200_000},3\n", encoding="utf-8")
    assert read_columns(path, "text") == [["x" * 200_000]]
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": 3}\n')
    assert read_columns(path, "label") == [["3"]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "no rows"),
        ("a.csv", "text,label\n", "no rows"),
        ("a.csv", "text,kind\na,b\n", r"no 'label'; its columns are \['text'"),
        ("a.csv", "text,label\na,b\nc\n", "Row 2 has no 'label'"),
        ("a.jsonl", '{"text": "a"}\n', "Row 1 has no 'label'"),
        ("a.jsonl", '{"text": "a", "label": null}\n', "Row 1 has no 'label'"),
        ("a.jsonl", '{"text": \n', "Line 1 is no JSON"),
        ("a.jsonl", "[1]\n", "Line 1 is no JSON object"),
        ("a.xlsx", "x", "must end in"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=rf"{message}.*Received: "):
        read_columns(tmp_path / name, "text", "label")


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_columns(tmp_path / "a.csv", "text")
