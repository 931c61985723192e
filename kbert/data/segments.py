"""Model inputs of a batch, out of ranges of a corpus' tokens."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kbert.data.next_sentence import Segments
from kbert.data.packing import Packing
from kbert.data.tokenizer import Tokenizer


@dataclass(frozen=True)
class Template:
    """The special tokens of a sequence: [CLS] A [SEP], or with B [SEP].

    Attributes:
        cls_token_id: first token.
        sep_token_id: last token of each segment.
        pad_token_id: fills short rows.
        num_between: [SEP] tokens between A and B: 1, or RoBERTa's 2.
        second_segment: segment id of B and what follows it.
    """

    cls_token_id: int
    sep_token_id: int
    pad_token_id: int
    num_between: int
    second_segment: int

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Template":
        """Read the template of a tokenizer.

        Raises:
            ValueError: if it is none of the above.
        """
        single, pair = tokenizer.encode(""), tokenizer.encode("", "")
        first, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
        num_between = len(pair.ids) - 2
        if single.ids != [first, sep] or pair.ids != [
            first,
            *[sep] * (num_between + 1),
        ]:
            raise ValueError(
                "Expected a tokenizer that puts [CLS] before and [SEP] after "
                f"a text. Received: {single.tokens} and {pair.tokens} for "
                "empty texts"
            )
        return cls(
            first,
            sep,
            tokenizer.pad_token_id,
            num_between,
            pair.type_ids[-1],
        )

    def num_special(self, is_pair: bool) -> int:
        """Return how many special tokens a sequence has."""
        return 2 + self.num_between * is_pair


@dataclass(frozen=True)
class Rows:
    """Padded rows of a batch.

    Attributes:
        token_ids: int32 (B, S).
        segment_ids: int32 (B, S).
        padding_mask: int32 (B, S), 1 = real token.
        word_starts: bool (B, S), or None if the corpus has none.
        labels: int32 (B,), those of the pairs, or None.
        numbers: int64 (B,), which decide about the masks.
        sequence_ids: int32 (B, S), the sequence of each token, from 1 on, 0
            for padding; None where a row is one sequence.
    """

    token_ids: np.ndarray
    segment_ids: np.ndarray
    padding_mask: np.ndarray
    word_starts: np.ndarray | None
    labels: np.ndarray | None
    numbers: np.ndarray
    sequence_ids: np.ndarray | None = None


class PaddedRows(Protocol):
    """Sequences, wherever they are kept.

    Attributes:
        lengths: int (N,), tokens of each, special ones included.
        is_pair: whether they have two segments, and labels.
        pad_token_id: what fills up rows.
    """

    lengths: np.ndarray
    is_pair: bool
    pad_token_id: int

    def __call__(self, indices: np.ndarray, length: int) -> Rows:
        """Return rows of the sequences `indices`, padded to `length`."""
        ...


class SegmentRows:
    """Writes out sequences of segments.

    Args:
        segments: N sequences.
        template: their special tokens.

    Attributes:
        lengths: int64 (N,), tokens of each, special ones included.
        is_pair: whether they have two segments, and labels.
        pad_token_id: what fills up rows.
    """

    def __init__(self, segments: Segments, template: Template):
        """See the class."""
        self._corpus = segments.corpus
        self._template = template
        self.pad_token_id = template.pad_token_id
        self.is_pair = segments.labels is not None
        self._labels = segments.labels
        self._starts = segments.bounds[:, ::2]
        self._sizes = segments.bounds[:, 1::2] - self._starts
        self.lengths = self._sizes.sum(axis=1) + template.num_special(
            self.is_pair
        )

    def __call__(self, indices: np.ndarray, length: int) -> Rows:
        """Return rows of the sequences `indices`, padded to `length`."""
        template = self._template
        column = np.arange(length)
        starts, sizes = self._starts[indices], self._sizes[indices]
        end = self.lengths[indices, None]
        is_real = column < end
        token_ids = np.where(
            is_real, template.sep_token_id, template.pad_token_id
        ).astype(np.int32)
        token_ids[:, 0] = template.cls_token_id
        segment_ids = np.zeros_like(token_ids)
        all_starts = self._corpus.word_starts
        word_starts = np.zeros(token_ids.shape, bool)
        begin = np.ones((len(indices), 1), np.int64)
        for part in range(1 + self.is_pair):
            size = sizes[:, part, None]
            where = (column >= begin) & (column < begin + size)
            source = (starts[:, part, None] - begin + column)[where]
            token_ids[where] = self._corpus.ids[source]
            if all_starts is not None:
                word_starts[where] = all_starts[source]
            if part:
                segment_ids[(column >= begin) & is_real] = (
                    template.second_segment
                )
            begin = begin + size + template.num_between
        return Rows(
            token_ids,
            segment_ids,
            is_real.astype(np.int32),
            None if all_starts is None else word_starts,
            None if self._labels is None else self._labels[indices],
            indices,
        )


class PackedRows:
    """Writes out rows that hold several sequences, end to end.

    Args:
        rows: writes out the sequences.
        capacity: most tokens in a row.
        rng: as for `Packing`.

    Attributes:
        lengths: int64 (R,), tokens of each row that are no padding.
        is_pair: False: rows of several sequences have no label.
        pad_token_id: what fills up rows.
    """

    is_pair = False

    def __init__(
        self,
        rows: PaddedRows,
        capacity: int,
        rng: np.random.Generator | None = None,
    ):
        """See the class."""
        self._rows = rows
        self.pad_token_id = rows.pad_token_id
        self._packing = Packing(rows.lengths, capacity, rng)
        self.lengths = self._packing.lengths

    def __call__(self, indices: np.ndarray, length: int) -> Rows:
        """Return the rows `indices`, padded to `length`."""
        bounds = self._packing.bounds
        counts = bounds[indices + 1] - bounds[indices]
        number = np.arange(counts.sum()) - np.repeat(
            np.cumsum(counts) - counts, counts
        )
        which = self._packing.indices[
            np.repeat(bounds[indices], counts) + number
        ]
        lengths = self._rows.lengths[which]
        apart = self._rows(which, int(lengths.max()))
        is_real = np.arange(length) < self.lengths[indices, None]

        def end_to_end(values: np.ndarray, fill: int) -> np.ndarray:
            packed = np.full(is_real.shape, fill, values.dtype)
            packed[is_real] = values[apart.padding_mask == 1]
            return packed

        word_starts = apart.word_starts
        if word_starts is not None:
            word_starts = end_to_end(word_starts, 0)
        numbers = np.broadcast_to(1 + number[:, None], apart.token_ids.shape)
        return Rows(
            end_to_end(apart.token_ids, self.pad_token_id),
            end_to_end(apart.segment_ids, 0),
            is_real.astype(np.int32),
            word_starts,
            None,
            indices,
            end_to_end(numbers.astype(np.int32), 0),
        )
