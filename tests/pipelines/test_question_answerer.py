import logging
import math

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from told_models import (
    FAMILIES,
    TEXTS,
    make_encoder,
    read_tokenizer,
    say,
    token_table,
)

import kbert
from kbert.pipelines import QuestionAnswerer

pytest.importorskip("sentencepiece")

PIECES = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] "
    "who where in rome paris the old town , . ? john smith ##ville"
).split()
SIZES = {"max_length": 16, "overlap": 4, "max_question_length": 5}


@pytest.fixture(scope="module")
def tokenizer():
    return kbert.Tokenizer.from_vocab(PIECES)


def answerer_of(tokenizer, logits, **options):
    """An answerer whose model says logits (V, 2) of token ids."""
    model = kbert.build_span_model(make_encoder(tokenizer, 512))

    def answer(inputs):
        rows = logits[inputs["token_ids"]]
        return {"start": rows[..., 0], "end": rows[..., 1]}

    return QuestionAnswerer(
        say(model, answer), tokenizer, **{**SIZES, **options}
    )


def planted(**logits):
    """Logits (V, 2): start and end of the pieces given, CLS for [CLS]."""
    table = np.full((len(PIECES), 2), -5.0, "float32")
    for piece, pair in logits.items():
        name = {"CLS": "[CLS]", "SEP": "[SEP]"}.get(piece, piece)
        table[PIECES.index(name)] = pair
    return table


def check_result(context, result):
    assert list(result) == [
        "text",
        "score",
        "start",
        "end",
        "has_answer",
        "null_score_difference",
        "answers",
    ]
    for answer in (result, *result["answers"]):
        text = context[answer["start"] : answer["end"]]
        assert answer["text"] == text == text.strip()
        assert type(answer["score"]) is float and 0 <= answer["score"] <= 1
        assert type(answer["start"]) is type(answer["end"]) is int
    assert all(answer["text"] for answer in result["answers"])
    scores = [answer["score"] for answer in result["answers"]]
    assert scores == sorted(scores, reverse=True)
    if not result["has_answer"]:
        assert (result["text"], result["start"], result["end"]) == ("", 0, 0)
    elif result["answers"]:
        best = result["answers"][0]
        assert {key: result[key] for key in best} == best


# Answers


def test_answer_is_cut_from_the_context(tokenizer):
    answerer = answerer_of(tokenizer, planted(the=(4, -5), town=(-5, 3)))
    context = "In  Rome, the\tOLD  Town."
    result = answerer("Where?", context)
    check_result(context, result)
    assert result["text"] == "the\tOLD  Town"
    assert (result["start"], result["end"]) == (10, 23)
    assert result["has_answer"]
    assert result["null_score_difference"] == -10 - 7


def test_answers_keep_to_the_context_and_to_their_order(tokenizer):
    # Highest in the question, on [SEP], and with the end before the start.
    table = planted(
        where=(9, 9), SEP=(9, 9), rome=(-5, 6), town=(6, -5), john=(2, 2)
    )
    answerer = answerer_of(tokenizer, table, max_answer_length=2)
    result = answerer("where", "rome the town john", top_k=2)
    check_result("rome the town john", result)
    # "town john" 8, "the rome" is none; "rome" 1, "town" 1, "john" 4.
    texts = [answer["text"] for answer in result["answers"]]
    assert texts == ["town john", "john"]
    longer = answerer("where", "town the old rome")
    assert longer["text"] != "town the old rome"
    answerer = answerer_of(tokenizer, table, max_answer_length=4)
    assert answerer("where", "town the old rome")["text"] == "town the old rome"


def test_scores_are_the_softmax_of_the_best(tokenizer):
    table = planted(rome=(2, 1), paris=(1, 0.5), CLS=(1, 1))
    context = "rome . paris"
    # rome to paris, rome, paris; then what "." begins or ends.
    logits = [2.5, 3, 1.5]
    answerer = answerer_of(tokenizer, table, n_best=3)
    result = answerer("where", context, top_k=3)
    expected = np.exp(sorted(logits, reverse=True))
    np.testing.assert_allclose(
        [a["score"] for a in result["answers"]], expected / expected.sum()
    )
    texts = [answer["text"] for answer in result["answers"]]
    assert texts == ["rome", "rome . paris", "paris"]
    answerer = answerer_of(tokenizer, table, n_best=3, null_threshold=0.0)
    result = answerer("where", context, top_k=3)
    np.testing.assert_allclose(
        [a["score"] for a in result["answers"]],
        expected / (expected.sum() + np.exp(2)),
    )


def test_no_answer_by_the_threshold(tokenizer):
    table = planted(rome=(1, 1), CLS=(2, 1.5))
    for threshold, has_answer in [
        (None, True),
        (1.6, True),
        (1.5, True),
        (1.4, False),
        (0.0, False),
    ]:
        answerer = answerer_of(tokenizer, table, null_threshold=threshold)
        result = answerer("where", "rome")
        check_result("rome", result)
        assert result["null_score_difference"] == 1.5
        assert result["has_answer"] is has_answer
        [answer] = result["answers"]
        assert answer["text"] == "rome"
        if not has_answer:
            share = np.exp(3.5) / (np.exp(3.5) + np.exp(2))
            assert result["score"] == pytest.approx(share)
            assert answer["score"] == pytest.approx(1 - share)


def test_no_answer_is_as_sure_as_its_least_sure_window(tokenizer):
    """As `score_null` of run_squad, the minimum."""
    model = kbert.build_span_model(make_encoder(tokenizer))

    def answer(inputs):
        logits = np.zeros(inputs["token_ids"].shape, "float32")
        has_rome = (inputs["token_ids"] == PIECES.index("rome")).any(axis=1)
        logits[:, 0] = np.where(has_rome, 1.0, 4.0)
        return {"start": logits, "end": logits}

    answerer = QuestionAnswerer(
        say(model, answer), tokenizer, null_threshold=0.0, **SIZES
    )
    for words in (["rome"], ["old"] * 30 + ["rome"], ["rome"] + ["old"] * 30):
        result = answerer("where", " ".join(words))
        assert result["null_score_difference"] == 2
    assert answerer("where", "old " * 30)["null_score_difference"] == 8


def test_nothing_to_answer(tokenizer):
    answerer = answerer_of(tokenizer, planted(rome=(1, 1)))
    for question, context in [
        ("where", ""),
        ("where", " \n\t"),
        ("where", "\u200b\x00"),
        ("", "rome"),
        ("  ", "rome"),
        ("", ""),
    ]:
        for threshold in (None, 0.0):
            answerer.null_threshold = threshold
            result = answerer(question, context, top_k=5)
            check_result(context, result)
            assert not result["has_answer"] and result["answers"] == []
            assert result["score"] == 1.0
            assert result["null_score_difference"] == math.inf
    # Fewer answers than asked for.
    result = answerer("where", "rome paris", top_k=20)
    assert len(result["answers"]) == 3


def test_lists_and_one_context_for_all(tokenizer):
    answerer = answerer_of(tokenizer, token_table(tokenizer, 2))
    contexts = ["in rome", "", "the old town . " * 9, "paris , john smith"]
    questions = ["where ?", "who", "", "who ?"]
    results = answerer(questions, contexts)
    assert results == [
        answerer(question, context)
        for question, context in zip(questions, contexts, strict=True)
    ]
    assert answerer(questions, contexts[2]) == answerer(
        questions, [contexts[2]] * 4
    )
    assert answerer([], []) == answerer([], "rome") == []
    # The results are no views of each other.
    first, second = answerer(["", ""], ["", ""])
    assert first["answers"] is not second["answers"]


def test_answers_are_the_models(tokenizer):
    """A real model, in batches, against one question at a time."""
    keras.utils.set_random_seed(0)
    model = kbert.build_span_model(make_encoder(tokenizer))
    answerer = QuestionAnswerer(model, tokenizer, batch_size=2, **SIZES)
    questions = ["who", "where in rome ?", "who ?"]
    contexts = ["in rome", "the old town , paris .", "john smith"]
    for question, context, result in zip(
        questions, contexts, answerer(questions, contexts), strict=True
    ):
        encoding = tokenizer.encode(question, context)
        inputs = {
            "token_ids": np.array([encoding.ids], "int32"),
            "segment_ids": np.array([encoding.type_ids], "int32"),
            "padding_mask": np.ones((1, len(encoding.ids)), "int32"),
        }
        outputs = model(inputs, training=False)
        start, end = (
            keras.ops.convert_to_numpy(outputs[key])[0]
            for key in ("start", "end")
        )
        places = [i for i, s in enumerate(encoding.sequence_ids) if s == 1]
        logits = {
            (i, j): float(start[i]) + float(end[j])
            for i in places
            for j in places
            if i <= j
        }
        first, last = max(logits, key=logits.__getitem__)
        assert result["start"] == encoding.offsets[first][0]
        assert result["end"] == encoding.offsets[last][1]
        null = float(start[0]) + float(end[0])
        assert result["null_score_difference"] == pytest.approx(
            null - logits[first, last], abs=1e-5
        )


# Windows


def test_windows_give_what_one_gives(tokenizer):
    """Answers of up to half the overlap, by a model that sees one token."""
    rng = np.random.default_rng(0)
    table = token_table(tokenizer, 2)
    contexts = [" ".join(rng.choice(PIECES[5:-1], n)) for n in (1, 5, 13, 90)]
    questions = ["who ?"] * len(contexts)
    options = {"max_answer_length": 3, "null_threshold": 0.0}
    whole = answerer_of(tokenizer, table, **options, max_length=256)
    cut = answerer_of(tokenizer, table, **options, overlap=6, batch_size=3)
    for ours, theirs in zip(
        cut(questions, contexts, top_k=20),
        whole(questions, contexts, top_k=20),
        strict=True,
    ):
        # Of equal logits the first counts, wherever it stands.
        assert [a["score"] for a in ours["answers"]] == pytest.approx(
            [a["score"] for a in theirs["answers"]]
        )
        assert ours["null_score_difference"] == theirs["null_score_difference"]
        assert ours["text"] == theirs["text"]


def test_ten_thousand_words(tokenizer):
    table = planted(smith=(3, 3), john=(4, 0))
    answerer = answerer_of(
        tokenizer, table, max_length=384, overlap=128, max_question_length=64
    )
    words = ["the", "old", "town", ","] * 2500
    words[8765:8767] = ["John", "Smith"]
    context = " ".join(words)
    result = answerer("Who?", context)
    check_result(context, result)
    assert result["text"] == "John Smith"
    assert result["start"] == len(" ".join(words[:8765])) + 1


def test_long_question_is_cut_and_logged(tokenizer, caplog):
    answerer = answerer_of(tokenizer, planted(rome=(1, 1)))
    with caplog.at_level(logging.WARNING, logger="kbert"):
        result = answerer("where " * 100, "in rome")
    assert result["text"] == "rome"
    assert "max_question_length=5" in caplog.text


# All texts and families


@pytest.fixture(scope="module", params=FAMILIES)
def any_answerer(request, tmp_path_factory):
    tokenizer = read_tokenizer(request.param, tmp_path_factory.mktemp("files"))
    return answerer_of(tokenizer, token_table(tokenizer, 2), n_best=4)


@given(TEXTS, TEXTS, st.sampled_from([None, 0.0]))
@settings(max_examples=60, deadline=None)
def test_offsets_are_of_the_context(any_answerer, question, context, threshold):
    any_answerer.null_threshold = threshold
    result = any_answerer(question, context, top_k=4)
    check_result(context, result)
    has_words = question.strip() and context.strip()
    if threshold is None and has_words and context.isascii():
        has_letters = any(char.isalnum() for char in context)
        assert result["has_answer"] or not has_letters


def test_whole_words_of_every_family(any_answerer):
    """The answer is one word, without the space that its piece may hold."""
    tokenizer = any_answerer.tokenizer
    context = "the  quick\tfox\njumps 😀 naïve"
    encoding = tokenizer.encode(context, add_special_tokens=False)
    place = context.index("fox")
    table = np.full((tokenizer.vocab_size, 2), -5.0, "float32")
    for token_id, (start, end) in zip(
        encoding.ids, encoding.offsets, strict=True
    ):
        if start <= place < end:
            table[token_id, 0] += 9
        if start < place + 3 <= end:
            table[token_id, 1] += 9
    answerer = answerer_of(tokenizer, table, max_length=32)
    answers = answerer("quick", context, top_k=20)["answers"]
    assert "fox" in [answer["text"] for answer in answers]


# Bad input


def test_wrong_models_and_options(tokenizer):
    encoder = make_encoder(tokenizer)
    model = kbert.build_span_model(encoder)
    with pytest.raises(ValueError, match="build_span_model.*Received"):
        QuestionAnswerer(encoder, tokenizer, **SIZES)
    with pytest.raises(TypeError, match=r"kbert\.Tokenizer.*Received"):
        QuestionAnswerer(model, None, **SIZES)
    with pytest.raises(ValueError, match="at most 32 tokens.*Received"):
        QuestionAnswerer(model, tokenizer)
    for options in (
        {"n_best": 0},
        {"max_answer_length": 0},
        {"null_threshold": math.nan},
        {"overlap": 14},
        {"overlap": -1},
        {"max_question_length": 0},
        {"max_question_length": 13},
        {"batch_size": 0},
    ):
        with pytest.raises(ValueError, match="Received"):
            QuestionAnswerer(model, tokenizer, **{**SIZES, **options})
    for options in ({"n_best": 1.5}, {"max_answer_length": True}):
        with pytest.raises(TypeError, match="Received"):
            QuestionAnswerer(model, tokenizer, **{**SIZES, **options})
    answerer = QuestionAnswerer(model, tokenizer, n_best=2, **SIZES)
    for top_k, error in ((0, ValueError), (3, ValueError), (None, TypeError)):
        with pytest.raises(error, match="Received"):
            answerer("who", "rome", top_k=top_k)
    for arguments in (("who", ["rome"]), (["who"], None), (None, "rome")):
        with pytest.raises(TypeError, match="Received"):
            answerer(*arguments)
    with pytest.raises(ValueError, match="2 questions, 1 contexts"):
        answerer(["who", "where"], ["rome"])
