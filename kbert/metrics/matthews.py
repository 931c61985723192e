"""Matthews' correlation of classes, as GLUE scores CoLA."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="kbert")
class MatthewsCorrelation(keras.metrics.Metric):
    """How well predicted classes agree with the right ones, from -1 to 1.

    0 is what guessing gets, whatever the shares of the classes. It is that
    of the whole epoch: the counts of all pairs of classes are kept.

    Args:
        num_classes: number C of classes.
        name: of the metric.

    Call arguments:
        y_true: int (B,) or (B, 1), classes in [0, C).
        y_pred: float (B, C), logits or probabilities.
        sample_weight: (B,), what each counts; None for 1.

    Returns:
        float32 scalar; 0 where all are of one class or all are said to be.

    Raises:
        ValueError: if `num_classes` is under 2 or the shapes do not fit.

    Example:
        >>> import kbert
        >>> metric = kbert.metrics.MatthewsCorrelation(num_classes=2)
        >>> logits = [[2.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 3.0]]
        >>> round(float(metric([0, 1, 1, 0], logits)), 4)
        0.5774

    References:
        Gorodkin, 2004, https://doi.org/10.1016/j.compbiolchem.2004.09.006;
        `matthews_corrcoef` in scikit-learn
    """

    def __init__(
        self, num_classes: int = 2, name: str = "matthews_correlation"
    ) -> None:
        """See the class."""
        super().__init__(name=name, dtype="float32")
        if num_classes < 2:
            raise ValueError(
                "`num_classes` must be at least 2. Received: "
                f"num_classes={num_classes}"
            )
        self.num_classes = num_classes
        self._direction = "up"
        # Rows are right classes, columns predicted ones.
        self.counts = self.add_variable(
            (num_classes, num_classes), "zeros", name="counts"
        )

    def update_state(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> None:
        """Add a batch."""
        y_pred = ops.convert_to_tensor(y_pred, dtype="float32")
        labels = ops.reshape(ops.convert_to_tensor(y_true), (-1,))
        if len(y_pred.shape) != 2 or y_pred.shape[1] != self.num_classes:
            raise ValueError(
                f"`y_pred` must have shape (B, {self.num_classes}). Received: "
                f"shape {tuple(y_pred.shape)}"
            )
        right = ops.one_hot(ops.cast(labels, "int32"), self.num_classes)
        said = ops.one_hot(ops.argmax(y_pred, axis=-1), self.num_classes)
        if sample_weight is not None:
            weights = ops.convert_to_tensor(sample_weight, dtype="float32")
            right = right * ops.reshape(weights, (-1, 1))
        self.counts.assign(self.counts + ops.matmul(ops.transpose(right), said))

    def result(self) -> Any:
        """Return the correlation, a float32 scalar."""
        # Shares, and not counts, whose products would leave float32.
        shares = ops.divide_no_nan(self.counts, ops.sum(self.counts))
        right, said = ops.sum(shares, axis=1), ops.sum(shares, axis=0)
        agreed = ops.trace(shares) - ops.sum(right * said)
        spread = (1 - ops.sum(right * right)) * (1 - ops.sum(said * said))
        spread = ops.sqrt(ops.maximum(spread, 0.0))
        # Of one class alone, what is left of the 1 is rounding.
        is_spread = spread > 1e-6
        spread = ops.where(is_spread, spread, 1.0)
        found = ops.clip(agreed / spread, -1.0, 1.0)
        return ops.where(is_spread, found, 0.0)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"num_classes": self.num_classes, "name": self.name}
