"""`load_encoder`, `load_classifier` and `save_pretrained` on directories."""

import dataclasses
import json
import logging
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops
from refusals import refused
from safetensors.numpy import load_file, save_file

import kbert
from kbert.checkpoints.mapping import weight_variables
from kbert.checkpoints.readers import open_tensors

GOLDEN = Path(__file__).parents[1] / "golden" / "bert"
CONFIG = kbert.EncoderConfig(
    vocab_size=20,
    hidden_size=8,
    num_layers=1,
    num_heads=2,
    intermediate_size=12,
    max_positions=10,
)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture
def directory(tmp_path) -> Path:
    """A classifier's directory to damage."""
    path = tmp_path / "checkpoint"
    path.mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(GOLDEN / name, path)
    return path


def edit_config(directory: Path, **changes) -> None:
    path = directory / "config.json"
    config = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(config | changes), "utf-8")


def edit_tensors(directory: Path, edit) -> None:
    path = directory / "model.safetensors"
    tensors = {name: np.array(x) for name, x in load_file(path).items()}
    edit(tensors)
    save_file(tensors, path)


def without(*prefixes: str):
    def edit(tensors):
        for name in list(tensors):
            if name.startswith(prefixes):
                del tensors[name]

    return edit


def weights(model) -> dict[str, np.ndarray]:
    return {
        path: np.array(ops.convert_to_numpy(variable.value))
        for path, variable in weight_variables(model).items()
    }


def assert_same_weights(model, other) -> None:
    expected = weights(other)
    found = weights(model)
    assert list(found) == list(expected)
    for path, array in found.items():
        np.testing.assert_array_equal(array, expected[path], err_msg=path)


def test_report(directory, caplog):
    caplog.set_level(logging.INFO, logger="kbert")
    model, report = kbert.load_classifier(directory, report=True)
    assert report.source == str(directory)
    assert len(report.loaded) == len(weight_variables(model))
    assert report.missing == report.unused == report.ignored_config_keys == ()
    assert [r.getMessage() for r in caplog.records] == [str(report)]

    encoder, report = kbert.load_encoder(directory, report=True)
    assert sorted(report.unused) == ["classifier.bias", "classifier.weight"]
    assert "unused: 2 (classifier." in caplog.text
    assert "classifier/logits/bias" not in weight_variables(encoder)


def test_unknown_config_keys_are_warned_about(directory, caplog):
    edit_config(directory, zebra=1, adapters={})
    _, report = kbert.load_encoder(directory, report=True)
    assert report.ignored_config_keys == ("adapters", "zebra")
    (record,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert record.name == "kbert"
    assert record.getMessage().endswith("meaning for kbert: adapters, zebra")


def test_each_tensor_is_needed(directory):
    names = load_file(directory / "model.safetensors")
    whole = (directory / "model.safetensors").read_bytes()
    anchor = "bert.embeddings.word_embeddings.weight"
    for name in names:
        (directory / "model.safetensors").write_bytes(whole)
        edit_tensors(directory, without(name))
        expected = {
            anchor: "to tell where the encoder is",
            "classifier.weight": "no classification head",
        }.get(name, rf"Missing: 1 \(.* \(from {name.removeprefix('bert.')}")
        with refused(ValueError, expected):
            kbert.load_classifier(directory)


def test_shapes_of_config_and_weights_must_agree(directory):
    edit_config(directory, vocab_size=49, intermediate_size=25)
    with refused(ValueError, "nothing was loaded") as caught:
        kbert.load_encoder(directory)
    message = str(caught.value)
    assert "word_embeddings.weight has shape (48, 16)" in message
    assert "embedding/token/embeddings needs (49, 16)" in message
    assert "encoder_block_0/intermediate/kernel" in message


def test_config_with_too_many_layers(directory):
    edit_config(directory, num_hidden_layers=3)
    with refused(ValueError, r"Missing: 16 \(encoder_block_2/"):
        kbert.load_encoder(directory)


def test_unused_tensors_are_told(directory):
    def edit(tensors):
        tensors["cls.predictions.bias"] = np.zeros(48, "float32")

    edit_tensors(directory, edit)
    _, report = kbert.load_classifier(directory, report=True)
    assert report.unused == ("cls.predictions.bias",)


def test_two_encoders_in_one_file(directory):
    def edit(tensors):
        for name in list(tensors):
            tensors[f"other.{name}"] = tensors[name].copy()

    edit_tensors(directory, edit)
    with refused(ValueError, "Expected one tensor named"):
        kbert.load_encoder(directory)


def test_pooler_absent(directory):
    edit_tensors(directory, without("bert.pooler", "classifier"))
    encoder = kbert.load_encoder(directory)
    assert not kbert.encoder_config(encoder).has_pooler
    assert list(encoder.output) == ["sequence_output"]
    with refused(ValueError, "no classification head"):
        kbert.load_classifier(directory, num_classes=3)
    model, report = kbert.load_classifier(
        directory, num_classes=5, fresh_head=True, report=True
    )
    assert model.output_shape == (None, 5)
    assert report.missing == (
        "pooler/dense/kernel",
        "pooler/dense/bias",
        "classifier/logits/kernel",
        "classifier/logits/bias",
    )


def test_half_a_pooler(directory):
    edit_tensors(directory, without("bert.pooler.dense.bias"))
    for load in (kbert.load_encoder, kbert.load_classifier):
        with refused(ValueError, "pooler/dense/bias"):
            load(directory)


def test_head_without_pooler(directory):
    edit_tensors(directory, without("bert.pooler"))
    with refused(ValueError, "pooler/dense/kernel"):
        kbert.load_classifier(directory)


def test_head_absent(directory):
    edit_tensors(directory, without("classifier"))
    with refused(ValueError, "Pass fresh_head=True") as caught:
        kbert.load_classifier(directory)
    assert str(directory) in str(caught.value)
    # The config still names three classes.
    model, report = kbert.load_classifier(
        directory, fresh_head=True, report=True
    )
    assert report.missing == (
        "classifier/logits/kernel",
        "classifier/logits/bias",
    )
    head = model.get_layer("classifier")
    assert head.label_names == ["schlecht", "so-so", "gut ☺"]


def test_fresh_head_needs_a_number_of_classes(tmp_path):
    kbert.save_pretrained(kbert.build_encoder(CONFIG), tmp_path)
    with refused(ValueError, "needs `num_classes` or `label_names`"):
        kbert.load_classifier(tmp_path, fresh_head=True)
    model = kbert.load_classifier(
        tmp_path, fresh_head=True, label_names=["a", "b", "c", "d"]
    )
    assert model.output_shape == (None, 4)


def test_wrong_number_of_classes(directory):
    with refused(ValueError, "head has 3 classes.*fresh_head=True"):
        kbert.load_classifier(directory, num_classes=2)
    model = kbert.load_classifier(directory, num_classes=2, fresh_head=True)
    assert model.output_shape == (None, 2)
    # Names of other classes would be wrong.
    assert model.get_layer("classifier").label_names is None


def test_fresh_head_is_another_head(directory):
    given = kbert.load_classifier(directory)
    fresh, report = kbert.load_classifier(
        directory, fresh_head=True, report=True
    )
    assert sorted(report.unused) == ["classifier.bias", "classifier.weight"]
    given, fresh = weights(given), weights(fresh)
    for path, array in given.items():
        same = np.array_equal(array, fresh[path])
        assert same != path.startswith("classifier/"), path
    # Truncated at two standard deviations of the config's 0.3.
    assert np.abs(fresh["classifier/logits/kernel"]).max() <= 0.6


def test_label_names_can_be_given(directory):
    names = ["a", "b", "c"]
    model = kbert.load_classifier(directory, label_names=names)
    assert model.get_layer("classifier").label_names == names
    with refused(ValueError, "`label_names` must hold 3"):
        kbert.load_classifier(directory, label_names=["a", "b"])


@pytest.mark.parametrize(
    "names", [["a", "b"], ["a", "b", "c", "d"], ["a", "b", "b"]]
)
def test_label_names_that_do_not_fit_the_head(directory, names):
    edit_config(directory, id2label=dict(enumerate(names)))
    with refused(ValueError, "head has 3 classes.*id2label.*label_names"):
        kbert.load_classifier(directory)
    model = kbert.load_classifier(directory, label_names=["x", "y", "z"])
    assert model.get_layer("classifier").label_names == ["x", "y", "z"]
    kbert.load_encoder(directory)  # which has no labels to name


@pytest.mark.parametrize(
    ("change", "left_over"),
    [
        ({"num_hidden_layers": 1}, r"encoder\.layer\.1"),
        ({"type_vocab_size": 0}, r"embeddings\.token_type_embeddings"),
    ],
)
def test_a_config_of_a_smaller_encoder(directory, change, left_over):
    edit_config(directory, **change)
    for load in (kbert.load_encoder, kbert.load_classifier):
        with refused(ValueError, f"more weights.*{left_over}"):
            load(directory)


def test_quantised_tensors_are_not_cast(directory):
    def quantise(tensors):
        name = "bert.encoder.layer.0.output.dense.weight"
        tensors[name] = tensors[name].astype("int8")

    edit_tensors(directory, quantise)
    with refused(ValueError, "output.dense.weight holds no floats"):
        kbert.load_encoder(directory)


@pytest.mark.parametrize(
    ("problem_type", "activation"),
    [
        ("single_label_classification", "softmax"),
        ("multi_label_classification", "sigmoid"),
        ("regression", "linear"),
        (None, "softmax"),
    ],
)
def test_problem_type_is_kept(tmp_path, problem_type, activation):
    tokenizer = kbert.Tokenizer.from_vocab(SPECIAL + ["a"])
    model = kbert.build_classifier(
        kbert.build_encoder(CONFIG), 2, problem_type=problem_type
    )
    kbert.save_pretrained(model, tmp_path, tokenizer=tokenizer)
    again = kbert.load_classifier(tmp_path)
    assert again.get_layer("classifier").problem_type == problem_type
    classify = kbert.pipelines.Classifier(again, tokenizer)
    assert classify.activation == activation
    fresh = kbert.load_classifier(tmp_path, num_classes=5, fresh_head=True)
    assert fresh.get_layer("classifier").problem_type is None


def test_weights_are_as_readable_as_the_config(tmp_path):
    kbert.save_pretrained(kbert.build_encoder(CONFIG), tmp_path)
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_dtype_in_the_config_is_the_weights(tmp_path):
    for policy, dtype in [
        ("float32", "float32"),
        ("mixed_bfloat16", "float32"),
        ("bfloat16", "bfloat16"),
    ]:
        encoder = kbert.build_encoder(CONFIG, dtype=policy)
        kbert.save_pretrained(encoder, tmp_path)
        config = json.loads((tmp_path / "config.json").read_text("utf-8"))
        assert config["dtype"] == dtype
        name = "embeddings.word_embeddings.weight"
        tensor = load_file(tmp_path / "model.safetensors")[name]
        assert str(tensor.dtype) == dtype


def test_dropouts_can_be_given(directory):
    model = kbert.load_classifier(directory)
    config = kbert.encoder_config(model)
    assert (config.hidden_dropout, config.attention_dropout) == (0.15, 0.25)
    assert model.get_layer("classifier").hidden_dropout == 0.35
    model = kbert.load_classifier(
        directory, hidden_dropout=0.0, attention_dropout=0.5
    )
    config = kbert.encoder_config(model)
    assert (config.hidden_dropout, config.attention_dropout) == (0.0, 0.5)
    assert model.get_layer("classifier").hidden_dropout == 0.0
    with refused(ValueError, "`hidden_dropout` must be less than 1"):
        kbert.load_encoder(directory, hidden_dropout=1.0)


def test_unusable_configs(directory):
    for changes in (
        {"model_type": "roberta"},
        {"is_decoder": True},
        {"hidden_act": "mish"},
        {"id2label": {"0": "a", "5": "b"}},
    ):
        shutil.copy(GOLDEN / "config.json", directory)
        edit_config(directory, **changes)
        with refused(ValueError, "Received"):
            kbert.load_classifier(directory)


@pytest.mark.parametrize("load", [kbert.load_encoder, kbert.load_classifier])
def test_directory_that_lacks_a_file(directory, load):
    (directory / "model.safetensors").rename(directory / "tf_model.h5")
    with refused(FileNotFoundError, "none of model.safetensors, pytorch_m"):
        load(directory)
    (directory / "config.json").unlink()
    with refused(FileNotFoundError, "No file config.json"):
        load(directory)
    with refused(FileNotFoundError, "does not exist"):
        load(directory / "elsewhere")


@pytest.mark.parametrize("has_pooler", [True, False])
def test_encoder_there_and_back(tmp_path, has_pooler):
    config = dataclasses.replace(CONFIG, has_pooler=has_pooler)
    encoder = kbert.build_encoder(config)
    kbert.save_pretrained(encoder, str(tmp_path / "new" / "directory"))
    again = kbert.load_encoder(tmp_path / "new" / "directory")
    assert kbert.encoder_config(again) == config
    assert_same_weights(again, encoder)


def test_trained_model_there_and_back(tmp_path):
    model = kbert.build_classifier(kbert.build_encoder(CONFIG), 2)
    model.compile(
        kbert.optimizers.adamw(1e-2),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    x = np.ones((2, 4), "int32")
    names = ("token_ids", "segment_ids", "padding_mask")
    model.fit({name: x for name in names}, np.arange(2), verbose=0)
    kbert.save_pretrained(model, tmp_path)
    assert_same_weights(kbert.load_classifier(tmp_path), model)
    names = load_file(tmp_path / "model.safetensors")
    assert len(names) == len(weight_variables(model))


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_saves_float32(directory, tmp_path, dtype):
    model = kbert.load_classifier(directory, dtype=dtype)
    kbert.save_pretrained(model, tmp_path / "out")
    assert_same_weights(kbert.load_classifier(tmp_path / "out"), model)
    arrays = load_file(tmp_path / "out" / "model.safetensors")
    assert {array.dtype for array in arrays.values()} == {np.dtype("float32")}


def test_unicode_labels(tmp_path):
    names = ["größer", "はい", "😀", 'a "quoted" \\ name\n', "LABEL_0"]
    model = kbert.build_classifier(
        kbert.build_encoder(CONFIG), len(names), label_names=names
    )
    kbert.save_pretrained(model, tmp_path)
    again = kbert.load_classifier(tmp_path)
    assert again.get_layer("classifier").label_names == names


def test_model_is_free_of_its_file(directory):
    # JAX and PyTorch take memory over without a copy, mapped files included.
    model = kbert.load_classifier(directory)
    path = directory / "model.safetensors"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\1" * (size - size // 2))
    with pytest.raises(AssertionError):
        assert_same_weights(kbert.load_classifier(directory), model)
    assert_same_weights(kbert.load_classifier(GOLDEN), model)


def test_model_does_not_live_in_the_file(directory):
    model = kbert.load_classifier(directory)
    before = weights(model)
    path = directory / "model.safetensors"
    path.write_bytes(b"\0" * path.stat().st_size)
    for name, array in weights(model).items():
        np.testing.assert_array_equal(array, before[name])


def test_saving_into_the_directory_loaded_from(directory):
    # Written in place, the file would change under the open reader.
    model = kbert.load_classifier(directory)
    reader = open_tensors(directory)
    before = weights(model)
    kernel = model.get_layer("classifier").logits.kernel
    kernel.assign(kernel + 1.0)
    kbert.save_pretrained(model, directory)
    after = weights(kbert.load_classifier(directory))
    for path, array in before.items():
        added = 1.0 if path == "classifier/logits/kernel" else 0.0
        np.testing.assert_array_equal(after[path], array + added)
    old = reader.read("classifier.weight")
    np.testing.assert_array_equal(old, before["classifier/logits/kernel"].T)


def with_weights(model, arrays):
    for path, variable in weight_variables(model).items():
        variable.assign(arrays[path])
    return model


def test_saving_twice_replaces(tmp_path):
    first, second = (
        kbert.build_classifier(kbert.build_encoder(config), 2)
        for config in (CONFIG, dataclasses.replace(CONFIG, hidden_size=4))
    )
    kbert.save_pretrained(first, tmp_path)
    kbert.save_pretrained(second, tmp_path)
    assert_same_weights(kbert.load_classifier(tmp_path), second)
    assert {path.name for path in tmp_path.iterdir()} == {
        "README.md",
        "config.json",
        "model.safetensors",
    }


def test_head_with_another_activation_than_it_would_be_loaded_with(tmp_path):
    # transformers' RoBERTa head has gelu, whatever its encoder has.
    config = dataclasses.replace(
        CONFIG,
        family="roberta",
        activation="relu",
        pad_token_id=1,
        position_offset=2,
    )
    encoder = kbert.build_encoder(config)
    with refused(ValueError, "activation='gelu'"):
        kbert.save_pretrained(kbert.build_masked_lm(encoder), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    model = kbert.build_masked_lm(encoder, activation="gelu")
    kbert.save_pretrained(model, tmp_path / "out")
    again = kbert.load_masked_lm(tmp_path / "out").get_layer("mlm")
    assert again.activation == "gelu"


def test_saving_over_shards(tmp_path):
    arrays = load_file(GOLDEN / "model.safetensors")
    shutil.copy(GOLDEN / "config.json", tmp_path)
    save_file(arrays, tmp_path / "one.safetensors")
    index = {"weight_map": dict.fromkeys(arrays, "one.safetensors")}
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    model = kbert.load_classifier(tmp_path)
    with_weights(model, {k: v + 1 for k, v in weights(model).items()})
    kbert.save_pretrained(model, tmp_path)
    assert_same_weights(kbert.load_classifier(tmp_path), model)


def test_tokenizer_is_saved_beside(tmp_path):
    words = [f"word{i}" for i in range(15)]
    tokenizer = kbert.Tokenizer.from_vocab(SPECIAL + words)
    kbert.save_pretrained(kbert.build_encoder(CONFIG), tmp_path, tokenizer)
    again = kbert.Tokenizer.from_pretrained(tmp_path)
    assert again("word3 word14").ids == tokenizer("word3 word14").ids


def test_saving_with_the_wrong_tokenizer(tmp_path):
    words = [f"word{i}" for i in range(16)]
    tokenizer = kbert.Tokenizer.from_vocab(SPECIAL + words)
    model = kbert.build_encoder(CONFIG)
    with refused(ValueError, "tokenizer is not this model's"):
        kbert.save_pretrained(model, tmp_path / "out", tokenizer)
    assert not (tmp_path / "out").exists()


def test_saving_into_a_file(tmp_path):
    path = tmp_path / "out"
    path.write_text("precious")
    with refused(NotADirectoryError, "Expected a directory"):
        kbert.save_pretrained(kbert.build_encoder(CONFIG), path)
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    "changes",
    [
        {"position_offset": 2},
        {"shared_layers": True, "num_layers": 2},
        {"num_segments": 0},
        {"embedding_size": 4},
    ],
    ids=str,
)
def test_saving_what_bert_cannot_express(tmp_path, changes):
    model = kbert.build_encoder(dataclasses.replace(CONFIG, **changes))
    with refused(
        ValueError, "cannot express this encoder.*" + next(iter(changes))
    ):
        kbert.save_pretrained(model, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def foreign_layer() -> keras.Model:
    encoder = kbert.build_encoder(CONFIG)
    x = keras.layers.Dense(2, name="mine")(encoder.output["pooled_output"])
    return keras.Model(encoder.input, x)


def adapted() -> keras.Model:
    encoder = kbert.build_encoder(CONFIG)
    encoder.get_layer("encoder_block_0").intermediate.enable_lora(2)
    return encoder


def two_heads() -> keras.Model:
    encoder = kbert.build_encoder(CONFIG)
    heads = [
        kbert.layers.ClassificationHead(2, name=name)(
            encoder.output["pooled_output"]
        )
        for name in ("classifier", "other")
    ]
    return keras.Model(encoder.input, heads)


def head_of_another_name() -> keras.Model:
    encoder = kbert.build_encoder(CONFIG)
    head = kbert.layers.ClassificationHead(2, name="mine")
    return keras.Model(encoder.input, head(encoder.output["pooled_output"]))


def no_encoder() -> keras.Model:
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])


@pytest.mark.parametrize(
    "build, match",
    [
        (foreign_layer, "no place for .*mine/kernel"),
        (adapted, "no place for .*lora_kernel_a"),
        (two_heads, "no place for .*other/logits/kernel"),
        (head_of_another_name, "no place for .*mine/logits/kernel"),
        (no_encoder, "one BertEmbedding"),
    ],
)
def test_saving_what_would_lose_weights(tmp_path, build, match):
    with refused(ValueError, match):
        kbert.save_pretrained(build(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_loading_draws_no_random_weights_but_a_fresh_heads(tmp_path):
    """Only what stays fresh is drawn; building elsewhere still draws."""
    kbert.save_pretrained(kbert.build_encoder(CONFIG), tmp_path)
    model = kbert.load_classifier(tmp_path, fresh_head=True, num_classes=2)
    assert np.ptp(model.get_layer("classifier").logits.kernel.numpy()) > 0
    table = kbert.build_encoder(CONFIG).get_layer("embedding").token.embeddings
    assert np.ptp(table.numpy()) > 0
    config = kbert.encoder_config(model)
    assert config.initializer_range == CONFIG.initializer_range


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_takes_half_the_space(tmp_path, dtype):
    encoder = kbert.build_encoder(CONFIG)
    sizes = {}
    for name in (dtype, "float32"):
        kbert.save_pretrained(encoder, tmp_path / name, dtype=name)
        config = json.loads((tmp_path / name / "config.json").read_text())
        assert config["dtype"] == name
        # What is no weight, the names and shapes, comes first in the file.
        file = (tmp_path / name / "model.safetensors").read_bytes()
        sizes[name] = len(file) - 8 - int.from_bytes(file[:8], "little")
    assert sizes[dtype] * 2 == sizes["float32"]
    loaded = kbert.load_encoder(tmp_path / dtype)
    for ours, original in zip(
        loaded.get_weights(), encoder.get_weights(), strict=True
    ):
        assert ours.dtype == "float32"
        np.testing.assert_array_equal(
            ours, original.astype(dtype).astype("float32")
        )


def test_a_dtype_that_cannot_hold_a_weight_is_refused(tmp_path):
    encoder = kbert.build_encoder(CONFIG)
    table = encoder.get_layer("embedding").token.embeddings
    table.assign(np.full(table.shape, 7e4, "float32"))
    with pytest.raises(ValueError, match="a weight of 70000"):
        kbert.save_pretrained(encoder, tmp_path / "x", dtype="float16")
    with pytest.raises(ValueError, match="Received: dtype='int8'"):
        kbert.save_pretrained(encoder, tmp_path / "x", dtype="int8")
    assert not (tmp_path / "x").exists()
