"""Google's TensorFlow 1 checkpoints, whole and damaged."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from refusals import refused
from safetensors.numpy import load_file

import kbert
from kbert.checkpoints.mapping import weight_variables
from kbert.checkpoints.tf_checkpoint import TensorFlowReader

GOLDEN = Path(__file__).parents[1] / "golden" / "bert"
# What bert_config.json does not say is as in BERT.
CONFIG = {
    key: value
    for key, value in json.loads((GOLDEN / "config.json").read_text()).items()
    if key
    in (
        "attention_probs_dropout_prob hidden_act hidden_dropout_prob "
        "hidden_size initializer_range intermediate_size "
        "max_position_embeddings num_attention_heads num_hidden_layers "
        "type_vocab_size vocab_size layer_norm_eps pad_token_id"
    ).split()
} | {"directionality": "bidi", "pooler_type": "first_token_transform"}
VOCABULARY = "[PAD] [UNK] [CLS] [SEP] [MASK] Play play ##ing".split()
DATA = ".data-00000-of-00001"


def write_checkpoint(prefix: Path, tensors: dict[str, np.ndarray]) -> None:
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


def google_tensors() -> dict[str, np.ndarray]:
    """Name the golden model's tensors as google-research/bert does."""
    tensors = {}
    for name, array in load_file(GOLDEN / "model.safetensors").items():
        if name.startswith("classifier"):
            # run_classifier.py multiplies with the transpose, as torch does.
            kind = name.removeprefix("classifier.")
            name = {"weight": "output_weights", "bias": "output_bias"}[kind]
            tensors[name] = array
            continue
        name = name.replace(".layer.", ".layer_").replace(".", "/")
        name = name.replace("LayerNorm/weight", "LayerNorm/gamma")
        name = name.replace("LayerNorm/bias", "LayerNorm/beta")
        name = name.replace("_embeddings/weight", "_embeddings")
        if name.endswith("/weight"):
            name, array = name.replace("/weight", "/kernel"), array.T
        tensors[name] = array
    return tensors


def without_head(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {k: v for k, v in tensors.items() if not k.startswith("output_")}


def pretraining_heads() -> dict[str, np.ndarray]:
    hidden, vocabulary = CONFIG["hidden_size"], CONFIG["vocab_size"]
    shapes = {
        "cls/predictions/transform/dense/kernel": (hidden, hidden),
        "cls/predictions/transform/dense/bias": (hidden,),
        "cls/predictions/transform/LayerNorm/gamma": (hidden,),
        "cls/predictions/transform/LayerNorm/beta": (hidden,),
        "cls/predictions/output_bias": (vocabulary,),
        "cls/seq_relationship/output_weights": (2, hidden),
        "cls/seq_relationship/output_bias": (2,),
    }
    rng = np.random.default_rng(0)
    return {
        name: rng.normal(size=shape).astype("float32")
        for name, shape in shapes.items()
    }


def optimizer_state(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    state = {"global_step": np.array(1200), "beta1_power": np.float32(0.9)}
    for name, array in tensors.items():
        for slot in (
            "adam_m",
            "adam_v",
            "AdamWeightDecayOptimizer",
            "AdamWeightDecayOptimizer_1",
            "LAMB",
            "LAMB_1",
            "Adam",
            "Adam_1",
        ):
            state[f"{name}/{slot}"] = np.full_like(array, 7.0)
    return state


@pytest.fixture
def directory(tmp_path) -> Path:
    """What unpacking one of Google's archives gives."""
    path = tmp_path / "uncased_L-2_H-16_A-2"
    path.mkdir()
    tensors = without_head(google_tensors()) | pretraining_heads()
    write_checkpoint(path / "bert_model.ckpt", tensors)
    (path / "bert_config.json").write_text(json.dumps(CONFIG))
    (path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return path


def assert_same_weights(model, expected) -> None:
    variables = weight_variables(expected)
    found = weight_variables(model)
    assert list(found) == list(variables)
    for path, variable in found.items():
        np.testing.assert_array_equal(
            np.array(variable), np.array(variables[path]), err_msg=path
        )


def test_names_are_googles(directory):
    # Written out once, from google-research/bert, for all the renaming.
    names = set(TensorFlowReader(directory / "bert_model.ckpt").shapes())
    block = "bert/encoder/layer_1/"
    assert names >= {
        "bert/embeddings/word_embeddings",
        "bert/embeddings/position_embeddings",
        "bert/embeddings/token_type_embeddings",
        "bert/embeddings/LayerNorm/gamma",
        block + "attention/self/query/kernel",
        block + "attention/self/value/bias",
        block + "attention/output/dense/kernel",
        block + "attention/output/LayerNorm/beta",
        block + "intermediate/dense/kernel",
        block + "output/dense/bias",
        block + "output/LayerNorm/gamma",
        "bert/pooler/dense/kernel",
    }


@pytest.mark.parametrize("where", ["", "bert_model.ckpt"])
@pytest.mark.parametrize("kind", [str, Path])
def test_encoder_is_that_of_safetensors(directory, where, kind):
    encoder, report = kbert.load_encoder(kind(directory / where), report=True)
    expected = kbert.load_encoder(GOLDEN)
    assert_same_weights(encoder, expected)
    assert kbert.encoder_config(encoder) == kbert.encoder_config(expected)
    assert report.source == str(directory / "bert_model.ckpt")
    assert set(report.unused) == set(pretraining_heads())
    assert report.missing == report.ignored == report.ignored_config_keys == ()


def test_relative_prefix(directory, monkeypatch):
    monkeypatch.chdir(directory)
    encoder = kbert.load_encoder("bert_model.ckpt")
    assert_same_weights(encoder, kbert.load_encoder(GOLDEN))
    assert kbert.Tokenizer.from_pretrained("bert_model.ckpt").vocab_size == 8


def test_classifier_of_run_classifier(directory):
    tensors = google_tensors()
    state = optimizer_state(tensors)
    prefix = directory / "model.ckpt-1200"
    write_checkpoint(prefix, tensors | state)
    model, report = kbert.load_classifier(prefix, report=True)
    assert_same_weights(model, kbert.load_classifier(GOLDEN))
    assert set(report.loaded) == set(tensors)
    assert report.missing == report.unused == ()
    assert set(report.ignored) == set(state)
    assert f"no weights: {len(state)} (" in str(report)
    _, report = kbert.load_encoder(prefix, report=True)
    assert set(report.unused) == {"output_weights", "output_bias"}


def test_head_of_a_pretrained_checkpoint(directory):
    with refused(ValueError, r"no tensor output_weights.* fresh_head=True"):
        kbert.load_classifier(directory)
    model, report = kbert.load_classifier(
        directory, fresh_head=True, num_classes=4, report=True
    )
    assert model.output_shape == (None, 4)
    assert {path.split("/")[0] for path in report.missing} == {"classifier"}
    with refused(ValueError, "needs `num_classes`"):
        kbert.load_classifier(directory, fresh_head=True)


def test_pretraining_heads(directory):
    model, report = kbert.load_pretrainer(directory, report=True)
    assert report.unused == report.missing == ()
    heads = pretraining_heads()
    variables = weight_variables(model)
    for path, name in {
        "mlm/dense/kernel": "cls/predictions/transform/dense/kernel",
        "mlm/dense/bias": "cls/predictions/transform/dense/bias",
        "mlm/layer_norm/gamma": "cls/predictions/transform/LayerNorm/gamma",
        "mlm/layer_norm/beta": "cls/predictions/transform/LayerNorm/beta",
        "mlm_bias/bias": "cls/predictions/output_bias",
        "nsp/logits/bias": "cls/seq_relationship/output_bias",
    }.items():
        np.testing.assert_array_equal(variables[path].numpy(), heads[name])
    np.testing.assert_array_equal(
        variables["nsp/logits/kernel"].numpy(),
        heads["cls/seq_relationship/output_weights"].T,
    )
    # The same through Hugging Face's layout.
    kbert.save_pretrained(model, directory / "hf")
    assert_same_weights(kbert.load_pretrainer(directory / "hf"), model)


def test_span_head_of_run_squad(directory):
    hidden = CONFIG["hidden_size"]
    head = {
        "cls/squad/output_weights": np.arange(2 * hidden, dtype="float32"),
        "cls/squad/output_bias": np.array([3, 5], "float32"),
    }
    head["cls/squad/output_weights"].shape = (2, hidden)
    tensors = without_head(google_tensors()) | head
    write_checkpoint(directory / "bert_model.ckpt", tensors)
    variables = weight_variables(kbert.load_span_model(directory))
    np.testing.assert_array_equal(
        variables["span/logits/kernel"].numpy(),
        head["cls/squad/output_weights"].T,
    )
    assert variables["span/logits/bias"].numpy().tolist() == [3, 5]


def test_checkpoint_without_a_pooler(directory):
    tensors = without_head(google_tensors())
    kept = {k: v for k, v in tensors.items() if "pooler" not in k}
    write_checkpoint(directory / "bert_model.ckpt", kept)
    encoder = kbert.load_encoder(directory)
    assert not kbert.encoder_config(encoder).has_pooler


def test_several_data_files(directory):
    tensors = list(without_head(google_tensors()).items())
    parts = [directory / "part_1", directory / "part_2"]
    write_checkpoint(parts[0], dict(tensors[::2]))
    write_checkpoint(parts[1], dict(tensors[1::2]))
    prefix = directory / "sharded.ckpt"
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=[str(part) for part in parts],
        destination_prefix=str(prefix),
    )
    encoder = kbert.load_encoder(prefix)
    assert_same_weights(encoder, kbert.load_encoder(GOLDEN))
    lost = directory / "sharded.ckpt.data-00001-of-00002"
    lost.unlink()
    with refused(FileNotFoundError, lost.name):
        kbert.load_encoder(prefix)


def test_tokenizer_beside_it(directory):
    for source in (directory, directory / "bert_model.ckpt"):
        tokenizer = kbert.Tokenizer.from_pretrained(source)
        assert tokenizer("Playing").tokens[1:-1] == ["play", "##ing"]
        cased = kbert.Tokenizer.from_pretrained(source, lowercase=False)
        assert cased("Playing").tokens[1:-1] == ["Play", "##ing"]
    (directory / "vocab.txt").unlink()
    with refused(FileNotFoundError, "tokenizer.json or a vocab.txt"):
        kbert.Tokenizer.from_pretrained(directory / "bert_model.ckpt")


def test_what_a_config_may_leave_out(directory):
    # The first published files say this much.
    few = "hidden_size num_hidden_layers num_attention_heads vocab_size".split()
    short = {key: CONFIG[key] for key in few}
    short |= {
        "intermediate_size": CONFIG["intermediate_size"],
        "max_position_embeddings": CONFIG["max_position_embeddings"],
        "type_vocab_size": CONFIG["type_vocab_size"],
    }
    (directory / "bert_config.json").write_text(json.dumps(short))
    config = kbert.encoder_config(kbert.load_encoder(directory))
    assert config.layer_norm_epsilon == 1e-12
    assert config.activation == "gelu"
    assert config.hidden_dropout == 0.1


def test_config_json_makes_it_hugging_faces(directory):
    for name in ("config.json", "model.safetensors"):
        shutil.copy(GOLDEN / name, directory)
    _, report = kbert.load_encoder(directory, report=True)
    assert report.source == str(directory)
    _, report = kbert.load_encoder(directory / "bert_model.ckpt", report=True)
    assert report.source == str(directory / "bert_model.ckpt")


def test_prefix_with_odd_characters(directory):
    odd = directory.parent / "BERT v1 *?{é}"
    directory.rename(odd)
    encoder = kbert.load_encoder(odd / "bert_model.ckpt")
    assert_same_weights(encoder, kbert.load_encoder(GOLDEN))
    bracket = odd.rename(directory.parent / "BERT [v1]")
    with refused(ValueError, "move or rename the directory"):
        kbert.load_encoder(bracket / "bert_model.ckpt")


# Faults.


@pytest.mark.parametrize(
    "name",
    ["bert_config.json", "bert_model.ckpt.index", "bert_model.ckpt" + DATA],
)
def test_missing_file(directory, name):
    (directory / name).unlink()
    for source in (directory, directory / "bert_model.ckpt"):
        with refused(FileNotFoundError, f"No file {re.escape(name)}"):
            kbert.load_encoder(source)


def test_prefixes_that_are_none(directory):
    for source in (directory / "other.ckpt", f"{directory}/x/bert_model.ckpt"):
        with refused(FileNotFoundError, "No file other.ckpt|does not exist"):
            kbert.load_encoder(source)
    with refused(FileNotFoundError, "is a file"):
        kbert.load_encoder(directory / "bert_model.ckpt.index")


def test_truncated_files(directory):
    for name in (".index", DATA):
        path = directory / f"bert_model.ckpt{name}"
        whole = path.read_bytes()
        for length in (0, 1, len(whole) // 2, len(whole) - 1):
            if name == DATA and length == len(whole) - 1:
                continue  # of a head that nothing takes
            path.write_bytes(whole[:length])
            with refused(ValueError, "Not a complete TensorFlow checkpoint"):
                kbert.load_encoder(directory)
        path.write_bytes(whole)
    kbert.load_encoder(directory)


def test_damaged_numbers(directory):
    path = directory / ("bert_model.ckpt" + DATA)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with refused(ValueError, "Not a complete TensorFlow checkpoint"):
        kbert.load_encoder(directory)


@pytest.mark.parametrize("change", [{"hidden_size": 8}, {"vocab_size": 99}])
def test_other_shapes_than_the_config(directory, change):
    config = json.dumps(CONFIG | change)
    (directory / "bert_config.json").write_text(config)
    with refused(ValueError, "bert/embeddings/word_embeddings has shape"):
        kbert.load_encoder(directory)


def test_other_number_of_blocks_than_the_config(directory):
    for blocks, match in ((1, "Left over"), (3, r"Missing: 16 \(encoder_b")):
        config = json.dumps(CONFIG | {"num_hidden_layers": blocks})
        (directory / "bert_config.json").write_text(config)
        with refused(ValueError, match):
            kbert.load_encoder(directory)


def test_each_tensor_is_needed(directory):
    tensors = google_tensors()
    state = optimizer_state(tensors)
    prefix = directory / "bert_model.ckpt"
    for name in tensors:
        if "layer_1" in name:
            continue
        kept = {k: v for k, v in tensors.items() if k != name}
        write_checkpoint(prefix, kept | state)
        with refused(ValueError, "Missing: 1|where the encoder is|no tensor"):
            kbert.load_classifier(directory)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"hidden_size": 16}'])
def test_config_that_is_none(directory, content):
    (directory / "bert_config.json").write_text(content)
    with refused(ValueError, "JSON|must have the key"):
        kbert.load_encoder(directory)


def test_checkpoint_of_tensorflow_2(directory):
    checkpoint = tf.train.Checkpoint(x=tf.Variable(1.0))
    checkpoint.write(str(directory / "bert_model.ckpt"))
    with refused(ValueError, "of objects, as TensorFlow 2"):
        kbert.load_encoder(directory)


def test_checkpoint_of_something_else(directory):
    prefix = directory / "bert_model.ckpt"
    write_checkpoint(prefix, {"x": np.ones(3)})
    with refused(ValueError, "'embeddings/word_embeddings', with any prefix"):
        kbert.load_encoder(directory)
    integers = {k: v.astype(int) for k, v in google_tensors().items()}
    write_checkpoint(prefix, integers)
    with refused(ValueError, "holds no floats"):
        kbert.load_encoder(directory)
