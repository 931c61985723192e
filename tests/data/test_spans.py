import pathlib

import numpy as np
import pytest

from kbert.data.answer_spans import answer_spans, context_ranges
from kbert.data.question_windows import encode_questions
from kbert.data.span_example import SpanExample
from kbert.data.spans import span_dataset
from kbert.data.squad import read_squad
from kbert.data.tokenizer import Tokenizer

DATA = pathlib.Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"no real data at {DATA}"
)


def example(context, *answers, question="was the film good ?", id_="1"):
    """An example whose answers are the first places of the texts given."""
    return SpanExample(
        id=id_,
        question=question,
        context=context,
        answers=answers,
        answer_starts=[context.index(answer) for answer in answers],
    )


def windows_of(tokenizer, examples, **options):
    return encode_questions(
        tokenizer,
        [e.question for e in examples],
        [e.context for e in examples],
        **options,
    )


def found_texts(tokenizer, item, **options):
    """The answer cut from the context by each window, None if it has none."""
    windows = windows_of(tokenizer, [item], **options)
    texts = []
    for encoding, start, end in zip(
        windows.encodings, *places_of([item], windows), strict=True
    ):
        assert (start == 0) == (end == 0)
        if not start:
            texts.append(None)
            continue
        assert encoding.sequence_ids[start] == encoding.sequence_ids[end] == 1
        offsets = encoding.offsets
        texts.append(item.context[offsets[start][0] : offsets[end][1]])
    return texts


def places_of(examples, windows):
    return answer_spans(examples, windows, context_ranges(windows))


def batches(dataset):
    return [
        tuple({k: v.numpy() for k, v in part.items()} for part in batch)
        for batch in dataset
    ]


def test_positions_of_the_answer(tiny_tokenizer):
    items = [
        example("the plot was very bad , not good .", "very bad", "bad"),
        example("the plot was bad ."),
    ]
    ((x, y, _),) = batches(
        span_dataset(
            items,
            tokenizer=tiny_tokenizer,
            batch_size=2,
            max_length=20,
            overlap=2,
            max_question_length=10,
            pad_to="max",
        )
    )
    assert sorted(x) == ["padding_mask", "segment_ids", "token_ids"]
    assert {v.dtype.name for v in (*x.values(), *y.values())} == {"int32"}
    whole = "[CLS] was the film good [UNK] [SEP] the plot was very bad , not"
    ids = [tiny_tokenizer.token_to_id(t) for t in whole.split()]
    assert x["token_ids"][0, :14].tolist() == ids
    assert x["token_ids"].shape == (2, 20)
    assert x["segment_ids"][0].tolist() == [0] * 7 + [1] * 10 + [0] * 3
    assert x["padding_mask"].sum(1).tolist() == [17, 13]
    assert y["start"].tolist() == [10, 0]
    assert y["end"].tolist() == [11, 0]


def test_weights_are_where_an_answer_can_be(tiny_tokenizer):
    items = [example("the plot , bad .", "bad"), example(" "), example("good")]
    ((x, _, weights),) = batches(
        span_dataset(
            items,
            tokenizer=tiny_tokenizer,
            batch_size=3,
            max_length=20,
            overlap=2,
            max_question_length=10,
        )
    )
    # [CLS], five tokens of the question, [SEP], the context, [SEP].
    expected = np.zeros((3, 16))
    expected[:, 0] = expected[0, 7:12] = expected[2, 7] = 1
    order = np.argsort(x["padding_mask"].sum(1))
    for name in ("start", "end"):
        assert weights[name].dtype == "float32"
        np.testing.assert_array_equal(weights[name][order], expected[[1, 2, 0]])


def test_the_answers_place_counts_and_not_its_words(tiny_tokenizer):
    context = "good film good plot good"
    for start in (0, 10, 20):
        item = SpanExample("1", "good", context, "", ["good"], [start])
        windows = windows_of(tiny_tokenizer, [item])
        ((first,), (last,)) = places_of([item], windows)
        # [CLS] good [SEP] come before the context.
        assert first == last == 3 + context[:start].count(" ")


@pytest.mark.parametrize(
    ("context", "answer", "found"),
    [
        pytest.param("the films .", "film", None, id="a word's first piece"),
        pytest.param("not playing .", "ing", "ing", id="a word's last piece"),
        pytest.param("not playing .", "lay", "play", id="middle of a piece"),
        pytest.param("the good film", " good ", "good", id="outer white space"),
        pytest.param("the good, bad", "good,", "good,", id="punctuation"),
        pytest.param(
            "a \t\n bad \u00a0 film", "bad \u00a0 film", None, id="odd"
        ),
        pytest.param("\u200bbad\u200b film", "\u200bbad\u200b", "bad", id="zw"),
        pytest.param("a ba\u0301d film", "ba\u0301d", None, id="accent"),
        pytest.param(
            "the bad\u0301 film", "bad\u0301", "bad", id="last accent"
        ),
        pytest.param("not 🙂 good", "🙂", None, id="emoji"),
        pytest.param("🙂🙂 good 🙂", "good 🙂", None, id="after emoji"),
        pytest.param("中文很好", "文很", None, id="ideographs"),
        pytest.param("BAD Film", "BAD", None, id="capitals"),
    ],
)
def test_text_from_the_answers_tokens(tiny_tokenizer, context, answer, found):
    texts = found_texts(tiny_tokenizer, example(context, answer))
    assert texts == [answer if found is None else found]


@pytest.mark.parametrize("answer", [" ", "\u200b"])
def test_an_answer_of_no_token_is_none(tiny_tokenizer, answer):
    item = SpanExample("1", "good", "bad \u200b film")
    object.__setattr__(item, "answers", [answer])
    object.__setattr__(item, "answer_starts", [item.context.index(answer)])
    assert found_texts(tiny_tokenizer, item) == [None]


LONG = "the film was very good , not bad ! a good plot , played very well"
SHORT = {"max_length": 12, "overlap": 3, "max_question_length": 4}


@pytest.mark.parametrize("first", range(0, 15))
@pytest.mark.parametrize("size", range(1, 8))
def test_only_windows_with_the_whole_answer_have_it(
    tiny_tokenizer, first, size
):
    words = LONG.split()[:15]
    context = " ".join(words)
    start = len(" ".join([*words[:first], ""])) if first else 0
    text = " ".join(words[first : first + size])
    item = SpanExample("1", "was it good ?", context, "", [text], [start])
    # Five tokens of context a window, each two further on.
    places = [range(begin, begin + 5) for begin in range(0, 11, 2)]
    last = min(first + size, 15) - 1
    assert found_texts(tiny_tokenizer, item, **SHORT) == [
        text if first in place and last in place else None for place in places
    ]


def test_answer_free_windows_kept_or_dropped(tiny_tokenizer, caplog):
    items = [
        example(LONG, "very good"),
        example(LONG),
        example(LONG, "good , not bad ! a good"),
        example("", id_="4"),
    ]
    spans = {}
    for keep in (True, False):
        dataset = span_dataset(
            items,
            tokenizer=tiny_tokenizer,
            batch_size=1,
            pad_to="max",
            keep_answer_free_windows=keep,
            **SHORT,
        )
        spans[keep] = [
            (int(y["start"][0]), int(y["end"][0]))
            for _, y, _ in batches(dataset)
        ]
        assert len(dataset) == len(spans[keep])
        assert "1 of 4 questions have an answer that is whole in no" in (
            caplog.text
        )
        caplog.clear()
    per_text = np.bincount(windows_of(tiny_tokenizer, items, **SHORT).texts)
    assert len(spans[True]) == per_text.sum()
    with_answer = [span for span in spans[True] if span != (0, 0)]
    assert len(with_answer) == 2
    # All windows of the two questions without answers, none of the third's.
    assert spans[False] == with_answer + [(0, 0)] * (per_text[1] + 1)


def test_roberta_like_windows(tiny_tokenizer):
    tokenizer = Tokenizer.train([LONG] * 3, 300, model="bpe")
    item = example("Not 🙂 bad.  A good plot", "bad.  A good", "plot")
    ((x, y, _),) = batches(
        span_dataset([item], tokenizer=tokenizer, batch_size=1, pad_to="batch")
    )
    assert not x["segment_ids"].any()
    ids = x["token_ids"][0]
    answer = ids[y["start"][0] : y["end"][0] + 1]
    assert tokenizer.decode(answer).strip() == "bad.  A good"
    separators = np.flatnonzero(ids == tokenizer.sep_token_id)
    assert separators[1] == separators[0] + 1 < y["start"][0]


def test_order_shuffle_and_shapes(tiny_tokenizer):
    contexts = ["good " * (number % 9 + 1) for number in range(20)]
    items = [
        SpanExample(str(n), "", context, "", ["good"], [len(context) - 5])
        for n, context in enumerate(contexts)
    ]

    def dataset(**options):
        return span_dataset(
            items,
            tokenizer=tiny_tokenizer,
            batch_size=8,
            max_length=16,
            overlap=2,
            max_question_length=4,
            **options,
        )

    def starts(data):
        return [y["start"].tolist() for _, y, _ in batches(data)]

    # [CLS] [SEP] come first; the answer is the context's last word.
    places = [2 + number % 9 for number in range(20)]
    assert sum(starts(dataset(pad_to="max")), []) == places
    shuffled = dataset(shuffle=True, seed=3)
    first, second = starts(shuffled), starts(shuffled)
    assert first != second
    assert first == starts(dataset(shuffle=True, seed=3))
    assert sorted(sum(first, [])) == sorted(sum(second, [])) == sorted(places)
    for x, y, _ in batches(shuffled):
        # The padded rows went where their answers went.
        assert (x["padding_mask"].sum(1) == y["end"] + 2).all()
    fixed = dataset(pad_to="max", drop_remainder=True)
    assert [y["end"].shape for _, y, _ in batches(fixed)] == [(8,), (8,)]
    assert fixed.element_spec[1]["start"].shape == (8,)
    assert fixed.element_spec[0]["token_ids"].shape == (8, 16)


def test_a_long_set_is_encoded_in_parts(tiny_tokenizer, caplog):
    items = [
        example(
            "the film " * (number % 3) + "good",
            "good",
            question="very " * (number % 5 + 1),
        )
        for number in range(2500)
    ]
    data = span_dataset(
        items,
        tokenizer=tiny_tokenizer,
        batch_size=500,
        max_length=16,
        overlap=2,
        max_question_length=4,
        pad_to="max",
    )
    starts = np.concatenate([y["start"] for _, y, _ in batches(data)])
    number = np.arange(2500)
    expected = 2 + np.minimum(number % 5 + 1, 4) + 2 * (number % 3)
    np.testing.assert_array_equal(starts, expected)
    assert [r.getMessage()[:34] for r in caplog.records] == [
        "500 of 2500 questions have more tha"[:34]
    ]


@pytest.mark.parametrize(
    ("examples", "options", "error", "received"),
    [
        ([], {}, ValueError, "none"),
        ([{"question": "a"}], {}, TypeError, r"examples\[0\]"),
        ("abc", {}, TypeError, "examples="),
        ([example("good")], {"max_length": 33}, ValueError, "max_length=33"),
        ([example("good")], {"overlap": 40}, ValueError, "max_length=32"),
        ([example("good")], {"pad_to": "x"}, ValueError, "pad_to='x'"),
        ([example("\ud800")], {}, ValueError, "contexts"),
        ([example("", question=3)], {}, TypeError, r"questions\[0\]"),
        (
            [example(LONG, LONG)],
            {"max_length": 20, "keep_answer_free_windows": False},
            ValueError,
            "none",
        ),
    ],
)
def test_wrong_input(tiny_tokenizer, examples, options, error, received):
    options = {
        "max_length": 32,
        "overlap": 4,
        "max_question_length": 8,
        **options,
    }
    with pytest.raises(error, match=f"Received: {received}"):
        span_dataset(
            examples, tokenizer=tiny_tokenizer, batch_size=2, **options
        )


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "inexact"),
    # "Japan" twice is the start of the piece "japanese"; RoBERTa's pieces join
    # marks, as in `).`, at the end of 19 answers, and before or in 2 more.
    [("bert-base-uncased", 2), ("roberta-base", 23)],
)
@pytest.mark.parametrize(("max_length", "overlap"), [(384, 128), (128, 48)])
def test_gold_answers_of_real_questions_are_recovered(
    name, inexact, max_length, overlap
):
    examples = read_squad(DATA / "squad2" / "dev-v2.0.half.json")
    examples = [e for e in examples if not e.is_impossible]
    assert len(examples) == 2910
    tokenizer = Tokenizer.from_pretrained(DATA / "vocabs" / name)
    options = {"max_length": max_length, "overlap": overlap}
    windows = windows_of(tokenizer, examples, **options)
    places = places_of(examples, windows)
    found, covered = {}, {}
    for index, number in enumerate(windows.texts):
        item, encoding = examples[number], windows.encodings[index]
        of = np.array([i == 1 for i in encoding.sequence_ids])
        covered.setdefault(number, set()).update(
            pair
            for pair, mine in zip(encoding.offsets, of, strict=True)
            if mine
        )
        start, end = places[:, index]
        if start:
            begin, stop = encoding.offsets[start][0], encoding.offsets[end][1]
            found.setdefault(number, set()).add((begin, stop))
            # At most a piece more on either side, and nothing less.
            low, high = item.answer_starts[0], item.answer_starts[0]
            high += len(item.answers[0])
            assert begin <= low < encoding.offsets[start][1]
            assert encoding.offsets[end][0] < high <= stop
    assert len(found) == len(examples)
    exact = sum(
        item.context[begin:stop] == item.answers[0]
        for number, item in enumerate(examples)
        for begin, stop in found[number]
        if len(found[number]) == 1
    )
    assert exact == len(examples) - inexact
    whole = tokenizer.encode_batch(
        [e.context for e in examples], add_special_tokens=False
    )
    for number, encoding in enumerate(whole):
        assert covered[number] == set(encoding.offsets)
