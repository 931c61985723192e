"""The words of a raw text: what a tagger gives one label each.

Models of tokens are trained on words that somebody split, as in CoNLL's
files: "Baghdad ." are two and "O'Neil" is one. A BERT tokenizer splits both at
the punctuation, and white space splits neither, so the words are found here.
"""

import re
import unicodedata
from bisect import bisect_right

import numpy as np

# Scripts that write no space between words: every letter is a word here, and
# a tokenizer's piece of several joins them. Pairs of first and last.
_NO_SPACES = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # ideographic marks
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),  # ideographs, as BERT's tokenizer has them
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F),  # half-width Katakana
    (0x20000, 0x2FA1F),
)
_FIRST = [first for first, _ in _NO_SPACES]
# What stands for all other characters of a kind, one for one.
_MARK, _JOINER, _IDEOGRAPH, _SYMBOL = "\u0301", "\u200d", "\u4e00", "\u00a4"
_SAME = {0x2019: "'", 0x02BC: "'", 0x2010: "-", 0x2011: "-"}


class _Folding(dict):
    """Code point → the character that stands for its kind, made on demand."""

    def __missing__(self, code: int) -> str:
        self[code] = kind = _kind(code)
        return kind


def _kind(code: int) -> str:
    char = chr(code)
    category = unicodedata.category(char)
    if char.isspace():
        return " "
    if category[0] == "M":
        return _MARK
    if category in ("Cc", "Cf"):
        return _JOINER  # zero-width ones, soft hyphen, controls
    if code < 128:
        return char
    if code in _SAME:
        return _SAME[code]
    if category[0] == "N":
        return "0"
    if category[0] == "L":
        place = bisect_right(_FIRST, code) - 1
        if place >= 0 and code <= _NO_SPACES[place][1]:
            return _IDEOGRAPH
        return "A" if category in ("Lu", "Lt") else "a"
    return _SYMBOL


_FOLDING = _Folding()
_WORD = re.compile(
    rf"""
    # An address of the web, without the full stop that ends its sentence.
    [A-Za-z][A-Za-z0-9+.-]{{0,20}}://(?:[^ ]*[A-Za-z0-9/{_IDEOGRAPH}])?
    # U.S., e.g.
    | (?:[A-Za-z]{_MARK}*\.){{2,}}(?![A-Za-z0-9_])
    # J. before another word
    | [A-Z]{_MARK}*\.(?=[ ]+[A-Za-z])
    # The possessive is a word of its own in CoNLL's files.
    | '[sS](?![A-Za-z0-9_{_MARK}])
    # O'Neil, x-ray, 3.14, 1,000, 10:30, AT&T, me@home.org, @me, #tag
    | [@\#]?[A-Za-z0-9_{_MARK}]+
      (?:
        (?:
          (?!'[sS](?![A-Za-z0-9_{_MARK}]))['.&@-]
          | (?<=[0-9])[,:/](?=[0-9])
          | {_JOINER}+
        )
        [A-Za-z0-9_{_MARK}]+
      )*
    | {_IDEOGRAPH}{_MARK}*
    # A pictograph, with what it is joined to
    | {_SYMBOL}{_MARK}*(?:{_JOINER}+{_SYMBOL}{_MARK}*)*
    # ..., --, (
    | (?P<sign>[^ {_JOINER}])(?P=sign)*
    """,
    re.VERBOSE,
)


def split_words(text: str) -> np.ndarray:
    """Find the words of a text.

    Words are cut at white space and at punctuation, as in CoNLL's files: a
    sign at the edge of a word is a word of its own, one inside stays. So
    "O'Neil", "x-ray", "U.S.", "3.14" and addresses are one word each,
    "(Paris)," is four and "Rome's" is two. Each ideograph, and each letter of
    a script without spaces, is one.

    Args:
        text: the text.

    Returns:
        Start and end of each word in code points, int64 (W, 2), in order.
        Only white space and invisible characters are in none.
    """
    folded = text.translate(_FOLDING)
    spans = [match.span() for match in _WORD.finditer(folded)]
    return np.array(spans, np.int64).reshape(-1, 2)


def group_pieces(
    words: np.ndarray, offsets: np.ndarray, piece_words: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Say which word each piece of a text belongs to.

    A word is never cut through a piece: words that share one become one.

    Args:
        words: int (W, 2) of `split_words`.
        offsets: int (P, 2), start and end of each piece.
        piece_words: int (P,), the tokenizer's `word_ids`.

    Returns:
        Words that the pieces make, int (V, 2), V ≤ W; and for each piece the
        index of its word, int (P,), or -1 for one that is in none.
    """
    first = np.searchsorted(words[:, 1], offsets[:, 0], side="right")
    last = np.searchsorted(words[:, 0], offsets[:, 1], side="left") - 1
    touches = first <= last
    # +1 where a piece comes into a word and -1 where it ends in another.
    steps = np.zeros(len(words) + 1, np.int64)
    np.add.at(steps, first[touches], 1)
    np.add.at(steps, last[touches], -1)
    is_joined = np.cumsum(steps)[:-1] > 0  # to the next word
    begins = np.concatenate([[True], ~is_joined])[: len(words)]
    group = np.cumsum(begins) - 1
    owner = np.full(len(offsets), -1, np.int64)
    owner[touches] = group[first[touches]]
    # SentencePiece may make the space before a word a piece of that word.
    follows = (owner[:-1] < 0) & (piece_words[:-1] == piece_words[1:])
    owner[:-1][follows] = owner[1:][follows]
    ends = np.concatenate([begins[1:], [True]])[: len(words)]
    return np.stack([words[begins, 0], words[ends, 1]], axis=1), owner
