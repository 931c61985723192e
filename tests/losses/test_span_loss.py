import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops
from loss_reference import (
    compiled,
    cross_entropy,
    gradient,
    softmax,
    weighted_mean,
)

import kbert
from kbert.losses import SpanLoss


def draw(seed=0, rows=4, length=7):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, length, rows).astype("int32")
    logits = rng.normal(scale=3.0, size=(rows, length)).astype("float32")
    context = rng.integers(0, 2, (rows, length)).astype("float32")
    context[np.arange(rows), labels] = 1.0
    return labels, logits, context


def of_context(labels, logits, context):
    """Each row alone, with the positions that are no candidates cut out."""
    losses = []
    for label, row, keep in zip(labels, logits, context > 0, strict=True):
        losses.append(cross_entropy(keep[:label].sum(), row[keep]))
    return np.array(losses)


def test_closed_forms():
    loss = SpanLoss()
    assert float(loss([2, 0], np.zeros((2, 5)))) == pytest.approx(np.log(5))
    logits = np.log([[0.1, 0.4, 0.1, 0.4]])
    assert float(loss([1], logits)) == pytest.approx(np.log(2.5))
    # Among the first two, 0.4 of 0.5.
    value = loss([1], logits, [[1, 1, 0, 0]])
    assert float(value) == pytest.approx(np.log(1.25))


@pytest.mark.parametrize("wrap", [lambda f: f, compiled])
def test_equals_numpy(wrap):
    labels, logits, context = draw()
    loss = wrap(SpanLoss())
    assert float(loss(labels, logits)) == pytest.approx(
        cross_entropy(labels, logits).mean(), rel=1e-5
    )
    rows = np.array([1.0, 0.0, 2.0, 0.5], "float32")
    expected = weighted_mean(cross_entropy(labels, logits), rows)
    assert float(loss(labels, logits, rows)) == pytest.approx(
        expected, rel=1e-5
    )
    losses = of_context(labels, logits, context)
    assert float(loss(labels, logits, context)) == pytest.approx(
        losses.mean(), rel=1e-5
    )
    both = context * rows[:, None]
    assert float(loss(labels, logits, both)) == pytest.approx(
        weighted_mean(losses, rows), rel=1e-5
    )


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1.0, 1e4, 1e8]))
def test_what_is_no_candidate_changes_nothing(seed, scale):
    """Padding to another length, or a sure logit in the question."""
    labels, logits, context = draw(seed)
    value = float(SpanLoss()(labels, logits, context))
    other = np.where(context > 0, logits, scale).astype("float32")
    pad = ((0, 0), (0, 9))
    padded = SpanLoss()(
        labels,
        np.pad(other, pad, constant_values=scale),
        np.pad(context, pad),
    )
    assert float(padded) == pytest.approx(value, rel=1e-5, abs=1e-6)


def test_gradient_stays_in_the_context():
    labels, logits, context = draw()
    loss = SpanLoss()
    found = gradient(lambda z: loss(labels, z, context), logits)
    inside = softmax(np.where(context > 0, logits, -np.inf))
    expected = (inside - np.eye(7)[labels]) / len(labels)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert not found[context == 0].any()
    zero = gradient(lambda z: loss(labels, z, 0 * context), logits)
    np.testing.assert_array_equal(zero, 0.0)
    assert float(loss(labels, logits, 0 * context)) == 0.0


def test_a_keras_mask_takes_positions_out():
    labels, logits, context = draw()
    expected = float(SpanLoss()(labels, logits, context))
    masked = ops.convert_to_tensor(logits)
    masked._keras_mask = ops.convert_to_tensor(context, dtype="bool")
    for weights in (None, np.ones(4, "float32"), np.ones((4, 7), "float32")):
        value = float(SpanLoss()(labels, masked, weights))
        assert value == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, compiled])
@pytest.mark.parametrize("label", [-1, 7, 2**24])
def test_a_label_that_is_no_position(label, wrap):
    labels, logits, context = draw()
    labels[1] = label
    loss = wrap(SpanLoss())
    for weights in (np.ones(4, "float32"), context):
        assert np.isnan(float(loss(labels, logits, weights)))
        without = weights.copy()
        without[1] = 0.0
        assert np.isfinite(float(loss(labels, logits, without)))


def test_an_answer_outside_the_context_does_not_count():
    labels, logits, context = draw()
    context[2, labels[2]] = 0.0
    expected = of_context(labels, logits, context)[[0, 1, 3]].mean()
    value = float(SpanLoss()(labels, logits, context))
    assert value == pytest.approx(expected, rel=1e-5)


def test_half_precision_logits():
    labels, logits, context = draw(length=400)
    half = ops.convert_to_tensor(logits, dtype="bfloat16")
    exact = ops.convert_to_numpy(ops.cast(half, "float32"))
    value = float(SpanLoss()(labels, half, context))
    expected = of_context(labels, exact, context).mean()
    assert value == pytest.approx(expected, rel=1e-5)


def test_two_outputs_in_fit(tiny_config):
    """Position weights reach the loss; batches of other lengths too."""
    model = kbert.build_span_model(kbert.build_encoder(tiny_config))
    rng = np.random.default_rng(0)
    batches = []
    for length in (6, 11):
        x = {
            name: np.ones((4, length), "int32") * (name != "segment_ids")
            for name in model.input
        }
        x["token_ids"] = rng.integers(5, 20, (4, length)).astype("int32")
        x["padding_mask"][:, 5:] = 0
        y = {"start": [1, 2, 0, 3], "end": [2, 2, 0, 4]}
        y = {name: np.array(v, "int32") for name, v in y.items()}
        w = dict.fromkeys(y, x["padding_mask"].astype("float32"))
        batches.append((x, y, w))
    model.compile(
        keras.optimizers.Adam(1e-2),
        loss={"start": SpanLoss(), "end": SpanLoss()},
        jit_compile=False,
    )
    for x, y, w in batches:
        shown = model.evaluate(
            x, y, sample_weight=w, return_dict=True, verbose=0
        )
        logits = model.predict(x, verbose=0)
        expected = sum(
            of_context(y[name], logits[name], w[name]).mean() for name in y
        )
        assert shown["loss"] == pytest.approx(expected, rel=1e-4)
    x, y, w = batches[1]
    history = model.fit(x, y, sample_weight=w, epochs=5, verbose=0).history
    assert history["loss"][-1] < 0.9 * history["loss"][0]


@pytest.mark.parametrize(
    "labels, logits, weights",
    [
        ((2, 1), (2, 3), None),
        ((2,), (2, 3, 1), None),
        ((2,), (3, 4), None),
        ((2,), (2, 3), (2, 1)),
        ((2,), (2, 3), (3,)),
        ((2,), (2, 3), (2, 3, 1)),
    ],
)
def test_bad_shapes(labels, logits, weights):
    with pytest.raises(ValueError, match=r"Received: .*\(2"):
        SpanLoss()(
            np.zeros(labels, "int32"),
            np.zeros(logits, "float32"),
            None if weights is None else np.ones(weights, "float32"),
        )


def test_config_round_trip():
    loss = keras.losses.deserialize(keras.losses.serialize(SpanLoss("first")))
    assert type(loss) is SpanLoss
    assert loss.get_config() == {"name": "first"}
