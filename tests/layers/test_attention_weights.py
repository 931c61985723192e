"""The weights of attention against what a call makes of the values."""

import keras
import numpy as np
import pytest
from keras import ops

import kbert

LENGTH = 13
MASK = (np.arange(LENGTH) < np.array([13, 8])[:, None]).astype("int32")
SEQUENCES = np.array([[1] * 6 + [2] * 7, [1] * 3 + [2] * 5 + [0] * 5])


def numbers(x):
    return ops.convert_to_numpy(x)


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(0, 1, shape).astype("float32")


@pytest.mark.parametrize("given", ["padding_mask", "sequence_ids"])
@pytest.mark.parametrize(
    "options, more",
    [
        ({}, {}),
        ({"rotary_base": 50.0}, {}),
        ({"rotary_base": 50.0, "window": 2}, {}),  # the call goes by blocks
        ({}, {"attention_bias": draw(1, 2, LENGTH, LENGTH)}),
        ({}, {"relative_embeddings": draw(2 * LENGTH, 8)}),
    ],
    ids=["plain", "rotary", "window", "bias", "distances"],
)
def test_they_are_what_a_call_gives_the_values(options, more, given):
    layer = kbert.layers.SelfAttention(
        8, num_heads=2, initializer_range=0.8, **options
    )
    x = draw(2, LENGTH, 8, seed=1)
    more = {**more, given: MASK if given == "padding_mask" else SEQUENCES}
    output = numbers(layer(x, **more))
    weights = numbers(layer.attention_weights(x, **more))
    assert weights.shape == (2, 2, LENGTH, LENGTH)
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-6)
    value = numbers(layer.value(x)).reshape(2, LENGTH, 2, 4)
    context = np.einsum("bnts,bsnd->btnd", weights, value)
    expected = numbers(layer.output_dense(context.reshape(2, LENGTH, 8)))
    real = MASK.astype(bool)
    np.testing.assert_allclose(output[real], expected[real], atol=1e-5)
    assert np.ptp(weights[0, 0, 0]) > 0.05  # not all the same


def test_what_a_token_does_not_see_weighs_nothing():
    layer = kbert.layers.SelfAttention(8, num_heads=2, window=3)
    x = draw(2, LENGTH, 8)
    layer(x)
    weights = numbers(layer.attention_weights(x, sequence_ids=SEQUENCES))
    place = np.arange(LENGTH)
    near = np.abs(place[:, None] - place) <= 3
    same = SEQUENCES[:, :, None] == SEQUENCES[:, None, :]
    seen = np.broadcast_to((near & same)[:, None], weights.shape)
    assert weights[~seen].max() == 0.0
    assert weights[seen].min() > 0.0


@pytest.mark.parametrize("pre_norm", [True, False])
def test_a_block_reads_what_its_attention_reads(pre_norm):
    block = kbert.layers.EncoderBlock(
        8, 2, intermediate_size=16, pre_norm=pre_norm, initializer_range=0.8
    )
    x = draw(2, LENGTH, 8)
    block(x, MASK)
    read = x
    if pre_norm:
        spread = np.sqrt(x.var(-1, keepdims=True) + block.layer_norm_epsilon)
        read = (x - x.mean(-1, keepdims=True)) / spread
    expected = numbers(block.attention.attention_weights(read, MASK))
    weights = numbers(block.attention_weights(x, MASK))
    np.testing.assert_allclose(weights, expected, atol=1e-5)


def test_half_precision_gives_float32():
    layer = kbert.layers.SelfAttention(8, 2, dtype="mixed_bfloat16")
    x = draw(2, LENGTH, 8)
    layer(x)
    weights = layer.attention_weights(ops.cast(x, "bfloat16"), MASK)
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    np.testing.assert_allclose(numbers(weights).sum(-1), 1.0, atol=1e-6)
