"""Distils on one device or on two, and prints what came out.

Run by test_distiller_on_replicas.py: logical devices must be set before
TensorFlow starts, and pytest's process has started it.

    python distiller_on_replicas.py NUM_REPLICAS RESULT.json
"""

import contextlib
import json
import sys
from dataclasses import replace

import keras
import numpy as np
import tensorflow as tf

import kbert

ROWS, LENGTH, CLASSES, VOCAB = 8, 6, 3, 23


def make_distiller():
    keras.utils.set_random_seed(0)
    config = kbert.EncoderConfig(
        vocab_size=VOCAB,
        hidden_size=16,
        num_layers=1,
        num_heads=2,
        intermediate_size=32,
        max_positions=32,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        initializer_range=0.2,
    )
    wide = replace(config, hidden_size=24, num_layers=2)
    student, teacher = (
        kbert.build_token_classifier(kbert.build_encoder(c), CLASSES)
        for c in (config, wide)
    )
    return kbert.Distiller(
        student,
        teacher,
        {
            "output": kbert.losses.DistillationLoss(),
            "hidden": kbert.losses.HiddenStateLoss(),
            "attention": kbert.losses.RelationLoss(4),
        },
    )


def make_dataset():
    """Three batches; the second half of each has most of the tokens."""
    rng = np.random.default_rng(0)
    ids = rng.integers(1, VOCAB, (3, ROWS, LENGTH)).astype("int32")
    mask = np.ones_like(ids)
    mask[:, : ROWS // 2, 2:] = 0
    x = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": mask}
    weights = (mask * rng.integers(0, 2, mask.shape)).astype("float32")
    weights[1, : ROWS // 2] = 0.0  # the first replica has no label at all
    return tf.data.Dataset.from_tensor_slices((x, ids % CLASSES, weights))


def main(num_replicas, path):
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * num_replicas,
    )
    scope = contextlib.nullcontext()
    if num_replicas > 1:
        devices = [f"CPU:{i}" for i in range(num_replicas)]
        scope = tf.distribute.MirroredStrategy(devices).scope()
    with scope:
        distiller = make_distiller()
        before = [np.array(w).tolist() for w in distiller.teacher.weights]
        distiller.compile(
            keras.optimizers.SGD(0.2),
            loss=kbert.losses.MaskedLMLoss(),
            weighted_metrics=[kbert.metrics.MaskedLMAccuracy()],
            jit_compile=False,
        )
    dataset = make_dataset()
    history = distiller.fit(dataset, epochs=2, shuffle=False, verbose=0)
    after = [np.array(w).tolist() for w in distiller.teacher.weights]
    result = {
        "history": history.history,
        "weights": [np.array(w).tolist() for w in distiller.student.weights],
        "is_teacher_frozen": before == after,
        "evaluate": distiller.evaluate(dataset, verbose=0, return_dict=True),
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
