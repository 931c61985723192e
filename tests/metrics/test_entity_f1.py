import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbert.losses import TokenClassificationLoss
from kbert.metrics import EntityF1, entity_scores
from kbert.metrics.entity_rules import SCHEMES

TAGS = ["O", "B-A", "I-A", "B-B", "I-B"]
ODD = [
    *("O B-A I-A E-A S-A B-B I-B E-B S-B B-A-B I- B I E S O- O-C").split(),
    *("U-A L-A X-B BA I--A").split(),
]


def draw(rng, names, shape):
    """Labels -100 where they do not count, logits and weights."""
    labels = rng.integers(0, len(names), shape)
    logits = rng.normal(size=(*shape, len(names))).astype("float32")
    logits += 2.0 * np.eye(len(names))[labels]
    weights = rng.integers(0, 3, shape)
    return np.where(weights > 0, labels, -100), logits, weights


def tags_of(names, labels, logits, weights):
    """What is left of a batch without the pieces that do not count."""
    said = logits.argmax(-1)
    return [
        [
            [names[i] for i in row[keep]]
            for row, keep in zip(x, weights > 0, strict=True)
        ]
        for x in (labels, said)
    ]


def check(names, rng, mode="default", scheme=None, average="micro"):
    metric = EntityF1(names, mode, scheme, average)
    true, said = [], []
    for shape in [(3, 6), (1, 1), (2, 11)]:
        batch = draw(rng, names, shape)
        metric.update_state(*batch)
        one, two = tags_of(names, *batch)
        true += one
        said += two
    scores = entity_scores(true, said, mode=mode, scheme=scheme)
    expected = scores[average]["f1"]
    assert float(metric.result()) == pytest.approx(expected, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    names=st.lists(st.sampled_from(ODD), min_size=1, max_size=9, unique=True),
    average=st.sampled_from(["micro", "macro", "weighted"]),
)
def test_equals_the_function(seed, names, average):
    check(names, np.random.default_rng(seed), average=average)


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
@pytest.mark.parametrize("scheme", SCHEMES)
def test_equals_the_function_in_strict_mode(scheme, seed):
    rng = np.random.default_rng(seed)
    names = [
        prefix + type_
        for prefix in SCHEMES[scheme][0]
        for type_ in ("", "-A", "-B")
        if prefix != "O" or not type_
    ]
    check(names, rng, "strict", scheme, "macro")


def test_pieces_between_do_not_cut_an_entity():
    metric = EntityF1(TAGS)
    labels = np.array([[1, -100, -100, 2, 0, -100]])
    logits = np.eye(5)[[[1, 3, 0, 2, 0, 3]]]
    weights = np.array([[1, 0, 0, 1, 1, 0]])
    assert float(metric(labels, logits, weights)) == 1.0
    logits[0, 3] = np.eye(5)[0]
    metric.reset_state()
    assert float(metric(labels, logits, weights)) == 0.0


def test_a_keras_mask_leaves_positions_out():
    logits = keras.ops.convert_to_tensor(np.eye(5)[[[1, 2, 3]]])
    logits._keras_mask = keras.ops.convert_to_tensor([[True, True, False]])
    assert float(EntityF1(TAGS)([[1, 2, 0]], logits)) == 1.0


def test_nothing_found_is_0_and_forgotten():
    metric = EntityF1(TAGS, average="macro")
    assert float(metric.result()) == 0.0
    assert float(metric([[0, 0]], np.eye(5)[[[0, 0]]])) == 0.0
    assert float(metric([[1, 0]], np.eye(5)[[[1, 0]]])) == 1.0
    metric.reset_state()
    assert float(metric.result()) == 0.0


@pytest.mark.parametrize("average", ["micro", "macro", "weighted"])
@pytest.mark.parametrize("label", [-100, 5])
def test_a_label_of_no_class_is_no_number(label, average):
    logits = np.eye(5)[[[1, 2, 0]]]
    labels = [[1, 2, label]]
    metric = EntityF1(TAGS, average=average)
    assert np.isnan(float(metric(labels, logits)))
    assert float(EntityF1(TAGS)(labels, logits, [[1, 1, 0]])) == 1.0


@pytest.mark.parametrize("jit_compile", [False, True])
def test_in_fit(jit_compile):
    """Compiled, batches of several lengths, the last one smaller."""
    if jit_compile and keras.backend.backend() == "torch":
        pytest.skip("torch.compile is not what kbert is for")
    rng = np.random.default_rng(0)
    inputs = keras.Input((None, 5))
    model = keras.Model(inputs, keras.layers.Dense(5, use_bias=False)(inputs))
    model.set_weights([np.eye(5)])
    model.compile(
        keras.optimizers.SGD(0.0),
        loss=TokenClassificationLoss(),
        weighted_metrics=[EntityF1(TAGS), EntityF1(TAGS, name="again")],
        jit_compile=jit_compile,
    )
    for shape in [(5, 4), (3, 9)]:
        labels, logits, weights = draw(rng, TAGS, shape)
        batch = labels, logits, weights
        shown = model.evaluate(
            logits,
            labels,
            sample_weight=weights,
            batch_size=2,
            verbose=0,
            return_dict=True,
        )
        one, two = tags_of(TAGS, *batch)
        expected = entity_scores(one, two)["micro"]["f1"]
        assert shown["entity_f1"] == pytest.approx(expected, abs=1e-6)
        assert shown["again"] == shown["entity_f1"]
        history = model.fit(
            logits, labels, sample_weight=weights, batch_size=2, verbose=0
        )
        found = history.history["entity_f1"][-1]
        assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    "names, options, received",
    [
        ("O", {}, "label_names='O'"),
        ([], {}, r"label_names=\[\]"),
        (["O", ""], {}, "''"),
        # After these seqeval begins an entity in the text before.
        (["O", "L", "B"], {}, "'L'"),
        (["O", ".-A", "B-A"], {}, "'.-A'"),
        (["O-A", "U-A"], {}, "'U-A'"),
        (["O", "S-A"], {"mode": "strict", "scheme": "IOB2"}, "'S-A'"),
        (TAGS, {"mode": "strict"}, "scheme=None"),
        (TAGS, {"scheme": "IOB2"}, "scheme='IOB2'"),
        (TAGS, {"average": None}, "average=None"),
    ],
)
def test_bad_arguments(names, options, received):
    with pytest.raises(ValueError, match=f"Received: .*{received}"):
        EntityF1(names, **options)


def test_shapes_and_config():
    with pytest.raises(ValueError, match=r"\(B, S, 5\).*Received: "):
        EntityF1(TAGS)([[1, 2]], np.zeros((1, 2, 4)))
    metric = EntityF1(TAGS, "strict", "IOB2", "weighted", name="f1")
    again = keras.metrics.deserialize(keras.metrics.serialize(metric))
    assert type(again) is EntityF1
    assert again.get_config() == metric.get_config()
    assert metric.get_config() == {
        "label_names": TAGS,
        "mode": "strict",
        "scheme": "IOB2",
        "average": "weighted",
        "name": "f1",
    }
