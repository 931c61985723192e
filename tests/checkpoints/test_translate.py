"""config.json and `EncoderConfig`."""

import dataclasses
import json

import pytest
from refusals import refused

from kbert import families
from kbert.checkpoints.translate import config_from_hf, config_to_hf
from kbert.config import ACTIVATIONS, EncoderConfig
from kbert.families import BERT_BASE

REQUIRED = {
    "model_type": "bert",
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 3,
}
# google-bert/bert-base-uncased, as it lies on the hub.
BERT_BASE_UNCASED = {
    "architectures": ["BertForMaskedLM"],
    "attention_probs_dropout_prob": 0.1,
    "gradient_checkpointing": False,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "model_type": "bert",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
    "transformers_version": "4.6.0.dev0",
    "type_vocab_size": 2,
    "use_cache": True,
    "vocab_size": 30522,
}
THS = [f"{i}th" for i in range(11)]  # "10" sorts before "2"
CONFIG = EncoderConfig(
    vocab_size=50,
    hidden_size=16,
    num_layers=3,
    num_heads=4,
    intermediate_size=20,
    max_positions=30,
    num_segments=3,
    activation="gelu_tanh",
    layer_norm_epsilon=1e-5,
    hidden_dropout=0.2,
    attention_dropout=0.3,
    initializer_range=0.5,
    pad_token_id=7,
)


def translated(**changes):
    return config_from_hf({**REQUIRED, **changes})


def test_bert_base():
    result = config_from_hf(BERT_BASE_UNCASED)
    assert result.encoder == BERT_BASE
    assert result.encoder.family == "bert"
    assert result.unknown_keys == ()
    assert result.label_names is None
    assert result.num_labels is None
    assert result.classifier_dropout is None


def test_absent_keys_mean_what_they_do_in_transformers():
    assert translated().encoder == dataclasses.replace(
        BERT_BASE, vocab_size=50, hidden_size=24, num_layers=3
    )


@pytest.mark.parametrize("key", REQUIRED)
def test_required_keys(key):
    config = {name: x for name, x in REQUIRED.items() if name != key}
    with refused(ValueError, f"must have the key '{key}'"):
        config_from_hf(config)


@pytest.mark.parametrize("model_type", ["gpt2", "BERT", "", None, ["bert"]])
def test_unknown_family(model_type):
    with refused(ValueError, "checkpoints of model_type .*'bert'"):
        translated(model_type=model_type)


@pytest.mark.parametrize(
    "key, value",
    [
        ("position_embedding_type", "relative_key"),
        ("position_embedding_type", "relative_key_query"),
        ("is_decoder", True),
        ("add_cross_attention", True),
        ("is_encoder_decoder", True),
        ("use_bidirectional_attention", False),
    ],
)
def test_what_kbert_does_not_compute(key, value):
    with refused(ValueError, f"encoders with {key}=.* only") as caught:
        translated(**{key: value})
    assert f"{key}={value!r}" in str(caught.value)


@pytest.mark.parametrize("value", ["mish", "GELU", "", None, ["gelu"], 3])
def test_unknown_activation(value):
    with refused(ValueError, "`hidden_act` must be one of .*gelu_new"):
        translated(hidden_act=value)


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": "24"},
        {"hidden_size": 24.0},
        {"vocab_size": None},
        {"vocab_size": 0},
        {"vocab_size": True},
        {"num_attention_heads": 5},
        {"pad_token_id": 50},
        {"pad_token_id": -1},
        {"hidden_dropout_prob": 1.0},
        {"hidden_dropout_prob": "0.1"},
        {"attention_probs_dropout_prob": -0.1},
        {"layer_norm_eps": float("nan")},
        {"classifier_dropout": "0.1"},
    ],
    ids=str,
)
def test_values_are_checked(changes):
    with refused((TypeError, ValueError), "must be"):
        translated(**changes)


def test_unknown_keys_are_handed_back_by_name():
    result = translated(zebra=1, adapters={}, architectures=["BertModel"])
    assert result.unknown_keys == ("adapters", "zebra")


def test_no_padding_token():
    assert translated(pad_token_id=None).encoder.pad_token_id == 0


@pytest.mark.parametrize(
    "id2label, names, count",
    [
        ({"0": "no", "1": "yes"}, ["no", "yes"], 2),
        ({"1": "yes", "0": "no"}, ["no", "yes"], 2),
        ({0: "no", 1: "yes"}, ["no", "yes"], 2),
        ({"0": "nein", "1": "はい 😀"}, ["nein", "はい 😀"], 2),
        ({"0": "LABEL_0", "1": "LABEL_1"}, None, 2),
        ({"0": "LABEL_1", "1": "LABEL_0"}, ["LABEL_1", "LABEL_0"], 2),
        ({"0": "LABEL_0"}, None, 1),
        ({str(i): f"{i}th" for i in range(11)}, THS, 11),
        ({"0": 1, "1": 5}, ["1", "5"], 2),
        ({}, None, None),
        (None, None, None),
    ],
)
def test_labels(id2label, names, count):
    result = translated(id2label=id2label)
    assert result.label_names == names
    assert result.num_labels == count


@pytest.mark.parametrize(
    "id2label",
    [
        {"0": "a", "2": "c"},
        {"1": "a", "2": "b"},
        {"-1": "a", "0": "b"},
        {"0": "a", "00": "b"},
        {"zero": "a"},
        {"": "a"},
        {"0.0": "a"},
        ["a", "b"],
        "ab",
        3,
    ],
    ids=str,
)
def test_labels_that_name_no_classes(id2label):
    with refused(ValueError, "`id2label` must"):
        translated(id2label=id2label)


def test_number_of_labels_without_names():
    assert translated(num_labels=4).num_labels == 4


def test_there_and_back():
    names = ["nein", "はい"]
    written = config_to_hf(
        CONFIG,
        "BertForSequenceClassification",
        num_classes=2,
        label_names=names,
        classifier_dropout=0.4,
    )
    result = config_from_hf(json.loads(json.dumps(written)))
    assert result.encoder == CONFIG
    assert result.label_names == names
    assert result.num_labels == 2
    assert result.classifier_dropout == 0.4
    assert result.unknown_keys == ()
    assert written["label2id"] == {"nein": 0, "はい": 1}
    assert written["architectures"] == ["BertForSequenceClassification"]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_there_and_back(activation):
    config = dataclasses.replace(CONFIG, activation=activation)
    written = config_to_hf(config, "BertModel")
    assert config_from_hf(written).encoder == config
    assert "id2label" not in written


def test_unnamed_classes_get_placeholders():
    written = config_to_hf(CONFIG, "x", num_classes=2)
    assert written["id2label"] == {"0": "LABEL_0", "1": "LABEL_1"}
    assert config_from_hf(written).label_names is None


@pytest.mark.parametrize(
    "changes",
    [
        {"position_offset": 2},
        {"shared_layers": True},
        {"num_segments": 0},
        {"embedding_size": 8},
    ],
    ids=str,
)
def test_what_bert_cannot_express(changes):
    config = dataclasses.replace(CONFIG, **changes)
    with refused(
        ValueError, "cannot express this encoder.*" + next(iter(changes))
    ):
        config_to_hf(config, "BertModel")


def test_embedding_size_of_the_hidden_size_is_a_projection():
    """Which ALBERT always has, and BERT and ELECTRA never then."""
    albert = dataclasses.replace(
        CONFIG,
        family="albert",
        shared_layers=True,
        embedding_size=CONFIG.hidden_size,
    )
    assert config_from_hf(config_to_hf(albert, "x")).encoder == albert
    electra = dataclasses.replace(CONFIG, family="electra")
    written = config_to_hf(electra, "x")
    assert written["embedding_size"] == CONFIG.hidden_size
    assert config_from_hf(written).encoder == electra
    bert = dataclasses.replace(CONFIG, embedding_size=CONFIG.hidden_size)
    with refused(ValueError, "cannot express this encoder.*embedding_size"):
        config_to_hf(bert, "x")


# The published configs, as they lie on the hub, less what kbert ignores in
# every family (names of classes, versions, ids of special tokens).
MODERNBERT_BASE = {
    "attention_bias": False,
    "attention_dropout": 0.0,
    "classifier_activation": "gelu",
    "classifier_bias": False,
    "classifier_dropout": 0.0,
    "classifier_pooling": "mean",
    "decoder_bias": True,
    "deterministic_flash_attn": False,
    "embedding_dropout": 0.0,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "hidden_activation": "gelu",
    "hidden_size": 768,
    "initializer_cutoff_factor": 2.0,
    "initializer_range": 0.02,
    "intermediate_size": 1152,
    "layer_norm_eps": 1e-05,
    "local_attention": 128,
    "local_rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "mlp_dropout": 0.0,
    "model_type": "modernbert",
    "norm_bias": False,
    "norm_eps": 1e-05,
    "num_attention_heads": 12,
    "num_hidden_layers": 22,
    "pad_token_id": 50283,
    "position_embedding_type": "absolute",
    "vocab_size": 50368,
}
DEBERTA_V3_BASE = {
    "model_type": "deberta-v2",
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "relative_attention": True,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "layer_norm_eps": 1e-7,
    "max_relative_positions": -1,
    "position_biased_input": False,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "type_vocab_size": 0,
    "vocab_size": 128100,
}
MPNET_BASE = {
    "model_type": "mpnet",
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 514,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pad_token_id": 1,
    "relative_attention_num_buckets": 32,
    "vocab_size": 30527,
}


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (MODERNBERT_BASE, "MODERNBERT_BASE"),
        (DEBERTA_V3_BASE, "DEBERTA_V3_BASE"),
        (MPNET_BASE, "MPNET_BASE"),
    ],
)
def test_published_configs_are_the_published_sizes(config, name):
    result = config_from_hf(config)
    assert result.unknown_keys == ()
    encoder = dataclasses.replace(
        result.encoder, has_pooler=getattr(families, name).has_pooler
    )
    assert encoder == getattr(families, name)
    again = config_from_hf(config_to_hf(result.encoder, "x"))
    assert again.encoder == result.encoder
    pooling = "mean" if name.startswith("MODERN") else None
    assert result.classifier_pooling == pooling


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (MODERNBERT_BASE, {"norm_bias": True}, "norm_bias"),
        (MODERNBERT_BASE, {"attention_bias": True}, "attention_bias"),
        (MODERNBERT_BASE, {"decoder_bias": False}, "decoder_bias"),
        (MODERNBERT_BASE, {"mlp_dropout": 0.1}, "mlp_dropout"),
        (MODERNBERT_BASE, {"global_attn_every_n_layers": 0}, "positive"),
        (
            MODERNBERT_BASE,
            {"layer_types": ["full_attention", "sliding_attention"] * 11},
            None,
        ),
        (
            MODERNBERT_BASE,
            {"layer_types": ["sliding_attention"] * 22},
            "layer_types",
        ),
        (MODERNBERT_BASE, {"layer_types": ["full_attention"]}, "layer_types"),
        (
            MODERNBERT_BASE,
            {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
            "rope_type",
        ),
        (MODERNBERT_BASE, {"rope_scaling": {"factor": 2}}, "rope_scaling"),
        (MODERNBERT_BASE, {"classifier_pooling": "max"}, "classifier_pooling"),
        (DEBERTA_V3_BASE, {"pos_att_type": "c2p"}, "pos_att_type"),
        (DEBERTA_V3_BASE, {"pos_att_type": None}, "pos_att_type"),
        (DEBERTA_V3_BASE, {"pos_att_type": ["c2p", "p2c"]}, None),
        (DEBERTA_V3_BASE, {"share_att_key": False}, "share_att_key"),
        (DEBERTA_V3_BASE, {"norm_rel_ebd": "none"}, "norm_rel_ebd"),
        (DEBERTA_V3_BASE, {"conv_kernel_size": 3}, "conv_kernel_size"),
        (DEBERTA_V3_BASE, {"relative_attention": False}, "relative_attention"),
        (DEBERTA_V3_BASE, {"position_buckets": -1}, "relative_buckets"),
        (DEBERTA_V3_BASE, {"embedding_size": 128}, "embedding_size"),
        (DEBERTA_V3_BASE, {"pooler_hidden_act": "tanh"}, "pooler_hidden_act"),
    ],
    ids=str,
)
def test_what_kbert_does_not_compute_in_newer_families(
    config, changes, message
):
    if message is None:  # another way to say what kbert does compute
        config_from_hf(config | changes)
        return
    with refused(ValueError, message):
        config_from_hf(config | changes)


def test_modernbert_speaks_to_old_and_new_versions():
    new = MODERNBERT_BASE | {
        "layer_types": [
            "sliding_attention" if i % 4 else "full_attention"
            for i in range(22)
        ],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 9e4},
            "sliding_attention": {"rope_type": "default", "rope_theta": 7e3},
        },
    }
    for key in ("global_attn_every_n_layers", "global_rope_theta"):
        del new[key]
    encoder = config_from_hf(new).encoder
    assert encoder.global_every == 4
    assert (encoder.rotary_base, encoder.local_rotary_base) == (9e4, 7e3)
    old = MODERNBERT_BASE | {
        "global_attn_every_n_layers": 4,
        "global_rope_theta": 9e4,
        "local_rope_theta": 7e3,
    }
    assert config_from_hf(old).encoder == encoder
    written = config_to_hf(encoder, "x")
    assert written["global_rope_theta"] == 9e4
    assert written["rope_parameters"] == new["rope_parameters"]
    assert written["layer_types"] == new["layer_types"]


def test_a_model_of_few_layers_repeats_global_attention_never():
    config = MODERNBERT_BASE | {"num_hidden_layers": 2}
    encoder = config_from_hf(config).encoder
    assert (encoder.global_every, encoder.local_window) == (2, 64)
    everywhere = config_from_hf(config | {"global_attn_every_n_layers": 1})
    assert everywhere.encoder.local_window is None
