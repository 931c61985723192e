import keras
import numpy as np
import pytest

from kbert.metrics import TokenAccuracy


def batches(lengths=(3, 12, 7)):
    rng = np.random.default_rng(0)
    for length in lengths:
        labels = rng.integers(0, 4, (5, length))
        logits = rng.normal(size=(5, length, 4)).astype("float32")
        logits += 2 * np.eye(4)[labels] * rng.integers(0, 2, (5, 1, 1))
        weights = np.zeros((5, length), "float32")
        weights[:, : min(length, 4)] = rng.integers(0, 2, (5, min(length, 4)))
        yield np.where(weights > 0, labels, -100), logits, weights


def shares(metric):
    """The metric's value, and the share of the right tokens."""
    right, total = 0, 0
    for labels, logits, weights in batches():
        # Keras' own metric takes no label of -100.
        metric.update_state(np.maximum(labels, 0), logits, weights)
        right += ((logits.argmax(-1) == labels) * weights).sum()
        total += weights.sum()
    return float(metric.result()), right / total


def test_each_token_weighs_the_same_over_batches():
    found, expected = shares(TokenAccuracy())
    assert found == pytest.approx(expected, rel=1e-6)


def test_keras_accuracy_is_another_number():
    """What the metric is for: a token of a longer batch weighs less there."""
    found, expected = shares(keras.metrics.SparseCategoricalAccuracy())
    assert abs(found - expected) > 0.01


def test_closed_form():
    accuracy = TokenAccuracy()
    logits = [[[0.0, 2.0], [1.0, 0.0], [0.0, 3.0]]]
    assert float(accuracy([[1, 1, 5]], logits)) == pytest.approx(1 / 3)
    accuracy.reset_state()
    assert float(accuracy.result()) == 0.0
    assert float(accuracy([[1, 1, -100]], logits, [[1, 1, 0]])) == 0.5


def test_shapes_and_config():
    with pytest.raises(ValueError, match=r"\(B, S, C\).*Received: "):
        TokenAccuracy()([1, 0], [[0.0, 1.0], [1.0, 0.0]])
    metric = keras.metrics.deserialize(
        keras.metrics.serialize(TokenAccuracy(name="tags"))
    )
    assert type(metric) is TokenAccuracy and metric.name == "tags"
