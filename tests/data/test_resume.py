"""Training that was stopped and goes on, as docs/records.md does it."""

import keras
import numpy as np
import pytest

import kbert
from kbert.data import (
    masked_lm_dataset,
    read_records,
    write_pretraining_records,
)

STEPS, EPOCHS = 5, 4


def texts():
    words = "the a good bad film plot very not was is play".split()
    rng = np.random.default_rng(0)
    return [
        [" ".join(rng.choice(words, rng.integers(3, 9))) for _ in range(4)]
        for _ in range(20)
    ]


class Stopped(Exception):
    pass


class StopAt(keras.callbacks.Callback):
    """Ends the training in the middle of an epoch."""

    def __init__(self, step):
        super().__init__()
        self._left = step

    def on_train_batch_end(self, batch, logs=None):
        self._left -= 1
        if not self._left:
            raise Stopped


@pytest.mark.slow
@pytest.mark.parametrize("in_memory", [True, False])
def test_the_same_weights_as_without_a_stop(
    tiny_config, tiny_tokenizer, tmp_path, in_memory
):
    options = {"tokenizer": tiny_tokenizer, "max_length": 16}
    if not in_memory:
        write_pretraining_records(texts(), tmp_path / "records", **options)

    def train(backup, *callbacks):
        keras.utils.set_random_seed(0)
        model = kbert.build_masked_lm(kbert.build_encoder(tiny_config))
        model.compile(keras.optimizers.Adam(1e-2), kbert.losses.MaskedLMLoss())
        restore = keras.callbacks.BackupAndRestore(
            backup, double_checkpoint=True, delete_checkpoint=False
        )
        restore.set_model(model)
        restore.on_train_begin()
        source = texts() if in_memory else read_records(tmp_path / "records")
        dataset = masked_lm_dataset(
            source,
            batch_size=4,
            pad_to="max",
            shuffle=True,
            start_step=int(model.optimizer.iterations),
            **options,
        )
        model.fit(
            dataset,
            epochs=EPOCHS,
            steps_per_epoch=STEPS,
            shuffle=False,
            verbose=0,
            callbacks=[restore, *callbacks],
        )
        return model.get_weights(), int(model.optimizer.iterations)

    expected, steps = train(tmp_path / "whole")
    assert steps == STEPS * EPOCHS
    # An epoch of the data is not as long as one of the training.
    for stop in (STEPS + 2, STEPS):
        with pytest.raises(Stopped):
            train(tmp_path / "stopped", StopAt(stop))
    resumed, steps = train(tmp_path / "stopped")
    assert steps == STEPS * EPOCHS
    for one, other in zip(expected, resumed, strict=True):
        np.testing.assert_array_equal(one, other)
