"""Metrics of masked-language modelling."""

from typing import Any

import keras
from keras import ops

from kbert.losses.cross_entropy import cross_entropy
from kbert.losses.masked_lm import check_masked_lm
from kbert.metrics.weighted_mean import WeightedMeanMetric


@keras.saving.register_keras_serializable(package="kbert")
class MaskedLMAccuracy(WeightedMeanMetric):
    """Share of masked tokens whose most likely id is the right one.

    Give it to `compile(weighted_metrics=…)`: Keras keeps the weights from
    what is in `metrics=…`, and unused slots would count.

    Args:
        name: of the metric.

    Call arguments:
        y_true: int (B, P), the ids of the masked tokens; an id outside [0, V)
            is never right.
        y_pred: float (B, P, V), logits.
        sample_weight: (B, P), 1 for a masked token and 0 for an unused slot.
            Without it every position counts.

    Returns:
        float32 scalar over all batches since the last reset; 0 without a
        token.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> import kbert
        >>> accuracy = kbert.metrics.MaskedLMAccuracy()
        >>> logits = [[[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]]]
        >>> float(accuracy([[1, 1, 0]], logits, sample_weight=[[1, 1, 0]]))
        0.5
    """

    def __init__(self, name: str = "accuracy") -> None:
        """See the class."""
        super().__init__(name=name)
        self._direction = "up"

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """Return 1 for each right token, float32 (B, P)."""
        check_masked_lm(y_true, y_pred)
        return is_right(y_true, y_pred)


@keras.saving.register_keras_serializable(package="kbert")
class Perplexity(WeightedMeanMetric):
    """exp of the mean cross-entropy over all masked tokens of an epoch.

    A mean over tokens, not over batches: its logarithm is what `MaskedLMLoss`
    gives for the epoch as one batch. Give it to
    `compile(weighted_metrics=…)`, see `MaskedLMAccuracy`.

    Args:
        name: of the metric.

    Call arguments:
        y_true: int (B, P), the ids of the masked tokens in [0, V). An id
            outside makes the result NaN, unless its weight is 0.
        y_pred: float (B, P, V), logits.
        sample_weight: (B, P), 1 for a masked token and 0 for an unused slot.
            Without it every position counts.

    Returns:
        float32 scalar over all batches since the last reset; 1, the
        exponential of a loss of 0, without a token. Above a mean of 88.7 it
        is infinite.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> import numpy as np, kbert
        >>> perplexity = kbert.metrics.Perplexity()
        >>> logits = np.log([[[0.25, 0.75], [0.5, 0.5]]])
        >>> round(float(perplexity([[0, 1]], logits, [[1, 0]])), 4)
        4.0
    """

    def __init__(self, name: str = "perplexity") -> None:
        """See the class."""
        super().__init__(name=name)
        self._direction = "down"

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """Return each token's cross-entropy, float32 (B, P)."""
        check_masked_lm(y_true, y_pred)
        return cross_entropy(y_true, y_pred)

    def result(self) -> Any:
        """Return exp of the mean, a float32 scalar."""
        return ops.exp(super().result())


def is_right(labels: Any, logits: Any) -> Any:
    """Return 1 where the largest logit is the label's, else 0; float32."""
    best = ops.cast(ops.argmax(logits, axis=-1), labels.dtype)
    return ops.cast(best == labels, "float32")
