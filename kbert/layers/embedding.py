"""Token, segment and position embeddings."""

import keras
from keras import ops

from kbert.layers.composite import CompositeLayer
from kbert.layers.initializers import truncated_normal
from kbert.layers.local_attention import same_sequence


class _Table(keras.layers.Embedding):
    """An embedding table that mixed precision does not cast.

    Keras would cast the whole table before it gathers a few rows, and the
    gradient would come back dense; both cost more than the lookup. It only
    changes how the weight is added, so a plain `Embedding` reads its config.
    """

    def add_weight(self, *args, **kwargs):
        kwargs["autocast"] = False
        return super().add_weight(*args, **kwargs)


@keras.saving.register_keras_serializable(package="kbert")
class BertEmbedding(CompositeLayer):
    """Sum of token, position and segment embeddings, normalised.

    `LayerNorm(token + position + segment)`, then dropout, then a projection
    to `hidden_size` where the tables are narrower. Called with
    `reverse=True` it maps hidden states back to the vocabulary with the
    same table: weights are tied by calling this layer again, never by
    handing it to another layer.

    Args:
        vocab_size: int, rows of the token table.
        hidden_size: int, width H of the output.
        max_positions: int, longest sequence.
        num_segments: int, rows of the segment table; 0 for none, and then
            `segment_ids` is not accepted.
        embedding_size: int, width E of tables that are projected to H; or
            None for tables of width H and no projection.
        position_offset: int, row of the position table for the first token.
        pad_token_id: int, the id that fills up sequences. Only kept, for
            whoever writes a checkpoint; padding is masked by attention.
        family: str, the checkpoint family. Likewise only kept.
        has_position_table: bool, whether position embeddings are added; not
            where attention knows positions itself.
        has_bias: bool, whether normalisation and projection have a bias.
        hidden_dropout: float, dropout probability of the output.
        layer_norm_epsilon: float.
        initializer_range: float, standard deviation of the initial tables.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        token_ids: int (B, S), each in [0, vocab_size); with
            `reverse=True`, float (..., E).
        segment_ids: int (B, S), each in [0, num_segments), or None for all
            zero.
        sequence_ids: int (B, S), where a row holds several sequences: each
            token's sequence. Positions count from 0 in each. None for one
            sequence a row.
        training: bool, whether dropout is on; it never is in a frozen layer
            (`trainable = False`).
        reverse: bool, whether to project to the vocabulary.
        project: bool, whether narrower tables are projected; False for a
            second encoder on the same tables, with a projection of its own.

    Returns:
        Float (B, S, H) in the compute dtype, or (B, S, E) with
        `project=False`; with `reverse=True` float (..., V), without a bias.

    Raises:
        ValueError: if S, where known, is over `max_positions`, or
            `segment_ids` are given to a layer with no segments.

    Example:
        >>> import numpy as np, kbert
        >>> layer = kbert.layers.BertEmbedding(100, 8, max_positions=16)
        >>> hidden = layer(np.array([[2, 7, 3]]))
        >>> tuple(hidden.shape), tuple(layer(hidden, reverse=True).shape)
        ((1, 3, 8), (1, 3, 100))

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805;
        `embedding_postprocessor` in google-research/bert `modeling.py`;
        Press & Wolf, 2016, https://arxiv.org/abs/1608.05859 (tying)
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        max_positions: int = 512,
        num_segments: int = 2,
        embedding_size: int | None = None,
        position_offset: int = 0,
        pad_token_id: int = 0,
        family: str = "bert",
        hidden_dropout: float = 0.1,
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        has_position_table: bool = True,
        has_bias: bool = True,
        **kwargs,
    ):
        """See the class."""
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.max_positions = max_positions
        self.num_segments = num_segments
        self.embedding_size = embedding_size
        self.position_offset = position_offset
        self.pad_token_id = pad_token_id
        self.family = family
        self.hidden_dropout = hidden_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.has_position_table = has_position_table
        self.has_bias = has_bias

        self.token = self._table(vocab_size, "token")
        self.position = (
            self._table(max_positions + position_offset, "position")
            if has_position_table
            else None
        )
        self.segment = (
            self._table(num_segments, "segment") if num_segments else None
        )
        self.layer_norm = keras.layers.LayerNormalization(
            epsilon=layer_norm_epsilon,
            center=has_bias,
            dtype=self.dtype_policy,
            name="layer_norm",
        )
        self.dropout = keras.layers.Dropout(
            hidden_dropout, dtype=self.dtype_policy, name="dropout"
        )
        self.projection = None
        if embedding_size is not None:
            self.projection = keras.layers.Dense(
                hidden_size,
                use_bias=has_bias,
                kernel_initializer=truncated_normal(initializer_range),
                dtype=self.dtype_policy,
                name="projection",
            )

    def _table(self, rows: int, name: str) -> keras.layers.Embedding:
        return _Table(
            rows,
            self.embedding_size or self.hidden_size,
            embeddings_initializer=truncated_normal(self.initializer_range),
            dtype=self.variable_dtype,
            name=name,
        )

    def build(
        self, token_ids_shape, segment_ids_shape=None, sequence_ids_shape=None
    ):
        """Create the tables; shapes are (B, S)."""
        table_shape = (*token_ids_shape, self.token.output_dim)
        self.token.build(token_ids_shape)
        if self.position is not None:
            self.position.build(token_ids_shape)
        if self.segment is not None:
            self.segment.build(token_ids_shape)
        self.layer_norm.build(table_shape)
        if self.projection is not None:
            self.projection.build(table_shape)

    def call(
        self,
        token_ids,
        segment_ids=None,
        sequence_ids=None,
        training=None,
        reverse=False,
        project=True,
    ):
        """See the class."""
        if reverse:
            table = ops.cast(self.token.embeddings, self.compute_dtype)
            return ops.matmul(token_ids, ops.transpose(table))
        self._check_inputs(token_ids, segment_ids)
        x = self.token(token_ids)
        if self.position is not None and sequence_ids is not None:
            places = self.position_offset + _places(sequence_ids)
            x = x + self.position(places)
        elif self.position is not None:
            # A slice, not a gather: its gradient is a dense pad.
            first, length = self.position_offset, ops.shape(token_ids)[1]
            table = ops.convert_to_tensor(self.position.embeddings)
            x = x + table[first : first + length]
        if self.segment is not None:
            if segment_ids is None:
                segment_ids = ops.zeros_like(token_ids)
            x = x + self.segment(segment_ids)
        training = training and self.trainable
        x = self.dropout(self.layer_norm(x), training=training)
        if project and self.projection is not None:
            x = self.projection(x)
        return x

    def _check_inputs(self, token_ids, segment_ids) -> None:
        length = token_ids.shape[1]
        if length is not None and length > self.max_positions:
            raise ValueError(
                f"Sequences may have at most max_positions="
                f"{self.max_positions} tokens. Received: "
                f"token_ids.shape={tuple(token_ids.shape)}"
            )
        if segment_ids is not None and self.segment is None:
            raise ValueError(
                "This layer has no segment table (num_segments=0). Received: "
                f"segment_ids={segment_ids}"
            )

    def compute_output_spec(
        self,
        token_ids,
        segment_ids=None,
        sequence_ids=None,
        training=None,
        reverse=False,
        project=True,
    ):
        """Return the shape and dtype that `call` gives."""
        if reverse:
            shape = (*token_ids.shape[:-1], self.vocab_size)
        else:
            self._check_inputs(token_ids, segment_ids)
            width = self.hidden_size if project else self.token.output_dim
            shape = (*token_ids.shape, width)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self):
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "max_positions": self.max_positions,
            "num_segments": self.num_segments,
            "embedding_size": self.embedding_size,
            "position_offset": self.position_offset,
            "pad_token_id": self.pad_token_id,
            "family": self.family,
            "hidden_dropout": self.hidden_dropout,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
            "has_position_table": self.has_position_table,
            "has_bias": self.has_bias,
        }


def _places(sequence_ids):
    """How many tokens of its sequence come before each token, int (B, S)."""
    places = ops.arange(ops.shape(sequence_ids)[1])
    is_before = same_sequence(sequence_ids, sequence_ids)
    is_before = ops.logical_and(is_before, places < places[:, None])
    return ops.sum(ops.cast(is_before, "int32"), axis=-1)
