"""Pooling and unit vectors against numpy; see tests/parity for torch."""

import keras
import numpy as np
import pytest
from keras import ops

import kbert

MODES = ["cls", "mean", "max", "mean_sqrt_length", "weighted_mean"]
MODES += ["last_token", "attention"]


def numbers(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def states():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 6, 8)).astype("float32")
    mask = (np.arange(6) < [[6], [3], [1], [0]]).astype("int32")
    return x, mask


def by_hand(mode, row):
    """One mode of the real tokens (n, H) of one text."""
    n = len(row)
    if mode == "cls":
        return row[0]
    if mode == "last_token":
        return row[-1]
    if mode == "max":
        return row.max(0)
    if mode == "mean_sqrt_length":
        return row.sum(0) / np.sqrt(n)
    if mode == "weighted_mean":
        return np.average(row, axis=0, weights=np.arange(1, n + 1))
    return row.mean(0)


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_by_hand(mode):
    x, mask = states()
    pooled = numbers(kbert.layers.SentencePooling(mode)(x, mask))
    for row, real, vector in zip(x, mask, pooled, strict=True):
        if real.any():
            expected = by_hand(mode, row[real == 1])
            np.testing.assert_allclose(vector, expected, atol=1e-6)
    padding = x[3, 0] if mode == "cls" else np.zeros(8)
    np.testing.assert_array_equal(pooled[3], padding)


@pytest.mark.parametrize("mode", MODES)
def test_padding_changes_nothing(mode):
    x, mask = states()
    layer = kbert.layers.SentencePooling(mode)
    longer = np.concatenate([x, np.full((4, 9, 8), 7.0, "float32")], 1)
    wider = np.concatenate([mask, np.zeros((4, 9), "int32")], 1)
    np.testing.assert_allclose(
        numbers(layer(longer, wider)), numbers(layer(x, mask)), atol=1e-6
    )
    whole = np.ones((4, 6), "int32")
    np.testing.assert_allclose(
        numbers(layer(x)), numbers(layer(x, whole)), atol=1e-6
    )


def test_modes_are_concatenated_in_order():
    x, mask = states()
    both = kbert.layers.SentencePooling(["max", "cls"])(x, mask)
    parts = [kbert.layers.SentencePooling(m)(x, mask) for m in ("max", "cls")]
    np.testing.assert_array_equal(
        numbers(both), np.concatenate([numbers(p) for p in parts], 1)
    )
    spec = kbert.layers.SentencePooling(["max", "cls"])(keras.Input((None, 8)))
    assert spec.shape == (None, 16)


def test_attention_by_hand():
    x, mask = states()
    layer = kbert.layers.SentencePooling("attention")
    layer(x, mask)
    query = np.linspace(-2, 2, 8).astype("float32")
    layer.query.assign(query)
    for row, real, vector in zip(
        x[:3], mask[:3], numbers(layer(x, mask))[:3], strict=True
    ):
        scores = np.exp(row[real == 1] @ query)
        expected = (scores[:, None] * row[real == 1]).sum(0) / scores.sum()
        np.testing.assert_allclose(vector, expected, atol=1e-5)
    layer.query.assign(query * 1e6)
    assert np.isfinite(numbers(layer(x, mask))).all()


def test_negative_maxima_and_half_precision():
    """A zero of padding is no maximum; sums of bfloat16 are float32."""
    x = np.full((1, 300, 2), -1.0, "float32")
    mask = (np.arange(300) < 290)[None].astype("int32")
    for mode in ("max", "mean", "weighted_mean", "last_token"):
        layer = kbert.layers.SentencePooling(mode, dtype="mixed_bfloat16")
        assert numbers(layer(x, mask)).tolist() == [[-1.0, -1.0]]


def test_unit_vectors_whatever_their_size():
    x = [[3.0, 4.0], [3e-30, 4e-30], [3e30, -4e30], [0.0, 0.0]]
    expected = [[0.6, 0.8], [0.6, 0.8], [0.6, -0.8], [0.0, 0.0]]
    x = np.array(x, "float32")
    head = kbert.layers.SentenceHead()
    np.testing.assert_allclose(numbers(head(x)), expected, atol=1e-6)
    plain = kbert.layers.SentenceHead(normalize=False)
    np.testing.assert_array_equal(numbers(plain(x)), x)


def test_head_trains_through_a_zero_vector():
    x = keras.Input((2,))
    y = kbert.layers.SentenceHead()(keras.layers.Dense(2, name="d")(x))
    model = keras.Model(x, y)
    model.compile(keras.optimizers.SGD(0.1), "mse")
    rows = np.array([[1.0, 2.0], [0.0, 0.0]], "float32")
    before = model.evaluate(rows, np.ones((2, 2)), verbose=0)
    model.fit(rows, np.ones((2, 2)), epochs=20, verbose=0)
    assert model.evaluate(rows, np.ones((2, 2)), verbose=0) < before


@pytest.mark.parametrize(
    "layer",
    [
        kbert.layers.SentencePooling(["mean", "attention"], name="pooling"),
        kbert.layers.SentenceHead(
            False, "dot", {"query": "ü: "}, "query", 128, name="head"
        ),
    ],
    ids=lambda layer: layer.name,
)
def test_config_round_trip(layer):
    config = keras.saving.serialize_keras_object(layer)
    again = keras.saving.deserialize_keras_object(config)
    assert again.get_config() == layer.get_config()


@pytest.mark.parametrize(
    ("error", "make"),
    [
        (ValueError, lambda: kbert.layers.SentencePooling([])),
        (ValueError, lambda: kbert.layers.SentencePooling(["mean", "sum"])),
        (ValueError, lambda: kbert.layers.SentenceHead(similarity="cos")),
        (TypeError, lambda: kbert.layers.SentenceHead(prompts={"a": 1})),
        (
            ValueError,
            lambda: kbert.layers.SentenceHead(default_prompt_name="a"),
        ),
    ],
)
def test_bad_arguments(error, make):
    with pytest.raises(error, match="Received: "):
        make()
