"""The loss of extractive question answering."""

from typing import Any

import keras
from keras import ops

from kbert.losses.cross_entropy import cross_entropy
from kbert.losses.weighted_mean import WeightedMeanLoss, check_shapes

# A logit that no softmax sees, and that float32 can still add to another.
NEVER = -1e30


@keras.saving.register_keras_serializable(package="kbert")
class SpanLoss(WeightedMeanLoss):
    """Cross-entropy of the answer's first or last token over the positions.

    One for each output of a span model: `model.compile(loss={"start":
    SpanLoss(), "end": SpanLoss()})`, whose sum is twice the mean of the two
    that run_squad.py trains with; `loss_weights` halves it.

    `SpanHead` gives question and padding logits too. With a weight for each
    position, those of weight 0 are no candidates, so that the loss does not
    depend on how far a batch is padded. Without, the softmax is over all S
    positions, as in run_squad.py and transformers.

    Args:
        name: of the loss.

    Call arguments:
        y_true: int (B,), positions in [0, S): of the answer's first or last
            token, 0 where the window has no answer. Another position makes
            the loss NaN, unless the row's weights are 0.
        y_pred: float (B, S), logits.
        sample_weight: (B,), a weight for each row; or (B, S), above 0 where
            an answer can be, the position of "no answer" (0) among them, and
            0 elsewhere: a row then has the weight of its label's position,
            so it does not count where its label is no candidate. Without it
            every row counts once.

    Returns:
        float32 scalar, a mean over the rows of all replicas; 0 where all
        weights are 0.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> import numpy as np, kbert
        >>> loss = kbert.losses.SpanLoss()
        >>> logits = np.log([[0.1, 0.4, 0.1, 0.4]])
        >>> round(float(loss([1], logits)), 4)
        0.9163
        >>> round(float(loss([1], logits, [[1, 1, 0, 0]])), 4)
        0.2231

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 4.2;
        `compute_loss` in google-research/bert `run_squad.py`
    """

    def __init__(self, name: str = "span_loss") -> None:
        """See the class."""
        super().__init__(name=name)

    def __call__(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> Any:
        """Return the weighted mean, a float32 scalar; 0 if nothing counts."""
        labels = ops.convert_to_tensor(y_true)
        mask = getattr(y_pred, "_keras_mask", None)
        logits = ops.convert_to_tensor(y_pred, dtype=self.dtype)
        check_span(labels, logits)
        weights, candidates = span_weights(labels, logits, mask, sample_weight)
        # A new tensor without the mask, which has done its work.
        logits = ops.where(candidates, logits, NEVER)
        return super().__call__(labels, logits, weights)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return each row's cross-entropy, float32 (B,)."""
        return cross_entropy(y_true, y_pred)


def check_span(labels: Any, logits: Any) -> None:
    """Raise unless labels are (B,) and logits (B, S)."""
    check_shapes(
        labels,
        logits,
        "Expected labels (B,) and logits (B, S)",
        rank=1,
        last=(None,),
    )


def span_weights(
    labels: Any, logits: Any, mask: Any, sample_weight: Any
) -> tuple[Any, Any]:
    """Return the rows' weights and the positions that are candidates.

    Args:
        labels: (B,).
        logits: (B, S).
        mask: the predictions' Keras mask (B, S), or None. It takes positions
            out, as in Keras' losses and metrics.
        sample_weight: (B,), (B, S) or None.

    Returns:
        float32 (B,) and bool (B, S).
    """
    weights = ops.ones_like(logits, dtype="float32")
    if sample_weight is not None:
        given = ops.convert_to_tensor(sample_weight, dtype="float32")
        by_row = len(given.shape) == 1
        check_shapes(
            labels,
            given,
            "`sample_weight` must be (B,), or (B, S) as the logits",
            last=() if by_row else (logits.shape[-1],),
        )
        weights = weights * (ops.expand_dims(given, -1) if by_row else given)
    if mask is not None:
        check_shapes(
            labels,
            mask,
            "The Keras mask must have the logits' shape",
            last=(logits.shape[-1],),
        )
        weights = weights * ops.cast(mask, "float32")
    hit = ops.arange(ops.shape(logits)[1], dtype=labels.dtype)
    hit = ops.expand_dims(labels, -1) == hit
    # A label that is no position must not hide behind a weight of 0.
    rows = ops.where(
        ops.any(hit, axis=-1),
        ops.sum(ops.where(hit, weights, 0.0), axis=-1),
        ops.max(weights, axis=-1),
    )
    return rows, weights != 0
