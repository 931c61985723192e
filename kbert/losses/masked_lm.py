"""The loss of masked-language modelling."""

from typing import Any

import keras

from kbert.losses.cross_entropy import cross_entropy
from kbert.losses.weighted_mean import WeightedMeanLoss, check_shapes


@keras.saving.register_keras_serializable(package="kbert")
class MaskedLMLoss(WeightedMeanLoss):
    """Cross-entropy of the masked tokens: Σ weight · loss / Σ weight.

    Computed in float32 under every dtype policy. Keras' cross-entropy divides
    by all positions instead, so that its value changes with the unused slots.

    Under `tf.distribute` Σ weight is that of all replicas, so training
    equals one device with the whole batch, however unevenly the masked tokens
    fall. Give replicas equally many rows: the value that Keras shows weights
    them by rows.

    `fit` and `evaluate` show the mean of the batches' losses, weighted by
    their rows. `log(Perplexity)` is the mean over the tokens of all batches.

    Args:
        name: of the loss.

    Call arguments:
        y_true: int (B, P), the ids of the masked tokens in [0, V). An id
            outside makes the loss NaN, unless its weight is 0.
        y_pred: float (B, P, V), logits.
        sample_weight: (B, P), 1 for a masked token and 0 for an unused slot.
            Without it every position counts.

    Returns:
        float32 scalar; 0 where all weights are 0.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> import numpy as np, kbert
        >>> loss = kbert.losses.MaskedLMLoss()
        >>> logits = np.log([[[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]])
        >>> round(float(loss([[0, -100]], logits, [[1, 0]])), 4)
        0.6931

    References:
        `get_masked_lm_output` in google-research/bert `run_pretraining.py`
    """

    def __init__(self, name: str = "masked_lm_loss") -> None:
        """See the class."""
        super().__init__(name=name)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return each token's cross-entropy, float32 (B, P)."""
        check_masked_lm(y_true, y_pred)
        return cross_entropy(y_true, y_pred)


def check_masked_lm(labels: Any, logits: Any) -> None:
    """Raise unless labels are (B, P) and logits (B, P, V)."""
    check_shapes(
        labels,
        logits,
        "Expected labels (B, P) and logits (B, P, V)",
        rank=2,
        last=(None,),
    )
