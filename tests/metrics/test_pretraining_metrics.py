import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops
from loss_reference import compiled, cross_entropy, weighted_mean

from kbert.losses import MaskedLMLoss
from kbert.metrics import MaskedLMAccuracy, NextSentenceAccuracy, Perplexity

METRICS = [MaskedLMAccuracy, Perplexity, NextSentenceAccuracy]


def draw(rng, shape, vocab=5):
    labels = rng.integers(0, vocab, shape).astype("int32")
    logits = rng.normal(scale=2.0, size=(*shape, vocab)).astype("float32")
    weights = rng.integers(0, 2, shape).astype("float32")
    return labels, logits, weights


def batch_for(metric, rng, rows=4):
    if metric is NextSentenceAccuracy:
        return draw(rng, (rows,), 2)
    return draw(rng, (rows, 3))


def state(metric):
    """The two sums, with all the digits that are kept."""
    parts = [ops.convert_to_numpy(v) for v in metric.variables]
    return np.sum(np.array(parts, "float64"), axis=0)


def compiled_step(metric):
    """`state, batch → state` by XLA, as in a train step on an accelerator."""
    if keras.backend.backend() == "jax":
        step = compiled(metric.stateless_update_state)

        def update(*batch):
            new = step([v.value for v in metric.variables], *batch)
            for variable, value in zip(metric.variables, new, strict=True):
                variable.assign(value)

        return update
    return compiled(metric.update_state)


def test_closed_forms():
    logits = np.log([[[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [0.2, 0.2, 0.6]]])
    labels, weights = [[0, 2, 1]], [[1, 1, 0]]
    accuracy, perplexity = MaskedLMAccuracy(), Perplexity()
    assert float(accuracy(labels, logits, weights)) == 1.0
    # exp of the mean of log 2 and log 1.25 is their geometric mean.
    value = perplexity(labels, logits, weights)
    assert float(value) == pytest.approx(np.sqrt(2 * 1.25))
    accuracy, perplexity = MaskedLMAccuracy(), Perplexity()
    assert float(accuracy(labels, logits)) == pytest.approx(2 / 3)
    value = perplexity(labels, logits)
    assert float(value) == pytest.approx((2 * 1.25 * 5) ** (1 / 3))
    pairs = NextSentenceAccuracy()
    logits = np.array([[0.0, 2.0], [1.0, 3.0], [1.0, 0.0], [5.0, 0.0]])
    assert float(pairs([1, 0, 0, 1], logits)) == 0.5
    pairs.reset_state()
    assert float(pairs([1, 0, 0, 1], logits, [1, 0, 1, 0])) == 1.0


def test_a_uniform_model_has_the_perplexity_of_its_vocabulary():
    logits = np.zeros((2, 3, 30522), "float32")
    value = Perplexity()(np.full((2, 3), 30521), logits)
    assert float(value) == pytest.approx(30522, rel=1e-5)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    slots=st.lists(st.sampled_from([1, 2, 6]), min_size=1, max_size=5),
)
def test_tokens_of_all_batches_weigh_the_same(seed, slots):
    """Batches with other numbers of slots: bucketing makes such."""
    rng = np.random.default_rng(seed)
    accuracy, perplexity = MaskedLMAccuracy(), Perplexity()
    right, losses, counts = [], [], []
    for size in slots:
        labels, logits, weights = draw(rng, (2, size))
        accuracy.update_state(labels, logits, weights)
        perplexity.update_state(labels, logits, weights)
        right.append((logits.argmax(-1) == labels).ravel())
        losses.append(cross_entropy(labels, logits).ravel())
        counts.append(weights.ravel())
    counts = np.concatenate(counts)
    expected = weighted_mean(np.concatenate(right), counts)
    assert float(accuracy.result()) == pytest.approx(expected, rel=1e-5)
    expected = np.exp(weighted_mean(np.concatenate(losses), counts))
    assert float(perplexity.result()) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("metric", METRICS)
def test_nothing_counted_is_defined(metric):
    labels, logits, weights = batch_for(metric, np.random.default_rng(0))
    expected = 1.0 if metric is Perplexity else 0.0
    measured = metric()
    assert float(measured.result()) == expected
    measured.update_state(labels, logits, 0 * weights)
    assert float(measured.result()) == expected
    # And later batches count as if that one had not been.
    one = float(metric()(labels, logits))
    assert float(measured(labels, logits)) == one


def test_reset_forgets():
    rng = np.random.default_rng(0)
    measured = Perplexity()
    measured.update_state(*draw(rng, (2, 3)))
    measured.reset_state()
    labels, logits, weights = draw(rng, (2, 3))
    expected = np.exp(weighted_mean(cross_entropy(labels, logits), weights))
    value = measured(labels, logits, weights)
    assert float(value) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("metric", METRICS)
def test_counts_stay_exact_where_float32_stops(metric):
    """2**24 + 1 is no float32, and 2**34 + 3 even less."""
    labels, logits, _ = batch_for(metric, np.random.default_rng(0), rows=1)
    for start in (2.0**24, 2.0**34):
        measured = metric()
        measured.sums.assign([start, start])
        update = compiled_step(measured)
        before = state(measured)
        for _ in range(300):
            update(labels, logits)
        assert state(measured)[1] - before[1] == 300 * labels.size
        # Nothing piles up beside the sum, to be lost there in its turn.
        missing = ops.convert_to_numpy(measured.missing)
        sums = ops.convert_to_numpy(measured.sums)
        assert (np.abs(missing) <= np.spacing(sums) / 2).all()
        one = metric()
        one.update_state(labels, logits)
        expected = 300 * state(one)[0]
        assert state(measured)[0] - before[0] == pytest.approx(
            expected, rel=1e-6, abs=300 * start * 2.0**-48
        )


def test_huge_logits_give_no_nan():
    logits = np.array([[[1e4, -1e4], [-1e4, 1e4]]], "float32")
    assert float(Perplexity()([[0, 1]], logits)) == 1.0
    assert float(Perplexity()([[1, 1]], logits)) == np.inf
    assert float(MaskedLMAccuracy()([[0, 0]], logits)) == 0.5


@pytest.mark.parametrize("label", [-100, 5])
def test_a_label_out_of_the_vocabulary(label):
    rng = np.random.default_rng(0)
    labels, logits, weights = draw(rng, (2, 3))
    weights[0] = [1, 0, 1]
    unused, used = labels.copy(), labels.copy()
    unused[0, 1], used[0, 0] = label, label
    for metric in (MaskedLMAccuracy, Perplexity):
        assert float(metric()(unused, logits, weights)) == float(
            metric()(labels, logits, weights)
        )
    assert np.isnan(float(Perplexity()(used, logits, weights)))
    right = (logits.argmax(-1) == used) * weights
    value = MaskedLMAccuracy()(used, logits, weights)
    assert float(value) == pytest.approx(right.sum() / weights.sum())


def test_log_of_perplexity_is_the_loss():
    labels, logits, weights = draw(np.random.default_rng(0), (4, 6))
    loss = float(MaskedLMLoss()(labels, logits, weights))
    value = np.log(float(Perplexity()(labels, logits, weights)))
    assert value == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("metric", METRICS)
def test_bad_shapes(metric):
    labels, logits, weights = batch_for(metric, np.random.default_rng(0))
    for bad in (
        (labels[..., None], logits, weights[..., None]),
        (labels, logits[..., 0], weights),
        (labels[:2], logits, weights[:2]),
        (labels, logits, weights[..., None]),
    ):
        with pytest.raises(ValueError, match="Received: "):
            metric().update_state(*bad)


@pytest.mark.parametrize("metric", METRICS)
def test_config_round_trip(metric):
    measured = metric(name="mine")
    again = keras.metrics.deserialize(keras.metrics.serialize(measured))
    assert type(again) is metric
    assert again.get_config() == measured.get_config() == {"name": "mine"}
