"""Correlations against numpy; tests/parity holds them against scipy."""

import keras
import numpy as np
import pytest

import kbert

METRICS = [
    kbert.metrics.PearsonCorrelation,
    kbert.metrics.SpearmanCorrelation,
]


def ranks(x):
    """Mean rank of each value, by comparing it with all."""
    less = (x[None] < x[:, None]).sum(1)
    equal = (x[None] == x[:, None]).sum(1)
    return less + (equal + 1) / 2


def expected(metric, a, b):
    if metric is kbert.metrics.SpearmanCorrelation:
        a, b = ranks(a), ranks(b)
    return np.corrcoef(a, b)[0, 1]


def values(size, seed=0):
    """Scores with many ties, and predictions far from 0 that follow them."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 26, size) / 5
    return a, 100 + np.round(a + rng.normal(0, 2, size), 1)


@pytest.mark.parametrize("metric", METRICS)
def test_equals_numpy_over_uneven_batches(metric):
    a, b = values(1003)
    found = metric(capacity=2000)
    for part in np.split(np.arange(1003), [400, 401, 700]):
        found.update_state(a[part], b[part][:, None])
    assert abs(float(found.result()) - expected(metric, a, b)) < 1e-6
    found.reset_state()
    found.update_state(a[:9], -b[:9])
    assert abs(float(found.result()) + expected(metric, a[:9], b[:9])) < 1e-6


@pytest.mark.parametrize("metric", METRICS)
def test_in_evaluate_and_fit(metric):
    a, b = values(130)
    x = keras.Input((1,))
    model = keras.Model(x, keras.layers.Dense(1, name="d")(x))
    model.compile(
        keras.optimizers.SGD(0.0), "mse", metrics=[metric(capacity=130)]
    )
    b = b[:, None].astype("float32")
    model.set_weights([np.ones((1, 1)), np.zeros(1)])
    logs = model.evaluate(b, a, batch_size=32, verbose=0, return_dict=True)
    right = expected(metric, a, b[:, 0])
    assert abs(logs[metric(1).name] - right) < 1e-5
    history = model.fit(b, a, batch_size=50, epochs=2, verbose=0).history
    assert np.abs(np.array(history[metric(1).name]) - right).max() < 1e-5


@pytest.mark.parametrize("metric", METRICS)
def test_too_many_pairs_are_an_error(metric):
    a, b = values(11)
    found = metric(capacity=10)
    found.update_state(a[:10], b[:10])
    assert abs(float(found.result()) - expected(metric, a[:10], b[:10])) < 1e-6
    found.update_state(a[10:], b[10:])
    with pytest.raises(ValueError, match="Received: 11 pairs"):
        found.result()
    x = keras.Input((1,))
    model = keras.Model(x, keras.layers.Dense(1, name="d")(x))
    model.compile("sgd", "mse", metrics=[metric(capacity=10)])
    with pytest.raises(ValueError, match="Received: 11 pairs"):
        model.evaluate(b[:, None], a, batch_size=4, verbose=0)


@pytest.mark.parametrize("metric", METRICS)
def test_defined_without_spread(metric):
    found = metric(capacity=10)
    assert float(found.result()) == 0.0
    found.update_state([1.0], [2.0])
    assert float(found.result()) == 0.0
    found.update_state([1.0, 1.0], [3.0, 4.0])
    assert float(found.result()) == 0.0


def matthews(right, said, classes):
    """Gorodkin's formula with sums over pairs of classes."""
    table = np.zeros((classes, classes))
    np.add.at(table, (right, said), 1)
    t, p, n = table.sum(1), table.sum(0), table.sum()
    top = table.trace() * n - (t * p).sum()
    bottom = (n**2 - (p**2).sum()) * (n**2 - (t**2).sum())
    return top / np.sqrt(bottom) if bottom else 0.0


@pytest.mark.parametrize("classes", [2, 5])
def test_matthews_by_hand(classes):
    rng = np.random.default_rng(0)
    right = rng.integers(0, classes, 500)
    logits = rng.normal(size=(500, classes)) + 2 * np.eye(classes)[right]
    metric = kbert.metrics.MatthewsCorrelation(classes)
    for part in np.split(np.arange(500), [100, 101, 350]):
        metric.update_state(right[part], logits[part])
    said = logits.argmax(1)
    assert abs(float(metric.result()) - matthews(right, said, classes)) < 1e-6
    keep = rng.integers(0, 2, 500)
    metric.reset_state()
    metric.update_state(right[:, None], logits, sample_weight=keep)
    some = matthews(right[keep == 1], said[keep == 1], classes)
    assert abs(float(metric.result()) - some) < 1e-6


@pytest.mark.parametrize("right", [[0, 1, 0], [0, 0, 0]])
def test_matthews_is_defined_for_one_class(right):
    metric = kbert.metrics.MatthewsCorrelation(3)
    assert float(metric.result()) == 0.0
    metric.update_state(right, [[1.0, 0.0, 0.0]] * 3)
    assert float(metric.result()) == 0.0


@pytest.mark.parametrize(
    "metric",
    [metric(7, "m") for metric in METRICS]
    + [kbert.metrics.MatthewsCorrelation(3, "m")],
)
def test_config_round_trip(metric):
    config = keras.saving.serialize_keras_object(metric)
    assert config["registered_name"].startswith("kbert>")
    again = keras.saving.deserialize_keras_object(config)
    assert again.get_config() == metric.get_config()


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ValueError, lambda: METRICS[0](0)),
        (TypeError, lambda: METRICS[1](1.5)),
        (ValueError, lambda: METRICS[1]()([1.0, 2.0], [1.0])),
        (ValueError, lambda: METRICS[1]()([1.0], [1.0], sample_weight=[1.0])),
        (ValueError, lambda: kbert.metrics.MatthewsCorrelation(1)),
        (
            ValueError,
            lambda: kbert.metrics.MatthewsCorrelation(2)([1], [[1.0] * 3]),
        ),
    ],
)
def test_bad_input(error, call):
    with pytest.raises(error, match="Received: "):
        call()
