"""Losses of pairs of texts with a score of how much alike they are."""

from typing import Any

import keras
from keras import ops

from kbert.losses.vectors import VectorLoss, check_scores, cosine

_NEVER = -1e30


@keras.saving.register_keras_serializable(package="kbert")
class CosineSimilarityLoss(VectorLoss):
    """The squared difference of a pair's cosine and its score.

    Args:
        name: of the loss.

    Call arguments:
        y_true: float (B,), scores from -1 to 1.
        y_pred: float (B, 2, D), vectors of two texts, of any length: the
            output of `build_pair_encoder`.
        sample_weight: (B,), a weight for each row. Without it every row
            counts once.

    Returns:
        float32 scalar, a mean over the rows of all replicas; 0 where all
        weights are 0.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> import kbert
        >>> loss = kbert.losses.CosineSimilarityLoss()
        >>> float(loss([0.5], [[[2.0, 0.0], [0.0, 3.0]]]))
        0.25

    References:
        Reimers & Gurevych, 2019, https://arxiv.org/abs/1908.10084, section 3;
        `CosineSimilarityLoss` in huggingface/sentence-transformers
    """

    def __init__(self, name: str = "cosine_similarity_loss") -> None:
        """See the class."""
        super().__init__(name=name)

    def check(self, targets: Any, vectors: Any) -> None:
        """Raise unless the shapes fit."""
        check_scores(targets, vectors)

    def rows(self, targets: Any, vectors: Any) -> tuple[Any, Any]:
        """Return each pair's squared difference, and 1."""
        losses = ops.square(cosine(vectors) - ops.cast(targets, "float32"))
        return losses, ops.ones_like(losses)


@keras.saving.register_keras_serializable(package="kbert")
class CoSENTLoss(VectorLoss):
    """log(1 + Σ exp(scale · (cosine of one pair - cosine of a better one))).

    The sum is over all two pairs of the batch, of all replicas, of which one
    has the higher score. Only the order of the scores counts, as in
    Spearman's correlation.

    Args:
        scale: what cosines are multiplied by.
        name: of the loss.

    Call arguments:
        y_true: float (B,), scores.
        y_pred: float (B, 2, D), vectors of two texts: the output of
            `build_pair_encoder`.
        sample_weight: (B,); the product of two pairs' weights is that of
            their term in the sum. Without it every term counts once.

    Returns:
        float32 scalar; 0 where no two scores differ.

    Raises:
        ValueError: if `scale` is out of range or the shapes do not fit.

    Example:
        >>> import kbert
        >>> loss = kbert.losses.CoSENTLoss(scale=1.0)
        >>> pairs = [[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]]
        >>> round(float(loss([1.0, 0.0], pairs)), 4)
        0.3133

    References:
        Huang et al., 2024, https://doi.org/10.1109/TASLP.2024.3402087;
        `CoSENTLoss` in huggingface/sentence-transformers
    """

    def __init__(self, scale: float = 20.0, name: str = "cosent_loss") -> None:
        """See the class."""
        super().__init__(name=name)
        if not scale > 0:
            raise ValueError(
                f"`scale` must be above 0. Received: scale={scale!r}"
            )
        self.scale = scale

    def check(self, targets: Any, vectors: Any) -> None:
        """Raise unless the shapes fit."""
        check_scores(targets, vectors)

    def total(self, targets: Any, vectors: Any, weights: Any) -> Any:
        """Return the loss, a float32 scalar."""
        scores, cosines = ops.cast(targets, "float32"), cosine(vectors)
        terms = self.scale * (cosines[:, None] - cosines)
        # Of weight 0 is never; log of it must not meet a gradient.
        there = weights > 0
        logs = ops.log(ops.where(there, weights, 1.0))
        terms = terms + logs[:, None] + logs
        counts = (scores[:, None] < scores) & there[:, None] & there
        terms = ops.reshape(ops.where(counts, terms, _NEVER), (-1,))
        terms = ops.concatenate([ops.zeros((1,)), terms])
        return ops.logsumexp(terms)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "scale": self.scale}
