"""ELECTRA's pretraining model: one graph, shared tables, two losses."""

import dataclasses

import keras
import numpy as np
import pytest
from keras import ops
from loss_reference import binary_cross_entropy, cross_entropy, weighted_mean

import kbert

BACKEND = keras.backend.backend()


VARIANTS = {
    "plain": {},
    "factorised": {"embedding_size": 8},
    "generator_of_the_tables_width": {"embedding_size": 4},
    "no_segments": {"num_segments": 0, "has_pooler": False},
    "shared_layers": {"shared_layers": True, "num_layers": 3},
    "distances": {
        "relative_attention": "disentangled",
        "relative_buckets": 4,
        "relative_distance": 8,
        "has_position_table": False,
    },
    "pre_norm": {
        "pre_norm": True,
        "has_bias": False,
        "gated": True,
        "rotary_base": 100.0,
        "local_rotary_base": 10.0,
        "local_window": 2,
        "global_every": 2,
        "has_position_table": False,
    },
}


def build(config, variant="factorised", dtype=None, **options):
    keras.utils.set_random_seed(0)
    config = dataclasses.replace(config, family="electra", **VARIANTS[variant])
    encoder = kbert.build_encoder(config, dtype=dtype)
    model = kbert.build_replaced_token_pretrainer(encoder, **options)
    rng = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(weight + rng.normal(0, 0.1, tuple(weight.shape)))
    return encoder, model


def batch(config, rows=6, length=9, slots=3, unused=0):
    """Masked rows; `unused` slots and positions of padding more."""
    rng = np.random.default_rng(0)
    original = rng.integers(5, config.vocab_size, (rows, length))
    mask = np.arange(length) < rng.integers(5, length + 1, rows)[:, None]
    positions = np.sort(rng.permuted(np.tile([1, 2, 3, 4], (rows, 1)), axis=1))
    positions = positions[:, -slots:].copy()
    weights = np.ones((rows, slots), "float32")
    positions[0, 1:], weights[0, 1:] = 0, 0
    labels = np.take_along_axis(original, positions, 1) * (weights > 0)
    masked = original.copy()
    for row, used in enumerate(weights > 0):
        masked[row, positions[row, used]] = 4
    ids = {"token_ids": masked * mask, "segment_ids": original % 2 * mask}
    x = {**ids, "padding_mask": mask}
    at_slots = {"mask_positions": positions, "original_ids": labels}
    x |= at_slots
    wide = {k: ((0, 0), (0, unused)) for k in x}
    x = {k: np.pad(v, wide[k]).astype("int32") for k, v in x.items()}
    y = {"mlm": x["original_ids"], "replaced_token": 0 * x["token_ids"]}
    w = {
        "mlm": np.pad(weights, wide["mask_positions"]),
        "replaced_token": x["padding_mask"].astype("float32"),
    }
    if not config.num_segments:
        x.pop("segment_ids")
    return x, y, w


def numbers(x):
    if isinstance(x, dict):
        return {key: numbers(value) for key, value in x.items()}
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def with_draws(model, x):
    """What the sampler drew, and the outputs for these draws."""
    sampled = model.get_layer("replaced_token_sampler").output
    # Keras flattens a dict by its sorted keys.
    names = ("is_replaced", "token_ids")
    outputs = dict(zip(names, sampled, strict=True)) | model.output
    both = keras.Model(model.input, outputs)
    return numbers(both(x))


def compiled(model, weights=(1.0, 50.0), optimizer="adam", **options):
    model.compile(
        optimizer,
        loss={
            "mlm": kbert.losses.MaskedLMLoss(),
            "replaced_token": kbert.losses.ReplacedTokenLoss(),
        },
        loss_weights={"mlm": weights[0], "replaced_token": weights[1]},
        weighted_metrics={
            "mlm": kbert.metrics.MaskedLMAccuracy(),
            "replaced_token": kbert.metrics.ReplacedTokenAccuracy(),
        },
        **options,
    )
    return model


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_parts_compute_what_they_compute_alone(variant, tiny_config):
    encoder, model = build(tiny_config, variant)
    x, _, _ = batch(kbert.encoder_config(encoder))
    found = with_draws(model, x)
    alone = {name: x[name] for name in encoder.input}
    generator = kbert.generator_of(model)
    expected = numbers(
        generator({**alone, "mask_positions": x["mask_positions"]})
    )
    np.testing.assert_allclose(found["mlm"], expected, atol=1e-5)
    drawn = alone | {"token_ids": found["token_ids"].astype("int32")}
    expected = numbers(kbert.discriminator_of(model)(drawn))
    sign = 1 - 2 * found["is_replaced"]
    assert {-1.0, 1.0} == set(sign.ravel())
    np.testing.assert_allclose(
        found["replaced_token"], sign * expected, atol=1e-5
    )
    # The encoder given is the one that is trained.
    states = numbers(encoder(drawn)["sequence_output"])
    head = model.get_layer("replaced_token")
    np.testing.assert_allclose(numbers(head(states)), expected, atol=1e-5)
    assert np.abs(expected).max() > 0.01


@pytest.mark.parametrize("variant", VARIANTS)
def test_configs_can_be_read_back(variant, tiny_config, tmp_path):
    encoder, built = build(tiny_config, variant)
    config = dataclasses.replace(
        kbert.encoder_config(encoder), has_pooler=False
    )
    built.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for model in (built, loaded):
        assert kbert.encoder_config(model) == config
        detector = kbert.discriminator_of(model)
        assert kbert.encoder_config(detector) == config
        small = kbert.encoder_config(kbert.generator_of(model))
        width = config.embedding_size or config.hidden_size
        assert small == dataclasses.replace(
            config,
            hidden_size=4,
            num_heads=1,
            intermediate_size=8,
            embedding_size=None if width == 4 else width,
        )


def test_sizes_of_the_paper():
    encoder = kbert.build_encoder(
        dataclasses.replace(kbert.families.ELECTRA_SMALL, num_layers=4)
    )
    model = kbert.build_replaced_token_pretrainer(encoder, generator_depth=0.5)
    small = kbert.encoder_config(kbert.generator_of(model))
    # google/electra-small-generator but for its depth.
    assert (small.hidden_size, small.num_heads, small.num_layers) == (64, 1, 2)
    assert (small.intermediate_size, small.embedding_size) == (256, 128)


@pytest.mark.parametrize("share", ["generator_size", "generator_depth"])
@pytest.mark.parametrize("value", [0, -0.5, 1.5, float("nan")])
def test_shares_out_of_range(share, value, tiny_config):
    encoder = kbert.build_encoder(tiny_config)
    with pytest.raises(ValueError, match=f"Received: {share}={value}"):
        kbert.build_replaced_token_pretrainer(encoder, **{share: value})


def test_other_models_are_refused(tiny_config):
    encoder = kbert.build_encoder(tiny_config)
    detector = kbert.build_replaced_token_detector(encoder)
    for function in (kbert.discriminator_of, kbert.generator_of):
        with pytest.raises(ValueError, match="Received: layers"):
            function(detector)
    with pytest.raises(ValueError, match="Received: encoder="):
        kbert.build_replaced_token_pretrainer(detector)
    config = dataclasses.replace(tiny_config, hidden_size=48, num_heads=6)
    encoder = kbert.build_encoder(config)
    with pytest.raises(ValueError, match="Received: generator_size=0.4"):
        kbert.build_replaced_token_pretrainer(encoder, generator_size=0.4)


def moved(tiny_config, weights):
    """Paths of the variables that a step with these loss weights moves."""
    encoder, model = build(tiny_config)
    compiled(model, weights, keras.optimizers.SGD(1.0))
    x, y, w = batch(tiny_config)
    before = {v.path: numbers(v) for v in model.trainable_variables}
    model.train_on_batch(x, y, w)
    return {
        v.path
        for v in model.trainable_variables
        if np.abs(numbers(v) - before[v.path]).max() > 1e-7
    }, set(before)


def test_both_losses_train_one_set_of_tables(tiny_config):
    mlm, every = moved(tiny_config, (1.0, 0.0))
    replaced, _ = moved(tiny_config, (0.0, 50.0))
    tables = {f"embedding/{x}/embeddings" for x in ("position", "segment")}
    tables |= {f"embedding/layer_norm/{x}" for x in ("gamma", "beta")}
    tables |= {"embedding/token/embeddings"}
    assert tables <= every  # once: names are unique
    generator = {path for path in every if path.startswith("generator_")}
    # A key's bias cannot move: it adds the same to all scores of a query.
    still = {path for path in every if path.endswith("key/bias")}
    assert mlm - still == (tables | generator) - still
    # No path of the discriminator's loss leads through the draws.
    assert replaced - still == every - generator - still
    assert generator - still and every - generator - tables - still


def test_losses_and_accuracies_are_the_closed_forms(tiny_config):
    encoder, model = build(tiny_config)
    x, y, w = batch(tiny_config)
    state = model.get_layer("replaced_token_sampler").seed_generator.state
    before = ops.convert_to_numpy(state)
    found = with_draws(model, x)
    state.assign(before)
    shown = compiled(model).test_on_batch(x, y, w, return_dict=True)
    sign = 1 - 2 * found["is_replaced"]
    detector = found["replaced_token"] * sign
    mask = x["padding_mask"]
    mlm = weighted_mean(cross_entropy(y["mlm"], found["mlm"]), w["mlm"])
    replaced = weighted_mean(
        binary_cross_entropy(found["is_replaced"], detector), mask
    )
    right = weighted_mean((detector > 0) == found["is_replaced"], mask)
    expected = {
        "mlm_loss": mlm,
        "replaced_token_loss": replaced,
        "loss": mlm + 50 * replaced,
        "replaced_token_accuracy": right,
        "mlm_accuracy": weighted_mean(
            found["mlm"].argmax(-1) == y["mlm"], w["mlm"]
        ),
    }
    assert shown == pytest.approx(expected, abs=1e-5)
    assert 0 < found["is_replaced"].sum() < w["mlm"].sum() + 1


def test_unused_slots_and_padding_change_nothing(tiny_config):
    _, model = build(tiny_config)
    x, y, w = batch(tiny_config)
    wide, wide_y, wide_w = batch(tiny_config, unused=4)
    assert wide["mask_positions"].shape[1] == x["mask_positions"].shape[1] + 4
    # Sure guesses, so that draws do not depend on the shapes.
    bias = model.get_layer("generator_mlm_bias").bias
    bias.assign(np.where(np.arange(tiny_config.vocab_size) == 7, 1e3, 0.0))
    found, other = with_draws(model, x), with_draws(model, wide)
    length = x["token_ids"].shape[1]
    for key in ("token_ids", "is_replaced"):
        np.testing.assert_array_equal(found[key], other[key][:, :length])
        assert not other[key][:, length:].any()
    compiled(model)
    shown = model.test_on_batch(x, y, w, return_dict=True)
    assert shown == pytest.approx(
        model.test_on_batch(wide, wide_y, wide_w, return_dict=True), rel=1e-5
    )


def test_steps_draw_anew_and_a_reload_computes_the_same(tiny_config, tmp_path):
    _, model = build(tiny_config)
    x, _, _ = batch(tiny_config)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    # Keras saves no state of random numbers, no dropout's either.
    here, there = (
        each.get_layer("replaced_token_sampler").seed_generator.state
        for each in (model, loaded)
    )
    there.assign(ops.convert_to_numpy(here))
    draws = [with_draws(model, x) for _ in range(2)]
    assert (draws[0]["token_ids"] != draws[1]["token_ids"]).any()
    for expected in draws:
        found = with_draws(loaded, x)
        for key, value in expected.items():
            np.testing.assert_allclose(found[key], value, atol=1e-6)


def test_freeze_is_about_the_discriminator(tiny_config):
    _, model = build(tiny_config)
    kbert.freeze(model, num_layers=1)
    layers = {x.name: x.trainable for x in model.layers if x.weights}
    frozen = {name for name, trains in layers.items() if not trains}
    assert frozen == {"embedding", "encoder_block_0"}
    kbert.freeze(model, num_layers=0, embeddings=False)
    assert all(layer.trainable for layer in model.layers)


def corpus(vocab_size, count=512):
    """Rows of one word, eight times: the word is known from the others."""
    rng = np.random.default_rng(0)
    ids = np.tile(rng.integers(5, vocab_size, (count, 1)), 8)
    ids[:, 0], ids[:, -1] = 2, 3
    positions = rng.permuted(np.tile(np.arange(2, 6), (count, 1)), axis=1)
    positions = positions[:, :2]
    labels = np.take_along_axis(ids, positions, 1)
    np.put_along_axis(ids, positions, 4, 1)
    x = {
        "token_ids": ids,
        "segment_ids": 0 * ids,
        "padding_mask": 0 * ids + 1,
        "mask_positions": positions,
        "original_ids": labels,
    }
    x = {key: value.astype("int32") for key, value in x.items()}
    y = {"mlm": x["original_ids"], "replaced_token": x["segment_ids"]}
    w = {"mlm": np.ones(labels.shape), "replaced_token": np.ones(ids.shape)}
    return x, y, w


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "jit_compile"), [(None, False), ("mixed_bfloat16", True)]
)
def test_it_learns(dtype, jit_compile, tiny_config):
    if jit_compile and BACKEND == "torch":
        jit_compile = False  # needs a C++ compiler
    keras.utils.set_random_seed(0)
    config = dataclasses.replace(
        tiny_config, hidden_size=32, embedding_size=16, intermediate_size=64
    )
    encoder = kbert.build_encoder(config, dtype=dtype)
    model = compiled(
        kbert.build_replaced_token_pretrainer(encoder, generator_size=0.5),
        optimizer=keras.optimizers.Adam(5e-3),
        jit_compile=jit_compile,
    )
    x, y, w = corpus(config.vocab_size)
    history = model.fit(
        x, y, sample_weight=w, batch_size=64, epochs=25, verbose=0
    ).history
    chance = np.log(config.vocab_size - 5)
    assert history["mlm_loss"][0] > chance
    assert history["mlm_loss"][-1] < 0.3 * chance
    assert history["mlm_accuracy"][-1] > 0.9
    assert history["replaced_token_loss"][0] > 0.5
    assert history["replaced_token_loss"][-1] < 0.2
    # One word of another row, where in training masked ones were.
    ids = x["token_ids"].copy()
    np.put_along_axis(ids, x["mask_positions"], x["original_ids"], 1)
    is_wrong = np.zeros(ids.shape, bool)
    is_wrong[::2, 4] = True
    ids[::2, 4] = 5 + (ids[::2, 4] + 3) % (config.vocab_size - 5)
    rest = {"segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}
    detector = kbert.discriminator_of(model)
    logits = numbers(detector(rest | {"token_ids": ids}))
    # Of the 16 wrong words a row can have, some were never guessed.
    assert (logits[is_wrong] > 0).mean() > 0.3
    assert (logits[~is_wrong] > 0).mean() < 0.05


def test_text_to_training(tiny_config, tiny_tokenizer):
    """The whole way, as a user goes it."""
    texts = ["the good film was not bad .", "a very bad plot !"] * 4
    dataset = kbert.data.replaced_token_dataset(
        kbert.data.masked_lm_dataset(
            texts, tokenizer=tiny_tokenizer, batch_size=4, max_length=16
        )
    )
    encoder, model = build(tiny_config)
    model = compiled(model)
    history = model.fit(dataset, epochs=2, shuffle=False, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    for part, total in zip(
        history["replaced_token_loss"], history["loss"], strict=True
    ):
        assert 50 * part < total
