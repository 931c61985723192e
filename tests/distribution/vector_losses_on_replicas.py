"""Trains by the losses on vectors on one device or on two.

Run by test_vector_losses_on_replicas.py: logical devices must be set before
TensorFlow starts, and pytest's process has started it.

    python vector_losses_on_replicas.py NUM_REPLICAS RESULT.json
"""

import contextlib
import json
import sys

import keras
import numpy as np
import tensorflow as tf

from kbert import losses

SIZE, BATCH = 5, 6
# The last batch has an odd number of rows, so the replicas differ.
ROWS = 2 * BATCH + 3
LOSSES = {
    "ranking": losses.MultipleNegativesRankingLoss(4.0, symmetric=True),
    "matryoshka": losses.MatryoshkaLoss(
        losses.MultipleNegativesRankingLoss(2.0), [5, 2]
    ),
    "triplet": losses.TripletLoss(0.7),
    "cosine": losses.CosineSimilarityLoss(),
    "cosent": losses.CoSENTLoss(3.0),
}
SCORED = ("cosine", "cosent")


def make_model(name):
    keras.utils.set_random_seed(0)
    x = keras.Input((2 if name in SCORED else 4, SIZE))
    return keras.Model(x, keras.layers.Dense(SIZE)(x))


def make_dataset(name):
    """Rows of which some are the same text, also on the other replica."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 4, SIZE)).astype("float32")
    y = rng.integers(0, 20, (ROWS, 4)).astype("int32")
    y[::3, 3] = -1
    if name in SCORED:
        x, y = x[:, :2], rng.uniform(-1, 1, ROWS).astype("float32")
    w = rng.integers(1, 4, ROWS).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, y, w)).batch(BATCH)


def main(num_replicas, path):
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * num_replicas,
    )
    devices = [f"CPU:{i}" for i in range(num_replicas)]
    scope = contextlib.nullcontext
    if num_replicas > 1:
        # One for all: two would give their collectives the same keys.
        scope = tf.distribute.MirroredStrategy(devices).scope
    results = {}
    for name, loss in LOSSES.items():
        with scope():
            model = make_model(name)
            model.compile(keras.optimizers.SGD(0.2), loss, jit_compile=False)
        dataset = make_dataset(name)
        before = [w.tolist() for w in model.get_weights()]
        history = model.fit(dataset, epochs=2, shuffle=False, verbose=0)
        results[name] = {
            "history": history.history["loss"],
            "before": before,
            "weights": [w.tolist() for w in model.get_weights()],
            "evaluate": model.evaluate(dataset, verbose=0),
        }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
