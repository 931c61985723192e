"""Long texts, against each window by itself."""

import dataclasses
import logging

import keras
import numpy as np
import pytest

import kbert
from kbert.pipelines import Classifier

WORDS = "the a good bad film plot very not was is".split()
RNG = np.random.default_rng(0)
TEXTS = [
    " ".join(RNG.choice(WORDS, n)) for n in (40, 3, 0, 17, 61, 8, 25, 90, 1)
]


@pytest.fixture(scope="module")
def encoder(tiny_config):
    keras.utils.set_random_seed(1)
    # Large weights, so that the answers to two texts differ.
    return kbert.build_encoder(
        dataclasses.replace(tiny_config, initializer_range=0.3)
    )


@pytest.fixture(scope="module")
def plain(encoder):
    return kbert.build_classifier(encoder, 3)


@pytest.fixture(scope="module")
def chunked(encoder, plain):
    model = kbert.build_chunked_classifier(encoder, 3, "max")
    for mine, theirs in zip(model.weights, plain.weights, strict=True):
        mine.assign(theirs)
    return model


def windows_of(tokenizer, text, length, overlap):
    [encoding] = tokenizer.encode_batch(
        [text], max_length=length, overlap=overlap
    )
    return [encoding.ids, *(more.ids for more in encoding.overflowing)]


def inputs_of(rows):
    ids = np.zeros((len(rows), max(map(len, rows))), "int32")
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(rows):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": mask}


def logits_of(model, inputs):
    return keras.ops.convert_to_numpy(model(inputs)).astype("float64")


def softmax(logits):
    exp = np.exp(logits - logits.max())
    return exp / exp.sum()


def scores_of(answers):
    return np.array([list(answer["scores"].values()) for answer in answers])


def test_windows_are_averaged_by_their_tokens(plain, tiny_tokenizer, caplog):
    classify = Classifier(
        plain, tiny_tokenizer, long="chunk", max_length=10, batch_size=4
    )
    with caplog.at_level(logging.WARNING, "kbert"):
        answers = classify(TEXTS)
    assert not caplog.records
    expected = []
    for text in TEXTS:
        rows = windows_of(tiny_tokenizer, text, 10, 0)
        logits = [logits_of(plain, inputs_of([row]))[0] for row in rows]
        weights = [max(len(row) - 2, len(rows) == 1) for row in rows]
        expected.append(softmax(np.average(logits, axis=0, weights=weights)))
    np.testing.assert_allclose(scores_of(answers), expected, atol=1e-5)
    assert [answer["text"] for answer in answers] == TEXTS


def test_tokens_that_windows_share_count_once(plain, tiny_tokenizer):
    classify = Classifier(
        plain, tiny_tokenizer, long="chunk", max_length=8, overlap=2
    )
    text = TEXTS[3]  # 17 words in windows of 6 with 2 shared: 6, 6, 6, 5
    rows = windows_of(tiny_tokenizer, text, 8, 2)
    assert [len(row) for row in rows] == [8, 8, 8, 7]
    logits = [logits_of(plain, inputs_of([row]))[0] for row in rows]
    # Of two shared tokens each window is the better for one.
    expected = softmax(np.average(logits, axis=0, weights=[5, 4, 4, 4]))
    np.testing.assert_allclose(
        scores_of([classify(text)])[0], expected, atol=1e-5
    )


def test_short_texts_are_answered_as_without_windows(plain, tiny_tokenizer):
    texts = [text for text in TEXTS if len(text.split()) < 29]
    whole = Classifier(plain, tiny_tokenizer)(texts)
    windows = Classifier(plain, tiny_tokenizer, long="chunk")(texts)
    np.testing.assert_allclose(scores_of(windows), scores_of(whole), atol=1e-6)


def test_what_comes_late_is_read_in_windows_alone(plain, tiny_tokenizer):
    early = " ".join(["the"] * 60)
    texts = [early + " good" * 20, early + " bad" * 20]
    cut = scores_of(Classifier(plain, tiny_tokenizer)(texts))
    np.testing.assert_allclose(cut[0], cut[1], atol=1e-6)
    read = scores_of(Classifier(plain, tiny_tokenizer, long="chunk")(texts))
    assert np.abs(read[0] - read[1]).max() > 1e-3


@pytest.mark.parametrize("batch_size", [1, 5, 64])
def test_a_chunked_model_reads_all_windows_together(
    chunked, tiny_tokenizer, batch_size
):
    classify = Classifier(
        chunked, tiny_tokenizer, max_length=10, batch_size=batch_size
    )
    assert classify.long == "chunk"
    answers = classify(TEXTS)
    expected = []
    for text in TEXTS:
        inputs = inputs_of(windows_of(tiny_tokenizer, text, 10, 0))
        inputs = {name: x[None] for name, x in inputs.items()}
        expected.append(softmax(logits_of(chunked, inputs)[0]))
    np.testing.assert_allclose(scores_of(answers), expected, atol=1e-5)


def test_the_answer_is_that_of_evaluation(chunked, tiny_tokenizer):
    dataset = kbert.data.chunked_dataset(
        TEXTS,
        tokenizer=tiny_tokenizer,
        batch_size=4,
        chunk_length=12,
        max_chunks=3,
        overlap=2,
    )
    logits = chunked.predict(dataset, verbose=0)
    classify = Classifier(
        chunked,
        tiny_tokenizer,
        max_length=12,
        overlap=2,
        max_chunks=3,
        activation="linear",
    )
    np.testing.assert_allclose(scores_of(classify(TEXTS)), logits, atol=1e-5)


def test_windows_left_out_are_logged(plain, tiny_tokenizer, caplog):
    classify = Classifier(
        plain, tiny_tokenizer, long="chunk", max_length=10, max_chunks=1
    )
    with caplog.at_level(logging.WARNING, "kbert"):
        first = classify(TEXTS)
    [record] = caplog.records
    assert record.getMessage().startswith("5 of 9 texts have more than max_ch")
    cut = Classifier(plain, tiny_tokenizer, max_length=10)(TEXTS)
    np.testing.assert_allclose(scores_of(first), scores_of(cut), atol=1e-6)


def test_no_text_has_no_answer(plain, chunked, tiny_tokenizer):
    for model in (plain, chunked):
        classify = Classifier(
            model, tiny_tokenizer, long="chunk", max_length=10
        )
        assert classify([]) == []


def test_options_that_do_not_go_together(plain, chunked, tiny_tokenizer):
    for model, options, message in (
        (plain, {"long": "window"}, "long='window'"),
        (plain, {"overlap": 2}, "overlap=2"),
        (plain, {"max_chunks": 2}, "max_chunks=2"),
        (plain, {"long": "chunk", "overlap": 30}, "overlap=30"),
        (plain, {"long": "chunk", "max_length": 2}, "chunk_length=2"),
        (plain, {"long": "chunk", "max_chunks": 0}, "max_chunks=0"),
        (chunked, {"long": "truncate", "max_length": 8}, "truncate"),
        (chunked, {}, "max_length=None"),
    ):
        with pytest.raises(ValueError, match=message):
            Classifier(model, tiny_tokenizer, **options)
    classify = Classifier(plain, tiny_tokenizer, long="chunk")
    with pytest.raises(ValueError, match="pairs='good'|pairs=\\['good'\\]"):
        classify("bad", "good")
