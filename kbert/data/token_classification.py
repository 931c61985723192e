"""Data sets of texts with a label for each word."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kbert.data.batching import (
    ArraySpec,
    Batch,
    BatchOptions,
    FlatRows,
    make_dataset,
)
from kbert.data.classification import (
    InputBatches,
    check_label_names,
    check_max_length,
)
from kbert.data.labelled_spans import span_labels
from kbert.data.tags import tag_ids
from kbert.data.texts import as_list, check_texts, check_words, short_repr
from kbert.data.token_labels import (
    Labels,
    TextPieces,
    text_pieces,
    word_labels,
)
from kbert.data.tokenizer import Tokenizer

LABEL_PIECES = ("first", "all", "inside")


def token_classification_dataset(
    words: Sequence[Sequence[str]] | Sequence[str],
    tags: Sequence[Sequence[Any]] | None = None,
    *,
    tokenizer: Tokenizer,
    batch_size: int,
    max_length: int,
    spans: Sequence[Sequence[tuple[int, int, str]]] | None = None,
    label_names: Sequence[str] | None = None,
    label_pieces: str = "first",
    overlap: int | None = None,
    shuffle: bool = False,
    seed: int = 0,
    pad_to: str = "bucket",
    drop_remainder: bool = False,
):
    """Turn tagged words, or texts with labelled spans, into batches.

    Texts over `max_length` are not cut: they become windows that overlap, a
    row each. Every labelled piece counts in exactly one of them, the one
    that shows most of what is around it.

    A word without pieces (empty, white space or control characters alone)
    has no place in the batch: its tag is left out, the number of such words
    logged, and every other tag stays with its word.

    Args:
        words: N lists of words; or N strings, with `spans`. Words after the
            first are tokenised as words that follow a space, whatever
            `add_prefix_space` of a byte-level tokenizer is.
        tags: for each list of words, a list of class numbers or, with
            `label_names`, of names; None with `spans`, and for `predict`.
        tokenizer: the tokenizer of the model's checkpoint.
        batch_size: B.
        max_length: most tokens in a row, [CLS] and [SEP] included.
        spans: for each string, a list of (start, end, type) in code points.
            Pieces in a span get B-type and I-type, others O; `label_names`
            must hold them. White space at a span's ends does not count; how
            many begin or end inside a piece and so became wider is logged.
        label_names: names of the classes in order.
        label_pieces: which pieces of a word carry its label: "first"; "all";
            or "inside", which is "all" but that pieces after the first of a
            B- word are I-, as `label_names` say.
        overlap: tokens that neighbouring windows share; None for a quarter
            of `max_length`.
        shuffle: whether each epoch has another order. The same seed gives
            the same epochs.
        seed: of the order.
        pad_to: see `classification_dataset`: "bucket" (default) keeps the
            order only without labels, "batch" and "max" always.
        drop_remainder: see `classification_dataset`.

    Returns:
        A `tf.data.Dataset` of `(x, y, sample_weight)`, or `(x,)` without
        labels. Where the order is kept, the rows of a text's windows follow
        each other. `x` is a dict of int32 (B, S): `token_ids`, `segment_ids`
        (absent where the family has none), `padding_mask`. `y` is int32
        (B, S), 0 where nothing is labelled; weights are float32 (B, S), 1 on
        pieces that carry a label and 0 elsewhere.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if lengths differ, a label or name is unknown, a span is
            not in its text or overlaps another, or `max_length` or `overlap`
            is out of range.

    Example:
        >>> import kbert
        >>> tokenizer = kbert.Tokenizer.from_vocab(
        ...     "[PAD] [UNK] [CLS] [SEP] [MASK] ada love ##lace left".split())
        >>> dataset = kbert.data.token_classification_dataset(
        ...     [["Ada", "Lovelace", "left"]], [["B-PER", "I-PER", "O"]],
        ...     label_names=["O", "B-PER", "I-PER"], tokenizer=tokenizer,
        ...     batch_size=1, max_length=8, pad_to="batch")
        >>> x, y, weight = next(iter(dataset))
        >>> [tokenizer.id_to_token(id) for id in x["token_ids"][0].numpy()]
        ['[CLS]', 'ada', 'love', '##lace', 'left', '[SEP]']
        >>> y.numpy().tolist(), weight.numpy().tolist()
        ([[0, 1, 2, 0, 0, 0]], [[0.0, 1.0, 1.0, 0.0, 1.0, 0.0]])

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 5.3
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
    if label_pieces not in LABEL_PIECES:
        raise ValueError(
            f"`label_pieces` must be one of {LABEL_PIECES}. Received: "
            f"label_pieces={label_pieces!r}"
        )
    if max_length <= tokenizer.num_special_tokens():
        raise ValueError(
            "`max_length` must leave room beside the special tokens. "
            f"Received: max_length={max_length}"
        )
    texts = _checked_texts(words)
    is_raw = bool(texts) and isinstance(texts[0], str)
    _check_kind(is_raw, tags, spans)
    if label_names is not None:
        check_label_names(label_names)
    sizes = [len(text) for text in texts]
    ids = None if tags is None else tag_ids(tags, sizes, label_names)
    pieces = text_pieces(
        texts,
        tokenizer,
        max_length,
        max_length // 4 if overlap is None else overlap,
    )
    make_inputs = InputBatches(pieces.encoded, tokenizer)
    targets = []
    if ids is not None:
        labels = word_labels(pieces, ids, sizes)
    elif spans is not None:
        labels = span_labels(pieces, texts, _rows(spans, texts), label_names)
    else:
        labels = None
    if labels is not None:
        targets = _targets(pieces, labels, label_pieces, label_names)

    def make_batch(batch: Batch) -> tuple[Any, ...]:
        rows = (rows.padded(batch.indices, batch.length, 0) for rows in targets)
        return (make_inputs(batch), *rows)

    specs = [ArraySpec(("B", "S"), name) for name in ("int32", "float32")]
    return make_dataset(
        pieces.encoded.lengths,
        make_batch,
        (make_inputs.signature, *specs[: len(targets)]),
        options,
        keep_order=labels is None,
    )


def _checked_texts(words: Any) -> list[Any]:
    items = as_list(words, "words")
    if items and isinstance(items[0], str):
        return check_texts(items, "words")
    return check_words(items, "words")


def _check_kind(is_raw: bool, tags: Any, spans: Any) -> None:
    """Refuse labels that do not go with the texts."""
    if tags is not None and (is_raw or spans is not None):
        raise ValueError(
            "`tags` are for lists of words, and `spans` for strings. Received: "
            f"tags={short_repr(tags)} with "
            + ("strings" if is_raw else f"spans={short_repr(spans)}")
        )
    if spans is not None and not is_raw:
        raise ValueError(
            "`spans` are for strings, and lists of words need `tags`. "
            f"Received: spans={short_repr(spans)} with lists of words"
        )


def _rows(spans: Any, texts: list[str]) -> list[Any]:
    rows = as_list(spans, "spans")
    if len(rows) != len(texts):
        raise ValueError(
            "`spans` must have one list for each string. Received: "
            f"{len(rows)} spans for {len(texts)} texts"
        )
    return rows


def _targets(
    pieces: TextPieces,
    labels: Labels,
    label_pieces: str,
    label_names: Sequence[str] | None,
) -> list[FlatRows]:
    """Return labels and weights of every token of the windows."""
    ids, is_labelled = labels.ids, np.ones(len(labels.ids), bool)
    if label_pieces == "first":
        is_labelled = labels.is_first
    elif label_pieces == "inside":
        inside = _inside_classes(label_names)
        ids = np.where(labels.is_first, ids, inside[ids])
    place = pieces.place[is_labelled]
    y = np.zeros(len(pieces.encoded.ids), "int32")
    weight = np.zeros(len(y), "float32")
    y[place], weight[place] = ids[is_labelled], 1
    return [FlatRows(rows, pieces.encoded.lengths) for rows in (y, weight)]


def _inside_classes(label_names: Sequence[str] | None) -> np.ndarray:
    """Return the class of pieces after the first, for each class."""
    if label_names is None:
        raise ValueError(
            "label_pieces='inside' needs `label_names`. Received: "
            "label_names=None"
        )
    names = list(label_names)
    after = ["I-" + name[2:] if name[:2] == "B-" else name for name in names]
    wrong = [
        name
        for name, next_name in zip(names, after, strict=True)
        if next_name not in names or name[:2] in ("E-", "S-")
    ]
    if wrong:
        raise ValueError(
            "label_pieces='inside' needs an I- beside every B- and no E- or "
            f"S-, as `kbert.data.convert_tags` writes. Received: {wrong} in "
            f"label_names={names!r}"
        )
    return np.array([names.index(name) for name in after], "int32")
