"""Data sets of texts, or pairs of texts, with one label row each."""

import logging
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
from kbert.data.texts import short_repr
from kbert.data.tokenizer import EncodedTexts, Tokenizer

_LOGGER = logging.getLogger("kbert")


def classification_dataset(
    texts: Sequence[str],
    labels: Sequence[Any] | np.ndarray | None = None,
    *,
    tokenizer: Tokenizer,
    batch_size: int,
    max_length: int,
    pairs: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
    sample_weight: Sequence[float] | np.ndarray | None = None,
    shuffle: bool = False,
    seed: int = 0,
    pad_to: str = "bucket",
    drop_remainder: bool = False,
):
    """Turn texts and labels into batches for `fit`, `evaluate`, `predict`.

    Texts are tokenised once, here; batches are padded as they are asked for.
    Texts, pairs, labels and weights may be lists, numpy arrays, pandas
    columns or columns of a Hugging Face data set.

    Args:
        texts: N strings.
        labels: N whole numbers for one class each; N names, with
            `label_names`; N floats for regression; rows (N, C) of 0 and 1
            for any number of classes each; or None for `predict`.
        tokenizer: the tokenizer of the model's checkpoint.
        batch_size: B.
        max_length: most tokens in a text, [CLS] and [SEP] included; longer
            ones are truncated (of a pair, the longer text first), and how
            many is logged once.
        pairs: N second texts for sentence-pair tasks.
        label_names: names of the classes in order. Labels may then be
            names, and are checked to be among them.
        sample_weight: N weights for the loss.
        shuffle: whether each epoch has another order. The same seed gives
            the same epochs.
        seed: of the order.
        pad_to: "bucket" (default) groups texts of like length and pads each
            batch to one of a few lengths. This changes the order of the
            examples unless `labels` is None. "batch" pads to the longest
            text of the batch and "max" to `max_length`; both keep the order.
        drop_remainder: whether to leave out a last batch that is not full,
            as TPUs need. With "max" all shapes are then static.

    Returns:
        A `tf.data.Dataset` of `(x, y)`, `(x, y, sample_weight)` where
        weights are given, or `(x,)` where labels are None. `x` is a dict of
        int32 (B, S): `token_ids`, `segment_ids` (absent where the
        tokenizer's family has none), `padding_mask`. `y` is
        int32 (B,), or float32 (B,) or (B, C).

    Raises:
        TypeError: if a text is no string or an option has the wrong type.
        ValueError: if lengths differ, there is no text, a label is negative,
            NaN or unknown, or `max_length` is over what the tokenizer's
            model takes.

    Example:
        >>> import kbert
        >>> tokenizer = kbert.Tokenizer.from_vocab(
        ...     ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"])
        >>> dataset = kbert.data.classification_dataset(
        ...     ["good", "bad bad"], [1, 0], tokenizer=tokenizer,
        ...     batch_size=2, max_length=8)
        >>> x, y = next(iter(dataset))
        >>> x["token_ids"].numpy().tolist()
        [[2, 5, 3, 0, 0, 0, 0, 0], [2, 6, 6, 3, 0, 0, 0, 0]]

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 4.1
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
    encoded = tokenizer.encode_ids(texts, pairs, max_length=max_length)
    report_truncated(encoded, max_length)
    num_texts = len(encoded.lengths)
    targets = target_arrays(labels, label_names, sample_weight, num_texts)
    make_inputs = InputBatches(encoded, tokenizer)

    def make_batch(batch: Batch) -> tuple[Any, ...]:
        rows = (target[batch.indices] for target in targets)
        return (make_inputs(batch), *rows)

    signature = (
        make_inputs.signature,
        *(ArraySpec(("B", *t.shape[1:]), t.dtype.name) for t in targets),
    )
    return make_dataset(
        encoded.lengths,
        make_batch,
        signature,
        options,
        keep_order=labels is None,
    )


class InputBatches:
    """Makes the model inputs of a batch from tokenised texts.

    Args:
        encoded: the texts.
        tokenizer: what tokenised them.
    """

    def __init__(self, encoded: EncodedTexts, tokenizer: Tokenizer):
        """See the class."""
        self._lengths = encoded.lengths
        # name → rows, and what fills them up.
        self._rows = {
            "token_ids": (
                FlatRows(encoded.ids, encoded.lengths),
                tokenizer.pad_token_id,
            )
        }
        if tokenizer.has_segments:
            rows = FlatRows(encoded.type_ids, encoded.lengths)
            self._rows["segment_ids"] = (rows, 0)
        names = (*self._rows, "padding_mask")
        self.signature = {n: ArraySpec(("B", "S"), "int32") for n in names}

    def __call__(self, batch: Batch) -> dict[str, np.ndarray]:
        """Return int32 arrays (B, S)."""
        real = np.arange(batch.length) < self._lengths[batch.indices, None]
        inputs = {
            name: rows.padded(batch.indices, batch.length, fill)
            for name, (rows, fill) in self._rows.items()
        }
        return {**inputs, "padding_mask": real.astype("int32")}


def check_max_length(tokenizer: Tokenizer, max_length: int) -> None:
    """Refuse lengths past the position table, which XLA would clamp."""
    if tokenizer.max_length is not None and max_length > tokenizer.max_length:
        raise ValueError(
            "The tokenizer's model takes at most "
            f"{tokenizer.max_length} tokens. Received: max_length={max_length}"
        )


def report_truncated(encoded: EncodedTexts, max_length: int) -> None:
    """Say once how many texts were cut."""
    if encoded.num_truncated:
        _LOGGER.warning(
            "%d of %d texts have more than max_length=%d tokens and were "
            "truncated.",
            encoded.num_truncated,
            len(encoded.lengths),
            max_length,
        )


def target_arrays(
    labels: Sequence[Any] | np.ndarray | None,
    label_names: Sequence[str] | None,
    sample_weight: Sequence[float] | np.ndarray | None,
    num_texts: int,
) -> list[np.ndarray]:
    """Check labels and weights, as `classification_dataset` takes them.

    Returns:
        What a batch has beside its inputs: no array, labels (N,) or (N, C),
        or labels and weights (N,).
    """
    targets = []
    if labels is not None:
        targets.append(_label_array(labels, label_names, num_texts))
    if sample_weight is not None:
        if labels is None:
            raise ValueError(
                "`sample_weight` needs `labels`. Received: labels=None"
            )
        targets.append(weight_array(sample_weight, num_texts))
    return targets


def _label_array(
    labels: Any, label_names: Sequence[str] | None, num_texts: int
) -> np.ndarray:
    """Check labels and return int32 (N,), or float32 (N,) or (N, C)."""
    items = _items("labels", labels, num_texts)
    if label_names is not None:
        check_label_names(label_names)
    named = [index for index, item in enumerate(items) if isinstance(item, str)]
    if named:
        items = _numbers_of_names(items, label_names)
    try:
        array = np.asarray(items)
        is_number = array.dtype.kind in "biuf"
    except ValueError:  # rows of different lengths
        is_number = False
    if not is_number or array.ndim > 2:
        raise ValueError(
            "Labels must be whole numbers, names, floats, or rows of one "
            f"length. Received: labels={_shown(items)}"
        )
    if array.ndim == 1 and array.dtype.kind in "biu":
        _check_class_ids(array, label_names)
        return array.astype("int32")
    with np.errstate(over="ignore"):  # to infinity, which is refused
        array = array.astype("float32")
    if not np.isfinite(array).all():
        index = int(np.argwhere(~np.isfinite(array))[0][0])
        raise ValueError(
            "Labels must be finite numbers. Received: "
            f"labels[{index}]={items[index]!r}"
        )
    num_columns = array.shape[-1] if array.ndim == 2 else None
    if num_columns and label_names and num_columns != len(label_names):
        raise ValueError(
            f"Label rows must have one column for each of {len(label_names)} "
            f"`label_names`. Received: labels of shape {array.shape}"
        )
    return array


def check_label_names(label_names: Sequence[str]) -> None:
    """Refuse names of classes that are no list of different strings."""
    names = list(label_names)
    are_strings = all(isinstance(name, str) for name in names)
    if isinstance(label_names, str) or not names or not are_strings:
        raise TypeError(
            "`label_names` must be a list of strings. Received: "
            f"label_names={label_names!r}"
        )
    if len(set(names)) < len(names):
        raise ValueError(
            "`label_names` must hold different names. Received: "
            f"label_names={names!r}"
        )


def _numbers_of_names(
    items: list[Any], label_names: Sequence[str] | None
) -> list[int]:
    if label_names is None:
        raise ValueError(
            "Labels that are names need `label_names`, the names of the "
            f"classes in order. Received: labels={_shown(items)}"
        )
    numbers = {name: number for number, name in enumerate(label_names)}
    for index, item in enumerate(items):
        if not isinstance(item, str) or item not in numbers:
            raise ValueError(
                f"Labels must be among label_names={list(label_names)!r}. "
                f"Received: labels[{index}]={item!r}"
            )
    return [numbers[item] for item in items]


def _check_class_ids(
    array: np.ndarray, label_names: Sequence[str] | None
) -> None:
    end = len(label_names) if label_names else np.iinfo("int32").max
    wrong = np.flatnonzero((array < 0) | (array >= end))
    if len(wrong):
        raise ValueError(
            f"Class numbers must be in [0, {end}). Received: "
            f"labels[{wrong[0]}]={array[wrong[0]]}"
        )


def weight_array(sample_weight: Any, num_texts: int) -> np.ndarray:
    """Check weights of N texts and return float32 (N,)."""
    items = _items("sample_weight", sample_weight, num_texts)
    try:
        with np.errstate(over="ignore"):
            array = np.asarray(items, "float32")
    except (TypeError, ValueError):
        array = np.asarray([np.nan])
    if array.ndim != 1 or not (np.isfinite(array) & (array >= 0)).all():
        raise ValueError(
            "Sample weights must be finite numbers of at least 0. Received: "
            f"sample_weight={_shown(items)}"
        )
    return array


def _items(name: str, values: Any, num_texts: int) -> list[Any]:
    is_sequence = (
        hasattr(values, "__len__")
        and hasattr(values, "__getitem__")
        and not isinstance(values, (str, bytes, dict))
        and getattr(values, "ndim", 1) > 0
    )
    if not is_sequence:
        raise TypeError(
            f"`{name}` must be a sequence with one entry a text. Received: "
            f"{name}={short_repr(values)}"
        )
    # A data frame would list the names of its columns.
    has_rows = getattr(values, "ndim", 1) > 1
    items = list(np.asarray(values) if has_rows else values)
    if len(items) != num_texts:
        raise ValueError(
            f"`{name}` must have one entry a text. Received: "
            f"{len(items)} {name} for {num_texts} texts"
        )
    return items


def _shown(items: list[Any]) -> str:
    return f"{items[:5]!r}{' …' if len(items) > 5 else ''}"
