"""Packed rows against the same sequences in rows of their own."""

import dataclasses

import keras
import numpy as np
import pytest
from keras import ops

import kbert

VARIANTS = {
    "bert": {},
    "roberta": {"num_segments": 1, "position_offset": 2, "pad_token_id": 1},
    "factorised": {"embedding_size": 8, "shared_layers": True},
    "mpnet": {
        "relative_attention": "bias",
        "relative_buckets": 8,
        "relative_distance": 6,
        "num_segments": 0,
        "position_offset": 2,
    },
    "deberta": {
        "relative_attention": "disentangled",
        "relative_buckets": 4,
        "relative_distance": 6,
        "has_position_table": False,
        "num_segments": 0,
    },
    # Rows of four windows and more go by blocks.
    "modernbert": {
        "num_layers": 4,
        "has_position_table": False,
        "has_bias": False,
        "pre_norm": True,
        "gated": True,
        "rotary_base": 100.0,
        "local_rotary_base": 10.0,
        "local_window": 2,
        "global_every": 3,
        "num_segments": 0,
    },
}
each_variant = pytest.mark.parametrize("name", VARIANTS)
# Lengths of the sequences of each row; the second is not quite full.
ROWS = [[9, 12, 3], [2, 10, 8, 1]]
LENGTH = 24


def numbers(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def vary(config, name):
    return dataclasses.replace(config, **VARIANTS[name])


def make_encoder(config, seed=0):
    """Weights large enough for attention to be far from uniform."""
    encoder = kbert.build_encoder(config)
    rng = np.random.default_rng(seed)
    for weight in encoder.weights:
        weight.assign(
            rng.normal("gamma" in weight.path, 0.25, tuple(weight.shape))
        )
    return encoder


def draw(config, rows=ROWS, seed=0):
    """Sequences: ids, segments, and the two positions that are masked."""
    rng = np.random.default_rng(seed)
    sequences = []
    for row, lengths in enumerate(rows):
        for number, length in enumerate(lengths, 1):
            sequences.append(
                {
                    "row": row,
                    "number": number,
                    "token_ids": rng.integers(5, config.vocab_size, length),
                    "segment_ids": np.sort(
                        rng.integers(0, max(config.num_segments, 1), length)
                    ),
                    "masked": rng.choice(length, min(2, length), False),
                }
            )
    return sequences


def padded(config, pieces, length, masks):
    """A batch whose row r is the sequences `pieces[r]`, end to end."""
    names = ["token_ids", "segment_ids", "sequence_ids"]
    x = {name: np.zeros((len(pieces), length), "int32") for name in names}
    x["token_ids"] += config.pad_token_id
    x["mask_positions"] = np.zeros((len(pieces), masks), "int32")
    y = np.zeros((len(pieces), masks), "int32")
    weights = np.zeros((len(pieces), masks), "float32")
    for row, sequences in enumerate(pieces):
        start = used = 0
        for number, sequence in enumerate(sequences, 1):
            part = slice(start, start + len(sequence["token_ids"]))
            x["token_ids"][row, part] = sequence["token_ids"]
            x["segment_ids"][row, part] = sequence["segment_ids"]
            x["sequence_ids"][row, part] = number
            for position in sequence["masked"]:
                x["mask_positions"][row, used] = start + position
                y[row, used] = sequence["token_ids"][position]
                weights[row, used] = 1.0
                used += 1
            start = part.stop
    if not config.num_segments:
        del x["segment_ids"]
    return x, y, weights


def alone(config, sequences):
    x, y, weights = padded(config, [[s] for s in sequences], 12, 2)
    x["padding_mask"] = x.pop("sequence_ids")
    return x, y, weights


def packed(config, sequences, rows=ROWS, length=LENGTH):
    pieces = [[s for s in sequences if s["row"] == r] for r in range(len(rows))]
    return padded(config, pieces, length, 8)


def without(x, *names):
    return {name: value for name, value in x.items() if name not in names}


def step(model, batch):
    """Loss, and the gradient of every weight, through Keras' own training."""
    before = model.get_weights()
    model.compile(
        keras.optimizers.SGD(1.0),
        loss=kbert.losses.MaskedLMLoss(),
        jit_compile=False,
    )
    x, y, weights = batch
    loss = float(model.train_on_batch(x, y, weights))
    after = model.get_weights()
    model.set_weights(before)
    return loss, {
        weight.path: old - new
        for weight, old, new in zip(model.weights, before, after, strict=True)
    }


@each_variant
def test_logits_are_those_of_each_sequence_alone(tiny_config, name):
    config = vary(tiny_config, name)
    model = kbert.build_masked_lm(make_encoder(config), all_positions=True)
    sequences = draw(config)
    x, _, _ = packed(config, sequences)
    logits = numbers(kbert.build_packed(model)(without(x, "mask_positions")))
    for sequence in sequences:
        one, _, _ = padded(config, [[sequence]], len(sequence["token_ids"]), 2)
        one["padding_mask"] = one.pop("sequence_ids")
        expected = numbers(model(without(one, "mask_positions")))[0]
        row, number = sequence["row"], sequence["number"]
        ours = logits[row][x["sequence_ids"][row] == number]
        np.testing.assert_allclose(ours, expected, atol=1e-5)


@each_variant
def test_loss_and_gradients_are_those_of_rows_of_one_sequence(
    tiny_config, name
):
    config = vary(tiny_config, name)
    model = kbert.build_masked_lm(make_encoder(config))
    sequences = draw(config)
    loss, expected = step(model, alone(config, sequences))
    ours, gradients = step(kbert.build_packed(model), packed(config, sequences))
    assert ours == pytest.approx(loss, abs=1e-5)
    assert list(gradients) == list(expected)
    for path, value in expected.items():
        np.testing.assert_allclose(gradients[path], value, atol=1e-5)
    assert max(np.abs(value).max() for value in expected.values()) > 0.01


@each_variant
def test_a_sequence_knows_nothing_of_its_neighbours(tiny_config, name):
    config = vary(tiny_config, name)
    model = kbert.build_packed(make_encoder(config))
    x, _, _ = packed(config, draw(config))
    x = without(x, "mask_positions")
    before = numbers(model(x)["sequence_output"])
    for number in range(1, 5):
        is_changed = x["sequence_ids"] == number
        ids = np.where(is_changed, 5 + x["token_ids"] % 7, x["token_ids"])
        after = numbers(model(x | {"token_ids": ids})["sequence_output"])
        moved = np.abs(after - before).max(axis=-1)
        assert moved[is_changed].max() > 1e-3
        assert moved[~is_changed].max() <= 1e-6


@each_variant
def test_one_sequence_a_row_is_the_model_that_was_packed(tiny_config, name):
    config = vary(tiny_config, name)
    encoder = make_encoder(config)
    x = without(alone(config, draw(config))[0], "mask_positions")
    given = without(x, "padding_mask") | {"sequence_ids": x["padding_mask"]}
    expected, ours = encoder(x), kbert.build_packed(encoder)(given)
    assert set(ours) == set(expected)
    is_real = x["padding_mask"] == 1
    np.testing.assert_allclose(
        numbers(ours["sequence_output"])[is_real],
        numbers(expected["sequence_output"])[is_real],
        atol=1e-5,
    )
    if config.has_pooler:
        np.testing.assert_allclose(
            numbers(ours["pooled_output"]),
            numbers(expected["pooled_output"]),
            atol=1e-5,
        )


def test_rotary_positions_need_no_restart(tiny_config):
    """The last of 480 tokens' neighbours, with ModernBERT's own bases."""
    config = dataclasses.replace(
        vary(tiny_config, "modernbert"),
        rotary_base=160000.0,
        local_rotary_base=10000.0,
        local_window=64,
        max_positions=512,
    )
    encoder = make_encoder(config)
    ids = np.random.default_rng(0).integers(5, 20, (1, 512)).astype("int32")
    sequence_ids = 1 + (np.arange(512) >= 480)[None].astype("int32")
    row = kbert.build_packed(encoder)(
        {"token_ids": ids, "sequence_ids": sequence_ids}
    )
    one = encoder(
        {"token_ids": ids[:, 480:], "padding_mask": np.ones((1, 32), "int32")}
    )
    np.testing.assert_allclose(
        numbers(row["sequence_output"])[:, 480:],
        numbers(one["sequence_output"]),
        atol=1e-5,
    )


@each_variant
@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_padding_gives_numbers_and_gradients(tiny_config, name, policy):
    config = vary(tiny_config, name)
    encoder = kbert.build_encoder(config, dtype=policy)
    model = kbert.build_packed(kbert.build_masked_lm(encoder))
    x, y, weights = packed(config, draw(config))
    for array in (x["token_ids"], x["sequence_ids"], weights):
        array[1] = 0
    loss, gradients = step(model, (x, y, weights))
    assert np.isfinite(loss)
    assert all(np.isfinite(value).all() for value in gradients.values())
    inputs = without(x, "mask_positions")
    outputs = kbert.build_packed(encoder)(inputs)["sequence_output"]
    assert np.isfinite(numbers(outputs)).all()


@each_variant
def test_one_graph_serves_rows_of_any_length(tiny_config, name):
    """On TensorFlow the second length makes a graph that knows none."""
    config = vary(tiny_config, name)
    model = kbert.build_packed(
        kbert.build_masked_lm(make_encoder(config), all_positions=True)
    )
    for rows in ([[3, 2]], [[9, 12, 3]], [[7, 7]], [[16, 15]]):
        x, _, _ = packed(config, draw(config, rows), rows, sum(rows[0]))
        x = without(x, "mask_positions")
        ours = model.predict(x, verbose=0)
        np.testing.assert_allclose(ours, numbers(model(x)), atol=1e-5)


@each_variant
def test_the_config_is_the_same_and_reload_stays_packed(
    tiny_config, name, tmp_path
):
    config = vary(tiny_config, name)
    model = kbert.build_packed(make_encoder(config))
    assert kbert.encoder_config(model) == config
    x = without(packed(config, draw(config))[0], "mask_positions")
    model.save(tmp_path / "packed.keras")
    again = keras.models.load_model(tmp_path / "packed.keras")
    assert kbert.encoder_config(again) == config
    np.testing.assert_allclose(
        numbers(again(x)["sequence_output"]),
        numbers(model(x)["sequence_output"]),
        atol=1e-6,
    )


def test_a_packed_model_is_saved_as_any_other(tiny_config, tmp_path):
    model = kbert.build_masked_lm(make_encoder(tiny_config))
    ours = kbert.build_packed(model)
    assert [w.path for w in ours.weights] == [w.path for w in model.weights]
    kbert.save_pretrained(ours, tmp_path)
    loaded = kbert.load_masked_lm(tmp_path)
    assert set(loaded.input) == set(model.input)
    sequences = draw(tiny_config)
    x, _, _ = packed(tiny_config, sequences)
    np.testing.assert_allclose(
        numbers(kbert.build_packed(loaded)(x)), numbers(ours(x)), atol=1e-6
    )
    # The encoder keeps its pooler, though no packed row trains it.
    encoder = make_encoder(tiny_config)
    kbert.save_pretrained(kbert.build_packed(encoder), tmp_path / "encoder")
    loaded = kbert.load_encoder(tmp_path / "encoder")
    for one, other in zip(loaded.weights, encoder.weights, strict=True):
        assert one.path == other.path
        np.testing.assert_array_equal(numbers(one), numbers(other))


def test_training_one_trains_the_other(tiny_config):
    model = kbert.build_masked_lm(make_encoder(tiny_config))
    model.compile("sgd", loss=kbert.losses.MaskedLMLoss())
    ours = kbert.build_packed(model)
    assert not ours.compiled
    for one, other in zip(ours.weights, model.weights, strict=True):
        assert one is other
    before = model.get_weights()
    x, y, weights = packed(tiny_config, draw(tiny_config))
    ours.compile("sgd", loss=kbert.losses.MaskedLMLoss())
    ours.fit(x, y, sample_weight=weights, verbose=0)
    assert any(
        np.abs(old - new).max() > 0
        for old, new in zip(before, model.get_weights(), strict=True)
    )


@pytest.mark.parametrize(
    "build",
    [
        kbert.build_masked_lm,
        kbert.build_replaced_token_detector,
        lambda encoder: kbert.build_token_classifier(encoder, 3),
    ],
)
def test_heads_may_come_before_or_after(tiny_config, build):
    x, _, _ = packed(tiny_config, draw(tiny_config))
    encoder = make_encoder(tiny_config)
    before = kbert.build_packed(build(encoder))
    after = build(kbert.build_packed(encoder))
    after.set_weights(before.get_weights())
    assert set(before.input) == set(after.input)
    x = {key: value for key, value in x.items() if key in before.input}
    np.testing.assert_array_equal(numbers(before(x)), numbers(after(x)))


@pytest.mark.parametrize(
    "build",
    [
        lambda encoder: kbert.build_classifier(encoder, 2),
        lambda encoder: kbert.build_classifier(encoder, 2, pooling="mean"),
        kbert.build_pretrainer,
        kbert.build_span_model,
    ],
)
def test_results_of_rows_are_refused(tiny_config, build):
    encoder = kbert.build_encoder(tiny_config)
    with pytest.raises(ValueError, match=r"no single result.*Received: "):
        kbert.build_packed(build(encoder))
    with pytest.raises(ValueError, match=r"same weights. Received: inputs"):
        build(kbert.build_packed(encoder))


def test_other_models_are_refused(tiny_config):
    encoder = kbert.build_encoder(tiny_config)
    with pytest.raises(ValueError, match="of a packed model"):
        kbert.build_packed(kbert.build_packed(encoder))
    with pytest.raises(ValueError, match="Received: layers"):
        kbert.build_packed(keras.Sequential([keras.layers.Dense(2)]))
    own = keras.layers.Multiply(name="own")
    mask = ops.expand_dims(encoder.input["padding_mask"], -1)
    states = encoder.output["sequence_output"]
    model = keras.Model(encoder.input, own([states, mask]))
    with pytest.raises(ValueError, match="reads `padding_mask`"):
        kbert.build_packed(model)


def test_data_of_the_other_kind_are_refused(tiny_config):
    """Numbers of sequences would pass for a mask of ones."""
    model = kbert.build_masked_lm(make_encoder(tiny_config))
    sequences = draw(tiny_config)
    with pytest.raises(ValueError, match='input "padding_mask"'):
        model(packed(tiny_config, sequences)[0])
    with pytest.raises(ValueError, match='input "sequence_ids"'):
        kbert.build_packed(model)(alone(tiny_config, sequences)[0])
    layer = kbert.layers.SelfAttention(8, 2)
    ones = np.ones((1, 3), "int32")
    with pytest.raises(ValueError, match="in place of `padding_mask`"):
        layer(np.ones((1, 3, 8), "float32"), ones, sequence_ids=ones)
