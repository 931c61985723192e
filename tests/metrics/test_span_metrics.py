import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from kbert.metrics import SpanExactMatch, SpanF1
from kbert.metrics.span import best_span


def draw(seed=0, rows=4, length=7):
    rng = np.random.default_rng(seed)
    true = np.sort(rng.integers(0, length, (2, rows)), axis=0)
    logits = rng.normal(size=(2, rows, length)).astype("float32")
    allowed = rng.integers(0, 2, (rows, length)).astype(bool)
    allowed[:, 0] = True
    return true, logits, allowed


def best_by_loops(start, end, allowed, max_length):
    best, at = -np.inf, None
    for i in range(len(start)):
        for j in range(i, min(len(start), i + max_length)):
            if allowed[i : j + 1].all() and start[i] + end[j] > best:
                best, at = start[i] + end[j], (i, j)
    return at


def pair(values):
    return dict(zip(("start", "end"), values, strict=True))


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    length=st.sampled_from([1, 2, 9]),
    longest=st.sampled_from([None, 1, 3, 50]),
)
def test_best_span_is_the_one_of_loops(seed, length, longest):
    _, logits, allowed = draw(seed, 3, length)
    said = np.stack(
        [
            ops.convert_to_numpy(part)
            for part in best_span(
                *map(ops.convert_to_tensor, logits), allowed, longest
            )
        ]
    )
    for row in range(3):
        expected = best_by_loops(*logits[:, row], allowed[row], longest or 99)
        assert tuple(said[:, row]) == expected


def test_closed_forms():
    # Rows: right; one token too long; end before start; no answer.
    true = pair([[1, 1, 2, 0], [2, 2, 3, 0]])
    logits = np.zeros((2, 4, 5))
    logits[0, [0, 1, 2, 3], [1, 1, 3, 0]] = 5.0
    logits[1, [0, 1, 2, 3], [2, 3, 1, 0]] = 5.0
    logits[1, 2, 3] = 1.0
    exact, f1 = SpanExactMatch(), SpanF1()
    # Row 2: from 3 to 3 (6) rather than 3 to 1 (10): half of 2 to 3.
    expected = [1.0, 4 / 5, 2 / 3, 1.0]
    assert float(exact(true, pair(logits))) == pytest.approx(0.5)
    assert float(f1(true, pair(logits))) == pytest.approx(np.mean(expected))
    rows = [1.0, 0.0, 2.0, 0.0]
    f1.reset_state()
    value = f1(true, pair(logits), sample_weight=rows)
    assert float(value) == pytest.approx((1 + 2 * 2 / 3) / 3)


def test_no_answer_against_an_answer_is_0():
    logits = np.zeros((2, 1, 4))
    logits[:, 0, 0] = 1.0
    assert float(SpanF1()(pair([[2], [3]]), pair(logits))) == 0.0
    assert float(SpanF1()(pair([[0], [0]]), pair(logits))) == 1.0


def test_longest_answer():
    true = pair([[1], [1]])
    logits = pair([[[0.0, 9.0, 0.0, 0.0]], [[0.0, 2.0, 0.0, 3.0]]])
    assert float(SpanExactMatch()(true, logits)) == 0.0
    assert float(SpanExactMatch(max_answer_length=2)(true, logits)) == 1.0


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_positions_of_weight_0_are_no_answer_nor_part_of_one(seed):
    true, logits, allowed = draw(seed)
    allowed[np.arange(4), true[0]] = allowed[np.arange(4), true[1]] = True
    weights = allowed.astype("float32") * np.array([[1], [2], [0], [1]])
    said = np.array(
        [best_by_loops(*logits[:, row], allowed[row], 99) for row in range(4)]
    ).T
    right = (said == true).all(axis=0)
    expected = (right * [1, 2, 0, 1]).sum() / 4
    for given_ in (weights, pair([weights, weights])):
        value = SpanExactMatch()(pair(true), pair(logits), sample_weight=given_)
        assert float(value) == pytest.approx(expected)
    # The question does not become an answer by a sure logit.
    logits = np.where(allowed, logits, 99.0)
    value = SpanExactMatch()(pair(true), pair(logits), sample_weight=weights)
    assert float(value) == pytest.approx(expected)


def test_each_window_weighs_the_same_over_batches():
    metric, right = SpanF1(), []
    for rows, length in [(1, 3), (6, 12), (2, 5)]:
        true, logits, _ = draw(1, rows, length)
        metric.update_state(pair(true), pair(logits))
        for row in range(rows):
            i, j = best_by_loops(*logits[:, row], np.ones(length, bool), 99)
            said, gold = range(i, j + 1), range(true[0, row], true[1, row] + 1)
            shared = len(set(said) & set(gold))
            right.append(2 * shared / (len(said) + len(gold)))
    assert float(metric.result()) == pytest.approx(np.mean(right))


def test_bad_input():
    true, logits, _ = draw()
    for y, z in [(true, pair(logits)), (pair(true), logits)]:
        with pytest.raises(ValueError, match="ValidationMetrics.*Received: "):
            SpanF1()(y, z)
    with pytest.raises(ValueError, match=r"\(B, S\).*Received: "):
        SpanF1()(pair(true[:, :2]), pair(logits))
    with pytest.raises(ValueError, match="Received: max_answer_length=0"):
        SpanExactMatch(max_answer_length=0)


@pytest.mark.parametrize("metric", [SpanExactMatch, SpanF1])
def test_config_round_trip(metric):
    again = keras.metrics.deserialize(
        keras.metrics.serialize(metric(max_answer_length=30))
    )
    assert type(again) is metric and again.max_answer_length == 30
    assert again.name == metric().name
