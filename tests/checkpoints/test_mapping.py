"""The engine that pairs tensors with variables."""

import keras
import numpy as np
import pytest
from keras import ops
from refusals import refused

from kbert.checkpoints.mapping import (
    LoadReport,
    Row,
    canonical_names,
    collect_tensors,
    expand,
    load_tensors,
    weight_variables,
)

ANCHOR = "embeddings.word_embeddings.weight"
ROWS = [
    Row("first.weight", "first/kernel", transpose=True),
    Row("first.bias", "first/bias"),
    Row("second.weight", "second/kernel", transpose=True),
    Row("second.bias", "second/bias"),
]


class Tensors:
    """A checkpoint in memory."""

    location = "memory"

    def __init__(self, arrays):
        self.arrays = arrays

    def shapes(self):
        return {name: array.shape for name, array in self.arrays.items()}

    def is_float(self, name):
        return self.arrays[name].dtype.kind == "f"

    def read(self, name):
        return self.arrays[name]


@pytest.fixture
def model():
    inputs = keras.Input((3,))
    x = keras.layers.Dense(4, name="first")(inputs)
    x = keras.layers.Dropout(0.5, name="dropout")(x)
    x = keras.layers.Dense(2, name="second")(x)
    return keras.Model(inputs, x)


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    shapes = {
        "first.weight": (4, 3),
        "first.bias": (4,),
        "second.weight": (2, 4),
        "second.bias": (2,),
    }
    return {
        name: rng.normal(size=shape).astype("float32")
        for name, shape in shapes.items()
    }


def load(model, arrays, rows=ROWS, **kwargs) -> LoadReport:
    names = {name: name for name in arrays}
    return load_tensors(model, Tensors(arrays), rows, names, **kwargs)


def weights(model):
    return {
        path: np.array(ops.convert_to_numpy(variable.value))
        for path, variable in weight_variables(model).items()
    }


def assert_unchanged(model, before):
    for path, array in weights(model).items():
        np.testing.assert_array_equal(array, before[path])


def test_load_and_collect(model, arrays):
    report = load(model, arrays)
    assert report == LoadReport("memory", tuple(arrays), (), ())
    np.testing.assert_array_equal(
        weights(model)["first/kernel"], arrays["first.weight"].T
    )
    np.testing.assert_array_equal(
        weights(model)["second/bias"], arrays["second.bias"]
    )
    collected = collect_tensors(model, ROWS)
    assert set(collected) == set(arrays)
    for name, array in collected.items():
        np.testing.assert_array_equal(array, arrays[name])
        assert array.flags.c_contiguous


def test_names_in_the_file_may_differ(model, arrays):
    names = {name: f"model.{name}" for name in arrays}
    source = Tensors({names[name]: x for name, x in arrays.items()})
    report = load_tensors(model, source, ROWS, names)
    assert report.loaded == tuple(names.values())
    names["third.bias"] = "model.third.bias"
    source.arrays["model.third.bias"] = np.zeros(1)
    report = load_tensors(model, source, ROWS, names)
    assert report.unused == ("model.third.bias",)


def test_missing_tensor(model, arrays):
    before = weights(model)
    del arrays["second.bias"]
    arrays["second.bas"] = np.zeros(2, "float32")
    with refused(ValueError, "lacks weights") as caught:
        load(model, arrays)
    message = str(caught.value)
    assert "second/bias (from second.bias)" in message
    assert "second.bas)" in message  # the other side of the difference
    assert message.endswith("Received: memory")
    assert_unchanged(model, before)


def test_missing_row(model, arrays):
    before = weights(model)
    with refused(ValueError, r"Missing: 1 \(second/bias\)"):
        load(model, arrays, ROWS[:-1])
    assert_unchanged(model, before)


def test_missing_lists_are_cut(model):
    with refused(ValueError, r"Unused in the file: 20 \(.*, and 12 more\)"):
        load(model, {f"other.{i}": np.zeros(1) for i in range(20)})


@pytest.mark.parametrize(
    "name, shape, needed",
    [
        ("first.weight", (3, 4), "(4, 3)"),
        ("first.bias", (1, 4), "(4,)"),
        ("second.bias", (), "(2,)"),
        ("second.weight", (2, 4, 1), "(2, 4)"),
    ],
)
def test_shape_mismatch(model, arrays, name, shape, needed):
    before = weights(model)
    arrays[name] = np.zeros(shape, "float32")
    with refused(ValueError, "nothing was loaded") as caught:
        load(model, arrays)
    variable = {row.tensor: row.variable for row in ROWS}[name]
    expected = f"{name} has shape {shape}, but {variable} needs {needed}"
    assert expected in str(caught.value)
    assert_unchanged(model, before)


def test_all_wrong_shapes_are_told(model, arrays):
    wrong = {name: np.zeros((9, 9)) for name in arrays}
    with refused(ValueError, "first.weight .*; second.bias has shape"):
        load(model, wrong)


def test_fresh_variables_stay(model, arrays):
    before = weights(model)
    del arrays["second.bias"]
    report = load(model, arrays, fresh=["second/"])
    assert report.missing == ("second/kernel", "second/bias")
    # A tensor there is for a variable that stays fresh is unused.
    assert report.unused == ("second.weight",)
    after = weights(model)
    for path in report.missing:
        np.testing.assert_array_equal(after[path], before[path])
    assert np.abs(after["first/kernel"] - before["first/kernel"]).max() > 0


def test_ignored_names_are_not_unused(model, arrays):
    arrays |= {"ids": np.zeros(3), "ids_of": np.zeros(3)}
    report = load(model, arrays, ignored=[r"ids"])
    assert report.unused == ("ids_of",)


def test_half_precision_is_widened(model, arrays):
    halves = {name: array.astype("float16") for name, array in arrays.items()}
    load(model, halves)
    assert {v.dtype for v in model.trainable_variables} == {"float32"}
    np.testing.assert_array_equal(
        weights(model)["first/bias"], halves["first.bias"].astype("float32")
    )


def test_collecting_loses_nothing(model):
    with refused(ValueError, r"no place for .* 1 \(second/bias\)"):
        collect_tensors(model, ROWS[:-1])


def test_seeds_and_metrics_are_no_weights(model, arrays):
    model.compile("adam", "mse", metrics=["mae"])
    model.train_on_batch(np.ones((2, 3)), np.ones((2, 2)))
    assert sorted(weight_variables(model)) == sorted(
        row.variable for row in ROWS
    )
    assert set(collect_tensors(model, ROWS)) == set(arrays)


def test_expand_writes_out_every_block():
    rows = [Row("a.{i}.b", "block_{i}/b", transpose=True), Row("c", "c")]
    assert expand(rows, 2) == [
        Row("a.0.b", "block_0/b", transpose=True),
        Row("a.1.b", "block_1/b", transpose=True),
        Row("c", "c"),
    ]


@pytest.mark.parametrize(
    "outer, prefix",
    [("", ""), ("", "bert."), ("model.", ""), ("module.model.", "bert.")],
)
def test_prefixes_are_undone(outer, prefix):
    names = [
        outer + prefix + ANCHOR,
        outer + prefix + "encoder.layer.0.output.LayerNorm.gamma",
        outer + prefix + "encoder.layer.0.output.LayerNorm.beta",
        outer + "classifier.weight",
    ]
    assert canonical_names(names, "bert.", ANCHOR) == dict(
        zip(
            [
                ANCHOR,
                "encoder.layer.0.output.LayerNorm.weight",
                "encoder.layer.0.output.LayerNorm.bias",
                "classifier.weight",
            ],
            names,
            strict=True,
        )
    )


def test_only_norms_have_old_names():
    names = [ANCHOR, "head.gamma", "MyLayerNorm.gamma"]
    assert set(canonical_names(names, "bert.", ANCHOR)) == set(names)


def test_ambiguous_prefix():
    names = [f"question.{ANCHOR}", f"answer.{ANCHOR}"]
    with refused(ValueError, "Expected one tensor named") as caught:
        canonical_names(names, "bert.", ANCHOR)
    assert all(name in str(caught.value) for name in names)


def test_no_encoder():
    with refused(ValueError, "to tell where the encoder is") as caught:
        canonical_names(["transformer.wte.weight"], "bert.", ANCHOR)
    assert "transformer.wte.weight" in str(caught.value)
    with refused(ValueError, "Received: 0"):
        canonical_names([], "bert.", ANCHOR)


@pytest.mark.parametrize(
    "names",
    [
        ("a.LayerNorm.gamma", "a.LayerNorm.weight"),
        ("bert.pooler.dense.bias", "pooler.dense.bias"),
    ],
)
def test_two_names_for_one(names):
    with refused(ValueError, "mean the same") as caught:
        canonical_names([f"bert.{ANCHOR}", *names], "bert.", ANCHOR)
    assert all(name in str(caught.value) for name in names)


def test_report_as_text():
    report = LoadReport("here", ("a",) * 3, ("b",), tuple("cdefghijkl"))
    assert str(report) == (
        "here: 3 tensors loaded; left fresh: 1 (b); unused: 10 "
        "(c, d, e, f, g, h, i, j, and 2 more)"
    )
    assert str(LoadReport("here", (), (), ())) == "here: 0 tensors loaded"
