"""The triplet loss of sentence encoders."""

from typing import Any

import keras
from keras import ops

from kbert.losses.vectors import VectorLoss, check_ids, unit

DISTANCES = ("cosine", "euclidean", "manhattan")


@keras.saving.register_keras_serializable(package="kbert")
class TripletLoss(VectorLoss):
    """max(0, distance to the positive - distance to the negative + margin).

    Each hard negative of a row is a triplet of its own. One that is the same
    text as the anchor or the positive does not count.

    Args:
        margin: how much farther a negative should be. Of vectors of length 1
            no cosine distance is above 2, nor a Euclidean one.
        distance: "cosine" (1 - cosine), "euclidean" or "manhattan".
        name: of the loss.

    Call arguments:
        y_true: int (B, K), numbers that are equal for equal texts, -1 for no
            text: what `data.sentence_pair_dataset` gives.
        y_pred: float (B, K, D), vectors of an anchor, its positive, and its
            hard negatives: the output of `build_pair_encoder`.
        sample_weight: (B,), a weight for each row. Without it every triplet
            counts once.

    Returns:
        float32 scalar, a mean over the triplets of all replicas; 0 where
        there is none.

    Raises:
        ValueError: if an option is out of range or the shapes do not fit.

    Example:
        >>> import kbert
        >>> loss = kbert.losses.TripletLoss(margin=0.5)
        >>> vectors = [[[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]]
        >>> round(float(loss([[0, 1, 2]], vectors)), 4)
        0.7

    References:
        Schroff et al., 2015, https://arxiv.org/abs/1503.03832; Reimers &
        Gurevych, 2019, https://arxiv.org/abs/1908.10084, section 3;
        `TripletLoss` in huggingface/sentence-transformers
    """

    def __init__(
        self,
        margin: float = 0.5,
        distance: str = "cosine",
        name: str = "triplet_loss",
    ) -> None:
        """See the class."""
        super().__init__(name=name)
        if not margin > 0:
            raise ValueError(
                f"`margin` must be above 0. Received: margin={margin!r}"
            )
        if distance not in DISTANCES:
            raise ValueError(
                f"`distance` must be one of {DISTANCES}. Received: "
                f"distance={distance!r}"
            )
        self.margin = margin
        self.distance = distance

    def check(self, targets: Any, vectors: Any) -> None:
        """Raise unless the shapes fit."""
        check_ids(targets, vectors, least=3)

    def rows(self, targets: Any, vectors: Any) -> tuple[Any, Any]:
        """Return the mean over each row's triplets, and their number."""
        distances = self._to_anchor(vectors)
        losses = ops.relu(distances[:, :1] - distances[:, 1:] + self.margin)
        negatives = targets[:, 2:]
        is_real = (targets[:, :1] >= 0) & (targets[:, 1:2] >= 0)
        is_real = is_real & (negatives >= 0)
        is_real = is_real & (negatives != targets[:, :1])
        is_real = is_real & (negatives != targets[:, 1:2])
        real = ops.cast(is_real, "float32")
        counts = ops.sum(real, axis=1)
        return ops.sum(losses * real, axis=1) / ops.maximum(counts, 1), counts

    def _to_anchor(self, vectors: Any) -> Any:
        """The distance of each other text of a row, float32 (B, K - 1)."""
        if self.distance == "cosine":
            vectors = unit(vectors)
            return 1.0 - ops.sum(vectors[:, :1] * vectors[:, 1:], axis=-1)
        gaps = vectors[:, :1] - vectors[:, 1:]
        if self.distance == "manhattan":
            return ops.sum(ops.abs(gaps), axis=-1)
        square = ops.sum(gaps * gaps, axis=-1)
        # The root has no slope at 0: there it gets none.
        root = ops.sqrt(ops.where(square > 0, square, 1.0))
        return ops.where(square > 0, root, 0.0)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "margin": self.margin,
            "distance": self.distance,
        }
