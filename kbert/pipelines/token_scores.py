"""Probabilities of the pieces of texts, and of their words."""

import keras
import numpy as np

from kbert.data.token_labels import TextPieces
from kbert.data.tokenizer import Tokenizer
from kbert.pipelines.prediction import predict, softmax

AGGREGATIONS = ("first", "mean", "max")


def piece_scores(
    model: keras.Model,
    tokenizer: Tokenizer,
    pieces: TextPieces,
    *,
    num_classes: int,
    batch_size: int,
    max_length: int,
) -> np.ndarray:
    """Run a token classifier on the windows of texts.

    Args:
        model: the classifier.
        tokenizer: its tokenizer.
        pieces: the T pieces of the texts, and their windows.
        num_classes: C of the model.
        batch_size: windows in a batch.
        max_length: most tokens in a window.

    Returns:
        Probabilities, float32 (T, C), each piece's from the window that
        shows most of what is around it.
    """
    scores = np.zeros((len(pieces.place), num_classes), "float32")
    starts = np.cumsum([0, *pieces.encoded.lengths])
    # The pieces that a window shows best follow each other.
    bounds = np.searchsorted(pieces.place, starts)
    for indices, rows in predict(
        model,
        tokenizer,
        pieces.encoded,
        batch_size=batch_size,
        max_length=max_length,
    ):
        for index, row in zip(indices, rows, strict=True):
            part = slice(bounds[index], bounds[index + 1])
            scores[part] = softmax(row[pieces.place[part] - starts[index]])
    return scores


def vote(
    owners: np.ndarray, scores: np.ndarray, aggregation: str
) -> tuple[np.ndarray, np.ndarray]:
    """Let the pieces of words vote.

    Args:
        owners: int (P,), the word of each piece, -1 for none.
        scores: float (P, C), probabilities.
        aggregation: "first" for the first piece's, "mean" for the mean, "max"
            for those of the piece that is surest.

    Returns:
        Words that have pieces, int (W,), ascending; their probabilities
        (W, C).
    """
    keys = [owners] if aggregation != "max" else [-scores.max(axis=1), owners]
    order = np.lexsort(keys)  # stable: the pieces of a word stay in order
    order = order[owners[order] >= 0]
    words, first, counts = np.unique(
        owners[order], return_index=True, return_counts=True
    )
    if aggregation != "mean" or not len(words):
        return words, scores[order[first]]
    totals = np.add.reduceat(scores[order], first)
    return words, totals / counts[:, None]
