"""One Transformer encoder block."""

import keras

from kbert.layers.activations import get_activation
from kbert.layers.initializers import truncated_normal
from kbert.layers.self_attention import SelfAttention


@keras.saving.register_keras_serializable(package="kbert")
class EncoderBlock(keras.layers.Layer):
    """Self-attention and a feed-forward layer, each added and normalised.

    Post-norm, as BERT: `x = LayerNorm(x + Dropout(Attention(x)))`, then
    `x = LayerNorm(x + Dropout(FeedForward(x)))`.

    Args:
        hidden_size: int, width H; a multiple of `num_heads`.
        num_heads: int.
        intermediate_size: int, width of the feed-forward layer.
        activation: str, "gelu" (exact), "gelu_tanh", or a Keras name.
        hidden_dropout: float, dropout probability after each sublayer.
        attention_dropout: float, dropout probability of attention weights.
        layer_norm_epsilon: float.
        initializer_range: float, standard deviation of the initial kernels.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        hidden_states: float (B, S, H).
        padding_mask: int or bool (B, S), 1 for a real token, 0 for padding;
            None for no padding.
        training: bool, whether dropout is on; it never is in a frozen layer
            (`trainable = False`).

    Returns:
        Float (B, S, H) in the compute dtype.

    Raises:
        ValueError: if `hidden_size` is no multiple of `num_heads`.

    Example:
        >>> import numpy as np, kbert
        >>> block = kbert.layers.EncoderBlock(8, 2, intermediate_size=16)
        >>> tuple(block(np.ones((2, 5, 8), "float32")).shape)
        (2, 5, 8)

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805;
        `transformer_model` in google-research/bert `modeling.py`
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        intermediate_size: int,
        activation: str = "gelu",
        hidden_dropout: float = 0.1,
        attention_dropout: float = 0.1,
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        **kwargs,
    ):
        """See the class."""
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.intermediate_size = intermediate_size
        self.activation = activation
        self.hidden_dropout = hidden_dropout
        self.attention_dropout = attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range

        self.attention = SelfAttention(
            hidden_size,
            num_heads,
            attention_dropout=attention_dropout,
            initializer_range=initializer_range,
            dtype=self.dtype_policy,
            name="attention",
        )
        self.attention_layer_norm = self._layer_norm("attention_layer_norm")
        self.intermediate = keras.layers.Dense(
            intermediate_size,
            activation=get_activation(activation),
            kernel_initializer=truncated_normal(initializer_range),
            dtype=self.dtype_policy,
            name="intermediate",
        )
        # Not `output`: Keras keeps that attribute for itself.
        self.output_dense = keras.layers.Dense(
            hidden_size,
            kernel_initializer=truncated_normal(initializer_range),
            dtype=self.dtype_policy,
            name="output_dense",
        )
        self.output_layer_norm = self._layer_norm("output_layer_norm")
        self.dropout = keras.layers.Dropout(
            hidden_dropout, dtype=self.dtype_policy, name="dropout"
        )

    def _layer_norm(self, name: str) -> keras.layers.LayerNormalization:
        return keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name
        )

    def build(self, hidden_states_shape, padding_mask_shape=None):
        """Create the sublayers' weights; the first shape is (B, S, H)."""
        self.attention.build(hidden_states_shape, padding_mask_shape)
        self.attention_layer_norm.build(hidden_states_shape)
        self.intermediate.build(hidden_states_shape)
        self.output_dense.build(
            (*hidden_states_shape[:-1], self.intermediate_size)
        )
        self.output_layer_norm.build(hidden_states_shape)

    def call(self, hidden_states, padding_mask=None, training=None):
        """See the class."""
        training = training and self.trainable
        x = hidden_states
        attended = self.attention(x, padding_mask, training=training)
        attended = self.dropout(attended, training=training)
        x = self.attention_layer_norm(x + attended)
        expanded = self.output_dense(self.intermediate(x))
        expanded = self.dropout(expanded, training=training)
        return self.output_layer_norm(x + expanded)

    def compute_output_shape(
        self, hidden_states_shape, padding_mask_shape=None
    ):
        """Return (B, S, H)."""
        return hidden_states_shape

    def get_config(self):
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "hidden_size": self.hidden_size,
            "num_heads": self.num_heads,
            "intermediate_size": self.intermediate_size,
            "activation": self.activation,
            "hidden_dropout": self.hidden_dropout,
            "attention_dropout": self.attention_dropout,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
        }
