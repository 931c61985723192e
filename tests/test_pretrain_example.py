"""The pretraining example, stopped with kill -9 and started again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

import kbert

SCRIPT = Path(__file__).parent.parent / "examples" / "pretrain.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow", reason="uses tf.distribute"
    ),
]


def start(output, *arguments):
    return subprocess.Popen(
        [sys.executable, SCRIPT, "--smoke", "--output", output, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(output, *arguments):
    process = start(output, *arguments)
    text, _ = process.communicate(timeout=300)
    assert process.returncode == 0, text[-3000:]
    return text


def kill_after_rounds(output, rounds):
    """Kill a run once its backup of so many rounds is there."""
    process = start(output)
    backup = output / "backup" / "training_metadata.json"
    for _ in range(6000):
        if backup.exists() and f'"epoch": {rounds},' in backup.read_text():
            break
        assert process.poll() is None, process.stdout.read()[-3000:]
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The directory of a run that nobody disturbed."""
    output = tmp_path_factory.mktemp("whole")
    finish(output)
    return output


def test_a_killed_run_ends_with_the_same_weights(whole, tmp_path):
    kill_after_rounds(tmp_path, 2)
    assert not (tmp_path / "model").exists()
    # A backup that the kill cut short: the one before it takes its place.
    cut = tmp_path / "backup" / "latest.weights.h5"
    os.truncate(cut, cut.stat().st_size // 2)
    assert "\n3 of 12 steps done" in finish(tmp_path)
    expected = load_file(whole / "model" / "model.safetensors")
    weights = load_file(tmp_path / "model" / "model.safetensors")
    assert weights.keys() == expected.keys()
    for name, weight in weights.items():
        np.testing.assert_allclose(weight, expected[name], atol=1e-6)


def test_the_run_is_logged_and_saved(whole):
    lines = (whole / "log.csv").read_text().splitlines()
    names = lines[0].split(",")
    assert {"mlm_loss", "val_mlm_loss", "val_mlm_accuracy"} <= set(names)
    losses = [
        float(x.split(",")[names.index("val_mlm_loss")]) for x in lines[1:]
    ]
    assert len(losses) == 4
    assert losses[-1] < losses[0]
    model = kbert.load_pretrainer(whole / "model")
    tokenizer = kbert.Tokenizer.from_pretrained(whole / "model")
    assert kbert.encoder_config(model).vocab_size == tokenizer.vocab_size


def test_a_finished_run_trains_no_more(whole):
    before = (whole / "model" / "model.safetensors").read_bytes()
    assert "\n12 of 12 steps done" in finish(whole)
    assert (whole / "model" / "model.safetensors").read_bytes() == before


def test_another_run_does_not_go_on_from_the_backup(whole):
    process = start(whole, "--no-nsp")
    text, _ = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "another run" in text
