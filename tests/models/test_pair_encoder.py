"""Pair encoders against their sentence encoder on one text at a time."""

import keras
import numpy as np
import pytest
from keras import ops

import kbert


def numbers(x):
    return ops.convert_to_numpy(x)


def batch():
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 20, (2, 3, 6)).astype("int32")
    mask = np.arange(6) < np.array([[6, 3, 4], [2, 5, 0]])[:, :, None]
    return {
        "token_ids": ids * mask,
        "segment_ids": 0 * ids,
        "padding_mask": mask.astype("int32"),
    }


@pytest.fixture
def sentences(tiny_config):
    keras.utils.set_random_seed(0)
    encoder = kbert.build_encoder(tiny_config)
    dense = [keras.layers.Dense(5, name="dense")]
    return kbert.build_sentence_encoder(encoder, dense=dense)


def test_vectors_are_the_sentence_encoders(sentences):
    model = kbert.build_pair_encoder(sentences)
    vectors = numbers(model(batch()))
    assert vectors.shape == (2, 3, 5) and vectors.dtype == "float32"
    rows = {name: x.reshape(6, 6) for name, x in batch().items()}
    expected = numbers(sentences(rows)).reshape(2, 3, 5)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert model.name == "pair_encoder"


def test_a_text_of_padding_is_zero(tiny_config):
    encoder = kbert.build_encoder(tiny_config)
    model = kbert.build_pair_encoder(kbert.build_sentence_encoder(encoder))
    assert (numbers(model(batch()))[1, 2] == 0).all()


def test_weights_and_their_paths_are_shared(sentences):
    model = kbert.build_pair_encoder(sentences)
    paths = [w.path for w in sentences.weights]
    assert [w.path for w in model.weights] == paths
    before = numbers(model(batch()))
    noise = np.random.default_rng(1).normal(size=model.weights[0].shape)
    model.weights[0].assign(model.weights[0] + noise)
    assert sentences.weights[0] is model.weights[0]
    assert np.abs(numbers(model(batch())) - before).max() > 1e-3


def test_reload(sentences, tmp_path):
    model = kbert.build_pair_encoder(sentences)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        numbers(again(batch())), numbers(model(batch())), atol=1e-6
    )


def test_saved_files_are_the_sentence_encoders(sentences, tmp_path):
    model = kbert.build_pair_encoder(sentences)
    for name, saved in {"pairs": model, "sentences": sentences}.items():
        kbert.save_pretrained(saved, tmp_path / name)
    for file in (tmp_path / "sentences").rglob("*.*"):
        if file.is_file():
            twin = tmp_path / "pairs" / file.relative_to(tmp_path / "sentences")
            assert twin.read_bytes() == file.read_bytes(), file.name


def test_refused(sentences, tiny_config, tiny_tokenizer):
    model = kbert.build_pair_encoder(sentences)
    for wrong in (kbert.build_encoder(tiny_config), model):
        with pytest.raises(ValueError, match="Received"):
            kbert.build_pair_encoder(wrong)
    with pytest.raises(ValueError, match="Expected a model of build_sentence"):
        kbert.pipelines.Embedder(model, tiny_tokenizer)
