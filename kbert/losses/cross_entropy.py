"""Cross-entropy of integer labels, for losses and metrics."""

from typing import Any

from keras import ops


def cross_entropy(labels: Any, logits: Any) -> Any:
    """Return -log softmax(logits)[label] for each label.

    Args:
        labels: (...), whole numbers in [0, V). Another one gives NaN, on every
            backend, compiled or not: a kernel would raise, or clamp it.
        logits: float32 (..., V).

    Returns:
        float32 (...).
    """
    # A tensor where V is a number of positions, which a graph may not know.
    num_classes = ops.shape(logits)[-1]
    # Comparing is faster than gathering, whose gradient is a scatter, and
    # XLA fuses it: no one-hot matrix. See docs/decisions.md.
    ids = ops.arange(num_classes, dtype=labels.dtype)
    hit = ops.expand_dims(labels, -1) == ids
    chosen = ops.sum(ops.where(hit, logits, 0.0), axis=-1)
    return only_labels(
        labels, num_classes, ops.logsumexp(logits, axis=-1) - chosen
    )


def only_labels(labels: Any, num_classes: Any, values: Any) -> Any:
    """Return `values`, NaN where a label is not in 0 … num_classes - 1."""
    valid = ops.logical_and(labels >= 0, ops.less(labels, num_classes))
    valid = ops.logical_and(valid, ops.floor(labels) == labels)
    return ops.where(valid, values, float("nan"))
