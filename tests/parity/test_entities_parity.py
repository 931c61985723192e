"""Entity scores against seqeval, on drawn tags as odd as they come."""

import math
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("seqeval", reason="pip install keras-kbert[parity]")
from seqeval import scheme as schemes  # noqa: E402
from seqeval.metrics import classification_report, f1_score  # noqa: E402

from kbert.metrics import entity_scores  # noqa: E402
from kbert.metrics.entity_rules import SCHEMES  # noqa: E402

TYPES = ["", "-A", "-B", "-", "-A-B", "--A", "-A-", "A", "-é"]


def texts(prefixes):
    """True and predicted tags of a few texts, of equal lengths."""
    tag = st.builds(
        str.__add__, st.sampled_from(prefixes), st.sampled_from(TYPES[:4])
    ) | st.builds(
        str.__add__, st.sampled_from(prefixes), st.sampled_from(TYPES)
    )
    pairs = st.lists(st.tuples(tag, tag), max_size=9)
    return st.lists(pairs, min_size=1, max_size=4).map(
        lambda rows: [[[p[i] for p in row] for row in rows] for i in range(2)]
    )


def check(true, predicted, mode, scheme):
    ours = entity_scores(true, predicted, mode=mode, scheme=scheme)
    options = {
        "mode": None if mode == "default" else mode,
        "scheme": getattr(schemes, scheme) if scheme else None,
    }
    with warnings.catch_warnings():
        # It warns of odd tags and of divisions by 0.
        warnings.simplefilter("ignore")
        report = classification_report(
            true, predicted, output_dict=True, **options
        )
        micro = f1_score(true, predicted, **options)
    assert ours["micro"]["f1"] == pytest.approx(micro, abs=1e-12)
    averages = {f"{name} avg": ours[name] for name in ours if name != "types"}
    flat = {**ours["types"], **averages}
    assert flat.keys() == report.keys()
    for name, scores in flat.items():
        for key, value in scores.items():
            theirs = report[name]["f1-score" if key == "f1" else key]
            # A mean over no type is no number there, and 0 here.
            theirs = 0.0 if math.isnan(theirs) else theirs
            assert value == pytest.approx(theirs, abs=1e-12), (name, key)


@settings(max_examples=150, deadline=None)
@given(texts(list("OOBIESULX.")))
def test_default_mode(both):
    check(*both, "default", None)


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_strict_mode(scheme, data):
    prefixes = list(SCHEMES[scheme][0])
    check(*data.draw(texts(prefixes)), "strict", scheme)
