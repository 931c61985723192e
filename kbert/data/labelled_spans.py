"""Labelled spans of characters, as labels of a text's pieces."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from kbert.data.tags import is_whole
from kbert.data.texts import as_list, short_repr
from kbert.data.token_labels import Labels, TextPieces

_LOGGER = logging.getLogger("kbert")


def span_labels(
    pieces: TextPieces,
    texts: Sequence[str],
    spans: Sequence[Sequence[Any]],
    label_names: Sequence[str] | None,
) -> Labels:
    """Give the pieces of texts the B-, I- and O tags of spans.

    A piece is in a span if they share a character; in the first, if it is in
    two. What begins or ends inside a piece is counted and logged.

    Args:
        pieces: of the texts.
        texts: N strings.
        spans: for each text, a list of (start, end, type).
        label_names: names of the classes in order.

    Returns:
        The labels.

    Raises:
        TypeError: if a span has another form.
        ValueError: if spans are not in their text, are empty or overlap, or
            a tag is not among `label_names`.
    """
    if label_names is None:
        raise ValueError(
            "`spans` need `label_names`, such as ['O', 'B-PER', 'I-PER']. "
            "Received: label_names=None"
        )
    numbers = {name: index for index, name in enumerate(label_names)}
    # Every text has its own stretch of one line of characters.
    bases = np.cumsum([0, *(len(text) + 1 for text in texts)])
    rows = [
        (start + bases[index], end + bases[index], kind)
        for index, (text, row) in enumerate(zip(texts, spans, strict=True))
        for start, end, kind in _checked_spans(text, row, f"spans[{index}]")
    ]
    starts = np.array([start for start, _, _ in rows], np.int64)
    ends = np.array([end for _, end, _ in rows], np.int64)
    first, last = (pieces.span + bases[pieces.text, None]).T
    # The first span that ends after the piece starts.
    owner = np.searchsorted(ends, first, side="right")
    is_inside = np.append(starts, bases[-1])[owner] < last
    slot = 2 * owner + is_inside
    is_first = np.diff(pieces.text, prepend=-1) != 0
    is_first |= np.diff(pieces.word, prepend=-1) != 0
    is_first |= np.diff(slot, prepend=-1) != 0

    found, begins = np.unique(owner[is_inside], return_index=True)
    begins = np.flatnonzero(is_inside)[begins]
    tags = [f"{letter}-{kind}" for *_, kind in rows for letter in "BI"]
    _check_tags(["O", *dict.fromkeys(tags)], numbers, label_names)
    classes = np.array([numbers[tag] for tag in tags], "int32").reshape(-1, 2)
    ids = np.full(len(slot), numbers["O"], "int32")
    ids[is_inside] = classes[owner[is_inside], 1]
    # The whole word, or part of one, that a span begins with.
    group = np.cumsum(is_first)
    is_begin = is_inside & np.isin(group, group[begins])
    ids[is_begin] = classes[owner[is_begin], 0]

    at = owner[is_inside]
    is_wider = (first[is_inside] < starts[at]) | (last[is_inside] > ends[at])
    num_wider, num_lost = len(set(at[is_wider])), len(rows) - len(found)
    if num_wider or num_lost:
        _LOGGER.warning(
            "%d of %d spans begin or end inside a piece, and were widened to "
            "whole pieces; %d have no piece of their own and were left out.",
            num_wider,
            len(rows),
            num_lost,
        )
    return Labels(is_first, ids)


def _checked_spans(
    text: str, spans: Any, name: str
) -> list[tuple[int, int, str]]:
    """Return the spans of a text in order, without white space around."""
    rows = []
    for number, span in enumerate(as_list(spans, name)):
        received = f"Received: {name}[{number}]={short_repr(span)}"
        if not _is_span(span):
            raise TypeError(
                "A span must be two whole numbers and a string: (start, end, "
                f"type). {received}"
            )
        start, end, kind = span
        if not 0 <= start < end <= len(text) or text[start:end].isspace():
            raise ValueError(
                "A span must hold characters of its text, which has "
                f"{len(text)}. {received}"
            )
        inner = text[start:end]
        start += len(inner) - len(inner.lstrip())
        rows.append((int(start), int(start) + len(inner.strip()), kind))
    rows.sort()
    for before, after in zip(rows[:-1], rows[1:], strict=True):
        if after[0] < before[1]:
            raise ValueError(
                "Spans of a text must not overlap, as a piece has one label. "
                f"Received: {name} with {before} and {after}"
            )
    return rows


def _is_span(span: Any) -> bool:
    is_triple = isinstance(span, (tuple, list)) and len(span) == 3
    return (
        is_triple
        and is_whole(span[0])
        and is_whole(span[1])
        and isinstance(span[2], str)
    )


def _check_tags(
    tags: Sequence[str], numbers: dict[str, int], label_names: Sequence[str]
) -> None:
    missing = [tag for tag in tags if tag not in numbers]
    if missing:
        raise ValueError(
            "`label_names` must hold 'O', and B- and I- with every type of "
            f"`spans`: {missing} are not there. Received: "
            f"label_names={list(label_names)!r}"
        )
