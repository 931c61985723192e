import keras
import numpy as np
import pytest
from keras import ops
from loss_reference import (
    compiled,
    cross_entropy,
    gradient,
    softmax,
    weighted_mean,
)

from kbert.losses import MaskedLMLoss, TokenClassificationLoss


def draw(seed=0, shape=(3, 5), classes=4):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, shape).astype("int32")
    logits = rng.normal(scale=3.0, size=(*shape, classes)).astype("float32")
    weights = rng.integers(0, 2, shape).astype("float32")
    weights[0, 0] = 1.0
    return np.where(weights > 0, labels, -100), logits, weights


def expected_loss(labels, logits, weights):
    labels = np.where(weights > 0, labels, 0)
    return weighted_mean(cross_entropy(labels, logits), weights)


def test_closed_forms():
    loss = TokenClassificationLoss()
    assert float(loss([[3, 0]], np.zeros((1, 2, 9)))) == pytest.approx(
        np.log(9)
    )
    logits = np.log([[[0.5, 0.5], [0.75, 0.25], [0.9, 0.1]]])
    # (log 2 + 2 · log 4/3) / 3
    value = loss([[0, 0, -100]], logits, [[1, 2, 0]])
    assert float(value) == pytest.approx((np.log(2) + 2 * np.log(4 / 3)) / 3)


@pytest.mark.parametrize("wrap", [lambda f: f, compiled])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 9)])
def test_equals_numpy(shape, wrap):
    labels, logits, weights = draw(1, shape)
    value = wrap(TokenClassificationLoss())(labels, logits, weights)
    expected = expected_loss(labels, logits, weights)
    assert float(value) == pytest.approx(expected, rel=1e-5)


def test_padding_changes_nothing():
    labels, logits, weights = draw()
    value = TokenClassificationLoss()(labels, logits, weights)
    pad = ((0, 0), (0, 40))
    padded = TokenClassificationLoss()(
        np.pad(labels, pad, constant_values=-100),
        np.pad(logits, (*pad, (0, 0)), constant_values=7.0),
        np.pad(weights, pad),
    )
    assert float(padded) == pytest.approx(float(value), rel=1e-6)


def test_gradient():
    labels, logits, weights = draw()
    expected = softmax(logits) - np.eye(4)[np.maximum(labels, 0)]
    expected *= (weights / weights.sum())[..., None]
    loss = TokenClassificationLoss()
    found = gradient(lambda z: loss(labels, z, weights), logits)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    zero = gradient(lambda z: loss(labels, z, 0 * weights), logits)
    np.testing.assert_array_equal(zero, 0.0)
    assert float(loss(labels, logits, 0 * weights)) == 0.0


def test_half_precision_logits_are_summed_in_float32():
    """In bfloat16 a mean over 2,048 tokens keeps two digits."""
    logits = np.zeros((2, 1024, 3), "float32")
    logits[..., 1] = np.linspace(-2, 2, 2048).reshape(2, 1024)
    half = ops.convert_to_tensor(logits, dtype="bfloat16")
    labels = np.ones((2, 1024), "int32")
    value = TokenClassificationLoss()(labels, half)
    rounded = ops.convert_to_numpy(ops.cast(half, "float32"))
    expected = cross_entropy(labels, rounded).mean()
    assert float(value) == pytest.approx(expected, rel=1e-5)


def test_a_label_of_no_class():
    labels, logits, weights = draw()
    labels[0, 0] = 4
    value = TokenClassificationLoss()(labels, logits, weights)
    assert np.isnan(float(value))
    weights[0, 0] = 0.0
    value = float(TokenClassificationLoss()(labels, logits, weights))
    assert value == pytest.approx(expected_loss(labels, logits, weights))


def test_is_the_mean_over_tokens_that_masked_lm_has():
    labels, logits, weights = draw(3)
    one = TokenClassificationLoss()(labels, logits, weights)
    two = MaskedLMLoss()(labels, logits, weights)
    assert float(one) == float(two)


def test_shapes_and_config():
    for labels, logits in [((2,), (2, 3)), ((2, 3), (2, 4, 5))]:
        with pytest.raises(ValueError, match=r"\(B, S, C\).*Received: "):
            TokenClassificationLoss()(
                np.zeros(labels, "int32"), np.zeros(logits)
            )
    loss = keras.losses.deserialize(
        keras.losses.serialize(TokenClassificationLoss(name="tags"))
    )
    assert type(loss) is TokenClassificationLoss and loss.name == "tags"
