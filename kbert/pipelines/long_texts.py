"""Logits of texts that are read in chunks."""

from collections.abc import Iterator

import keras
import numpy as np

from kbert.data.batching import BatchOptions
from kbert.data.chunking import Chunks
from kbert.data.chunks import ChunkBatches, padded_count
from kbert.data.tokenizer import Tokenizer
from kbert.models.chunked import is_chunked
from kbert.pipelines.prediction import class_logits, predict_batch

LONG = ("truncate", "chunk")


def check_long(
    model: keras.Model,
    long: str | None,
    max_length: int | None,
    overlap: int,
    max_chunks: int | None,
) -> str:
    """Check what a classifier is to do with long texts.

    Returns:
        "truncate" or "chunk".

    Raises:
        ValueError: if `long` is unknown or not what the model can do, an
            option does not go with it, or a chunked model comes without
            `max_length`.
    """
    if long not in (None, *LONG):
        raise ValueError(
            f"`long` must be None or one of {LONG}. Received: long={long!r}"
        )
    if is_chunked(model):
        if long == "truncate":
            raise ValueError(
                "A chunked classifier reads chunks; give max_chunks=1 for the "
                'first one alone. Received: long="truncate"'
            )
        if max_length is None:
            raise ValueError(
                "A chunked classifier needs `max_length`, the `chunk_length` "
                "it was trained with. Received: max_length=None"
            )
        return "chunk"
    if long != "chunk" and (overlap or max_chunks is not None):
        raise ValueError(
            'Only long="chunk" has windows. Received: '
            f"long={long!r}, overlap={overlap!r}, max_chunks={max_chunks!r}"
        )
    return long or "truncate"


def averaged(
    model: keras.Model,
    tokenizer: Tokenizer,
    chunks: Chunks,
    *,
    batch_size: int,
    max_length: int,
) -> np.ndarray:
    """Average a classifier's logits over the chunks of each text.

    Each chunk is weighted by the tokens that it shows better than its
    neighbours do.

    Args:
        model: a classifier of single texts.
        tokenizer: what tokenised the texts.
        chunks: of N texts.
        batch_size: chunks in a batch.
        max_length: most tokens in a chunk.

    Returns:
        Logits, float32 (N, C).
    """
    logits = class_logits(
        model,
        tokenizer,
        chunks.encoded,
        batch_size=batch_size,
        max_length=max_length,
    )
    # An empty text has one chunk of no token.
    weights = np.where(
        np.repeat(chunks.counts, chunks.counts) > 1, chunks.weights, 1
    )
    texts = np.repeat(np.arange(len(chunks.counts)), chunks.counts)
    total = np.bincount(texts, weights, minlength=len(chunks.counts))
    sums = np.zeros((len(chunks.counts), logits.shape[1]))
    np.add.at(sums, texts, logits * weights[:, None])
    return (sums / total[:, None]).astype("float32")


def together(
    model: keras.Model,
    tokenizer: Tokenizer,
    chunks: Chunks,
    *,
    batch_size: int,
    max_length: int,
) -> np.ndarray:
    """Give all chunks of a text to a chunked classifier.

    Args:
        model: a model of `build_chunked_classifier`.
        tokenizer: what tokenised the texts.
        chunks: of N texts.
        batch_size: most chunks in a batch, unless one text has more.
        max_length: most tokens in a chunk.

    Returns:
        Logits, float32 (N, C).
    """
    options = BatchOptions(batch_size=batch_size, max_length=max_length)
    most = int(chunks.counts.max(initial=1))
    make_inputs = ChunkBatches(chunks, tokenizer, options, most)
    shape = (len(chunks.counts), model.output_shape[-1])
    logits = np.zeros(shape, "float32")
    for indices in _groups(chunks, batch_size):
        inputs = make_inputs(indices)
        logits[indices] = predict_batch(model, inputs, len(indices))
    return logits


def _groups(chunks: Chunks, batch_size: int) -> Iterator[np.ndarray]:
    """Numbers of the texts of each batch, those of like length together."""
    order = np.argsort(chunks.sizes, kind="stable")
    counts = np.array([padded_count(int(c)) for c in chunks.counts[order]])
    for count in np.unique(counts):
        group = order[counts == count]
        size = max(1, batch_size // int(count))
        for start in range(0, len(group), size):
            yield group[start : start + size]
