"""Texts over the model's length, as windows that share tokens.

A window is what the tokenizer makes of a stretch of the text: special tokens
(and the whole question, where there is one) around some of its tokens. Every
token of a text is in one window or more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tokenizers


@dataclass(frozen=True)
class Windows:
    """The windows of N texts, those of a text one after the other.

    Attributes:
        encodings: W encodings.
        texts: int (W,), number of the text that each is of.
        is_best: W bool arrays, one entry a token of the window. True for a
            token of the text where this window shows more of what is around
            it than any other (BERT's maximum context): of a text's windows,
            each token is True in exactly one. False for special tokens and
            for the other text of a pair.
    """

    encodings: list[tokenizers.Encoding]
    texts: np.ndarray
    is_best: list[np.ndarray]

    def __len__(self) -> int:
        """Return W."""
        return len(self.encodings)


def split_windows(
    encodings: Sequence[tokenizers.Encoding], overlap: int, sequence: int = 0
) -> Windows:
    """List all windows of texts.

    Args:
        encodings: N encodings of `Tokenizer.encode_batch` with `max_length`
            and `overlap`; further windows are in their `overflowing`.
        overlap: the one given to `encode_batch`.
        sequence: which text of a pair was cut, 0 or 1.

    Returns:
        The windows.

    References:
        `_check_is_max_context` in google-research/bert `run_squad.py`
    """
    all_windows, texts, is_best = [], [], []
    for index, encoding in enumerate(encodings):
        windows = [encoding, *encoding.overflowing]
        in_text = [
            np.array([id_ == sequence for id_ in window.sequence_ids], bool)
            for window in windows
        ]
        for mask, best in zip(
            in_text,
            _most_context([int(m.sum()) for m in in_text], overlap),
            strict=True,
        ):
            mask[mask] = best
        all_windows += windows
        texts += [index] * len(windows)
        is_best += in_text
    return Windows(all_windows, np.array(texts, np.int64), is_best)


def _most_context(sizes: list[int], overlap: int) -> list[np.ndarray]:
    """Say which tokens each window of a text shows best.

    Args:
        sizes: tokens of the text in each window.
        overlap: tokens that neighbours share.

    Returns:
        A bool array for each window.
    """
    if len(sizes) == 1:
        return [np.ones(sizes[0], bool)]
    starts = np.cumsum([0, *(size - overlap for size in sizes[:-1])])
    length = starts[-1] + sizes[-1]
    # The original's score: tokens on the shorter side, then longer windows.
    score = np.full(length, -1.0)
    owner = np.zeros(length, np.int64)
    for number, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        place = np.arange(size)
        mine = np.minimum(place, size - 1 - place) + 0.01 * size
        part = slice(start, start + size)
        wins = mine > score[part]
        score[part][wins] = mine[wins]
        owner[part][wins] = number
    return [
        owner[start : start + size] == number
        for number, (start, size) in enumerate(zip(starts, sizes, strict=True))
    ]
