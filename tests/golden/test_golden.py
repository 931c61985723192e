"""kbert against numbers that transformers computed (see make_golden.py).

Needs neither PyTorch nor transformers; run it under every backend:

    KERAS_BACKEND=jax python -m pytest tests/golden
"""

import dataclasses
import json
from pathlib import Path

import keras
import numpy as np
import pytest
from comparison import (
    at_real_tokens,
    batch_of,
    forward,
    forward_difference,
    largest_difference,
    loss_and_gradients,
    make_loss,
    named_weights,
    only,
    padded,
    train_step,
)
from safetensors import safe_open
from safetensors.numpy import load_file

import kbert
from kbert.checkpoints.mapping import weight_variables

HERE = Path(__file__).parent
CASES = ("bert", "bert_gelu_new", "bert_multilabel")
TOLERANCE = 1e-5


@pytest.fixture(params=CASES)
def case(request) -> str:
    return request.param


@pytest.fixture
def reference(case) -> dict[str, np.ndarray]:
    return load_file(HERE / case / "reference.safetensors")


@pytest.fixture
def hf_config(case) -> dict:
    return json.loads((HERE / case / "config.json").read_text("utf-8"))


@pytest.fixture
def hf_weights(case) -> dict[str, np.ndarray]:
    return load_file(HERE / case / "model.safetensors")


def test_states_pooled_and_logits(case, reference):
    model = kbert.load_classifier(HERE / case)
    assert forward_difference(model, reference) <= TOLERANCE


def test_outputs_of_the_encoder(case, reference, hf_config):
    encoder = kbert.load_encoder(HERE / case)
    outputs = encoder.predict_on_batch(batch_of(reference))
    last = f"state.{hf_config['num_hidden_layers']}"
    computed = {
        "pooled": outputs["pooled_output"],
        last: outputs["sequence_output"],
    }
    expected = {name: reference[name] for name in computed}
    mask = reference["input.padding_mask"]
    worst = largest_difference(
        at_real_tokens(computed, mask), at_real_tokens(expected, mask)
    )
    assert worst <= TOLERANCE


@pytest.mark.parametrize("attention_dropout", [0.0, 1e-9])
def test_loss_and_gradients(case, reference, hf_config, attention_dropout):
    # A rate that drops nothing takes the path of training with dropout.
    model = kbert.load_classifier(
        HERE / case, hidden_dropout=0.0, attention_dropout=attention_dropout
    )
    loss, gradients = loss_and_gradients(
        model,
        batch_of(reference),
        reference["input.labels"],
        loss=make_loss(hf_config["problem_type"]),
    )
    assert abs(loss - reference["loss"]) <= TOLERANCE
    worst = largest_difference(gradients, only(reference, "gradient."))
    assert worst <= TOLERANCE
    # Were all gradients zero, they would be equal too. The true gradient of
    # a key's bias is: it adds the same to all scores of a query.
    for name, array in gradients.items():
        assert name.endswith("key.bias") or np.abs(array).max() > 1e-3, name


@pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="PyTorch has no XLA"
)
def test_gradients_under_xla():
    reference = load_file(HERE / "bert" / "reference.safetensors")
    model = kbert.load_classifier(
        HERE / "bert", hidden_dropout=0.0, attention_dropout=0.0
    )
    _, gradients = loss_and_gradients(
        model,
        batch_of(reference),
        reference["input.labels"],
        loss=make_loss("single_label_classification"),
        jit_compile=True,
    )
    worst = largest_difference(gradients, only(reference, "gradient."))
    assert worst <= TOLERANCE


def test_step_of_the_optimizer(case, reference, hf_config):
    model = kbert.load_classifier(
        HERE / case, hidden_dropout=0.0, attention_dropout=0.0
    )
    path = HERE / case / "reference.safetensors"
    with safe_open(path, framework="numpy") as file:
        written = file.metadata()
    learning_rate, decay, clipnorm = (
        float(written[key])
        for key in ("learning_rate", "weight_decay", "clipnorm")
    )
    _, before, after = train_step(
        model,
        batch_of(reference),
        reference["input.labels"],
        optimizer=kbert.optimizers.adamw(
            learning_rate, weight_decay=decay, clipnorm=clipnorm
        ),
        loss=make_loss(hf_config["problem_type"]),
    )
    # Adam's first step is nearly the rate times the sign of a gradient. The
    # true gradient of a key's bias is 0, so that what it steps along is
    # noise, of 1e-8 against an epsilon of 1e-6.
    expected = only(reference, "updated.")
    for name, array in after.items():
        noisy = name.endswith("key.bias")
        tolerance = 5e-5 if noisy else TOLERANCE / 2
        assert np.abs(array - expected[name]).max() <= tolerance, name
        moved = np.abs(array - before[name]).max()
        assert noisy or moved >= 0.9 * learning_rate, name


@pytest.mark.parametrize("length", [11, 17])
def test_length_of_padding_changes_nothing(case, reference, hf_config, length):
    model = kbert.load_classifier(HERE / case)
    batch = padded(batch_of(reference), length, hf_config["pad_token_id"])
    assert forward_difference(model, reference, batch) <= TOLERANCE


def test_tokens_at_padding_change_nothing(case, reference):
    model = kbert.load_classifier(HERE / case)
    batch = batch_of(reference)
    rng = np.random.default_rng(0)
    real = batch["padding_mask"].astype(bool)
    noise = rng.integers(0, 40, batch["token_ids"].shape, dtype="int32")
    batch["token_ids"] = np.where(real, batch["token_ids"], noise)
    assert forward_difference(model, reference, batch) <= TOLERANCE


def test_rows_do_not_see_each_other(case, reference):
    model = kbert.load_classifier(HERE / case)
    for row in range(len(reference["logits"])):
        length = int(reference["input.padding_mask"][row].sum())
        batch = {
            name: x[row : row + 1, :length]
            for name, x in batch_of(reference).items()
        }
        logits = forward(model, batch)["logits"]
        difference = np.abs(logits - reference["logits"][row])
        assert difference.max() <= TOLERANCE


@pytest.mark.parametrize(
    "dtype, tolerance",
    [("float32", TOLERANCE), ("mixed_bfloat16", 0.1), ("mixed_float16", 0.02)],
)
def test_row_of_padding_alone_is_finite(
    case, reference, hf_config, dtype, tolerance
):
    model = kbert.load_classifier(
        HERE / case, dtype=dtype, hidden_dropout=0.0, attention_dropout=0.0
    )
    batch = batch_of(reference)
    batch["padding_mask"] = batch["padding_mask"].copy()
    batch["padding_mask"][1] = 0
    outputs = forward(model, batch)
    for name, array in outputs.items():
        assert np.isfinite(array).all(), name
    others = np.abs(outputs["logits"] - reference["logits"])[[0, 2, 3, 4]]
    assert others.max() <= tolerance
    _, _, after = train_step(
        model,
        batch,
        reference["input.labels"],
        optimizer=keras.optimizers.SGD(0.1),
        loss=make_loss(hf_config["problem_type"]),
        # JAX compiles no float16 attention for a CPU.
        jit_compile=False if dtype == "mixed_float16" else None,
    )
    for name, array in after.items():
        assert np.isfinite(array).all(), name


@pytest.mark.parametrize(
    "dtype, tolerance", [("mixed_bfloat16", 0.1), ("mixed_float16", 0.02)]
)
def test_half_precision_is_close(case, reference, dtype, tolerance):
    # bfloat16 keeps 8 bits of a number: hidden states of up to 4 lose
    # 1/128 at every rounding. float16 keeps 11.
    model = kbert.load_classifier(HERE / case, dtype=dtype)
    assert forward_difference(model, reference) <= tolerance
    assert model.output.dtype == "float32"
    assert {v.dtype for v in model.trainable_variables} == {"float32"}


def keras_file(model: keras.Model, directory: Path) -> keras.Model:
    path = directory / "model.keras"
    model.save(path)
    return keras.models.load_model(path)


def from_config(model: keras.Model, directory: Path) -> keras.Model:
    copy = keras.Model.from_config(model.get_config())
    copy.set_weights(model.get_weights())
    return copy


def clone(model: keras.Model, directory: Path) -> keras.Model:
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    return copy


def save_and_load(model: keras.Model, directory: Path) -> keras.Model:
    kbert.save_pretrained(model, directory)
    return kbert.load_classifier(directory)


@pytest.mark.parametrize("copy", [keras_file, from_config, clone])
def test_copies_are_equal(case, reference, copy, tmp_path):
    model = kbert.load_classifier(HERE / case)
    other = copy(model, tmp_path)
    assert forward_difference(other, reference) <= TOLERANCE
    assert kbert.encoder_config(other) == kbert.encoder_config(model)
    assert list(weight_variables(other)) == list(weight_variables(model))
    head, other_head = (x.get_layer("classifier") for x in (model, other))
    assert other_head.label_names == head.label_names


def test_config_is_read_whole(case, hf_config, tmp_path):
    names = list(hf_config["id2label"].values())
    expected = kbert.EncoderConfig(
        vocab_size=hf_config["vocab_size"],
        hidden_size=hf_config["hidden_size"],
        num_layers=hf_config["num_hidden_layers"],
        num_heads=hf_config["num_attention_heads"],
        intermediate_size=hf_config["intermediate_size"],
        max_positions=hf_config["max_position_embeddings"],
        num_segments=hf_config["type_vocab_size"],
        activation=hf_config["hidden_act"].replace("gelu_new", "gelu_tanh"),
        layer_norm_epsilon=hf_config["layer_norm_eps"],
        hidden_dropout=hf_config["hidden_dropout_prob"],
        attention_dropout=hf_config["attention_probs_dropout_prob"],
        initializer_range=hf_config["initializer_range"],
        pad_token_id=hf_config["pad_token_id"],
    )
    model = kbert.load_classifier(HERE / case)
    for other in (model, save_and_load(model, tmp_path)):
        assert kbert.encoder_config(other) == expected
        head = other.get_layer("classifier")
        assert head.label_names == names
        own = hf_config["classifier_dropout"]
        assert head.hidden_dropout == (
            expected.hidden_dropout if own is None else own
        )


def test_weights_come_back_as_they_were(case, hf_weights, tmp_path):
    model = kbert.load_classifier(HERE / case)
    kbert.save_pretrained(model, tmp_path)
    written = load_file(tmp_path / "model.safetensors")
    for weights in (written, named_weights(model)):
        assert set(weights) == set(hf_weights)
        for name, array in weights.items():
            np.testing.assert_array_equal(array, hf_weights[name])


def test_config_comes_back_as_it_was(case, hf_config, tmp_path):
    model = kbert.load_classifier(HERE / case)
    kbert.save_pretrained(model, tmp_path)
    written = json.loads((tmp_path / "config.json").read_text("utf-8"))
    for key in set(written) & set(hf_config):
        assert written[key] == hf_config[key], key
    assert set(hf_config) - set(written) == {
        # transformers' defaults, which it fills in again,
        "add_cross_attention",
        "bos_token_id",
        "eos_token_id",
        "is_decoder",
        "tie_word_embeddings",
        "use_cache",
        # and the version that wrote it.
        "transformers_version",
    }


def test_paths_are_frozen():
    text = (HERE / "paths" / "bert.json").read_text("utf-8")
    frozen = [(path, tuple(x)) for path, x in json.loads(text).items()]
    model = kbert.load_classifier(HERE / "bert")
    variables = weight_variables(model)
    assert [(p, tuple(v.shape)) for p, v in variables.items()] == frozen


@pytest.mark.parametrize(
    "change",
    [
        {"activation": "gelu_tanh"},
        {"layer_norm_epsilon": 1e-12},
        {"num_heads": 4},
    ],
    ids=str,
)
def test_reference_tells_wrong_models(change):
    # The comparison is worth as much as the mistakes it finds.
    reference = load_file(HERE / "bert" / "reference.safetensors")
    right = kbert.load_classifier(HERE / "bert")
    config = dataclasses.replace(kbert.encoder_config(right), **change)
    wrong = kbert.build_classifier(kbert.build_encoder(config), 3)
    wrong.set_weights(right.get_weights())
    assert forward_difference(wrong, reference) > 10 * TOLERANCE


@pytest.mark.parametrize("name", ["segment_ids", "padding_mask", "token_ids"])
def test_reference_tells_wrong_inputs(name):
    reference = load_file(HERE / "bert" / "reference.safetensors")
    model = kbert.load_classifier(HERE / "bert")
    batch = batch_of(reference)
    batch[name] = np.ones_like(batch[name])
    assert forward_difference(model, reference, batch) > 10 * TOLERANCE
