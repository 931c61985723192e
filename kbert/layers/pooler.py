"""The [CLS] pooler."""

import keras

from kbert.layers.composite import CompositeLayer
from kbert.layers.initializers import truncated_normal


@keras.saving.register_keras_serializable(package="kbert")
class Pooler(CompositeLayer):
    """First token's hidden state through a dense layer with tanh.

    Args:
        hidden_size: int, width H.
        initializer_range: float, standard deviation of the initial kernel.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        hidden_states: float (B, S, H); position 0 is [CLS].

    Returns:
        Float (B, H) in the compute dtype.

    Example:
        >>> import numpy as np, kbert
        >>> pooler = kbert.layers.Pooler(hidden_size=8)
        >>> tuple(pooler(np.ones((2, 5, 8), "float32")).shape)
        (2, 8)

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805;
        `BertModel` in google-research/bert `modeling.py`
    """

    def __init__(
        self, hidden_size: int, initializer_range: float = 0.02, **kwargs
    ):
        """See the class."""
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.initializer_range = initializer_range
        self.dense = keras.layers.Dense(
            hidden_size,
            activation="tanh",
            kernel_initializer=truncated_normal(initializer_range),
            dtype=self.dtype_policy,
            name="dense",
        )

    def build(self, hidden_states_shape):
        """Create the kernel; the shape is (B, S, H)."""
        self.dense.build((hidden_states_shape[0], hidden_states_shape[-1]))

    def call(self, hidden_states):
        """See the class."""
        return self.dense(hidden_states[:, 0])

    def compute_output_shape(self, hidden_states_shape):
        """Return (B, H)."""
        return (hidden_states_shape[0], self.hidden_size)

    def get_config(self):
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "hidden_size": self.hidden_size,
            "initializer_range": self.initializer_range,
        }
