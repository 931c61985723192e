"""Some rows at a time against all rows at once."""

import dataclasses

import keras
import numpy as np
import pytest
from keras import ops

import kbert
from kbert.layers import mini_batches

BACKEND = keras.backend.backend()
IDS = np.arange(15).reshape(5, 3).astype("int32")


def batch():
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 20, (5, 3, 6)).astype("int32")
    mask = (np.arange(6) < rng.integers(0, 7, (5, 3))[:, :, None]) * 1
    ids = ids * mask
    return {
        "token_ids": ids,
        "segment_ids": 0 * ids,
        "padding_mask": mask.astype("int32"),
    }


def build(config, dropout, size):
    keras.utils.set_random_seed(0)
    config = dataclasses.replace(
        config, hidden_dropout=dropout, attention_dropout=dropout
    )
    sentences = kbert.build_sentence_encoder(kbert.build_encoder(config))
    return kbert.build_pair_encoder(sentences, mini_batch_size=size)


def train(model, steps=2):
    """Weights after some steps of gradient descent, and the losses."""
    loss = kbert.losses.MultipleNegativesRankingLoss(5.0)
    # Without, JAX would compile each operation by itself, for minutes.
    is_jax = BACKEND == "jax"
    model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=is_jax)
    losses = [model.train_on_batch(batch(), IDS) for _ in range(steps)]
    weights = {v.path: ops.convert_to_numpy(v) for v in model.trainable_weights}
    return np.array(losses, "float64"), weights


def same(one, two):
    np.testing.assert_allclose(one[0], two[0], rtol=1e-5)
    assert one[1].keys() == two[1].keys()
    for path, value in one[1].items():
        np.testing.assert_allclose(value, two[1][path], atol=1e-5)


@pytest.mark.parametrize("size", [1, 4, 15, 99])
def test_equals_all_rows_at_once(tiny_config, size):
    models = [build(tiny_config, 0.0, x) for x in (None, size)]
    vectors = [ops.convert_to_numpy(m(batch())) for m in models]
    np.testing.assert_allclose(*vectors, atol=1e-6)
    if size == 4:
        same(*(train(m) for m in models))


def test_dropout_is_the_same_when_computed_again(tiny_config, monkeypatch):
    """With and without keeping the activations, from the same seeds."""
    with_remat = train(build(tiny_config, 0.3, 4))
    monkeypatch.setattr(mini_batches.keras, "remat", lambda f: f)
    same(with_remat, train(build(tiny_config, 0.3, 4)))
    assert np.ptp(with_remat[0]) > 1e-5


def test_every_mini_batch_and_step_has_its_own_dropout(tiny_config):
    model = build(tiny_config, 0.3, 1)
    row = {name: x[:1, :1] for name, x in batch().items()}
    row["padding_mask"] = np.ones_like(row["padding_mask"])
    rows = {name: np.repeat(x, 3, axis=1) for name, x in row.items()}
    first = ops.convert_to_numpy(model(rows, training=True))[0]
    again = ops.convert_to_numpy(model(rows, training=True))[0]
    drawn = np.concatenate([first, again])
    for i in range(6):
        for j in range(i):
            assert np.abs(drawn[i] - drawn[j]).max() > 1e-3
    one, two = (ops.convert_to_numpy(model(rows)) for _ in range(2))
    assert (one == two).all()


def test_reload(tiny_config, tmp_path):
    model = build(tiny_config, 0.1, 4)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    one, two = (ops.convert_to_numpy(m(batch())) for m in (model, again))
    np.testing.assert_allclose(one, two, atol=1e-6)


@pytest.mark.parametrize("size", [0, 1.5, True])
def test_bad_size(tiny_config, size):
    with pytest.raises(ValueError, match="Received: size="):
        build(tiny_config, 0.0, size)
