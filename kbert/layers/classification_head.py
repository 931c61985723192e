"""Head that classifies a whole sequence."""

from collections.abc import Sequence
from numbers import Integral

import keras
from keras import ops

from kbert.layers.initializers import truncated_normal

PROBLEM_TYPES = (
    "single_label_classification",
    "multi_label_classification",
    "regression",
)


@keras.saving.register_keras_serializable(package="kbert")
class ClassificationHead(keras.layers.Layer):
    """Dropout and a linear layer from a pooled vector to logits.

    Serves single-label and multi-label classification, regression
    (`num_classes=1`) and next-sentence prediction (`num_classes=2`): the
    loss tells them apart.

    Args:
        num_classes: int, number C of outputs.
        hidden_dropout: float, dropout probability of the input.
        initializer_range: float, standard deviation of the initial kernel.
        label_names: list of C different strings, or None. Kept with the
            model, so that a saved one still knows what its outputs mean.
        problem_type: "single_label_classification",
            "multi_label_classification", "regression" (transformers' words)
            or None for unsaid. Kept likewise; it changes no output.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        pooled_output: float (B, H).
        training: bool, whether dropout is on; it never is in a frozen layer
            (`trainable = False`).

    Returns:
        Logits, float32 (B, C) under every dtype policy.

    Raises:
        TypeError: if `num_classes` is no int or a name no string.
        ValueError: if `num_classes` is under 1, `label_names` does not hold
            `num_classes` different names, or `problem_type` is unknown.

    Example:
        >>> import numpy as np, kbert
        >>> head = kbert.layers.ClassificationHead(num_classes=3)
        >>> tuple(head(np.ones((2, 8), "float32")).shape)
        (2, 3)

    References:
        `create_model` in google-research/bert `run_classifier.py`
    """

    def __init__(
        self,
        num_classes: int,
        hidden_dropout: float = 0.1,
        initializer_range: float = 0.02,
        label_names: Sequence[str] | None = None,
        problem_type: str | None = None,
        **kwargs,
    ):
        """See the class."""
        super().__init__(**kwargs)
        _check_arguments(num_classes, label_names)
        if problem_type not in (None, *PROBLEM_TYPES):
            raise ValueError(
                f"`problem_type` must be None or one of {PROBLEM_TYPES}. "
                f"Received: problem_type={problem_type!r}"
            )
        self.num_classes = int(num_classes)
        self.hidden_dropout = hidden_dropout
        self.initializer_range = initializer_range
        self.label_names = None if label_names is None else list(label_names)
        self.problem_type = problem_type
        self.dropout = keras.layers.Dropout(
            hidden_dropout, dtype=self.dtype_policy, name="dropout"
        )
        # float32 whatever the policy: this layer is tiny, and a bfloat16
        # logit has three significant digits.
        self.logits = keras.layers.Dense(
            self.num_classes,
            kernel_initializer=truncated_normal(initializer_range),
            dtype="float32",
            name="logits",
        )

    def build(self, pooled_output_shape):
        """Create the kernel; the shape is (B, H)."""
        self.logits.build(pooled_output_shape)

    def call(self, pooled_output, training=None):
        """See the class."""
        training = training and self.trainable
        x = self.dropout(pooled_output, training=training)
        return self.logits(ops.cast(x, "float32"))

    def compute_output_spec(self, pooled_output, training=None):
        """Return float32 (B, C)."""
        shape = (*pooled_output.shape[:-1], self.num_classes)
        return keras.KerasTensor(shape, dtype="float32")

    def get_config(self):
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "hidden_dropout": self.hidden_dropout,
            "initializer_range": self.initializer_range,
            "label_names": self.label_names,
            "problem_type": self.problem_type,
        }


def _check_arguments(
    num_classes: int, label_names: Sequence[str] | None
) -> None:
    # `Integral` lets numpy's integers in, which `labels.max() + 1` gives.
    if isinstance(num_classes, bool) or not isinstance(num_classes, Integral):
        raise TypeError(
            "`num_classes` must be an int. Received: "
            f"num_classes={num_classes!r}"
        )
    if num_classes < 1:
        raise ValueError(
            "`num_classes` must be at least 1. Received: "
            f"num_classes={num_classes}"
        )
    if label_names is None:
        return
    if isinstance(label_names, str) or not all(
        isinstance(name, str) for name in label_names
    ):
        raise TypeError(
            "`label_names` must be a list of strings. Received: "
            f"label_names={label_names!r}"
        )
    if not len(set(label_names)) == len(label_names) == num_classes:
        raise ValueError(
            f"`label_names` must hold {num_classes} different names, one a "
            f"class. Received: label_names={list(label_names)!r}"
        )
