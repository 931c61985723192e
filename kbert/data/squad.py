"""Questions, contexts and answers out of SQuAD's files."""

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kbert.data.span_example import SpanExample, stands_at
from kbert.data.texts import check_text, short_repr

_LOGGER = logging.getLogger("kbert")


_JSON_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "a whole number",
}


def read_squad(path: str | os.PathLike) -> list[SpanExample]:
    """Read the questions of a file in SQuAD's form.

    An answer whose text does not stand where the file says is moved to where
    it stands, if that is one place alone. Otherwise it is left out, and with
    it a question that has no other answer. A log line gives the counts.

    Args:
        path: a JSON file in UTF-8 as of SQuAD 1.1 or 2.0: articles under
            `data`, with `paragraphs` of a `context` and `qas`. Instead of
            articles there may be questions, each with its `id`, `question`,
            `context` and `answers`; `answers` may be a list of dicts as in
            SQuAD, or a dict of two lists, `text` and `answer_start`. The
            list may also be all the file, or be lines of a `.jsonl` file.
            `plausible_answers` are not read.

    Returns:
        A `SpanExample` for each question, in the order of the file.

    Raises:
        FileNotFoundError: if there is no such file.
        TypeError: if a value has another type than in SQuAD.
        ValueError: if the file is no JSON or has another form, a key is
            missing, an id is there twice, a question marked impossible has
            answers, or nothing is left to return.

    Example:
        >>> import json, kbert, pathlib
        >>> question = {"id": "1", "question": "Who came?", "answers": [
        ...     {"text": "Ann", "answer_start": 0}]}
        >>> paragraph = {"context": "Ann came late.", "qas": [question]}
        >>> file = {"data": [{"title": "Guests", "paragraphs": [paragraph]}]}
        >>> path = pathlib.Path("guests.json")
        >>> _ = path.write_text(json.dumps(file))
        >>> kbert.data.read_squad(path)[0].answers
        ('Ann',)

    References:
        Rajpurkar et al., 2016, https://arxiv.org/abs/1606.05250; Rajpurkar
        et al., 2018, https://arxiv.org/abs/1806.03822
    """
    examples, ids = [], set()
    num_moved = num_lost = num_skipped = 0
    for row, place in _questions(_read_items(Path(path))):
        id_ = str(_get(row, "id", (str, int), place))
        if id_ in ids:
            raise ValueError(
                "Every question must have an id of its own. Received: "
                f"{place} with id={id_!r} for the second time"
            )
        ids.add(id_)
        context = _text(row, "context", place)
        given = _answers(row, place)
        found = [(text, _find(context, text, said)) for text, said in given]
        kept = [(text, start) for text, start in found if start is not None]
        num_moved += sum(answer not in given for answer in kept)
        num_lost += len(given) - len(kept)
        if given and not kept:
            num_skipped += 1
            continue
        examples.append(
            SpanExample(
                id=id_,
                question=_text(row, "question", place),
                context=context,
                title=_checked(row.get("title", ""), str, f"{place}.title"),
                answers=tuple(text for text, _ in kept),
                answer_starts=tuple(start for _, start in kept),
            )
        )
    if num_moved or num_lost:
        _LOGGER.warning(
            "%s: %d answers did not stand where the file says and were moved "
            "to the one place of their text; %d are in no place or in several "
            "and were left out, with %d questions that have no other.",
            path,
            num_moved,
            num_lost,
            num_skipped,
        )
    if not examples:
        raise ValueError(
            f"The file has no question to return. Received: path={str(path)!r}"
        )
    return examples


def _find(context: str, answer: str, start: int) -> int | None:
    """Return where an answer stands; None if nowhere, or nobody knows."""
    if stands_at(context, answer, start):
        return start
    first = context.find(answer)
    is_only = first >= 0 and context.find(answer, first + 1) < 0
    return first if is_only and answer.strip() else None


def _read_items(path: Path) -> list[Any]:
    """Read the articles or questions of a file."""
    try:
        # `utf-8-sig` drops the mark that some programs put in front.
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix in (".jsonl", ".ndjson"):
            # Not `splitlines`: it also splits at U+2028, which JSON may hold.
            lines = (line for line in text.split("\n") if line.strip())
            return [json.loads(line) for line in lines]
        content = json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"The file is no JSON in UTF-8 ({error}). Received: "
            f"path={str(path)!r}"
        ) from error
    if isinstance(content, dict):
        content = content.get("data")
    if not isinstance(content, list):
        raise ValueError(
            "The file must hold a list of articles or questions, under `data` "
            f"or by itself. Received: path={str(path)!r}"
        )
    return content


def _questions(items: list[Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each question with its context and title, and its place."""
    for number, item in enumerate(items):
        place = f"data[{number}]"
        article = _checked(item, dict, place)
        if "paragraphs" not in article:
            yield article, place
            continue
        for index, item in enumerate(_get(article, "paragraphs", list, place)):
            part = f"{place}.paragraphs[{index}]"
            paragraph = _checked(item, dict, part)
            shared = {
                "title": article.get("title", ""),
                "context": _get(paragraph, "context", str, part),
            }
            for qa, item in enumerate(_get(paragraph, "qas", list, part)):
                question = _checked(item, dict, f"{part}.qas[{qa}]")
                yield {**question, **shared}, f"{part}.qas[{qa}]"


def _answers(row: dict[str, Any], place: str) -> list[tuple[str, int]]:
    """Return text and start of each answer."""
    answers = _get(row, "answers", (list, dict), place)
    place = f"{place}.answers"
    if isinstance(answers, dict):
        texts = _get(answers, "text", list, place)
        starts = _get(answers, "answer_start", list, place)
        if len(texts) != len(starts):
            raise ValueError(
                "Every answer needs a start. Received: "
                f"{place}={short_repr(answers)}"
            )
        answers = [
            {"text": text, "answer_start": start}
            for text, start in zip(texts, starts, strict=True)
        ]
    if answers and row.get("is_impossible"):
        raise ValueError(
            "A question with `is_impossible` must have no answers. Received: "
            f"{place}={short_repr(answers)}"
        )
    pairs = []
    for number, item in enumerate(answers):
        where = f"{place}[{number}]"
        answer = _checked(item, dict, where)
        start = _get(answer, "answer_start", int, where)
        pairs.append((_text(answer, "text", where), start))
    return pairs


def _checked(item: Any, kind: Any, place: str) -> Any:
    """Return a value of JSON that has one of the types wanted."""
    if not isinstance(item, kind) or isinstance(item, bool):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names = " or ".join(_JSON_NAMES[k] for k in kinds)
        raise TypeError(
            f"Expected {names}. Received: {place}={short_repr(item)}"
        )
    return item


def _get(item: dict[str, Any], key: str, kind: Any, place: str) -> Any:
    if key not in item:
        raise ValueError(
            f"`{key}` is missing. Received: {place}={short_repr(item)}"
        )
    return _checked(item[key], kind, f"{place}.{key}")


def _text(item: dict[str, Any], key: str, place: str) -> str:
    text = _get(item, key, str, place)
    check_text(text, f"{place}.{key}")
    return text
