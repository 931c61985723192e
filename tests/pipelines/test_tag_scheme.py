import numpy as np
import pytest

from kbert.pipelines.tags import TagScheme


def found(tags, names=None):
    names = names or sorted(set(tags))
    scheme = TagScheme(names)
    ids = np.array([names.index(tag) for tag in tags], np.int64)
    return [
        (scheme.types[ids[start]], start, end)
        for start, end in scheme.entities(ids).tolist()
    ]


@pytest.mark.parametrize(
    ("tags", "entities"),
    [
        ("O O", []),
        # IOB2 and IOB1
        ("B-P I-P O B-L B-L", [("P", 0, 2), ("L", 3, 4), ("L", 4, 5)]),
        ("I-P I-P B-P I-L", [("P", 0, 2), ("P", 2, 3), ("L", 3, 4)]),
        # BIOES and BILOU
        ("B-P I-P E-P S-P S-P", [("P", 0, 3), ("P", 3, 4), ("P", 4, 5)]),
        ("B-P I-P L-P U-P U-P", [("P", 0, 3), ("P", 3, 4), ("P", 4, 5)]),
        # No sequence is an error.
        ("E-P I-P O E-P", [("P", 0, 1), ("P", 1, 2), ("P", 3, 4)]),
        ("E-P E-P", [("P", 0, 1), ("P", 1, 2)]),
        ("B-P I-L I-P", [("P", 0, 1), ("L", 1, 2), ("P", 2, 3)]),
        ("B-P L-P I-P", [("P", 0, 2), ("P", 2, 3)]),
        # The type begins after the first dash.
        ("B-geo-a I-geo-b O", [("geo-a", 0, 1), ("geo-b", 1, 2)]),
        # Without prefixes: with "O" equal neighbours are one.
        ("P P O L P", [("P", 0, 2), ("L", 3, 4), ("P", 4, 5)]),
        ("B-P P L", [("P", 0, 2), ("L", 2, 3)]),
        # Without either: parts of speech.
        ("N N V -X- B-", None),
    ],
)
def test_entities(tags, entities):
    tags = tags.split()
    if entities is None:
        entities = [(tag, i, i + 1) for i, tag in enumerate(tags)]
        assert found(tags) == entities
        return
    # "O" is among the names whether or not it is in the sentence, and the
    # order of the names says nothing.
    names = sorted({*tags, "O"})
    assert found(tags, names) == entities
    assert found(tags, names[::-1]) == entities


def test_no_words():
    assert found([], ["B-P", "O"]) == []
