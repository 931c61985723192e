"""The pieces of tokenised texts, and the labels of their words.

Everything here is about a text's pieces in order, each once: of the windows
of a long text, each piece is taken from the one that shows most around it.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tokenizers

from kbert.data.encoding import EncodedTexts, flatten
from kbert.data.tokenizer import Tokenizer
from kbert.data.windows import split_windows

_LOGGER = logging.getLogger("kbert")

# Texts encoded at once, so that their Encoding objects do not pile up.
_CHUNK = 2048


@dataclass(frozen=True)
class TextPieces:
    """The windows of N texts, and the T pieces of the texts in order.

    Attributes:
        encoded: token ids of W windows.
        place: int64 (T,), where in `encoded.ids` each piece is.
        text: int64 (T,), number of the text it is of.
        word: int64 (T,), number of the word in its text.
        span: int64 (T, 2), its characters in the text, without white space
            at the start; (T, 0) of texts that are split into words.
    """

    encoded: EncodedTexts
    place: np.ndarray
    text: np.ndarray
    word: np.ndarray
    span: np.ndarray


@dataclass(frozen=True)
class Labels:
    """The label of each piece.

    Attributes:
        is_first: bool (T,), whether a word, or a part of one that a span
            cuts off, begins here.
        ids: int32 (T,), the class of that word.
    """

    is_first: np.ndarray
    ids: np.ndarray


def text_pieces(
    texts: list[Any],
    tokenizer: Tokenizer,
    max_length: int,
    overlap: int,
) -> TextPieces:
    """Tokenise texts into windows.

    Args:
        texts: N strings or N lists of words.
        tokenizer: the tokenizer.
        max_length: most tokens in a window.
        overlap: tokens that neighbouring windows share.

    Returns:
        The pieces.
    """
    is_split = not (texts and isinstance(texts[0], str))
    given = texts
    if is_split and _joins_words(tokenizer):
        given = [_after_spaces(words) for words in texts]
    parts, num_tokens = [], 0
    for start in range(0, len(texts), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        encodings = tokenizer.encode_batch(
            given[chunk],
            max_length=max_length,
            overlap=overlap,
            is_split_into_words=is_split,
        )
        raw = None if is_split else texts[chunk]
        part = _chunk_pieces(encodings, overlap, raw)
        parts.append((part, num_tokens, start))
        num_tokens += len(part.encoded.ids)
    if not parts:
        parts = [(_chunk_pieces([], overlap, None), 0, 0)]

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(p.encoded, name) for p, *_ in parts])

    return TextPieces(
        encoded=EncodedTexts(
            joined("ids"), joined("type_ids"), joined("lengths"), 0
        ),
        place=np.concatenate([part.place + ids for part, ids, _ in parts]),
        text=np.concatenate([part.text + first for part, _, first in parts]),
        word=np.concatenate([part.word for part, *_ in parts]),
        span=np.concatenate([part.span for part, *_ in parts]),
    )


def word_labels(
    pieces: TextPieces, tag_ids: np.ndarray, sizes: Sequence[int]
) -> Labels:
    """Give the pieces of words the words' tags.

    Args:
        pieces: of texts that are split into words.
        tag_ids: int32 (sum of sizes,), the class of each word.
        sizes: how many words each text has.

    Returns:
        The labels.
    """
    starts = np.cumsum([0, *sizes])[:-1]
    word = starts[pieces.text] + pieces.word
    is_first = np.diff(word, prepend=-1) != 0
    num_lost = len(tag_ids) - int(is_first.sum())
    if num_lost:
        _LOGGER.warning(
            "%d of %d words have no pieces (they are empty, white space or "
            "control characters): their tags are left out.",
            num_lost,
            len(tag_ids),
        )
    return Labels(is_first, tag_ids[word])


def _chunk_pieces(
    encodings: list[tokenizers.Encoding],
    overlap: int,
    raw: list[str] | None,
) -> TextPieces:
    windows = split_windows(encodings, overlap)
    encoded = flatten(windows.encodings)
    # Windows show a text's pieces in order, and which shows one best only
    # ever changes to a later window.
    is_best = np.concatenate([np.zeros(0, bool), *windows.is_best])
    words = [
        -1 if word is None else word
        for encoding in windows.encodings
        for word in encoding.word_ids
    ]
    text = np.repeat(windows.texts, encoded.lengths)[is_best]
    offsets = [
        offset for encoding in windows.encodings for offset in encoding.offsets
    ]
    offsets = np.array(offsets, np.int64).reshape(-1, 2)[is_best]
    if raw is None:
        offsets = offsets[:, :0]
    elif len(offsets):
        # Some families count the space before a word as its own.
        offsets[:, 0] += [
            end - start - len(raw[index][start:end].lstrip())
            for index, (start, end) in zip(text, offsets.tolist(), strict=True)
        ]
        # A mark of SentencePiece's in front of a word may have no character.
        offsets[:, 1] = np.maximum(offsets[:, 1], offsets[:, 0] + 1)
    return TextPieces(
        encoded=encoded,
        place=np.flatnonzero(is_best),
        text=text,
        word=np.array(words, np.int64)[is_best],
        span=offsets,
    )


def _joins_words(tokenizer: Tokenizer) -> bool:
    """Say whether words lose the spaces between them, as RoBERTa's do."""
    apart, together = tokenizer.encode_batch(
        [["a", "a"]], add_special_tokens=False, is_split_into_words=True
    ) + tokenizer.encode_batch(["a a"], add_special_tokens=False)
    return apart.ids != together.ids


def _after_spaces(words: Sequence[str]) -> list[str]:
    """Put the space before each word but the first that text has there."""
    return [
        f" {word}" if place and word and not word[0].isspace() else word
        for place, word in enumerate(words)
    ]
