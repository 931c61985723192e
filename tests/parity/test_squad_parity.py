"""Answers' scores against torchmetrics, question by question.

torchmetrics has version 1.1's numbers, but version 2.0's F1 of what nothing
is left of; it knows no question without an answer. The rest of the official
script is held by tests/metrics/test_squad.py.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torchmetrics", reason="pip install keras-kbert[parity]")
from torchmetrics.functional.text import squad  # noqa: E402

from kbert.metrics import squad_scores  # noqa: E402
from kbert.metrics.squad import normalize_answer  # noqa: E402

WORDS = st.sampled_from(
    "the A an cat Cat's hat 北京 大学 U.S. an-a — ! İ ß 12% e\u0301 é".split()
) | st.text(max_size=3)
TEXT = st.lists(WORDS, max_size=5).map(" ".join)


@settings(max_examples=100, deadline=None)
@given(
    questions=st.lists(
        st.tuples(TEXT, st.lists(TEXT.filter(normalize_answer), min_size=1)),
        min_size=1,
        max_size=6,
    ),
    repeat=st.booleans(),
)
def test_equals_torchmetrics(questions, repeat):
    if repeat:  # some predictions are right
        questions = [(golds[-1], golds) for _, golds in questions] + questions
    predictions = {str(i): said for i, (said, _) in enumerate(questions)}
    references = {str(i): golds for i, (_, golds) in enumerate(questions)}
    theirs = squad(
        [
            {"id": id_, "prediction_text": said}
            for id_, said in predictions.items()
        ],
        [
            {"id": id_, "answers": {"text": golds, "answer_start": [0]}}
            for id_, golds in references.items()
        ],
    )
    for version in ("1.1", "2.0"):
        ours = squad_scores(predictions, references, version=version)
        assert ours["total"] == len(questions)
        assert ours["exact"] == pytest.approx(theirs["exact_match"].item())
        assert ours["f1"] == pytest.approx(theirs["f1"].item(), rel=1e-5)
