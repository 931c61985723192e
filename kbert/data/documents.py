"""Documents, lists of sentences, out of what people keep text in."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kbert.data.sentences import cut_long, split_sentences
from kbert.data.text_files import read_lines
from kbert.data.texts import check_text, check_texts, short_repr

_JSON_LINES = (".jsonl", ".ndjson")
_SUFFIXES = (".txt", ".text", *_JSON_LINES)


def read_documents(
    source: str | os.PathLike | Iterable[Any],
    *,
    key: str = "text",
    document_per_line: bool = False,
    split: bool = True,
    errors: str = "strict",
) -> Iterator[list[str]]:
    r"""Read documents as lists of sentences, one after the other.

    Args:
        source: a file; a folder, of which every `.txt`, `.text`, `.jsonl`
            and `.ndjson` file is read, folders inside it too, sorted by
            path, without hidden ones; or an iterable, such as a Hugging Face
            data set, of strings, lists of sentences, dicts with a string
            under `key`, or `Path`s of files.
        key: where the text is in the objects of a JSON-lines file and in
            the dicts of an iterable.
        document_per_line: whether every line of a text file is a document.
            Otherwise blank lines are between documents, and a file's end.
        split: whether to split lines and texts into sentences, see
            `split_sentences`. Pass False where every line is a sentence
            already. Lists of sentences are taken as they are.
        errors: "strict" refuses bytes that are no UTF-8, "replace" puts
            U+FFFD for them.

    Returns:
        An iterator of lists of sentences, without empty ones. Files are read
        as it advances, a line at a time, and so are errors in them raised.
        Sentences of more than 5,000 characters are cut at white space.

    Raises:
        FileNotFoundError: if there is no such file.
        TypeError: if an item of an iterable is none of the above.
        ValueError: if a folder has no such file, nothing read has any text,
            bytes are no UTF-8, or a line is no JSON object with a string
            under `key`.

    Example:
        >>> import kbert, pathlib
        >>> path = pathlib.Path("two.txt")
        >>> _ = path.write_text("It rains. It pours.\n\nThe sun is out.")
        >>> list(kbert.data.read_documents(path))
        [['It rains.', 'It pours.'], ['The sun is out.']]

    References:
        The format with blank lines is that of google-research/bert,
        `create_pretraining_data.py`.
    """
    if errors not in ("strict", "replace"):
        raise ValueError(
            "`errors` must be 'strict' or 'replace'. Received: "
            f"errors={errors!r}"
        )
    if isinstance(source, Mapping):
        raise TypeError(
            "A dict, such as a DatasetDict, has no order of documents: pass "
            f"one of its values. Received: keys {short_repr(list(source))}"
        )
    if isinstance(source, (str, os.PathLike)):
        items: Iterable[Any] = _files(Path(source))
    elif isinstance(source, Iterable) and not isinstance(source, bytes):
        items = source
    else:
        raise TypeError(
            "Expected a path or an iterable of texts. Received: "
            f"source={short_repr(source)}"
        )
    reader = _Reader(key, document_per_line, split, errors)
    return _not_nothing(reader.documents(items), source)


class _Reader:
    """Reads items one by one; the arguments are `read_documents`'."""

    def __init__(
        self, key: str, document_per_line: bool, split: bool, errors: str
    ):
        self._key = key
        self._document_per_line = document_per_line
        self._split = split
        self._errors = errors

    def documents(self, items: Iterable[Any]) -> Iterator[list[str]]:
        """Yield the documents of all items, empty ones included."""
        for index, item in enumerate(items):
            if isinstance(item, os.PathLike):
                yield from self._file(Path(item))
                continue
            name = f"item {index}"
            if isinstance(item, Mapping):
                item = self._value(item, name)
            if isinstance(item, str):
                check_text(item, name)
                yield self._sentences(item)
            elif isinstance(item, (list, tuple)):
                stripped = (s.strip() for s in check_texts(item, name))
                yield cut_long(s for s in stripped if s)
            else:
                raise TypeError(
                    "Expected a string, a list of sentences, a dict or a "
                    f"Path. Received: {name}={short_repr(item)}"
                )

    def _file(self, path: Path) -> Iterator[list[str]]:
        document: list[str] = []
        is_json = path.suffix.lower() in _JSON_LINES
        for number, line in read_lines(path, self._errors):
            line = line.strip()
            if is_json:
                if line:
                    name = f"line {number} of {str(path)!r}"
                    yield self._sentences(self._json_text(line, name))
            elif self._document_per_line:
                yield self._line(line)
            elif line:
                document += self._line(line)
            else:
                yield document
                document = []
        yield document

    def _json_text(self, line: str, name: str) -> str:
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(
                f"Expected a JSON object a line ({error}). Received: {name}"
            ) from error
        if not isinstance(value, dict):
            raise ValueError(
                "Expected a JSON object a line. Received: "
                f"{name}={short_repr(value)}"
            )
        text = self._value(value, name)
        if not isinstance(text, str):
            raise ValueError(
                f"Expected a string under {self._key!r}. Received: "
                f"{short_repr(text)} in {name}"
            )
        check_text(text, name)
        return text

    def _value(self, item: Mapping, name: str) -> Any:
        if self._key not in item:
            raise ValueError(
                f"There is no key {self._key!r}; name the right one with "
                f"`key`. Received: keys {short_repr(list(item))} in {name}"
            )
        return item[self._key]

    def _line(self, line: str) -> list[str]:
        if self._split:
            return split_sentences(line)
        return cut_long([line]) if line else []

    def _sentences(self, text: str) -> list[str]:
        if self._split:
            return split_sentences(text)
        lines = (line.strip() for line in text.split("\n"))
        return cut_long(line for line in lines if line)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        if not path.is_file():
            raise FileNotFoundError(
                "Expected a file or a folder of text; texts themselves go in "
                f"a list. Received: source={short_repr(str(path))}"
            )
        return [path]
    files = sorted(
        file
        for file in path.rglob("*")
        if file.suffix.lower() in _SUFFIXES
        and file.is_file()
        and not any(p.startswith(".") for p in file.relative_to(path).parts)
    )
    if not files:
        raise ValueError(
            f"The folder has no file that ends in {', '.join(_SUFFIXES)}. "
            f"Received: source={str(path)!r}"
        )
    return files


def _not_nothing(
    documents: Iterator[list[str]], source: Any
) -> Iterator[list[str]]:
    """Leave out empty documents, and refuse to yield none at all."""
    is_empty = True
    for document in documents:
        if document:
            is_empty = False
            yield document
    if is_empty:
        raise ValueError(
            f"There is no text in it. Received: source={short_repr(source)}"
        )
