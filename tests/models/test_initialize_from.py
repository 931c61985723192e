"""initialize_from: what is copied, what stays, and what is refused."""

from dataclasses import replace

import keras
import numpy as np
import pytest

import kbert


def build(config, seed=0, **options):
    keras.utils.set_random_seed(seed)
    model = kbert.build_classifier(kbert.build_encoder(config), 3, **options)
    for variable in model.weights:  # zeros and ones would be equal anyway
        variable.assign(variable + np.random.normal(size=variable.shape))
    return model


def same(a, b):
    pairs = zip(a.weights, b.weights, strict=True)
    return all(np.array_equal(np.array(x), np.array(y)) for x, y in pairs)


@pytest.mark.parametrize(
    ("layers", "expected"), [(None, [0, 2, 4]), ([5, 1, 3], [5, 1, 3])]
)
def test_chosen_blocks_and_everything_around_them(
    tiny_config, layers, expected
):
    teacher = build(replace(tiny_config, num_layers=6))
    student = build(replace(tiny_config, num_layers=3), seed=1)
    report = kbert.initialize_from(student, teacher, layers)
    blocks = {f"encoder_block_{i}": j for i, j in enumerate(expected)}
    assert report == {
        name: f"encoder_block_{blocks[name]}" if name in blocks else name
        for name in ("embedding", *blocks, "pooler", "classifier")
    }
    for ours, theirs in report.items():
        assert same(student.get_layer(ours), teacher.get_layer(theirs))


def test_all_blocks_give_the_teachers_outputs(tiny_config):
    teacher, student = build(tiny_config), build(tiny_config, seed=1)
    x = {"token_ids": np.array([[2, 5, 6, 3]], "int32")}
    x["segment_ids"] = 0 * x["token_ids"]
    x["padding_mask"] = x["segment_ids"] + 1
    assert np.abs(teacher(x) - student(x)).max() > 1e-2
    kbert.initialize_from(student, teacher, [0, 1])
    np.testing.assert_array_equal(np.array(teacher(x)), np.array(student(x)))


def test_a_head_that_does_not_fit_stays(tiny_config):
    teacher = kbert.build_masked_lm(kbert.build_encoder(tiny_config))
    student = build(tiny_config, seed=1, label_names=["x", "y", "z"])
    head = [np.array(w) for w in student.get_layer("classifier").weights]
    report = kbert.initialize_from(student, teacher)
    assert report["pooler"] is None and report["classifier"] is None
    assert report["embedding"] == "embedding"
    for a, b in zip(head, student.get_layer("classifier").weights, strict=True):
        np.testing.assert_array_equal(a, np.array(b))
    # The same classes in another order are another head.
    other = build(tiny_config, label_names=["y", "x", "z"])
    assert kbert.initialize_from(student, other)["classifier"] is None
    assert kbert.initialize_from(student, build(tiny_config))["classifier"]


def test_a_shared_block_counts_each_time(tiny_config):
    shared = replace(tiny_config, num_layers=4, shared_layers=True)
    teacher, student = build(shared), build(tiny_config, seed=1)
    report = kbert.initialize_from(student, teacher, [0, 3])
    assert report["encoder_block_1"] == "encoder_block_0"


@pytest.mark.parametrize(
    ("change", "layers", "match"),
    [
        ({}, [0], "layers.*Received"),
        ({}, [0, 2], "layers.*Received"),
        ({"hidden_size": 24}, None, "embedding.*hidden_size"),
        ({"vocab_size": 99}, None, "embedding.*vocab_size"),
        ({"num_heads": 4}, None, "encoder_block_0.*num_heads"),
        ({"activation": "relu"}, None, "activation"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(
    tiny_config, change, layers, match
):
    teacher = build(replace(tiny_config, **change))
    student = build(tiny_config, seed=1)
    before = [np.array(w) for w in student.weights]
    with pytest.raises(ValueError, match=match):
        kbert.initialize_from(student, teacher, layers)
    for a, b in zip(before, student.weights, strict=True):
        np.testing.assert_array_equal(a, np.array(b))
