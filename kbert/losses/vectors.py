"""What the losses on vectors share: rows, unit length, all replicas' rows."""

from typing import Any

import keras
from keras import ops

from kbert.losses.weighted_mean import (
    WeightedMeanLoss,
    check_shapes,
    sum_over_replicas,
)


class VectorLoss(WeightedMeanLoss):
    """A weighted mean over rows of vectors, float32.

    Subclasses implement `rows(y_true, y_pred)`.

    Args:
        name: of the loss.
    """

    def __call__(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> Any:
        """Return the weighted mean, a float32 scalar; 0 if nothing counts."""
        # Not through Keras, which makes float32 of whole numbers.
        targets = ops.convert_to_tensor(y_true)
        vectors = ops.convert_to_tensor(y_pred, dtype="float32")
        losses, counts = self.rows(targets, vectors)
        weights = counts * row_weights(losses, sample_weight)
        total = sum_over_replicas(ops.sum(weights))
        return ops.sum(losses * ops.divide_no_nan(weights, total))

    def rows(self, targets: Any, vectors: Any) -> tuple[Any, Any]:
        """Return each row's loss and how much it counts.

        Args:
            targets: what `y_true` is.
            vectors: float32 (B, K, D).

        Returns:
            float32 (B,) twice.
        """
        raise NotImplementedError


def row_weights(losses: Any, sample_weight: Any) -> Any:
    """Return a weight for each row, float32 (B,)."""
    if sample_weight is None:
        return ops.ones_like(losses)
    weights = ops.convert_to_tensor(sample_weight, dtype="float32")
    check_shapes(losses, weights, "`sample_weight` must be (B,)")
    return weights


def check_ids(ids: Any, vectors: Any, least: int) -> None:
    """Raise unless ids are (B, K), K at least `least`, and vectors fit."""
    check_shapes(
        ids, vectors, "Expected ids (B, K), vectors (B, K, D)", 2, (None,)
    )
    count = vectors.shape[1]
    if count is not None and count < least:
        raise ValueError(
            f"Expected at least {least} texts a row. Received: vectors of "
            f"shape {tuple(vectors.shape)}"
        )


def check_scores(scores: Any, vectors: Any) -> None:
    """Raise unless scores are (B,) and vectors (B, 2, D)."""
    check_shapes(
        scores, vectors, "Expected scores (B,), vectors (B, 2, D)", 1, (2, None)
    )


def unit(vectors: Any) -> Any:
    """Return vectors of length 1; a zero vector stays 0."""
    # Scaled first, so that no square over- or underflows.
    largest = ops.max(ops.abs(vectors), axis=-1, keepdims=True)
    largest = ops.stop_gradient(largest)
    scaled = vectors / ops.where(largest > 0, largest, 1.0)
    square = ops.sum(scaled * scaled, axis=-1, keepdims=True)
    return scaled * ops.rsqrt(ops.where(square > 0, square, 1.0))


def cosine(vectors: Any) -> Any:
    """Return the cosine of each pair of vectors (B, 2, D), float32 (B,)."""
    vectors = unit(vectors)
    return ops.sum(vectors[:, 0] * vectors[:, 1], axis=-1)


def gather_rows(*arrays: Any) -> tuple[list[Any], Any, int]:
    """Collect the rows of all `tf.distribute` replicas.

    JAX sees the whole batch as it is. Gradients reach the replica that a row
    is from.

    Args:
        *arrays: (B, …) each, B of this replica.

    Returns:
        The arrays (N, …) for all replicas, where this one's rows begin in
        them, and the number of replicas.
    """
    if keras.backend.backend() != "tensorflow":
        return list(arrays), 0, 1
    import tensorflow as tf

    # None outside `strategy.run`, where nothing is replicated.
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return list(arrays), 0, 1
    sizes = context.all_gather(tf.shape(arrays[0])[:1], axis=0)
    start = tf.reduce_sum(sizes[: context.replica_id_in_sync_group])
    found = [context.all_gather(array, axis=0) for array in arrays]
    return found, start, context.num_replicas_in_sync
