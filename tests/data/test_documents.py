import json
import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbert.data import read_documents, split_sentences
from kbert.data.sentences import MAX_CHARACTERS, cut_long


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(*args, **options):
    return list(read_documents(*args, **options))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        (" \n ", []),
        ("One word", ["One word"]),
        ("It rains. It pours!", ["It rains.", "It pours!"]),
        ("Dr. Who met J. S. Bach.", ["Dr. Who met J. S. Bach."]),
        ("In the U.S. He waits.", ["In the U.S. He waits."]),
        ("It is 3.5 m. Really?! Yes.", ["It is 3.5 m. Really?!", "Yes."]),
        ('"Why?" he asked. "So."', ['"Why?" he asked.', '"So."']),
        ("(It is.) ‘It is.’ Then", ["(It is.)", "‘It is.’", "Then"]),
        ("so it was . . . and then", ["so it was . . . and then"]),
        ("so it was . . . Then", ["so it was . . .", "Then"]),
        ("¿Qué? ¡Sí! Vale.", ["¿Qué?", "¡Sí!", "Vale."]),
        ("今日は。明日！はい？", ["今日は。", "明日！", "はい？"]),
        ("यह है। वह है।", ["यह है।", "वह है।"]),
        ("هل؟ نعم.", ["هل؟", "نعم."]),
        ("a wrapped\nline. then\n\nA title\n\nText", None),
        ("He came.\n\nshe went", ["He came.", "she went"]),
        ("Ends in 1990. The next", ["Ends in 1990.", "The next"]),
    ],
)
def test_sentences(text, sentences):
    if sentences is None:
        sentences = ["a wrapped\nline. then", "A title", "Text"]
    assert split_sentences(text) == sentences


@given(
    st.text(alphabet="aB.!?。 \n\"')(Mr", max_size=80)
    | st.text(max_size=40)
    | st.lists(
        st.sampled_from(["Dr. ", "x. ", "Yes. ", "\n\n", "。", ". . "])
    ).map("".join)
)
def test_sentences_lose_nothing_but_white_space(text):
    sentences = split_sentences(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(s and s == s.strip() for s in sentences)


@pytest.mark.parametrize(
    "text",
    ["x" * 12_345, "word " * 5_000, ("a" * 4_998 + " ") * 3, "。" * 9_000],
)
def test_long_sentences_are_cut_at_white_space(text):
    pieces = cut_long([text.strip()])
    assert max(map(len, pieces)) <= MAX_CHARACTERS
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
    if " " in text:
        words = [word for piece in pieces for word in piece.split()]
        assert words == text.split()


@pytest.mark.parametrize(
    "text",
    [
        "." * 10**6 + "a",
        ". " * 10**6,
        '."' * 10**6 + "a",
        "a" + " " * 10**6 + "a",
        "a." + "\n " * 10**6 + "b",
        "Mr." * 10**6,
        "x" * 10**7,
    ],
)
def test_no_text_takes_the_square_of_its_length(text):
    # Each takes well under a second; the square would take hours.
    assert split_sentences(text)


def test_blank_lines_are_between_documents(tmp_path):
    path = write(
        tmp_path, "a.txt", "\n\nOne. Two.\nThree\n \t\n\nFour.\r\n\r\nFive"
    )
    assert read(path) == [["One.", "Two.", "Three"], ["Four."], ["Five"]]
    assert read(str(path), split=False) == [
        ["One. Two.", "Three"],
        ["Four."],
        ["Five"],
    ]


def test_one_document_a_line(tmp_path):
    path = write(tmp_path, "a.txt", "One. Two.\n\nThree.")
    assert read(path, document_per_line=True) == [["One.", "Two."], ["Three."]]


def test_json_lines(tmp_path):
    rows = [{"text": "One. Two.\n\nThree"}, {"text": ""}, {"text": "Four"}]
    lines = "\n".join(map(json.dumps, rows)) + "\n\n"
    path = write(tmp_path, "a.jsonl", lines)
    assert read(path) == [["One.", "Two.", "Three"], ["Four"]]
    assert read(path, split=False) == [["One. Two.", "Three"], ["Four"]]


def test_a_folder_is_read_in_order_without_other_files(tmp_path):
    write(tmp_path, "b/2.txt", "Three")
    write(tmp_path, "b/1.TXT", "Two")
    write(tmp_path, "c.ndjson", '{"text": "Four"}')
    write(tmp_path, "a.txt", "One")
    write(tmp_path, "empty.txt", "")
    for other in ("a.md", ".hidden.txt", ".git/x.txt", "LICENSE", "a.csv"):
        write(tmp_path, other, "No")
    assert read(tmp_path) == [["One"], ["Two"], ["Three"], ["Four"]]


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: rows,
        iter,
        lambda rows: (row for row in rows),
        lambda rows: [{"text": row, "id": 1} for row in rows],
        lambda rows: np.array(rows),
        lambda rows: [split_sentences(row) for row in rows],
    ],
)
def test_iterables(make):
    rows = ["One. Two.", "", "Three"]
    assert read(make(rows)) == [["One.", "Two."], ["Three"]]


def test_data_sets_of_hugging_face():
    datasets = pytest.importorskip(
        "datasets", reason="pip install keras-kbert[parity]"
    )
    rows = datasets.Dataset.from_dict({"body": ["One. Two.", "Three"]})
    expected = [["One.", "Two."], ["Three"]]
    assert read(rows, key="body") == expected
    assert read(rows["body"]) == expected
    assert read(rows.to_iterable_dataset(), key="body") == expected
    with pytest.raises(ValueError, match="no key 'text'.*Received: keys"):
        read(rows)
    with pytest.raises(TypeError, match="one of its values.*'train'"):
        read(datasets.DatasetDict(train=rows))


def test_paths_in_an_iterable_are_files(tmp_path):
    paths = [write(tmp_path, name, name) for name in ("b.txt", "a.txt")]
    assert read(paths) == [["b.txt"], ["a.txt"]]


def test_files_are_read_as_the_iterator_advances(tmp_path):
    write(tmp_path, "a.txt", "One")
    write(tmp_path, "b.txt", b"\xff")
    documents = read_documents(tmp_path)
    assert next(documents) == ["One"]
    with pytest.raises(ValueError, match="no UTF-8"):
        next(documents)


def test_bytes_that_are_no_utf8(tmp_path):
    path = write(tmp_path, "a.txt", b"caf\xc3\xa9\n" + b"caf\xe9 noir\n")
    with pytest.raises(
        ValueError, match=r"Byte 9 .*line 2, .*Received: b'\\xe9' in .*a.txt"
    ):
        read(path)
    assert read(path, errors="replace") == [["café", "caf\ufffd noir"]]


def test_marks_of_editors_are_left_out(tmp_path):
    path = write(tmp_path, "a.txt", "\ufeffOne".encode())
    assert read(path) == [["One"]]


def test_a_line_of_ten_megabytes(tmp_path):
    path = write(tmp_path, "a.txt", "A line. " * 1_250_000)
    (document,) = read(path)
    assert len(document) == 1_250_000
    (document,) = read(path, split=False)
    assert max(map(len, document)) <= MAX_CHARACTERS
    assert sum(s.count("line") for s in document) == 1_250_000


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda p: p, ValueError, "no file that ends in .txt"),
        (lambda p: p / "none.txt", FileNotFoundError, "a file or a folder"),
        (lambda p: "It rains.", FileNotFoundError, "go in a list"),
        (lambda p: write(p, "a.txt", ""), ValueError, "no text in it"),
        (lambda p: write(p, "a.txt", "\n \n\n"), ValueError, "no text in it"),
        (lambda p: [], ValueError, "no text in it"),
        (lambda p: ["", " "], ValueError, "no text in it"),
        (lambda p: b"text", TypeError, "a path or an iterable"),
        (lambda p: 3, TypeError, "a path or an iterable"),
        (lambda p: {"text": ["a"]}, TypeError, "pass one of its values"),
        (lambda p: [3], TypeError, "item 0=3"),
        (lambda p: ["a", None], TypeError, "item 1=None"),
        (lambda p: [["a", 3]], TypeError, r"item 0\[1\]=3"),
        (lambda p: [{"body": "a"}], ValueError, "no key 'text'"),
        (lambda p: ["\ud800"], ValueError, "surrogate"),
        (lambda p: write(p, "a.jsonl", "{}"), ValueError, "no key 'text'"),
        (lambda p: write(p, "a.jsonl", "{"), ValueError, "line 1 of"),
        (lambda p: write(p, "a.jsonl", "[1]"), ValueError, "a JSON object"),
        (
            lambda p: write(p, "a.jsonl", '{"text": null}'),
            ValueError,
            "a string under 'text'",
        ),
    ],
)
def test_refusals(tmp_path, make, error, message):
    with pytest.raises(error, match=f"(?s){message}") as caught:
        read(make(tmp_path))
    assert "Received: " in str(caught.value)


def test_errors_takes_two_values():
    with pytest.raises(ValueError, match="Received: errors='ignore'"):
        read_documents(["a"], errors="ignore")


def test_a_missing_file_is_refused_at_once():
    with pytest.raises(FileNotFoundError):
        read_documents(pathlib.Path("none.txt"))
