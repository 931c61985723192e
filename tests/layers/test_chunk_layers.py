import keras
import numpy as np
import pytest
from keras import ops

import kbert
from kbert.layers import ChunkPooling, MergeChunks, SplitChunks

# Three documents: two chunks and one of padding; three; none at all.
MASK = np.array(
    [
        [[1, 1], [1, 0], [0, 0]],
        [[1, 1], [1, 1], [1, 0]],
        [[0, 0], [0, 0], [0, 0]],
    ],
    "int32",
)


def numbers(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def vectors(seed=0):
    return np.random.default_rng(seed).normal(0, 2, (3, 3, 4)).astype("float32")


def by_hand(layer, x, mask):
    """The aggregates of documents one by one, in float64."""
    result = np.zeros((len(x), x.shape[-1]))
    for row, (chunks, real) in enumerate(zip(x, mask.any(-1), strict=True)):
        chunks = chunks[real].astype("float64")
        if not len(chunks):
            continue
        if layer.aggregate == "mean":
            result[row] = chunks.mean(0)
        elif layer.aggregate == "max":
            result[row] = chunks.max(0)
        else:
            kernel, bias = (numbers(w) for w in layer.dense.weights)
            scores = np.tanh(chunks @ kernel + bias) @ numbers(
                layer.score.kernel
            )
            weights = np.exp(scores) / np.exp(scores).sum()
            result[row] = (weights * chunks).sum(0)
    return result


def make(aggregate, **options):
    layer = ChunkPooling(aggregate, attention_size=5, **options)
    layer.build((None, None, 4))
    rng = np.random.default_rng(1)
    for weight in layer.weights:
        weight.assign(rng.normal(0, 1, tuple(weight.shape)))
    return layer


@pytest.mark.parametrize("aggregate", ["mean", "max", "attention"])
def test_pooling_is_that_of_real_chunks_alone(aggregate):
    layer, x = make(aggregate), vectors()
    got = numbers(layer(x, MASK))
    np.testing.assert_allclose(got, by_hand(layer, x, MASK), atol=1e-6)
    x[0, 2] = x[2] = 1e30  # where there is padding alone
    np.testing.assert_array_equal(numbers(layer(x, MASK)), got)
    everything = np.ones_like(MASK)
    np.testing.assert_array_equal(
        numbers(layer(vectors())), numbers(layer(vectors(), everything))
    )


@pytest.mark.parametrize("aggregate", ["mean", "max", "attention"])
def test_bfloat16_sums_in_float32(aggregate):
    layer = make(aggregate, dtype="mixed_bfloat16")
    x = np.ones((1, 600, 4), "float32")
    mask = np.ones((1, 600, 1), "int32")
    pooled = layer(x, mask)
    assert keras.backend.standardize_dtype(pooled.dtype) == "bfloat16"
    np.testing.assert_allclose(numbers(pooled), 1.0, atol=4e-3)


def test_fresh_attention_is_the_mean():
    layer, x = ChunkPooling("attention"), vectors()
    np.testing.assert_allclose(
        numbers(layer(x, MASK)), numbers(ChunkPooling()(x, MASK)), atol=1e-6
    )


def test_chunks_become_rows_and_come_back_in_order():
    chunks = np.arange(2 * 3 * 5).reshape(2, 3, 5).astype("int32")
    rows = MergeChunks()(chunks)
    assert keras.backend.standardize_dtype(rows.dtype) == "int32"
    np.testing.assert_array_equal(
        ops.convert_to_numpy(rows), chunks.reshape(6, 5)
    )
    vectors = np.arange(6 * 4).reshape(6, 4).astype("float32")
    back = numbers(SplitChunks()(vectors, chunks))
    np.testing.assert_array_equal(back[1, 2], vectors[5])
    np.testing.assert_array_equal(back[0, 1], vectors[1])


def test_shapes_that_are_known_stay_known():
    x = keras.Input((3, 5), batch_size=2, dtype="int32")
    assert MergeChunks()(x).shape == (6, 5)
    assert MergeChunks()(keras.Input((None, None))).shape == (None, None)
    rows = keras.KerasTensor((6, 8))
    assert SplitChunks()(rows, x).shape == (2, 3, 8)


def test_layers_come_back_from_their_configs():
    layer = ChunkPooling("attention", attention_size=7, name="pool")
    again = ChunkPooling.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert (again.aggregate, again.attention_size) == ("attention", 7)


@pytest.mark.parametrize(
    "options", [{"aggregate": "sum"}, {"attention_size": 0}]
)
def test_wrong_options_are_named(options):
    [(name, value)] = options.items()
    with pytest.raises(ValueError, match=f"Received: {name}={value!r}"):
        kbert.layers.ChunkPooling(**options)
