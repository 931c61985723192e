"""Masks that are drawn once and kept."""

import numpy as np

from kbert.data.batching import FlatRows
from kbert.data.masking import MaskedTokens, Masker
from kbert.data.segments import Rows, SegmentRows

_CHUNK = 256


class StaticMasks:
    """The same masks for a sequence every time it is asked for.

    Keeps a position and a token for each mask, 8 bytes.

    Args:
        rows: the sequences.
        masker: what masks them.
        limits: int (N,), most masks in each.
        rng: what draws.
    """

    def __init__(
        self,
        rows: SegmentRows,
        masker: Masker,
        limits: np.ndarray,
        rng: np.random.Generator,
    ):
        """See the class."""
        positions, tokens, counts = [], [], []
        for start in range(0, len(rows.lengths), _CHUNK):
            lengths = rows.lengths[start : start + _CHUNK]
            batch = rows(
                np.arange(start, start + len(lengths)), int(lengths.max())
            )
            some = limits[start : start + len(lengths)]
            masked = masker(
                batch.token_ids,
                batch.word_starts,
                rng,
                num_slots=int(some.max()),
                limits=some,
            )
            is_used = masked.weights > 0
            counts.append(is_used.sum(axis=1))
            positions.append(masked.positions[is_used])
            new = np.take_along_axis(masked.token_ids, masked.positions, axis=1)
            tokens.append(new[is_used])
        sizes = np.concatenate(counts)
        self._positions = FlatRows(np.concatenate(positions), sizes)
        self._tokens = FlatRows(np.concatenate(tokens), sizes)
        self._counts = sizes

    def __call__(
        self, rows: Rows, indices: np.ndarray, num_slots: int
    ) -> MaskedTokens:
        """Mask the sequences `indices`, written out in `rows`."""
        positions = self._positions.padded(indices, num_slots, 0)
        tokens = self._tokens.padded(indices, num_slots, 0)
        is_used = np.arange(num_slots) < self._counts[indices, None]
        row, _ = np.nonzero(is_used)
        labels = np.zeros_like(positions)
        labels[is_used] = rows.token_ids[row, positions[is_used]]
        corrupted = rows.token_ids.copy()
        corrupted[row, positions[is_used]] = tokens[is_used]
        return MaskedTokens(
            corrupted, positions, labels, is_used.astype(np.float32)
        )
