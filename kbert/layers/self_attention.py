"""Bidirectional multi-head self-attention."""

import math

import keras
from keras import ops

from kbert.layers.initializers import truncated_normal

# Finite in float32, where scores are masked: a fully masked row softens to
# equal weights and never to NaN.
_MASKED_SCORE = -1e30


@keras.saving.register_keras_serializable(package="kbert")
class SelfAttention(keras.layers.Layer):
    """Multi-head attention of a sequence to itself, with a padding mask.

    Query, key, value and output are four separate `Dense` layers, named so
    in variable paths.

    Args:
        hidden_size: int, width H; a multiple of `num_heads`.
        num_heads: int, number N of heads.
        attention_dropout: float, dropout probability of attention weights.
        initializer_range: float, standard deviation of the initial kernels.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        hidden_states: float (B, S, H).
        padding_mask: int or bool (B, S), 1 for a real token, 0 for padding;
            None for no padding. A row with no real token attends equally to
            all its positions.
        training: bool, whether dropout is on; it never is in a frozen layer
            (`trainable = False`).

    Returns:
        Float (B, S, H) in the compute dtype.

    Raises:
        ValueError: if `hidden_size` is no multiple of `num_heads`.

    Example:
        >>> import numpy as np, kbert
        >>> layer = kbert.layers.SelfAttention(hidden_size=8, num_heads=2)
        >>> x = np.ones((2, 5, 8), "float32")
        >>> tuple(layer(x, padding_mask=np.ones((2, 5), "int32")).shape)
        (2, 5, 8)

    References:
        Vaswani et al., 2017, https://arxiv.org/abs/1706.03762;
        `attention_layer` in google-research/bert `modeling.py`
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        attention_dropout: float = 0.1,
        initializer_range: float = 0.02,
        **kwargs,
    ):
        """See the class."""
        super().__init__(**kwargs)
        if hidden_size % num_heads:
            raise ValueError(
                "`hidden_size` must be a multiple of `num_heads`. Received: "
                f"hidden_size={hidden_size}, num_heads={num_heads}"
            )
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.attention_dropout = attention_dropout
        self.initializer_range = initializer_range

        self.query = self._dense("query")
        self.key = self._dense("key")
        self.value = self._dense("value")
        self.output_dense = self._dense("output_dense")
        self.dropout = keras.layers.Dropout(
            attention_dropout, dtype=self.dtype_policy, name="dropout"
        )

    def _dense(self, name: str) -> keras.layers.Dense:
        return keras.layers.Dense(
            self.hidden_size,
            kernel_initializer=truncated_normal(self.initializer_range),
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, hidden_states_shape, padding_mask_shape=None):
        """Create the four kernels; the first shape is (B, S, H)."""
        for dense in (self.query, self.key, self.value, self.output_dense):
            dense.build(hidden_states_shape)

    def call(self, hidden_states, padding_mask=None, training=None):
        """See the class."""
        query = self._split_heads(self.query(hidden_states))
        key = self._split_heads(self.key(hidden_states))
        value = self._split_heads(self.value(hidden_states))
        mask = None
        if padding_mask is not None:
            mask = ops.cast(padding_mask, "bool")[:, None, None, :]
        if training and self.trainable and self.attention_dropout:
            context = self._attend_with_dropout(query, key, value, mask)
        else:
            context = ops.dot_product_attention(
                query, key, value, mask=mask, flash_attention=_use_flash()
            )
        batch, length = ops.shape(hidden_states)[:2]
        context = ops.reshape(context, (batch, length, self.hidden_size))
        return self.output_dense(context)

    def _split_heads(self, x):
        """(B, S, H) → (B, S, N, D)."""
        batch, length = ops.shape(x)[:2]
        head_size = self.hidden_size // self.num_heads
        return ops.reshape(x, (batch, length, self.num_heads, head_size))

    def _attend_with_dropout(self, query, key, value, mask):
        """Attend as `ops.dot_product_attention`, which has no dropout."""
        scale = 1.0 / math.sqrt(self.hidden_size // self.num_heads)
        scores = ops.einsum("btnd,bsnd->bnts", query * scale, key)
        scores = ops.cast(scores, "float32")
        if mask is not None:
            scores = ops.where(mask, scores, _MASKED_SCORE)
        weights = ops.cast(ops.softmax(scores, axis=-1), value.dtype)
        weights = self.dropout(weights, training=True)
        return ops.einsum("bnts,bsnd->btnd", weights, value)

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
            "attention_dropout": self.attention_dropout,
            "initializer_range": self.initializer_range,
        }


def _use_flash() -> bool | None:
    """Return False on a TPU, None (let Keras choose) elsewhere.

    Keras 3.15's automatic choice computed unscaled, causal attention on an
    emulated TPU.
    """
    if keras.backend.backend() != "jax":
        return None
    devices = keras.distribution.list_devices()
    return False if any("tpu" in device for device in devices) else None
