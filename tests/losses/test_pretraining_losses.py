"""NextSentenceLoss and ReplacedTokenLoss; the shared mean is tested with
MaskedLMLoss."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_reference import (
    binary_cross_entropy,
    compiled,
    cross_entropy,
    gradient,
    softmax,
    weighted_mean,
)

from kbert.losses import NextSentenceLoss, ReplacedTokenLoss


def test_next_sentence_closed_form():
    logits = np.log([[0.5, 0.5], [0.75, 0.25]])
    # The first is random, the second follows.
    value = NextSentenceLoss()([1, 0], logits)
    expected = (np.log(2) + np.log(4 / 3)) / 2
    assert float(value) == pytest.approx(expected)


def test_next_sentence_gradient():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(6, 2)).astype("float32")
    labels = rng.integers(0, 2, 6)
    found = gradient(lambda z: NextSentenceLoss()(labels, z), logits)
    expected = (softmax(logits) - np.eye(2)[labels]) / 6
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_rows_that_fill_up_a_batch_do_not_count():
    logits = np.array([[0.0, 2.0], [1.0, -1.0], [9.0, -9.0]], "float32")
    alone = NextSentenceLoss()([0, 1], logits[:2])
    filled = NextSentenceLoss()([0, 1, 1], logits, [1, 1, 0])
    assert float(filled) == pytest.approx(float(alone), rel=1e-6)
    assert float(NextSentenceLoss()([0, 1, 1], logits, [0, 0, 0])) == 0.0


def test_replaced_token_closed_form():
    logits = np.log([[3.0, 1.0, 1 / 3]])  # 3/4, 1/2 and 1/4 "replaced"
    value = ReplacedTokenLoss()([[1, 0, 1]], logits)
    expected = (np.log(4 / 3) + np.log(2) + np.log(4)) / 3
    assert float(value) == pytest.approx(expected)
    value = ReplacedTokenLoss()([[1, 0, 1]], logits, [[1, 0, 1]])
    expected = (np.log(4 / 3) + np.log(4)) / 2
    assert float(value) == pytest.approx(expected)


def test_a_tiny_loss_keeps_its_digits():
    value = ReplacedTokenLoss()([[1, 0]], np.array([[30.0, -30.0]]))
    assert float(value) == pytest.approx(np.exp(-30), rel=1e-5, abs=0.0)


def test_replaced_token_gradient():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3, 4)).astype("float32")
    labels = rng.integers(0, 2, (3, 4))
    weights = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]], "float32")
    found = gradient(lambda z: ReplacedTokenLoss()(labels, z, weights), logits)
    expected = (1 / (1 + np.exp(-logits)) - labels) * weights / 4
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_huge_logits_are_finite():
    logits = np.array([[1e4, -1e4, 1e4, -1e4]], "float32")
    labels = [[1, 1, 0, 0]]
    assert float(ReplacedTokenLoss()(labels, logits)) == pytest.approx(5e3)
    found = gradient(lambda z: ReplacedTokenLoss()(labels, z), logits)
    np.testing.assert_allclose(found, [[0, -0.25, 0.25, 0]], atol=1e-7)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.sampled_from([1, 5]),
    length=st.sampled_from([1, 6]),
    scale=st.sampled_from([0.0, 1.0, 30.0, 1e4]),
    share=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_equal_numpy(seed, rows, length, scale, share):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, (rows, length))
    logits = rng.normal(scale=scale, size=(rows, length)).astype("float32")
    weights = rng.binomial(1, share, (rows, length)).astype("int32")
    tolerance = float(1e-6 * (1 + np.abs(logits).max()))
    expected = weighted_mean(binary_cross_entropy(labels, logits), weights)
    value = ReplacedTokenLoss()(labels, logits, weights)
    assert float(value) == pytest.approx(expected, rel=1e-5, abs=tolerance)
    pairs = np.stack([logits[:, 0], -logits[:, -1]], axis=-1)
    values = cross_entropy(labels[:, 0], pairs)
    expected = weighted_mean(values, weights[:, 0])
    value = NextSentenceLoss()(labels[:, 0], pairs, weights[:, 0])
    assert float(value) == pytest.approx(expected, rel=1e-5, abs=tolerance)


@pytest.mark.parametrize("wrap", [lambda f: f, compiled])
@pytest.mark.parametrize("label", [-1, 2, -100])
def test_a_label_that_is_neither_0_nor_1(label, wrap):
    pairs, tokens = wrap(NextSentenceLoss()), wrap(ReplacedTokenLoss())
    logits = np.array([[0.3, 0.7], [1.0, 2.0]], "float32")
    ones = np.ones((2, 2), "float32")
    some = np.array([[1, 0], [1, 1]], "float32")
    first = np.array([1, 0], "float32")
    labels = np.array([[0, label], [0, 1]], "int32")
    assert np.isnan(float(tokens(labels, logits, ones)))
    right = np.maximum(labels, 0)
    right[0, 1] = 0
    assert float(tokens(labels, logits, some)) == float(
        tokens(right, logits, some)
    )
    labels = np.array([1, label], "int32")
    assert np.isnan(float(pairs(labels, logits, ones[0])))
    assert float(pairs(labels, logits, first)) == pytest.approx(
        float(cross_entropy([1], logits[:1])[0]), rel=1e-5
    )


@pytest.mark.parametrize(
    "loss, labels, logits, weights",
    [
        (NextSentenceLoss, (4,), (4, 3), None),
        (NextSentenceLoss, (4,), (4,), None),
        (NextSentenceLoss, (4,), (5, 2), None),
        (NextSentenceLoss, (4, 1), (4, 2), None),
        (NextSentenceLoss, (4,), (4, 2), (4, 1)),
        (NextSentenceLoss, (4, 2), (4, 2, 2), None),
        (ReplacedTokenLoss, (4, 3), (4, 3, 1), None),
        (ReplacedTokenLoss, (4, 3), (4, 2), None),
        (ReplacedTokenLoss, (4, 3), (4, 3), (4,)),
        (ReplacedTokenLoss, (4,), (4,), None),
    ],
)
def test_bad_shapes(loss, labels, logits, weights):
    with pytest.raises(ValueError, match=r"Received: .*\(4"):
        loss()(
            np.zeros(labels, "int32"),
            np.zeros(logits, "float32"),
            None if weights is None else np.ones(weights, "float32"),
        )


@pytest.mark.parametrize("loss", [NextSentenceLoss, ReplacedTokenLoss])
def test_config_round_trip(loss):
    again = keras.losses.deserialize(keras.losses.serialize(loss(name="x")))
    assert type(again) is loss and again.get_config() == {"name": "x"}
