"""Sums and weighted means over an epoch of billions of tokens."""

from typing import Any

import keras
from keras import ops

from kbert.losses.weighted_mean import labels_and_weights


class SumMetric(keras.metrics.Metric):
    """Sums over everything since the last reset, with 48 bits each.

    A float32 sum of a billion tokens moves in steps of 64; here what an
    addition rounds off is kept, and added next time.

    Args:
        shape: of the sums.
        name: of the metric.
    """

    def __init__(self, shape: tuple[int, ...], name: str | None = None) -> None:
        """See the class."""
        super().__init__(name=name, dtype="float32")
        self.sums = self.add_variable(shape, "zeros", name="sums")
        # What is missing from each.
        self.missing = self.add_variable(shape, "zeros", name="missing")

    def add(self, added: Any) -> None:
        """Add float32 values, in the sums' shape."""
        # Knuth's two-sum, then Dekker's: 48 bits in two floats.
        before = ops.convert_to_tensor(self.sums)
        total = before + added
        grown = total - before
        missing = (before - (total - grown)) + (added - grown) + self.missing
        sums = total + missing
        self.sums.assign(sums)
        self.missing.assign(missing - (sums - total))

    def totals(self) -> Any:
        """Return the sums, float32."""
        return ops.convert_to_tensor(self.sums) + self.missing

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"name": self.name}


class WeightedMeanMetric(SumMetric):
    """Σ weight · value / Σ weight over everything since the last reset.

    Subclasses implement `values(y_true, y_pred)`, a value for each label.
    Against `keras.metrics.Mean`, each label has its own weight, also where
    batches differ in the number of slots: Keras averages over the slots of a
    row first. A sum has 48 bits, see `SumMetric`.

    Args:
        name: of the metric.
    """

    def __init__(self, name: str | None = None) -> None:
        """See the class."""
        # Σ weight · value and Σ weight.
        super().__init__((2,), name=name)

    def update_state(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> None:
        """Add a batch."""
        labels, weights = labels_and_weights(y_true, y_pred, sample_weight)
        labels = ops.cast(labels, "float32")
        logits = ops.convert_to_tensor(y_pred, dtype="float32")
        self.add_weighted(self.values(labels, logits), weights)

    def add_weighted(self, values: Any, weights: Any) -> None:
        """Add values and their weights, float32 of one shape."""
        self.add(ops.stack([ops.sum(values * weights), ops.sum(weights)]))

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """Return a value for each label, in the labels' shape."""
        raise NotImplementedError

    def result(self) -> Any:
        """Return the weighted mean, a float32 scalar; 0 if nothing counted."""
        sums = self.totals()
        return ops.divide_no_nan(sums[0], sums[1])
