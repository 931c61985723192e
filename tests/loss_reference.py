"""Weighted losses in float64 numpy, and gradients on every backend."""

import keras
import numpy as np
from keras import ops


def cross_entropy(labels, logits):
    z = np.asarray(logits, "float64")
    z = z - z.max(axis=-1, keepdims=True)
    logs = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    index = np.asarray(labels)[..., None]
    return -np.take_along_axis(logs, index, axis=-1)[..., 0]


def binary_cross_entropy(labels, logits):
    z, y = np.asarray(logits, "float64"), np.asarray(labels)
    return np.logaddexp(0.0, np.where(y == 1, -z, z))


def weighted_mean(values, weights):
    total = np.sum(weights, dtype="float64")
    return float(np.sum(values * weights) / total) if total else 0.0


def softmax(logits):
    z = np.asarray(logits, "float64")
    z = np.exp(z - z.max(axis=-1, keepdims=True))
    return z / z.sum(axis=-1, keepdims=True)


def gradient(function, logits):
    """The gradient of `function(logits)`, a scalar, as numpy."""
    logits = ops.convert_to_tensor(logits)
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(logits)
            value = function(logits)
        return tape.gradient(value, logits).numpy()
    if backend == "jax":
        import jax

        return np.array(jax.grad(function)(logits))
    logits = logits.detach().clone().requires_grad_(True)
    function(logits).backward()
    return logits.grad.numpy()


def compiled(function):
    """`function` as an accelerator would run it, by XLA where there is one."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=True)
    if backend == "jax":
        import jax

        return jax.jit(function)
    return function
