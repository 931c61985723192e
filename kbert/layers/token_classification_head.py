"""Head that classifies every token."""

from collections.abc import Sequence

import keras
from keras import ops

from kbert.layers.composite import CompositeLayer
from kbert.layers.logits import check_classes, logits_layer


@keras.saving.register_keras_serializable(package="kbert")
class TokenClassificationHead(CompositeLayer):
    """Dropout and a linear layer from each hidden state to logits.

    Padding gets logits too; sample weights keep them out of a loss.

    Args:
        num_classes: int, number C of outputs a token.
        hidden_dropout: float, dropout probability of the input.
        initializer_range: float, standard deviation of the initial kernel.
        label_names: list of C different strings, or None. Kept with the
            model, so that a saved one still knows what its outputs mean.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        sequence_output: float (B, S, H).
        training: bool, whether dropout is on; it never is in a frozen layer
            (`trainable = False`).

    Returns:
        Logits, float32 (B, S, C) under every dtype policy.

    Raises:
        TypeError: if `num_classes` is no int or a name no string.
        ValueError: if `num_classes` is under 1, or `label_names` does not
            hold `num_classes` different names.

    Example:
        >>> import numpy as np, kbert
        >>> head = kbert.layers.TokenClassificationHead(num_classes=3)
        >>> tuple(head(np.ones((2, 5, 8), "float32")).shape)
        (2, 5, 3)

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 5.3
    """

    def __init__(
        self,
        num_classes: int,
        hidden_dropout: float = 0.1,
        initializer_range: float = 0.02,
        label_names: Sequence[str] | None = None,
        **kwargs,
    ):
        """See the class."""
        super().__init__(**kwargs)
        check_classes(num_classes, label_names)
        self.num_classes = int(num_classes)
        self.hidden_dropout = hidden_dropout
        self.initializer_range = initializer_range
        self.label_names = None if label_names is None else list(label_names)
        self.dropout = keras.layers.Dropout(
            hidden_dropout, dtype=self.dtype_policy, name="dropout"
        )
        self.logits = logits_layer(self.num_classes, initializer_range)

    def build(self, sequence_output_shape):
        """Create the kernel; the shape is (B, S, H)."""
        self.logits.build(sequence_output_shape)

    def call(self, sequence_output, training=None):
        """See the class."""
        training = training and self.trainable
        x = self.dropout(sequence_output, training=training)
        return self.logits(ops.cast(x, "float32"))

    def compute_output_spec(self, sequence_output, training=None):
        """Return float32 (B, S, C)."""
        shape = (*sequence_output.shape[:-1], self.num_classes)
        return keras.KerasTensor(shape, dtype="float32")

    def get_config(self):
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "hidden_dropout": self.hidden_dropout,
            "initializer_range": self.initializer_range,
            "label_names": self.label_names,
        }
