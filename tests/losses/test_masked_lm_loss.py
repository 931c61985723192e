import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops
from loss_reference import (
    compiled,
    cross_entropy,
    gradient,
    softmax,
    weighted_mean,
)

from kbert.losses import MaskedLMLoss


def draw(seed=0, shape=(3, 5), vocab=7, scale=3.0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, vocab, shape).astype("int32")
    logits = rng.normal(scale=scale, size=(*shape, vocab)).astype("float32")
    weights = rng.integers(0, 2, shape).astype("float32")
    weights[0, 0] = 1.0
    return labels, logits, weights


def test_closed_forms():
    loss = MaskedLMLoss()
    logits = np.zeros((1, 2, 8), "float32")
    assert float(loss([[3, 0]], logits)) == pytest.approx(np.log(8))
    logits = np.log([[[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]])
    one = loss([[0, 2]], logits, [[1.0, 0.0]])
    assert float(one) == pytest.approx(np.log(2))
    # (1 · log 2 + 3 · log 1.25) / 4
    both = loss([[0, 2]], logits, [[1.0, 3.0]])
    assert float(both) == pytest.approx((np.log(2) + 3 * np.log(1.25)) / 4)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.sampled_from([(1, 1), (1, 6), (4, 1), (3, 5)]),
    vocab=st.sampled_from([2, 7, 40]),
    scale=st.sampled_from([0.0, 1e-3, 1.0, 30.0, 1e4]),
    kind=st.sampled_from(["none", "binary", "real", "zero"]),
)
def test_equals_numpy(seed, shape, vocab, scale, kind):
    labels, logits, binary = draw(seed, shape, vocab, scale)
    real = np.random.default_rng(seed).uniform(0, 9, shape).astype("float32")
    zero = np.zeros(shape, "float32")
    weights = {"none": None, "binary": binary, "real": real, "zero": zero}[kind]
    expected = weighted_mean(
        cross_entropy(labels, logits),
        np.ones(shape) if weights is None else weights,
    )
    value = MaskedLMLoss()(labels, logits, weights)
    assert ops.shape(value) == ()
    assert keras.backend.standardize_dtype(value.dtype) == "float32"
    tolerance = float(1e-6 * (1 + np.abs(logits).max()))
    assert float(value) == pytest.approx(expected, rel=1e-5, abs=tolerance)


def test_unused_slots_change_nothing():
    labels, logits, weights = draw()
    few = MaskedLMLoss()(labels, logits, weights)
    pad = ((0, 0), (0, 90))
    many = MaskedLMLoss()(
        np.pad(labels, pad),
        np.pad(logits, (*pad, (0, 0)), constant_values=5.0),
        np.pad(weights, pad),
    )
    assert float(many) == pytest.approx(float(few), rel=1e-6)


def test_gradient_is_softmax_minus_one_hot():
    labels, logits, weights = draw()
    expected = softmax(logits) - np.eye(7)[labels]
    expected *= (weights / weights.sum())[..., None]
    found = gradient(lambda z: MaskedLMLoss()(labels, z, weights), logits)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_one_masked_token_is_all_of_the_loss():
    labels, logits, weights = draw()
    weights = np.zeros_like(weights)
    weights[2, 1] = 1.0
    value = MaskedLMLoss()(labels, logits, weights)
    expected = cross_entropy(labels, logits)[2, 1]
    assert float(value) == pytest.approx(expected, rel=1e-5)
    found = gradient(lambda z: MaskedLMLoss()(labels, z, weights), logits)
    assert np.abs(found[2, 1]).max() > 0.01
    found[2, 1] = 0.0
    assert not found.any()


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_no_masked_token_is_zero_with_a_zero_gradient(scale):
    labels, logits, weights = draw(scale=scale)
    zero = np.zeros_like(weights)
    assert float(MaskedLMLoss()(labels, logits, zero)) == 0.0
    found = gradient(lambda z: MaskedLMLoss()(labels, z, zero), logits)
    np.testing.assert_array_equal(found, 0.0)


def test_huge_logits_are_finite():
    logits = np.array([[[1e4, -1e4], [1e4, -1e4]]], "float32")
    labels = [[0, 1]]
    value = MaskedLMLoss()(labels, logits)
    assert float(value) == pytest.approx(1e4, rel=1e-6)
    found = gradient(lambda z: MaskedLMLoss()(labels, z), logits)
    np.testing.assert_allclose(found, [[[0, 0], [0.5, -0.5]]], atol=1e-6)


@pytest.mark.parametrize("floatx", ["float32", "bfloat16", "float16"])
def test_ids_are_not_rounded(floatx):
    # bfloat16 has 30464 and 30592, float16 30512 and 30528.
    logits = np.zeros((1, 1, 30522), "float32")
    logits[0, 0, 30521] = 20.0
    before = keras.config.floatx()
    keras.config.set_floatx(floatx)
    try:
        value = MaskedLMLoss()(
            np.array([[30521]], "int32"),
            ops.convert_to_tensor(logits, dtype=floatx),
            np.ones((1, 1), "int32"),
        )
    finally:
        keras.config.set_floatx(before)
    expected = cross_entropy([[30521]], logits)
    assert float(value) == pytest.approx(float(expected[0, 0]), rel=1e-3)


@pytest.mark.parametrize("wrap", [lambda f: f, compiled])
@pytest.mark.parametrize("label", [-100, -1, 7, 2**24, 2.5])
def test_a_label_out_of_the_vocabulary(label, wrap):
    labels, logits, weights = draw()
    labels = labels.astype(np.asarray(label).dtype.name.replace("64", "32"))
    weights[1] = [0, 1, 1, 0, 1]
    loss = wrap(MaskedLMLoss())
    expected = float(loss(labels, logits, weights))
    unused, used = labels.copy(), labels.copy()
    unused[1, 0], used[1, 1] = label, label
    assert float(loss(unused, logits, weights)) == expected
    assert np.isnan(float(loss(used, logits, weights)))
    if wrap is compiled:
        return
    # It does not spoil the weights of the model.
    found = gradient(lambda z: loss(used, z, weights), logits)
    assert np.isfinite(found).all() and not found[1, 1].any()


def test_a_keras_mask_takes_tokens_out():
    """Keras hands it on from `Embedding(mask_zero=True)`, unasked."""
    labels, logits, weights = draw()
    mask = np.ones_like(weights)
    mask[:, 3:] = 0.0
    for passed, used in ((None, mask), (weights, mask * weights)):
        masked = ops.convert_to_tensor(logits)
        masked._keras_mask = ops.convert_to_tensor(mask, dtype="bool")
        value = MaskedLMLoss()(labels, masked, passed)
        expected = weighted_mean(cross_entropy(labels, logits), used)
        assert float(value) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "labels, logits, weights",
    [
        ((2, 3), (2, 3), None),
        ((2, 3), (2, 4, 5), None),
        ((2, 3, 1), (2, 3, 5), None),
        ((2,), (2, 5), None),
        ((2, 3, 4), (2, 3, 4, 5), None),
        ((2, 3), (2, 3, 5), (2,)),
        ((2, 3), (2, 3, 5), (2, 1)),
        ((2, 3), (2, 3, 5), (2, 3, 5)),
    ],
)
def test_bad_shapes(labels, logits, weights):
    with pytest.raises(ValueError, match=r"Received: .*\(2"):
        MaskedLMLoss()(
            np.zeros(labels, "int32"),
            np.zeros(logits, "float32"),
            None if weights is None else np.ones(weights, "float32"),
        )


def test_config_round_trip():
    loss = MaskedLMLoss(name="words")
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert type(again) is MaskedLMLoss
    assert again.get_config() == loss.get_config() == {"name": "words"}
