"""The accuracy of token classification."""

from typing import Any

import keras

from kbert.losses.token_classification import check_token_classification
from kbert.metrics.masked_lm import is_right
from kbert.metrics.weighted_mean import WeightedMeanMetric


@keras.saving.register_keras_serializable(package="kbert")
class TokenAccuracy(WeightedMeanMetric):
    """Share of labelled tokens whose most likely class is the right one.

    Every labelled token of an epoch weighs the same.
    `keras.metrics.SparseCategoricalAccuracy` divides a row's tokens by the
    row's length, padding too, so that batches padded to other lengths weigh
    their tokens differently.

    Give it to `compile(weighted_metrics=…)`, see `MaskedLMAccuracy`.

    Args:
        name: of the metric.

    Call arguments:
        y_true: int (B, S), classes; one outside [0, C) is never right.
        y_pred: float (B, S, C), logits.
        sample_weight: (B, S), 1 for a token that has a label, else 0. Without
            it every position counts.

    Returns:
        float32 scalar over all batches since the last reset; 0 without a
        token.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> import kbert
        >>> accuracy = kbert.metrics.TokenAccuracy()
        >>> logits = [[[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]]]
        >>> float(accuracy([[1, 1, -100]], logits, sample_weight=[[1, 1, 0]]))
        0.5
    """

    def __init__(self, name: str = "accuracy") -> None:
        """See the class."""
        super().__init__(name=name)
        self._direction = "up"

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """Return 1 for each right token, float32 (B, S)."""
        check_token_classification(y_true, y_pred)
        return is_right(y_true, y_pred)
