"""Words, spans and n-grams of a batch, and which of them are chosen."""

from dataclasses import dataclass

import numpy as np

UNITS = ("token", "word", "span", "ngram")


def _shares(weights: np.ndarray) -> np.ndarray:
    return weights / weights.sum()


# How many words in a row are masked together, from one on. SpanBERT's
# geometric lengths (p = 0.2, at most 10) and ALBERT's n-grams (1 / n, at
# most 3).
_WORDS_IN_A_ROW = {
    "span": _shares(0.2 * 0.8 ** np.arange(10)),
    "ngram": _shares(1 / np.arange(1, 4)),
}


@dataclass(frozen=True)
class Words:
    """What is masked whole, in the order of the batch.

    Attributes:
        of: int, for each maskable token, the number of its word.
        first: int (W,), the first token's index in the flattened batch.
        size: int (W,), tokens.
    """

    of: np.ndarray
    first: np.ndarray
    size: np.ndarray


def find_words(can_mask: np.ndarray, starts: np.ndarray) -> Words:
    """Find the words of a batch.

    Args:
        can_mask: bool (B, S), which tokens are in a word.
        starts: bool (B, S), which begin one.

    Returns:
        `Words`.
    """
    of = np.cumsum(starts[can_mask]) - 1
    first = np.flatnonzero(starts)
    return Words(of, first, np.bincount(of, minlength=len(first)))


def group_words(
    words: Words, length: int, unit: str, draws: np.ndarray
) -> np.ndarray:
    """Number words so that those chosen as one share a number.

    The words of a sequence are cut into runs of random lengths, and again
    wherever a run of ordinary tokens ends.

    Args:
        words: W words.
        length: S.
        unit: one of `UNITS`.
        draws: float (W,) from 0 to 1. Those of a sequence decide about it
            alone.

    Returns:
        Int (W,), ascending.
    """
    num_words = len(words.first)
    if unit not in _WORDS_IN_A_ROW:
        return np.arange(num_words)
    bounds = np.cumsum(_WORDS_IN_A_ROW[unit])
    bounds[-1] = 1  # not a rounding error less
    lengths = 1 + np.searchsorted(bounds, draws, side="right")
    rows = words.first // length
    ends = np.searchsorted(rows, rows) + running_sums(lengths, rows)
    starts = np.diff(rows, prepend=-1) != 0
    starts[ends[ends < np.searchsorted(rows, rows, side="right")]] = True
    starts[1:] |= words.first[1:] != (words.first + words.size)[:-1]
    return np.cumsum(starts)


def choose_words(
    rows: np.ndarray,
    sizes: np.ndarray,
    groups: np.ndarray,
    budget: np.ndarray,
    turns: np.ndarray,
) -> np.ndarray:
    """Choose words at random until each row's budget of tokens is spent.

    As if every row went through its groups by their turns, and took of each
    the words from the first on that still fit. Each turn of the loop does so
    in all rows at once, up to the first word that does not fit.

    Args:
        rows: int (W,), ascending; or sequences, where rows hold several.
        sizes: int (W,), tokens.
        groups: int (W,), ascending, from 0 or 1 on.
        budget: int (B,), tokens; of each sequence, where rows hold several.
        turns: float (W,), random, the same for all words of a group.

    Returns:
        Bool (W,).
    """
    is_chosen = np.zeros(len(rows), bool)
    if not len(rows):
        return is_chosen
    # Stable, so words of a group stay in order.
    left = np.lexsort((turns, rows))
    budget = budget.copy()
    while len(left):
        # Of each group, what is before the first word that cannot fit.
        too_many = running_sums(sizes[left] > budget[rows[left]], groups[left])
        left = left[too_many == 0]
        total = running_sums(sizes[left], rows[left])
        fits = total <= budget[rows[left]]
        taken = left[fits]
        is_chosen[taken] = True
        budget -= np.bincount(
            rows[taken], sizes[taken], minlength=len(budget)
        ).astype(np.int64)
        is_begun = np.zeros(groups[-1] + 1, bool)
        is_begun[groups[taken]] = True
        left = left[~fits & ~is_begun[groups[left]]]
    return is_chosen


def running_sums(values: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Sum non-negative values up to each, anew where the key changes.

    Args:
        values: (W,), 0 or more.
        keys: int (W,), ascending.
    """
    total = np.cumsum(values)
    is_first = np.diff(keys, prepend=-1) != 0
    return total - np.maximum.accumulate(np.where(is_first, total - values, 0))
