"""Tags rewritten by another scheme, read by seqeval."""

import pytest

hypothesis = pytest.importorskip(
    "hypothesis", reason="pip install keras-kbert[test]"
)
seqeval = pytest.importorskip(
    "seqeval", reason="pip install keras-kbert[parity]"
)

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from seqeval.metrics.sequence_labeling import get_entities  # noqa: E402
from seqeval.scheme import IOB2, IOBES, Entities  # noqa: E402

from kbert.data import convert_tags  # noqa: E402

# Odd orders too, as a model may write them.
TAGS = st.lists(
    st.sampled_from(
        ["O", *(f"{p}-{kind}" for p in "BIES" for kind in ("x", "y-z"))]
    ),
    max_size=12,
)


def strict_entities(tags, scheme):
    """seqeval's strict reading, of one text."""
    entities = Entities([tags], scheme)
    return [
        (entity.tag, entity.start, entity.end - 1)
        for row in entities.entities
        for entity in row
    ]


@settings(max_examples=400, deadline=None)
@given(tags=TAGS)
def test_entities_stay_the_same(tags):
    wanted = get_entities(tags)
    for scheme in ("iob1", "iob2", "bioes"):
        (written,) = convert_tags([tags], scheme)
        assert get_entities(written) == wanted, scheme
        assert convert_tags([written], scheme) == [written]
    # What is written is valid, so that a strict reader finds the same.
    for scheme, reader in (("iob2", IOB2), ("bioes", IOBES)):
        (written,) = convert_tags([tags], scheme)
        assert strict_entities(written, reader) == wanted
