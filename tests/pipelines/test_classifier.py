import dataclasses
import logging
import random

import keras
import numpy as np
import pytest

import kbert
from kbert.pipelines import Classifier

BACKEND = keras.backend.backend()
NAMES = ["bad", "good", "other"]
# Of very different lengths, and so that length does not follow place.
TEXTS = [
    "the plot was very , very bad , the film was very , very bad !",
    "good",
    "",
    "the film was good .",
    "not " * 25,
    "is playing",
    "a good film , a bad plot , a good film , a bad plot",
    "good",
    "bad",
    "the film was not good , not bad .",
    "zebra !",
]


def random_texts(count):
    rng = random.Random(0)
    words = "the a good bad film plot very not was is".split()
    return [
        " ".join(rng.choices(words, k=rng.randint(1, 28))) for _ in range(count)
    ]


@pytest.fixture(scope="module")
def make_model(tiny_config):
    # Large weights, so that the answers to two texts differ.
    config = dataclasses.replace(tiny_config, initializer_range=0.2)

    def make(num_classes=3, label_names=None, **changes):
        keras.utils.set_random_seed(1)
        encoder = kbert.build_encoder(dataclasses.replace(config, **changes))
        return kbert.build_classifier(
            encoder, num_classes, label_names=label_names
        )

    return make


@pytest.fixture(scope="module")
def model(make_model):
    return make_model()


def logits_by_hand(model, tokenizer, text, pair=None, max_length=32):
    """Logits (C,) of one text alone and without padding, in float64."""
    encoding = tokenizer.encode(text, pair, max_length=max_length)
    inputs = {
        "token_ids": encoding.ids,
        "segment_ids": encoding.type_ids,
        "padding_mask": [1] * len(encoding.ids),
    }
    inputs = {
        name: np.array([row], "int32")
        for name, row in inputs.items()
        if name in model.input
    }
    logits = keras.ops.convert_to_numpy(model(inputs, training=False))
    return logits[0].astype("float64")


def scores_by_hand(logits, activation):
    if activation == "softmax":
        return np.exp(logits) / np.exp(logits).sum()
    if activation == "sigmoid":
        return 1 / (1 + np.exp(-logits))
    return logits


def check_result(result, text, names, scores):
    """Everything of one result, against scores (C,)."""
    assert list(result) == ["text", "label", "score", "scores"]
    assert result["text"] == text
    assert list(result["scores"]) == names
    assert all(type(score) is float for score in result["scores"].values())
    np.testing.assert_allclose(
        list(result["scores"].values()), scores, atol=1e-6
    )
    assert result["label"] == names[int(np.argmax(scores))]
    assert type(result["score"]) is float
    assert result["score"] == max(result["scores"].values())


# Answers


@pytest.mark.parametrize("activation", ["softmax", "sigmoid", "linear", None])
def test_list_is_answered_in_its_order(model, tiny_tokenizer, activation):
    classify = Classifier(
        model,
        tiny_tokenizer,
        label_names=NAMES,
        activation=activation,
        batch_size=2,
    )
    results = classify(TEXTS)
    assert len(results) == len(TEXTS)
    for result, text in zip(results, TEXTS, strict=True):
        logits = logits_by_hand(model, tiny_tokenizer, text)
        scores = scores_by_hand(logits, activation or "softmax")
        check_result(result, text, NAMES, scores)
    # Texts differ in their scores, so a wrong order would show.
    rows = {tuple(np.round(list(r["scores"].values()), 3)) for r in results}
    assert len(rows) == len(set(TEXTS))


def test_string_is_answered_by_a_dict(model, tiny_tokenizer):
    classify = Classifier(model, tiny_tokenizer, label_names=NAMES)
    for text in TEXTS:
        logits = logits_by_hand(model, tiny_tokenizer, text)
        scores = scores_by_hand(logits, "softmax")
        check_result(classify(text), text, NAMES, scores)


def test_pairs(model, tiny_tokenizer):
    classify = Classifier(model, tiny_tokenizer, batch_size=3)
    names = ["LABEL_0", "LABEL_1", "LABEL_2"]
    pairs = TEXTS[::-1]
    for result, text, pair in zip(
        classify(TEXTS, pairs), TEXTS, pairs, strict=True
    ):
        logits = logits_by_hand(model, tiny_tokenizer, text, pair)
        scores = scores_by_hand(logits, "softmax")
        check_result(result, text, names, scores)
        check_result(classify(text, pair), text, names, scores)
    # Segments matter: a pair is no text of both.
    pair = classify("the film", "was good")["score"]
    assert abs(pair - classify("the film was good")["score"]) > 1e-3


def test_regression(make_model, tiny_tokenizer):
    model = make_model(num_classes=1)
    classify = Classifier(model, tiny_tokenizer, batch_size=4)
    for result, text in zip(classify(TEXTS), TEXTS, strict=True):
        logits = logits_by_hand(model, tiny_tokenizer, text)
        check_result(result, text, ["LABEL_0"], logits)


@pytest.mark.parametrize(
    "changes",
    [{"num_segments": 0}, {"has_pooler": False}, {"pad_token_id": 1}],
    ids=str,
)
def test_other_encoders(make_model, tiny_tokenizer, changes):
    model = make_model(**changes)
    classify = Classifier(model, tiny_tokenizer, label_names=NAMES)
    for result, text in zip(classify(TEXTS), TEXTS, strict=True):
        logits = logits_by_hand(model, tiny_tokenizer, text)
        scores = scores_by_hand(logits, "softmax")
        check_result(result, text, NAMES, scores)


@pytest.mark.parametrize("activation", ["softmax", "sigmoid"])
def test_extreme_logits_give_finite_scores(
    make_model, tiny_tokenizer, activation
):
    model = make_model(num_classes=2)
    head = model.get_layer("classifier").logits
    head.set_weights([np.zeros((16, 2)), np.array([2000.0, -2000.0])])
    classify = Classifier(model, tiny_tokenizer, activation=activation)
    assert list(classify("good")["scores"].values()) == [1.0, 0.0]


def test_label_names_come_from_the_head(make_model, tiny_tokenizer):
    model = make_model(label_names=NAMES)
    result = Classifier(model, tiny_tokenizer)("good")
    assert list(result["scores"]) == NAMES
    result = Classifier(model, tiny_tokenizer, label_names=list("xyz"))("good")
    assert list(result["scores"]) == ["x", "y", "z"]


def test_reloaded_model(make_model, tiny_tokenizer, tmp_path):
    model = make_model(label_names=NAMES)
    model.save(tmp_path / "model.keras")
    reloaded = keras.saving.load_model(tmp_path / "model.keras")
    results = Classifier(reloaded, tiny_tokenizer, batch_size=4)(TEXTS)
    for result, text in zip(results, TEXTS, strict=True):
        logits = logits_by_hand(model, tiny_tokenizer, text)
        scores = scores_by_hand(logits, "softmax")
        check_result(result, text, NAMES, scores)


def test_empty_list(model, tiny_tokenizer):
    classify = Classifier(model, tiny_tokenizer)
    assert classify([]) == []
    assert classify([], []) == []


def test_other_sequences_of_texts(model, tiny_tokenizer):
    classify = Classifier(model, tiny_tokenizer)
    expected = classify(TEXTS[:3])
    for texts in (tuple(TEXTS[:3]), np.array(TEXTS[:3])):
        results = classify(texts)
        assert results == expected
        assert all(type(result["text"]) is str for result in results)


def test_long_texts_are_truncated(model, tiny_tokenizer, caplog):
    classify = Classifier(model, tiny_tokenizer, max_length=6)
    with caplog.at_level(logging.WARNING, logger="kbert"):
        results = classify(["bad film was good plot not a", "bad film"])
    assert results[0]["text"] == "bad film was good plot not a"
    assert results[0]["scores"] == pytest.approx(
        classify("bad film was good")["scores"], abs=1e-6
    )
    whole = Classifier(model, tiny_tokenizer)("bad film was good plot not a")
    assert abs(results[0]["score"] - whole["score"]) > 1e-3
    (record,) = caplog.records
    assert record.getMessage() == (
        "1 of 2 texts have more than max_length=6 tokens and were truncated."
    )


def test_default_max_length(make_model, tiny_tokenizer):
    vocab = tiny_tokenizer.get_vocab()
    model = make_model()
    for tokenizer_length, expected in [(16, 16), (None, 32), (512, 32)]:
        tokenizer = kbert.Tokenizer.from_vocab(
            vocab, max_length=tokenizer_length
        )
        assert Classifier(model, tokenizer).max_length == expected
    classify = Classifier(model, tiny_tokenizer)
    assert classify("good " * 100)["scores"] == pytest.approx(
        classify("good " * 30)["scores"], abs=1e-6
    )


# Work


def test_further_calls_do_not_trace(make_model, tiny_tokenizer):
    model = make_model()
    traces = []
    call = model.get_layer("embedding").call

    def counted(*args, **kwargs):
        traces.append(1)
        return call(*args, **kwargs)

    model.get_layer("embedding").call = counted
    classify = Classifier(model, tiny_tokenizer, batch_size=8)
    texts = random_texts(70)
    classify(texts)
    classify(texts[:3])
    classify("good")
    function, num_traces = model.predict_function, len(traces)
    if BACKEND == "tensorflow":
        # Batch size and length each become unknown once they vary.
        assert function.experimental_get_tracing_count() <= 3
    classify(texts)
    classify(texts[:3])
    classify("good")
    assert model.predict_function is function
    if BACKEND != "torch":  # which runs eagerly
        assert len(traces) == num_traces
    if BACKEND == "tensorflow":
        classify(texts[:5])
        classify(TEXTS)
        assert len(traces) == num_traces


def test_batches_hold_one_length(make_model, tiny_tokenizer, monkeypatch):
    model = make_model()
    shapes = []
    predict = model.predict_on_batch

    def watched(inputs):
        shapes.append(inputs["token_ids"].shape)
        return predict(inputs)

    monkeypatch.setattr(model, "predict_on_batch", watched)
    texts = ["good", "good " * 20] * 8
    Classifier(model, tiny_tokenizer, batch_size=8)(texts)
    assert shapes == [(8, 8), (8, 24)]


@pytest.mark.skipif(BACKEND != "tensorflow", reason="tf.distribute")
def test_under_a_strategy(make_model, tiny_tokenizer):
    import tensorflow as tf

    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        model = make_model()
    classify = Classifier(model, tiny_tokenizer, label_names=NAMES)
    for result, text in zip(classify(TEXTS), TEXTS, strict=True):
        logits = logits_by_hand(model, tiny_tokenizer, text)
        scores = scores_by_hand(logits, "softmax")
        check_result(result, text, NAMES, scores)


def test_replicas_answers_are_counted_once(
    make_model, tiny_tokenizer, monkeypatch
):
    model = make_model()
    expected = Classifier(model, tiny_tokenizer, batch_size=4)(TEXTS)
    predict = model.predict_on_batch
    # What Keras returns where two replicas each answer the whole batch.
    monkeypatch.setattr(
        model,
        "predict_on_batch",
        lambda inputs: np.concatenate([predict(inputs)] * 2),
    )
    assert Classifier(model, tiny_tokenizer, batch_size=4)(TEXTS) == expected


# Errors


@pytest.mark.parametrize(
    "changes, error, expected, received",
    [
        ({"activation": "relu"}, ValueError, "'sigmoid'", "activation='relu'"),
        ({"batch_size": 0}, ValueError, "at least 1", "batch_size=0"),
        ({"batch_size": True}, TypeError, "an int", "batch_size=True"),
        ({"batch_size": "8"}, TypeError, "an int", "batch_size='8'"),
        ({"max_length": 33}, ValueError, "at most 32", "max_length=33"),
        ({"max_length": 0}, ValueError, "at least 1", "max_length=0"),
        ({"max_length": 8.0}, TypeError, "an int", "max_length=8.0"),
        ({"label_names": ["a"]}, ValueError, "3 different", "['a']"),
        ({"label_names": ["a"] * 3}, ValueError, "3 different", "'a', 'a']"),
        ({"label_names": "abc"}, ValueError, "3 different", "'abc'"),
    ],
    ids=str,
)
def test_bad_options(model, tiny_tokenizer, changes, error, expected, received):
    with pytest.raises(error) as caught:
        Classifier(model, tiny_tokenizer, **changes)
    message = str(caught.value)
    assert expected in message
    assert "Received: " in message and message.endswith(received)


def test_tokenizer_of_another_model(model, tiny_tokenizer):
    vocab = tiny_tokenizer.get_vocab()
    tokenizer = kbert.Tokenizer.from_vocab({**vocab, "more": len(vocab)})
    with pytest.raises(ValueError, match=r"more ids.*Received: .*=22"):
        Classifier(model, tokenizer)


def test_no_tokenizer(model):
    with pytest.raises(TypeError, match=r"kbert.Tokenizer.*Received: .*'bert'"):
        Classifier(model, "bert")


def test_encoder_without_a_head(tiny_config, tiny_tokenizer):
    encoder = kbert.build_encoder(tiny_config)
    with pytest.raises(ValueError, match=r"build_classifier.*Received: model="):
        Classifier(encoder, tiny_tokenizer)


@pytest.mark.parametrize(
    "texts, pairs, error, expected, received",
    [
        (["a", None], None, TypeError, "a string", "texts[1]=None"),
        ([3], None, TypeError, "a string", "texts[0]=3"),
        (["a", float("nan")], None, TypeError, "a string", "texts[1]=nan"),
        ([["a"]], None, TypeError, "a string", "texts[0]=['a']"),
        (b"good", None, TypeError, "a sequence", "texts=b'good'"),
        (None, None, TypeError, "a sequence", "texts=None"),
        (3, None, TypeError, "a sequence", "texts=3"),
        # Its items would be taken for texts.
        ({"text": "a"}, None, TypeError, "a sequence", "{'text': 'a'}"),
        ("a", ["b"], ValueError, "both", "texts='a', pairs=['b']"),
        (["a"], "b", ValueError, "both", "texts=['a'], pairs='b'"),
        ("a", 3, ValueError, "both", "texts='a', pairs=3"),
        (["a"], ["b", None], TypeError, "a string", "pairs[1]=None"),
        (
            ["a", "b"],
            ["b"],
            ValueError,
            "as many",
            "len(texts)=2, len(pairs)=1",
        ),
        ([], ["b"], ValueError, "as many", "len(texts)=0, len(pairs)=1"),
    ],
)
def test_bad_texts(
    model, tiny_tokenizer, texts, pairs, error, expected, received
):
    classify = Classifier(model, tiny_tokenizer)
    with pytest.raises(error) as caught:
        classify(texts, pairs)
    message = str(caught.value)
    assert expected in message
    assert "Received: " in message and message.endswith(received), message
