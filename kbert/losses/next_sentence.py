"""The loss of next-sentence prediction."""

from typing import Any

import keras

from kbert.losses.cross_entropy import cross_entropy
from kbert.losses.weighted_mean import WeightedMeanLoss, check_shapes


@keras.saving.register_keras_serializable(package="kbert")
class NextSentenceLoss(WeightedMeanLoss):
    """Cross-entropy of "B follows A" against "B is random", mean over pairs.

    Against `keras.losses.SparseCategoricalCrossentropy(from_logits=True)`:
    pairs of weight 0, such as those that fill up a last batch, do not count
    in the mean; logits and labels stay float32; other shapes are refused.

    Args:
        name: of the loss.

    Call arguments:
        y_true: int (B,), 0 where B follows A, 1 where B is random. Another
            label makes the loss NaN, unless its weight is 0.
        y_pred: float (B, 2), logits.
        sample_weight: (B,), or None: every pair counts once.

    Returns:
        float32 scalar; 0 where all weights are 0.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> import numpy as np, kbert
        >>> loss = kbert.losses.NextSentenceLoss()
        >>> logits = np.log([[0.5, 0.5], [0.75, 0.25]])
        >>> round(float(loss([1, 0], logits)), 4)
        0.4904

    References:
        `get_next_sentence_output` in google-research/bert `run_pretraining.py`
    """

    def __init__(self, name: str = "next_sentence_loss") -> None:
        """See the class."""
        super().__init__(name=name)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return each pair's cross-entropy, float32 (B,)."""
        check_next_sentence(y_true, y_pred)
        return cross_entropy(y_true, y_pred)


def check_next_sentence(labels: Any, logits: Any) -> None:
    """Raise unless labels are (B,) and logits (B, 2)."""
    check_shapes(
        labels,
        logits,
        "Expected labels (B,) and logits (B, 2)",
        rank=1,
        last=(2,),
    )
