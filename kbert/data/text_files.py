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
            yield from _read_lines(Path(text))
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


def _read_lines(path: Path) -> Iterator[str]:
    """Yields the lines of a file in UTF-8, without their ends."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"Expected text in UTF-8, but line {number} is not: "
                    f"{error}. Received: path={os.fspath(path)!r}"
                ) from error
            yield text.removesuffix("\n").removesuffix("\r")
