"""From texts or documents to sequences, and from sequences to batches."""

import logging
from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import Any

import numpy as np

from kbert.data.batching import ArraySpec, Batch, BatchOptions
from kbert.data.corpus import (
    Corpus,
    items_of,
    tokenize_documents,
    tokenize_texts,
)
from kbert.data.masking import Masker
from kbert.data.next_sentence import Segments, full_sentences
from kbert.data.segments import SegmentRows, Template
from kbert.data.static_masks import StaticMasks
from kbert.data.texts import short_repr
from kbert.data.tokenizer import Tokenizer

_LOGGER = logging.getLogger("kbert")

# Last words of the seeds, so that no two draws share one. The plan of an epoch
# has (seed, epoch), which numpy reads as (seed, epoch, 0, 0).
_OF_SEGMENTS, _OF_STATIC_MASKS, _OF_BATCH = 1, 2, 3


def make_segments(
    texts: Iterable[Any],
    tokenizer: Tokenizer,
    template: Template,
    *,
    max_length: int,
    make_pairs: Callable[[Corpus, int, np.random.Generator], Segments] | None,
    has_words: bool,
    copies: int,
    seed: int,
) -> Segments:
    """Tokenise texts or documents and arrange them in sequences.

    Args:
        texts: strings, or lists of sentences.
        tokenizer: of the model.
        template: its special tokens.
        max_length: most tokens of a sequence.
        make_pairs: makes pairs of segments of a corpus, the tokens that a
            pair may have, and a generator; None for single segments.
        has_words: whether to find where words start.
        copies: how often to make sequences of everything.
        seed: of what is drawn.

    Returns:
        `Segments`.

    Raises:
        TypeError: if an item is of another type than the first.
        ValueError: if there is no text, `max_length` is too small or
            `make_pairs` refuses.
    """
    room = max_length - template.num_special(make_pairs is not None)
    fewest = 1 if make_pairs is None else 2
    if room < fewest:
        raise ValueError(
            f"Sequences need room for {fewest} tokens beside the special "
            f"ones. Received: max_length={max_length}"
        )
    items = items_of(texts, "texts")
    first = list(islice(items, 1))
    items = chain(first, items)
    if not isinstance(first and first[0], str):
        corpus = tokenize_documents(
            items, tokenizer, max_sentence=room, has_words=has_words
        )
        rng = np.random.default_rng((seed, 0, 0, _OF_SEGMENTS))
        if make_pairs is None:
            packed = full_sentences(corpus, room, template.sep_token_id)
            return _join([packed] * copies)
        return _join([make_pairs(corpus, room, rng) for _ in range(copies)])
    if make_pairs is not None:
        raise TypeError(
            "Pairs of segments are made of documents, lists of sentences: "
            "`read_documents` or `split_sentences` makes them. Received: "
            f"texts[0]={short_repr(first[0])}"
        )
    corpus, num_cut = tokenize_texts(
        items, tokenizer, max_length=room, has_words=has_words
    )
    if num_cut:
        _LOGGER.warning(
            "%d of %d texts have more than max_length=%d tokens and were "
            "truncated.",
            num_cut,
            len(corpus.sentences) - 1,
            max_length,
        )
    starts, ends = corpus.sentences[:-1], corpus.sentences[1:]
    bounds = np.stack([starts, ends, ends, ends], axis=1)
    return _join([Segments(bounds, None, corpus)] * copies)


def _join(parts: list[Segments]) -> Segments:
    """Put sequences of one corpus one after the other."""
    labels = [part.labels for part in parts if part.labels is not None]
    return Segments(
        bounds=np.concatenate([part.bounds for part in parts]),
        labels=np.concatenate(labels) if labels else None,
        corpus=parts[0].corpus,
    )


class PretrainingBatches:
    """Makes the arrays of a batch.

    Args:
        segments: what the sequences hold.
        template: their special tokens.
        options: how they are batched.
        masker: what masks them.
        max_predictions: P, or None for what the length asks for.
        is_static: whether masks are drawn once.
        has_segments: whether the model takes `segment_ids`.
    """

    def __init__(
        self,
        segments: Segments,
        template: Template,
        options: BatchOptions,
        *,
        masker: Masker,
        max_predictions: int | None,
        is_static: bool,
        has_segments: bool,
    ):
        """See the class."""
        self.rows = SegmentRows(segments, template)
        self._labels = segments.labels
        self._has_segments = has_segments
        self._masker = masker
        self._max_predictions = max_predictions
        self._seed = options.seed
        self._static = None
        slots = None
        if max_predictions or options.pad_to == "max":
            slots = self._num_slots(options.max_length)
        if is_static:
            sizes, which = np.unique(self.rows.lengths, return_inverse=True)
            limits = [slots or self._num_slots(int(size)) for size in sizes]
            self._static = StaticMasks(
                self.rows,
                masker,
                np.array(limits)[which],
                np.random.default_rng((options.seed, 0, 0, _OF_STATIC_MASKS)),
            )
        rows = ArraySpec(("B", "S"), "int32")
        names = ["token_ids", "padding_mask"]
        names += ["segment_ids"] * self._has_segments
        inputs = {name: rows for name in names}
        inputs["mask_positions"] = ArraySpec(("B", slots), "int32")
        y: Any = ArraySpec(("B", slots), "int32")
        weights: Any = ArraySpec(("B", slots), "float32")
        if self._labels is not None:
            y = {"mlm": y, "nsp": ArraySpec(("B",), "int32")}
            weights = {"mlm": weights, "nsp": ArraySpec(("B",), "float32")}
        self.signature = (inputs, y, weights)

    def _num_slots(self, length: int) -> int:
        return self._max_predictions or self._masker.num_slots(length)

    def __call__(self, batch: Batch) -> tuple[Any, Any, Any]:
        """Return x, y and sample weights."""
        rows = self.rows(batch.indices, batch.length)
        slots = self._num_slots(batch.length)
        if self._static is not None:
            masked = self._static(rows, batch.indices, slots)
        else:
            seed = (self._seed, batch.epoch, batch.number, _OF_BATCH)
            masked = self._masker(
                rows.token_ids,
                rows.word_starts,
                np.random.default_rng(seed),
                num_slots=slots,
            )
        x = {
            "token_ids": masked.token_ids,
            "padding_mask": rows.padding_mask,
            "mask_positions": masked.positions,
        }
        if self._has_segments:
            x["segment_ids"] = rows.segment_ids
        if self._labels is None:
            return x, masked.labels, masked.weights
        y = {"mlm": masked.labels, "nsp": self._labels[batch.indices]}
        ones = np.ones(len(batch.indices), np.float32)
        return x, y, {"mlm": masked.weights, "nsp": ones}
