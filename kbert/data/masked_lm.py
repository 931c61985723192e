"""Data sets for pretraining: masked tokens, and pairs of segments."""

import dataclasses
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from kbert.data.batching import BatchOptions, make_dataset
from kbert.data.classification import check_max_length
from kbert.data.corpus import Corpus
from kbert.data.mask_units import UNITS
from kbert.data.masking import Masker
from kbert.data.next_sentence import (
    Segments,
    next_sentence_pairs,
    sentence_order_pairs,
)
from kbert.data.pretraining import PretrainingBatches, make_segments
from kbert.data.record_rows import RecordRows
from kbert.data.records import Records
from kbert.data.segments import SegmentRows, Template
from kbert.data.tokenizer import Tokenizer

# Default share of short pairs.
_SHORT = 0.1


def masked_lm_dataset(
    texts: Iterable[Any] | Records,
    *,
    tokenizer: Tokenizer,
    batch_size: int,
    max_length: int,
    next_sentence: bool = False,
    sentence_order: bool = False,
    pack: bool = False,
    short_probability: float = _SHORT,
    mask_probability: float = 0.15,
    max_predictions: int | None = None,
    unit: str = "token",
    dupe_factor: int | None = None,
    shuffle: bool = False,
    seed: int = 0,
    pad_to: str = "bucket",
    drop_remainder: bool = False,
    start_step: int | None = None,
):
    """Turn texts or documents into batches for masked-language modelling.

    Text is tokenised once, here, into one flat array; sequences are written
    out and masked as they are asked for. Each epoch has other masks, and
    with `shuffle` another order; the same seed gives the same epochs. The
    masks of a sequence depend on the seed, the epoch and its number alone.

    Args:
        texts: strings, each at most one sequence; or documents, lists of
            sentences, as `read_documents` yields them. Sentences of
            documents are joined until sequences are full: into pairs of
            segments with `next_sentence` or `sentence_order`, else across
            the ends of documents, with [SEP] between two (RoBERTa's full
            sentences). With `pack`, each document is cut into full
            sequences, wherever that is. An iterator is read once, now. Or
            what `read_records` opened of `write_pretraining_records`' files,
            for a corpus beyond memory or a worker's share of one.
        tokenizer: of the model.
        batch_size: B.
        max_length: most tokens in a sequence, special ones included. A
            longer text is truncated, and how many is logged; a longer
            sentence of a document is cut into several.
        next_sentence: whether to make pairs of which half have a second
            segment from another document.
        sentence_order: whether to make pairs of neighbouring segments of
            which half are swapped (ALBERT).
        pack: whether rows hold several sequences end to end, so that all
            have `max_length` tokens, whatever `pad_to` says, and next to none
            is padding. They are for models of `build_packed`, in which a
            token sees its own sequence alone. Which sequences share a row is
            decided once, by their lengths; their order is not kept. Masks
            are drawn in each sequence. By default P is enough for one in
            each of 7 tokens or more.
        short_probability: share of the pairs that are made shorter than
            `max_length`.
        mask_probability: share of the ordinary tokens to mask. Of these,
            80 % become the mask token, 10 % another, 10 % stay.
        max_predictions: P, the slots for masked tokens. More are not masked.
            None for `mask_probability` times the padded length of the batch,
            rounded up: 20 for 128. P then follows S, and there are no more
            shapes than lengths.
        unit: what is masked as one: "token", "word", "span" (SpanBERT) or
            "ngram" (ALBERT).
        dupe_factor: None for new masks every epoch. A number draws pairs and
            masks that often and keeps them: an epoch is so many times as
            long. Take 1 for validation, so that scores can be compared.
        shuffle: whether each epoch has another order.
        seed: of everything that is drawn.
        pad_to: see `classification_dataset`. With "max", or "batch", the
            order without `shuffle` is that of the texts.
        drop_remainder: whether to leave out a last batch that is not full,
            as TPUs need. With "max" all shapes are then static.
        start_step: None for a data set of one epoch. A number for one
            without end, which begins with the batch of that number, counted
            over all epochs: 0 at first, and after a restart the number of
            steps done. Pass `steps_per_epoch` to `fit`.

    Returns:
        A `tf.data.Dataset` of `(x, y, sample_weight)`. `x` is a dict of
        int32: `token_ids`, `segment_ids` (absent where the tokenizer's
        family has none) and `padding_mask` (B, S), `mask_positions` (B, P).
        With `pack`, `sequence_ids` in place of `padding_mask`: 1 for the
        tokens of a row's first sequence, 2 for those of its second, …, 0 for
        padding. `y` is int32 (B, P), the masked tokens, and `sample_weight`
        float32 (B, P), 0 in unused slots. For pairs both are dicts: `mlm` as
        above, and `nsp` (B,), 0 where B follows A, 1 where it is random or
        swapped.

    Raises:
        TypeError: if an item is no string or list of strings, as the first
            one is, or an option has the wrong type.
        ValueError: if there is no text, an option is out of range, pairs or
            records are to be packed, `next_sentence` has one document, or
            only documents of one sentence, or records were made with another
            tokenizer.

    Example:
        >>> import kbert
        >>> tokenizer = kbert.Tokenizer.from_vocab(
        ...     ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"])
        >>> dataset = kbert.data.masked_lm_dataset(
        ...     ["good bad good", "bad"], tokenizer=tokenizer,
        ...     batch_size=2, max_length=8)
        >>> x, y, sample_weight = next(iter(dataset))
        >>> x["token_ids"].shape, x["mask_positions"].shape
        (TensorShape([2, 8]), TensorShape([2, 2]))
        >>> sample_weight.numpy().tolist()
        [[1.0, 0.0], [1.0, 0.0]]

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 3.1;
        Liu et al., 2019, https://arxiv.org/abs/1907.11692, section 4;
        Lan et al., 2019, https://arxiv.org/abs/1909.11942;
        Krell et al., 2021, https://arxiv.org/abs/2107.02027 (packing);
        google-research/bert, `create_pretraining_data.py`
    """
    options = BatchOptions(
        batch_size=batch_size,
        max_length=max_length,
        shuffle=shuffle,
        seed=seed,
        pad_to=pad_to,
        drop_remainder=drop_remainder,
    )
    if pack:
        options = dataclasses.replace(options, pad_to="max")
    check_max_length(tokenizer, max_length)
    make_pairs = pair_maker(
        next_sentence=next_sentence,
        sentence_order=sentence_order,
        short_probability=short_probability,
        pack=pack,
    )
    # A share so small that nobody means it would leave sequences no slot.
    _check_share("mask_probability", mask_probability, lowest=0.001)
    _check_count("max_predictions", max_predictions)
    _check_count("dupe_factor", dupe_factor)
    if unit not in UNITS:
        raise ValueError(
            f"`unit` must be one of {UNITS}. Received: unit={unit!r}"
        )
    copies, has_words = dupe_factor or 1, unit != "token"
    if isinstance(texts, Records):
        if make_pairs is not None or short_probability != _SHORT or pack:
            raise ValueError(
                "Records hold pairs or not as they were written, one in a "
                "row: leave out `next_sentence`, `sentence_order`, "
                "`short_probability` and `pack`. Received: "
                f"{next_sentence}, {sentence_order}, {short_probability} and "
                f"{pack} with records"
            )
        rows = RecordRows(
            texts,
            tokenizer,
            max_length=max_length,
            has_words=has_words,
            copies=copies,
        )
    else:
        template = Template.of(tokenizer)
        segments = make_segments(
            texts,
            tokenizer,
            template,
            max_length=max_length,
            make_pairs=make_pairs,
            has_words=has_words,
            copies=copies,
            seed=seed,
            pack=pack,
        )
        rows = SegmentRows(segments, template)
    batches = PretrainingBatches(
        rows,
        options,
        masker=Masker(tokenizer, probability=mask_probability, unit=unit),
        max_predictions=max_predictions,
        is_static=dupe_factor is not None,
        has_segments=tokenizer.has_segments,
        pack=pack,
    )
    return make_dataset(
        batches.rows.lengths,
        batches,
        batches.signature,
        options,
        start_step=start_step,
    )


def pair_maker(
    *,
    next_sentence: bool,
    sentence_order: bool,
    short_probability: float,
    pack: bool = False,
) -> Callable[[Corpus, int, np.random.Generator], Segments] | None:
    """Check the options of pairs.

    Args:
        next_sentence: see `masked_lm_dataset`, as the others.
        sentence_order: not with `next_sentence`.
        short_probability: from 0 to 1.
        pack: not with the first two.

    Returns:
        What makes pairs of a corpus, or None for sequences of one segment.

    Raises:
        TypeError: if an option has the wrong type.
        ValueError: if an option is out of range.
    """
    _check_switches(
        {
            "next_sentence": next_sentence,
            "sentence_order": sentence_order,
            "pack": pack,
        }
    )
    _check_share("short_probability", short_probability, lowest=0)
    if not (next_sentence or sentence_order):
        return None
    return partial(
        next_sentence_pairs if next_sentence else sentence_order_pairs,
        short_probability=short_probability,
    )


def _check_switches(switches: dict[str, bool]) -> None:
    for name, value in switches.items():
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(
                f"`{name}` must be a bool. Received: {name}={value!r}"
            )
    chosen = [f"{name}=True" for name, value in switches.items() if value]
    if len(chosen) > 1:
        raise ValueError(
            "Pairs have one label, and a row of several sequences has none: "
            f"choose one. Received: {', '.join(chosen)}"
        )


def _check_share(name: str, value: float, *, lowest: float) -> None:
    is_number = isinstance(value, (int, float, np.number))
    if not is_number or isinstance(value, bool):
        raise TypeError(
            f"`{name}` must be a number. Received: {name}={value!r}"
        )
    if not lowest <= value <= 1:
        raise ValueError(
            f"`{name}` must be from {lowest} to 1. Received: {name}={value!r}"
        )


def _check_count(name: str, value: int | None) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(
            f"`{name}` must be an int or None. Received: {name}={value!r}"
        )
    if value < 1:
        raise ValueError(
            f"`{name}` must be at least 1. Received: {name}={value}"
        )
