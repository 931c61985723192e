"""Heads against plain numpy, under every dtype policy, saved and reloaded."""

import math

import keras
import numpy as np
import pytest
from keras import ops

import kbert

HALF = ["mixed_bfloat16", "mixed_float16", "bfloat16"]


def randomize(layer, seed=0):
    """Give every weight a value: biases and norms start at 0 and 1."""
    rng = np.random.default_rng(seed)
    for weight in layer.trainable_variables:
        weight.assign(rng.normal(0, 0.3, tuple(weight.shape)))
    return {w.path.split("/", 1)[1]: numbers(w) for w in layer.weights}


def numbers(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def draw(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def erf_gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


ACTIVATIONS = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": erf_gelu,
}


def layer_norm(x, gamma, beta, epsilon):
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return centred / np.sqrt(variance + epsilon) * gamma + beta


@pytest.mark.parametrize("embedding_size", [None, 4])
def test_mlm_head_equals_numpy(embedding_size):
    head = kbert.layers.MLMHead(
        8, embedding_size, layer_norm_epsilon=1e-3, name="mlm"
    )
    x, positions = draw(3, 5, 8), np.array([[0, 4], [2, 2], [3, 0]])
    head(x, positions)
    w = randomize(head)
    assert set(w) == {
        "dense/kernel",
        "dense/bias",
        "layer_norm/gamma",
        "layer_norm/beta",
    }
    every = erf_gelu(x @ w["dense/kernel"] + w["dense/bias"])
    every = layer_norm(every, w["layer_norm/gamma"], w["layer_norm/beta"], 1e-3)
    picked = np.stack([row[p] for row, p in zip(every, positions, strict=True)])
    np.testing.assert_allclose(numbers(head(x)), every, atol=1e-5)
    np.testing.assert_allclose(numbers(head(x, positions)), picked, atol=1e-5)
    assert head.compute_output_shape((3, 5, 8), (3, 2)) == picked.shape
    assert head.compute_output_shape((3, 5, 8)) == every.shape


@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("length", [None, 5])
@pytest.mark.parametrize("slots", [None, 2])
def test_gather_with_static_and_dynamic_shapes(batch, length, slots):
    states = keras.Input((length, 8), batch_size=batch)
    positions = keras.Input((slots,), batch_size=batch, dtype="int32")
    head = kbert.layers.MLMHead(8, name="mlm")
    result = head(states, positions)
    assert result.shape == (batch, slots, 8)
    model = keras.Model([states, positions], result)
    model.compile(jit_compile=False)
    x, p = draw(3, 5, 8), np.array([[4, 0], [0, 0], [1, 3]], "int32")
    every = numbers(head(x))
    expected = np.take_along_axis(every, p[..., None], axis=1)
    result = model.predict_on_batch([x, p])
    np.testing.assert_allclose(result, expected, atol=1e-5)


def test_mlm_bias_adds_in_float32():
    bias = kbert.layers.MLMBias(6, dtype="mixed_bfloat16", name="mlm_bias")
    x = draw(2, 3, 6)
    np.testing.assert_array_equal(numbers(bias(x)), x)
    w = randomize(bias)
    np.testing.assert_allclose(numbers(bias(x)), x + w["bias"], rtol=1e-6)


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_classification_head_equals_numpy(activation):
    size = None if activation is None else 6
    head = kbert.layers.ClassificationHead(
        3, dense_size=size, dense_activation=activation, name="head"
    )
    x = draw(2, 8)
    head(x)
    w = randomize(head)
    assert ("dense/kernel" in w) == (activation is not None)
    hidden = x
    if activation is not None:
        hidden = x @ w["dense/kernel"] + w["dense/bias"]
        hidden = ACTIVATIONS[activation](hidden)
    expected = hidden @ w["logits/kernel"] + w["logits/bias"]
    np.testing.assert_allclose(numbers(head(x)), expected, atol=1e-5)


@pytest.mark.parametrize("has_input_dropout", [True, False])
def test_where_the_classification_head_drops_out(has_input_dropout):
    head = kbert.layers.ClassificationHead(
        1,
        hidden_dropout=0.5,
        dense_size=400,
        dense_activation="relu",
        has_input_dropout=has_input_dropout,
    )
    x = np.ones((1, 1), "float32")
    head(x)
    # Every inner unit is 1 where the input is kept, so a logit counts units.
    head.dense.kernel.assign(np.ones((1, 400)))
    head.logits.kernel.assign(np.ones((400, 1)))
    runs = [numbers(head(x, training=True)).item() for _ in range(30)]
    assert (0.0 in runs) == has_input_dropout
    assert len(set(runs)) > 2
    assert numbers(head(x)).item() == 400.0
    head.trainable = False
    assert numbers(head(x, training=True)).item() == 400.0


def test_token_and_span_heads_equal_numpy():
    x = draw(2, 5, 8)
    tokens = kbert.layers.TokenClassificationHead(3, name="tokens")
    span = kbert.layers.SpanHead(name="span")
    tokens(x)
    span(x)
    w, v = randomize(tokens), randomize(span)
    expected = x @ w["logits/kernel"] + w["logits/bias"]
    np.testing.assert_allclose(numbers(tokens(x)), expected, atol=1e-5)
    expected = x @ v["logits/kernel"] + v["logits/bias"]
    result = span(x)
    np.testing.assert_allclose(
        numbers(result["start"]), expected[..., 0], atol=1e-5
    )
    np.testing.assert_allclose(
        numbers(result["end"]), expected[..., 1], atol=1e-5
    )


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_replaced_token_head_equals_numpy(activation):
    head = kbert.layers.ReplacedTokenHead(8, activation, name="head")
    x = draw(2, 5, 8)
    assert head(x).shape == (2, 5)
    w = randomize(head)
    assert w["dense/kernel"].shape == (8, 8)
    assert w["logits/kernel"].shape == (8, 1)
    hidden = ACTIVATIONS[activation](x @ w["dense/kernel"] + w["dense/bias"])
    expected = (hidden @ w["logits/kernel"] + w["logits/bias"])[..., 0]
    np.testing.assert_allclose(numbers(head(x)), expected, atol=1e-5)
    # Symbolic shapes are those of the numbers, static or not.
    for shape in ((None, 8), (5, 8)):
        assert head(keras.Input(shape)).shape == (None, shape[0])


def test_token_head_drops_out_unless_frozen():
    x = draw(2, 5, 8)
    head = kbert.layers.TokenClassificationHead(3, hidden_dropout=0.5)
    expected = numbers(head(x))
    assert np.abs(numbers(head(x, training=True)) - expected).max() > 1e-3
    head.trainable = False
    np.testing.assert_array_equal(numbers(head(x, training=True)), expected)


@pytest.mark.parametrize("policy", HALF)
def test_logits_are_float32_under_every_policy(policy):
    x = draw(2, 5, 8)
    tokens = kbert.layers.TokenClassificationHead(3, dtype=policy)(x)
    span = kbert.layers.SpanHead(dtype=policy)(x)
    classes = kbert.layers.ClassificationHead(
        3, dense_size=8, dense_activation="tanh", dtype=policy
    )(x[:, 0])
    replaced = kbert.layers.ReplacedTokenHead(8, dtype=policy)(x)
    head = kbert.layers.MLMHead(8, dtype=policy)
    ready = head(x)
    bias = kbert.layers.MLMBias(8, dtype=policy)
    for logits in (*span.values(), tokens, classes, replaced, bias(ready)):
        assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    assert keras.backend.standardize_dtype(bias.bias.dtype) == "float32"
    assert keras.backend.standardize_dtype(ready.dtype) == head.compute_dtype


def heads():
    return [
        kbert.layers.MLMHead(8, 4, "gelu_tanh", 1e-5, 0.03, name="mlm"),
        kbert.layers.MLMBias(8, dtype="mixed_bfloat16", name="mlm_bias"),
        kbert.layers.ClassificationHead(
            2, 0.2, 0.03, ["a", "b"], None, 6, "relu", False, name="classifier"
        ),
        kbert.layers.TokenClassificationHead(
            2, 0.2, 0.03, ["O", "ü"], dtype="mixed_bfloat16", name="tokens"
        ),
        kbert.layers.SpanHead(0.03, name="span"),
        kbert.layers.ReplacedTokenHead(8, "gelu_tanh", 0.03, name="replaced"),
    ]


@pytest.mark.parametrize("layer", heads(), ids=lambda layer: layer.name)
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


def test_inside_somebody_elses_model(tmp_path):
    """The MLM ends around a table of Keras' own, saved and reloaded."""
    table = keras.layers.ReversibleEmbedding(30, 8, name="table")
    ids = keras.Input((None,), dtype="int32")
    positions = keras.Input((None,), dtype="int32")
    x = kbert.layers.MLMHead(8, name="mlm")(table(ids), positions)
    logits = kbert.layers.MLMBias(30, name="bias")(table(x, reverse=True))
    model = keras.Model([ids, positions], logits)
    model.save(tmp_path / "own.keras")
    again = keras.models.load_model(tmp_path / "own.keras")
    given = [np.array([[1, 2, 3]]), np.array([[2, 0]])]
    np.testing.assert_allclose(
        numbers(again(given)), numbers(model(given)), atol=1e-6
    )


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: kbert.layers.TokenClassificationHead(0),
            ValueError,
            "at least 1",
        ),
        (
            lambda: kbert.layers.TokenClassificationHead(2.0),
            TypeError,
            "an int",
        ),
        (
            lambda: kbert.layers.TokenClassificationHead(2, label_names=["O"]),
            ValueError,
            "2 different names",
        ),
        (
            lambda: kbert.layers.ClassificationHead(2, dense_size=8),
            ValueError,
            "belong together",
        ),
        (
            lambda: kbert.layers.ClassificationHead(2, dense_activation="tanh"),
            ValueError,
            "belong together",
        ),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=rf"(?s){message}.*Received: "):
        make()
