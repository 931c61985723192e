"""Probabilities of the tokens of texts of any length, and of their words."""

from collections.abc import Iterator
from dataclasses import dataclass

import keras
import numpy as np

from kbert.data.encoding import flatten
from kbert.data.tokenizer import Tokenizer
from kbert.data.windows import Windows, split_windows
from kbert.pipelines.prediction import predict, softmax

AGGREGATIONS = ("first", "mean", "max")


@dataclass(frozen=True)
class TokenScores:
    """The P tokens of a text, special tokens left out.

    Attributes:
        offsets: int (P, 2), start and end of each in the text.
        word_ids: int (P,), the tokenizer's number of the word it is of.
        scores: float32 (P, C), probabilities, each token's from the window
            that shows most of what is around it.
    """

    offsets: np.ndarray
    word_ids: np.ndarray
    scores: np.ndarray


def score_tokens(
    model: keras.Model,
    tokenizer: Tokenizer,
    texts: list,
    *,
    batch_size: int,
    max_length: int,
    overlap: int,
    are_words: bool = False,
) -> Iterator[TokenScores]:
    """Read texts in windows.

    Args:
        model: a token classifier.
        tokenizer: its tokenizer.
        texts: N strings, or N lists of words.
        batch_size: windows in a batch.
        max_length: most tokens in a window.
        overlap: tokens that neighbouring windows share.
        are_words: whether the texts are lists of words.

    Yields:
        The tokens of each text.
    """
    windows = split_windows(
        tokenizer.encode_batch(
            texts,
            max_length=max_length,
            overlap=overlap,
            is_split_into_words=are_words,
        ),
        overlap,
    )
    scores: list[np.ndarray] = [np.zeros(0)] * len(windows)
    for indices, rows in predict(
        model,
        tokenizer,
        flatten(windows.encodings),
        batch_size=batch_size,
        max_length=max_length,
    ):
        for index, row in zip(indices, rows, strict=True):
            mask = windows.is_best[index]
            scores[index] = softmax(row[: len(mask)][mask])
    ends = np.searchsorted(windows.texts, np.arange(len(texts) + 1))
    for start, end in zip(ends[:-1], ends[1:], strict=True):
        part = range(start, end)
        yield TokenScores(
            offsets=_gather(windows, part, "offsets").reshape(-1, 2),
            word_ids=_gather(windows, part, "word_ids"),
            scores=np.concatenate(scores[start:end]),
        )


def _gather(windows: Windows, part: range, name: str) -> np.ndarray:
    """List what a text's tokens have under a name, each token once."""
    found = []
    for number in part:
        values = getattr(windows.encodings[number], name)
        places = np.flatnonzero(windows.is_best[number])
        found += [values[place] for place in places]
    return np.array(found, np.int64)


def vote(
    owners: np.ndarray, scores: np.ndarray, aggregation: str
) -> tuple[np.ndarray, np.ndarray]:
    """Let the tokens of words vote.

    Args:
        owners: int (P,), the word of each token, -1 for none.
        scores: float (P, C), probabilities.
        aggregation: "first" for the first token's, "mean" for the mean, "max"
            for those of the token that is surest.

    Returns:
        Words that have tokens, int (W,), ascending; their probabilities
        (W, C).
    """
    keys = [owners] if aggregation != "max" else [-scores.max(axis=1), owners]
    order = np.lexsort(keys)  # stable: the tokens of a word stay in order
    order = order[owners[order] >= 0]
    words, first, counts = np.unique(
        owners[order], return_index=True, return_counts=True
    )
    if aggregation != "mean" or not len(words):
        return words, scores[order[first]]
    totals = np.add.reduceat(scores[order], first)
    return words, totals / counts[:, None]
