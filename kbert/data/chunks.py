"""Data sets of documents in chunks, with one label row each."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from kbert.data.batching import (
    ArraySpec,
    Batch,
    BatchOptions,
    make_dataset,
    padded_length,
)
from kbert.data.chunking import Chunks, numbers_in_groups, split_chunks
from kbert.data.classification import (
    InputBatches,
    target_arrays,
)
from kbert.data.tokenizer import Tokenizer

_LOGGER = logging.getLogger("kbert")

# Chunks in a document: like the lengths of texts, exact while they are few,
# then in steps of a sixth to a quarter, so that there are few shapes.
_COUNTS = np.concatenate(
    [
        np.arange(1, 8),
        np.arange(8, 16, 2),
        np.arange(16, 32, 4),
        np.arange(32, 65, 8),
    ]
)


def chunked_dataset(
    texts: Sequence[str],
    labels: Sequence[Any] | np.ndarray | None = None,
    *,
    tokenizer: Tokenizer,
    batch_size: int,
    chunk_length: int,
    max_chunks: int,
    overlap: int = 0,
    label_names: Sequence[str] | None = None,
    sample_weight: Sequence[float] | np.ndarray | None = None,
    shuffle: bool = False,
    seed: int = 0,
    pad_to: str = "bucket",
    drop_remainder: bool = False,
):
    """Turn documents and labels into batches for a chunked classifier.

    A document becomes windows of `chunk_length` tokens, with [CLS] and [SEP]
    around each. Documents are tokenised once, here; batches are padded as
    they are asked for.

    Args:
        texts: N strings of any length.
        labels: as in `classification_dataset`.
        tokenizer: the tokenizer of the model's checkpoint.
        batch_size: B, documents in a batch.
        chunk_length: most tokens in a chunk, [CLS] and [SEP] included.
        max_chunks: most chunks of a document, K. It bounds the memory of
            training. Of longer documents the first `max_chunks` are kept,
            and how many documents there are is logged once.
        overlap: tokens of the text that neighbouring chunks share.
        label_names: as in `classification_dataset`, like the following.
        sample_weight: N weights for the loss.
        shuffle: whether each epoch has another order.
        seed: of the order.
        pad_to: "bucket" (default) groups documents of like length and pads
            each batch to one of a few numbers of chunks and, where all have
            one chunk, one of a few lengths. This changes the order of the
            examples unless `labels` is None. "batch" pads to the most chunks
            and the longest chunk of the batch, "max" to `max_chunks` and
            `chunk_length`; both keep the order.
        drop_remainder: whether to leave out a last batch that is not full.
            With "max" all shapes are then static.

    Returns:
        A `tf.data.Dataset` of `(x, y)`, `(x, y, sample_weight)` where
        weights are given, or `(x,)` where labels are None. `x` is a dict of
        int32 (B, K, S): `token_ids`, `segment_ids` (absent where the
        tokenizer's family has none), `padding_mask`, which is 0 in all of a
        chunk that fills up a shorter document. `y` is int32 (B,), or float32
        (B,) or (B, C).

    Raises:
        TypeError: if a text is no string or an option has the wrong type.
        ValueError: as in `classification_dataset`, or if a chunk has no room
            for text or none beside `overlap`.

    Example:
        >>> import kbert
        >>> tokenizer = kbert.Tokenizer.from_vocab(
        ...     ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"])
        >>> dataset = kbert.data.chunked_dataset(
        ...     ["good", "good good bad"], [1, 0], tokenizer=tokenizer,
        ...     batch_size=2, chunk_length=4, max_chunks=8)
        >>> x, y = next(iter(dataset))
        >>> x["token_ids"].numpy().tolist()
        [[[2, 5, 3, 0], [0, 0, 0, 0]], [[2, 5, 5, 3], [2, 6, 3, 0]]]

    References:
        Sun et al., 2019, https://arxiv.org/abs/1905.05583, section 5.3.1
    """
    options = BatchOptions(
        batch_size=batch_size,
        max_length=chunk_length,
        shuffle=shuffle,
        seed=seed,
        pad_to=pad_to,
        drop_remainder=drop_remainder,
    )
    chunks = split_chunks(
        texts,
        tokenizer,
        chunk_length=chunk_length,
        overlap=overlap,
        max_chunks=max_chunks,
    )
    report_left_out(chunks, max_chunks)
    targets = target_arrays(
        labels, label_names, sample_weight, len(chunks.counts)
    )
    make_inputs = ChunkBatches(chunks, tokenizer, options, max_chunks)

    def make_batch(batch: Batch) -> tuple[Any, ...]:
        rows = (target[batch.indices] for target in targets)
        return (make_inputs(batch.indices), *rows)

    signature = (
        make_inputs.signature,
        *(ArraySpec(("B", *t.shape[1:]), t.dtype.name) for t in targets),
    )
    return make_dataset(
        chunks.sizes,
        make_batch,
        signature,
        options,
        keep_order=labels is None,
    )


def report_left_out(chunks: Chunks, max_chunks: int | None) -> None:
    """Say once how many documents lost chunks."""
    if chunks.num_over:
        _LOGGER.warning(
            "%d of %d texts have more than max_chunks=%d chunks; the first "
            "%d of each were kept.",
            chunks.num_over,
            len(chunks.counts),
            max_chunks,
            max_chunks,
        )


class ChunkBatches:
    """Makes the inputs of a batch of a chunked classifier.

    Args:
        chunks: of all documents.
        tokenizer: what tokenised them.
        options: how to pad; `max_length` is the length of a chunk.
        max_chunks: most chunks of a document, which "max" pads to.
    """

    def __init__(
        self,
        chunks: Chunks,
        tokenizer: Tokenizer,
        options: BatchOptions,
        max_chunks: int,
    ):
        """See the class."""
        self._rows = InputBatches(chunks.encoded, tokenizer)
        self._lengths = chunks.encoded.lengths
        self._counts = chunks.counts
        self._starts = np.cumsum(chunks.counts) - chunks.counts
        self._options = options
        self._max_chunks = max_chunks
        self._fills = {"token_ids": tokenizer.pad_token_id}
        known = options.pad_to == "max"
        count = max_chunks if known else None
        self.signature = {
            name: ArraySpec(("B", count, "S"), "int32")
            for name in self._rows.signature
        }

    def __call__(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """Return int32 arrays (B, K, S) of the documents of these numbers."""
        counts = self._counts[indices]
        first = np.repeat(self._starts[indices], counts)
        rows = first + numbers_in_groups(counts)
        length = padded_length(int(self._lengths[rows].max()), self._options)
        count = self._num_chunks(int(counts.max()))
        is_chunk = np.arange(count) < counts[:, None]
        inputs = {}
        for name, values in self._rows(Batch(rows, length)).items():
            inputs[name] = np.full(
                (len(indices), count, length), self._fills.get(name, 0), "int32"
            )
            inputs[name][is_chunk] = values
        return inputs

    def _num_chunks(self, most: int) -> int:
        if self._options.pad_to == "max":
            return self._max_chunks
        if self._options.pad_to == "batch":
            return most
        return min(padded_count(most), self._max_chunks)


def padded_count(count: int) -> int:
    """Return how many chunks a document of `count` is padded to."""
    if count > _COUNTS[-1]:
        return count
    return int(_COUNTS[np.searchsorted(_COUNTS, count)])
