"""A distiller on two replicas with uneven token counts against one device."""

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
SCRIPT = Path(__file__).with_name("distiller_on_replicas.py")


def run(num_replicas, path):
    done = subprocess.run(
        [sys.executable, SCRIPT, str(num_replicas), path],
        env={**os.environ, "KERAS_BACKEND": "tensorflow"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(path.read_text(encoding="utf-8"))


def test_training_and_what_it_shows_equal_one_device(tmp_path):
    one, two = (run(n, tmp_path / f"{n}.json") for n in (1, 2))
    assert one["is_teacher_frozen"] and two["is_teacher_frozen"]
    for a, b in zip(one["weights"], two["weights"], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert set(one["history"]) == {
        "loss",
        "label_loss",
        "output_loss",
        "hidden_loss",
        "attention_loss",
        "accuracy",
    }
    # Some batch's update was worth something.
    assert one["history"]["loss"][1] < 0.95 * one["history"]["loss"][0]
    for part in ("history", "evaluate"):
        assert set(two[part]) == set(one[part])
        for name, value in one[part].items():
            assert two[part][name] == pytest.approx(value, rel=1e-4), name
