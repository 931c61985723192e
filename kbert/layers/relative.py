"""What attention knows of the distance between two tokens."""

import math
from collections.abc import Callable

import keras
from keras import ops

from kbert.layers.composite import CompositeLayer
from kbert.layers.initializers import truncated_normal


def bias_bucket(distance: int, num_buckets: int, max_distance: int) -> int:
    """Bucket of a distance from key to query, as T5 and MPNet count.

    Half of the buckets are for keys behind the query, half for those before
    it; of each half, half hold one distance each and the rest grow
    logarithmically up to `max_distance`.
    """
    half = num_buckets // 2
    first = half if distance < 0 else 0
    distance, exact = abs(distance), half // 2
    if distance < exact:
        return first + distance
    growth = math.log(distance / exact) / math.log(max_distance / exact)
    # The last digit of a logarithm must not move a power of two.
    more = math.floor(growth * (half - exact) + 1e-6)
    return first + min(exact + more, half - 1)


def disentangled_bucket(
    distance: int, num_buckets: int, max_distance: int
) -> int:
    """Row of the table for a distance from key to query, as DeBERTa counts.

    Distances under half of `num_buckets` have a row each, the others share
    rows logarithmically; a negative distance mirrors a positive one.
    """
    middle = num_buckets // 2
    bucket = abs(distance)
    if bucket > middle:
        growth = math.log(bucket / middle)
        growth /= math.log((max_distance - 1) / middle)
        bucket = middle + math.ceil(growth * (middle - 1) - 1e-9)
    signed = bucket if distance > 0 else -bucket
    return min(max(num_buckets + signed, 0), 2 * num_buckets - 1)


def _rows(
    bucket: Callable[[int, int, int], int], num_buckets: int, max_distance: int
) -> list[int]:
    """Row of every distance from -max_distance to max_distance."""
    return [
        bucket(distance, num_buckets, max_distance)
        for distance in range(-max_distance, max_distance + 1)
    ]


def _rows_of(rows: list[int], length):
    """Those of `_rows` for the distances length - 1, …, -length."""
    farthest = len(rows) // 2
    distances = length - 1 - ops.arange(2 * length)
    indices = ops.clip(distances, -farthest, farthest) + farthest
    return ops.take(ops.convert_to_tensor(rows), indices, axis=0)


def align(scores, offset: int):
    """Turn scores by distance into scores by position.

    Row i of `scores` has a column for each distance, in order; the S columns
    that lie inside the sequence start at column S - offset - i. A reshape
    picks them, not a gather: rows that are read one column short start one
    column earlier each.

    Args:
        scores: float (B, N, S, 2S).
        offset: 1 where distances fall from S - 1, 0 where they rise from -S.

    Returns:
        Float (B, N, S, S).

    References:
        Dai et al., 2019, https://arxiv.org/abs/1901.02860, appendix B
    """
    batch, heads, length = ops.shape(scores)[:3]
    flat = ops.reshape(scores, (batch, heads, 2 * length * length))
    start = length - offset
    flat = flat[:, :, start : start + length * (2 * length - 1)]
    rows = ops.reshape(flat, (batch, heads, length, 2 * length - 1))
    return rows[..., :length]


@keras.saving.register_keras_serializable(package="kbert")
class RelativeBias(CompositeLayer):
    """A learned number for each head and distance, added to the scores.

    Computed once and shared by all blocks, as `attention_bias` of
    `EncoderBlock`.

    Args:
        num_heads: int, number N of heads.
        num_buckets: int, rows of the table: half for each direction.
        max_distance: int, distance in tokens from which on all share a row.
        initializer_range: float, standard deviation of the initial table.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        hidden_states: (B, S, …), read for S alone.

    Returns:
        Float (1, N, S, S) in the compute dtype; [0, n, i, j] is for query i
        and key j.

    Example:
        >>> import numpy as np, kbert
        >>> layer = kbert.layers.RelativeBias(num_heads=2)
        >>> tuple(layer(np.ones((3, 5, 8), "float32")).shape)
        (1, 2, 5, 5)

    References:
        Raffel et al., 2019, https://arxiv.org/abs/1910.10683, section 2.1;
        Song et al., 2020, https://arxiv.org/abs/2004.09297 (MPNet)
    """

    def __init__(
        self,
        num_heads: int,
        num_buckets: int = 32,
        max_distance: int = 128,
        initializer_range: float = 0.02,
        **kwargs,
    ):
        """See the class."""
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.initializer_range = initializer_range
        self.rows = _rows(bias_bucket, num_buckets, max_distance)

    def build(self, hidden_states_shape):
        """Create the table."""
        self.embeddings = self.add_weight(
            shape=(self.num_buckets, self.num_heads),
            initializer=truncated_normal(self.initializer_range),
            name="embeddings",
        )

    def call(self, hidden_states):
        """See the class."""
        length = ops.shape(hidden_states)[1]
        rows = _rows_of(self.rows, length)
        bias = ops.take(self.embeddings, rows, axis=0)  # (2S, N)
        bias = ops.transpose(bias)[None, :, None, :]
        return align(ops.tile(bias, (1, 1, length, 1)), offset=1)

    def compute_output_shape(self, hidden_states_shape):
        """Return (1, N, S, S)."""
        length = hidden_states_shape[1]
        return (1, self.num_heads, length, length)

    def get_config(self):
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
            "initializer_range": self.initializer_range,
        }


@keras.saving.register_keras_serializable(package="kbert")
class RelativeEmbedding(CompositeLayer):
    """A normalised embedding of each distance between two tokens.

    Computed once and shared by all blocks, as `relative_embeddings` of
    `EncoderBlock`, whose queries and keys attend to it (disentangled
    attention).

    Args:
        hidden_size: int, width H.
        num_buckets: int, rows of the table for one direction.
        max_distance: int, distance in tokens from which on all share a row.
        layer_norm_epsilon: float.
        initializer_range: float, standard deviation of the initial table.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        hidden_states: (B, S, …), read for S alone.

    Returns:
        Float (2S, H) in the compute dtype: row r is for a query that stands
        S - 1 - r tokens behind its key.

    Example:
        >>> import numpy as np, kbert
        >>> layer = kbert.layers.RelativeEmbedding(hidden_size=8)
        >>> tuple(layer(np.ones((3, 5, 8), "float32")).shape)
        (10, 8)

    References:
        He et al., 2020, https://arxiv.org/abs/2006.03654, section 3.1;
        `make_log_bucket_position` in microsoft/DeBERTa
        `deberta/disentangled_attention.py`
    """

    def __init__(
        self,
        hidden_size: int,
        num_buckets: int = 256,
        max_distance: int = 512,
        layer_norm_epsilon: float = 1e-7,
        initializer_range: float = 0.02,
        **kwargs,
    ):
        """See the class."""
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.rows = _rows(disentangled_bucket, num_buckets, max_distance)
        self.layer_norm = keras.layers.LayerNormalization(
            epsilon=layer_norm_epsilon,
            dtype=self.dtype_policy,
            name="layer_norm",
        )

    def build(self, hidden_states_shape):
        """Create the table."""
        self.embeddings = self.add_weight(
            shape=(2 * self.num_buckets, self.hidden_size),
            initializer=truncated_normal(self.initializer_range),
            name="embeddings",
        )
        self.layer_norm.build((None, self.hidden_size))

    def call(self, hidden_states):
        """See the class."""
        rows = _rows_of(self.rows, ops.shape(hidden_states)[1])
        # Normalised first: of few rows, each is needed many times.
        table = self.layer_norm(self.embeddings)
        return ops.take(table, rows, axis=0)

    def compute_output_shape(self, hidden_states_shape):
        """Return (2S, H)."""
        length = hidden_states_shape[1]
        return (None if length is None else 2 * length, self.hidden_size)

    def get_config(self):
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "hidden_size": self.hidden_size,
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
        }
