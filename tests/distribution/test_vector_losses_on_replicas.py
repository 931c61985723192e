"""Two replicas, of which each has half of a batch's texts, equal one."""

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
SCRIPT = Path(__file__).with_name("vector_losses_on_replicas.py")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    found = []
    for count in (1, 2):
        path = tmp_path_factory.mktemp("run") / "result.json"
        done = subprocess.run(
            [sys.executable, SCRIPT, str(count), path],
            env={**os.environ, "KERAS_BACKEND": "tensorflow"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        found.append(json.loads(path.read_text(encoding="utf-8")))
    return found


@pytest.mark.parametrize(
    "name", ["ranking", "matryoshka", "triplet", "cosine", "cosent"]
)
def test_two_replicas_equal_one(results, name):
    one, two = (x[name] for x in results)
    moved = 0.0
    for start, a, b in zip(
        one["before"], one["weights"], two["weights"], strict=True
    ):
        np.testing.assert_allclose(a, b, atol=5e-6)
        moved = max(moved, np.abs(np.subtract(a, start)).max())
    assert moved > 1e-2
    assert two["history"] == pytest.approx(one["history"], rel=1e-5)
    assert two["evaluate"] == pytest.approx(one["evaluate"], rel=1e-5)
