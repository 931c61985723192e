import json
import pathlib

import pytest

from kbert.data.span_example import SpanExample
from kbert.data.squad import read_squad

DATA = pathlib.Path(__file__).parents[3] / "shared" / "data"
CONTEXT = "Ann came late. Bob 🙂 came early, and Bob left late."


def question(id_="1", answers=(("Ann", 0),), **others):
    return {
        "id": id_,
        "question": f"Who is {id_}?",
        "answers": [{"text": t, "answer_start": s} for t, s in answers],
        **others,
    }


def squad(*questions, context=CONTEXT):
    paragraph = {"context": context, "qas": list(questions)}
    return {
        "version": "v2.0",
        "data": [{"title": "Guests", "paragraphs": [paragraph]}],
    }


@pytest.fixture
def read(tmp_path):
    def write_and_read(content, name="squad.json"):
        path = tmp_path / name
        if not isinstance(content, (str, bytes)):
            content = json.dumps(content)
        if isinstance(content, str):
            content = content.encode()
        path.write_bytes(content)
        return read_squad(path)

    return write_and_read


def test_version_2(read):
    plausible = [{"text": "Ann", "answer_start": 0}]
    examples = read(
        squad(
            question("b", [("Bob 🙂", 15), ("Bob", 15)], is_impossible=False),
            question("a", [], is_impossible=True, plausible_answers=plausible),
        )
    )
    assert examples == [
        SpanExample(
            id="b",
            question="Who is b?",
            context=CONTEXT,
            title="Guests",
            answers=("Bob 🙂", "Bob"),
            answer_starts=(15, 15),
        ),
        SpanExample("a", "Who is a?", CONTEXT, "Guests"),
    ]
    assert [e.is_impossible for e in examples] == [False, True]


def test_version_1_has_no_is_impossible_and_ids_may_be_numbers(read):
    (example,) = read(squad(question(7)))
    assert (example.id, example.answers) == ("7", ("Ann",))


def test_flat_questions_in_a_list_or_in_lines(read):
    row = {"context": CONTEXT, **question()}
    lists = {"text": ["Ann"], "answer_start": [0]}
    other = {**question("2"), "context": "Ann\u2028y", "answers": lists}
    expected = [
        SpanExample("1", "Who is 1?", CONTEXT, "", ("Ann",), (0,)),
        SpanExample("2", "Who is 2?", "Ann\u2028y", "", ("Ann",), (0,)),
    ]
    lines = "\n\n".join(json.dumps(r, ensure_ascii=False) for r in (row, other))
    assert read([row, other]) == expected
    assert read({"data": [row, other]}) == expected
    assert read("\ufeff" + lines + "\n", "squad.jsonl") == expected


@pytest.mark.parametrize("said", [1, 3, -2, 400])
def test_an_answer_of_one_place_is_moved_there(read, caplog, said):
    (example,) = read(squad(question(answers=[("came early", said)])))
    start = example.answer_starts[0]
    assert CONTEXT[start : start + 10] == "came early"
    assert "1 answers did not stand" in caplog.text


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(("Bob", 14), id="two places"),
        pytest.param(("Cid", 3), id="nowhere"),
        pytest.param(("ann", 0), id="another case"),
        pytest.param(("", 3), id="empty"),
        pytest.param((" ", 3), id="blank"),
        pytest.param(("aa", 3), id="overlapping places"),
    ],
)
def test_an_answer_of_no_or_several_places_is_left_out(read, caplog, answer):
    examples = read(
        squad(
            question("1", [answer]),
            question("2", [answer, ("Ann", 0)]),
            question("3", []),
            context=CONTEXT + " aaa",
        )
    )
    assert [e.id for e in examples] == ["2", "3"]
    assert examples[0].answers == ("Ann",)
    assert "0 answers did not stand" in caplog.text
    assert "2 are in no place or in several" in caplog.text
    assert "with 1 questions that have no other" in caplog.text
    assert len(caplog.records) == 1


def test_a_right_file_logs_nothing(read, caplog):
    read(squad(question(), question("2", [("Bob", 37)])))
    assert not caplog.records


def test_offsets_in_utf16_are_moved(read):
    # What JavaScript counts: the emoji before the answer is two units.
    (example,) = read(squad(question(answers=[("came early", 22)])))
    assert example.answer_starts == (21,)


def test_empty_context(read):
    examples = read(
        squad(question("1", []), question("2", [("a", 0)]), context="")
    )
    assert [(e.id, e.context) for e in examples] == [("1", "")]


@pytest.mark.parametrize("key", ["id", "question", "answers"])
def test_missing_key(read, key):
    row = question()
    del row[key]
    with pytest.raises(ValueError, match=f"`{key}` is missing.*Received: data"):
        read(squad(row))


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (squad(question(), question()), ValueError, "an id of its own"),
        (
            squad(question("1", [("Cid", 0)]), question()),
            ValueError,
            "an id of its own",
        ),
        (
            squad(question(is_impossible=True)),
            ValueError,
            "must have no answers",
        ),
        (squad(question(answers=[("Ann", "0")])), TypeError, "a whole number"),
        (squad(question(answers=[("Ann", True)])), TypeError, "a whole number"),
        (squad(question(question=None)), TypeError, "a string"),
        (squad(question(answers=[(5, 0)])), TypeError, "a string"),
        (squad(question(), context=["a"]), TypeError, "a string"),
        (squad(question(), context="\ud800"), ValueError, "surrogate"),
        ({"data": [{"paragraphs": [{"qas": []}]}]}, ValueError, "`context`"),
        ({"data": [{"paragraphs": [{"context": ""}]}]}, ValueError, "`qas`"),
        ({"data": [{"paragraphs": {}}]}, TypeError, "a list"),
        ({"data": ["a"]}, TypeError, "an object"),
        ({"articles": []}, ValueError, "a list of articles"),
        ({"data": []}, ValueError, "no question"),
        ("{", ValueError, "no JSON"),
        (b"\xff[]", ValueError, "no JSON in UTF-8"),
        (
            [{**question(), "context": CONTEXT}]
            + [
                {
                    "id": "2",
                    "question": "?",
                    "context": CONTEXT,
                    "answers": {"text": ["a", "b"], "answer_start": [0]},
                }
            ],
            ValueError,
            "needs a start",
        ),
    ],
)
def test_wrong_files(read, content, error, message):
    with pytest.raises(error, match=f"(?s){message}.*Received: "):
        read(content)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_squad(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("answers", "starts"),
    [(["Bob"], [0]), (["Ann"], []), (["Ann"], [-3]), ([""], [0])],
)
def test_wrong_examples(answers, starts):
    with pytest.raises(ValueError, match="Received: id='1'"):
        SpanExample("1", "?", "Ann", answers=answers, answer_starts=starts)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data at {DATA}")
def test_corrupted_real_file(tmp_path, caplog):
    content = json.loads((DATA / "squad2" / "dev-v2.0.half.json").read_text())
    clean = read_squad(DATA / "squad2" / "dev-v2.0.half.json")
    assert not caplog.records
    assert len(clean) == 6078
    assert sum(e.is_impossible for e in clean) == 3168
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                for answer in qa["answers"]:
                    answer["answer_start"] += 3
    path = tmp_path / "corrupt.json"
    path.write_text(json.dumps(content))
    moved = {e.id: e for e in read_squad(path)}
    for example in clean:
        unique = {
            (text, start)
            for text, start in zip(
                example.answers, example.answer_starts, strict=True
            )
            if example.context.count(text) == 1
        }
        if example.id not in moved:
            assert not unique and not example.is_impossible
            continue
        other = moved[example.id]
        got = set(zip(other.answers, other.answer_starts, strict=True))
        assert unique <= got
        # What was not unique can only be at the wrong place said.
        assert all(
            example.context[start : start + len(text)] == text
            for text, start in got
        )
