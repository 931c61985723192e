"""Which token sees which, and attention to neighbours by blocks."""

from collections.abc import Callable
from typing import Any

from keras import ops

# From this many windows on, blocks of three windows are less work than all
# pairs of tokens, their padding included.
_WINDOWS = 4


def attention_mask(query, padding_mask, window: int | None):
    """Mask of all pairs of tokens that see each other.

    Args:
        query: float (B, S, N, D), read for S alone.
        padding_mask: bool (B, S), or None.
        window: int or None, how far a token sees to each side.

    Returns:
        Bool, broadcastable to (B, N, S, S), or None where all see all.
    """
    mask = None
    if padding_mask is not None:
        mask = padding_mask[:, None, None, :]
    if window is not None:
        places = ops.arange(ops.shape(query)[1])
        distances = ops.abs(places[:, None] - places[None, :])
        near = (distances <= window)[None, None]
        mask = near if mask is None else ops.logical_and(mask, near)
    return mask


def attend_locally(
    attend: Callable[..., Any], query, key, value, padding_mask, window: int
):
    """Attend to neighbours only.

    A long sequence is cut into blocks of `window` tokens, each of which looks
    at itself and the blocks before and after: S x 3 windows of work. A short
    one is less work as a whole.

    Args:
        attend: function of query, key, value, (B, S, N, D) each, and a bool
            mask that broadcasts to (B, N, S, S).
        query: float (B, S, N, D).
        key: likewise.
        value: likewise.
        padding_mask: bool (B, S), or None.
        window: int, how far a token sees to each side.

    Returns:
        Float (B, S, N, D).
    """

    def as_a_whole():
        mask = attention_mask(query, padding_mask, window)
        return attend(query, key, value, mask)

    def by_blocks():
        return _attend_by_blocks(
            attend, query, key, value, padding_mask, window
        )

    length = query.shape[1]
    if length is None:  # TensorFlow, one graph for many lengths
        is_long = ops.shape(query)[1] >= _WINDOWS * window
        return ops.cond(is_long, by_blocks, as_a_whole)
    return by_blocks() if length >= _WINDOWS * window else as_a_whole()


def _attend_by_blocks(attend, query, key, value, padding_mask, window):
    batch, length, heads, size = ops.shape(query)
    blocks = (length + window - 1) // window
    filler = blocks * window - length

    def in_blocks(x, axes):
        """(B, S, …) → (B, blocks, window, …), zeros at the end."""
        x = ops.pad(x, [[0, 0], [0, filler], *([[0, 0]] * axes)])
        return ops.reshape(x, (batch, blocks, window, *ops.shape(x)[2:]))

    def with_neighbours(x, axes):
        """(B, S, …) → (B · blocks, 3 · window, …)."""
        x = in_blocks(x, axes)
        x = ops.pad(x, [[0, 0], [1, 1], *([[0, 0]] * (axes + 1))])
        x = ops.concatenate([x[:, :-2], x[:, 1:-1], x[:, 2:]], axis=2)
        return ops.reshape(x, (batch * blocks, 3 * window, *ops.shape(x)[3:]))

    if padding_mask is None:
        padding_mask = ops.ones((batch, length), dtype="int32")
    real = with_neighbours(ops.cast(padding_mask, "int32"), 0)
    # Key c of a block's three stands at c - window in the block's count.
    ahead = ops.arange(3 * window)[None, :] - ops.arange(window)[:, None]
    near = ops.logical_and(ahead >= 0, ahead <= 2 * window)
    mask = ops.logical_and(
        ops.cast(real, "bool")[:, None, None, :], near[None, None]
    )
    rows = (batch * blocks, window, heads, size)
    context = attend(
        ops.reshape(in_blocks(query, 2), rows),
        with_neighbours(key, 2),
        with_neighbours(value, 2),
        mask,
    )
    context = ops.reshape(context, (batch, blocks * window, heads, size))
    return context[:, :length]
