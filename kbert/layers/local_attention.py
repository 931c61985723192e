"""Which token sees which, and attention to neighbours by blocks."""

from collections.abc import Callable
from typing import Any

from keras import ops

# From this many windows on, blocks that see three are less work than all pairs
# of tokens, what fills up the last block included.
_WINDOWS = 4


def same_sequence(queries, keys):
    """Which tokens are of one sequence: (…, T), (…, S) → bool (…, T, S)."""
    return ops.equal(ops.expand_dims(queries, -1), ops.expand_dims(keys, -2))


def attention_mask(query, padding_mask, sequence_ids, window: int | None):
    """Mask of all pairs of tokens that see each other.

    Args:
        query: float (B, S, N, D), read for S alone.
        padding_mask: bool (B, S), or None.
        sequence_ids: int (B, S), or None.
        window: int or None, how far a token sees to each side.

    Returns:
        Bool, broadcastable to (B, N, S, S), or None where all see all.
    """
    mask = None
    if padding_mask is not None:
        mask = padding_mask[:, None, None, :]
    if sequence_ids is not None:
        mask = same_sequence(sequence_ids, sequence_ids)[:, None]
    if window is not None:
        places = ops.arange(ops.shape(query)[1])
        distances = ops.abs(places[:, None] - places[None, :])
        near = (distances <= window)[None, None]
        mask = near if mask is None else ops.logical_and(mask, near)
    return mask


def attend_locally(
    attend: Callable[..., Any],
    query,
    key,
    value,
    padding_mask,
    sequence_ids,
    window: int,
):
    """Attend to neighbours only.

    A long sequence is cut into blocks of `window` tokens, each of which looks
    at itself and the blocks before and after: S x 3 windows of work. A
    sequence that is known to be short is less work as a whole.

    Args:
        attend: function of query, key, value, (B, S, N, D) each, and a bool
            mask that broadcasts to (B, N, S, S).
        query: float (B, S, N, D).
        key: likewise.
        value: likewise.
        padding_mask: bool (B, S), or None.
        sequence_ids: int (B, S), 0 or more, or None.
        window: int, how far a token sees to each side.

    Returns:
        Float (B, S, N, D).
    """
    length = query.shape[1]
    if length is not None and length < _WINDOWS * window:
        mask = attention_mask(query, padding_mask, sequence_ids, window)
        return attend(query, key, value, mask)

    batch, length, heads, size = ops.shape(query)
    # No cond on the length: XLA cannot differentiate one whose branches have
    # other shapes. One block is enough for a sequence under a window.
    block = ops.minimum(window, length) if query.shape[1] is None else window
    blocks = (length + block - 1) // block
    filler = blocks * block - length

    def in_blocks(x, axes):
        """(B, S, …) → (B, blocks, block, …), zeros at the end."""
        x = ops.pad(x, [[0, 0], [0, filler], *([[0, 0]] * axes)])
        return ops.reshape(x, (batch, blocks, block, *ops.shape(x)[2:]))

    def with_neighbours(x, axes):
        """(B, S, …) → (B · blocks, 3 · block, …)."""
        x = in_blocks(x, axes)
        x = ops.pad(x, [[0, 0], [1, 1], *([[0, 0]] * (axes + 1))])
        x = ops.concatenate([x[:, :-2], x[:, 1:-1], x[:, 2:]], axis=2)
        return ops.reshape(x, (batch * blocks, 3 * block, *ops.shape(x)[3:]))

    if sequence_ids is not None:
        # One more than before, so that no token is of the fillers' number.
        numbers = ops.cast(sequence_ids, "int32") + 1
        seen = same_sequence(
            ops.reshape(in_blocks(numbers, 0), (batch * blocks, block)),
            with_neighbours(numbers, 0),
        )[:, None]
    else:
        if padding_mask is None:
            padding_mask = ops.ones((batch, length), dtype="int32")
        real = with_neighbours(ops.cast(padding_mask, "int32"), 0)
        seen = ops.cast(real, "bool")[:, None, None, :]
    # Key k of a block's three stands at k - block in the block's count.
    ahead = ops.arange(3 * block)[None, :] - ops.arange(block)[:, None] - block
    mask = ops.logical_and(seen, (ops.abs(ahead) <= window)[None, None])
    context = attend(
        ops.reshape(in_blocks(query, 2), (batch * blocks, block, heads, size)),
        with_neighbours(key, 2),
        with_neighbours(value, 2),
        mask,
    )
    context = ops.reshape(context, (batch, blocks * block, heads, size))
    return context[:, :length]
