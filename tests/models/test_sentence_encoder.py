"""Sentence encoders: built, saved, loaded, refused."""

import json

import keras
import numpy as np
import pytest
from keras import ops

import kbert
from kbert.models import sentence_layers


def numbers(x):
    return ops.convert_to_numpy(x)


def batch():
    ids = np.array([[2, 5, 7, 3, 0, 0], [2, 9, 10, 11, 12, 3]])
    return {
        "token_ids": ids,
        "segment_ids": 0 * ids,
        "padding_mask": (ids > 0).astype("int32"),
    }


def build(config, *args, **kwargs):
    keras.utils.set_random_seed(0)
    model = kbert.build_sentence_encoder(
        kbert.build_encoder(config), *args, **kwargs
    )
    rng = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(weight + rng.normal(0, 0.1, tuple(weight.shape)))
    return model


def projections():
    return [
        keras.layers.Dense(12, activation="tanh", name="wide"),
        keras.layers.Dense(6, use_bias=False, name="narrow"),
    ]


def test_vectors_are_unit_means_in_float32(tiny_config):
    encoder = kbert.build_encoder(tiny_config, dtype="mixed_bfloat16")
    model = kbert.build_sentence_encoder(encoder)
    vectors = numbers(model(batch()))
    assert vectors.dtype == "float32"
    states = ops.cast(encoder(batch())["sequence_output"], "float32")
    mask = batch()["padding_mask"][:, :, None]
    mean = (numbers(states) * mask).sum(1) / mask.sum(1)
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, mean, atol=1e-6)


def test_reload_keeps_everything(tiny_config, tmp_path):
    model = build(
        tiny_config,
        ["mean", "attention"],
        dense=projections(),
        similarity="dot",
        prompts={"query": "q: "},
        default_prompt_name="query",
        max_length=20,
    )
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        numbers(again(batch())), numbers(model(batch())), atol=1e-6
    )
    assert kbert.encoder_config(again) == kbert.encoder_config(model)
    for ours, theirs in zip(
        sentence_layers(model)[1], sentence_layers(again)[1], strict=True
    ):
        assert ours.name == theirs.name
    assert again.layers[-1].get_config() == model.layers[-1].get_config()


@pytest.mark.parametrize("dense", [(), projections])
@pytest.mark.parametrize(
    "pooling", ["cls", "last_token", ["weighted_mean", "max"]]
)
def test_directory_round_trip(tiny_config, tmp_path, pooling, dense):
    model = build(
        tiny_config,
        pooling,
        normalize=pooling == "cls",
        dense=dense and dense(),
        prompts={"query": "qü: ", "document": ""},
        max_length=20,
    )
    kbert.save_pretrained(model, tmp_path)
    again, report = kbert.load_sentence_encoder(tmp_path, report=True)
    assert not report.missing and not report.unused
    np.testing.assert_allclose(
        numbers(again(batch())), numbers(model(batch())), atol=1e-6
    )
    assert again.layers[-1].get_config() == model.layers[-1].get_config()
    if dense:
        assert "2_Dense/linear.weight" in report.loaded
    assert "load_sentence_encoder" in (tmp_path / "README.md").read_text()


def test_an_encoder_alone_gives_plain_means(tiny_config, tmp_path):
    encoder = kbert.build_encoder(tiny_config)
    kbert.save_pretrained(encoder, tmp_path)
    model, report = kbert.load_sentence_encoder(tmp_path, report=True)
    assert set(report.unused) == {"pooler.dense.weight", "pooler.dense.bias"}
    x = batch()
    mask = x["padding_mask"][:, :, None]
    states = numbers(encoder(x)["sequence_output"])
    mean = (states * mask).sum(1) / mask.sum(1)
    np.testing.assert_allclose(numbers(model(x)), mean, atol=1e-5)


def test_encoder_in_a_folder_of_its_own(tiny_config, tmp_path):
    """The layout of versions 0 and 1, with options of several files."""
    model = build(tiny_config, "mean_sqrt_length", normalize=False)
    kbert.save_pretrained(model, tmp_path)
    folder = tmp_path / "0_BERT"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).rename(folder / name)
    (tmp_path / "sentence_bert_config.json").unlink()
    (folder / "sentence_roberta_config.json").write_text(
        '{"max_seq_length": 17}'
    )
    edit(tmp_path / "modules.json", lambda m: m[0].update(path="0_BERT"))
    again = kbert.load_sentence_encoder(tmp_path)
    np.testing.assert_allclose(
        numbers(again(batch())), numbers(model(batch())), atol=1e-6
    )
    assert again.layers[-1].max_length == 17


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


FAULTS = {
    "unknown module": (
        "modules.json",
        lambda m: m[1].update(type="sentence_transformers.models.LSTM"),
    ),
    "code of its own": (
        "modules.json",
        lambda m: m[1].update(type="custom_st.Pooling"),
    ),
    "order": ("modules.json", lambda m: m[0].update(idx=9)),
    "no path": ("modules.json", lambda m: m[0].pop("path")),
    "mode": (
        "1_Pooling/config.json",
        lambda c: c.update(pooling_mode="median"),
    ),
    "prompt left out": (
        "1_Pooling/config.json",
        lambda c: c.update(include_prompt=False),
    ),
    "activation": (
        "2_Dense/config.json",
        lambda c: c.update(activation_function="torch.nn.GLU"),
    ),
    "residual": (
        "2_Dense/config.json",
        lambda c: c.update(use_residual=True),
    ),
    "similarity": (
        "config_sentence_transformers.json",
        lambda c: c.update(similarity_fn_name="maxsim"),
    ),
    "kind of model": (
        "config_sentence_transformers.json",
        lambda c: c.update(model_type="SparseEncoder"),
    ),
    "lower-casing": (
        "sentence_bert_config.json",
        lambda c: c.update(do_lower_case=True),
    ),
    "task": (
        "sentence_bert_config.json",
        lambda c: c.update(transformer_task="fill-mask"),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_refuses_what_it_does_not_compute(fault, tiny_config, tmp_path):
    kbert.save_pretrained(build(tiny_config, dense=projections()), tmp_path)
    name, change = FAULTS[fault]
    edit(tmp_path / name, change)
    with pytest.raises(ValueError, match="Received: "):
        kbert.load_sentence_encoder(tmp_path)


def test_absent_files_are_errors(tiny_config, tmp_path):
    kbert.save_pretrained(build(tiny_config, dense=projections()), tmp_path)
    (tmp_path / "3_Dense" / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="3_Dense"):
        kbert.load_sentence_encoder(tmp_path)


def test_saving_refuses_what_the_format_lacks(tiny_config, tmp_path):
    with pytest.raises(ValueError, match="attention"):
        kbert.save_pretrained(build(tiny_config, "attention"), tmp_path)
    softmax = [keras.layers.Dense(4, activation="softmax")]
    with pytest.raises(ValueError, match="softmax"):
        kbert.save_pretrained(build(tiny_config, dense=softmax), tmp_path)


def test_building_refuses(tiny_config):
    encoder = kbert.build_encoder(tiny_config)
    with pytest.raises(ValueError, match="packed"):
        kbert.build_sentence_encoder(kbert.build_packed(encoder))
    with pytest.raises(TypeError, match="Received: "):
        kbert.build_sentence_encoder(encoder, dense=[keras.layers.Dropout(0.1)])
    with pytest.raises(ValueError, match="no single result"):
        kbert.build_packed(kbert.build_sentence_encoder(encoder))
