import numpy as np
import pytest

from kbert.data import convert_tags, tag_names
from kbert.data.tags import tag_ids


def test_names_begin_with_o():
    tags = [["B-b", "O"], [], ["A", "I-b", "O"], ["Z"]]
    assert tag_names(tags) == ["O", "A", "B-b", "I-b", "Z"]
    assert tag_names([["VERB", "NOUN"]]) == ["NOUN", "VERB"]
    assert tag_names([]) == []
    with pytest.raises(TypeError, match=r"Received: tags\[1\]\[0\]=3"):
        tag_names([["O"], [3]])
    with pytest.raises(TypeError, match=r"Received: tags\[0\]='O'"):
        tag_names(["O"])


ENTITIES = {  # Ada Lovelace and London, then two cities in a row, by hand
    "iob1": ["I-PER", "I-PER", "O", "I-LOC", "B-LOC", "O"],
    "iob2": ["B-PER", "I-PER", "O", "B-LOC", "B-LOC", "O"],
    "bioes": ["B-PER", "E-PER", "O", "S-LOC", "S-LOC", "O"],
}


@pytest.mark.parametrize("source", ENTITIES)
@pytest.mark.parametrize("target", ENTITIES)
def test_conversions_by_hand(source, target):
    given = [[], ENTITIES[source], ["O"]]
    converted = convert_tags(given, target)
    assert converted == [[], ENTITIES[target], ["O"]]
    assert given[1] is ENTITIES[source]


def test_types_may_hold_hyphens():
    assert convert_tags([["I-creative-work", "I-creative-work"]]) == [
        ["B-creative-work", "I-creative-work"]
    ]


@pytest.mark.parametrize("tag", ["PER", "X-PER", "B-", "", "o", "B_PER", "-"])
def test_tags_of_no_scheme(tag):
    with pytest.raises(ValueError) as caught:
        convert_tags([["O"], ["O", tag]])
    assert str(caught.value).endswith(f"Received: tags[1][1]={tag!r}")


def test_unknown_scheme():
    with pytest.raises(ValueError, match="Received: scheme='bio'"):
        convert_tags([["O"]], "bio")


def test_numbers_of_tags():
    names = ["O", "A", "B"]
    rows = [np.array(["B", "O"]), [], np.array([1, 2], "int8"), ["A"]]
    ids = tag_ids(rows, [2, 0, 2, 1], names)
    assert ids.tolist() == [2, 0, 1, 2, 1]
    assert ids.dtype == np.int32
