import keras
import numpy as np
import pytest

import kbert
from kbert.metrics import SpanExactMatch, SpanF1, ValidationMetrics


def batches(lengths=(6, 9)):
    rng = np.random.default_rng(0)
    for rows, length in zip((4, 2), lengths, strict=True):
        x = {
            "token_ids": rng.integers(5, 20, (rows, length)).astype("int32"),
            "segment_ids": np.zeros((rows, length), "int32"),
            "padding_mask": np.ones((rows, length), "int32"),
        }
        start = rng.integers(1, 5, rows).astype("int32")
        y = {"start": start, "end": start + 1}
        w = np.ones((rows, length), "float32")
        w[0] = 0.0
        yield x, y, dict.fromkeys(y, w)


@pytest.fixture
def model(tiny_config):
    keras.utils.set_random_seed(0)
    model = kbert.build_span_model(kbert.build_encoder(tiny_config))
    model.compile(
        keras.optimizers.Adam(3e-2),
        loss={name: kbert.losses.SpanLoss() for name in model.output},
        jit_compile=False,
    )
    return model


def test_whole_outputs_after_each_epoch(model):
    """Batches of several lengths; other callbacks see the numbers."""
    data = list(batches())
    seen = []
    x, y, w = data[0]
    history = model.fit(
        x,
        y,
        sample_weight=w,
        epochs=2,
        verbose=0,
        callbacks=[
            ValidationMetrics(data, [SpanExactMatch(), SpanF1()]),
            keras.callbacks.LambdaCallback(
                on_epoch_end=lambda epoch, logs: seen.append(dict(logs))
            ),
        ],
    ).history
    expected = {"val_exact_match": SpanExactMatch(), "val_f1": SpanF1()}
    for name, metric in expected.items():
        for x, y, w in data:
            outputs = model.predict(x, verbose=0)
            metric.update_state(y, outputs, sample_weight=w)
        assert history[name][-1] == pytest.approx(float(metric.result()))
        assert [logs[name] for logs in seen] == history[name]
    assert len(history["val_f1"]) == 2


def test_tf_data_and_no_weights(model):
    tf = pytest.importorskip("tensorflow")
    x, y, _ = next(batches())
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(3)
    callback = ValidationMetrics(data, [SpanF1()])
    history = model.fit(x, y, verbose=0, callbacks=[callback]).history
    metric = SpanF1()
    value = metric(y, model.predict(x, verbose=0))
    assert history["val_f1"] == [pytest.approx(float(value))]


def test_compile_cannot_give_a_metric_both(model):
    """Why the callback is there. If this stops to hold, drop it."""
    x, y, _ = next(batches())
    model.compile("sgd", loss=model.loss, metrics={"start": [SpanF1()]})
    with pytest.raises(ValueError, match="ValidationMetrics"):
        model.fit(x, y, verbose=0)


def test_bad_arguments():
    with pytest.raises(ValueError, match="Received: data="):
        ValidationMetrics(batches(), [SpanF1()])
    with pytest.raises(ValueError, match=r"Received: \['f1', 'f1'\]"):
        ValidationMetrics([], [SpanF1(), SpanF1()])
