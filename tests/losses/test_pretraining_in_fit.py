"""The losses and metrics in `compile`, `fit` and `evaluate`."""

import keras
import numpy as np
import pytest
from loss_reference import cross_entropy, weighted_mean

import kbert

BACKEND = keras.backend.backend()


LOSSES = {
    "mlm": kbert.losses.MaskedLMLoss(),
    "nsp": kbert.losses.NextSentenceLoss(),
}
ROWS, SLOTS, VOCAB = 8, 3, 19


def small_model():
    """Two heads whose logits are in half precision under a mixed policy."""
    keras.utils.set_random_seed(0)
    ids = keras.Input((SLOTS,), dtype="int32")
    x = keras.layers.Embedding(VOCAB, 8, embeddings_initializer="normal")(ids)
    mlm = keras.layers.Dense(VOCAB, name="mlm")(x)
    x = keras.layers.Flatten()(x)
    return keras.Model(
        ids, {"mlm": mlm, "nsp": keras.layers.Dense(2, name="nsp")(x)}
    )


def compile_model(model, optimizer, jit_compile):
    model.compile(
        optimizer,
        loss=LOSSES,
        weighted_metrics={
            "mlm": [
                kbert.metrics.MaskedLMAccuracy(),
                kbert.metrics.Perplexity(),
            ],
            "nsp": kbert.metrics.NextSentenceAccuracy(),
        },
        jit_compile=jit_compile,
    )
    return model


def draw():
    """Ids, labels and weights: one masked token in the first four rows."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, VOCAB, (ROWS, SLOTS)).astype("int32")
    weights = np.zeros((ROWS, SLOTS), "float32")
    weights[0, 0] = weights[5:] = 1.0
    labels = rng.integers(0, VOCAB, (ROWS, SLOTS))
    pairs = np.ones(ROWS, "float32")
    pairs[-1] = 0.0
    y = {
        "mlm": np.where(weights > 0, labels, -100).astype("int32"),
        "nsp": rng.integers(0, 2, ROWS).astype("int32"),
    }
    return x, y, {"mlm": weights, "nsp": pairs}


def expectation(model, x, y, w, batch_size):
    """What Keras should show, from the logits alone."""
    logits = model.predict(x, batch_size=batch_size, verbose=0)
    losses, right, batches = {}, {}, {}
    for name in ("mlm", "nsp"):
        labels = np.where(w[name] > 0, y[name], 0)
        losses[name] = cross_entropy(labels, logits[name])
        right[name] = logits[name].argmax(-1) == labels
        rows = range(0, len(labels), batch_size)
        batches[name] = np.mean(
            [
                weighted_mean(losses[name][part], w[name][part])
                for part in (slice(row, row + batch_size) for row in rows)
            ]
        )
    return {
        "loss": batches["mlm"] + batches["nsp"],
        "mlm_loss": batches["mlm"],
        "nsp_loss": batches["nsp"],
        "mlm_perplexity": np.exp(weighted_mean(losses["mlm"], w["mlm"])),
        "mlm_accuracy": weighted_mean(right["mlm"], w["mlm"]),
        "nsp_accuracy": weighted_mean(right["nsp"], w["nsp"]),
    }


@pytest.fixture
def policy(request):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(before)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"], indirect=True)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_fit_and_evaluate_show_what_is_documented(policy, jit_compile):
    if jit_compile and BACKEND == "torch":
        pytest.skip("needs a C++ compiler")
    sgd = keras.optimizers.SGD(0.0)
    model = compile_model(small_model(), sgd, jit_compile)
    x, y, w = draw()
    expected = expectation(model, x, y, w, batch_size=4)
    # Half precision rounds otherwise when other kernels are fused.
    tolerance = {"rel": 1e-5 if policy == "float32" else 1e-2}
    shown = model.evaluate(x, y, 4, 0, w, return_dict=True)
    assert shown == pytest.approx(expected, **tolerance)
    history = model.fit(
        x, y, batch_size=4, sample_weight=w, shuffle=False, verbose=0
    ).history
    shown = {name: values[0] for name, values in history.items()}
    assert shown == pytest.approx(expected, **tolerance)


@pytest.mark.parametrize(
    "policy", ["mixed_float16", "mixed_bfloat16"], indirect=True
)
def test_half_precision_learns(policy):
    """In float16 Keras scales the loss, and halves the scale at a NaN."""
    adam = keras.optimizers.Adam(3e-2)
    model = compile_model(small_model(), adam, BACKEND == "jax")
    x, y, w = draw()
    history = model.fit(
        x, y, batch_size=8, sample_weight=w, epochs=40, verbose=0
    ).history
    assert np.isfinite(history["loss"]).all()
    assert history["mlm_loss"][-1] < history["mlm_loss"][0] - 1.0


def test_a_compiled_pretrainer_reloads(tiny_config, tmp_path):
    model = kbert.build_pretrainer(kbert.build_encoder(tiny_config))
    compile_model(model, "sgd", BACKEND == "jax")
    ids, y, w = draw()
    y["mlm"] %= tiny_config.vocab_size
    x = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
        "mask_positions": ids % SLOTS,
    }
    expected = model.evaluate(x, y, 4, 0, w, return_dict=True)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    shown = again.evaluate(x, y, 4, 0, w, return_dict=True)
    assert shown == pytest.approx(expected, rel=1e-5)


def test_keras_knows_which_way_is_better():
    """Callbacks infer it for a model of one output, without `mode`."""
    two = small_model()
    model = keras.Model(two.input, two.output["mlm"])
    model.compile(
        "sgd",
        loss=LOSSES["mlm"],
        weighted_metrics=[
            kbert.metrics.MaskedLMAccuracy(),
            kbert.metrics.Perplexity(),
        ],
        jit_compile=BACKEND == "jax",
    )
    x, y, w = draw()
    stops = [
        keras.callbacks.EarlyStopping(monitor)
        for monitor in ("accuracy", "perplexity")
    ]
    model.fit(x, y["mlm"], sample_weight=w["mlm"], callbacks=stops, verbose=0)
    better = [bool(stop.monitor_op(1.0, 0.0)) for stop in stops]
    assert better == [True, False]
