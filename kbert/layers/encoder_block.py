"""One Transformer encoder block."""

import keras

from kbert.layers.activations import get_activation
from kbert.layers.composite import CompositeLayer
from kbert.layers.initializers import truncated_normal
from kbert.layers.self_attention import SelfAttention


@keras.saving.register_keras_serializable(package="kbert")
class EncoderBlock(CompositeLayer):
    """Self-attention and a feed-forward layer, each added and normalised.

    Post-norm, as BERT: `x = LayerNorm(x + Dropout(Attention(x)))`, then
    `x = LayerNorm(x + Dropout(FeedForward(x)))`. With `pre_norm`:
    `x = x + Dropout(Attention(LayerNorm(x)))`, then
    `x = x + Dropout(FeedForward(LayerNorm(x)))`.

    Args:
        hidden_size: int, width H; a multiple of `num_heads`.
        num_heads: int.
        intermediate_size: int, width of the feed-forward layer.
        activation: str, "gelu" (exact), "gelu_tanh", or a Keras name.
        hidden_dropout: float, dropout probability after each sublayer.
        attention_dropout: float, dropout probability of attention weights.
        layer_norm_epsilon: float.
        initializer_range: float, standard deviation of the initial kernels.
        has_bias: bool, whether dense layers and normalisations have a bias.
        pre_norm: bool, see above.
        has_input_norm: bool, whether a pre-norm block normalises what
            attention reads; ModernBERT's first does not, its embeddings are
            normalised already.
        gated: bool, whether the feed-forward layer is
            `Dense(activation(Dense(x)) · Dense(x))`, its gate being named
            `gate`.
        rotary_base: float or None, see `SelfAttention`.
        window: int or None, see `SelfAttention`.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        hidden_states: float (B, S, H).
        padding_mask: int or bool (B, S), 1 for a real token, 0 for padding;
            None for no padding.
        attention_bias: float (1 or B, N, S, S) of `RelativeBias`, or None.
        relative_embeddings: float (2S, H) of `RelativeEmbedding`, or None.
        sequence_ids: int (B, S), in place of `padding_mask` in packed rows,
            see `SelfAttention`; or None.
        training: bool, whether dropout is on; it never is in a frozen layer
            (`trainable = False`).

    Returns:
        Float (B, S, H) in the compute dtype.

    Raises:
        ValueError: if `hidden_size` is no multiple of `num_heads`, or a
            post-norm block is to have no normalisation.

    Example:
        >>> import numpy as np, kbert
        >>> block = kbert.layers.EncoderBlock(8, 2, intermediate_size=16)
        >>> tuple(block(np.ones((2, 5, 8), "float32")).shape)
        (2, 5, 8)

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805;
        `transformer_model` in google-research/bert `modeling.py`;
        Shazeer, 2020, https://arxiv.org/abs/2002.05202 (gates);
        Warner et al., 2024, https://arxiv.org/abs/2412.13663 (ModernBERT)
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
        has_bias: bool = True,
        pre_norm: bool = False,
        has_input_norm: bool = True,
        gated: bool = False,
        rotary_base: float | None = None,
        window: int | None = None,
        **kwargs,
    ):
        """See the class."""
        super().__init__(**kwargs)
        if not has_input_norm and not pre_norm:
            raise ValueError(
                "Only a pre-norm block can do without its first "
                "normalisation. Received: has_input_norm=False, pre_norm=False"
            )
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.intermediate_size = intermediate_size
        self.activation = activation
        self.hidden_dropout = hidden_dropout
        self.attention_dropout = attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.has_bias = has_bias
        self.pre_norm = pre_norm
        self.has_input_norm = has_input_norm
        self.gated = gated
        self.rotary_base = rotary_base
        self.window = window

        self.attention = SelfAttention(
            hidden_size,
            num_heads,
            attention_dropout=attention_dropout,
            initializer_range=initializer_range,
            has_bias=has_bias,
            rotary_base=rotary_base,
            window=window,
            dtype=self.dtype_policy,
            name="attention",
        )
        self.attention_layer_norm = (
            self._layer_norm("attention_layer_norm") if has_input_norm else None
        )
        self.intermediate = self._dense(
            intermediate_size, "intermediate", activation
        )
        self.gate = self._dense(intermediate_size, "gate") if gated else None
        # Not `output`: Keras keeps that attribute for itself.
        self.output_dense = self._dense(hidden_size, "output_dense")
        self.output_layer_norm = self._layer_norm("output_layer_norm")
        self.dropout = keras.layers.Dropout(
            hidden_dropout, dtype=self.dtype_policy, name="dropout"
        )

    def _dense(
        self, units: int, name: str, activation: str | None = None
    ) -> keras.layers.Dense:
        return keras.layers.Dense(
            units,
            activation=activation and get_activation(activation),
            use_bias=self.has_bias,
            kernel_initializer=truncated_normal(self.initializer_range),
            dtype=self.dtype_policy,
            name=name,
        )

    def _layer_norm(self, name: str) -> keras.layers.LayerNormalization:
        return keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon,
            center=self.has_bias,
            dtype=self.dtype_policy,
            name=name,
        )

    def build(
        self,
        hidden_states_shape,
        padding_mask_shape=None,
        attention_bias_shape=None,
        relative_embeddings_shape=None,
        sequence_ids_shape=None,
    ):
        """Create the sublayers' weights; the first shape is (B, S, H)."""
        self.attention.build(hidden_states_shape, padding_mask_shape)
        if self.attention_layer_norm is not None:
            self.attention_layer_norm.build(hidden_states_shape)
        self.intermediate.build(hidden_states_shape)
        if self.gate is not None:
            self.gate.build(hidden_states_shape)
        self.output_dense.build(
            (*hidden_states_shape[:-1], self.intermediate_size)
        )
        self.output_layer_norm.build(hidden_states_shape)

    def call(
        self,
        hidden_states,
        padding_mask=None,
        attention_bias=None,
        relative_embeddings=None,
        sequence_ids=None,
        training=None,
    ):
        """See the class."""
        training = training and self.trainable
        if relative_embeddings is not None:
            relative_embeddings = self.dropout(
                relative_embeddings, training=training
            )

        def attend(x):
            attended = self.attention(
                x,
                padding_mask,
                attention_bias,
                relative_embeddings,
                sequence_ids,
                training=training,
            )
            return self.dropout(attended, training=training)

        def feed_forward(x):
            expanded = self.intermediate(x)
            if self.gate is not None:
                expanded = expanded * self.gate(x)
            return self.dropout(self.output_dense(expanded), training=training)

        x = hidden_states
        norm = self.attention_layer_norm
        if self.pre_norm:
            x = x + attend(x if norm is None else norm(x))
            return x + feed_forward(self.output_layer_norm(x))
        assert norm is not None  # only a pre-norm block can lack it
        x = norm(x + attend(x))
        return self.output_layer_norm(x + feed_forward(x))

    def attention_weights(
        self,
        hidden_states,
        padding_mask=None,
        attention_bias=None,
        relative_embeddings=None,
        sequence_ids=None,
    ):
        """Return the weights (B, N, S, S) of `SelfAttention` in a call."""
        norm = self.attention_layer_norm
        if self.pre_norm and norm is not None:
            hidden_states = norm(hidden_states)
        return self.attention.attention_weights(
            hidden_states,
            padding_mask,
            attention_bias,
            relative_embeddings,
            sequence_ids,
        )

    def compute_output_shape(
        self,
        hidden_states_shape,
        padding_mask_shape=None,
        attention_bias_shape=None,
        relative_embeddings_shape=None,
        sequence_ids_shape=None,
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
            "has_bias": self.has_bias,
            "pre_norm": self.pre_norm,
            "has_input_norm": self.has_input_norm,
            "gated": self.gated,
            "rotary_base": self.rotary_base,
            "window": self.window,
        }
