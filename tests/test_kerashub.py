import dataclasses
import logging

import keras
import numpy as np
import pytest

import kbert
from kbert.checkpoints.keras_hub_tables import BACKBONES

keras_hub = pytest.importorskip("keras_hub")

SIZES = {
    "num_layers": 2,
    "num_heads": 2,
    "hidden_dim": 8,
    "intermediate_dim": 16,
    "max_sequence_length": 12,
}
# name of a case → class, arguments besides.
CASES = {
    "bert": ("BertBackbone", {"num_segments": 3}),
    "roberta": ("RobertaBackbone", {}),
    "xlm-roberta": ("XLMRobertaBackbone", {}),
    "distilbert": ("DistilBertBackbone", {}),
    "albert": ("AlbertBackbone", {"embedding_dim": 4}),
    "albert-groups": (
        "AlbertBackbone",
        {
            "embedding_dim": 8,
            "num_layers": 4,
            "num_groups": 2,
            "num_inner_repetitions": 2,
        },
    ),
    "albert-no-sharing": ("AlbertBackbone", {"embedding_dim": 4}),
    "electra": ("ElectraBackbone", {"embedding_dim": 4}),
    "electra-base": ("ElectraBackbone", {"embedding_dim": 8}),
}
CASES["albert-no-sharing"][1]["num_groups"] = 2


def randomize(model, seed=0):
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        noise = rng.normal(0.0, 0.5, variable.shape)
        variable.assign(noise + variable.path.endswith("gamma"))
    return model


def backbone_of(case, **more):
    name, arguments = CASES[case]
    word = "vocab_size" if name == "ElectraBackbone" else "vocabulary_size"
    arguments = {**SIZES, word: 20, **arguments, **more}
    return randomize(getattr(keras_hub.models, name)(**arguments))


def batch(model, segments=2):
    rng = np.random.default_rng(1)
    mask = np.array([[1] * 9, [1] * 5 + [0] * 4, [1] + [0] * 8], "int32")
    inputs = {
        "token_ids": rng.integers(2, 20, mask.shape).astype("int32") * mask,
        "padding_mask": mask,
    }
    if "segment_ids" in model.input:
        ids = rng.integers(0, segments, mask.shape)
        inputs["segment_ids"] = ids.astype("int32") * mask
    return inputs


def outputs_of(model, inputs):
    outputs = model(inputs)
    if not isinstance(outputs, dict):
        outputs = {"sequence_output": outputs}
    return {k: keras.ops.convert_to_numpy(v) for k, v in outputs.items()}


def assert_same(ours, theirs, mask, atol=1e-5):
    assert set(ours) == set(theirs)
    np.testing.assert_allclose(
        ours["sequence_output"][mask == 1],
        theirs["sequence_output"][mask == 1],
        rtol=0,
        atol=atol,
    )
    if "pooled_output" in ours:
        np.testing.assert_allclose(
            ours["pooled_output"], theirs["pooled_output"], rtol=0, atol=atol
        )


@pytest.mark.parametrize("case", CASES)
def test_there_and_back(case):
    backbone = backbone_of(case)
    inputs = batch(backbone, CASES[case][1].get("num_segments", 2))
    theirs = outputs_of(backbone, inputs)

    encoder = kbert.from_keras_hub(backbone)
    ours = inputs
    if "segment_ids" in encoder.input and "segment_ids" not in inputs:
        ours = {**inputs, "segment_ids": 0 * inputs["token_ids"]}
    assert_same(outputs_of(encoder, ours), theirs, inputs["padding_mask"])

    back = kbert.to_keras_hub(encoder)
    assert type(back) is type(backbone)
    skip = ("name", "trainable", "dtype")
    config, given = back.get_config(), backbone.get_config()
    for key in given:
        assert key in skip or config[key] == given[key], key
    for mine, original in zip(back.weights, backbone.weights, strict=True):
        np.testing.assert_array_equal(mine.numpy(), original.numpy())
    assert_same(outputs_of(back, inputs), theirs, inputs["padding_mask"], 0)


@pytest.mark.parametrize("family", BACKBONES)
def test_the_table_says_what_keras_hub_computes(family):
    layer = backbone_of(family).transformer_layers[0]
    layer = layer[0] if isinstance(layer, list) else layer
    spec = BACKBONES[family]
    assert layer.layer_norm_epsilon == spec.layer_norm_epsilon
    x = np.linspace(-4, 4, 99, dtype="float32")
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(layer.activation(x)),
        keras.activations.gelu(x, approximate=spec.activation == "gelu_tanh"),
        atol=1e-6,
    )


def test_roberta_adds_what_its_files_have():
    encoder = kbert.from_keras_hub(backbone_of("roberta"))
    config = kbert.encoder_config(encoder)
    assert config.position_offset == 2 and config.num_segments == 1
    # One segment is added to the positions on the way back.
    randomize(encoder, seed=2)
    inputs = batch(encoder, segments=1)
    ours = outputs_of(encoder, inputs)
    back = kbert.to_keras_hub(encoder)
    del inputs["segment_ids"]
    assert_same(ours, outputs_of(back, inputs), inputs["padding_mask"])


def test_weights_are_copied():
    backbone = backbone_of("bert")
    encoder = kbert.from_keras_hub(backbone)
    before = outputs_of(encoder, batch(encoder))
    randomize(backbone, seed=3)
    after = outputs_of(encoder, batch(encoder))
    np.testing.assert_array_equal(
        before["sequence_output"], after["sequence_output"]
    )


def test_dtype_policy_is_kept():
    backbone = backbone_of("bert", dtype="mixed_bfloat16")
    encoder = kbert.from_keras_hub(backbone)
    assert encoder.get_layer("embedding").dtype_policy.name == "mixed_bfloat16"
    back = kbert.to_keras_hub(encoder)
    assert back.token_embedding.dtype_policy.name == "mixed_bfloat16"


@pytest.mark.parametrize(
    "change, word",
    [
        ({"activation": "gelu"}, "activation='gelu' (KerasHub: 'gelu_tanh')"),
        ({"layer_norm_epsilon": 1e-5}, "layer_norm_epsilon=1e-05"),
        ({"attention_dropout": 0.3}, "attention_dropout=0.3"),
        ({"has_pooler": False}, "has_pooler=False (KerasHub: True)"),
    ],
    ids=str,
)
def test_differences_must_be_allowed(change, word, tiny_config, caplog):
    config = dataclasses.replace(tiny_config, activation="gelu_tanh")
    encoder = randomize(
        kbert.build_encoder(dataclasses.replace(config, **change))
    )
    with pytest.raises(ValueError, match="Received: ") as error:
        kbert.to_keras_hub(encoder)
    assert word in str(error.value)
    with caplog.at_level(logging.WARNING, logger="kbert"):
        backbone = kbert.to_keras_hub(encoder, allow_differences=True)
    assert word in caplog.text
    np.testing.assert_array_equal(
        backbone.token_embedding.embeddings.numpy(),
        encoder.get_layer("embedding").token.embeddings.numpy(),
    )


def test_a_pooler_is_dropped_where_keras_hub_has_none(tiny_config):
    config = dataclasses.replace(
        tiny_config, family="distilbert", num_segments=0
    )
    encoder = kbert.build_encoder(config)
    with pytest.raises(ValueError, match="has_pooler=True"):
        kbert.to_keras_hub(encoder)
    back = kbert.from_keras_hub(
        kbert.to_keras_hub(encoder, allow_differences=True)
    )
    assert not kbert.encoder_config(back).has_pooler


@pytest.mark.parametrize(
    "change, word",
    [
        ({"family": "camembert"}, "family='camembert'"),
        ({"num_segments": 0}, "num_segments=0"),
        ({"embedding_size": 8}, "embedding_size=8"),
        ({"shared_layers": True}, "shared_layers=True"),
        ({"family": "distilbert"}, "num_segments=2"),
        ({"family": "albert"}, "embedding_size=None"),
        ({"family": "electra", "embedding_size": 16}, "embedding_size=16"),
    ],
    ids=str,
)
def test_no_place_for_such_an_encoder(change, word, tiny_config):
    encoder = kbert.build_encoder(dataclasses.replace(tiny_config, **change))
    with pytest.raises(ValueError, match=f"Received: .*{word}"):
        kbert.to_keras_hub(encoder, allow_differences=True)


def test_other_models_are_refused(tiny_config):
    other = keras_hub.models.OPTBackbone(
        vocabulary_size=20,
        num_layers=1,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
    )
    encoder = kbert.build_encoder(tiny_config)
    for wrong in (other, encoder, "bert_tiny_en_uncased"):
        with pytest.raises(TypeError, match="BertBackbone.* Received: "):
            kbert.from_keras_hub(wrong)
    with pytest.raises(ValueError, match="Received: "):
        kbert.to_keras_hub(other)
    with pytest.raises(ValueError, match="Received: "):
        kbert.to_keras_hub(kbert.build_classifier(encoder, 2))


def test_an_adapter_is_not_lost():
    backbone = backbone_of("bert")
    backbone.enable_lora(2)
    with pytest.raises(ValueError, match="lora"):
        kbert.from_keras_hub(backbone)


def test_save_pretrained_takes_an_encoder_of_keras_hub(tmp_path):
    for case in ("bert", "roberta", "distilbert", "albert"):
        encoder = kbert.from_keras_hub(backbone_of(case))
        kbert.save_pretrained(encoder, tmp_path / case)
        loaded = kbert.load_encoder(tmp_path / case)
        assert kbert.encoder_config(loaded) == kbert.encoder_config(encoder)
    electra = kbert.from_keras_hub(backbone_of("electra"))
    with pytest.raises(ValueError, match="pooler"):
        kbert.save_pretrained(electra, tmp_path / "electra")
