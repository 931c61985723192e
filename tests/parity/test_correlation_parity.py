"""Correlations against scipy's and scikit-learn's."""

import numpy as np
import pytest

stats = pytest.importorskip("scipy.stats", reason="pip install scipy")
sklearn = pytest.importorskip("sklearn.metrics", reason="pip install sklearn")

import kbert  # noqa: E402


def test_correlations_equal_scipy():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 26, 1500) / 5
    b = (a + rng.normal(0, 2, 1500)).astype("float32")
    for metric, theirs in (
        (kbert.metrics.SpearmanCorrelation(1500), stats.spearmanr),
        (kbert.metrics.PearsonCorrelation(1500), stats.pearsonr),
    ):
        for part in np.split(np.arange(1500), 4):
            metric.update_state(a[part], b[part])
        assert abs(float(metric.result()) - theirs(a, b).statistic) < 1e-6


def test_matthews_equals_sklearn():
    rng = np.random.default_rng(0)
    right = rng.integers(0, 4, 900)
    logits = rng.normal(size=(900, 4)) + np.eye(4)[right]
    metric = kbert.metrics.MatthewsCorrelation(4)
    metric.update_state(right, logits)
    theirs = sklearn.matthews_corrcoef(right, logits.argmax(1))
    assert abs(float(metric.result()) - theirs) < 1e-6
