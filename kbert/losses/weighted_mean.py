"""What the losses and metrics share: labels that count, and their mean."""

from typing import Any

import keras
from keras import ops


class WeightedMeanLoss(keras.losses.Loss):
    """A loss that is a weighted mean: Σ weight · loss / Σ weight.

    Subclasses implement `call(y_true, y_pred)`, a loss for each label. Against
    Keras' reductions:

    - "sum_over_batch_size" divides by all positions, masked or not;
    - "mean_with_sample_weight" is, under `tf.distribute`, the mean of the
      replicas' means. Here every replica divides its sum by the weights of
      all of them, so gradients added over replicas are those of one device;
    - a label of weight 0 may be anything: -100, or an id of another model.

    Labels, logits and weights are float32 whatever the dtype policy: bfloat16
    knows no id between 256 and 258.

    Args:
        name: of the loss.
    """

    def __init__(self, name: str | None = None) -> None:
        """See the class."""
        super().__init__(name=name, reduction="sum", dtype="float32")

    def __call__(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> Any:
        """Return the weighted mean, a float32 scalar; 0 if nothing counts."""
        labels, weights = labels_and_weights(y_true, y_pred, sample_weight)
        total = _sum_over_replicas(ops.sum(weights))
        weights = ops.divide_no_nan(weights, total)
        # Keras would take a list for several outputs.
        logits = ops.convert_to_tensor(y_pred, dtype=self.dtype)
        return super().__call__(labels, logits, weights)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"name": self.name}


def labels_and_weights(
    y_true: Any, y_pred: Any, sample_weight: Any
) -> tuple[Any, Any]:
    """Return the labels, 0 where they do not count, and float32 weights.

    A Keras mask on the predictions takes its positions out, as in Keras'
    losses and metrics. Without `sample_weight` the other labels count once.
    """
    labels = ops.convert_to_tensor(y_true)
    if sample_weight is None:
        weights = ops.ones_like(labels, dtype="float32")
    else:
        weights = ops.convert_to_tensor(sample_weight, dtype="float32")
    check_shapes(labels, weights, "`sample_weight` must have the labels' shape")
    mask = getattr(y_pred, "_keras_mask", None)
    if mask is not None:
        check_shapes(labels, mask, "The Keras mask must have the labels' shape")
        weights = weights * ops.cast(mask, "float32")
    return ops.where(weights == 0, ops.zeros_like(labels), labels), weights


def check_shapes(
    labels: Any,
    other: Any,
    expected: str,
    rank: int | None = None,
    last: tuple[int | None, ...] = (),
) -> None:
    """Raise unless labels have `rank`, and `other` their shape, then `last`."""
    want, have = (*labels.shape, *last), tuple(other.shape)
    if (
        rank not in (None, len(labels.shape))
        or len(want) != len(have)
        or any(
            None not in pair and pair[0] != pair[1]
            for pair in zip(want, have, strict=True)
        )
    ):
        raise ValueError(
            f"{expected}. Received: labels of shape {tuple(labels.shape)} "
            f"and {have}"
        )


def _sum_over_replicas(value: Any) -> Any:
    """Add a scalar of each `tf.distribute` replica.

    JAX sees the whole batch: a sum there is global as it is.
    """
    if keras.backend.backend() != "tensorflow":
        return value
    import tensorflow as tf

    # None outside `strategy.run`, where nothing is replicated.
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return value
    return context.all_reduce(tf.distribute.ReduceOp.SUM, value)
