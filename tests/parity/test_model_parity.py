"""Models and checkpoints against transformers, freshly drawn and tiny.

Both directions: what transformers saves, kbert loads with equal numbers, and
what kbert saves, transformers loads with nothing missing and nothing over.
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

torch = pytest.importorskip("torch", reason="pip install keras-kbert[parity]")
transformers = pytest.importorskip(
    "transformers", reason="pip install keras-kbert[parity]"
)

import kbert  # noqa: E402
from kbert.checkpoints.translate import _ACTIVATIONS  # noqa: E402

GOLDEN = Path(__file__).parents[1] / "golden"
sys.path.append(str(GOLDEN))

from comparison import (  # noqa: E402
    batch_of,
    forward_difference,
    largest_difference,
    loss_and_gradients,
    make_loss,
    named_weights,
    only,
    train_step,
)
from make_golden import (  # noqa: E402
    CASES,
    STEP,
    compute_reference,
    make_batch,
    make_config,
    make_model,
    randomise,
    torch_inputs,
)

TOLERANCE = 1e-5
TINY = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 28,
    "max_position_embeddings": 24,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "problem_type": "single_label_classification",
    "id2label": {0: "nein", 1: "はい"},
}


def draw(seed: int = 0, **changes):
    """Draw a classifier of transformers' and a batch for it."""
    config = make_config(**{**TINY, **changes})
    return make_model(config, seed), make_batch(config, seed)


def torch_forward(model, batch: dict) -> dict[str, np.ndarray]:
    """Compute hidden states, pooled output and logits with transformers."""
    with torch.no_grad():
        outputs = model(**torch_inputs(batch), output_hidden_states=True)
    arrays = {f"state.{i}": x for i, x in enumerate(outputs.hidden_states)}
    if "logits" in outputs:
        arrays["logits"] = outputs.logits
    bert = getattr(model, "bert", model)
    if bert.pooler is not None:
        with torch.no_grad():
            arrays["pooled"] = bert.pooler(outputs.hidden_states[-1])
    arrays = {name: x.float().numpy() for name, x in arrays.items()}
    return arrays | {"input." + name: x for name, x in batch.items()}


def assert_equal_weights(
    weights: dict[str, np.ndarray], expected: dict[str, np.ndarray]
) -> None:
    assert set(weights) == set(expected)
    for name, array in weights.items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)


@pytest.mark.parametrize(
    "seed, changes",
    [
        (11, {}),
        (12, {"type_vocab_size": 1, "layer_norm_eps": 1e-5}),
        (13, {"type_vocab_size": 3, "num_attention_heads": 1}),
        (14, {"num_hidden_layers": 4, "num_attention_heads": 16}),
        (15, {"hidden_act": "gelu_new", "vocab_size": 9, "pad_token_id": 8}),
        (16, {"problem_type": "regression", "id2label": {0: "score"}}),
        (
            17,
            {
                "problem_type": "multi_label_classification",
                "id2label": {i: f"topic {i}" for i in range(7)},
            },
        ),
        (18, {"hidden_act": "silu", "max_position_embeddings": 10}),
    ],
    ids=str,
)
def test_forward_backward_and_step(seed, changes, tmp_path):
    theirs, batch = draw(seed, **changes)
    theirs.save_pretrained(tmp_path)
    reference = compute_reference(theirs, batch)
    model, report = kbert.load_classifier(tmp_path, report=True)
    assert not report.unused and not report.missing
    assert not report.ignored_config_keys
    assert forward_difference(model, reference) <= TOLERANCE

    x, y = batch_of(reference), reference["input.labels"]
    loss = make_loss(theirs.config.problem_type)
    value, gradients = loss_and_gradients(model, x, y, loss=loss)
    assert abs(value - reference["loss"]) <= TOLERANCE
    worst = largest_difference(gradients, only(reference, "gradient."))
    assert worst <= TOLERANCE

    model = kbert.load_classifier(tmp_path)
    optimizer = kbert.optimizers.adamw(**STEP)
    _, _, after = train_step(model, x, y, optimizer=optimizer, loss=loss)
    for name, array in only(reference, "updated.").items():
        # Noise moves a key's bias, whose true gradient is 0.
        tolerance = 5e-5 if name.endswith("key.bias") else TOLERANCE
        difference = np.abs(array - after[name]).max()
        assert difference <= tolerance, name


@pytest.mark.parametrize("hidden_act", _ACTIVATIONS)
def test_activations(hidden_act, tmp_path):
    theirs, batch = draw(seed=21, hidden_act=hidden_act)
    theirs.save_pretrained(tmp_path)
    model = kbert.load_classifier(tmp_path)
    reference = torch_forward(theirs, batch)
    assert forward_difference(model, reference) <= TOLERANCE


@pytest.mark.parametrize("has_pooler", [True, False])
def test_encoder_with_and_without_pooler(has_pooler, tmp_path):
    config = make_config(**TINY)
    theirs = transformers.BertModel(config, add_pooling_layer=has_pooler)
    randomise(theirs, seed=31)
    theirs.eval().save_pretrained(tmp_path / "theirs")
    reference = torch_forward(theirs, make_batch(config, 31))
    assert ("pooled" in reference) == has_pooler

    encoder = kbert.load_encoder(tmp_path / "theirs")
    assert kbert.encoder_config(encoder).has_pooler == has_pooler
    assert forward_difference(encoder, reference) <= TOLERANCE

    kbert.save_pretrained(encoder, tmp_path / "ours")
    assert_equal_weights(
        load_file(tmp_path / "ours" / "model.safetensors"),
        load_file(tmp_path / "theirs" / "model.safetensors"),
    )
    again, info = transformers.AutoModel.from_pretrained(
        tmp_path / "ours",
        add_pooling_layer=has_pooler,
        output_loading_info=True,
    )
    assert_complete(info)
    reference = torch_forward(again.eval(), make_batch(config, 31))
    assert forward_difference(encoder, reference) <= TOLERANCE


def assert_complete(info: dict) -> None:
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not info[kind], kind


def test_encoder_without_pooler_starts_a_classifier(tmp_path):
    config = make_config(**TINY)
    theirs = transformers.BertModel(config, add_pooling_layer=False)
    randomise(theirs, seed=32)
    theirs.eval().save_pretrained(tmp_path / "theirs")
    model, report = kbert.load_classifier(
        tmp_path / "theirs", fresh_head=True, report=True
    )
    assert [path.split("/")[0] for path in report.missing] == [
        "pooler",
        "pooler",
        "classifier",
        "classifier",
    ]
    kbert.save_pretrained(model, tmp_path / "ours")
    again, info = (
        transformers.AutoModelForSequenceClassification.from_pretrained(
            tmp_path / "ours", output_loading_info=True
        )
    )
    assert_complete(info)
    reference = torch_forward(again.eval(), make_batch(config, 32))
    assert forward_difference(model, reference) <= TOLERANCE


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_files(dtype, tmp_path):
    theirs, batch = draw(seed=41)
    theirs.to(dtype).save_pretrained(tmp_path)
    model = kbert.load_classifier(tmp_path)
    assert {v.dtype for v in model.trainable_variables} == {"float32"}
    theirs = theirs.float()  # exact, and how kbert computes
    expected = {n: p.detach().numpy() for n, p in theirs.named_parameters()}
    assert_equal_weights(named_weights(model), expected)
    assert forward_difference(model, torch_forward(theirs, batch)) <= TOLERANCE


def test_shards(tmp_path):
    theirs, _ = draw(seed=42)
    theirs.save_pretrained(tmp_path, max_shard_size="6KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 3
    assert not (tmp_path / "model.safetensors").exists()
    model, report = kbert.load_classifier(tmp_path, report=True)
    assert not report.unused and not report.missing
    expected = {n: p.detach().numpy() for n, p in theirs.named_parameters()}
    assert_equal_weights(named_weights(model), expected)


def rewrite(directory: Path, rename, **more: np.ndarray) -> None:
    """Give the tensors of a file other names, and add some."""
    path = directory / "model.safetensors"
    tensors = {rename(n): np.array(x) for n, x in load_file(path).items()}
    save_file(tensors | more, path, {"format": "pt"})


def old_name(name: str) -> str:
    name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
    return name.replace("LayerNorm.bias", "LayerNorm.beta")


@pytest.mark.parametrize(
    "rename",
    [
        old_name,
        lambda name: f"module.{name}",
        lambda name: f"student.model.{old_name(name)}",
    ],
    ids=["gamma and beta", "prefix", "both"],
)
def test_names_of_other_times_and_programs(rename, tmp_path):
    theirs, _ = draw(seed=43)
    theirs.save_pretrained(tmp_path)
    buffer = rename("bert.embeddings.position_ids")
    rewrite(tmp_path, rename, **{buffer: np.arange(24)[None]})
    model, report = kbert.load_classifier(tmp_path, report=True)
    assert not report.unused and not report.missing
    assert rename("bert.pooler.dense.bias") in report.loaded
    expected = {n: p.detach().numpy() for n, p in theirs.named_parameters()}
    assert_equal_weights(named_weights(model), expected)
    # Only an encoder is asked for, so the head is over.
    _, report = kbert.load_encoder(tmp_path, report=True)
    assert sorted(report.unused) == sorted(
        rename(f"classifier.{kind}") for kind in ("weight", "bias")
    )


def test_file_of_an_encoder_needs_no_prefix(tmp_path):
    theirs, batch = draw(seed=44)
    theirs.bert.save_pretrained(tmp_path)
    names = load_file(tmp_path / "model.safetensors")
    assert not any(name.startswith("bert.") for name in names)
    rewrite(tmp_path, lambda name: f"0.auto_model.{name}")
    encoder = kbert.load_encoder(tmp_path)
    reference = torch_forward(theirs.bert, batch)
    assert forward_difference(encoder, reference) <= TOLERANCE


@pytest.mark.parametrize(
    "cls",
    ["BertForMaskedLM", "BertForPreTraining", "BertForTokenClassification"],
)
def test_encoder_of_other_task_models(cls, tmp_path):
    config = make_config(**TINY)
    theirs = getattr(transformers, cls)(config)
    randomise(theirs, seed=45)
    theirs.eval().save_pretrained(tmp_path)
    encoder = kbert.load_encoder(tmp_path)
    reference = torch_forward(theirs.bert, make_batch(config, 45))
    assert forward_difference(encoder, reference) <= TOLERANCE


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation": "gelu_tanh", "num_segments": 1, "pad_token_id": 3},
        {"activation": "relu", "layer_norm_epsilon": 1e-5},
        {"activation": "silu", "hidden_dropout": 0.3},
        {"activation": "tanh", "max_positions": 11, "attention_dropout": 0.2},
    ],
    ids=str,
)
def test_transformers_loads_what_kbert_saves(changes, tmp_path):
    keras.utils.set_random_seed(51)
    values = {
        "vocab_size": 50,
        "hidden_size": 16,
        "num_layers": 2,
        "num_heads": 2,
        "intermediate_size": 20,
        "max_positions": 30,
        "initializer_range": 0.3,
    }
    config = kbert.EncoderConfig(**{**values, **changes})
    names = ["schlecht", "mittel", "großartig 😀"]
    model = kbert.build_classifier(
        kbert.build_encoder(config), 3, hidden_dropout=0.4, label_names=names
    )
    for variable in model.trainable_variables:
        noise = np.random.default_rng(1).normal(size=variable.shape)
        variable.assign(variable + 0.1 * noise)
    kbert.save_pretrained(model, tmp_path / "ours")

    theirs, info = (
        transformers.AutoModelForSequenceClassification.from_pretrained(
            tmp_path / "ours", output_loading_info=True
        )
    )
    assert_complete(info)
    written = theirs.config
    assert written.id2label == dict(enumerate(names))
    assert written.label2id == {name: i for i, name in enumerate(names)}
    assert written.num_labels == 3
    assert written.classifier_dropout == 0.4
    assert theirs.dtype == torch.float32
    for ours, their_name in {
        "vocab_size": "vocab_size",
        "hidden_size": "hidden_size",
        "num_layers": "num_hidden_layers",
        "num_heads": "num_attention_heads",
        "intermediate_size": "intermediate_size",
        "max_positions": "max_position_embeddings",
        "num_segments": "type_vocab_size",
        "layer_norm_epsilon": "layer_norm_eps",
        "hidden_dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
        "initializer_range": "initializer_range",
        "pad_token_id": "pad_token_id",
    }.items():
        assert getattr(written, their_name) == getattr(config, ours), ours

    written.problem_type = "single_label_classification"
    batch = make_batch(written, seed=51)
    reference = torch_forward(theirs.eval(), batch)
    assert forward_difference(model, reference) <= TOLERANCE

    theirs.save_pretrained(tmp_path / "theirs")
    again = kbert.load_classifier(tmp_path / "theirs")
    assert_equal_weights(named_weights(again), named_weights(model))
    assert kbert.encoder_config(again) == config
    head = again.get_layer("classifier")
    assert head.label_names == names
    assert head.hidden_dropout == 0.4


@pytest.mark.parametrize("case", CASES)
def test_config_survives_the_way_there_and_back(case, tmp_path):
    saved = GOLDEN / case
    kbert.save_pretrained(kbert.load_classifier(saved), tmp_path)
    before, after = (
        transformers.AutoConfig.from_pretrained(directory).to_dict()
        for directory in (saved, tmp_path)
    )
    assert after.pop("position_embedding_type") == "absolute"
    for config in (before, after):
        config.pop("_name_or_path", None)
        config.pop("transformers_version", None)
    assert after == before


@pytest.mark.parametrize("case", CASES)
def test_golden_files_are_what_transformers_computes(case):
    values = CASES[case]
    config = make_config(**values)
    theirs = make_model(config, values["seed"])
    weights = {n: p.detach().numpy() for n, p in theirs.named_parameters()}
    assert_equal_weights(
        load_file(GOLDEN / case / "model.safetensors"), weights
    )
    computed = compute_reference(theirs, make_batch(config, values["seed"]))
    stored = load_file(GOLDEN / case / "reference.safetensors")
    assert largest_difference(computed, stored) <= TOLERANCE
    written = json.loads((GOLDEN / case / "config.json").read_text("utf-8"))
    assert written["architectures"] == ["BertForSequenceClassification"]
