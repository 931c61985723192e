"""The metric of next-sentence prediction."""

from typing import Any

import keras

from kbert.losses.next_sentence import check_next_sentence
from kbert.metrics.masked_lm import is_right
from kbert.metrics.weighted_mean import WeightedMeanMetric


@keras.saving.register_keras_serializable(package="kbert")
class NextSentenceAccuracy(WeightedMeanMetric):
    """Share of pairs told right: "B follows A" or "B is random".

    Give it to `compile(weighted_metrics=…)` where weights fill up batches, see
    `MaskedLMAccuracy`.

    Args:
        name: of the metric.

    Call arguments:
        y_true: int (B,), 0 where B follows A, 1 where B is random; another
            label is never right.
        y_pred: float (B, 2), logits.
        sample_weight: (B,), or None: every pair counts once.

    Returns:
        float32 scalar over all batches since the last reset; 0 without a
        pair.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> import kbert
        >>> accuracy = kbert.metrics.NextSentenceAccuracy()
        >>> float(accuracy([1, 0], [[0.0, 2.0], [1.0, 3.0]]))
        0.5
    """

    def __init__(self, name: str = "accuracy") -> None:
        """See the class."""
        super().__init__(name=name)
        self._direction = "up"

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """Return 1 for each pair told right, float32 (B,)."""
        check_next_sentence(y_true, y_pred)
        return is_right(y_true, y_pred)
