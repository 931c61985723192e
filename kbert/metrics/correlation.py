"""Correlations of a whole epoch's values, as STS-B is scored."""

from typing import Any

import keras
from keras import ops


class _Correlation(keras.metrics.Metric):
    """Keeps every pair of values, of which ranks need all.

    Args:
        capacity: most pairs in an epoch.
        name: of the metric.
    """

    def __init__(self, capacity: int, name: str) -> None:
        super().__init__(name=name, dtype="float32")
        if isinstance(capacity, bool) or not isinstance(capacity, int):
            raise TypeError(
                f"`capacity` must be an int. Received: capacity={capacity!r}"
            )
        if capacity < 1:
            raise ValueError(
                f"`capacity` must be at least 1. Received: capacity={capacity}"
            )
        self.capacity = capacity
        self._direction = "up"
        self.pairs = self.add_variable((2, capacity), "zeros", name="pairs")
        # int32: a float32 counts to 16 million.
        self.count = self.add_variable((), "zeros", dtype="int32", name="count")

    def update_state(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> None:
        """Add a batch."""
        if sample_weight is not None:
            raise ValueError(
                f"{type(self).__name__} takes no weights; give it to "
                "compile(metrics=…). Received: sample_weight"
            )
        labels = ops.reshape(ops.convert_to_tensor(y_true, "float32"), (-1,))
        values = ops.reshape(ops.convert_to_tensor(y_pred, "float32"), (-1,))
        if None not in (labels.shape[0], values.shape[0]) and (
            labels.shape[0] != values.shape[0]
        ):
            raise ValueError(
                "`y_true` and `y_pred` must hold as many values. Received: "
                f"{labels.shape[0]} and {values.shape[0]}"
            )
        size = ops.shape(labels)[0]
        # What is past the end is left out here and refused in `result`.
        places = self.count + ops.arange(size, dtype="int32")
        fits = ops.cast(places < self.capacity, "float32")
        places = ops.minimum(places, self.capacity - 1)
        old = ops.take(self.pairs, places, axis=1)
        added = (ops.stack([labels, values]) - old) * fits
        columns = ops.scatter(
            places[:, None], ops.transpose(added), (self.capacity, 2)
        )
        self.pairs.assign(self.pairs + ops.transpose(columns))
        self.count.assign(self.count + size)

    def _real(self) -> tuple[Any, Any]:
        """What was kept, and 1 where a pair is, float32 (capacity,)."""
        count = ops.convert_to_tensor(self.count)
        try:
            given = int(count)
        except (AttributeError, TypeError):  # a step that is being traced
            given = 0
        if given > self.capacity:
            raise ValueError(
                "An epoch has more pairs than the metric keeps. Received: "
                f"{given} pairs, capacity={self.capacity}"
            )
        places = ops.arange(self.capacity, dtype="int32")
        real = ops.cast(places < count, "float32")
        return ops.convert_to_tensor(self.pairs), real

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"capacity": self.capacity, "name": self.name}


@keras.saving.register_keras_serializable(package="kbert")
class PearsonCorrelation(_Correlation):
    """Pearson's correlation of all values of an epoch.

    It keeps the values, as `SpearmanCorrelation` does, and so is exact.

    Args:
        capacity: most pairs in an epoch.
        name: of the metric.

    Call arguments:
        y_true: float (B,) or (B, 1).
        y_pred: float (B,) or (B, 1).
        sample_weight: must be None.

    Returns:
        float32 scalar over all batches since the last reset; 0 where one
        side is constant or there is no pair.

    Raises:
        ValueError: if the shapes do not fit, there are weights, or there
            were more pairs than `capacity`.

    Example:
        >>> import kbert
        >>> pearson = kbert.metrics.PearsonCorrelation()
        >>> round(float(pearson([1.0, 2.0, 3.0], [1.0, 2.0, 9.0])), 4)
        0.9177
    """

    def __init__(
        self, capacity: int = 16384, name: str = "pearson_correlation"
    ) -> None:
        """See the class."""
        super().__init__(capacity, name)

    def result(self) -> Any:
        """Return the correlation, a float32 scalar."""
        pairs, real = self._real()
        return _correlation(pairs[0], pairs[1], real)


@keras.saving.register_keras_serializable(package="kbert")
class SpearmanCorrelation(_Correlation):
    """Spearman's correlation of all values of an epoch: that of their ranks.

    A rank depends on every other value, so the metric keeps them, 8 bytes a
    pair, and is exact; a mean over batches would be another number. Equal
    values share the mean of their ranks. With `tf.distribute` over several
    replicas, evaluate on one.

    Args:
        capacity: most pairs in an epoch. Every training step ranks as many:
            leave the metric to `evaluate`, or give a number not far above
            the size of the data.
        name: of the metric.

    Call arguments:
        y_true: float (B,) or (B, 1).
        y_pred: float (B,) or (B, 1).
        sample_weight: must be None.

    Returns:
        float32 scalar over all batches since the last reset; 0 where one
        side is constant or there is no pair.

    Raises:
        ValueError: if the shapes do not fit, there are weights, or there
            were more pairs than `capacity`: in `fit` and `evaluate` at the
            end of the epoch.

    Example:
        >>> import kbert
        >>> spearman = kbert.metrics.SpearmanCorrelation()
        >>> float(spearman([1.0, 2.0, 3.0], [0.1, 0.2, 9.0]))
        1.0

    References:
        Cer et al., 2017, https://arxiv.org/abs/1708.00055; `spearmanr` in
        scipy
    """

    def __init__(
        self, capacity: int = 16384, name: str = "spearman_correlation"
    ) -> None:
        """See the class."""
        super().__init__(capacity, name)

    def result(self) -> Any:
        """Return the correlation, a float32 scalar."""
        pairs, real = self._real()
        ranks = [_ranks(pairs[side], real) for side in (0, 1)]
        return _correlation(ranks[0], ranks[1], real)


def _ranks(values: Any, real: Any) -> Any:
    """Ranks of real values over their number, ties at their mean."""
    # All others stand behind.
    values = ops.where(real > 0, values, float("inf"))
    ordered = ops.sort(values)
    below = ops.searchsorted(ordered, values, side="left")
    up_to = ops.searchsorted(ordered, values, side="right")
    ranks = ops.cast(below + up_to, "float32") / 2
    return ranks / ops.maximum(ops.sum(real), 1.0)


def _correlation(a: Any, b: Any, real: Any) -> Any:
    """Pearson's correlation of real values; 0 where one side is constant."""
    count = ops.maximum(ops.sum(real), 1.0)
    a, b = (x - ops.sum(x * real) / count for x in (a, b))
    # Twice: what rounding left of a large mean.
    a, b = ((x - ops.sum(x * real) / count) * real for x in (a, b))
    # So that no square over- or underflows.
    a, b = (ops.divide_no_nan(x, ops.max(ops.abs(x))) for x in (a, b))
    spread = ops.sqrt(ops.sum(a * a)) * ops.sqrt(ops.sum(b * b))
    return ops.clip(ops.divide_no_nan(ops.sum(a * b), spread), -1.0, 1.0)
