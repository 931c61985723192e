"""Tags of words: their names, their numbers, and the schemes they follow."""

from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np

from kbert.data.classification import check_label_names
from kbert.data.texts import as_list, short_repr

SCHEMES = ("iob1", "iob2", "bioes")
_PREFIXES = ("B", "I", "E", "S")


def tag_names(tags: Sequence[Sequence[str]]) -> list[str]:
    """List the tags that occur, as `label_names` of data set and model.

    Args:
        tags: N lists of tags, one for each word.

    Returns:
        The different tags, sorted, "O" first if it is there.

    Raises:
        TypeError: if `tags` is no list of lists of strings.

    Example:
        >>> import kbert
        >>> kbert.data.tag_names([["O", "B-PER", "I-PER"], ["B-LOC"]])
        ['O', 'B-LOC', 'B-PER', 'I-PER']
    """
    names = {tag for row in _string_rows(tags) for tag in row}
    return sorted(names, key=lambda name: (name != "O", name))


def convert_tags(
    tags: Sequence[Sequence[str]], scheme: str = "iob2"
) -> list[list[str]]:
    """Write the tags of entities by another scheme.

    The given scheme need not be named: tags are read as conlleval and
    seqeval read them. An entity starts at B- or S-, after O, E- or S-, and
    where the type changes.

    Args:
        tags: N lists of tags: "O", or a prefix B-, I-, E- or S- and a type.
        scheme: how to write them: "iob1" (I-, and B- only where an entity
            follows one of its type), "iob2" (every entity starts with B-) or
            "bioes" (the last word has E-, a single one S-).

    Returns:
        N lists of tags, of the same entities.

    Raises:
        TypeError: if `tags` is no list of lists of strings.
        ValueError: if `scheme` is unknown, or a tag is of another form.

    Example:
        >>> import kbert
        >>> kbert.data.convert_tags([["I-PER", "I-PER", "O", "I-LOC"]])
        [['B-PER', 'I-PER', 'O', 'B-LOC']]

    References:
        `start_of_chunk` and `end_of_chunk` of chakki-works/seqeval, after
        the conlleval script of CoNLL-2000.
    """
    if scheme not in SCHEMES:
        raise ValueError(
            f"`scheme` must be one of {SCHEMES}. Received: scheme={scheme!r}"
        )
    return [
        _written(_parts(row, index), scheme)
        for index, row in enumerate(_string_rows(tags))
    ]


def tag_ids(
    tags: Sequence[Sequence[Any]] | np.ndarray,
    sizes: Sequence[int],
    label_names: Sequence[str] | None,
) -> np.ndarray:
    """Check the tags of words, and turn names into numbers.

    Args:
        tags: N rows of class numbers or names.
        sizes: how many words each text has.
        label_names: names of the classes in order, or None.

    Returns:
        int32 (sum of sizes,).

    Raises:
        TypeError: if a tag is neither a whole number nor a string.
        ValueError: if numbers of rows or tags are wrong, a name is unknown
            or there are no names, or a number is out of range.
    """
    rows = _rows(tags)
    if len(rows) != len(sizes):
        raise ValueError(
            "`tags` must have one list for each list of words. Received: "
            f"{len(rows)} tags for {len(sizes)} words"
        )
    names = None
    if label_names is not None:
        check_label_names(label_names)
        names = list(label_names)
    numbers = {name: index for index, name in enumerate(names or ())}
    end = np.iinfo("int32").max if names is None else len(names)
    ids = np.zeros(sum(sizes), "int32")
    place = 0
    for index, (row, size) in enumerate(zip(rows, sizes, strict=True)):
        if len(row) != size:
            raise ValueError(
                "There must be one tag for each word. Received: "
                f"{len(row)} tags and {size} words, words[{index}] and "
                f"tags[{index}]={short_repr(row)}"
            )
        for number, tag in enumerate(row):
            if isinstance(tag, str) and tag in numbers:
                ids[place] = numbers[tag]
            elif is_whole(tag) and 0 <= tag < end:
                ids[place] = tag
            else:
                _refuse(tag, f"tags[{index}][{number}]", names, end)
            place += 1
    return ids


def is_whole(value: Any) -> TypeGuard[int]:
    """Say whether a value is a whole number, and no bool."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _refuse(tag: Any, place: str, names: list[str] | None, end: int) -> None:
    received = f"Received: {place}={short_repr(tag)}"
    if is_whole(tag):
        raise ValueError(f"Tags must be numbers in [0, {end}). {received}")
    if not isinstance(tag, str):
        raise TypeError(f"Tags must be whole numbers or names. {received}")
    if names is None:
        raise ValueError(
            "Tags that are names need `label_names`, the names of the classes "
            f"in order; `kbert.data.tag_names(tags)` lists them. {received}"
        )
    raise ValueError(f"Tags must be among label_names={names!r}. {received}")


def _rows(tags: Any) -> list[list[Any]]:
    return [
        as_list(row, f"tags[{index}]")
        for index, row in enumerate(as_list(tags, "tags"))
    ]


def _string_rows(tags: Any) -> list[list[str]]:
    rows = _rows(tags)
    for index, row in enumerate(rows):
        for number, tag in enumerate(row):
            if not isinstance(tag, str):
                raise TypeError(
                    "Tags must be strings. Received: "
                    f"tags[{index}][{number}]={short_repr(tag)}"
                )
    return rows


def _parts(row: list[str], index: int) -> list[tuple[str, str]]:
    """Cut tags into prefix and type, ("O", "") outside of entities."""
    parts = []
    for number, tag in enumerate(row):
        prefix, _, kind = tag.partition("-")
        if tag != "O" and not (prefix in _PREFIXES and kind):
            raise ValueError(
                "Tags of entities must be 'O' or one of B-, I-, E-, S- and a "
                f"type. Received: tags[{index}][{number}]={tag!r}"
            )
        parts.append((prefix, kind))
    return parts


def _written(parts: list[tuple[str, str]], scheme: str) -> list[str]:
    """Write the tags of one text."""
    before = [("O", ""), *parts][: len(parts)]
    starts = [
        prefix in ("B", "S") or old in ("O", "E", "S") or kind != old_kind
        for (old, old_kind), (prefix, kind) in zip(before, parts, strict=True)
    ]
    tags = []
    for place, (prefix, kind) in enumerate(parts):
        if prefix == "O":
            tags.append("O")
            continue
        is_start = starts[place]
        after = place + 1
        is_end = after == len(parts) or parts[after][0] == "O" or starts[after]
        if scheme == "bioes":
            letter = "IEBS"[2 * is_start + is_end]
        elif scheme == "iob2":
            letter = "B" if is_start else "I"
        else:
            follows = place and parts[place - 1][1] == kind
            letter = "B" if is_start and follows else "I"
        tags.append(f"{letter}-{kind}")
    return tags
