"""Batches of about as many tokens each, for texts of very unlike lengths."""

import numpy as np

from kbert.data.batching import Batch, BatchOptions, padded_length


def plan_by_tokens(
    lengths: np.ndarray, options: BatchOptions, tokens: int
) -> list[Batch]:
    """Group texts of like length, the longest first.

    A model's layers then work on arrays of about one size, whatever the
    texts: what a processor's cache holds is several times as fast.

    Args:
        lengths: int (N,), tokens in each text, at most `options.max_length`.
        options: how to pad. Its batch size is not read.
        tokens: most tokens in a batch, padding included; a longer text is a
            batch of its own.

    Returns:
        Batches that hold every text once.
    """
    order = np.argsort(-lengths, kind="stable")
    batches, start = [], 0
    while start < len(order):
        length = padded_length(int(lengths[order[start]]), options)
        end = start + max(1, tokens // length)
        batches.append(Batch(order[start:end], length, number=len(batches)))
        start = end
    return batches
