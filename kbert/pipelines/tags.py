"""Tags of words, and the entities that they mark."""

from collections.abc import Sequence

import numpy as np

OUTSIDE = "O"
# IOB1, IOB2, BIOES and BILOU, in the letters of BIOES.
_PREFIXES = {"B": "B", "I": "I", "E": "E", "L": "E", "S": "S", "U": "S"}


class TagScheme:
    """What the names of classes say about where entities begin and end.

    "B-PER" has a prefix, of IOB1, IOB2, BIOES or BILOU, and a type. Among
    names where "O" or a prefix is, one without a prefix ("PER") is read as
    "I-PER". Where there is neither, as of parts of speech, every word is an
    item of its own.

    Args:
        names: names of the C classes.
    """

    def __init__(self, names: Sequence[str]):
        """See the class."""
        pairs = [_split(name) for name in names]
        marks_spans = OUTSIDE in names or any(prefix for prefix, _ in pairs)
        rest = "I" if marks_spans else "S"
        prefixes = [prefix or rest for prefix, _ in pairs]
        self.types = [type_ for _, type_ in pairs]
        # Equal types get one number, so that numpy can compare them.
        self._type_ids = np.unique(self.types, return_inverse=True)[1]
        self._is_outside = np.array([name == OUTSIDE for name in names], bool)
        self._begins = np.array([p in "BS" for p in prefixes], bool)
        self._closes = np.array([p in "ES" for p in prefixes], bool)

    def entities(self, tags: np.ndarray) -> np.ndarray:
        """Find the entities of a text.

        No sequence of tags is an error: an entity begins where a tag says
        so, and where its type is another than the word's before.

        Args:
            tags: int (W,), the class of each word.

        Returns:
            First word and one past the last of each entity, int (N, 2).

        References:
            `start_of_chunk` in chakki-works/seqeval; the original is
            conlleval of CoNLL-2000
        """
        inside = ~self._is_outside[tags]
        follows = np.zeros(len(tags), bool)  # goes on from the word before
        before, here = tags[:-1], tags[1:]
        follows[1:] = (
            inside[1:]
            & inside[:-1]
            & ~self._begins[here]
            & ~self._closes[before]
            & (self._type_ids[before] == self._type_ids[here])
        )
        starts = np.flatnonzero(inside & ~follows)
        ends = np.flatnonzero(inside & ~np.append(follows[1:], False)) + 1
        return np.stack([starts, ends], axis=1)


def _split(name: str) -> tuple[str, str]:
    """Return prefix and type of a name, "" for no prefix."""
    prefix, dash, type_ = name.partition("-")
    if dash and type_ and prefix in _PREFIXES:
        return _PREFIXES[prefix], type_
    return "", name
