"""Checkpoints in Google's layout, written and read back."""

import json
import re
from dataclasses import replace

import albert_graph
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from refusals import refused

import kbert
from kbert.checkpoints.mapping import weight_variables

BERT = kbert.EncoderConfig(
    vocab_size=12,
    hidden_size=8,
    num_layers=2,
    num_heads=2,
    intermediate_size=12,
    max_positions=10,
    hidden_dropout=0.0,
    attention_dropout=0.3,
    initializer_range=0.5,
)
ALBERT = replace(
    BERT,
    num_layers=4,
    num_layer_groups=2,
    layers_per_group=2,
    shared_layers=True,
    embedding_size=4,
    activation="gelu_tanh",
    family="albert",
)
FILES = {
    "bert": ("bert_config.json", "bert_model.ckpt"),
    "albert": ("albert_config.json", "model.ckpt-best"),
}
MASK = np.array([[1] * 6, [1] * 2 + [0] * 4], "int32")
INPUTS = {
    "token_ids": np.arange(12, dtype="int32").reshape(2, 6) * MASK,
    "segment_ids": (np.arange(6, dtype="int32") > 1) * MASK,
    "padding_mask": MASK,
    "mask_positions": np.array([[1, 3], [1, 0]], "int32"),
}
# Name → (builder, loader, names of the head's variables in the file).
MLM = {
    "cls/predictions/transform/dense/kernel",
    "cls/predictions/transform/dense/bias",
    "cls/predictions/transform/LayerNorm/gamma",
    "cls/predictions/transform/LayerNorm/beta",
    "cls/predictions/output_bias",
}
NSP = {
    "cls/seq_relationship/output_weights",
    "cls/seq_relationship/output_bias",
}
MODELS = {
    "encoder": (lambda e: e, kbert.load_encoder, set()),
    "classifier": (
        lambda e: kbert.build_classifier(e, 3, label_names=["no", "ja", "…"]),
        kbert.load_classifier,
        {"output_weights", "output_bias"},
    ),
    "span": (
        kbert.build_span_model,
        kbert.load_span_model,
        {"cls/squad/output_weights", "cls/squad/output_bias"},
    ),
    "mlm": (kbert.build_masked_lm, kbert.load_masked_lm, MLM),
    "pretrainer": (kbert.build_pretrainer, kbert.load_pretrainer, MLM | NSP),
}


def random_encoder(config, seed=0):
    encoder = kbert.build_encoder(config)
    rng = np.random.default_rng(seed)
    for variable in encoder.weights:
        variable.assign(rng.normal(0, 0.5, variable.shape))
    return encoder


def outputs(model):
    result = model({name: INPUTS[name] for name in model.input})
    if not isinstance(result, dict):
        result = {"logits": result}
    return {key: ops.convert_to_numpy(x) for key, x in result.items()}


def read(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names}


def directory_bytes(directory):
    return {p.name: p.read_bytes() for p in directory.iterdir()}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("config", [BERT, ALBERT], ids=["bert", "albert"])
def test_there_and_back(tmp_path, name, config):
    build, load, head = MODELS[name]
    model = build(random_encoder(config))
    kbert.save_tf_checkpoint(model, tmp_path / "out")
    config_name, prefix = FILES[config.family]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        config_name,
        f"{prefix}.index",
        f"{prefix}.data-00000-of-00001",
    }
    again, report = load(tmp_path / "out", report=True)
    for part in ("missing", "unused", "ignored", "ignored_config_keys"):
        assert getattr(report, part) == ()
    assert kbert.encoder_config(again) == kbert.encoder_config(model)
    ours = outputs(model)
    for key, value in outputs(again).items():
        np.testing.assert_array_equal(value, ours[key])
    # Byte for byte, and as TensorFlow alone sees it.
    tensors = read(tmp_path / "out" / prefix)
    written = sorted(np.array(v).tobytes() for v in model.weights)
    kernels = {"output_weights", "cls/squad/output_weights"} | NSP
    found = [
        (array.T if key in kernels and array.ndim == 2 else array).tobytes()
        for key, array in tensors.items()
    ]
    assert sorted(found) == written
    assert {k for k in tensors if not k.startswith("bert/")} == head
    # Again gives the same files.
    before = directory_bytes(tmp_path / "out")
    kbert.save_tf_checkpoint(again, tmp_path / "out")
    assert directory_bytes(tmp_path / "out") == before


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("size", [4, None])
def test_graph_in_googles_scopes_restores_it(tmp_path, name, size):
    config = replace(ALBERT, embedding_size=size)
    model = MODELS[name][0](random_encoder(config))
    prefix = tmp_path / "model.ckpt-7"
    kbert.save_tf_checkpoint(model, prefix)
    config = json.loads((tmp_path / "albert_config.json").read_text())
    ours = outputs(model)
    if name == "mlm":
        ours = {"mlm": ours["logits"]}
    theirs = albert_graph.read(prefix, config, INPUTS, ours)
    for key, value in ours.items():
        reference = theirs[key]
        if key == "mlm":  # the graph's are of every position
            reference = np.stack(
                [reference[i, INPUTS["mask_positions"][i]] for i in (0, 1)]
            )
        elif value.shape[:2] == MASK.shape:
            value, reference = value[MASK > 0], reference[MASK > 0]
        np.testing.assert_allclose(value, reference, atol=1e-5)


def test_names_and_shapes_of_bert(tmp_path):
    """Written out once, from google-research/bert's modeling.py."""
    kbert.save_tf_checkpoint(random_encoder(BERT), tmp_path)
    dense = {"kernel": (8, 8), "bias": (8,)}
    norm = {"gamma": (8,), "beta": (8,)}
    expected = {
        "bert/embeddings/word_embeddings": (12, 8),
        "bert/embeddings/position_embeddings": (10, 8),
        "bert/embeddings/token_type_embeddings": (2, 8),
    }
    layers = {"bert/embeddings/LayerNorm": norm, "bert/pooler/dense": dense}
    for i in (0, 1):
        scope = f"bert/encoder/layer_{i}"
        layers |= {
            f"{scope}/attention/self/query": dense,
            f"{scope}/attention/self/key": dense,
            f"{scope}/attention/self/value": dense,
            f"{scope}/attention/output/dense": dense,
            f"{scope}/attention/output/LayerNorm": norm,
            f"{scope}/intermediate/dense": {"kernel": (8, 12), "bias": (12,)},
            f"{scope}/output/dense": {"kernel": (12, 8), "bias": (8,)},
            f"{scope}/output/LayerNorm": norm,
        }
    for scope, variables in layers.items():
        expected |= {f"{scope}/{k}": shape for k, shape in variables.items()}
    tensors = read(tmp_path / "bert_model.ckpt")
    assert {name: array.shape for name, array in tensors.items()} == expected
    assert all(array.dtype == np.float32 for array in tensors.values())


def test_config_is_googles(tmp_path):
    kbert.save_tf_checkpoint(random_encoder(BERT), tmp_path)
    config = json.loads((tmp_path / "bert_config.json").read_text())
    # The arguments of `BertConfig` in google-research/bert, and no others.
    assert config == {
        "vocab_size": 12,
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 12,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.3,
        "max_position_embeddings": 10,
        "type_vocab_size": 2,
        "initializer_range": 0.5,
    }
    kbert.save_tf_checkpoint(random_encoder(ALBERT), tmp_path / "albert")
    path = tmp_path / "albert" / "albert_config.json"
    config = json.loads(path.read_text())
    assert config["hidden_act"] == "gelu"
    assert (config["num_hidden_groups"], config["inner_group_num"]) == (2, 2)
    assert config["num_hidden_layers"] == 4


def test_what_a_head_says_comes_back(tmp_path):
    model = kbert.build_classifier(
        random_encoder(BERT),
        2,
        hidden_dropout=0.25,
        label_names=["a", "b"],
        problem_type="multi_label_classification",
    )
    kbert.save_tf_checkpoint(model, tmp_path)
    head = kbert.load_classifier(tmp_path).get_layer("classifier")
    assert head.label_names == ["a", "b"]
    assert head.hidden_dropout == 0.25
    assert head.problem_type == "multi_label_classification"


@pytest.mark.parametrize("name", ["bert_model.ckpt", "model.ckpt-12", "x.ckpt"])
def test_prefix(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = random_encoder(BERT)
    for path in (f"new/folder/{name}", name):
        kbert.save_tf_checkpoint(model, path)
        again = weight_variables(kbert.load_encoder(path))
        for key, variable in weight_variables(model).items():
            np.testing.assert_array_equal(np.array(again[key]), variable)


def test_without_a_pooler_and_without_a_projection(tmp_path):
    for family, config in {
        "bert": replace(BERT, has_pooler=False),
        "albert": replace(ALBERT, embedding_size=None),
    }.items():
        model = random_encoder(config)
        kbert.save_tf_checkpoint(model, tmp_path / family)
        again = kbert.load_encoder(tmp_path / family)
        assert kbert.encoder_config(again) == config
        ours = outputs(model)
        for key, value in outputs(again).items():
            np.testing.assert_array_equal(value, ours[key])
    names = read(tmp_path / "albert" / "model.ckpt-best")
    assert not any("embedding_hidden_mapping_in" in name for name in names)


def test_bfloat16_stays_bfloat16(tmp_path):
    model = kbert.build_encoder(BERT, dtype="bfloat16")
    kbert.save_tf_checkpoint(model, tmp_path)
    reader = tf.train.load_checkpoint(str(tmp_path / "bert_model.ckpt"))
    assert set(reader.get_variable_to_dtype_map().values()) == {tf.bfloat16}
    again = weight_variables(kbert.load_encoder(tmp_path, dtype="bfloat16"))
    for path, variable in weight_variables(model).items():
        ours = variable.numpy().astype("float32")
        found = again[path].numpy().astype("float32")
        np.testing.assert_array_equal(found, ours)


def test_tokenizer_is_saved_beside(tmp_path):
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] Play play ##ing".split()
    tokenizer = kbert.Tokenizer.from_vocab(words, lowercase=False)
    kbert.save_tf_checkpoint(
        random_encoder(BERT), tmp_path / "x.ckpt", tokenizer=tokenizer
    )
    assert (tmp_path / "vocab.txt").read_text().split() == words
    for source in (tmp_path, tmp_path / "x.ckpt"):
        again = kbert.Tokenizer.from_pretrained(source)
        assert again("Playing").ids == tokenizer("Playing").ids
    many = kbert.Tokenizer.from_vocab([*words, *"abcdefgh"])
    with refused(ValueError, "more ids than"):
        kbert.save_tf_checkpoint(
            random_encoder(BERT), tmp_path / "other", tokenizer=many
        )
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (
            lambda: kbert.build_encoder(replace(BERT, family="roberta")),
            r"known for \['albert', 'bert'\]",
        ),
        (
            lambda: kbert.build_token_classifier(kbert.build_encoder(BERT), 2),
            "names for the heads .*'token_classifier'",
        ),
        (
            lambda: kbert.build_encoder(replace(BERT, layer_norm_epsilon=1e-5)),
            "bert_config.json cannot express.*layer_norm_epsilon=1e-05",
        ),
        (
            lambda: kbert.build_encoder(replace(BERT, pad_token_id=3)),
            "cannot express.*pad_token_id=3",
        ),
        (
            lambda: kbert.build_encoder(replace(BERT, embedding_size=4)),
            "embedding",
        ),
        (
            lambda: kbert.build_encoder(replace(BERT, num_segments=0)),
            "num_segments=0",
        ),
        (
            lambda: kbert.build_encoder(replace(ALBERT, activation="gelu")),
            "albert_config.json cannot express.*activation='gelu'",
        ),
        (
            # Google's code has no projection between equal sizes.
            lambda: kbert.build_encoder(replace(ALBERT, embedding_size=8)),
            "cannot express.*embedding_size=8",
        ),
        (
            lambda: kbert.build_masked_lm(
                kbert.build_encoder(BERT), activation="relu"
            ),
            "activation='gelu'.*\n?.*activation='relu'",
        ),
        (
            lambda: kbert.build_classifier(
                kbert.build_encoder(BERT), 2, dense_activation="tanh"
            ),
            "no place for .*classifier/dense/kernel",
        ),
    ],
)
def test_what_the_layout_cannot_say(tmp_path, build, match):
    with refused(ValueError, match):
        kbert.save_tf_checkpoint(build(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_places_that_are_none(tmp_path):
    encoder = random_encoder(BERT)
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "bert_model.ckpt"):
        with refused(NotADirectoryError, "Expected a directory"):
            kbert.save_tf_checkpoint(encoder, path)
    with refused(ValueError, "move or rename"):
        kbert.save_tf_checkpoint(encoder, tmp_path / "v[1]")
    kbert.save_tf_checkpoint(random_encoder(ALBERT), tmp_path / "albert")
    with refused(ValueError, re.escape("'albert' already")):
        kbert.save_tf_checkpoint(encoder, tmp_path / "albert")
    # The failed attempts have changed nothing.
    kbert.load_encoder(tmp_path / "albert")


def test_saving_twice_replaces(tmp_path):
    for seed in (0, 1):
        model = random_encoder(BERT, seed)
        kbert.save_tf_checkpoint(model, tmp_path)
    again = weight_variables(kbert.load_encoder(tmp_path))
    for path, variable in weight_variables(model).items():
        np.testing.assert_array_equal(np.array(again[path]), variable)
