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
from kbert.data.mask_draws import draw_for_masks
from kbert.data.masking import Masker
from kbert.data.next_sentence import Segments, cut_documents, full_sentences
from kbert.data.segments import PackedRows, PaddedRows, Template
from kbert.data.texts import short_repr
from kbert.data.tokenizer import Tokenizer

_LOGGER = logging.getLogger("kbert")

# Last words of the seeds, so that no two draws share one. The plan of an epoch
# has (seed, epoch), which numpy reads as (seed, epoch, 0, 0).
_OF_SEGMENTS, _OF_PACKING = 1, 4


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
    chunk: int = 0,
    pack: bool = False,
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
        chunk: which part of a larger corpus this is; each draws anew.
        pack: whether several sequences will share a row. Then no sequence
            holds two documents.

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
        rng = np.random.default_rng((seed, chunk, 0, _OF_SEGMENTS))
        if pack:
            return _join([cut_documents(corpus, room)] * copies)
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


def _packed(rows: PaddedRows, options: BatchOptions) -> PackedRows:
    seed = (options.seed, 0, 0, _OF_PACKING)
    rng = np.random.default_rng(seed) if options.shuffle else None
    packed = PackedRows(rows, options.max_length, rng)
    tokens = len(packed.lengths) * options.max_length
    _LOGGER.info(
        "%d sequences share %d rows; %.1f %% of the tokens are real.",
        len(rows.lengths),
        len(packed.lengths),
        100 * packed.lengths.sum() / max(tokens, 1),
    )
    return packed


class PretrainingBatches:
    """Makes the arrays of a batch.

    Args:
        rows: the sequences.
        options: how they are batched.
        masker: what masks them.
        max_predictions: P, or None for what the length asks for.
        is_static: whether every epoch has the same masks.
        has_segments: whether the model takes `segment_ids`.
        pack: whether several sequences share a row. `options` then pad to
            "max".
    """

    def __init__(
        self,
        rows: PaddedRows,
        options: BatchOptions,
        *,
        masker: Masker,
        max_predictions: int | None,
        is_static: bool,
        has_segments: bool,
        pack: bool = False,
    ):
        """See the class."""
        self.rows = _packed(rows, options) if pack else rows
        self._has_segments = has_segments
        self._masker = masker
        self._max_predictions = max_predictions
        self._seed = options.seed
        self._is_static = is_static
        slots = None
        if max_predictions or options.pad_to == "max":
            slots = self._num_slots(options.max_length)
        # A sequence's own, so that masks do not depend on what it is with.
        self._limits = np.array(
            [
                slots or self._num_slots(length)
                for length in range(options.max_length + 1)
            ]
        )
        array = ArraySpec(("B", "S"), "int32")
        names = ["token_ids", "sequence_ids" if pack else "padding_mask"]
        names += ["segment_ids"] * self._has_segments
        inputs = {name: array for name in names}
        inputs["mask_positions"] = ArraySpec(("B", slots), "int32")
        y: Any = ArraySpec(("B", slots), "int32")
        weights: Any = ArraySpec(("B", slots), "float32")
        if rows.is_pair:
            y = {"mlm": y, "nsp": ArraySpec(("B",), "int32")}
            weights = {"mlm": weights, "nsp": ArraySpec(("B",), "float32")}
        self.signature = (inputs, y, weights)

    def _num_slots(self, length: int) -> int:
        return self._max_predictions or self._masker.num_slots(length)

    def __call__(self, batch: Batch) -> tuple[Any, Any, Any]:
        """Return x, y and sample weights."""
        rows = self.rows(batch.indices, batch.length)
        epoch = 0 if self._is_static else batch.epoch
        masked = self._masker(
            rows.token_ids,
            rows.word_starts,
            draw_for_masks(self._seed, epoch, rows.numbers, batch.length),
            num_slots=self._num_slots(batch.length),
            limits=self._limits[self.rows.lengths[batch.indices]],
            sequence_ids=rows.sequence_ids,
        )
        x = {
            "token_ids": masked.token_ids,
            "mask_positions": masked.positions,
        }
        if rows.sequence_ids is None:
            x["padding_mask"] = rows.padding_mask
        else:
            x["sequence_ids"] = rows.sequence_ids
        if self._has_segments:
            x["segment_ids"] = rows.segment_ids
        if rows.labels is None:
            return x, masked.labels, masked.weights
        y = {"mlm": masked.labels, "nsp": rows.labels}
        ones = np.ones(len(batch.indices), np.float32)
        return x, y, {"mlm": masked.weights, "nsp": ones}
