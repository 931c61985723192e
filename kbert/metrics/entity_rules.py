"""Entities in sequences of tags: which two neighbours begin and end one.

Everything follows from pairs of neighbouring tags, so that a function over
strings and a metric over class numbers share these rules.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, pairwise
from typing import NamedTuple

OUTSIDE = "O"


class Tag(NamedTuple):
    """A tag in two parts: "B-PER" is ("B", "PER")."""

    prefix: str
    type: str


class Step(NamedTuple):
    """What happens between two tags.

    Attributes:
        starts: an entity may begin at the second.
        breaks: an entity of the first does not go on; the next may begin.
        ends: an entity of the first ends well, and counts.
    """

    starts: bool
    breaks: bool
    ends: bool


class Rules(NamedTuple):
    """How tags are read.

    Attributes:
        parse: string → `Tag`.
        step: two strings, neighbours → `Step`.
    """

    parse: Callable[[str], Tag]
    step: Callable[[str, str], Step]


# Pairs of prefixes, "*" for any: the types must be the same ("="), must
# differ ("/"), or do not matter. prefixes, starts, goes on, ends.
SCHEMES = {
    "IOB1": (
        "IOB",
        "OI II/ BI IB= BB=",
        "BI= II=",
        "II/ IO IB BO BI/ BB=",
    ),
    "IOB2": ("IOB", "*B", "BI= II=", "IO II/ IB BO BI/ BB"),
    "IOE1": ("IOE", "OI II/ EI EE=", "II= IE=", "II/ IO IE/ EI= EE="),
    "IOE2": ("IOE", "OI OE EI EE II/ IE/", "II= IE=", "E*"),
    "IOBES": ("IOBES", "*B *S", "BI= BE= II= IE=", "S* E*"),
    "BILOU": ("BILOU", "*B *U", "BI= BL= II= IL=", "U* L*"),
}


def make_rules(mode: str, scheme: str | None) -> Rules:
    """Return the rules of a mode, "default" or "strict".

    Raises:
        ValueError: if the mode or scheme is not known, or does not fit the
            other.
    """
    if mode == "default" and scheme is None:
        return Rules(_split_default, functools.cache(_default_step))
    if mode == "strict" and scheme in SCHEMES:
        return _strict_rules(scheme)
    raise ValueError(
        'Expected mode="default" without a scheme, or mode="strict" with one '
        f"of {', '.join(SCHEMES)}. Received: mode={mode!r}, scheme={scheme!r}"
    )


def find_entities(
    sequences: Iterable[Iterable[str]], rules: Rules
) -> Iterator[tuple[str, int, int]]:
    """Yield type, first tag and one after the last of each entity.

    The positions count through all sequences, one more for the end of each.
    """
    tags = chain.from_iterable((*tags, OUTSIDE) for tags in sequences)
    # What begins where nothing has begun: as conlleval and seqeval have it,
    # after tags such as "X-PER".
    begin: int | None = 0
    for index, (left, right) in enumerate(pairwise(chain([OUTSIDE], tags))):
        step = rules.step(left, right)
        if step.ends and begin is not None:
            yield rules.parse(left).type, begin, index
        if step.breaks:
            begin = None
        if step.starts and begin is None:
            begin = index


def _split_default(tag: str) -> Tag:
    _check_tag(tag)
    return Tag(tag[0], tag[1:].split("-", 1)[-1] or "_")


def _default_step(left: str, right: str) -> Step:
    """Rules of conlleval, as seqeval 1.2.2 has them."""
    (before, old), (now, new) = _split_default(left), _split_default(right)
    ends = (
        before in "ES"
        or (before in "BI" and now in "BSO")
        or (before not in "O." and old != new)
    )
    starts = (
        now in "BS"
        or (now in "IE" and before in "OES")
        or (now not in "O." and old != new)
    )
    # The next beginning is what breaks: "." and "X" do not.
    return Step(starts, breaks=starts, ends=ends)


def _strict_rules(scheme: str) -> Rules:
    prefixes, starts, inside, ends = SCHEMES[scheme]

    def parse(tag: str) -> Tag:
        _check_tag(tag)
        if tag[0] not in prefixes:
            raise ValueError(
                f"A tag of {scheme} begins with one of {prefixes}. "
                f"Received: {tag!r}"
            )
        return Tag(tag[0], tag[1:].strip("-") or "_")

    @functools.cache
    def step(left: str, right: str) -> Step:
        pair = parse(left), parse(right)
        breaks = not _matches(inside, *pair)
        return Step(
            _matches(starts, *pair), breaks, breaks and _matches(ends, *pair)
        )

    return Rules(parse, step)


def _matches(patterns: str, left: Tag, right: Tag) -> bool:
    """Whether two tags are one of the pairs of `SCHEMES`."""
    relation = "=" if left.type == right.type else "/"
    return any(
        pattern[0] in ("*", left.prefix)
        and pattern[1] in ("*", right.prefix)
        and pattern[2:] in ("", relation)
        for pattern in patterns.split()
    )


def _check_tag(tag: str) -> None:
    if not isinstance(tag, str) or not tag:
        raise ValueError(
            f"A tag must be a string of one letter or more. Received: {tag!r}"
        )
