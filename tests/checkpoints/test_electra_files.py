"""Files that hold ELECTRA's generator and discriminator, or one of them."""

import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
from electra_files import (
    google_tensors,
    read,
    with_slots,
    write,
    write_checkpoint,
)
from keras import ops
from refusals import refused
from safetensors.numpy import load_file

import kbert
from kbert.checkpoints.mapping import weight_variables

FAMILIES = Path(__file__).parents[1] / "golden" / "families"
DISCRIMINATOR = FAMILIES / "electra-ForPreTraining"
CONFIG = json.loads((DISCRIMINATOR / "config.json").read_text("utf-8"))
# In the words of google-research/bert, which Google's code shares.
BERT_WORDS = {
    key: CONFIG[key]
    for key in (
        "attention_probs_dropout_prob hidden_act hidden_dropout_prob "
        "hidden_size initializer_range intermediate_size vocab_size "
        "max_position_embeddings num_attention_heads num_hidden_layers "
        "type_vocab_size"
    ).split()
}
GENERATOR = kbert.EncoderConfig(
    vocab_size=50,
    hidden_size=6,
    num_layers=3,
    num_heads=1,
    intermediate_size=10,
    max_positions=20,
    embedding_size=4,
    has_pooler=False,
    family="electra",
)


def weights(model) -> dict[str, np.ndarray]:
    return {
        path: ops.convert_to_numpy(variable.value)
        for path, variable in weight_variables(model).items()
    }


def assert_same_weights(model, expected) -> None:
    found, wanted = weights(model), weights(expected)
    assert list(found) == list(wanted)
    for path, array in found.items():
        np.testing.assert_array_equal(array, wanted[path], err_msg=path)


@pytest.fixture
def detector():
    return kbert.load_replaced_token_detector(DISCRIMINATOR)


@pytest.fixture
def generator(detector, tmp_path):
    """A smaller masked language model on the discriminator's embeddings."""
    model = kbert.build_masked_lm(kbert.build_encoder(GENERATOR))
    rng = np.random.default_rng(0)
    shared = weights(detector)
    for path, variable in weight_variables(model).items():
        shape = tuple(variable.shape)
        is_shared = path.startswith("embedding/") and "project" not in path
        variable.assign(shared[path] if is_shared else rng.normal(size=shape))
    return model


def tensors_of(model, directory: Path) -> dict[str, np.ndarray]:
    """What `save_pretrained` calls them: golden files hold that to theirs."""
    kbert.save_pretrained(model, directory)
    return read(directory)


@pytest.fixture
def pair(generator, tmp_path) -> dict[str, np.ndarray]:
    """All that Google's pretraining saves."""
    theirs = tensors_of(generator, tmp_path / "generator")
    return with_slots(
        google_tensors(theirs, "generator")
        | google_tensors(read(DISCRIMINATOR), "discriminator")
    )


@pytest.fixture
def directory(pair, tmp_path) -> Path:
    """What unpacking one of Google's archives gives: there is no config."""
    path = tmp_path / "electra_small"
    path.mkdir()
    write_checkpoint(path / "electra_small", pair)
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] play ##ing".split()
    (path / "vocab.txt").write_text("\n".join(words) + "\n")
    return path


def outputs(model, reference: dict[str, np.ndarray]) -> np.ndarray:
    names = ("token_ids", "segment_ids", "padding_mask")
    x = {name: reference[f"input.{name}"] for name in names}
    return ops.convert_to_numpy(model(x))[x["padding_mask"] == 1]


def test_names_are_googles(pair):
    # Written out once, from google-research/electra, for all the renaming.
    block = "encoder/layer_1/"
    assert set(pair) >= {
        "electra/embeddings/word_embeddings",
        "electra/embeddings/position_embeddings",
        "electra/embeddings/token_type_embeddings",
        "electra/embeddings/LayerNorm/gamma",
        "electra/embeddings_project/kernel",
        "electra/embeddings_project/bias",
        f"electra/{block}attention/self/query/kernel",
        f"electra/{block}attention/output/LayerNorm/beta",
        f"electra/{block}output/dense/bias",
        "discriminator_predictions/dense/kernel",
        "discriminator_predictions/dense_1/kernel",
        "discriminator_predictions/dense_1/bias",
        "generator/embeddings_project/kernel",
        f"generator/{block}attention/output/dense/kernel",
        f"generator/{block}intermediate/dense/bias",
        "generator_predictions/dense/kernel",
        "generator_predictions/LayerNorm/beta",
        "generator_predictions/output_bias",
        "generator_predictions/output_bias/adam_m",
        "electra/embeddings/word_embeddings/adam_v",
    }
    assert not any(name.startswith("generator/embeddings/") for name in pair)


@pytest.mark.parametrize(
    "name",
    [
        "small_discriminator_config.json",
        "discriminator_config.json",
        "electra_config.json",
        "bert_config.json",
        "config.json",
    ],
)
def test_discriminator(directory, pair, detector, name):
    config = BERT_WORDS if name != "config.json" else CONFIG
    (directory / name).write_text(json.dumps(config))
    model, report = kbert.load_replaced_token_detector(
        directory / "electra_small", report=True
    )
    assert_same_weights(model, detector)
    assert kbert.encoder_config(model) == kbert.encoder_config(detector)
    reference = load_file(DISCRIMINATOR / "reference.safetensors")
    expected = reference["output.logits"]
    mask = reference["input.padding_mask"] == 1
    np.testing.assert_allclose(
        outputs(model, reference), expected[mask], atol=1e-5
    )
    slots = {n for n in pair if n.endswith(("/adam_m", "/adam_v"))}
    assert set(report.ignored) == slots | {"global_step"}
    used = {
        n
        for n in set(pair) - set(report.ignored)
        if n.startswith(("electra/", "discriminator_predictions/"))
    }
    assert set(report.loaded) == used
    assert set(report.unused) == set(pair) - set(report.ignored) - used
    assert report.missing == report.ignored_config_keys == ()

    encoder, report = kbert.load_encoder(
        directory / "electra_small", report=True
    )
    assert encoder.name == "encoder"
    assert "discriminator_predictions/dense_1/bias" in report.unused
    assert not any("generator" in name for name in report.loaded)


def test_generator(directory, pair, generator):
    model, report = kbert.load_masked_lm(
        directory / "electra_small", report=True
    )
    assert_same_weights(model, generator)
    assert kbert.encoder_config(model) == GENERATOR
    loaded = {
        n
        for n in set(pair) - set(report.ignored)
        if n.startswith(("generator", "electra/embeddings/"))
    }
    assert set(report.loaded) == loaded
    assert {n for n in report.unused if "embeddings" in n} == {
        "electra/embeddings_project/kernel",
        "electra/embeddings_project/bias",
    }
    assert "discriminator_predictions/dense/kernel" in report.unused
    kbert.save_pretrained(model, directory / "hf")
    assert_same_weights(kbert.load_masked_lm(directory / "hf"), generator)


def test_a_config_for_each(directory, detector, generator):
    both = {
        "base_generator_config.json": BERT_WORDS
        | {
            "hidden_size": 6,
            "num_hidden_layers": 3,
            "intermediate_size": 10,
            "num_attention_heads": 3,
            "hidden_act": "relu",
        },
        "base_discriminator_config.json": BERT_WORDS,
    }
    for name, config in both.items():
        (directory / name).write_text(json.dumps(config))
    source = directory / "electra_small"
    model = kbert.load_masked_lm(source)
    assert kbert.encoder_config(model).num_heads == 3
    # Google's head has the encoder's activation, transformers' always gelu.
    assert model.get_layer("mlm").activation == "relu"
    assert_same_weights(model, generator)
    assert_same_weights(kbert.load_replaced_token_detector(source), detector)
    (directory / "other_generator_config.json").write_text("{}")
    with refused(ValueError, "Expected one generator_config.json"):
        kbert.load_masked_lm(source)


def test_sizes_from_tensors_alone(directory, detector, caplog):
    with caplog.at_level(logging.WARNING, "kbert"):
        model = kbert.load_encoder(directory)
    [record] = caplog.records
    assert "no config beside it" in record.message
    assert "'hidden_size': 8" in record.message
    config = kbert.encoder_config(model)
    # google-research/electra: one head for every 64 of the hidden size.
    assert config.num_heads == 1
    assert (config.vocab_size, config.max_positions) == (50, 20)
    assert (config.embedding_size, config.intermediate_size) == (4, 12)
    assert (config.num_layers, config.num_segments) == (2, 2)
    assert (config.activation, config.layer_norm_epsilon) == ("gelu", 1e-12)
    assert (config.hidden_dropout, config.attention_dropout) == (0.1, 0.1)
    assert config.family == "electra" and not config.has_pooler
    found, expected = weights(model), weights(detector)
    for path, array in found.items():
        np.testing.assert_array_equal(array, expected[path])


@pytest.mark.parametrize(("width", "heads"), [(64, 1), (128, 2), (192, 3)])
def test_number_of_heads(tmp_path, width, heads):
    config = kbert.EncoderConfig(
        vocab_size=9,
        hidden_size=width,
        num_layers=1,
        num_heads=1,
        intermediate_size=5,
        max_positions=6,
        has_pooler=False,
        family="electra",
    )
    encoder = kbert.build_encoder(config)
    theirs = {
        f"electra.{name}": array
        for name, array in tensors_of(encoder, tmp_path).items()
    }
    prefix = tmp_path / "model.ckpt-1000"
    write_checkpoint(prefix, google_tensors(theirs, "discriminator"))
    (tmp_path / "config.json").unlink()
    found = kbert.encoder_config(kbert.load_encoder(prefix))
    assert found.num_heads == heads
    assert found.embedding_size is None
    wider = {
        k: np.zeros([{width: 72}.get(n, n) for n in v.shape], "float32")
        for k, v in google_tensors(theirs, "discriminator").items()
    }
    write_checkpoint(prefix, wider)
    with refused(ValueError, "do not fill .* give `num_attention_heads`"):
        kbert.load_encoder(prefix)
    (tmp_path / "electra_config.json").write_text('{"hidden_act": "relu"}')
    with refused(ValueError, "do not fill .* give `num_attention_heads`"):
        kbert.load_encoder(prefix)
    (tmp_path / "electra_config.json").write_text('{"num_attention_heads": 6}')
    found = kbert.encoder_config(kbert.load_encoder(prefix))
    assert (found.hidden_size, found.num_heads) == (72, 6)


def test_a_config_of_the_other_is_refused(directory):
    path = directory / "electra_config.json"
    path.write_text(json.dumps(BERT_WORDS))
    says = (
        "config is not the generator's: it says hidden_size=8, in the tensors "
        "6; num_layers=2, in the tensors 3; intermediate_size=12, in the "
        "tensors 10. Put a generator_config.json"
    )
    with refused(ValueError, says):
        kbert.load_masked_lm(directory)
    smaller = BERT_WORDS | {"hidden_size": 6, "num_hidden_layers": 3}
    path.write_text(json.dumps(smaller | {"intermediate_size": 10}))
    for load in (kbert.load_encoder, kbert.load_replaced_token_detector):
        with refused(ValueError, "not the discriminator's: .*hidden_size=6"):
            load(directory)
    path.unlink()
    kbert.load_masked_lm(directory)


def test_a_config_of_another_family_is_refused(directory):
    config = json.dumps(BERT_WORDS | {"model_type": "bert"})
    (directory / "bert_config.json").write_text(config)
    with refused(ValueError, "names of family 'electra'"):
        kbert.load_encoder(directory / "electra_small")


def test_a_generator_with_embeddings_of_its_own(directory, pair, generator):
    own = {
        name.replace("electra/", "generator/"): array + 1
        for name, array in pair.items()
        if name.startswith("electra/embeddings/")
    }
    write_checkpoint(directory / "electra_small", pair | own)
    model, report = kbert.load_masked_lm(directory, report=True)
    assert "electra/embeddings/word_embeddings" in report.unused
    for path, array in weights(generator).items():
        is_own = path.startswith("embedding/") and "project" not in path
        np.testing.assert_array_equal(weights(model)[path], array + is_own)
    _, report = kbert.load_encoder(directory, report=True)
    assert "generator/embeddings/word_embeddings" in report.unused


def test_one_encoder_for_both_heads(directory, detector):
    """`untied_generator` False, or the objective of BERT."""
    theirs = read(FAMILIES / "electra-ForMaskedLM")
    heads = {k: v for k, v in theirs.items() if "electra." not in k}
    tensors = google_tensors(read(DISCRIMINATOR) | heads, "discriminator")
    write_checkpoint(directory / "electra_small", tensors)
    (directory / "bert_config.json").write_text(json.dumps(BERT_WORDS))
    source = directory / "electra_small"
    assert_same_weights(kbert.load_replaced_token_detector(source), detector)
    model, report = kbert.load_masked_lm(source, report=True)
    expected = weights(detector)
    for path, array in weights(model).items():
        if not path.startswith("mlm"):
            np.testing.assert_array_equal(array, expected[path])
    assert all("discriminator_pred" in name for name in report.unused)


def test_sources_and_tokenizer(directory, detector, monkeypatch):
    monkeypatch.chdir(directory)
    for source in (
        directory,
        str(directory / "electra_small"),
        "electra_small",
    ):
        expected, found = weights(detector), kbert.load_encoder(source)
        for path, array in weights(found).items():
            np.testing.assert_array_equal(array, expected[path])
        tokenizer = kbert.Tokenizer.from_pretrained(source)
        assert tokenizer("Playing").tokens[1:-1] == ["play", "##ing"]
    for suffix in (".index", ".data-00000-of-00001"):
        shutil.copy(f"electra_small{suffix}", f"model.ckpt-5{suffix}")
    # Which of the two is meant, nothing says.
    with refused(FileNotFoundError, "No file config.json"):
        kbert.load_encoder(directory)
    kbert.load_encoder(directory / "model.ckpt-5")


def test_heads_that_google_has_and_kbert_has_not(directory, pair):
    """`run_finetuning.py` classifies with one layer, transformers with two."""
    task = {
        "task_specific/mnli/dense/kernel": np.zeros((8, 3), "float32"),
        "task_specific/mnli/dense/bias": np.zeros(3, "float32"),
    }
    tuned = {k: v for k, v in pair.items() if k.startswith("electra/")}
    write_checkpoint(directory / "electra_small", tuned | task)
    _, report = kbert.load_encoder(directory, report=True)
    assert set(report.unused) == set(task)
    with refused(ValueError, "no classification head"):
        kbert.load_classifier(directory)
    fresh = {"fresh_head": True, "report": True}
    for (_, report), head in (
        (
            kbert.load_classifier(directory, num_classes=3, **fresh),
            "classifier",
        ),
        (
            kbert.load_token_classifier(directory, num_classes=3, **fresh),
            "token_classifier",
        ),
        (kbert.load_span_model(directory, **fresh), "span"),
    ):
        assert {path.split("/")[0] for path in report.missing} == {head}
    for load in (kbert.load_masked_lm, kbert.load_replaced_token_detector):
        with refused(ValueError, "no (masked-language|replaced-token) head"):
            load(directory)


def test_each_tensor_is_needed(directory, pair):
    prefix = directory / "electra_small"
    for name in pair:
        if name.endswith(("adam_m", "adam_v", "bias", "beta", "global_step")):
            continue
        if "layer_1" in name:
            continue
        kept = {k: v for k, v in pair.items() if k != name}
        write_checkpoint(prefix, kept)
        load = kbert.load_replaced_token_detector
        if name.startswith("generator"):
            load = kbert.load_masked_lm
        with refused(ValueError, "Missing: |where the encoder is|no tensor"):
            load(directory)


def test_layers_that_the_config_does_not_count(directory, pair):
    alone = {k: v for k, v in pair.items() if not k.startswith("generator/")}
    path = directory / "electra_config.json"
    for blocks, match in ((1, "Left over"), (3, "Missing: 16 ")):
        path.write_text(json.dumps(BERT_WORDS | {"num_hidden_layers": blocks}))
        write_checkpoint(directory / "electra_small", pair)
        with refused(ValueError, f"num_layers={blocks}, in the tensors 2"):
            kbert.load_encoder(directory)
        write_checkpoint(directory / "electra_small", alone)
        with refused(ValueError, match):
            kbert.load_encoder(directory)


@pytest.mark.parametrize("scopes", ["{}.", "model.{}_model."])
def test_both_in_hugging_faces_layout(
    directory, detector, generator, tmp_path, scopes
):
    """Training code in PyTorch saves both; safetensors, what is shared once."""
    both = {}
    theirs = {
        "generator": read(tmp_path / "generator"),
        "discriminator": read(DISCRIMINATOR),
    }
    for role, tensors in theirs.items():
        for name, array in tensors.items():
            if role == "discriminator" and ".embeddings." in name:
                continue
            both[scopes.format(role) + name] = array
    hf = tmp_path / "hf"
    hf.mkdir()
    write(hf, both)
    shutil.copy(DISCRIMINATOR / "config.json", hf)
    model, report = kbert.load_replaced_token_detector(hf, report=True)
    assert_same_weights(model, detector)
    assert report.missing == ()
    assert all("generator" in name for name in report.unused)
    with refused(ValueError, "not the generator's: .* Put a config.json"):
        kbert.load_masked_lm(hf)
    shutil.copy(tmp_path / "generator" / "config.json", hf)
    model, report = kbert.load_masked_lm(hf, report=True)
    assert_same_weights(model, generator)
    assert all("discriminator" in name for name in report.unused)
    with refused(ValueError, "not the discriminator's"):
        kbert.load_encoder(hf)


def test_two_encoders_of_unknown_names(tmp_path):
    tensors = read(DISCRIMINATOR)
    both = {f"{k}.{n}": v for k in "ab" for n, v in tensors.items()}
    write(tmp_path, both)
    shutil.copy(DISCRIMINATOR / "config.json", tmp_path)
    for load in (kbert.load_encoder, kbert.load_masked_lm):
        with refused(ValueError, r"tell apart as .* below \['a.electra.', 'b"):
            load(tmp_path)
