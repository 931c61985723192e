"""Data sets for pretraining: masked tokens, and pairs of segments."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from kbert.data.batching import BatchOptions, make_dataset
from kbert.data.classification import check_max_length
from kbert.data.mask_units import UNITS
from kbert.data.masking import Masker
from kbert.data.next_sentence import next_sentence_pairs, sentence_order_pairs
from kbert.data.pretraining import PretrainingBatches, make_segments
from kbert.data.segments import Template
from kbert.data.tokenizer import Tokenizer


def masked_lm_dataset(
    texts: Iterable[Any],
    *,
    tokenizer: Tokenizer,
    batch_size: int,
    max_length: int,
    next_sentence: bool = False,
    sentence_order: bool = False,
    short_probability: float = 0.1,
    mask_probability: float = 0.15,
    max_predictions: int | None = None,
    unit: str = "token",
    dupe_factor: int | None = None,
    shuffle: bool = False,
    seed: int = 0,
    pad_to: str = "bucket",
    drop_remainder: bool = False,
):
    """Turn texts or documents into batches for masked-language modelling.

    Text is tokenised once, here, into one flat array; sequences are written
    out and masked as they are asked for. Each epoch has other masks, and
    with `shuffle` another order; the same seed gives the same epochs.

    Args:
        texts: strings, each at most one sequence; or documents, lists of
            sentences, as `read_documents` yields them. Sentences of
            documents are packed until sequences are full: into pairs of
            segments with `next_sentence` or `sentence_order`, else across
            the ends of documents, with [SEP] between two (RoBERTa's full
            sentences). An iterator is read once, now.
        tokenizer: of the model.
        batch_size: B.
        max_length: most tokens in a sequence, special ones included. A
            longer text is truncated, and how many is logged; a longer
            sentence of a document is cut into several.
        next_sentence: whether to make pairs of which half have a second
            segment from another document.
        sentence_order: whether to make pairs of neighbouring segments of
            which half are swapped (ALBERT).
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

    Returns:
        A `tf.data.Dataset` of `(x, y, sample_weight)`. `x` is a dict of
        int32: `token_ids`, `segment_ids` (absent where the tokenizer's
        family has none) and `padding_mask` (B, S), `mask_positions` (B, P).
        `y` is int32 (B, P), the masked tokens, and `sample_weight` float32
        (B, P), 0 in unused slots. For pairs both are dicts: `mlm` as above,
        and `nsp` (B,), 0 where B follows A, 1 where it is random or swapped.

    Raises:
        TypeError: if an item is no string or list of strings, as the first
            one is, or an option has the wrong type.
        ValueError: if there is no text, an option is out of range, or
            `next_sentence` has one document, or only documents of one
            sentence.

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
    check_max_length(tokenizer, max_length)
    _check_switches(next_sentence, sentence_order)
    # A share so small that nobody means it would leave sequences no slot.
    _check_share("mask_probability", mask_probability, lowest=0.001)
    _check_share("short_probability", short_probability, lowest=0)
    _check_count("max_predictions", max_predictions)
    _check_count("dupe_factor", dupe_factor)
    if unit not in UNITS:
        raise ValueError(
            f"`unit` must be one of {UNITS}. Received: unit={unit!r}"
        )
    template = Template.of(tokenizer)
    make_pairs = None
    if next_sentence or sentence_order:
        make_pairs = partial(
            next_sentence_pairs if next_sentence else sentence_order_pairs,
            short_probability=short_probability,
        )
    segments = make_segments(
        texts,
        tokenizer,
        template,
        max_length=max_length,
        make_pairs=make_pairs,
        has_words=unit != "token",
        copies=dupe_factor or 1,
        seed=seed,
    )
    batches = PretrainingBatches(
        segments,
        template,
        options,
        masker=Masker(tokenizer, probability=mask_probability, unit=unit),
        max_predictions=max_predictions,
        is_static=dupe_factor is not None,
        has_segments=tokenizer.has_segments,
    )
    return make_dataset(
        batches.rows.lengths, batches, batches.signature, options
    )


def _check_switches(next_sentence: bool, sentence_order: bool) -> None:
    for name, value in (
        ("next_sentence", next_sentence),
        ("sentence_order", sentence_order),
    ):
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(
                f"`{name}` must be a bool. Received: {name}={value!r}"
            )
    if next_sentence and sentence_order:
        raise ValueError(
            "Pairs have one label: choose one. Received: next_sentence=True, "
            "sentence_order=True"
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
