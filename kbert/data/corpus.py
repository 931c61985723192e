"""Tokenised text in a few flat arrays, for corpora that fill the memory."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from kbert.data.texts import as_list, check_text, check_texts, short_repr
from kbert.data.tokenizer import Tokenizer

# Texts are tokenised this many, or this many characters, at a time.
_CHUNK_TEXTS = 4096
_CHUNK_CHARACTERS = 2**22


@dataclass(frozen=True)
class Corpus:
    """Token ids of M sentences in D documents, without special tokens.

    Attributes:
        ids: int32 (T,), tokens of all sentences end to end.
        word_starts: bool (T,), whether a word starts there; None if not
            wanted.
        sentences: int64 (M + 1,), where sentences begin and end in `ids`.
        documents: int64 (D + 1,), where documents begin and end in
            `sentences`.
    """

    ids: np.ndarray
    word_starts: np.ndarray | None
    sentences: np.ndarray
    documents: np.ndarray


def tokenize_documents(
    documents: Iterable[Any],
    tokenizer: Tokenizer,
    *,
    max_sentence: int,
    has_words: bool,
) -> Corpus:
    """Tokenise lists of sentences.

    Args:
        documents: lists of strings. An iterator is consumed as it goes.
        tokenizer: of the model.
        max_sentence: tokens in a sentence; longer ones are cut into even
            parts, which count as sentences, so that nothing is lost.
        has_words: whether to find where words start.

    Returns:
        A `Corpus` without empty sentences and documents.

    Raises:
        TypeError: if a document is no list of strings.
        ValueError: if there is no token in all of them.
    """
    sizes: list[int] = []

    def sentences() -> Iterator[str]:
        for index, document in enumerate(documents):
            if isinstance(document, str):
                raise TypeError(
                    "Expected documents as lists of sentences; "
                    "`split_sentences` makes one of a text, `read_documents` "
                    f"of files. Received: {short_repr(document)} at {index}"
                )
            texts = check_texts(document, f"documents[{index}]")
            sizes.append(len(texts))
            yield from texts

    ids, word_starts, lengths = _encode(sentences(), tokenizer, has_words)
    if not len(ids):
        raise ValueError(
            "Expected documents with text in them. Received: "
            f"{len(sizes)} documents without a token"
        )
    document_of = np.repeat(np.arange(len(sizes)), sizes)
    # Zero parts for an empty sentence, one for most.
    parts = -(-lengths // max_sentence)
    of = np.repeat(np.arange(len(parts)), parts)
    rank = np.arange(len(of)) - (np.cumsum(parts) - parts)[of]
    part_lengths = lengths[of] // parts[of] + (rank < lengths[of] % parts[of])
    counts = np.bincount(document_of[of])
    return Corpus(
        ids=ids,
        word_starts=word_starts,
        sentences=_offsets(part_lengths),
        documents=_offsets(counts[counts > 0]),
    )


def tokenize_texts(
    texts: Iterable[Any],
    tokenizer: Tokenizer,
    *,
    max_length: int,
    has_words: bool,
) -> tuple[Corpus, int]:
    """Tokenise strings, each to one sentence of one document.

    Args:
        texts: strings. An iterator is consumed as it goes.
        tokenizer: of the model.
        max_length: tokens of a text that are kept.
        has_words: whether to find where words start.

    Returns:
        A `Corpus`, empty texts included, and how many texts were cut.

    Raises:
        TypeError: if an item is no string.
        ValueError: if a string is no Unicode text, or there is none.
    """

    def checked() -> Iterator[str]:
        for index, text in enumerate(texts):
            check_text(text, f"texts[{index}]")
            yield text

    ids, word_starts, lengths = _encode(
        checked(), tokenizer, has_words, max_length
    )
    if not len(lengths):
        raise ValueError("Expected at least one text. Received: none")
    num_cut = int((lengths > max_length).sum())
    lengths = np.minimum(lengths, max_length)
    return (
        Corpus(
            ids=ids,
            word_starts=word_starts,
            sentences=_offsets(lengths),
            documents=np.arange(len(lengths) + 1),
        ),
        num_cut,
    )


def items_of(values: Any, name: str) -> Iterator[Any]:
    """Iterate over a sequence that is no single text, or an iterator."""
    if hasattr(values, "__iter__") and not hasattr(values, "__len__"):
        return iter(values)
    return iter(as_list(values, name))


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _encode(
    texts: Iterator[str],
    tokenizer: Tokenizer,
    has_words: bool,
    max_length: int | None = None,
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Return ids and word starts end to end, and full lengths."""
    ids, starts = [np.zeros(0, np.int32)], [np.zeros(0, bool)]
    lengths = [np.zeros(0, np.int64)]
    for chunk in _chunks(texts):
        encodings = tokenizer.encode_batch(chunk, add_special_tokens=False)
        rows = [encoding.ids for encoding in encodings]
        sizes = np.array([len(row) for row in rows], np.int64)
        flat = np.fromiter(chain.from_iterable(rows), np.int32, sizes.sum())
        column = _columns(sizes)
        is_kept = slice(None) if max_length is None else column < max_length
        ids.append(flat[is_kept])
        lengths.append(sizes)
        if has_words:
            words = (encoding.word_ids for encoding in encodings)
            words = np.fromiter(chain.from_iterable(words), np.int64, len(flat))
            is_start = column == 0
            is_start[1:] |= words[1:] != words[:-1]
            starts.append(is_start[is_kept])
    return (
        np.concatenate(ids),
        np.concatenate(starts) if has_words else None,
        np.concatenate(lengths),
    )


def _chunks(texts: Iterator[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for text in texts:
        chunk.append(text)
        size += len(text)
        if len(chunk) >= _CHUNK_TEXTS or size >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _columns(lengths: np.ndarray) -> np.ndarray:
    """Return the number of each token in its row, rows end to end."""
    starts = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) - np.repeat(starts, lengths)
