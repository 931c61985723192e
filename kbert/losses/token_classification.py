"""The loss of token classification."""

from typing import Any

import keras

from kbert.losses.cross_entropy import cross_entropy
from kbert.losses.weighted_mean import WeightedMeanLoss, check_shapes


@keras.saving.register_keras_serializable(package="kbert")
class TokenClassificationLoss(WeightedMeanLoss):
    """Cross-entropy of the labelled tokens: Σ weight · loss / Σ weight.

    Every labelled token of a batch weighs the same, however long its text,
    however much padding beside it and on whichever replica: `MaskedLMLoss`
    with a label for each position, and what it says of replicas and of the
    values that `fit` shows holds here. Keras' cross-entropy divides by all
    positions, padding too.

    Args:
        name: of the loss.

    Call arguments:
        y_true: int (B, S), classes in [0, C). Another label, such as -100,
            makes the loss NaN, unless its weight is 0.
        y_pred: float (B, S, C), logits.
        sample_weight: (B, S), 1 for a token that has a label and 0 for
            padding, special tokens and the pieces of a word that do not
            count. Without it every position counts.

    Returns:
        float32 scalar; 0 where all weights are 0.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> import numpy as np, kbert
        >>> loss = kbert.losses.TokenClassificationLoss()
        >>> logits = np.log([[[0.5, 0.5], [0.75, 0.25], [0.9, 0.1]]])
        >>> value = loss([[1, 0, -100]], logits, [[1, 1, 0]])
        >>> round(float(value), 4)
        0.4904

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 5.3
    """

    def __init__(self, name: str = "token_classification_loss") -> None:
        """See the class."""
        super().__init__(name=name)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return each token's cross-entropy, float32 (B, S)."""
        check_token_classification(y_true, y_pred)
        return cross_entropy(y_true, y_pred)


def check_token_classification(
    labels: Any, logits: Any, num_classes: int | None = None
) -> None:
    """Raise unless labels are (B, S) and logits (B, S, C)."""
    check_shapes(
        labels,
        logits,
        f"Expected labels (B, S) and logits (B, S, {num_classes or 'C'})",
        rank=2,
        last=(num_classes,),
    )
