"""Strings out of whatever holds a corpus, one after the other."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kbert.data.texts import check_text, short_repr


def read_texts(texts: Iterable[Any] | os.PathLike) -> Iterator[str]:
    """Yields the texts of a corpus, without holding more than one.

    Args:
        texts: Strings, or paths (`pathlib.Path`) of text files in UTF-8, each
            line of which is a text; or one such path.

    Yields:
        The texts, without line ends.

    Raises:
        TypeError: `texts` is one string or cannot be iterated over, or an
            item is neither string nor path.
        ValueError: A file is not UTF-8, a string holds half of a surrogate
            pair, or the first string is the name of a file.
    """
    if isinstance(texts, os.PathLike):
        texts = [texts]
    if (
        isinstance(texts, (str, bytes, Mapping))
        or not isinstance(texts, Iterable)
        # A data frame would list its columns' names.
        or getattr(texts, "ndim", 1) != 1
    ):
        raise TypeError(
            "Expected strings or paths, such as a list, a generator or a "
            "pathlib.Path. "
            f"Received: texts={short_repr(texts)}"
        )
    for index, text in enumerate(texts):
        if isinstance(text, os.PathLike):
            yield from (line for _, line in read_lines(Path(text)))
            continue
        if not isinstance(text, str) or not text.isascii():
            check_text(text, f"texts[{index}]")
        # A list of names would otherwise be a corpus of names.
        if index == 0 and os.path.isfile(text):
            raise ValueError(
                "Expected texts, and files as pathlib.Path, but there is a "
                f"file of this name. Received: texts[0]={text!r}"
            )
        yield text


def read_lines(path: Path, errors: str = "strict") -> Iterator[tuple[int, str]]:
    """Yields the lines of a file in UTF-8, without their ends.

    Args:
        path: The file.
        errors: "strict", or "replace" to put U+FFFD for bytes that are no
            UTF-8.

    Yields:
        The number of a line, from 1, and the line.

    Raises:
        ValueError: The file is not UTF-8.
    """
    position = 0
    with open(path, "rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                # `utf-8-sig` drops the mark that some editors put first.
                line = raw.decode(
                    "utf-8-sig" if number == 1 else "utf-8", errors
                )
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"Byte {position + error.start} of the file, in line "
                    f"{number}, is no UTF-8: convert the file. Received: "
                    f"{raw[error.start : error.end]!r} in {str(path)!r}"
                ) from error
            position += len(raw)
            yield number, line.removesuffix("\n").removesuffix("\r")
