"""Texts and labels out of the files people keep them in."""

import csv
import json
import os
from pathlib import Path

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_JSON_LINES = (".jsonl", ".ndjson")


def read_columns(path: str | os.PathLike, *columns: str) -> list[list[str]]:
    """Read columns of a CSV, TSV or JSON-lines file.

    Args:
        path: a file in UTF-8 whose name ends in `.csv` or `.tsv`, with the
            names of its columns in the first line, or `.jsonl` (`.ndjson`),
            an object a line.
        *columns: names of the columns wanted.

    Returns:
        A list for each column, with a string for each row. Numbers of JSON
        become strings as Python writes them.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the ending is another, there is no row, a row lacks a
            column, or a line is no JSON object.

    Example:
        >>> import kbert
        >>> with open("/tmp/mine.jsonl", "w") as file:
        ...     _ = file.write('{"text": "good", "label": 1}')
        >>> kbert.data.read_columns("/tmp/mine.jsonl", "text", "label")
        [['good'], ['1']]
    """
    path = Path(path)
    # `utf-8-sig` drops the mark that spreadsheet programs put in front.
    with open(path, encoding="utf-8-sig", newline="") as file:
        if path.suffix in _DELIMITERS:
            # Texts may be longer than the 128 KiB that csv allows.
            csv.field_size_limit(2**31 - 1)
            reader = csv.DictReader(file, delimiter=_DELIMITERS[path.suffix])
            rows = list(reader)
        elif path.suffix in _JSON_LINES:
            rows = [
                _json_object(line, number, path)
                for number, line in enumerate(file, 1)
                if line.strip()
            ]
        else:
            raise ValueError(
                "The file must end in .csv, .tsv or .jsonl. Received: "
                f"path={str(path)!r}"
            )
    if not rows:
        raise ValueError(f"The file has no rows. Received: path={str(path)!r}")
    for number, row in enumerate(rows, 1):
        for column in columns:
            if row.get(column) is None:
                found = [name for name in row if name is not None]
                raise ValueError(
                    f"Row {number} has no {column!r}; its columns are "
                    f"{found}. Received: path={str(path)!r}"
                )
    return [[str(row[column]) for row in rows] for column in columns]


def _json_object(line: str, number: int, path: Path) -> dict:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"Line {number} is no JSON ({error}). Received: path={str(path)!r}"
        ) from error
    if not isinstance(value, dict):
        raise ValueError(
            f"Line {number} is no JSON object. Received: {line.strip()[:80]!r}"
        )
    return value
