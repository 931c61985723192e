"""Attention weights of models: which layers, which inputs, what errors."""

import dataclasses

import keras
import numpy as np
import pytest
from keras import ops

import kbert

IDS = np.array([[2, 5, 6, 7, 3, 0, 0], [2, 8, 9, 10, 11, 12, 3]], "int32")
INPUTS = {
    "token_ids": IDS,
    "segment_ids": 0 * IDS,
    "padding_mask": (IDS > 0).astype("int32"),
}


def make_encoder(config, **changes):
    encoder = kbert.build_encoder(dataclasses.replace(config, **changes))
    rng = np.random.default_rng(0)
    for weight in encoder.weights:
        centre = "gamma" in weight.path
        weight.assign(rng.normal(centre, 0.4, tuple(weight.shape)))
    return encoder


@pytest.mark.parametrize(
    "build, more",
    [
        (lambda e: kbert.build_classifier(e, 2), {}),
        (kbert.build_span_model, {}),
        (
            kbert.build_masked_lm,
            {"mask_positions": np.zeros((2, 1), "int32")},
        ),
    ],
    ids=["classifier", "span", "masked_lm"],
)
def test_a_task_model_has_its_encoders_weights(tiny_config, build, more):
    encoder = make_encoder(tiny_config)
    expected = kbert.attention_weights(encoder, INPUTS)
    assert expected.shape == (2, 2, 2, 7, 7)
    assert expected[0, ..., 5:].max() == 0.0
    np.testing.assert_allclose(expected.sum(-1), 1.0, atol=1e-6)
    weights = kbert.attention_weights(build(encoder), {**INPUTS, **more})
    np.testing.assert_array_equal(weights, expected)
    # Heads of the inputs that are not read need not be given either.
    weights = kbert.attention_weights(build(encoder), INPUTS)
    np.testing.assert_array_equal(weights, expected)


def test_shared_layers_count_each_time(tiny_config):
    encoder = make_encoder(tiny_config, shared_layers=True, num_layers=3)
    weights = kbert.attention_weights(encoder, INPUTS)
    assert weights.shape == (2, 3, 2, 7, 7)
    assert np.abs(weights[:, 0] - weights[:, 2]).max() > 0.01


def test_a_packed_row_has_the_weights_of_each_sequence(tiny_config):
    encoder = make_encoder(tiny_config)
    alone = kbert.attention_weights(encoder, INPUTS)
    row = np.concatenate([IDS[:1, :5], IDS[1:]], axis=1)
    weights = kbert.attention_weights(
        kbert.build_packed(encoder),
        {
            "token_ids": row,
            "segment_ids": 0 * row,
            "sequence_ids": np.array([[1] * 5 + [2] * 7], "int32"),
        },
    )
    expected = np.zeros_like(weights)
    expected[0, :, :, :5, :5] = alone[0, :, :, :5, :5]
    expected[0, :, :, 5:, 5:] = alone[1]
    np.testing.assert_allclose(weights, expected, atol=1e-6)


def test_the_model_stays_as_it_is(tiny_config):
    """No dropout either, and no second use of a layer in the graph."""
    encoder = make_encoder(tiny_config, hidden_dropout=0.5)
    model = kbert.build_classifier(encoder, 2)
    before = ops.convert_to_numpy(model(INPUTS))
    saved = model.to_json()
    first = kbert.attention_weights(model, INPUTS)
    second = kbert.attention_weights(model, INPUTS)
    np.testing.assert_array_equal(first, second)
    assert model.to_json() == saved
    assert encoder.get_layer("encoder_block_0").output is not None
    np.testing.assert_array_equal(ops.convert_to_numpy(model(INPUTS)), before)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda x: x.pop("padding_mask"), r"also takes \['padding_mask'\]"),
        (lambda x: x.update(token_ids=IDS[0]), r"one shape \(B, S\)"),
        (lambda x: x.update(segment_ids=IDS[:1]), r"one shape \(B, S\)"),
    ],
)
def test_bad_inputs(tiny_config, change, message):
    inputs = dict(INPUTS)
    change(inputs)
    encoder = kbert.build_encoder(tiny_config)
    with pytest.raises(ValueError, match=message + r"[\s\S]*Received: "):
        kbert.attention_weights(encoder, inputs)


def test_models_without_one_encoder(tiny_config):
    dense = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match="BertEmbedding.*Received: "):
        kbert.attention_weights(dense, INPUTS)
    encoder = kbert.build_encoder(tiny_config)
    both = kbert.build_replaced_token_pretrainer(encoder, generator_size=0.5)
    with pytest.raises(ValueError, match="holds two encoders.*Received: "):
        kbert.attention_weights(both, INPUTS)
    for model in (kbert.discriminator_of(both), kbert.generator_of(both)):
        weights = kbert.attention_weights(model, INPUTS)
        assert weights.shape[-2:] == (7, 7)
