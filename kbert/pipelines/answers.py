"""Answers from the logits of a question's windows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class WindowLogits:
    """What a span model says of one window, for the T tokens of the context.

    Attributes:
        start: float (T,), logits of the answer's first token.
        end: float (T,), logits of its last.
        offsets: T pairs of start and end in the context.
        is_best: bool (T,), whether this window shows most of what is around
            the token.
        null: the start and the end logit of [CLS], added up.
    """

    start: np.ndarray
    end: np.ndarray
    offsets: Sequence[tuple[int, int]]
    is_best: np.ndarray
    null: float


@dataclass(frozen=True)
class Span:
    """An answer: its place in the context and its start and end logit added."""

    start: int
    end: int
    logit: float


def best_spans(
    context: str,
    windows: Sequence[WindowLogits],
    count: int,
    max_answer_length: int,
) -> list[Span]:
    """Find the best answers in all windows of a question.

    All pairs of tokens of a window compete where the first is best shown in
    it, the last is no earlier, and `max_answer_length` is kept. White space
    at the ends of an answer is cut off; of pairs with the same characters
    the best stays.

    Args:
        context: the text that the offsets are of.
        windows: the windows of one question.
        count: most answers.
        max_answer_length: most tokens of an answer.

    Returns:
        `count` answers or as many as there are, best first, all different.

    References:
        `write_predictions` in google-research/bert `run_squad.py`, which
        looks at pairs of the best starts and the best ends only
    """
    # Of what is allowed: number of the window, first and last token, score.
    rows = []
    for number, window in enumerate(windows):
        scores = _pair_scores(context, window, max_answer_length)
        first, length = np.nonzero(scores > -np.inf)
        rows.append(
            (
                np.full(len(first), number),
                first,
                first + length,
                scores[first, length],
            )
        )
    if not rows:
        return []
    numbers, firsts, lasts, scores = map(
        np.concatenate, zip(*rows, strict=True)
    )
    # Pairs with the same characters are few, so a few more are mostly enough.
    keep = min(2 * count, len(scores))
    while True:
        best = _highest(scores, keep)
        spans: dict[tuple[int, int], Span] = {}
        for index in best:
            offsets = windows[numbers[index]].offsets
            start, end = _trim(
                context, offsets[firsts[index]][0], offsets[lasts[index]][1]
            )
            span = Span(start, end, float(scores[index]))
            spans.setdefault((start, end), span)
        if len(spans) >= count or keep == len(scores):
            return list(spans.values())[:count]
        keep = min(4 * keep, len(scores))


def _pair_scores(
    context: str, window: WindowLogits, max_answer_length: int
) -> np.ndarray:
    """Score pairs by first token and length - 1, -inf for what is not allowed.

    Returns:
        Float64 (T, L), L the longest length.
    """
    size = len(window.start)
    longest = min(max_answer_length, size)
    if not longest:
        return np.zeros((0, 0))
    # A piece of white space is no end of an answer.
    is_text = np.array(
        [bool(context[start:end].strip()) for start, end in window.offsets]
    )
    start = np.where(is_text & window.is_best, window.start, -np.inf)
    end = np.full(size + longest - 1, -np.inf)
    end[:size] = np.where(is_text, window.end, -np.inf)
    ends = np.lib.stride_tricks.sliding_window_view(end, longest)
    return start.astype("float64")[:, None] + ends


def _highest(scores: np.ndarray, count: int) -> list[int]:
    """Return places of the highest scores, the first of equals first."""
    if not count:
        return []
    best = np.argpartition(-scores, count - 1)[:count]
    return best[np.lexsort((best, -scores[best]))].tolist()


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Cut white space off the ends of a part of a text that has more."""
    part = text[start:end]
    return end - len(part.lstrip()), start + len(part.rstrip())
