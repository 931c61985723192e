"""Relative, rotary and local attention against plain numpy."""

import math

import keras
import numpy as np
import pytest
from keras import ops

import kbert
from kbert.layers.relative import bias_bucket, disentangled_bucket
from kbert.layers.rotary import rotate


def numbers(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def randomize(layer, seed=0):
    rng = np.random.default_rng(seed)
    for weight in layer.trainable_variables:
        weight.assign(rng.normal(0, 0.3, tuple(weight.shape)))
    return {w.path.split("/", 1)[1]: w.numpy() for w in layer.weights}


def states(length, batch=2, hidden=8, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(batch, length, hidden)).astype("float32")
    lengths = np.array([length, max(1, length // 3)])[:batch]
    mask = (np.arange(length) < lengths[:, None]).astype("int32")
    return x, mask


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def heads_of(w, x, name, heads):
    y = x @ w[f"{name}/kernel"] + w.get(f"{name}/bias", 0.0)
    return y.reshape(*x.shape[:-1], heads, -1)


def attend(w, x, scores, visible, heads):
    """From raw scores (B, N, S, S) to the layer's output."""
    scores = np.where(visible, scores, -np.inf)
    weights = softmax(scores)
    v = heads_of(w, x, "value", heads)
    context = np.einsum("bnts,bsnd->btnd", weights, v).reshape(x.shape)
    return context @ w["output_dense/kernel"] + w.get("output_dense/bias", 0)


def test_buckets_by_hand():
    """T5's and DeBERTa's rules at their corners, published sizes."""
    assert [bias_bucket(d, 32, 128) for d in (0, 1, 7, 8, 15, 16)] == [
        *(0, 1, 7, 8),
        9,
        10,
    ]
    assert [bias_bucket(d, 32, 128) for d in (64, 127, 128, 900)] == [
        *(14, 15, 15, 15)
    ]
    assert [bias_bucket(-d, 32, 128) for d in (1, 7, 8, 900)] == [
        *(17, 23, 24, 31)
    ]
    small = [disentangled_bucket(d, 256, 512) for d in range(-128, 129)]
    assert small == list(range(128, 385))
    far = [disentangled_bucket(d, 256, 512) for d in (129, 511, 512, 5000)]
    assert far == [256 + 129, 511, 511, 511]
    back = [disentangled_bucket(-d, 256, 512) for d in (129, 511, 512, 5000)]
    assert back == [256 - 129, 1, 0, 0]


def test_rotation_is_complex_multiplication():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 7, 3, 6)).astype("float32")
    pairs = x[..., :3] + 1j * x[..., 3:]
    speeds = 50.0 ** (-np.arange(3) / 3)
    turned = pairs * np.exp(1j * np.arange(7)[:, None] * speeds)[:, None, :]
    expected = np.concatenate([turned.real, turned.imag], axis=-1)
    np.testing.assert_allclose(numbers(rotate(x, 50.0)), expected, atol=1e-5)


def test_rotated_scores_depend_on_the_distance_alone():
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 8)).astype("float32")
    q, k = (
        numbers(rotate(np.tile(v, (1, 600, 1, 1)), 10000.0))[0, :, 0]
        for v in (q, k)
    )
    near = q[3] @ k[1], q[500] @ k[498]
    assert near[0] == pytest.approx(near[1], abs=1e-4)
    assert abs(q[3] @ k[1] - q[3] @ k[2]) > 1e-2


def test_rotation_in_half_precision_turns_by_exact_angles():
    """Position 8191 is no bfloat16 number."""
    x = np.ones((1, 8192, 1, 4), "float32")
    full = numbers(rotate(x, 160000.0))
    half = numbers(rotate(ops.cast(x, "bfloat16"), 160000.0))
    assert np.abs(full - half).max() < 0.01


def test_rotary_attention_without_bias_equals_numpy():
    x, mask = states(6)
    layer = kbert.layers.SelfAttention(
        8, 2, has_bias=False, rotary_base=30.0, name="attention"
    )
    layer.build((None, None, 8))
    w = randomize(layer)
    assert not any("bias" in name for name in w)
    q, k = (
        numbers(rotate(heads_of(w, x, name, 2).astype("float32"), 30.0))
        for name in ("query", "key")
    )
    scores = np.einsum("btnd,bsnd->bnts", q, k) / math.sqrt(4)
    expected = attend(w, x, scores, mask[:, None, None, :] == 1, 2)
    ours = numbers(layer(x, padding_mask=mask))
    np.testing.assert_allclose(ours, expected, atol=1e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 16, 31])
def test_local_attention_equals_a_mask_of_all_pairs(length, dropout):
    """Sequences of four windows and more take the path by blocks."""
    x, mask = states(length)
    layer = kbert.layers.SelfAttention(
        8, 2, dropout, window=2, name="attention"
    )
    layer.build((None, None, 8))
    w = randomize(layer)
    q, k = (heads_of(w, x, name, 2) for name in ("query", "key"))
    scores = np.einsum("btnd,bsnd->bnts", q, k) / math.sqrt(4)
    places = np.arange(length)
    near = np.abs(places[:, None] - places) <= 2
    for given in (mask, None):
        real = np.ones_like(mask) if given is None else given
        # A padding token far from all real ones sees nothing: not compared.
        visible = near & (real[:, None, None, :] == 1)
        visible |= np.eye(length, dtype=bool)
        expected = attend(w, x, scores, visible, 2)
        layer.dropout.rate = 0.0  # the same path, nothing dropped
        ours = numbers(layer(x, padding_mask=given, training=True))
        assert np.isfinite(ours).all()
        np.testing.assert_allclose(
            ours[real == 1], expected[real == 1], atol=1e-5
        )


def test_local_attention_drops_out_in_both_paths():
    for length in (5, 40):
        x, mask = states(length)
        layer = kbert.layers.SelfAttention(8, 2, 0.5, window=2)
        still = numbers(layer(x, padding_mask=mask))
        moved = numbers(layer(x, padding_mask=mask, training=True))
        assert np.abs(still - moved)[mask == 1].max() > 1e-3


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="others know the length"
)
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("length", [5, 8, 33])
def test_one_graph_serves_short_and_long_sequences(length, jit_compile):
    import tensorflow as tf

    x, mask = states(length)
    layer = kbert.layers.SelfAttention(8, 2, 0.0, window=2)

    def gradient(x, mask):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, padding_mask=mask)
            loss = tf.reduce_sum(
                tf.square(y) * tf.cast(mask[..., None], y.dtype)
            )
        return y, tape.gradient(loss, x)

    shapes = [
        tf.TensorSpec((None, None, 8)),
        tf.TensorSpec((None, None), "int32"),
    ]
    layer(x)
    expected = gradient(tf.constant(x), tf.constant(mask))
    traced = tf.function(gradient, shapes, jit_compile=jit_compile)
    for ours, value in zip(traced(x, mask), expected, strict=True):
        np.testing.assert_allclose(
            ours.numpy()[mask == 1], value.numpy()[mask == 1], atol=1e-5
        )


def test_relative_bias_equals_numpy():
    x, _ = states(40)
    layer = kbert.layers.RelativeBias(2, 8, 16, name="bias")
    layer.build(x.shape)
    table = randomize(layer)["embeddings"]
    ours = numbers(layer(x))
    assert ours.shape == (1, 2, 40, 40)
    for i in range(40):
        for j in range(40):
            row = table[bias_bucket(i - j, 8, 16)]
            np.testing.assert_array_equal(ours[0, :, i, j], row)


@pytest.mark.parametrize("length", [1, 2, 5, 19])
def test_disentangled_attention_equals_numpy(length):
    """Each pair of tokens looks its two rows up, one pair at a time."""
    x, mask = states(length)
    layer = kbert.layers.SelfAttention(8, 2, name="attention")
    layer.build((None, None, 8))
    w = randomize(layer)
    relative = kbert.layers.RelativeEmbedding(8, 4, 6, name="relative")
    relative.build(x.shape)
    table = randomize(relative, seed=3)
    rows = table["embeddings"].astype("float64")
    rows = rows - rows.mean(-1, keepdims=True)
    rows = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-7)
    rows = rows * table["layer_norm/gamma"] + table["layer_norm/beta"]

    q, k = (heads_of(w, x, name, 2) for name in ("query", "key"))
    row_q, row_k = (heads_of(w, rows, name, 2) for name in ("query", "key"))
    scores = np.einsum("btnd,bsnd->bnts", q, k)
    for i in range(length):
        for j in range(length):
            row = disentangled_bucket(i - j, 4, 6)
            scores[:, :, i, j] += np.einsum("bnd,nd->bn", q[:, i], row_k[row])
            scores[:, :, i, j] += np.einsum("bnd,nd->bn", k[:, j], row_q[row])
    scores /= math.sqrt(3 * 4)
    expected = attend(w, x, scores, mask[:, None, None, :] == 1, 2)
    embeddings = relative(x)
    assert embeddings.shape == (2 * length, 8)
    ours = layer(x, padding_mask=mask, relative_embeddings=embeddings)
    np.testing.assert_allclose(numbers(ours), expected, atol=2e-5)


def test_attention_bias_is_added_before_padding_is_masked():
    x, mask = states(6)
    layer = kbert.layers.SelfAttention(8, 2, name="attention")
    layer.build((None, None, 8))
    w = randomize(layer)
    bias = np.random.default_rng(0).normal(size=(1, 2, 6, 6)) * 3
    bias[..., 5] = 1e4  # no bias brings padding back
    q, k = (heads_of(w, x, name, 2) for name in ("query", "key"))
    scores = np.einsum("btnd,bsnd->bnts", q, k) / 2 + bias
    expected = attend(w, x, scores, mask[:, None, None, :] == 1, 2)
    ours = layer(x, padding_mask=mask, attention_bias=bias.astype("float32"))
    np.testing.assert_allclose(numbers(ours), expected, atol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("kind", ["window", "bias", "disentangled"])
def test_half_precision_is_near_and_finite(policy, kind):
    # JAX on CPU has no float16 product of this form.
    if keras.backend.backend() == "jax" and policy == "mixed_float16":
        pytest.skip("JAX on CPU cannot compile float16 attention")
    x, mask = states(20)
    mask[1] = 0  # nothing real at all

    def run(dtype):
        options = {"window": 2} if kind == "window" else {}
        layer = kbert.layers.SelfAttention(8, 2, dtype=dtype, **options)
        layer.build((None, None, 8))
        randomize(layer)
        given = {}
        if kind == "bias":
            relative = kbert.layers.RelativeBias(2, dtype=dtype)
            relative.build(x.shape)
            randomize(relative)
            given["attention_bias"] = relative(x)
        if kind == "disentangled":
            relative = kbert.layers.RelativeEmbedding(8, dtype=dtype)
            relative.build(x.shape)
            randomize(relative)
            given["relative_embeddings"] = relative(x)
        return numbers(layer(x, padding_mask=mask, **given))

    half = run(policy)
    assert np.isfinite(half).all()
    full = run("float32")
    np.testing.assert_allclose(half[mask == 1], full[mask == 1], atol=0.1)


def test_pre_norm_gated_block_equals_numpy():
    x, mask = states(6)
    for has_input_norm in (True, False):
        block = kbert.layers.EncoderBlock(
            8,
            2,
            12,
            "silu",
            layer_norm_epsilon=1e-5,
            has_bias=False,
            pre_norm=True,
            has_input_norm=has_input_norm,
            gated=True,
            name="block",
        )
        block.build(x.shape)
        w = randomize(block)

        def norm(x, name, w=w):
            x = x - x.mean(-1, keepdims=True)
            x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
            return x * w[f"{name}/gamma"]

        inner = {
            name.removeprefix("attention/"): value
            for name, value in w.items()
            if name.startswith("attention/")
        }
        seen = norm(x, "attention_layer_norm") if has_input_norm else x
        q, k = (heads_of(inner, seen, name, 2) for name in ("query", "key"))
        scores = np.einsum("btnd,bsnd->bnts", q, k) / 2
        visible = mask[:, None, None, :] == 1
        h = x + attend(inner, seen, scores, visible, 2)
        y = norm(h, "output_layer_norm")
        z = y @ w["intermediate/kernel"]
        z = z / (1 + np.exp(-z)) * (y @ w["gate/kernel"])
        expected = h + z @ w["output_dense/kernel"]
        ours = numbers(block(x, padding_mask=mask))
        np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_sentence_pooling_equals_numpy():
    x, mask = states(9)
    mask[1] = 0
    mean = numbers(kbert.layers.SentencePooling("mean")(x, padding_mask=mask))
    np.testing.assert_allclose(mean[0], x[0].mean(0), atol=1e-6)
    np.testing.assert_array_equal(mean[1], np.zeros(8))
    first = kbert.layers.SentencePooling("cls")(x, padding_mask=mask)
    np.testing.assert_array_equal(numbers(first), x[:, 0])


def test_pooling_counts_in_float32():
    x = np.ones((1, 300, 2), "float32")
    layer = kbert.layers.SentencePooling("mean", dtype="mixed_bfloat16")
    mask = np.ones((1, 300), "int32")
    assert numbers(layer(x, padding_mask=mask)).tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: kbert.layers.SentencePooling("max pooling"),
        lambda: kbert.layers.EncoderBlock(8, 2, 8, has_input_norm=False),
    ],
)
def test_bad_arguments(make):
    with pytest.raises(ValueError, match="Received: "):
        make()
