"""DistillationLoss, HiddenStateLoss and RelationLoss in numbers."""

import keras
import numpy as np
import pytest
from loss_reference import compiled, gradient, softmax

from kbert.losses import DistillationLoss, HiddenStateLoss, RelationLoss

TEACHER, STUDENT = [[2.0, 1.0, 0.0]], [[0.0, 1.0, 3.0]]
LOSSES = [
    DistillationLoss(),
    HiddenStateLoss("cosine"),
    HiddenStateLoss("mean_squared"),
    RelationLoss(num_relation_heads=2),
]


def divergence(teacher, student):
    p, q = softmax(teacher), softmax(student)
    return np.sum(p * np.log(p / q), axis=-1)


def draw(*shape):
    rng = np.random.default_rng(0)
    return rng.normal(size=(2, *shape)).astype("float32")


@pytest.mark.parametrize("temperature", [1.0, 2.0, 4.0])
def test_closed_form(temperature):
    value = DistillationLoss(temperature)(TEACHER, STUDENT)
    expected = temperature**2 * divergence(
        np.divide(TEACHER, temperature), np.divide(STUDENT, temperature)
    )
    assert float(value) == pytest.approx(expected[0], rel=1e-6)
    if temperature == 1.0:
        assert float(value) == pytest.approx(1.8226, abs=5e-5)


def test_gradient_is_that_of_softened_softmaxes():
    teacher, student = draw(4, 5)
    found = gradient(lambda z: DistillationLoss(2.0)(teacher, z), student)
    # d/dz of T² KL is T (q - p).
    expected = 2.0 * (softmax(student / 2) - softmax(teacher / 2)) / 4
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda x: x.name)
def test_equal_is_zero_with_no_gradient(loss):
    values, _ = draw(2, 5, 8)
    assert float(loss(values, values)) == pytest.approx(0.0, abs=1e-6)
    found = gradient(lambda z: loss(values, z), values)
    np.testing.assert_allclose(found, 0.0, atol=1e-6)


def test_extreme_logits_stay_finite():
    teacher = np.array([[1e4, -1e4]], "float32")
    value = DistillationLoss(1.0)(teacher, -teacher)
    assert float(value) == pytest.approx(2e4)
    found = gradient(lambda z: DistillationLoss(1.0)(teacher, z), -teacher)
    np.testing.assert_allclose(found, [[-1.0, 1.0]])


@pytest.mark.parametrize("loss", LOSSES, ids=lambda x: x.name)
def test_padding_does_not_count(loss):
    """Padded, with anything in the padding, equals cut; also all padding."""
    teacher, student = draw(2, 6, 8)
    weights = np.zeros((2, 6), "float32")
    weights[:, :4] = 1.0
    expected = float(loss(teacher[:, :4], student[:, :4]))
    teacher[:, 4:], student[:, 4:] = np.nan, 1e4
    assert float(loss(teacher, student, weights)) == pytest.approx(
        expected, rel=1e-5
    )
    found = gradient(lambda z: loss(teacher, z, weights), student)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[:, 4:], 0.0)
    assert np.abs(found[:, :4]).max() > 1e-4
    assert float(loss(teacher, student, 0 * weights)) == 0.0


def test_weights_weigh():
    loss = DistillationLoss(1.0)
    value = loss(TEACHER * 3, [STUDENT[0], TEACHER[0], STUDENT[0]], [3, 1, 0])
    assert float(value) == pytest.approx(divergence(TEACHER, STUDENT)[0] * 0.75)


def test_hidden_states_closed_form():
    teacher, student = [[3.0, 4.0], [0.0, 0.0]], [[4.0, 3.0], [1.0, 2.0]]
    value = HiddenStateLoss("mean_squared")(teacher, student)
    assert float(value) == pytest.approx((1.0 + 2.5) / 2)
    # A vector of zeros has no direction: distance 1, and no NaN.
    value = HiddenStateLoss("cosine")(teacher, student)
    assert float(value) == pytest.approx((0.04 + 1.0) / 2)
    found = gradient(
        lambda z: HiddenStateLoss("cosine")(student, z),
        np.array(teacher, "float32"),
    )
    assert np.isfinite(found).all()


def test_relations_in_numpy():
    """Head by head, with loops."""
    teacher = draw(2, 5, 12)[0]
    student = draw(2, 5, 6)[1]
    lengths = [5, 3]
    weights = (np.arange(5) < np.array(lengths)[:, None]).astype("float32")
    total = []
    for row, length in enumerate(lengths):
        for token in range(length):
            heads = []
            for head in range(3):
                scores = []
                for values, size in ((teacher, 4), (student, 2)):
                    part = values[row, :length, head * size : (head + 1) * size]
                    scores.append(part[token] @ part.T / np.sqrt(size))
                heads.append(divergence(*scores))
            total.append(np.mean(heads))
    value = RelationLoss(num_relation_heads=3)(teacher, student, weights)
    assert float(value) == pytest.approx(np.mean(total), rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda x: x.name)
def test_compiled_and_restored(loss):
    teacher, student = draw(2, 5, 8)
    weights = np.ones((2, 5), "float32")
    weights[1, 3:] = 0.0
    expected = float(loss(teacher, student, weights))
    copy = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(loss)
    )
    assert copy.get_config() == loss.get_config()
    value = compiled(lambda *args: copy(*args))(teacher, student, weights)
    assert float(value) == pytest.approx(expected, rel=1e-5)


def test_half_precision_is_computed_in_float32():
    teacher, student = draw(4, 6)
    halves = keras.ops.cast(teacher, "float16"), student.astype("float16")
    value = DistillationLoss()(*halves)
    assert keras.backend.standardize_dtype(value.dtype) == "float32"
    expected = DistillationLoss()(*(np.array(x, "float32") for x in halves))
    assert float(value) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: DistillationLoss(0.0), "temperature"),
        (lambda: HiddenStateLoss("l3"), "kind"),
        (lambda: RelationLoss(0), "num_relation_heads"),
        (lambda: DistillationLoss()([[1.0]], [[2.0]]), "one class"),
        (lambda: DistillationLoss()([[1.0, 2.0]], [[2.0] * 3]), "one shape"),
        (lambda: DistillationLoss()(TEACHER, STUDENT, [[1]]), "sample_weight"),
        (lambda: DistillationLoss()(1.0, 2.0), "axes"),
        (lambda: RelationLoss(5)(draw(2, 8), draw(2, 8)), "multiple"),
    ],
)
def test_bad_input(make, match):
    with pytest.raises(ValueError, match=f"(?s){match}.*Received: "):
        make()
