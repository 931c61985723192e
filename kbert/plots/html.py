"""Texts with what was found in them, as HTML."""

import html
import os
import zlib
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from kbert.data.texts import check_text, short_repr

# Backgrounds for black text, far enough from white and from black to stand
# out on either.
_COLORS = (
    "#9cc9f5",
    "#f7c37b",
    "#a6dba0",
    "#f2a7a4",
    "#cfb5ef",
    "#e9dc7a",
    "#8fdbd3",
    "#f3aed3",
    "#c9d4e0",
    "#d9b99b",
)
_TEXT = (
    "white-space:pre-wrap;overflow-wrap:anywhere;line-height:1.9;"
    "font-family:sans-serif"
)
_MARK = (
    "color:#111;padding:0.15em 0.3em;border-radius:0.3em;"
    "box-decoration-break:clone;-webkit-box-decoration-break:clone"
)
_LABEL = (
    "color:#111;font-size:0.7em;font-weight:bold;margin-left:0.5em;"
    "white-space:nowrap;user-select:none"
)
_PAGE = """<!doctype html>
<html>
<head>
<meta charset="utf-8">
<meta name="color-scheme" content="light dark">
<title>kbert</title>
</head>
<body style="max-width:50em;margin:2em auto;padding:0 1em">
{}
</body>
</html>
"""


class Html(str):
    """HTML that a notebook shows as such.

    Args:
        markup: of a fragment of a page; nothing in it is escaped.

    Example:
        >>> from kbert import plots
        >>> print(plots.Html("<b>bold</b>"))
        <b>bold</b>
    """

    def _repr_html_(self) -> str:
        return str(self)

    def save(self, path: str | os.PathLike) -> None:
        """Write a page that a browser opens.

        Args:
            path: of the file, written anew.
        """
        Path(path).write_text(_PAGE.format(self), "utf-8", newline="\n")


def entities(text: str, entities: Sequence[Mapping[str, Any]]) -> Html:
    """Mark the entities of a text, each with its label.

    A label has the same color in every text, as long as no two labels of one
    text are given the same.

    Args:
        text: the text.
        entities: what `pipelines.EntityTagger` finds in it: dicts of `start`
            and `end`, in characters, and `label`; `text` and `score` if
            known. In order, none inside another.

    Returns:
        `Html`, a string that notebooks show. All of the text is in it,
        escaped.

    Raises:
        TypeError: if `text` or a label is no string.
        ValueError: if an entity is not in the text, not after the one before,
            or its `text` is another than the one at its place.

    Example:
        >>> from kbert import plots
        >>> found = [{"start": 0, "end": 3, "label": "PER"}]
        >>> page = plots.entities("Ada & I", found)
        >>> "&amp; I" in page and ">PER<" in page
        True
    """
    check_text(text, "text")
    end = 0
    for index, entity in enumerate(entities):
        _check_place(text, entity, f"entities[{index}]", end)
        check_text(entity.get("label"), f"entities[{index}]['label']")
        end = entity["end"]
    colors = _colors({entity["label"] for entity in entities})
    parts, end = [], 0
    for entity in entities:
        label = entity["label"]
        parts.append(_escaped(text[end : entity["start"]]))
        parts.append(_mark(text, entity, colors[label], label))
        end = entity["end"]
    return _fragment(*parts, _escaped(text[end:]))


def answer(context: str, answer: Mapping[str, Any]) -> Html:
    """Mark the answer in the text that it was found in.

    Args:
        context: the text.
        answer: what `pipelines.QuestionAnswerer` returns: a dict of `start`
            and `end`, in characters, equal or None where the text has no
            answer; `text` and `score` if known.

    Returns:
        `Html`, a string that notebooks show. All of the text is in it,
        escaped; in front of it "no answer", where there is none.

    Raises:
        TypeError: if `context` is no string.
        ValueError: if the answer is not in the text, or its `text` is another
            than the one at its place.

    Example:
        >>> from kbert import plots
        >>> page = plots.answer("Born in Ulm.", {"start": 8, "end": 11})
        >>> ">Ulm</mark>." in page
        True
    """
    check_text(context, "context")
    start, end = answer.get("start"), answer.get("end")
    if start == end and (start is None or not answer.get("text")):
        note = "no answer" + _score(answer)
        style = f"background:{_COLORS[8]};{_MARK};user-select:none"
        badge = f'<span style="{style}">{note}</span>'
        return _fragment(f"<div data-label>{badge}</div>", _escaped(context))
    _check_place(context, answer, "answer", 0)
    return _fragment(
        _escaped(context[:start]),
        _mark(context, answer, _COLORS[5], None),
        _escaped(context[end:]),
    )


def _check_place(
    text: str, span: Mapping[str, Any], name: str, after: int
) -> None:
    start: Any = span.get("start")
    end: Any = span.get("end")
    received = f"Received: {name}={short_repr(dict(span))}"
    if not all(isinstance(place, Integral) for place in (start, end)):
        raise ValueError(
            f"Expected whole numbers as `start` and `end`. {received}"
        )
    if not 0 <= start < end <= len(text):
        raise ValueError(
            f"Expected 0 <= start < end <= {len(text)}, the number of "
            f"characters. {received}"
        )
    if start < after:
        raise ValueError(
            "Entities must be in order and not overlap, but the one before "
            f"ends at {after}. {received}"
        )
    if span.get("text", text[start:end]) != text[start:end]:
        raise ValueError(
            f"Another text is at this place, {text[start:end]!r}. {received}"
        )


def _colors(labels: set[str]) -> dict[str, str]:
    """A color for each label: its own one, or the next that is free."""
    free = list(range(len(_COLORS)))
    chosen = {}
    for label in sorted(labels):
        own = zlib.crc32(label.encode("utf-8")) % len(_COLORS)
        free = free or list(range(len(_COLORS)))
        slot = next((i for i in free if i >= own), free[0])
        free.remove(slot)
        chosen[label] = _COLORS[slot]
    return chosen


def _mark(
    text: str, span: Mapping[str, Any], color: str, label: str | None
) -> str:
    marked = _escaped(text[span["start"] : span["end"]])
    if label is not None:
        shown = html.escape(label)
        marked += f'<span data-label style="{_LABEL}">{shown}</span>'
    title = html.escape(((label or "") + _score(span)).strip())
    return (
        f'<mark title="{title}" style="background:{color};{_MARK}">'
        f"{marked}</mark>"
    )


def _score(span: Mapping[str, Any]) -> str:
    score = span.get("score")
    return "" if score is None else f" {score:.3f}"


def _escaped(text: str) -> str:
    # A browser takes a carriage return that is written out for a line feed.
    return html.escape(text).replace("\r", "&#13;")


def _fragment(*parts: str) -> Html:
    return Html(f'<div dir="auto" style="{_TEXT}">{"".join(parts)}</div>')
