"""The metric of ELECTRA's discriminator."""

from typing import Any

import keras
from keras import ops

from kbert.losses.replaced_token import check_replaced_token
from kbert.metrics.weighted_mean import WeightedMeanMetric


@keras.saving.register_keras_serializable(package="kbert")
class ReplacedTokenAccuracy(WeightedMeanMetric):
    """Share of tokens told right: original or replaced.

    Give it to `compile(weighted_metrics=…)`, so that padding does not count,
    see `MaskedLMAccuracy`. Most tokens are original: a head that says so of
    all of them is right of about nine in ten.

    Args:
        name: of the metric.

    Call arguments:
        y_true: int (B, S), 1 where the token was replaced, else 0; another
            label is never right. Of `build_replaced_token_pretrainer`, whose
            logits say "the answer is wrong", all 0.
        y_pred: float (B, S), logits of "replaced".
        sample_weight: (B, S), 1 for a real token and 0 for padding. Without
            it every position counts.

    Returns:
        float32 scalar over all batches since the last reset; 0 without a
        token.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> import kbert
        >>> accuracy = kbert.metrics.ReplacedTokenAccuracy()
        >>> logits, padding_mask = [[3.0, -1.0, 2.0]], [[1, 1, 0]]
        >>> float(accuracy([[1, 1, 0]], logits, sample_weight=padding_mask))
        0.5

    References:
        `disc_accuracy` in google-research/electra `run_pretraining.py`
    """

    def __init__(self, name: str = "accuracy") -> None:
        """See the class."""
        super().__init__(name=name)
        self._direction = "up"

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """Return 1 for each token told right, float32 (B, S)."""
        check_replaced_token(y_true, y_pred)
        said = ops.cast(y_pred > 0, "float32")
        return ops.cast(said == y_true, "float32")
