"""Words and their tags out of column files: CoNLL, CoNLL-U, IOB."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

# https://universaldependencies.org/format.html
_CONLLU_COLUMNS = [
    *("id", "form", "lemma", "upos", "xpos"),
    *("feats", "head", "deprel", "deps", "misc"),
]
_ID = re.compile(r"\d+([-.]\d+)?")
# A range of words that one written word stands for, or a word left unsaid:
# the words themselves have lines of their own.
_RANGE_OR_EMPTY = re.compile(r"\d+[-.]\d+")
_BLANKS = re.compile(r"[ \t]+")
_DOCUMENT_START = "-DOCSTART-"

# A line with its number, cut into columns.
_Line = tuple[int, list[str]]


def read_conll(
    path: str | os.PathLike,
    *,
    column: int | str = -1,
    word_column: int | str | None = None,
    encoding: str = "utf-8",
) -> tuple[list[list[str]], list[list[str]]]:
    r"""Read sentences of tagged words, a word a line.

    Blank lines, which may hold tabs or spaces, end a sentence. Columns are
    cut at tabs if the first line of a word has one, and words may then hold
    spaces; otherwise at spaces. Left out are `-DOCSTART-` lines, the lines
    `1-2` and `1.1` of CoNLL-U, and comments: lines before or after the words
    of a sentence that begin with `#` and have not the columns of a word.

    Args:
        path: the file.
        column: where the tags are: a number from 0, negative from the end
            (CoNLL-2003 has part of speech in 1, chunks in 2, entities in
            -1); or a name of CoNLL-U such as "upos", "xpos" or "deprel".
        word_column: where the words are; None for 0, and for the column
            "form" of CoNLL-U, that is if `column` is a name or there are 10
            columns, numbers in the first.
        encoding: of the file; a mark at its start is dropped.

    Returns:
        Words and tags, each a list of sentences that are lists of strings,
        as the file writes them.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not in `encoding`, has no words, lines of a
            sentence differ in their number of columns, a column is missing,
            a tag is empty or the name of a column is unknown.

    Example:
        >>> import kbert
        >>> with open("/tmp/mine.conll", "w") as file:
        ...     _ = file.write("Ada B-PER\nleft O\n\nWhy O\n? O\n")
        >>> words, tags = kbert.data.read_conll("/tmp/mine.conll")
        >>> words
        [['Ada', 'left'], ['Why', '?']]
        >>> tags
        [['B-PER', 'O'], ['O', 'O']]

    References:
        Tjong Kim Sang and De Meulder 2003, "Introduction to the CoNLL-2003
        shared task"; https://universaldependencies.org/format.html
    """
    received = f"Received: path={os.fspath(path)!r}"
    blocks = list(_blocks(_decoded(path, encoding)))
    has_tabs = _has_tabs(blocks)
    cut = [
        [(number, _columns(line, has_tabs)) for number, line in block]
        for block in blocks
    ]
    cut = [_without_comments(block, cut) for block in cut]
    first_line = next((line for block in cut for line in block), None)
    if first_line is None:
        raise ValueError(f"The file has no words. {received}")
    is_conllu = isinstance(column, str) or (
        len(first_line[1]) == len(_CONLLU_COLUMNS)
        and bool(_ID.fullmatch(first_line[1][0]))
    )
    tag_place = _place("column", column)
    word_place = _place(
        "word_column",
        int(is_conllu) if word_column is None else word_column,
    )
    words, tags = [], []
    for block in cut:
        sentence = [
            line
            for line in block
            if _DOCUMENT_START not in line[1]
            and not (word_place and _RANGE_OR_EMPTY.fullmatch(line[1][0]))
        ]
        if not sentence:
            continue
        _check_columns(sentence, (word_place, tag_place), received)
        words.append([columns[word_place] for _, columns in sentence])
        tags.append([columns[tag_place].strip() for _, columns in sentence])
        for (number, _), tag in zip(sentence, tags[-1], strict=True):
            if not tag:
                raise ValueError(f"Line {number} has an empty tag. {received}")
    if not words:
        raise ValueError(f"The file has no words. {received}")
    return words, tags


def _decoded(path: str | os.PathLike, encoding: str) -> str:
    data = Path(path).read_bytes()
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"Line {line} is not {encoding}: give the file's `encoding`, such "
            f"as 'latin-1'. Received: path={os.fspath(path)!r}, "
            f"encoding={encoding!r}"
        ) from error
    return text.removeprefix("\ufeff")


def _blocks(text: str) -> Iterator[list[tuple[int, str]]]:
    """Yield the numbered lines between blank ones."""
    block = []
    # Not `splitlines`, for which a word may hold a line's end.
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if line.strip():
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _has_tabs(blocks: list[list[tuple[int, str]]]) -> bool:
    """Say whether tabs, and not spaces, are between columns."""
    lines = [line for block in blocks for _, line in block]
    for line in lines:
        if not line.startswith(("#", _DOCUMENT_START)):
            return "\t" in line
    # Nothing but hashes: comments, or words such as "#one".
    return any("\t" in line for line in lines)


def _columns(line: str, has_tabs: bool) -> list[str]:
    # Not `split()`, which takes a no-break space in a word for an end too.
    return line.split("\t") if has_tabs else _BLANKS.split(line.strip(" \t"))


def _without_comments(
    block: list[_Line], blocks: list[list[_Line]]
) -> list[_Line]:
    """Drop the comments before and after the words of one block."""

    def widths(lines: list[_Line]) -> Iterator[int]:
        return (
            len(columns)
            for _, columns in lines
            if not columns[0].startswith(("#", _DOCUMENT_START))
        )

    if not any(columns[0].startswith("#") for _, columns in block):
        return block
    # A tweet may have hashtags alone; then other sentences tell.
    everywhere = (width for lines in blocks for width in widths(lines))
    width = next(widths(block), None) or next(everywhere, 2)
    is_word = [
        not columns[0].startswith("#") or len(columns) == width
        for _, columns in block
    ]
    if not any(is_word):
        return []
    end = len(block) - is_word[::-1].index(True)
    return block[is_word.index(True) : end]


def _place(name: str, column: int | str) -> int:
    """Return the number of a column."""
    if isinstance(column, str):
        if column.lower() not in _CONLLU_COLUMNS:
            raise ValueError(
                f"`{name}` must be a number or one of {_CONLLU_COLUMNS}. "
                f"Received: {name}={column!r}"
            )
        return _CONLLU_COLUMNS.index(column.lower())
    if isinstance(column, bool) or not isinstance(column, int):
        raise TypeError(
            f"`{name}` must be an int or a string. Received: {name}={column!r}"
        )
    return column


def _check_columns(
    sentence: list[_Line], places: tuple[int, int], received: str
) -> None:
    first, columns = sentence[0]
    width = len(columns)
    for number, columns in sentence:
        if len(columns) != width:
            raise ValueError(
                f"Line {number} has {len(columns)} columns, but line {first} "
                f"of the same sentence has {width}. {received}, "
                f"line {number}: {columns}"
            )
    word_place, tag_place = (
        place if place >= 0 else place + width for place in places
    )
    if not (0 <= word_place < width and 0 <= tag_place < width):
        raise ValueError(
            f"Line {first} has {width} columns, and words were to be in column "
            f"{places[0]}, tags in {places[1]}. {received}"
        )
    if word_place == tag_place:
        raise ValueError(
            f"Line {first} has its words and its tags in the same column, "
            f"{word_place}. {received}"
        )
