"""The contrastive loss of sentence encoders: what belongs to a text."""

from typing import Any

import keras
from keras import ops

from kbert.losses.vectors import VectorLoss, check_ids, unit

SIMILARITIES = ("cosine", "dot")
# A score that no softmax sees, and that float32 can still add to another.
_NEVER = -1e30


@keras.saving.register_keras_serializable(package="kbert")
class MultipleNegativesRankingLoss(VectorLoss):
    """Cross-entropy of the anchor's own positive among all other texts.

    The candidates of an anchor are the positives and the hard negatives of
    every row of the batch, of all replicas. A candidate does not count as a
    negative if it is the same text as the anchor, as its positive, or as
    another row's positive for the same anchor. The more rows, the better the
    training: it depends on the batch size.

    Args:
        scale: what similarities are multiplied by, 1 / temperature.
        symmetric: whether to average it with the cross-entropy of each
            positive's own anchor among all anchors.
        similarity: "cosine" or "dot".
        name: of the loss.

    Call arguments:
        y_true: int (B, K), numbers that are equal for equal texts and differ
            for others, -1 for no text: what `data.sentence_pair_dataset`
            gives.
        y_pred: float (B, K, D), vectors of an anchor, its positive, and any
            number of hard negatives: the output of `build_pair_encoder`.
        sample_weight: (B,), a weight for each row; one of weight 0 still
            gives candidates to others. Without it every row counts once.

    Returns:
        float32 scalar, a mean over the rows of all replicas; 0 where all
        weights are 0.

    Raises:
        ValueError: if an option is out of range or the shapes do not fit.

    Example:
        >>> import kbert
        >>> loss = kbert.losses.MultipleNegativesRankingLoss(scale=1.0)
        >>> vectors = [[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]]
        >>> round(float(loss([[0, 1], [2, 3]], vectors)), 4)
        0.3133

    References:
        Henderson et al., 2017, https://arxiv.org/abs/1705.00652, section 4.4;
        van den Oord et al., 2018, https://arxiv.org/abs/1807.03748;
        `MultipleNegativesRankingLoss` in huggingface/sentence-transformers
    """

    def __init__(
        self,
        scale: float = 20.0,
        symmetric: bool = False,
        similarity: str = "cosine",
        name: str = "multiple_negatives_ranking_loss",
    ) -> None:
        """See the class."""
        super().__init__(name=name)
        if not scale > 0:
            raise ValueError(
                f"`scale` must be above 0. Received: scale={scale!r}"
            )
        if similarity not in SIMILARITIES:
            raise ValueError(
                f"`similarity` must be one of {SIMILARITIES}. Received: "
                f"similarity={similarity!r}"
            )
        self.scale = scale
        self.symmetric = symmetric
        self.similarity = similarity

    def check(self, targets: Any, vectors: Any) -> None:
        """Raise unless the shapes fit."""
        check_ids(targets, vectors, least=2)

    def rows(self, targets: Any, vectors: Any) -> tuple[Any, Any]:
        """Return each row's cross-entropy, and 1 where it has a pair."""
        if self.similarity == "cosine":
            vectors = unit(vectors)
        columns = range(2, targets.shape[1])
        losses = self._losses(targets, vectors, 0, [1, *columns])
        if self.symmetric:
            back = self._losses(targets, vectors, 1, [0])
            losses = (losses + back) / 2
        return losses, ops.cast(ops.all(targets[:, :2] >= 0, 1), "float32")

    def _losses(
        self, ids: Any, vectors: Any, source: int, columns: list[int]
    ) -> Any:
        """Cross-entropy of each row's target among all candidates.

        Args:
            ids: (N, K).
            vectors: (N, K, D).
            source: the column of the text that looks.
            columns: those of the candidates, the row's target first.
        """
        found = ops.concatenate([ids[:, i] for i in columns])
        others = ops.concatenate([vectors[:, i] for i in columns])
        scores = self.scale * ops.matmul(
            vectors[:, source], ops.transpose(others)
        )
        sources, targets = ids[:, source], ids[:, columns[0]]
        # How many rows with this source have that text as their target.
        same_source = ops.cast(sources[:, None] == sources, "float32")
        is_target = ops.cast(targets[:, None] == found, "float32")
        count = ops.matmul(same_source, is_target)
        rows, all_places = (ops.arange(ops.shape(x)[0]) for x in (ids, found))
        is_own = rows[:, None] == all_places
        no_negative = (count > 0) | (sources[:, None] == found) | (found < 0)
        scores = ops.where(no_negative & ~is_own, _NEVER, scores)
        right = ops.sum(ops.where(is_own, scores, 0.0), axis=1)
        return ops.logsumexp(scores, axis=1) - right

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "scale": self.scale,
            "symmetric": self.symmetric,
            "similarity": self.similarity,
        }
