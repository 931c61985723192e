import pathlib

import numpy as np
import pytest

from kbert.data.question_windows import encode_questions
from kbert.data.tokenizer import Tokenizer

DATA = pathlib.Path(__file__).parents[3] / "shared" / "data"


def tokens_of(encoding, sequence):
    return [
        token
        for token, of in zip(
            encoding.tokens, encoding.sequence_ids, strict=True
        )
        if of == sequence
    ]


def test_question_first_then_a_stretch_of_the_context(tiny_tokenizer):
    windows = encode_questions(
        tiny_tokenizer,
        ["was the film good"],
        ["the plot was bad , not good !"],
        max_length=12,
        overlap=2,
        max_question_length=4,
    )
    assert [e.tokens for e in windows.encodings] == [
        "[CLS] was the film good [SEP] the plot was bad , [SEP]".split(),
        "[CLS] was the film good [SEP] bad , not good ! [SEP]".split(),
    ]
    assert windows.encodings[0].type_ids == [0] * 6 + [1] * 6


@pytest.mark.parametrize("context", ["", " ", "\t\n\u00a0 ", "\u200b\x00"])
def test_a_blank_context_has_one_window_without_context(
    tiny_tokenizer, context
):
    windows = encode_questions(
        tiny_tokenizer, ["good", "bad"], [context, "the film"]
    )
    assert [e.tokens for e in windows.encodings] == [
        ["[CLS]", "good", "[SEP]", "[SEP]"],
        ["[CLS]", "bad", "[SEP]", "the", "film", "[SEP]"],
    ]
    assert [best.sum() for best in windows.is_best] == [0, 2]


def test_no_questions_and_empty_questions(tiny_tokenizer):
    assert len(encode_questions(tiny_tokenizer, [], [])) == 0
    windows = encode_questions(tiny_tokenizer, [""], ["good"])
    assert windows.encodings[0].tokens == ["[CLS]", "[SEP]", "good", "[SEP]"]


def test_long_questions_are_cut_to_their_first_tokens(tiny_tokenizer, caplog):
    words = "the film is very good".split()
    questions = [" ".join(words[:n]) for n in (3, 4, 5)]
    # Four pieces, of which the cut leaves three: inside the word.
    questions.append("the goods !")
    windows = encode_questions(
        tiny_tokenizer,
        questions,
        ["bad"] * 4,
        max_length=12,
        overlap=2,
        max_question_length=3,
    )
    assert [tokens_of(e, 0) for e in windows.encodings] == [
        ["the", "film", "is"],
        ["the", "film", "is"],
        ["the", "film", "is"],
        ["the", "good", "##s"],
    ]
    assert len(caplog.records) == 1
    assert "3 of 4 questions have more than" in caplog.text


@pytest.mark.parametrize("question_length", range(0, 13))
@pytest.mark.parametrize("overlap", [0, 1, 5, 8])
def test_any_question_leaves_room_and_every_token_is_in_a_window(
    tiny_tokenizer, question_length, overlap
):
    lengths = [20, question_length, 0]
    contexts = ["the film was good , not bad " * n for n in (3, 1, 2)]
    windows = encode_questions(
        tiny_tokenizer,
        ["very " * n for n in lengths],
        contexts,
        max_length=12,
        overlap=overlap,
        max_question_length=8,
    )
    assert np.all(np.diff(windows.texts) >= 0)
    for number, context in enumerate(contexts):
        mine = np.flatnonzero(windows.texts == number)
        room = 12 - 3 - min(lengths[number], 8)
        shared = overlap if overlap < room else room // 2
        joined = []
        for count, index in enumerate(mine):
            encoding = windows.encodings[index]
            assert len(encoding.ids) <= 12
            tokens = tokens_of(encoding, 1)
            if count:
                kept = len(joined) - shared
                assert joined[kept:] == tokens[:shared]
                joined = joined[:kept]
            joined += tokens
        assert joined == context.split()
        best = sum(int(windows.is_best[i].sum()) for i in mine)
        assert best == len(joined)


def test_a_byte_pair_question_cut_inside_a_word_stays_short():
    # "ab c" is [ab, c], and "abc" [a, bc]: what is cut joins otherwise.
    tokenizer = Tokenizer.train(
        ["good film good film the plot"] * 3, 300, model="bpe"
    )
    question = "goodfilmplot 🙂🙂🙂 xyzzy"
    context = "the film " * 40
    for limit in range(1, 14):
        windows = encode_questions(
            tokenizer,
            [question],
            [context],
            max_length=24,
            overlap=4,
            max_question_length=limit,
        )
        for encoding in windows.encodings:
            assert len(tokens_of(encoding, 0)) <= limit
            assert len(encoding.ids) <= 24
            # RoBERTa's two separators stand between the texts.
            assert encoding.tokens.count("</s>") == 3
            assert set(encoding.type_ids) == {0}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_length": 12, "max_question_length": 9}, ValueError),
        ({"max_length": 12, "max_question_length": 0}, ValueError),
        ({"max_length": 2}, ValueError),
        ({"overlap": -1}, ValueError),
        ({"overlap": 381}, ValueError),
        ({"overlap": 1.5}, TypeError),
        ({"max_length": True}, TypeError),
        ({"max_question_length": None}, TypeError),
    ],
)
def test_lengths_that_do_not_go_together(tiny_tokenizer, options, error):
    with pytest.raises(error, match="Received: max_length="):
        encode_questions(tiny_tokenizer, ["good"], ["bad"], **options)


def test_wrong_texts(tiny_tokenizer):
    with pytest.raises(ValueError, match="Received: len"):
        encode_questions(tiny_tokenizer, ["good"], [])
    with pytest.raises(TypeError, match="Received: contexts"):
        encode_questions(tiny_tokenizer, ["good"], [None])
    with pytest.raises(TypeError, match="Received: questions"):
        encode_questions(tiny_tokenizer, "good", ["bad"])
