"""google-research/albert's own checkpoints: their names, and their numbers."""

import json
import re

import albert_graph
import family_files
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from refusals import refused

import kbert
from kbert.checkpoints.mapping import weight_variables

# Keys and order of the published albert_config.json.
CONFIG = {
    "attention_probs_dropout_prob": 0,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0,
    "embedding_size": 4,
    "hidden_size": 8,
    "initializer_range": 0.02,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 3,
    "num_hidden_groups": 1,
    "net_structure_type": 0,
    "gap_size": 0,
    "num_memory_blocks": 0,
    "inner_group_num": 1,
    "down_scale_factor": 1,
    "type_vocab_size": 2,
    "vocab_size": 30,
}
GROUPS = {"num_hidden_layers": 4, "num_hidden_groups": 2, "inner_group_num": 2}
NO_PROJECTION = {"embedding_size": 8}

MASK = np.array([[1] * 7, [1] * 4 + [0] * 3, [1] + [0] * 6], "int32")
INPUTS = {
    "token_ids": np.arange(21, dtype="int32").reshape(3, 7) * MASK,
    "segment_ids": (np.arange(7, dtype="int32") > 2) * MASK,
    "padding_mask": MASK,
}
HEADS = {
    "load_encoder": ("sequence_output", "pooled_output"),
    "load_classifier": ("logits",),
    "load_span_model": ("start", "end"),
    "load_masked_lm": ("mlm",),
    "load_pretrainer": ("mlm", "nsp"),
}


def write(directory, **changes):
    """What unpacking one of Google's archives gives, and its outputs."""
    config = CONFIG | changes
    directory.mkdir(exist_ok=True)
    (directory / "albert_config.json").write_text(json.dumps(config))
    return albert_graph.write(directory / "model.ckpt-best", config, INPUTS)


@pytest.fixture
def directory(tmp_path):
    write(tmp_path / "albert_base")
    return tmp_path / "albert_base"


def read(directory, name="model.ckpt-best"):
    reader = tf.train.load_checkpoint(str(directory / name))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names}


def rewrite(directory, tensors, name="model.ckpt-best"):
    tf.raw_ops.SaveV2(
        prefix=str(directory / name),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


def outputs(model, keys):
    positions = np.tile(np.arange(7, dtype="int32"), (3, 1))
    given = {**INPUTS, "mask_positions": positions}
    result = model({name: given[name] for name in model.input})
    if not isinstance(result, dict):
        result = dict.fromkeys(keys, result)
    assert set(result) == set(keys)
    return {key: ops.convert_to_numpy(result[key]) for key in keys}


def largest_difference(ours, theirs):
    largest = 0.0
    for key, value in ours.items():
        reference = theirs[key]
        assert value.shape == reference.shape
        if value.shape[:2] == MASK.shape:
            value, reference = value[MASK > 0], reference[MASK > 0]
        largest = max(largest, float(np.abs(value - reference).max()))
    return largest


@pytest.mark.parametrize("load", HEADS)
@pytest.mark.parametrize(
    "changes", [{}, GROUPS, NO_PROJECTION], ids=["", "groups", "equal sizes"]
)
def test_outputs_are_those_of_the_graph(tmp_path, load, changes):
    expected = write(tmp_path, **changes)
    model, report = getattr(kbert, load)(tmp_path, report=True)
    assert report.missing == report.ignored == report.ignored_config_keys == ()
    assert set(report.loaded) | set(report.unused) == set(read(tmp_path))
    ours = outputs(model, HEADS[load])
    assert largest_difference(ours, expected) < 1e-5
    # The same weights as safetensors, where Hugging Face has them.
    if changes == NO_PROJECTION:
        with refused(ValueError, "cannot express.*\n?.*embedding_size=None"):
            kbert.save_pretrained(model, tmp_path / "hf")
        return
    kbert.save_pretrained(model, tmp_path / "hf")
    again = outputs(getattr(kbert, load)(tmp_path / "hf"), HEADS[load])
    for key, value in ours.items():
        np.testing.assert_array_equal(again[key], value)


def test_gelu_is_the_tanh_form(tmp_path):
    expected = write(tmp_path)
    encoder = kbert.load_encoder(tmp_path)
    assert kbert.encoder_config(encoder).activation == "gelu_tanh"
    for block in encoder.layers:
        if block.name.startswith("encoder_block"):
            block.activation = "gelu"
    kbert.save_pretrained(encoder, tmp_path / "exact")
    exact = kbert.load_encoder(tmp_path / "exact")
    assert kbert.encoder_config(exact).activation == "gelu"
    ours = outputs(exact, HEADS["load_encoder"])
    assert largest_difference(ours, expected) > 5e-5


def test_relu_of_the_chinese_models(tmp_path):
    write(tmp_path)
    config = json.dumps(CONFIG | {"hidden_act": "relu"})
    (tmp_path / "albert_config.json").write_text(config)
    config = kbert.encoder_config(kbert.load_encoder(tmp_path))
    assert config.activation == "relu"


def test_config(directory):
    config = kbert.encoder_config(kbert.load_encoder(directory))
    assert config == kbert.EncoderConfig(
        vocab_size=30,
        hidden_size=8,
        num_layers=3,
        num_heads=2,
        intermediate_size=12,
        max_positions=16,
        embedding_size=4,
        shared_layers=True,
        activation="gelu_tanh",
        hidden_dropout=0.0,
        attention_dropout=0.0,
        family="albert",
    )


@pytest.mark.parametrize("name", ["model.ckpt-best", "model.ckpt-1200"])
def test_prefix(directory, name):
    tensors = read(directory)
    # As TF-Hub's module names them, in a scope of its own.
    rewrite(directory, {f"module/{k}": v for k, v in tensors.items()}, name)
    model, report = kbert.load_pretrainer(directory / name, report=True)
    assert report.source == str(directory / name)
    expected = weight_variables(kbert.load_pretrainer(directory))
    for path, variable in weight_variables(model).items():
        np.testing.assert_array_equal(np.array(variable), expected[path])


def test_state_of_the_optimiser(directory):
    tensors = read(directory)
    state = {"global_step": np.array(10)}
    for name, array in tensors.items():
        for slot in ("adam_m", "adam_v", "lamb_m", "lamb_v"):
            state[f"{name}/{slot}"] = np.full_like(array, 7.0)
    rewrite(directory, tensors | state)
    _, report = kbert.load_classifier(directory, report=True)
    assert set(report.ignored) == set(state)
    assert all(name.startswith("cls/") for name in report.unused)


def test_span_head_of_squad_2_is_not_squad_1(directory):
    tensors = {k: v for k, v in read(directory).items() if "squad" not in k}
    tensors["start_logits/dense/kernel"] = np.ones((8, 1), "float32")
    rewrite(directory, tensors)
    with refused(ValueError, "no tensor cls/squad/output_weights"):
        kbert.load_span_model(directory)
    _, report = kbert.load_encoder(directory, report=True)
    assert "start_logits/dense/kernel" in report.unused


def test_tokenizer_beside_it(directory, tmp_path):
    family_files.write_family(tmp_path / "hf", "albert")
    expected = kbert.Tokenizer.from_pretrained(tmp_path / "hf")
    model = (tmp_path / "hf" / "spiece.model").read_bytes()
    (directory / "30k-clean.model").write_bytes(model)
    text, pair = "Déjà  vu: the Quick", "1,000 ``words''"
    for source in (directory, directory / "model.ckpt-best"):
        tokenizer = kbert.Tokenizer.from_pretrained(source)
        assert tokenizer.family == "albert"
        assert tokenizer(text, pair).ids == expected(text, pair).ids
        assert tokenizer(text, pair).tokens[0] == "[CLS]"


# Faults.


@pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001"])
def test_missing_file(directory, suffix):
    name = f"model.ckpt-best{suffix}"
    (directory / name).unlink()
    for source in (directory, directory / "model.ckpt-best"):
        with refused(FileNotFoundError, f"No file {re.escape(name)}"):
            kbert.load_encoder(source)


def test_missing_config(directory):
    (directory / "albert_config.json").unlink()
    with refused(FileNotFoundError, "bert_config.json or albert_config.json"):
        kbert.load_encoder(directory)


def test_config_of_both_families(directory):
    (directory / "bert_config.json").write_text(json.dumps(CONFIG))
    with refused(ValueError, "found both"):
        kbert.load_encoder(directory)


def test_config_under_the_name_of_the_other_family(directory):
    (directory / "albert_config.json").rename(directory / "bert_config.json")
    with refused(ValueError, "Missing: .*encoder_block_0"):
        kbert.load_encoder(directory / "model.ckpt-best")


@pytest.mark.parametrize("family", ["roberta", "", None, ["albert"], {}])
def test_config_that_names_another_family(directory, family):
    config = json.dumps(CONFIG | {"model_type": family})
    (directory / "albert_config.json").write_text(config)
    with refused(ValueError, "are of .*albert.*model_type="):
        kbert.load_encoder(directory)


def test_each_tensor_is_needed(directory):
    tensors = read(directory)
    for name in tensors:
        if "/self/" in name or "pooler/" in name:
            continue
        rest = {k: v for k, v in tensors.items() if k != name}
        rewrite(directory, rest)
        with refused(ValueError, "Missing: 1|where the encoder is|no tensor"):
            kbert.load_pretrainer(directory)
            kbert.load_span_model(directory)
            kbert.load_classifier(directory)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"num_hidden_groups": 3}, "Missing: 32"),
        ({"inner_group_num": 2}, "Missing: 16"),
        ({"embedding_size": 8}, "Left over|has shape"),
        ({"hidden_size": 4}, "Left over|has shape"),
        ({"num_hidden_groups": 2}, "num_hidden_groups|num_layer_groups"),
        ({"hidden_act": ["gelu"]}, "hidden_act"),
    ],
)
def test_config_of_another_model(directory, change, match):
    config = json.dumps(CONFIG | change)
    (directory / "albert_config.json").write_text(config)
    with refused(ValueError, match):
        kbert.load_encoder(directory)
