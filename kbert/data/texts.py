"""Checks of the texts that users hand over, whatever holds them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

# What holds texts: a list, tuple, array, or column of a data frame or of a
# data set. The last two are no `Sequence` to a type checker.
Texts = Sequence[Any] | np.ndarray


def check_texts(texts: Texts, name: str) -> list[str]:
    """Returns the texts as a list of strings.

    Args:
        texts: N strings in any sequence.
        name: What the caller names it, for the messages.

    Returns:
        The N strings.

    Raises:
        TypeError: `texts` is one string or no sequence, or an item is no
            string.
        ValueError: A string holds half of a surrogate pair.
    """
    items = as_list(texts, name)
    for index, item in enumerate(items):
        if not isinstance(item, str) or not item.isascii():
            check_text(item, f"{name}[{index}]")
    return items


def check_words(texts: Texts, name: str) -> list[list[str]]:
    """Returns texts that are split into words as lists of lists.

    Args:
        texts: N sequences of words.
        name: What the caller names it, for the messages.

    Returns:
        The N lists of words.

    Raises:
        TypeError: As `check_texts`, for `texts` and each item of it.
        ValueError: As `check_texts`.
    """
    return [
        check_texts(words, f"{name}[{index}]")
        for index, words in enumerate(as_list(texts, name))
    ]


def pair_up(texts: list, pairs: list | None) -> list:
    """Joins first and second texts into tuples.

    Raises:
        ValueError: They differ in number.
    """
    if pairs is None:
        return texts
    if len(texts) != len(pairs):
        raise ValueError(
            "Expected as many second texts as first ones. "
            f"Received: len(texts)={len(texts)}, len(pairs)={len(pairs)}"
        )
    return list(zip(texts, pairs, strict=True))


def short_repr(value: object) -> str:
    """Returns a `repr` that a long text or vocabulary does not flood."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def as_list(texts: Texts, name: str) -> list:
    """Lists the items of a sequence that has one dimension and an order.

    Args:
        texts: The sequence.
        name: What the caller names it, for the message.

    Raises:
        TypeError: It is one string, or has no order or more dimensions.
    """
    is_sequence = (
        hasattr(texts, "__len__")
        and hasattr(texts, "__getitem__")
        and not isinstance(texts, (str, bytes, dict))
        # A data frame would list its columns' names, a 0-d array fails.
        and getattr(texts, "ndim", 1) == 1
    )
    if not is_sequence:
        raise TypeError(
            "Expected a sequence with one item for each text, such as a list. "
            f"Received: {name}={short_repr(texts)}"
        )
    # tolist turns numpy's own strings into Python's.
    return texts.tolist() if isinstance(texts, np.ndarray) else list(texts)


def check_text(item: object, name: str) -> None:
    """Refuses what is no string, and strings that are no Unicode text.

    Args:
        item: One text.
        name: What the caller names it, for the message.

    Raises:
        TypeError: It is no string.
        ValueError: It holds half of a surrogate pair.
    """
    if not isinstance(item, str):
        raise TypeError(
            "Expected every text to be a string: drop or fill missing values, "
            f"and decode bytes. Received: {name}={short_repr(item)}"
        )
    try:
        item.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            "Expected Unicode text, but character "
            f"{error.start} is half of a surrogate pair; "
            "text.encode('utf-16', 'surrogatepass').decode('utf-16', "
            f"'replace') repairs it. Received: {name}={short_repr(item)}"
        ) from error
