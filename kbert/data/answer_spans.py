"""Where answers stand among the tokens of windows."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from kbert.data.span_example import SpanExample
from kbert.data.windows import Windows


def context_ranges(windows: Windows) -> np.ndarray:
    """Say where each window's context stands.

    Args:
        windows: W windows of `encode_questions`.

    Returns:
        int32 (2, W), positions of the first token of the context and of the
        one after the last; both 0 where there is none.
    """
    ranges = np.zeros((2, len(windows)), np.int32)
    for index, encoding in enumerate(windows.encodings):
        sequence_ids = encoding.sequence_ids
        size = sequence_ids.count(1)
        if size:
            start = sequence_ids.index(1)
            ranges[:, index] = start, start + size
    return ranges


def answer_spans(
    examples: Sequence[SpanExample], windows: Windows, contexts: np.ndarray
) -> np.ndarray:
    """Find the tokens of each question's first answer in its windows.

    Args:
        examples: N questions.
        windows: their W windows, of `encode_questions`.
        contexts: int (2, W), of `context_ranges`.

    Returns:
        int32 (2, W), positions of the answer's first and last token; 0
        where the window does not hold all of the answer.
    """
    encodings = windows.encodings
    lengths = np.array([len(encoding) for encoding in encodings], np.int64)
    size = int(lengths.sum())
    offsets = np.fromiter(
        chain.from_iterable(chain.from_iterable(e.offsets for e in encodings)),
        np.int64,
        2 * size,
    ).reshape(size, 2)
    bounds = np.zeros((len(examples), 2), np.int64)
    for index, example in enumerate(examples):
        if example.answers:
            start = example.answer_starts[0]
            bounds[index] = start, start + len(example.answers[0])
    window = np.repeat(np.arange(len(encodings)), lengths)
    question = windows.texts[window]
    place = np.arange(size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    in_context = (contexts[0, window] <= place) & (place < contexts[1, window])
    # Tokens that share a character with the answer.
    is_answer = in_context & (
        np.maximum(offsets[:, 0], bounds[question, 0])
        < np.minimum(offsets[:, 1], bounds[question, 1])
    )
    is_best = np.concatenate([np.zeros(0, bool), *windows.is_best])
    # Each token is best in one window, so this counts the answer's once.
    total = np.bincount(question[is_answer & is_best], minlength=len(examples))
    count = np.bincount(window[is_answer], minlength=len(encodings))
    is_whole = (count > 0) & (count == total[windows.texts])
    spans = np.zeros((2, len(encodings)), np.int32)
    # Of several values for one entry numpy keeps the last.
    spans[1, window[is_answer]] = place[is_answer]
    spans[0, window[is_answer][::-1]] = place[is_answer][::-1]
    spans[:, ~is_whole] = 0
    return spans
