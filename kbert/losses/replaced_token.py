"""The loss of ELECTRA's discriminator."""

from typing import Any

import keras
from keras import ops

from kbert.losses.cross_entropy import only_labels
from kbert.losses.weighted_mean import WeightedMeanLoss, check_shapes


@keras.saving.register_keras_serializable(package="kbert")
class ReplacedTokenLoss(WeightedMeanLoss):
    """Binary cross-entropy of original against replaced, mean over tokens.

    The mean is Σ weight · loss / Σ weight over the tokens of all replicas, and
    what `fit` and `evaluate` show is a mean over batches: see `MaskedLMLoss`.

    Args:
        name: of the loss.

    Call arguments:
        y_true: int (B, S), 1 where the token was replaced, else 0. Another
            label makes the loss NaN, unless its weight is 0. Of
            `build_replaced_token_pretrainer`, whose logits say "the answer
            is wrong", all 0.
        y_pred: float (B, S), logits of "replaced".
        sample_weight: (B, S), 1 for a real token and 0 for padding: the
            `padding_mask`. Without it every position counts.

    Returns:
        float32 scalar; 0 where all weights are 0.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> import kbert
        >>> loss = kbert.losses.ReplacedTokenLoss()
        >>> padding_mask = [[1, 1, 0]]
        >>> value = loss([[1, 0, 0]], [[0.0, -20.0, 3.0]], padding_mask)
        >>> round(float(value), 4)
        0.3466

    References:
        Clark et al., 2020, https://arxiv.org/abs/2003.10555;
        `_get_discriminator_output` in google-research/electra
        `run_pretraining.py`
    """

    def __init__(self, name: str = "replaced_token_loss") -> None:
        """See the class."""
        super().__init__(name=name)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return each token's binary cross-entropy, float32 (B, S)."""
        check_replaced_token(y_true, y_pred)
        # One softplus of ±logit keeps the digits of a tiny loss.
        losses = ops.softplus((1.0 - 2.0 * y_true) * y_pred)
        return only_labels(y_true, 2, losses)


def check_replaced_token(labels: Any, logits: Any) -> None:
    """Raise unless labels and logits are (B, S)."""
    check_shapes(labels, logits, "Expected labels and logits (B, S)", rank=2)
