"""Decoding of answers against all pairs, one by one."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbert.pipelines.answers import WindowLogits, best_spans

CONTEXT = "ab c  d\u0301e f\t😀gh i"


def all_pairs(context, windows, max_answer_length):
    """Best logit of every answer, in plain Python."""
    found = {}
    for window in windows:
        size = len(window.offsets)
        for first in range(size):
            for last in range(first, min(first + max_answer_length, size)):
                start, end = window.offsets[first][0], window.offsets[last][1]
                edges = [
                    context[slice(*window.offsets[place])].strip()
                    for place in (first, last)
                ]
                if not all(edges) or not window.is_best[first]:
                    continue
                while context[start].isspace():
                    start += 1
                while context[end - 1].isspace():
                    end -= 1
                logit = float(window.start[first]) + float(window.end[last])
                key = (start, end)
                found[key] = max(found.get(key, -np.inf), logit)
    return found


@st.composite
def window_logits(draw):
    size = draw(st.integers(0, 7))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    starts = np.sort(rng.integers(0, len(CONTEXT), size))
    # Spaces in front, empty pieces, and bytes of one character.
    ends = np.minimum(starts + rng.integers(0, 3, size), len(CONTEXT))
    return WindowLogits(
        start=rng.normal(size=size).astype("float32"),
        end=rng.normal(size=size).astype("float32"),
        offsets=list(zip(starts.tolist(), ends.tolist(), strict=True)),
        is_best=rng.random(size) < 0.7,
        null=0.0,
    )


@given(
    st.lists(window_logits(), max_size=4), st.integers(1, 30), st.integers(1, 9)
)
@settings(max_examples=300, deadline=None)
def test_all_pairs_compete(windows, count, max_answer_length):
    expected = all_pairs(CONTEXT, windows, max_answer_length)
    spans = best_spans(CONTEXT, windows, count, max_answer_length)
    assert len(spans) == min(count, len(expected))
    assert [span.logit for span in spans] == pytest.approx(
        sorted(expected.values(), reverse=True)[:count]
    )
    for span in spans:
        assert expected[span.start, span.end] == pytest.approx(span.logit)
    assert len({(s.start, s.end) for s in spans}) == len(spans)


def test_pieces_of_one_character_are_one_answer():
    size = 60
    window = WindowLogits(
        # Over a thousand pairs of the first character's come first.
        start=-np.arange(size, dtype="float32"),
        end=-np.arange(size, dtype="float32"),
        offsets=[(0, 1)] * (size - 2) + [(1, 2), (2, 3)],
        is_best=np.ones(size, bool),
        null=0.0,
    )
    spans = best_spans("😀ab", [window], 6, 30)
    assert len(spans) == 6
    assert {(s.start, s.end) for s in spans} == {
        (i, j) for i in range(3) for j in range(i + 1, 4)
    }


def test_many_windows_take_little_time():
    rng = np.random.default_rng(0)
    size = 300
    windows = [
        WindowLogits(
            start=rng.normal(size=size).astype("float32"),
            end=rng.normal(size=size).astype("float32"),
            offsets=[(3 * i, 3 * i + 3) for i in range(size)],
            is_best=np.ones(size, bool),
            null=0.0,
        )
        for _ in range(200)
    ]
    context = "ab " * size
    start = time.perf_counter()
    best_spans(context, windows, 20, 30)
    # 1,800,000 pairs: many seconds, if Python looked at each.
    assert time.perf_counter() - start < 2.5
