"""Task models beyond the classifier: numbers, ties, copies and training."""

import dataclasses

import keras
import numpy as np
import pytest
from keras import ops

import kbert

VARIANTS = {
    "plain": {},
    "no_segments": {"num_segments": 0, "has_pooler": False},
    "factorised": {"embedding_size": 8, "activation": "gelu_tanh"},
    "shared": {"shared_layers": True, "embedding_size": 8, "num_layers": 3},
}
BUILDERS = {
    "masked_lm": kbert.build_masked_lm,
    "all_positions": lambda encoder: kbert.build_masked_lm(
        encoder, all_positions=True
    ),
    "pretrainer": kbert.build_pretrainer,
    "token_classifier": lambda encoder: kbert.build_token_classifier(
        encoder, 3, label_names=["O", "B", "I"]
    ),
    "span_model": kbert.build_span_model,
    "replaced_token_detector": kbert.build_replaced_token_detector,
    "dense_classifier": lambda encoder: kbert.build_classifier(
        encoder, 3, dense_activation="tanh"
    ),
}
TIED = ["masked_lm", "all_positions", "pretrainer"]
CROSS_ENTROPY = keras.losses.SparseCategoricalCrossentropy


def batch(model, rows=8, length=6, slots=2, seed=0):
    config = kbert.encoder_config(model)
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, length + 1, rows)
    mask = (np.arange(length) < lengths[:, None]).astype("int32")
    ids = rng.integers(5, config.vocab_size, mask.shape).astype("int32")
    x = {
        "token_ids": ids * mask,
        "padding_mask": mask,
        "segment_ids": (ids % max(config.num_segments, 1)).astype("int32"),
        "mask_positions": rng.integers(0, 2, (rows, slots)).astype("int32"),
    }
    return {name: x[name] for name in model.input}


def numbers(x):
    if isinstance(x, dict):
        return {name: numbers(value) for name, value in x.items()}
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def assert_close(result, expected, atol=1e-6):
    if not isinstance(expected, dict):
        result, expected = {"": result}, {"": expected}
    assert set(result) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(result[name], value, atol=atol)


def build(config, name, variant="plain", **kwargs):
    keras.utils.set_random_seed(0)
    config = dataclasses.replace(config, **VARIANTS[variant])
    model = BUILDERS[name](kbert.build_encoder(config, **kwargs))
    rng = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(weight + rng.normal(0, 0.1, tuple(weight.shape)))
    return model


def weight_paths(model):
    return {weight.path for weight in model.weights}


def reloaded(model, path):
    model.save(path)
    return keras.models.load_model(path)


def cloned(model, path):
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    return clone


def from_config(model, path):
    again = type(model).from_config(model.get_config())
    again.set_weights(model.get_weights())
    return again


@pytest.mark.parametrize(
    ("name", "variant"),
    [(name, "plain") for name in BUILDERS]
    + [("pretrainer", "no_segments"), ("masked_lm", "shared")],
)
def test_copies_give_equal_outputs(tiny_config, name, variant, tmp_path):
    model = build(tiny_config, name, variant)
    x = batch(model)
    expected = numbers(model(x))
    for copy in (reloaded, cloned, from_config):
        again = copy(model, tmp_path / "model.keras")
        assert weight_paths(again) == weight_paths(model)
        assert_close(numbers(again(x)), expected)
        assert kbert.encoder_config(again) == kbert.encoder_config(model)


@pytest.mark.parametrize("name", BUILDERS)
def test_a_task_model_is_one_flat_graph_that_shares_weights(tiny_config, name):
    encoder = kbert.build_encoder(tiny_config)
    model = BUILDERS[name](encoder)
    theirs = {weight.path: weight for weight in encoder.weights}
    shared = [w for w in model.weights if w.path in theirs]
    assert all(theirs[weight.path] is weight for weight in shared)
    pooler = 0 if name == "pretrainer" else 2
    assert len(shared) == len(theirs) - pooler
    assert not any(isinstance(x, keras.Model) for x in model.layers)


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        (
            "pretrainer",
            {
                "mlm/dense/kernel",
                "mlm/dense/bias",
                "mlm/layer_norm/gamma",
                "mlm/layer_norm/beta",
                "mlm_bias/bias",
                "nsp/logits/kernel",
                "nsp/logits/bias",
            },
        ),
        (
            "token_classifier",
            {"token_classifier/logits/kernel", "token_classifier/logits/bias"},
        ),
        ("span_model", {"span/logits/kernel", "span/logits/bias"}),
        (
            "replaced_token_detector",
            {
                "replaced_token/dense/kernel",
                "replaced_token/dense/bias",
                "replaced_token/logits/kernel",
                "replaced_token/logits/bias",
            },
        ),
        (
            "dense_classifier",
            {
                "classifier/dense/kernel",
                "classifier/dense/bias",
                "classifier/logits/kernel",
                "classifier/logits/bias",
            },
        ),
    ],
)
def test_variable_paths(tiny_config, name, paths):
    encoder = kbert.build_encoder(tiny_config)
    model = BUILDERS[name](encoder)
    assert weight_paths(model) - weight_paths(encoder) == paths


@pytest.mark.parametrize("variant", VARIANTS)
def test_masked_lm_equals_projecting_everything(tiny_config, variant):
    config = dataclasses.replace(tiny_config, **VARIANTS[variant])
    model = build(config, "masked_lm")
    x = batch(model, slots=3)
    positions = x["mask_positions"]
    encoder = keras.Model(
        {name: model.input[name] for name in x if name != "mask_positions"},
        model.get_layer("mlm").input[0],
    )
    states = encoder({n: v for n, v in x.items() if n != "mask_positions"})
    ready = numbers(model.get_layer("mlm")(states))
    table = numbers(model.get_layer("embedding").token.embeddings)
    every = ready @ table.T + numbers(model.get_layer("mlm_bias").bias)
    expected = np.take_along_axis(every, positions[..., None], axis=1)
    assert_close(numbers(model(x)), expected, atol=1e-5)


@pytest.mark.parametrize("name", TIED)
@pytest.mark.parametrize("copy", [None, reloaded, cloned, from_config])
def test_the_table_is_one(tiny_config, name, copy, tmp_path):
    model = build(tiny_config, name)
    again = copy(model, tmp_path / "m.keras") if copy else model
    size = tiny_config.vocab_size * tiny_config.hidden_size
    tables = [w for w in again.weights if np.prod(w.shape) == size]
    assert [w.path for w in tables] == ["embedding/token/embeddings"]
    # Had a copy two tables, the other use would not follow this one.
    x = batch(again)
    expected = numbers(again(x))
    expected = expected.get("mlm") if isinstance(expected, dict) else expected
    row = tables[0].numpy()
    row[5:] = row[5:][::-1].copy()
    tables[0].assign(row)
    flipped = {**x}
    ids = x["token_ids"]
    flipped["token_ids"] = np.where(
        ids > 4, tiny_config.vocab_size + 4 - ids, ids
    ).astype("int32")
    result = numbers(again(flipped))
    result = result["mlm"] if isinstance(result, dict) else result
    bias = numbers(again.get_layer("mlm_bias").bias)
    expected = expected - bias
    expected[..., 5:] = expected[..., 5:][..., ::-1].copy()
    assert_close(result, expected + bias, atol=1e-5)


def test_the_table_learns_from_both_uses(tiny_config):
    """What numpy's gradient of the projection leaves over is the lookup's."""
    model = build(tiny_config, "masked_lm")
    x = batch(model, rows=3)
    y = np.full((3, 2), 7, "int32")
    table = model.get_layer("embedding").token.embeddings
    before = numbers(table)
    inner = keras.Model(model.input, model.get_layer("mlm").output)
    ready = numbers(inner(x)).reshape(6, -1)
    logits = numbers(model(x)).reshape(6, -1)
    slopes = np.exp(logits - logits.max(axis=1, keepdims=True))
    slopes /= slopes.sum(axis=1, keepdims=True)
    slopes[:, 7] -= 1
    projection = slopes.T @ ready / 6

    model.compile(
        keras.optimizers.SGD(1.0),
        CROSS_ENTROPY(from_logits=True),
        jit_compile=keras.backend.backend() == "jax",  # slow without
    )
    model.train_on_batch(x, y)
    gradient = before - numbers(table)
    lookup = np.abs(gradient - projection).max(axis=1)
    real = x["token_ids"][x["padding_mask"] == 1]
    occurring = np.isin(np.arange(tiny_config.vocab_size), real)
    assert 0 < occurring.sum() < len(occurring)
    assert lookup[~occurring].max() < 1e-6
    assert lookup[occurring].min() > 1e-5
    assert np.abs(projection).max(axis=1).min() > 1e-5


@pytest.mark.parametrize("name", BUILDERS)
def test_outputs_are_float32_and_near_under_bfloat16(tiny_config, name):
    model = build(tiny_config, name)
    half = build(tiny_config, name, dtype="mixed_bfloat16")
    half.set_weights(model.get_weights())
    x = batch(model)
    result = half(x)
    for value in result.values() if isinstance(result, dict) else [result]:
        assert keras.backend.standardize_dtype(value.dtype) == "float32"
    assert_close(numbers(result), numbers(model(x)), atol=0.1)


def test_pretrainer_fits_dicts_of_labels_and_weights(tiny_config):
    model = build(tiny_config, "pretrainer")
    x = batch(model, rows=64)
    picked = np.take_along_axis(x["token_ids"], x["mask_positions"], axis=1)
    y = {"mlm": picked, "nsp": x["token_ids"][:, 0] % 2}
    weights = {
        "mlm": (np.arange(2) < 1) * np.ones((64, 1), "float32"),
        "nsp": np.ones(64, "float32"),
    }
    # Weight 0 must keep these out: they cannot be learnt.
    y["mlm"][:, 1] = np.random.default_rng(1).integers(5, 22, 64)
    model.compile(
        optimizer=kbert.optimizers.adamw(1e-2, train_steps=80),
        loss={name: CROSS_ENTROPY(from_logits=True) for name in y},
        weighted_metrics={name: ["accuracy"] for name in y},
    )
    model.fit(x, y, sample_weight=weights, epochs=10, verbose=0)
    result = model.evaluate(
        x, y, sample_weight=weights, verbose=0, return_dict=True
    )
    assert result["mlm_accuracy"] > 0.7
    assert result["nsp_accuracy"] > 0.9
    predicted = model.predict(x, verbose=0)
    assert {n: v.shape for n, v in predicted.items()} == {
        "mlm": (64, 2, tiny_config.vocab_size),
        "nsp": (64, 2),
    }


def test_span_model_fits_dicts_of_labels(tiny_config):
    model = build(tiny_config, "span_model")
    x = batch(model, rows=64)
    # The answer goes from the largest id to the last real token.
    y = {
        "start": x["token_ids"].argmax(axis=1),
        "end": x["padding_mask"].sum(axis=1) - 1,
    }
    model.compile(
        optimizer=kbert.optimizers.adamw(2e-2, train_steps=80),
        loss={name: CROSS_ENTROPY(from_logits=True) for name in y},
        metrics={name: ["accuracy"] for name in y},
    )
    model.fit(x, y, batch_size=64, epochs=30, verbose=0)
    result = model.evaluate(x, y, verbose=0, return_dict=True)
    assert result["start_accuracy"] > 0.7
    assert result["end_accuracy"] > 0.7


def test_token_classifier_fits_with_weights(tiny_config):
    model = build(tiny_config, "token_classifier")
    x = batch(model, rows=64)
    model.compile(
        optimizer=kbert.optimizers.adamw(1e-2, train_steps=80),
        loss=CROSS_ENTROPY(from_logits=True),
        weighted_metrics=["accuracy"],
    )
    data = (x, x["token_ids"] % 3, x["padding_mask"].astype("float32"))
    model.fit(*data[:2], sample_weight=data[2], epochs=10, verbose=0)
    score = model.evaluate(
        *data[:2], sample_weight=data[2], verbose=0, return_dict=True
    )
    assert score["accuracy"] > 0.9
    assert model.get_layer("token_classifier").label_names == ["O", "B", "I"]


def test_dropout_of_heads_comes_from_the_encoder_unless_given(tiny_config):
    config = dataclasses.replace(tiny_config, hidden_dropout=0.25)
    encoder = kbert.build_encoder(config)
    tokens = kbert.build_token_classifier(encoder, 2)
    assert tokens.get_layer("token_classifier").hidden_dropout == 0.25
    tokens = kbert.build_token_classifier(encoder, 2, hidden_dropout=0.0)
    assert tokens.get_layer("token_classifier").hidden_dropout == 0.0
    nsp = kbert.build_pretrainer(encoder).get_layer("nsp")
    assert nsp.hidden_dropout == 0.0


def test_a_dense_head_reads_the_first_token_and_no_pooler(tiny_config):
    encoder = kbert.build_encoder(tiny_config)
    model = kbert.build_classifier(
        encoder, 2, dense_activation="relu", has_input_dropout=False
    )
    head = model.get_layer("classifier")
    assert (head.dense_size, head.has_input_dropout) == (16, False)
    assert not kbert.encoder_config(model).has_pooler
    x = batch(model)
    first = encoder(x)["sequence_output"][:, 0]
    assert_close(numbers(model(x)), numbers(head(first)))


@pytest.mark.parametrize("name", BUILDERS)
def test_bad_encoders_are_refused(name):
    inputs = keras.Input((3,))
    other = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    with pytest.raises(ValueError, match=r"(?s)must be.*|Expected.*Received: "):
        BUILDERS[name](other)
