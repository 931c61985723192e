"""Running text cut into sentences by rules that need no model."""

import re
from collections.abc import Iterable
from itertools import pairwise

# A longer sentence is cut: it is more than any model takes, and a file may be
# one line.
MAX_CHARACTERS = 5000

# Where a sentence may end: after its last mark and what closes behind it, if
# white space follows (not so in Chinese and Japanese), and at a blank line.
# The lookbehind and the possessive `++` keep a long row of dots from being
# tried from each of them.
_ENDS = re.compile(
    r"(?<![.!?…‽؟۔।॥։።])(?P<mark>[.!?…‽؟۔।॥։።]++)[\"'”’»›)\]}]*+\s++"
    "|[\u3002\uff01\uff1f\uff61]++[\"'\u201d\u2019\u300d\u300f\uff09\u3011]*+"
    r"\s*+|\n\s*\n\s*"
)
_OPENING = ".\"'“”‘’„‚«»‹›([{¿¡-–—*_ "
_LAST_WORD = re.compile(r"[^\s\"'“‘„«(\[]+\Z")
# A full stop after these is seldom the end. Single letters (initials, and the
# last of "U.S." or "z.B.") are told by their form.
_ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof rev hon st sr jr gen col lt sgt capt maj gov sen rep "
    "messrs mme mlle vs cf al nos vol vols fig figs eq pp eds approx ca inc "
    "ltd co corp jan feb apr jun jul aug sept oct nov dec nr bzw usw str "
    "sra dra srta av".split()
)
_INITIAL = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]\Z")
_PIECES = re.compile(
    rf"\S(?:.{{0,{MAX_CHARACTERS - 1}}}(?!\S)|.{{0,{MAX_CHARACTERS - 1}}})",
    re.DOTALL,
)


def split_sentences(text: str) -> list[str]:
    """Cut running text into sentences.

    A sentence ends at `.`, `!`, `?`, `…` or their like in other scripts,
    with the quotes and brackets that close behind, if white space follows
    and then no lower-case letter; at the full stops of Chinese and Japanese;
    and at a blank line. A single line break is white space. A full stop
    after an initial ("J. S. Bach", "U.S.") or a common abbreviation ("Dr.")
    ends nothing, so two sentences stay one where one of these ends the
    first. Languages without such marks (Thai) come back whole. A sentence of
    more than 5,000 characters is cut at white space.

    Args:
        text: running text in any language.

    Returns:
        The sentences in order, without white space around them. Together
        they hold every other character of the text.

    Example:
        >>> import kbert
        >>> kbert.data.split_sentences(
        ...     'Dr. Who came. "Why?" asked J. Doe. It rained… All day.')
        ['Dr. Who came.', '"Why?" asked J. Doe.', 'It rained…', 'All day.']
    """
    cuts = [0]
    for end in _ENDS.finditer(text):
        if end.start() == cuts[-1] and len(cuts) > 1:
            cuts[-1] = end.end()  # ". . ." stays with what it ends
        elif end["mark"] is None or _is_end(text, cuts[-1], end):
            cuts.append(end.end())
    sentences = (text[i:j].strip() for i, j in pairwise([*cuts, len(text)]))
    return cut_long(sentence for sentence in sentences if sentence)


def cut_long(sentences: Iterable[str]) -> list[str]:
    """Cut sentences of more than `MAX_CHARACTERS` at white space."""
    pieces = []
    for sentence in sentences:
        if len(sentence) <= MAX_CHARACTERS:
            pieces.append(sentence)
        else:
            pieces += [piece.rstrip() for piece in _PIECES.findall(sentence)]
    return pieces


def _is_end(text: str, start: int, end: re.Match) -> bool:
    """Whether a sentence ends at a mark that white space follows."""
    if re.search(r"\n\s*\n", end.group()):
        return True
    following = text[end.end() : end.end() + 16].lstrip(_OPENING)[:1]
    if following.islower():
        return False
    if end["mark"] != ".":
        return True
    # As far back as an abbreviation is long: looking further would take the
    # square of the length of a text without spaces.
    before = text[max(start, end.start() - 16) : end.start()]
    word = _LAST_WORD.search(before)
    if word is None:
        return True
    return not (
        word.group().lower() in _ABBREVIATIONS or _INITIAL.match(word.group())
    )
