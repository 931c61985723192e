"""Configs, builders, and every way a Keras user trains their models."""

import dataclasses

import keras
import numpy as np
import pytest
from keras import ops

import kbert
from kbert.checkpoints.memory import Unwritten
from kbert.layers.initializers import no_random_values

TENSORFLOW = keras.backend.backend() == "tensorflow"
VARIANTS = {
    "plain": {},
    "no_segments": {"num_segments": 0},
    "one_segment": {"num_segments": 1, "position_offset": 2, "pad_token_id": 1},
    "factorised": {"embedding_size": 8},
    "shared": {"shared_layers": True, "embedding_size": 8, "num_layers": 3},
    "groups": {
        "shared_layers": True,
        "num_layers": 4,
        "num_layer_groups": 2,
        "layers_per_group": 2,
        "family": "albert",
    },
    "relative_bias": {
        "relative_attention": "bias",
        "relative_buckets": 8,
        "relative_distance": 4,
        "num_segments": 0,
        "position_offset": 2,
    },
    "disentangled": {
        "relative_attention": "disentangled",
        "relative_buckets": 4,
        "relative_distance": 6,
        "has_position_table": False,
    },
    "modern": {
        "num_layers": 5,
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
    "local_but_first": {
        "local_window": 1,
        "global_every": 2,
        "rotary_base": 50.0,
    },
    "no_pooler": {"has_pooler": False, "activation": "gelu_tanh"},
    "dropout": {"hidden_dropout": 0.2, "attention_dropout": 0.3},
}


def vary(config, name):
    return dataclasses.replace(config, **VARIANTS[name])


def batch(config, rows=8, length=6, seed=0):
    rng = np.random.default_rng(seed)
    ids = rng.integers(5, config.vocab_size, (rows, length)).astype("int32")
    lengths = rng.integers(2, length + 1, rows)
    mask = (np.arange(length) < lengths[:, None]).astype("int32")
    x = {"token_ids": ids * mask, "padding_mask": mask}
    if config.num_segments:
        x["segment_ids"] = (ids % config.num_segments).astype("int32")
    return x


def numbers(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def outputs(model, x):
    return {
        key: numbers(value)
        for key, value in sorted(model(x, training=False).items())
    }


def classifier(config, num_classes=3, **kwargs):
    keras.utils.set_random_seed(0)
    return kbert.build_classifier(
        kbert.build_encoder(config, **kwargs), num_classes
    )


def compiled(model, **kwargs):
    model.compile(
        optimizer=kbert.optimizers.adamw(1e-2, train_steps=40),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **kwargs,
    )
    return model


def learnable(config, rows=64):
    """Examples whose class is their first real token, modulo 3."""
    x = batch(config, rows)
    return x, (x["token_ids"][:, 0] % 3).astype("int32")


@pytest.mark.parametrize("name", VARIANTS)
def test_config_is_read_back_also_after_reload(tiny_config, name, tmp_path):
    config = vary(tiny_config, name)
    encoder = kbert.build_encoder(config)
    assert kbert.encoder_config(encoder) == config
    assert ("pooled_output" in encoder.output) == config.has_pooler
    assert ("segment_ids" in encoder.input) == bool(config.num_segments)
    encoder.save(tmp_path / "encoder.keras")
    again = keras.models.load_model(tmp_path / "encoder.keras")
    assert kbert.encoder_config(again) == config
    model = kbert.build_classifier(again, 2)
    expected = dataclasses.replace(config, has_pooler=True)
    assert kbert.encoder_config(model) == expected


@pytest.mark.parametrize("name", VARIANTS)
def test_copies_give_equal_outputs(tiny_config, name, tmp_path):
    config = vary(tiny_config, name)
    x = batch(config)
    encoder = kbert.build_encoder(config)
    expected = outputs(encoder, x)
    encoder.save(tmp_path / "encoder.keras")
    encoder.save_weights(tmp_path / "encoder.weights.h5")
    copies = [keras.models.load_model(tmp_path / "encoder.keras")]
    copies.append(keras.models.clone_model(encoder))
    copies[-1].set_weights(encoder.get_weights())
    copies.append(type(encoder).from_config(encoder.get_config()))
    copies[-1].load_weights(tmp_path / "encoder.weights.h5")
    for copy in copies:
        for key, value in outputs(copy, x).items():
            np.testing.assert_allclose(value, expected[key], atol=1e-6)
    assert len(encoder.weights) == len(copies[0].weights)


@pytest.mark.parametrize(
    ("layers", "groups", "inner", "order"),
    [
        (3, 1, 1, [0, 0, 0]),
        (4, 2, 1, [0, 0, 1, 1]),
        (2, 1, 2, [0, 1, 0, 1]),
        (4, 2, 2, [0, 1, 0, 1, 2, 3, 2, 3]),
    ],
)
def test_shared_layers_are_what_their_unrolled_copy_is(
    tiny_config, layers, groups, inner, order
):
    shared = kbert.build_encoder(
        dataclasses.replace(
            tiny_config,
            shared_layers=True,
            num_layers=layers,
            num_layer_groups=groups,
            layers_per_group=inner,
        )
    )
    unrolled = kbert.build_encoder(
        dataclasses.replace(tiny_config, num_layers=len(order))
    )
    for layer in unrolled.layers:
        name = layer.name
        if name.startswith("encoder_block_"):
            name = f"encoder_block_{order[int(name.split('_')[-1])]}"
        if layer.weights:
            layer.set_weights(shared.get_layer(name).get_weights())
    x = batch(tiny_config)
    for key, value in outputs(unrolled, x).items():
        np.testing.assert_allclose(outputs(shared, x)[key], value, atol=1e-6)


def test_tied_weights_stay_tied(tiny_config, tmp_path):
    """A head that calls the embedding in reverse, saved, cloned, trained."""
    encoder = kbert.build_encoder(tiny_config)
    logits = encoder.get_layer("embedding")(
        encoder.output["sequence_output"], reverse=True
    )
    model = keras.Model(encoder.input, logits)
    assert len(model.weights) == len(encoder.weights) - 2  # no pooler in it
    model.save(tmp_path / "tied.keras")
    x = batch(tiny_config)
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    copies = [keras.models.load_model(tmp_path / "tied.keras"), clone]
    before = numbers(model(x))
    for copy in copies:
        np.testing.assert_allclose(numbers(copy(x)), before, atol=1e-6)
    for each in (model, *copies):
        table = each.get_layer("embedding").token.embeddings
        table.assign(table.numpy()[::-1] * 2)
        assert len(each.trainable_weights) == len(model.trainable_weights)
    # Lookup and projection both follow the one table: had a copy two, only
    # one of them would have changed.
    after = numbers(model(x))
    assert np.abs(after - before).max() > 1e-3
    for copy in copies:
        np.testing.assert_allclose(numbers(copy(x)), after, atol=1e-6)


def test_a_task_model_is_one_flat_graph_that_shares_weights(tiny_config):
    encoder = kbert.build_encoder(tiny_config)
    model = kbert.build_classifier(encoder, 3)
    ours = {variable.path: variable for variable in encoder.variables}
    theirs = {variable.path: variable for variable in model.variables}
    weights = [p for p in ours if "seed_generator" not in p]
    assert set(weights) < set(theirs)
    assert all(theirs[path] is ours[path] for path in weights)
    assert not any(isinstance(x, keras.Model) for x in model.layers)


def test_padding_does_not_change_what_is_real(tiny_config):
    model = kbert.build_encoder(tiny_config)
    x = batch(tiny_config, length=6)
    short = outputs(model, x)
    longer = {k: np.pad(v, ((0, 0), (0, 9))) for k, v in x.items()}
    longer["token_ids"][:, 6:] = 7  # whatever stands there
    long = outputs(model, longer)
    real = x["padding_mask"].astype(bool)
    np.testing.assert_allclose(
        long["sequence_output"][:, :6][real],
        short["sequence_output"][real],
        atol=1e-5,
    )
    np.testing.assert_allclose(
        long["pooled_output"], short["pooled_output"], atol=1e-5
    )


@pytest.mark.parametrize(
    "policy", ["float32", "mixed_bfloat16", "mixed_float16"]
)
def test_padding_only_rows_give_numbers_and_gradients(tiny_config, policy):
    if (keras.backend.backend(), policy) == ("jax", "mixed_float16"):
        pytest.skip("XLA has no float16 attention product on CPUs")
    model = compiled(classifier(tiny_config, dtype=policy))
    x = batch(tiny_config)
    x["padding_mask"][3:] = 0
    assert np.isfinite(numbers(model(x))).all()
    model.train_on_batch(x, np.zeros(8, "int32"))
    for weight in model.trainable_weights:
        assert np.isfinite(weight.numpy()).all()


@pytest.mark.parametrize(
    ("policy", "jit"),
    [
        ("float32", False),
        ("float32", True),
        ("mixed_bfloat16", False),
        ("mixed_bfloat16", True),
    ],
)
def test_fit_learns(tiny_config, policy, jit):
    if jit and keras.backend.backend() == "torch":
        pytest.skip("torch.compile needs a C++ toolchain")
    config = vary(tiny_config, "dropout")
    x, y = learnable(config)
    model = compiled(classifier(config, dtype=policy), jit_compile=jit)
    before = model.evaluate(x, y, verbose=0)[0]
    model.fit(x, y, batch_size=16, epochs=10, verbose=0)
    loss, accuracy = model.evaluate(x, y, verbose=0)
    assert loss < before / 2
    assert accuracy > 0.8


@pytest.mark.skipif(not TENSORFLOW, reason="steps_per_execution on TensorFlow")
def test_steps_per_execution_changes_no_result(tiny_config):
    x, y = learnable(tiny_config)
    losses = []
    for steps in (1, 4):
        model = compiled(
            classifier(tiny_config),
            jit_compile=False,
            steps_per_execution=steps,
        )
        history = model.fit(
            x, y, batch_size=16, epochs=3, shuffle=False, verbose=0
        )
        losses.append(history.history["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


@pytest.mark.skipif(not TENSORFLOW, reason="a TensorFlow loop")
def test_a_hand_written_loop(tiny_config):
    import tensorflow as tf

    x, y = learnable(tiny_config)
    model = classifier(tiny_config)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = kbert.optimizers.adamw(1e-2, train_steps=40)
    values = []
    for _ in range(40):
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        assert all(gradient is not None for gradient in gradients)
        optimizer.apply(gradients, model.trainable_variables)
        values.append(float(value))
    assert values[-1] < values[0] / 3


@pytest.mark.skipif(not TENSORFLOW, reason="counts TensorFlow traces")
def test_all_bucket_lengths_share_one_trace(tiny_config, tiny_tokenizer):
    texts = ["good " * n for n in range(1, 30)] * 4
    labels = [len(text) % 3 for text in texts]
    data = kbert.data.classification_dataset(
        texts,
        labels,
        tokenizer=tiny_tokenizer,
        batch_size=8,
        max_length=32,
        shuffle=True,
    )
    lengths = {x["token_ids"].shape[1] for x, _ in data}
    assert len(lengths) >= 3
    traces = []

    class Counting(type(kbert.layers.Pooler(1))):
        def call(self, hidden_states):
            traces.append(1)
            return super().call(hidden_states)

    config = vary(tiny_config, "no_pooler")
    encoder = kbert.build_encoder(config)
    pooled = Counting(16)(encoder.output["sequence_output"])
    head = kbert.layers.ClassificationHead(3)
    model = compiled(
        keras.Model(encoder.input, head(pooled)), jit_compile=False
    )
    traces.clear()
    model.fit(data, epochs=2, verbose=0, shuffle=False)
    # TensorFlow traces once more where a first trace makes variables (the
    # metrics' here); what counts is that no length adds a trace.
    assert len(traces) <= 2


@pytest.mark.parametrize(
    ("num_classes", "loss", "target"),
    [
        (
            3,
            keras.losses.BinaryCrossentropy(from_logits=True),
            lambda y: np.eye(3)[y],
        ),
        (1, keras.losses.MeanSquaredError(), lambda y: y.astype("float32")),
        (
            1,
            keras.losses.BinaryCrossentropy(from_logits=True),
            lambda y: (y > 0).astype("float32"),
        ),
    ],
    ids=["multi_label", "regression", "one_logit"],
)
def test_the_loss_decides_the_task(tiny_config, num_classes, loss, target):
    x, y = learnable(tiny_config)
    model = classifier(tiny_config, num_classes)
    model.compile(kbert.optimizers.adamw(1e-2), loss)
    before = model.evaluate(x, target(y), verbose=0)
    model.fit(x, target(y), epochs=15, batch_size=16, verbose=0)
    assert model.evaluate(x, target(y), verbose=0) < before / 2


def test_zero_dropout_is_deterministic_and_heads_follow(tiny_config):
    x = batch(tiny_config)
    model = classifier(tiny_config)
    np.testing.assert_array_equal(
        numbers(model(x, training=True)), numbers(model(x, training=True))
    )
    config = vary(tiny_config, "dropout")
    encoder = kbert.build_encoder(config)
    assert kbert.build_classifier(encoder, 2).layers[-1].hidden_dropout == 0.2
    model = kbert.build_classifier(encoder, 2, hidden_dropout=0.5)
    assert model.layers[-1].hidden_dropout == 0.5


def test_compiled_model_resumes_from_a_keras_file(tiny_config, tmp_path):
    """Optimiser state and all: 5 + 5 epochs are 10 epochs."""
    x, y = learnable(tiny_config)

    def fit(model, epochs):
        model.fit(x, y, batch_size=16, epochs=epochs, shuffle=False, verbose=0)
        return model

    whole = fit(compiled(classifier(tiny_config)), 10)
    half = fit(compiled(classifier(tiny_config)), 5)
    half.save(tmp_path / "half.keras")
    rest = fit(keras.models.load_model(tmp_path / "half.keras"), 5)
    for one, other in zip(whole.get_weights(), rest.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_freeze(tiny_config):
    x, y = learnable(tiny_config)

    def moved(**kwargs):
        model = classifier(vary(tiny_config, "dropout"))
        kbert.freeze(model, **kwargs)
        compiled(model)
        before = {v.path: v.numpy() for v in model.variables}
        model.fit(x, y, batch_size=16, epochs=2, verbose=0)
        return {
            v.path.split("/")[0]
            for v in model.variables
            if "seed_generator" not in v.path
            and np.abs(v.numpy() - before[v.path]).max() > 0
        }

    assert moved() == {"classifier"}
    assert moved(embeddings=False) == {"classifier", "embedding"}
    assert moved(num_layers=1) == {"classifier", "pooler", "encoder_block_1"}
    everything = {"embedding", "encoder_block_0", "encoder_block_1"}
    everything |= {"classifier", "pooler"}
    assert moved(num_layers=0, embeddings=False) == everything


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize(
    "arguments", [{}, {"num_layers": 1}, {"num_layers": 0}]
)
def test_what_is_frozen_stays_so_in_a_file(
    tiny_config, tmp_path, name, arguments
):
    config = dataclasses.replace(vary(tiny_config, name), has_pooler=True)
    model = kbert.build_classifier(kbert.build_encoder(config), 2)
    kbert.freeze(model, **arguments)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    paths = [v.path for v in model.trainable_variables]
    assert [v.path for v in loaded.trainable_variables] == paths
    clone = keras.models.clone_model(model)
    assert [v.path for v in clone.trainable_variables] == paths
    kbert.freeze(loaded, num_layers=0, embeddings=False)
    kbert.freeze(model, num_layers=0, embeddings=False)
    assert len(loaded.trainable_variables) == len(model.trainable_variables)


@pytest.mark.skipif(not TENSORFLOW, reason="JAX reads NaN there, by design")
@pytest.mark.parametrize("name", ["relative_bias", "disentangled", "modern"])
def test_freezing_everything_leaves_the_head(tiny_config, name):
    config = dataclasses.replace(vary(tiny_config, name), has_pooler=True)
    encoder = kbert.build_encoder(config)
    model = kbert.build_classifier(encoder, 2)
    kbert.freeze(model)
    paths = [variable.path for variable in model.trainable_variables]
    assert paths == ["classifier/logits/kernel", "classifier/logits/bias"]
    kbert.freeze(model, num_layers=0)
    left = {v.path.split("/")[0] for v in model.trainable_variables}
    assert not left & {"embedding", "relative_bias", "relative_embedding"}
    assert "encoder_block_0" in left
    kbert.freeze(model, num_layers=0, embeddings=False)
    assert len(model.trainable_variables) == len(model.weights) - len(
        [v for v in model.weights if "seed" in v.path]
    )


@pytest.mark.parametrize("name", ["relative_bias", "disentangled", "modern"])
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_every_mechanism_learns(tiny_config, name, policy):
    config = vary(tiny_config, name)
    model = compiled(classifier(config, dtype=policy))
    x, y = learnable(config)
    history = model.fit(x, y, epochs=8, batch_size=16, verbose=0)
    assert history.history["loss"][-1] < 0.7 * history.history["loss"][0]
    for variable in model.trainable_variables:
        assert np.isfinite(numbers(variable.value)).all(), variable.path


def test_mean_pooling_of_a_classifier(tiny_config):
    encoder = kbert.build_encoder(tiny_config)
    model = kbert.build_classifier(encoder, 3, pooling="mean")
    x = batch(tiny_config)
    states = outputs(encoder, x)["sequence_output"]
    mask = x["padding_mask"][..., None]
    mean = (states * mask).sum(1) / mask.sum(1)
    head = model.get_layer("classifier").logits
    expected = mean @ head.kernel.numpy() + head.bias.numpy()
    np.testing.assert_allclose(numbers(model(x)), expected, atol=1e-5)
    assert not any(layer.name == "pooler" for layer in model.layers)


def test_ids_without_a_row_are_an_error(tiny_config):
    model = kbert.build_encoder(tiny_config)
    x = batch(tiny_config)
    x["token_ids"][0, 0] = tiny_config.vocab_size
    with pytest.raises(Exception, match=r"is not in \[0, \d+\)"):
        model.predict(x, verbose=0)


def test_sequences_past_the_position_table_are_an_error(tiny_config):
    model = kbert.build_encoder(tiny_config)
    x = batch(tiny_config, length=tiny_config.max_positions + 1)
    with pytest.raises(ValueError, match=r"max_positions=32.*Received"):
        model(x)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"hidden_size": 15}, ValueError),
        ({"hidden_size": 0}, ValueError),
        ({"num_layers": 0}, ValueError),
        ({"num_layers": 2.0}, TypeError),
        ({"num_heads": True}, TypeError),
        ({"vocab_size": -1}, ValueError),
        ({"vocab_size": "100"}, TypeError),
        ({"num_segments": -1}, ValueError),
        ({"embedding_size": 0}, ValueError),
        ({"activation": "gleu"}, ValueError),
        ({"hidden_dropout": 1.0}, ValueError),
        ({"hidden_dropout": -0.1}, ValueError),
        ({"attention_dropout": float("nan")}, ValueError),
        ({"attention_dropout": None}, TypeError),
        ({"layer_norm_epsilon": -1e-12}, ValueError),
        ({"pad_token_id": 10**6}, ValueError),
        ({"shared_layers": 1}, TypeError),
        ({"num_layer_groups": 2}, ValueError),
        ({"shared_layers": True, "num_layer_groups": 3}, ValueError),
        ({"shared_layers": True, "layers_per_group": 0}, ValueError),
        ({"family": None}, TypeError),
        ({"has_bias": 0}, TypeError),
        ({"relative_attention": "t5"}, ValueError),
        ({"relative_buckets": 0}, ValueError),
        ({"relative_distance": 1.5}, TypeError),
        ({"rotary_base": 0.0}, ValueError),
        ({"rotary_base": "10000"}, TypeError),
        ({"local_window": 0}, ValueError),
        ({"global_every": 2}, ValueError),
        ({"local_rotary_base": 10.0}, ValueError),
        ({"local_window": 2, "global_every": 3}, ValueError),
        ({"local_window": 2, "shared_layers": True}, ValueError),
        ({"rotary_base": 10.0, "hidden_size": 18, "num_heads": 2}, ValueError),
    ],
)
def test_bad_configs(tiny_config, change, error):
    with pytest.raises(error, match=r"Received: "):
        dataclasses.replace(tiny_config, **change)


def test_bad_arguments_of_builders(tiny_config):
    encoder = kbert.build_encoder(tiny_config)
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    for call, error in [
        (lambda: kbert.build_encoder({"hidden_size": 3}), TypeError),
        (lambda: kbert.build_classifier(other, 2), ValueError),
        (lambda: kbert.build_classifier(encoder, 0), ValueError),
        (
            lambda: kbert.build_classifier(encoder, 2, label_names=["a"]),
            ValueError,
        ),
        (lambda: kbert.encoder_config(other), ValueError),
        (lambda: kbert.freeze(other), ValueError),
        (lambda: kbert.freeze(encoder, num_layers=3), ValueError),
        (lambda: kbert.freeze(encoder, num_layers=-1), ValueError),
    ]:
        with pytest.raises(error, match=r"Received: "):
            call()


@pytest.mark.parametrize(
    ("name", "millions"),
    # Turc et al. 2019, table of google-research/bert; Devlin et al. 2018.
    [("TINY", 4.4), ("MINI", 11.2), ("SMALL", 28.8), ("MEDIUM", 41.4)],
)
def test_published_sizes(name, millions):
    config = getattr(kbert.families, f"BERT_{name}")
    parameters = kbert.build_encoder(config).count_params()
    assert parameters / 1e6 == pytest.approx(millions, abs=0.06)


@pytest.mark.parametrize(
    ("name", "millions"),
    # As each paper gives it: Lan et al. table 1, Clark et al. table 1, Sanh et
    # al. table 3, Liu et al. section 2; others below.
    [
        ("ALBERT_BASE_V2", 12),
        ("ELECTRA_SMALL", 14),
        ("DISTILBERT_BASE", 66),
        ("ROBERTA_BASE", 125),
        # 86 and 22 million beside the table, as the models' pages say.
        ("DEBERTA_V3_BASE", 86 + 98),
        ("DEBERTA_V3_XSMALL", 22 + 49),
        # Warner et al. table 3.
        ("MODERNBERT_BASE", 149),
        # microsoft/mpnet-base: BERT-base and 5 tokens, 2 rows, 32 × 12.
        ("MPNET_BASE", 109.5),
    ],
)
def test_published_sizes_of_other_families(name, millions):
    config = getattr(kbert.families, name)
    with no_random_values(Unwritten()):  # which would take seconds each
        parameters = kbert.build_encoder(config).count_params()
    assert parameters / 1e6 == pytest.approx(millions, abs=0.6)


def test_base_and_large_count():
    """110 M and 340 M, counted by hand from the config."""
    for config, millions in [
        (kbert.families.BERT_BASE, 110),
        (kbert.families.BERT_LARGE, 336),
    ]:
        h, i = config.hidden_size, config.intermediate_size
        tables = (30522 + 512 + 2) * h + 2 * h
        block = 4 * (h * h + h) + 2 * h * i + h + i + 4 * h
        total = tables + config.num_layers * block + h * h + h
        assert total / 1e6 == pytest.approx(millions, abs=1)
