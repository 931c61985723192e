"""Two replicas with uneven token counts against one device."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow", reason="tf.distribute"
    ),
]
SCRIPT = Path(__file__).with_name("losses_on_replicas.py")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    results = {}

    def run(num_replicas, kind="kbert"):
        key = num_replicas, kind
        if key not in results:
            path = tmp_path_factory.mktemp("run") / "result.json"
            done = subprocess.run(
                [sys.executable, SCRIPT, str(num_replicas), kind, path],
                env={**os.environ, "KERAS_BACKEND": "tensorflow"},
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr[-3000:]
            results[key] = json.loads(path.read_text(encoding="utf-8"))
        return results[key]

    return run


def difference(one, two):
    return max(
        np.abs(np.subtract(a, b)).max()
        for a, b in zip(one["weights"], two["weights"], strict=True)
    )


def test_training_equals_one_device(run):
    assert difference(run(1), run(2)) < 1e-6


def test_what_fit_and_evaluate_show_equals_one_device(run):
    one, two = run(1), run(2)
    assert set(one["evaluate"]) == {
        "loss",
        "mlm_loss",
        "nsp_loss",
        "rtd_loss",
        "tags_loss",
        "start_loss",
        "mlm_accuracy",
        "mlm_perplexity",
        "nsp_accuracy",
        "tags_accuracy",
        "tags_entity_f1",
    }
    for name, value in one["evaluate"].items():
        assert two["evaluate"][name] == pytest.approx(value, rel=1e-5), name
    for name, values in one["history"].items():
        assert two["history"][name] == pytest.approx(values, rel=1e-5), name


def test_keras_reduction_would_fail_here(run):
    """Proof that the counts above are uneven enough to tell."""
    assert difference(run(1), run(2, "keras")) > 1e-3
