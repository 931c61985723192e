"""Cases by hand; tests/parity has seqeval's numbers on drawn ones."""

import pytest

from kbert.metrics import entity_scores
from kbert.metrics.entity_rules import SCHEMES, find_entities, make_rules


def entities(tags, mode="default", scheme=None):
    return list(find_entities([tags.split()], make_rules(mode, scheme)))


@pytest.mark.parametrize(
    "tags, expected",
    [
        ("B-A I-A O B-B", [("A", 0, 2), ("B", 3, 4)]),
        # Begins without "B", changes type, or two in a row.
        ("I-A I-A", [("A", 0, 2)]),
        ("B-A I-B", [("A", 0, 1), ("B", 1, 2)]),
        ("B-A B-A", [("A", 0, 1), ("A", 1, 2)]),
        ("B-A E-A S-A", [("A", 0, 2), ("A", 2, 3)]),
        ("B-A-B I-A-B", [("A-B", 0, 2)]),
        ("B I O", [("_", 0, 2)]),
        ("B- I-", [("_", 0, 2)]),
        ("O- O-A O", []),
        ("", []),
    ],
)
def test_default_mode(tags, expected):
    assert entities(tags) == expected


@pytest.mark.parametrize(
    "scheme, tags, expected",
    [
        ("IOB2", "I-A B-A I-A I-B", [("A", 1, 3)]),
        ("IOB1", "I-A B-A I-A B-B", [("A", 0, 1), ("A", 1, 3)]),
        # seqeval says itself that its IOE1 lacks cases: the last ends badly.
        ("IOE1", "I-A E-A E-A O", [("A", 0, 2)]),
        ("IOE2", "I-A E-A I-A O E-B", [("A", 0, 2), ("B", 4, 5)]),
        ("IOBES", "B-A I-A O B-A E-A S-B", [("A", 3, 5), ("B", 5, 6)]),
        ("BILOU", "B-A L-A U-B I-B", [("A", 0, 2), ("B", 2, 3)]),
    ],
)
def test_strict_mode(scheme, tags, expected):
    assert entities(tags, "strict", scheme) == expected


def test_scores_by_hand():
    true = [["B-A", "I-A", "O"], ["B-B", "B-A", "O"], []]
    said = [["B-A", "I-A", "O"], ["B-B", "I-B", "B-C"], []]
    scores = entity_scores(true, said)
    third = pytest.approx(1 / 3)
    assert scores["micro"] == {
        "precision": third,
        "recall": third,
        "f1": third,
        "support": 3,
    }
    assert scores["types"]["A"] == {
        "precision": 1.0,
        "recall": 0.5,
        "f1": pytest.approx(2 / 3),
        "support": 2,
    }
    assert list(scores["types"]) == ["A", "B", "C"]
    assert scores["macro"]["f1"] == pytest.approx(2 / 9)
    assert scores["weighted"]["f1"] == pytest.approx(4 / 9)
    assert scores["weighted"]["support"] == 3


@pytest.mark.parametrize("tags", [[], [[]], [["O", "O"], ["O"]]])
def test_nothing_to_find(tags):
    scores = entity_scores(tags, tags)
    assert scores["types"] == {}
    for name in ("micro", "macro", "weighted"):
        assert scores[name] == {
            "precision": 0.0,
            "recall": 0.0,
            "f1": 0.0,
            "support": 0,
        }


def test_texts_do_not_run_into_each_other():
    true = [["B-A"], ["I-A"]]
    assert entity_scores(true, true)["micro"]["support"] == 2


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_tag_of_another_scheme(scheme):
    with pytest.raises(ValueError, match="Received: 'X-A'"):
        entity_scores(
            [["O", "X-A"]], [["O", "O"]], mode="strict", scheme=scheme
        )


def test_bad_input():
    with pytest.raises(ValueError, match="Received: 2 and 1 texts"):
        entity_scores([["O"], ["O"]], [["O"]])
    with pytest.raises(ValueError, match="text 1 with 2 and 1 tags"):
        entity_scores([["O"], ["O", "O"]], [["O"], ["O"]])
    for tag in ("", None, 3):
        with pytest.raises(ValueError, match="Received: "):
            entity_scores([["O"]], [[tag]])
    for mode, scheme in [
        ("strict", None),
        ("strict", "IOB"),
        ("default", "IOB2"),
        ("exact", None),
    ]:
        with pytest.raises(ValueError, match="Received: mode="):
            entity_scores([["O"]], [["O"]], mode=mode, scheme=scheme)
