"""Trains one model on one device or on two, and prints what came out.

Run by test_losses_on_replicas.py: logical devices must be set before
TensorFlow starts, and pytest's process has started it.

    python losses_on_replicas.py NUM_REPLICAS LOSS RESULT.json
"""

import contextlib
import json
import sys

import keras
import numpy as np
import tensorflow as tf

import kbert

ROWS, SLOTS, VOCAB = 8, 6, 11
TAGS = ["O", "B-A", "I-A", "B-B", "I-B"]


def make_model():
    keras.utils.set_random_seed(0)
    ids = keras.Input((SLOTS,), dtype="int32")
    x = keras.layers.Embedding(VOCAB, 5)(ids)
    mlm = keras.layers.Dense(VOCAB, name="mlm")(x)
    pooled = keras.layers.GlobalAveragePooling1D()(x)
    nsp = keras.layers.Dense(2, name="nsp")(pooled)
    replaced = keras.layers.Dense(1)(x)
    replaced = keras.layers.Reshape((SLOTS,), name="rtd")(replaced)
    outputs = {"mlm": mlm, "nsp": nsp, "rtd": replaced}
    outputs["tags"] = keras.layers.Dense(len(TAGS), name="tags")(x)
    start = keras.layers.Dense(1)(x)
    outputs["start"] = keras.layers.Reshape((SLOTS,), name="start")(start)
    return keras.Model(ids, outputs)


def make_dataset():
    """Four batches, the masked tokens mostly in the second half of each.

    In the third batch the first replica has none, in the last nobody.
    """
    rng = np.random.default_rng(0)
    shape = (4, ROWS, SLOTS)
    x = rng.integers(0, VOCAB, shape).astype("int32")
    weights = np.zeros(shape, "float32")
    weights[:3, ROWS // 2 :] = rng.integers(0, 2, (3, ROWS // 2, SLOTS))
    weights[:2, 0, 0] = 1.0
    y = {
        "mlm": rng.integers(0, VOCAB, shape).astype("int32"),
        "nsp": rng.integers(0, 2, shape[:2]).astype("int32"),
        "rtd": rng.integers(0, 2, shape).astype("int32"),
        "tags": rng.integers(0, len(TAGS), shape).astype("int32"),
        "start": rng.integers(0, SLOTS, shape[:2]).astype("int32"),
    }
    y["mlm"] = np.where(weights > 0, y["mlm"], -100)
    pairs = np.ones(shape[:2], "float32")
    pairs[:, :3] = 0.0
    w = {"mlm": weights, "nsp": pairs, "rtd": weights}
    # Positions that can be an answer: rows whose label is none do not count.
    w |= {"tags": weights, "start": weights}
    return tf.data.Dataset.from_tensor_slices((x, y, w))


def losses(kind):
    if kind == "kbert":
        return {
            "mlm": kbert.losses.MaskedLMLoss(),
            "nsp": kbert.losses.NextSentenceLoss(),
            "rtd": kbert.losses.ReplacedTokenLoss(),
            "tags": kbert.losses.TokenClassificationLoss(),
            "start": kbert.losses.SpanLoss(),
        }
    sparse = keras.losses.SparseCategoricalCrossentropy
    reduction = {"from_logits": True, "reduction": "mean_with_sample_weight"}
    return {
        "mlm": sparse(ignore_class=-100, **reduction),
        "nsp": sparse(**reduction),
        "rtd": kbert.losses.ReplacedTokenLoss(),
        "tags": kbert.losses.TokenClassificationLoss(),
        "start": kbert.losses.SpanLoss(),
    }


def main(num_replicas, kind, path):
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * num_replicas,
    )
    scope = contextlib.nullcontext()
    if num_replicas > 1:
        devices = [f"CPU:{i}" for i in range(num_replicas)]
        scope = tf.distribute.MirroredStrategy(devices).scope()
    with scope:
        model = make_model()
        model.compile(
            keras.optimizers.SGD(0.2),
            loss=losses(kind),
            loss_weights={
                "mlm": 1.0,
                "nsp": 0.5,
                "rtd": 2.0,
                "tags": 1.0,
                "start": 0.5,
            },
            weighted_metrics={
                "mlm": [
                    kbert.metrics.MaskedLMAccuracy(),
                    kbert.metrics.Perplexity(),
                ],
                "nsp": kbert.metrics.NextSentenceAccuracy(),
                "tags": [
                    kbert.metrics.TokenAccuracy(),
                    kbert.metrics.EntityF1(TAGS),
                ],
            },
        )
    dataset = make_dataset()
    history = model.fit(dataset, epochs=2, shuffle=False, verbose=0)
    result = {
        "history": history.history,
        "weights": [w.tolist() for w in model.get_weights()],
        "evaluate": model.evaluate(dataset, verbose=0, return_dict=True),
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
