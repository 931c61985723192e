"""Documents as windows of their tokens, in arrays."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kbert.data.classification import check_max_length
from kbert.data.encoding import EncodedTexts, flatten
from kbert.data.texts import check_texts
from kbert.data.tokenizer import Tokenizer
from kbert.data.windows import split_windows

# Documents tokenised at once: what the Rust side returns for a long one takes
# many times the memory of its ids.
_DOCUMENTS = 64


@dataclass(frozen=True)
class Chunks:
    """The chunks of N documents, those of a document one after the other.

    Attributes:
        encoded: W chunks.
        counts: int (N,), the chunks of each document, 1 or more.
        sizes: int (N,), the tokens in all chunks of each document. Sorted by
            them, documents are sorted by chunks, then by the last one.
        weights: int (W,), the tokens of the text that each chunk shows
            better than its neighbours do: all tokens of a text, once.
        num_over: documents of which chunks were left out.
    """

    encoded: EncodedTexts
    counts: np.ndarray
    sizes: np.ndarray
    weights: np.ndarray
    num_over: int


def split_chunks(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    *,
    chunk_length: int,
    overlap: int = 0,
    max_chunks: int | None = None,
) -> Chunks:
    """Tokenise documents and split them into windows.

    Args:
        texts: N strings.
        tokenizer: what tokenises them.
        chunk_length: most tokens in a chunk, specials included.
        overlap: tokens that neighbouring chunks share.
        max_chunks: most chunks of a document, the first ones; None for all.

    Raises:
        TypeError: if a text is no string or a number no int.
        ValueError: if a number is out of range.
    """
    texts = check_texts(texts, "texts")
    check_chunks(tokenizer, chunk_length, overlap, max_chunks)
    parts = []
    for start in range(0, len(texts), _DOCUMENTS):
        encodings = tokenizer.encode_batch(
            texts[start : start + _DOCUMENTS],
            max_length=chunk_length,
            overlap=overlap,
        )
        windows = split_windows(encodings, overlap)
        counts = np.bincount(windows.texts)
        kept = np.flatnonzero(
            numbers_in_groups(counts) < (max_chunks or len(windows))
        )
        encoded = flatten([windows.encodings[i] for i in kept])
        weights = [windows.is_best[i].sum() for i in kept]
        parts.append((encoded, counts, np.array(weights, np.int64)))
    encoded = EncodedTexts(
        ids=_join([part.ids for part, *_ in parts], np.int32),
        type_ids=_join([part.type_ids for part, *_ in parts], np.int32),
        lengths=_join([part.lengths for part, *_ in parts], np.int64),
        num_truncated=0,
    )
    counts = _join([part[1] for part in parts], np.int64)
    limit = counts.max(initial=1) if max_chunks is None else max_chunks
    kept_counts = np.minimum(counts, limit)
    documents = np.repeat(np.arange(len(counts)), kept_counts)
    return Chunks(
        encoded,
        counts=kept_counts,
        sizes=np.bincount(documents, encoded.lengths).astype(np.int64),
        weights=_join([part[2] for part in parts], np.int64),
        num_over=int((counts > limit).sum()),
    )


def numbers_in_groups(counts: np.ndarray) -> np.ndarray:
    """Return 0, 1, … anew for each group, int (sum of counts,)."""
    starts = np.cumsum(counts) - counts
    return np.arange(counts.sum()) - np.repeat(starts, counts)


def _join(arrays: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype), *arrays])


def check_chunks(
    tokenizer: Tokenizer,
    chunk_length: int,
    overlap: int,
    max_chunks: int | None,
) -> None:
    """Check the numbers that `split_chunks` takes.

    Raises:
        TypeError: if one is no int.
        ValueError: if one is out of range, or a chunk has no room for text.
    """
    numbers = {
        "chunk_length": chunk_length,
        "overlap": overlap,
        "max_chunks": 1 if max_chunks is None else max_chunks,
    }
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise TypeError(
                f"`{name}` must be an int. Received: {name}={value!r}"
            )
    if numbers["max_chunks"] < 1:
        raise ValueError(
            f"`max_chunks` must be at least 1. Received: max_chunks="
            f"{max_chunks}"
        )
    check_max_length(tokenizer, chunk_length)
    room = chunk_length - len(tokenizer.encode("").ids)
    if not 0 <= overlap < room:
        raise ValueError(
            "A chunk must have room for text, and for more than `overlap` "
            f"tokens. Received: chunk_length={chunk_length}, of which {room} "
            f"are text, overlap={overlap}"
        )
