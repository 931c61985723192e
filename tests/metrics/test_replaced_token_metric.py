import keras
import numpy as np
import pytest

from kbert.metrics import ReplacedTokenAccuracy


def test_closed_form():
    logits = [[2.0, -1.0, 3.0], [0.0, 0.5, -9.0]]
    labels, weights = [[1, 1, 0], [0, 1, 7]], [[1, 1, 0], [1, 1, 0]]
    accuracy = ReplacedTokenAccuracy()
    assert float(accuracy(labels, logits, sample_weight=weights)) == 0.75
    accuracy.reset_state()
    assert float(accuracy(labels, logits)) == 0.5  # 7 is never right


def test_each_token_weighs_the_same_over_batches():
    rng = np.random.default_rng(0)
    accuracy, right, total = ReplacedTokenAccuracy(), 0, 0
    for shape in [(2, 7), (5, 3), (1, 9)]:
        labels, mask = rng.integers(0, 2, (2, *shape))
        logits = rng.normal(size=shape).astype("float32")
        accuracy.update_state(labels, logits, sample_weight=mask)
        right += ((logits > 0) == labels)[mask == 1].sum()
        total += mask.sum()
    assert float(accuracy.result()) == pytest.approx(right / total, abs=1e-6)


def test_shapes_and_config():
    with pytest.raises(ValueError, match=r"Received: .*\(1, 2, 1\)"):
        ReplacedTokenAccuracy()([[0, 1]], [[[0.0], [1.0]]])
    metric = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(ReplacedTokenAccuracy(name="a"))
    )
    assert type(metric) is ReplacedTokenAccuracy and metric.name == "a"
