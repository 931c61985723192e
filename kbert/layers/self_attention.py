"""Bidirectional multi-head self-attention."""

import math

import keras
from keras import ops

from kbert.layers.composite import CompositeLayer
from kbert.layers.initializers import truncated_normal
from kbert.layers.local_attention import attend_locally, attention_mask
from kbert.layers.relative import align
from kbert.layers.rotary import rotate
from kbert.layers.scores import softened_scores, use_flash


@keras.saving.register_keras_serializable(package="kbert")
class SelfAttention(CompositeLayer):
    """Multi-head attention of a sequence to itself, with a padding mask.

    Query, key, value and output are four separate `Dense` layers, named so
    in variable paths.

    Args:
        hidden_size: int, width H; a multiple of `num_heads`.
        num_heads: int, number N of heads.
        attention_dropout: float, dropout probability of attention weights.
        initializer_range: float, standard deviation of the initial kernels.
        has_bias: bool, whether the four layers have a bias.
        rotary_base: float, base of rotary position embeddings of queries
            and keys (RoPE); None for none.
        window: int, number of tokens on each side that a token sees, itself
            apart; None for all. Long sequences then cost S x window, not
            S x S.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        hidden_states: float (B, S, H).
        padding_mask: int or bool (B, S), 1 for a real token, 0 for padding;
            None for no padding. A row with no real token attends equally to
            all its positions.
        attention_bias: float (B or 1, N, S, S), added to the scores; or None.
        relative_embeddings: float (2S, H), of `RelativeEmbedding`; or None.
            Queries and keys then attend to distances too (disentangled
            attention), with the same projections.
        sequence_ids: int (B, S), in place of `padding_mask` where a row holds
            several sequences: each token's sequence, from 1 on, 0 for
            padding. A token sees its own sequence alone; or None.
        training: bool, whether dropout is on; it never is in a frozen layer
            (`trainable = False`).

    Returns:
        Float (B, S, H) in the compute dtype.

    Raises:
        ValueError: if `hidden_size` is no multiple of `num_heads`, or both
            `padding_mask` and `sequence_ids` are given.

    Example:
        >>> import numpy as np, kbert
        >>> layer = kbert.layers.SelfAttention(hidden_size=8, num_heads=2)
        >>> x = np.ones((2, 5, 8), "float32")
        >>> tuple(layer(x, padding_mask=np.ones((2, 5), "int32")).shape)
        (2, 5, 8)

    References:
        Vaswani et al., 2017, https://arxiv.org/abs/1706.03762;
        `attention_layer` in google-research/bert `modeling.py`;
        Su et al., 2021, https://arxiv.org/abs/2104.09864 (RoPE);
        Beltagy et al., 2020, https://arxiv.org/abs/2004.05150 (windows);
        He et al., 2020, https://arxiv.org/abs/2006.03654 (disentangled);
        Krell et al., 2021, https://arxiv.org/abs/2107.02027 (packed rows)
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        attention_dropout: float = 0.1,
        initializer_range: float = 0.02,
        has_bias: bool = True,
        rotary_base: float | None = None,
        window: int | None = None,
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
        self.has_bias = has_bias
        self.rotary_base = rotary_base
        self.window = window

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
            use_bias=self.has_bias,
            kernel_initializer=truncated_normal(self.initializer_range),
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
        """Create the four kernels; the first shape is (B, S, H)."""
        for dense in (self.query, self.key, self.value, self.output_dense):
            dense.build(hidden_states_shape)

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
        if padding_mask is not None and sequence_ids is not None:
            raise ValueError(
                "`sequence_ids` are given in place of `padding_mask`. "
                f"Received: padding_mask={padding_mask}, "
                f"sequence_ids={sequence_ids}"
            )
        query, key, bias, scale = self._compared(
            hidden_states, attention_bias, relative_embeddings
        )
        value = self._split_heads(self.value(hidden_states))
        if padding_mask is not None:
            padding_mask = ops.cast(padding_mask, "bool")
        drops = training and self.trainable and self.attention_dropout

        def attend(query, key, value, mask):
            if drops or bias is not None:
                return self._attend(query, key, value, mask, bias, scale, drops)
            return ops.dot_product_attention(
                query,
                key,
                value,
                mask=mask,
                scale=scale,
                flash_attention=use_flash(),
            )

        if self.window is None or bias is not None:
            mask = attention_mask(
                query, padding_mask, sequence_ids, self.window
            )
            context = attend(query, key, value, mask)
        else:
            context = attend_locally(
                attend,
                query,
                key,
                value,
                padding_mask,
                sequence_ids,
                self.window,
            )
        batch, length = ops.shape(hidden_states)[:2]
        context = ops.reshape(context, (batch, length, self.hidden_size))
        return self.output_dense(context)

    def attention_weights(
        self,
        hidden_states,
        padding_mask=None,
        attention_bias=None,
        relative_embeddings=None,
        sequence_ids=None,
    ):
        """Compute the weights that `call` gives the values, without dropout.

        All pairs of tokens are compared, those outside a window too.

        Args:
            hidden_states: float (B, S, H), as all arguments those of `call`.
            padding_mask: int or bool (B, S), or None.
            attention_bias: float (B or 1, N, S, S), or None.
            relative_embeddings: float (2S, H), or None.
            sequence_ids: int (B, S), or None.

        Returns:
            Float32 (B, N, S, S): [b, n, i, j] is what token i takes of token
            j; each row sums to 1.

        Example:
            >>> import numpy as np, kbert
            >>> layer = kbert.layers.SelfAttention(hidden_size=8, num_heads=2)
            >>> x = np.ones((1, 5, 8), "float32")
            >>> outputs = layer(x)
            >>> print(layer.attention_weights(x)[0, 1, 3].numpy())
            [0.2 0.2 0.2 0.2 0.2]
        """
        query, key, bias, scale = self._compared(
            hidden_states, attention_bias, relative_embeddings
        )
        if padding_mask is not None:
            padding_mask = ops.cast(padding_mask, "bool")
        mask = attention_mask(query, padding_mask, sequence_ids, self.window)
        return softened_scores(query, key, mask, bias, scale)

    def _compared(self, hidden_states, attention_bias, relative_embeddings):
        """Return what the scores are made of.

        That is queries and keys, (B, S, N, D) each, what is added to their
        products or None, and the scale of the products.
        """
        query = self._split_heads(self.query(hidden_states))
        key = self._split_heads(self.key(hidden_states))
        if self.rotary_base is not None:
            query = rotate(query, self.rotary_base)
            key = rotate(key, self.rotary_base)
        scale = 1.0 / math.sqrt(self.hidden_size // self.num_heads)
        if relative_embeddings is not None:
            # Three kinds of scores are added, so each is scaled down more.
            scale /= math.sqrt(3.0)
            scores = self._distance_scores(query, key, relative_embeddings)
            scores = ops.cast(scores, "float32") * scale
            attention_bias = (
                scores if attention_bias is None else scores + attention_bias
            )
        return query, key, attention_bias, scale

    def _split_heads(self, x):
        """(…, S, H) → (…, S, N, D)."""
        head_size = self.hidden_size // self.num_heads
        shape = ops.shape(x)[:-1]
        return ops.reshape(x, (*shape, self.num_heads, head_size))

    def _distance_scores(self, query, key, relative_embeddings):
        """Scores of queries and keys with distances, (B, N, S, S), unscaled.

        Row r of the embeddings is for the distance S - 1 - r from key to
        query. A query looks along its row, a key along its column, where
        distances rise.
        """
        rows = relative_embeddings
        keys = self._split_heads(self.key(rows))
        queries = self._split_heads(self.query(ops.flip(rows, axis=0)))
        to_distance = ops.einsum("bsnd,rnd->bnsr", query, keys)
        from_distance = ops.einsum("bsnd,rnd->bnsr", key, queries)
        return align(to_distance, offset=1) + ops.swapaxes(
            align(from_distance, offset=0), -1, -2
        )

    def _attend(self, query, key, value, mask, bias, scale, drops):
        """Attend as `ops.dot_product_attention`, which has no dropout.

        Nor does it take a bias beside a mask on PyTorch.
        """
        weights = softened_scores(query, key, mask, bias, scale)
        weights = ops.cast(weights, value.dtype)
        if drops:
            weights = self.dropout(weights, training=True)
        return ops.einsum("bnts,bsnd->btnd", weights, value)

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
            "attention_dropout": self.attention_dropout,
            "initializer_range": self.initializer_range,
            "has_bias": self.has_bias,
            "rotary_base": self.rotary_base,
            "window": self.window,
        }
