"""A loss on vectors of several sizes at once."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from kbert.losses.vectors import unit


@keras.saving.register_keras_serializable(package="kbert")
class MatryoshkaLoss(keras.losses.Loss):
    """A loss on the first components of vectors too, so that these suffice.

    It is Σ weight · loss(first components, scaled to length 1). Afterwards
    `pipelines.Embedder.encode(dimensions=…)` can leave out the rest.

    Args:
        loss: a loss on vectors, such as `MultipleNegativesRankingLoss`.
        dimensions: how many components to read, the size of the vectors
            usually among them: [384, 192, 96].
        weights: of the loss at each; None for 1.
        name: of the loss.

    Call arguments:
        y_true: what `loss` takes.
        y_pred: float (..., D).
        sample_weight: what `loss` takes.

    Returns:
        float32 scalar.

    Raises:
        TypeError: if `loss` is no Keras loss or a dimension no int.
        ValueError: if a dimension or weight is out of range, they differ in
            number, or a vector has fewer components.

    Example:
        >>> import kbert
        >>> inner = kbert.losses.CosineSimilarityLoss()
        >>> loss = kbert.losses.MatryoshkaLoss(inner, [2, 1])
        >>> float(loss([1.0], [[[1.0, 0.0], [0.0, 3.0]]]))
        2.0

    References:
        Kusupati et al., 2022, https://arxiv.org/abs/2205.13147;
        `MatryoshkaLoss` in huggingface/sentence-transformers
    """

    def __init__(
        self,
        loss: keras.losses.Loss,
        dimensions: Sequence[int],
        weights: Sequence[float] | None = None,
        name: str = "matryoshka_loss",
    ) -> None:
        """See the class."""
        super().__init__(name=name, reduction="sum", dtype="float32")
        if not isinstance(loss, keras.losses.Loss):
            raise TypeError(
                f"`loss` must be a keras.losses.Loss. Received: loss={loss!r}"
            )
        self.loss = loss
        self.dimensions = [int(x) for x in dimensions]
        if self.dimensions != list(dimensions):
            raise TypeError(
                "`dimensions` must be ints. Received: "
                f"dimensions={dimensions!r}"
            )
        self.weights = [1.0] * len(self.dimensions)
        if weights is not None:
            self.weights = [float(x) for x in weights]
        if not self.dimensions or min(self.dimensions) < 1:
            raise ValueError(
                "`dimensions` must hold ints of at least 1. Received: "
                f"dimensions={dimensions!r}"
            )
        if len(self.weights) != len(self.dimensions) or min(self.weights) < 0:
            raise ValueError(
                "`weights` must be a number of at least 0 for each dimension. "
                f"Received: weights={weights!r}, dimensions={dimensions!r}"
            )

    def __call__(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> Any:
        """Return the weighted sum over the dimensions, a float32 scalar."""
        vectors = ops.convert_to_tensor(y_pred, dtype="float32")
        size = vectors.shape[-1]
        if size < max(self.dimensions):
            raise ValueError(
                "`dimensions` are over the size of the vectors. Received: "
                f"dimensions={self.dimensions}, size {size}"
            )
        total = ops.zeros((), "float32")
        for dimension, weight in zip(
            self.dimensions, self.weights, strict=True
        ):
            part = unit(vectors[..., :dimension])
            total = total + weight * self.loss(y_true, part, sample_weight)
        return total

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            "loss": keras.losses.serialize(self.loss),
            "dimensions": list(self.dimensions),
            "weights": list(self.weights),
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "MatryoshkaLoss":
        """Return the loss of such a dict."""
        loss = keras.losses.deserialize(config["loss"])
        return cls(**{**config, "loss": loss})
