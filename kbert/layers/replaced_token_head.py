"""Head that tells replaced tokens from original ones."""

import keras
from keras import ops

from kbert.layers.activations import get_activation
from kbert.layers.composite import CompositeLayer
from kbert.layers.initializers import truncated_normal
from kbert.layers.logits import logits_layer


@keras.saving.register_keras_serializable(package="kbert")
class ReplacedTokenHead(CompositeLayer):
    """A dense layer and a linear one from each hidden state to one logit.

    ELECTRA's discriminator: a logit above 0 says that the token is not the
    original one. Padding gets logits too; sample weights keep them out of a
    loss.

    Args:
        hidden_size: int, width H of the hidden states and the dense layer.
        activation: str, of the dense layer: "gelu" (exact), "gelu_tanh", or
            a Keras name.
        initializer_range: float, standard deviation of the initial kernels.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        sequence_output: float (B, S, H).
        is_replaced: int (B, S), 1 where the token was replaced, else 0; or
            None. Given, the sign of a logit is changed where it is 1: then
            a logit above 0 says that the head is wrong, and a loss whose
            labels are all 0 is the loss of the true labels.

    Returns:
        Logits, float32 (B, S) under every dtype policy.

    Example:
        >>> import numpy as np, kbert
        >>> head = kbert.layers.ReplacedTokenHead(hidden_size=8)
        >>> tuple(head(np.ones((2, 5, 8), "float32")).shape)
        (2, 5)

    References:
        Clark et al., 2020, https://arxiv.org/abs/2003.10555, section 2;
        `run_pretraining.py` in google-research/electra
    """

    def __init__(
        self,
        hidden_size: int,
        activation: str = "gelu",
        initializer_range: float = 0.02,
        **kwargs,
    ):
        """See the class."""
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.activation = activation
        self.initializer_range = initializer_range
        self.dense = keras.layers.Dense(
            hidden_size,
            activation=get_activation(activation),
            kernel_initializer=truncated_normal(initializer_range),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.logits = logits_layer(1, initializer_range)

    def build(self, sequence_output_shape, is_replaced_shape=None):
        """Create the kernels; the shape is (B, S, H)."""
        self.dense.build(sequence_output_shape)
        self.logits.build((*sequence_output_shape[:-1], self.hidden_size))

    def call(self, sequence_output, is_replaced=None):
        """See the class."""
        x = self.dense(sequence_output)
        logits = self.logits(ops.cast(x, "float32"))[..., 0]
        if is_replaced is None:
            return logits
        return ops.where(ops.equal(is_replaced, 1), -logits, logits)

    def compute_output_spec(self, sequence_output, is_replaced=None):
        """Return float32 (B, S)."""
        return keras.KerasTensor(sequence_output.shape[:-1], dtype="float32")

    def get_config(self):
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "hidden_size": self.hidden_size,
            "activation": self.activation,
            "initializer_range": self.initializer_range,
        }
