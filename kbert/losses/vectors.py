"""What the losses on vectors share: rows, unit length, all replicas' rows."""

import functools
from typing import Any

import keras
from keras import ops

from kbert.losses.weighted_mean import WeightedMeanLoss, check_shapes


class VectorLoss(WeightedMeanLoss):
    """A weighted mean over rows of vectors, float32.

    Every `tf.distribute` replica computes the loss of the rows of all, and
    its gradient to its own vectors. Subclasses implement `rows(targets,
    vectors)`, or `total` where the loss is no mean.

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
        self.check(targets, vectors)
        weights = row_weights(vectors, sample_weight)
        arrays, replicas = gather_rows(targets, vectors, weights)
        loss = self.total(*arrays)
        # Replicas' losses are added. Their gradients add up as they are.
        return loss + (1 / replicas - 1) * ops.stop_gradient(loss)

    def total(self, targets: Any, vectors: Any, weights: Any) -> Any:
        """Return the loss of all rows, a float32 scalar.

        Args:
            targets: what `y_true` is, (N, …).
            vectors: float32 (N, K, D).
            weights: float32 (N,).
        """
        losses, counts = self.rows(targets, vectors)
        weights = weights * counts
        weights = ops.divide_no_nan(weights, ops.sum(weights))
        return ops.sum(losses * weights)

    def rows(self, targets: Any, vectors: Any) -> tuple[Any, Any]:
        """Return each row's loss and how much it counts, float32 (N,)."""
        raise NotImplementedError

    def check(self, targets: Any, vectors: Any) -> None:
        """Raise unless the shapes fit."""
        raise NotImplementedError


def row_weights(vectors: Any, sample_weight: Any) -> Any:
    """Return a weight for each row of vectors (B, …), float32 (B,)."""
    if sample_weight is None:
        return ops.ones((ops.shape(vectors)[0],), "float32")
    weights = ops.convert_to_tensor(sample_weight, dtype="float32")
    check_shapes(vectors[:, 0, 0], weights, "`sample_weight` must be (B,)")
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


def gather_rows(*arrays: Any) -> tuple[list[Any], int]:
    """Collect the rows of all `tf.distribute` replicas.

    JAX sees the whole batch as it is. Gradients reach this replica's rows
    alone, so that the gradient needs no collective: each replica would order
    those of several losses by itself.

    Args:
        *arrays: (B, …) each, B of this replica.

    Returns:
        The arrays (N, …) of all replicas, and the number of replicas.
    """
    if keras.backend.backend() != "tensorflow":
        return list(arrays), 1
    import tensorflow as tf

    # None outside `strategy.run`, where nothing is replicated.
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return list(arrays), 1
    replicas = context.num_replicas_in_sync
    replica = context.replica_id_in_sync_group
    add = functools.partial(context.all_reduce, tf.distribute.ReduceOp.SUM)
    rows = tf.shape(arrays[0])[0]
    size = arrays[0].shape[0]
    if size is None:
        # The last batch of an epoch may be an uneven one.
        sizes = add(rows * tf.one_hot(replica, replicas, dtype="int32"))
        start, total = tf.reduce_sum(sizes[:replica]), tf.reduce_sum(sizes)
    else:
        start, total = size * replica, size * replicas
    places = (start + tf.range(rows))[:, None]
    found = []
    for array in arrays:
        shape = tf.concat([[total], tf.shape(array)[1:]], axis=0)
        own = tf.scatter_nd(places, array, shape)
        others = add(tf.stop_gradient(own)) - tf.stop_gradient(own)
        found.append(own + others)
    return found, replicas
