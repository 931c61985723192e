"""Layers against plain numpy, under every dtype policy, saved and frozen."""

import math

import keras
import numpy as np
import pytest
from keras import ops

import kbert

HALF = ["mixed_bfloat16", "mixed_float16"]


def randomize(layer, seed=0):
    """Give every weight a value: biases and norms start at 0 and 1."""
    rng = np.random.default_rng(seed)
    for weight in layer.trainable_variables:
        weight.assign(rng.normal(0, 0.3, tuple(weight.shape)))
    return {w.path.split("/", 1)[1]: w.numpy() for w in layer.weights}


def numbers(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def layer_norm(x, gamma, beta, epsilon):
    x = x.astype("float64")
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * gamma + beta


def erf_gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def attention(w, x, mask, heads):
    """One head at a time, one query at a time; padding left out, not -inf."""
    batch, length, hidden = x.shape
    size = hidden // heads
    q, k, v = (
        x @ w[f"{n}/kernel"] + w[f"{n}/bias"] for n in ("query", "key", "value")
    )
    out = np.zeros((batch, length, hidden))
    for b in range(batch):
        real = np.flatnonzero(mask[b]) if mask[b].any() else np.arange(length)
        uniform = not mask[b].any()
        for h in range(heads):
            part = slice(h * size, (h + 1) * size)
            for t in range(length):
                scores = k[b, real, part] @ q[b, t, part] / math.sqrt(size)
                weights = np.exp(scores - scores.max())
                if uniform:
                    weights = np.ones(length)
                weights /= weights.sum()
                out[b, t, part] = weights @ v[b, real, part]
    return out @ w["output_dense/kernel"] + w["output_dense/bias"]


@pytest.fixture
def states():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3, 5, 8)).astype("float32")
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]])
    return x, mask.astype("int32")


def attention_layer(**kwargs):
    layer = kbert.layers.SelfAttention(8, 2, name="attention", **kwargs)
    layer.build((None, None, 8))
    return layer


def test_attention_equals_numpy_also_where_nothing_is_real(states):
    x, mask = states
    layer = attention_layer()
    weights = randomize(layer)
    expected = attention(weights, x, mask, heads=2)
    np.testing.assert_allclose(
        numbers(layer(x, padding_mask=mask)), expected, atol=1e-5
    )
    np.testing.assert_allclose(
        numbers(layer(x)),
        attention(weights, x, np.ones_like(mask), heads=2),
        atol=1e-5,
    )


def test_attention_path_with_dropout_is_the_same_function(states):
    x, mask = states
    layer = attention_layer(attention_dropout=0.5)
    randomize(layer)
    dropped = numbers(layer(x, padding_mask=mask, training=True))
    expected = numbers(layer(x, padding_mask=mask))
    assert np.abs(dropped - expected).max() > 1e-2
    layer.dropout.rate = 0.0
    same = numbers(layer(x, padding_mask=mask, training=True))
    np.testing.assert_allclose(same, expected, atol=1e-5)


def test_attention_dropout_keeps_the_mean(states):
    x, mask = states
    layer = attention_layer(attention_dropout=0.3)
    randomize(layer)
    expected = numbers(layer(x, padding_mask=mask))
    runs = [
        numbers(layer(x, padding_mask=mask, training=True)) for _ in range(400)
    ]
    error = np.std(runs, axis=0) / math.sqrt(len(runs))
    assert (np.abs(np.mean(runs, axis=0) - expected) < 5 * error + 1e-5).all()


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu"])
def test_block_equals_numpy(states, activation):
    x, mask = states
    block = kbert.layers.EncoderBlock(
        8,
        2,
        intermediate_size=12,
        activation=activation,
        layer_norm_epsilon=1e-3,
        name="block",
    )
    block.build((None, None, 8))
    w = randomize(block)
    inner_weights = {
        k.removeprefix("attention/"): v
        for k, v in w.items()
        if k.startswith("attention/")
    }
    attended = attention(inner_weights, x, mask, heads=2)

    def norm(name, values):
        return layer_norm(values, w[f"{name}/gamma"], w[f"{name}/beta"], 1e-3)

    act = {
        "gelu": erf_gelu,
        "gelu_tanh": lambda v: (
            0.5
            * v
            * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))
        ),
        "relu": lambda v: np.maximum(v, 0),
    }[activation]
    middle = norm("attention_layer_norm", x + attended)
    inner = act(middle @ w["intermediate/kernel"] + w["intermediate/bias"])
    outer = inner @ w["output_dense/kernel"] + w["output_dense/bias"]
    expected = norm("output_layer_norm", middle + outer)
    result = numbers(block(x, padding_mask=mask))
    np.testing.assert_allclose(result, expected, atol=1e-5)


@pytest.mark.parametrize("segments", [0, 1, 2])
@pytest.mark.parametrize("offset", [0, 2])
@pytest.mark.parametrize("embedding_size", [None, 4])
def test_embedding_equals_numpy(segments, offset, embedding_size):
    layer = kbert.layers.BertEmbedding(
        50,
        8,
        max_positions=6,
        num_segments=segments,
        position_offset=offset,
        embedding_size=embedding_size,
        name="embedding",
    )
    ids = np.array([[7, 7, 49, 0], [1, 2, 3, 4]])
    kinds = np.array([[0, 0, 1, 1], [1, 1, 1, 1]]) % max(segments, 1)
    given = (ids, kinds) if segments else (ids,)
    layer(*given)
    w = randomize(layer)
    assert w["position/embeddings"].shape[0] == 6 + offset
    x = w["token/embeddings"][ids]
    x = x + w["position/embeddings"][offset : offset + 4]
    if segments:
        x = x + w["segment/embeddings"][kinds]
    x = layer_norm(x, w["layer_norm/gamma"], w["layer_norm/beta"], 1e-12)
    if embedding_size:
        x = x @ w["projection/kernel"] + w["projection/bias"]
    np.testing.assert_allclose(numbers(layer(*given)), x, atol=1e-5)
    if segments:  # absent means all zero
        np.testing.assert_array_equal(
            numbers(layer(ids)), numbers(layer(ids, 0 * ids))
        )


def test_reverse_projects_with_the_same_table():
    layer = kbert.layers.BertEmbedding(50, 8, max_positions=6)
    hidden = layer(np.array([[1, 2, 3]]))
    w = randomize(layer)
    hidden = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
    np.testing.assert_allclose(
        numbers(layer(hidden, reverse=True)),
        hidden @ w["token/embeddings"].T,
        atol=1e-5,
    )


def test_pooler_and_head_equal_numpy():
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    pooler = kbert.layers.Pooler(8, name="pooler")
    head = kbert.layers.ClassificationHead(3, name="head")
    pooled = pooler(x)
    head(pooled)
    w, v = randomize(pooler), randomize(head, seed=1)
    expected = np.tanh(x[:, 0] @ w["dense/kernel"] + w["dense/bias"])
    np.testing.assert_allclose(numbers(pooler(x)), expected, atol=1e-5)
    np.testing.assert_allclose(
        numbers(head(expected.astype("float32"))),
        expected @ v["logits/kernel"] + v["logits/bias"],
        atol=1e-5,
    )


@pytest.mark.parametrize("policy", HALF)
def test_half_precision_is_near_and_finite(states, policy):
    x, mask = states
    exact = kbert.layers.EncoderBlock(8, 2, 16, name="block")
    half = kbert.layers.EncoderBlock(8, 2, 16, dtype=policy, name="block")
    exact.build((None, None, 8))
    half.build((None, None, 8))
    randomize(exact)
    half.set_weights(exact.get_weights())
    result = half(x, padding_mask=mask)
    assert keras.backend.standardize_dtype(result.dtype) == half.compute_dtype
    expected = numbers(exact(x, padding_mask=mask))
    np.testing.assert_allclose(numbers(result), expected, atol=0.06)
    big = numbers(half(30 * x, padding_mask=mask, training=True))
    assert np.isfinite(big).all()


@pytest.mark.parametrize("policy", HALF)
def test_half_precision_neither_casts_tables_nor_logits(policy):
    layer = kbert.layers.BertEmbedding(
        40000, 4, max_positions=4, dtype=policy, layer_norm_epsilon=1.0
    )
    layer(np.array([[0]]))
    table = np.zeros((40000, 4), "float32")
    # In bfloat16, 1 and 1 + 1/512 are one number.
    table[30521] = [1.0, 1 + 1 / 512, 1.0, 1.0]
    layer.token.embeddings.assign(table)
    for small in (layer.position, layer.segment):
        small.embeddings.assign(np.zeros(small.embeddings.shape))
    layer.layer_norm.gamma.assign(np.full(4, 1e3))
    result = numbers(layer(np.array([[30521, 30464]])))
    assert result[0, 0, 1] > 1 > 0 > result[0, 0, 0]
    assert (result[0, 1] == 0).all()

    head = kbert.layers.ClassificationHead(2, dtype=policy)
    logits = head(np.ones((1, 4), "float32"))
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"


def layers():
    return [
        kbert.layers.BertEmbedding(
            *(50, 8, 6, 1, 4, 2, 1, "bert", 0.2, 1e-5, 0.03, False, False),
            name="embedding",
        ),
        kbert.layers.SelfAttention(
            8, 4, 0.2, 0.03, False, 100.0, 5, name="attention"
        ),
        kbert.layers.EncoderBlock(
            8, 4, 12, "gelu_tanh", 0.2, 0.3, 1e-5, 0.03, name="block"
        ),
        kbert.layers.EncoderBlock(
            *(8, 4, 12, "silu", 0.2, 0.3, 1e-5, 0.03),
            *(False, True, False, True, 100.0, 3),
            name="pre_norm_block",
        ),
        kbert.layers.RelativeBias(2, 8, 16, 0.03, name="relative_bias"),
        kbert.layers.RelativeEmbedding(
            8, 4, 6, 1e-5, 0.03, name="relative_embedding"
        ),
        kbert.layers.SentencePooling("cls", name="pooling"),
        kbert.layers.Pooler(8, 0.03, name="pooler"),
        kbert.layers.ClassificationHead(
            2,
            0.2,
            0.03,
            ["a", "ü"],
            "multi_label_classification",
            dtype="mixed_bfloat16",
            name="head",
        ),
    ]


@pytest.mark.parametrize("layer", layers(), ids=lambda layer: layer.name)
def test_config_round_trip(layer):
    config = keras.saving.serialize_keras_object(layer)
    assert config["registered_name"].startswith("kbert>")
    again = keras.saving.deserialize_keras_object(config)
    assert again.get_config() == layer.get_config()
    # Every argument of the constructor is in the config, as an attribute.
    code = type(layer).__init__.__code__
    names = set(code.co_varnames[1 : code.co_argcount])
    assert names <= set(layer.get_config())
    for name in names:
        assert getattr(again, name) == getattr(layer, name)


def test_inside_somebody_elses_model():
    """Single layers, in a model kbert has not built."""
    ids = keras.Input((None,), dtype="int32")
    x = kbert.layers.BertEmbedding(30, 8, max_positions=16)(ids)
    x = keras.layers.Conv1D(8, 3, padding="same")(x)
    x = kbert.layers.EncoderBlock(8, 2, 16)(x)
    x = keras.layers.GlobalMaxPooling1D()(x)
    model = keras.Model(ids, keras.layers.Dense(1)(x))
    model.compile("adam", "mse")
    tokens = np.random.default_rng(0).integers(0, 30, (32, 7))
    target = (tokens == 3).any(axis=1).astype("float32")
    before = model.evaluate(tokens, target, verbose=0)
    model.fit(tokens, target, epochs=30, verbose=0)
    assert model.evaluate(tokens, target, verbose=0) < before / 2


def test_frozen_layers_drop_nothing(states):
    x, mask = states
    block = kbert.layers.EncoderBlock(8, 2, 16, hidden_dropout=0.5)
    expected = numbers(block(x, padding_mask=mask))
    trained = numbers(block(x, padding_mask=mask, training=True))
    assert np.abs(trained - expected).max() > 1e-3
    block.trainable = False
    frozen = numbers(block(x, padding_mask=mask, training=True))
    np.testing.assert_allclose(frozen, expected, atol=1e-6)

    embedding = kbert.layers.BertEmbedding(30, 8, 6, hidden_dropout=0.5)
    embedding.trainable = False
    ids = np.array([[1, 2, 3]])
    np.testing.assert_array_equal(
        numbers(embedding(ids, training=True)), numbers(embedding(ids))
    )


def test_fresh_weights_are_berts():
    """Truncated normal, cut at two deviations; different for each weight."""
    block = kbert.layers.EncoderBlock(128, 2, 512, initializer_range=0.05)
    block.build((None, None, 128))
    for weight in block.weights:
        values = weight.numpy()
        if weight.name == "kernel":
            # Keras on PyTorch cuts by drawing 4 times and keeps the rest:
            # 4 values in a million lie outside.
            assert np.mean(np.abs(values) > 0.1 + 1e-6) < 1e-4
            # A normal cut at ±2σ has 0.8796 of its deviation.
            assert values.std() == pytest.approx(0.05 * 0.8796, rel=0.03)
        else:
            assert (values == (1.0 if weight.name == "gamma" else 0.0)).all()
    query = block.attention.query.kernel.numpy()
    key = block.attention.key.kernel.numpy()
    assert abs(np.corrcoef(query.ravel(), key.ravel())[0, 1]) < 0.05


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: kbert.layers.SelfAttention(10, 3), ValueError, "multiple"),
        (lambda: kbert.layers.EncoderBlock(10, 3, 8), ValueError, "multiple"),
        (lambda: kbert.layers.ClassificationHead(0), ValueError, "at least 1"),
        (lambda: kbert.layers.ClassificationHead(2.0), TypeError, "an int"),
        (lambda: kbert.layers.ClassificationHead(True), TypeError, "an int"),
        (
            lambda: kbert.layers.ClassificationHead(2, label_names=["a"]),
            ValueError,
            "2 different names",
        ),
        (
            lambda: kbert.layers.ClassificationHead(2, label_names=["a", "a"]),
            ValueError,
            "2 different names",
        ),
        (
            lambda: kbert.layers.ClassificationHead(2, problem_type="many"),
            ValueError,
            "must be None or one of",
        ),
        (
            lambda: kbert.layers.ClassificationHead(2, label_names="ab"),
            TypeError,
            "list of strings",
        ),
        (
            lambda: kbert.layers.BertEmbedding(9, 8, 4)(np.ones((1, 5), int)),
            ValueError,
            "max_positions=4",
        ),
        (
            lambda: kbert.layers.BertEmbedding(9, 8, num_segments=0)(
                np.ones((1, 5), int), np.ones((1, 5), int)
            ),
            ValueError,
            "no segment table",
        ),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=rf"(?s){message}.*Received: "):
        make()


def test_numpy_integers_are_integers():
    head = kbert.layers.ClassificationHead(np.int64(3))
    assert head.get_config()["num_classes"] == 3


def test_a_layer_made_frozen_trains_nothing():
    x = np.zeros((1, 4, 8), "float32")
    mask = np.ones((1, 4), "int32")
    made = {
        kbert.layers.BertEmbedding(9, 8, trainable=False): (mask,),
        kbert.layers.EncoderBlock(8, 2, 8, trainable=False): (x, mask),
        kbert.layers.SelfAttention(8, 2, trainable=False): (x, mask),
        kbert.layers.Pooler(8, trainable=False): (x,),
        kbert.layers.SpanHead(trainable=False): (x,),
        kbert.layers.TokenClassificationHead(2, trainable=False): (x,),
        kbert.layers.ClassificationHead(2, trainable=False): (x[:, 0],),
        kbert.layers.MLMHead(8, trainable=False): (x,),
        kbert.layers.ChunkPooling("attention", trainable=False): (x,),
    }
    for layer, inputs in made.items():
        layer(*inputs)
        assert layer.weights
        assert not [v.path for v in layer.weights if v.trainable], layer.name
        layer.trainable = True
        assert len(layer.trainable_variables) == len(layer.weights) - len(
            [v for v in layer.weights if "seed" in v.path]
        )
