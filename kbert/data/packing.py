"""Which sequences share a row, so that rows are full."""

import numpy as np


class Packing:
    """Sorts items of given lengths into rows of limited length.

    Best fit, longest items first: an item goes into the fullest row that has
    room for it. Items of one length are interchangeable, so whole groups of
    equal rows are filled at once, and a million items take little longer
    than a thousand.

    Args:
        lengths: int (N,), tokens in each item, from 1 to `capacity`.
        capacity: most tokens in a row.
        rng: what deals the items of one length out to the rows that take that
            length; None to deal them in their order.

    Attributes:
        indices: int64 (N,), the items, row by row, in a row the longest
            first.
        bounds: int64 (R + 1,), where rows begin and end in `indices`.
        lengths: int64 (R,), tokens in each row.

    Raises:
        ValueError: if a length is out of range.

    Example:
        >>> from kbert.data.packing import Packing
        >>> packing = Packing([3, 5, 2, 7, 3], capacity=10)
        >>> packing.indices.tolist(), packing.bounds.tolist()
        ([3, 0, 1, 4, 2], [0, 2, 5])

    References:
        Krell et al., 2021, https://arxiv.org/abs/2107.02027, algorithm 1;
        Johnson, 1973, "Near-optimal bin packing algorithms" (the bound: 11/9
        of the fewest rows possible)
    """

    def __init__(
        self,
        lengths: np.ndarray | list[int],
        capacity: int,
        rng: np.random.Generator | None = None,
    ):
        """See the class."""
        lengths = np.asarray(lengths, np.int64)
        wrong = lengths[(lengths < 1) | (lengths > capacity)]
        if len(wrong):
            raise ValueError(
                f"Items must have from 1 to capacity={capacity} tokens. "
                f"Received: one of {wrong[0]}"
            )
        sizes, kinds = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for kind, count in _fill_rows(np.bincount(lengths), capacity):
            repeats = [number for _, number in kind]
            row = np.repeat([length for length, _ in kind], repeats)
            kinds.append(np.tile(row, count))
            sizes.append(np.full(count, len(row)))
        slots = np.concatenate(kinds)
        self.bounds = np.cumsum(np.concatenate([[0], *sizes]))
        totals = np.concatenate([[0], np.cumsum(slots)])
        self.lengths = np.diff(totals[self.bounds])
        order = np.arange(len(lengths))
        if rng is not None:
            order = rng.permutation(order)
        self.indices = np.empty(len(lengths), np.int64)
        self.indices[np.argsort(slots, kind="stable")] = order[
            np.argsort(lengths[order], kind="stable")
        ]


# What a row holds: lengths, falling, and how many items of each.
_Kind = tuple[tuple[int, int], ...]


def _fill_rows(counts: np.ndarray, capacity: int) -> list[tuple[_Kind, int]]:
    """Return kinds of rows, and how many there are of each.

    Args:
        counts: int (M + 1,), items of each length.
        capacity: most tokens in a row.
    """
    # Room left → groups of equal rows.
    groups: dict[int, list[tuple[_Kind, int]]] = {}
    for length in np.flatnonzero(counts)[::-1].tolist():
        left = int(counts[length])
        # The fullest first; an empty row where no other has room.
        for room in [*sorted(r for r in groups if r >= length), capacity]:
            if not left:
                break
            fit = room // length
            before = groups.pop(room, [])
            if room == capacity:
                before = [((), -(-left // fit))]
            for kind, count in before:
                full = min(count, left // fit)
                last = min(left - full * fit, fit) if count > full else 0
                left -= full * fit + last
                for number, rows in (
                    (fit, full),
                    (last, int(last > 0)),
                    (0, count - full - (last > 0)),
                ):
                    if rows:
                        more = ((length, number),) if number else ()
                        groups.setdefault(room - number * length, []).append(
                            (kind + more, rows)
                        )
    return [group for room in sorted(groups) for group in groups[room]]
