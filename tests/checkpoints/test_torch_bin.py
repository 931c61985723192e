"""`pytorch_model.bin`: read right, and never run."""

import functools
import json
import os
import pickle
import random
import shutil
import tracemalloc
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch_files as bins
from refusals import refused
from safetensors.numpy import load_file, save_file

import kbert
from kbert.checkpoints.mapping import weight_variables
from kbert.checkpoints.readers import open_tensors
from kbert.checkpoints.torch_bin import TorchReader

GOLDEN = Path(__file__).parents[1] / "golden"
BIN = "pytorch_model.bin"
INDEX = "pytorch_model.bin.index.json"
FOUR = np.arange(4, dtype="float32")
CONTENT = FOUR.tobytes()


def read_all(path: Path) -> dict[str, np.ndarray]:
    reader = TorchReader([path], str(path))
    arrays = {name: reader.read(name) for name in reader.shapes()}
    for name, array in arrays.items():
        assert reader.shapes()[name] == array.shape
    return arrays


def write_one(directory: Path, made: bytes, content=CONTENT) -> Path:
    """Write a file of one tensor `a`, over four numbers."""
    path = directory / BIN
    bins.write_archive(path, bins.state_dict({"a": made}), {"data/0": content})
    return path


def write_program(directory: Path, program: bytes) -> Path:
    path = directory / BIN
    bins.write_archive(path, program, {"data/0": FOUR.tobytes()})
    return path


# What torch writes.


def test_every_kind_of_tensor_that_torch_writes():
    arrays = read_all(GOLDEN / "torch_bin" / BIN)
    expected = load_file(GOLDEN / "torch_bin" / "model.safetensors")
    assert list(arrays) != sorted(arrays)  # the order of the file
    assert set(arrays) == set(expected)
    for name, array in arrays.items():
        assert array.dtype == expected[name].dtype
        assert array.flags.c_contiguous and array.flags.writeable
        np.testing.assert_array_equal(array, expected[name], err_msg=name)


def test_which_tensors_are_floats():
    reader = TorchReader([GOLDEN / "torch_bin" / BIN], "x")
    others = {name for name in reader.shapes() if not reader.is_float(name)}
    assert others == {"position_ids", "int32", "bytes", "bool"}


@pytest.mark.parametrize("case", ["bert", "bert_gelu_new"])
def test_models_are_those_of_safetensors(tmp_path, case):
    shutil.copy(GOLDEN / case / "config.json", tmp_path)
    arrays = load_file(GOLDEN / case / "model.safetensors")
    bins.write_bin(tmp_path / BIN, arrays)
    expected = kbert.load_classifier(GOLDEN / case)
    model, report = kbert.load_classifier(tmp_path, report=True)
    assert not report.unused and not report.missing
    variables = weight_variables(expected)
    for path, variable in weight_variables(model).items():
        np.testing.assert_array_equal(
            np.array(variable), np.array(variables[path]), err_msg=path
        )
    _, report = kbert.load_encoder(tmp_path, report=True)
    assert sorted(report.unused) == ["classifier.bias", "classifier.weight"]


def test_safetensors_win(tmp_path):
    bins.write_bin(tmp_path / BIN, {"old": FOUR})
    save_file({"new": FOUR}, tmp_path / "model.safetensors")
    assert set(open_tensors(tmp_path).shapes()) == {"new"}


def write_shards(directory: Path, **listed: str) -> None:
    bins.write_bin(directory / "one.bin", {"a": FOUR})
    bins.write_bin(directory / "two.bin", {"b": FOUR + 1})
    (directory / INDEX).write_text(json.dumps({"weight_map": listed}))


def test_shards(tmp_path):
    write_shards(tmp_path, a="one.bin", b="two.bin")
    reader = open_tensors(tmp_path)
    assert reader.shapes() == {"a": (4,), "b": (4,)}
    np.testing.assert_array_equal(reader.read("b"), FOUR + 1)


@pytest.mark.parametrize(
    ("listed", "error", "match"),
    [
        ({"a": "../one.bin"}, ValueError, "may only name files beside it"),
        ({"a": "/etc/passwd"}, ValueError, "may only name files beside it"),
        ({}, ValueError, "weight_map"),
        ({"a": "three.bin"}, FileNotFoundError, "three.bin"),
        ({"a": "one.bin", "c": "two.bin"}, ValueError, r"lack: \['c'\]"),
        ({"a": INDEX}, ValueError, "Not a complete file of torch's"),
    ],
)
def test_shards_with_faults(tmp_path, listed, error, match):
    write_shards(tmp_path, **listed)
    with refused(error, match):
        open_tensors(tmp_path)


def test_two_shards_hold_one_name(tmp_path):
    write_shards(tmp_path, a="one.bin", b="two.bin")
    shutil.copy(tmp_path / "one.bin", tmp_path / "two.bin")
    with refused(ValueError, "Two shards hold the tensor 'a'"):
        open_tensors(tmp_path)


def test_big_endian_files(tmp_path):
    grid = np.arange(6, dtype=">f4").reshape(2, 3)
    brain = grid.astype(ml_dtypes.bfloat16)
    tensors = {
        "a": bins.tensor(bins.storage("0", 6), 0, (2, 3), (3, 1)),
        "b": bins.tensor(
            bins.storage("1", 6, "BFloat16Storage"), 0, (3, 2), (1, 3)
        ),
    }
    swapped = brain.view("u2").astype(">u2").tobytes()
    entries = {"byteorder": b"big", "data/0": grid.tobytes()}
    entries["data/1"] = swapped
    bins.write_archive(tmp_path / BIN, bins.state_dict(tensors), entries)
    arrays = read_all(tmp_path / BIN)
    assert arrays["a"].dtype == np.float32
    np.testing.assert_array_equal(arrays["a"], grid)
    np.testing.assert_array_equal(arrays["b"], brain.T)


# Pickles that would do something.


def attacks(mark: Path) -> dict[str, bytes]:
    """Write pickles that make the file `mark` when they are loaded."""
    touch = f"touch {mark}"
    code = f"open({str(mark)!r}, 'w').close()"

    class Reduced:
        def __init__(self, *parts):
            self.parts = parts

        def __reduce__(self):
            return self.parts

    def called(*parts, protocol=2):
        return pickle.dumps({"a": Reduced(*parts)}, protocol)

    return {
        "os.system": called(os.system, (touch,)),
        "protocol 0": called(os.system, (touch,), protocol=0),
        "protocol 4": called(os.system, (touch,), protocol=4),
        "builtins.eval": called(eval, (code,)),
        "builtins.exec": called(exec, (code,), protocol=5),
        "builtins.open": called(open, (str(mark), "w")),
        "python 2": b"c__builtin__\neval\n"
        + bins.tuple_of(bins.text(code))
        + b"R.",
        "inst": b"(S'" + touch.encode() + b"'\nios\nsystem\n.",
        "obj": b"(cos\nsystem\nX" + bins.text(touch)[1:] + b"o.",
        "newobj": bins.name_of("functools", "partial")
        + bins.tuple_of(bins.name_of("os", "system"), bins.text(touch))
        + b"\x81)R.",
        "partial": called(functools.partial(os.system, touch), ()),
        "getattr": called(getattr, (os, "system"))
        if False
        else bins.name_of("builtins", "getattr")
        + bins.tuple_of(bins.name_of("os", "path"), bins.text("os"))
        + b"R.",
        "dotted": b"\x80\x04"
        + bins.text("collections")
        + bins.text("OrderedDict.__init__.__globals__")
        + b"\x93.",
        "through torch": bins.name_of("torch._utils", "_import_dotted_name")
        + bins.tuple_of(bins.text("os.system"))
        + b"R.",
        "torch.load": bins.name_of("torch", "load")
        + bins.tuple_of(bins.text(str(mark)))
        + b"R.",
        "numpy": bins.name_of("numpy.testing._private.utils", "runstring")
        + bins.tuple_of(bins.text(code), b"}")
        + b"R.",
        "copyreg": bins.name_of("copyreg", "_reconstructor")
        + bins.tuple_of(
            bins.name_of("collections", "OrderedDict"),
            bins.name_of("builtins", "object"),
            b"N",
        )
        + b"R.",
        "copyreg.add_extension": bins.name_of("copyreg", "add_extension")
        + bins.tuple_of(bins.text("os"), bins.text("system"), b"K\x01")
        + b"R\x82\x01"
        + bins.tuple_of(bins.text(touch))
        + b"R.",
        # A function that is allowed, and another's name in its place.
        "setstate": bins.EMPTY_DICT
        + b"}"
        + bins.text("__setstate__")
        + bins.name_of("os", "system")
        + b"sb"
        + bins.text(touch)
        + b"b.",
        "hooks": bins.REBUILD
        + bins.tuple_of(
            bins.storage("0", 4),
            b"K\x00",
            bins.numbers(4),
            bins.numbers(1),
            b"\x89",
            bins.name_of("os", "system")
            + bins.tuple_of(bins.text(touch))
            + b"R",
        )
        + b"R.",
        "in a persistent id": bins.name_of("os", "system")
        + bins.tuple_of(bins.text(touch))
        + b"RQ.",
    }


@pytest.mark.parametrize("name", attacks(Path("x")))
def test_pickles_that_run_code(tmp_path, name):
    mark = tmp_path / "mark"
    path = write_program(tmp_path, attacks(mark)[name])
    with refused(ValueError, "Nothing of it was run") as caught:
        open_tensors(tmp_path)
    assert not mark.exists()
    assert str(path) in str(caught.value)


def test_those_pickles_do_run_code(tmp_path):
    # Or the test above would show nothing.
    for name in (
        "os.system",
        "builtins.eval",
        "protocol 0",
        "inst",
        "python 2",
    ):
        mark = tmp_path / name.replace(" ", "_")
        pickle.loads(attacks(mark)[name])
        assert mark.exists(), name


def test_the_function_is_named(tmp_path):
    write_program(tmp_path, attacks(tmp_path / "mark")["builtins.eval"])
    with refused(ValueError, "it asks for '__builtin__.eval'|builtins.eval"):
        open_tensors(tmp_path)


# Pickles that lie about numbers, or would exhaust the reader.

HUGE = 2**62


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        (0, (5,), (1,)),
        (1, (4,), (1,)),
        (-1, (4,), (1,)),
        (4, (1,), (1,)),
        (0, (-4,), (1,)),
        (3, (4,), (-1,)),
        (0, (2, 2), (3, 1)),
        (0, (2, 2), (HUGE, 1)),
        (HUGE, (1,), (1,)),
        (-(2**2000), (1,), (1,)),
        (0, (2**2000,), (1,)),
        (0, (HUGE, HUGE), (0, 0)),
        (0, (8,), (0,)),
        (0, (0, HUGE), (1, 1)),
        (0, (1,) * 33, (1,) * 33),
        (0, (4,), ()),
        (0, (4,), (1, 1)),
    ],
)
def test_tensors_outside_their_storage(tmp_path, offset, shape, strides):
    stored = bins.storage("0", 4)
    write_one(tmp_path, bins.tensor(stored, offset, shape, strides))
    with refused(ValueError, "it has a tensor of"):
        open_tensors(tmp_path)


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        (0, (4,), (1,)),
        (3, (), ()),
        (3, (1, 1), (HUGE, 7)),
        (1, (2,), (2,)),
        (0, (2, 2), (1, 2)),
        (4, (0,), (1,)),
        (9, (0, 3), (HUGE, 1)),
        (0, (2, 2), (0, 1)),
    ],
)
def test_odd_tensors_inside_it(tmp_path, offset, shape, strides):
    stored = bins.storage("0", 4)
    path = write_one(tmp_path, bins.tensor(stored, offset, shape, strides))
    array = read_all(path)["a"]
    assert array.shape == shape
    expected = [
        offset + sum(i * step for i, step in zip(place, strides, strict=True))
        for place in np.ndindex(shape)
    ]
    assert array.ravel().tolist() == expected


@pytest.mark.parametrize(
    "made",
    [
        bins.storage("0", 3),
        bins.storage("0", 5),
        bins.storage("0", HUGE),
        bins.storage("0", -4),
        bins.storage("0", 4, "DoubleStorage"),
        bins.storage("1", 4),
        bins.storage("../data.pkl", 4),
        bins.storage("0", 4, "ComplexFloatStorage"),
        bins.storage("0", 4, "QInt8Storage"),
        bins.EMPTY_DICT,
        b"N",
        bins.text("0") + b"Q",
        bins.tuple_of() + b"Q",
        b"(" * 5 + b"t" * 5 + b"Q",
        bins.tuple_of(bins.text("storage"), *[b"]"] * 4) + b"Q",
    ],
)
def test_storages_that_are_not_there(tmp_path, made):
    write_one(tmp_path, bins.tensor(made, 0, (4,), (1,)))
    with refused(ValueError, "of the pickle in this file, it "):
        open_tensors(tmp_path)


def repr_short(program: bytes) -> str:
    return repr(program[:40])


def rebuild(*arguments: bytes, name: bytes = bins.REBUILD) -> bytes:
    return name + bins.tuple_of(*arguments) + b"R."


PARAMETER = bins.name_of("torch._utils", "_rebuild_parameter")
STORED = bins.storage("0", 4)
DEEP = b"(" * 100_000 + b"t" * 100_000


@pytest.mark.parametrize(
    "program",
    [
        b".",
        b"N.",
        b"].",
        b"(t.",
        b"",
        b"N",
        b"(",
        b"t.",
        b"R.",
        b"0.",
        b"2.",
        b"b.",
        b"Q.",
        b"h\x07.",
        b"j\xff\xff\xff\xff.",
        b"r\xff\xff\xff\xff.",
        b"N(0.",
        b"\xff.",
        b"B\xff\xff\xff\x7f.",
        b"X\xff\xff\xff\xff.",
        b"\x8d" + b"\xff" * 8 + b".",
        b"\x8b\xff\xff\xff\x7f.",
        b"I" + b"9" * 10_000 + b"\n.",
        b"\x80\x02}]Ns.",
        b"\x80\x02})Ns.",
        b"\x80\x02}" + DEEP + b"Ns.",
        b"\x80\x02}(Nu.",
        b"\x80\x02]Nb.",
        b"\x80\x02NNb.",
        b"\x80\x02)(Ne.",
        b"\x80\x02" + bins.REBUILD + b"Nb.",
        b"\x80\x02" + bins.REBUILD + b"NR.",
        b"\x80\x02" + bins.REBUILD + b")R.",
        b"\x80\x02" + bins.text("x") + b")R.",
        b"\x80\x02" + STORED + b")R.",
        rebuild(STORED, b"N", b")", b")", b"N", b"N"),
        rebuild(STORED, b"K\x00", b"N", b")", b"N", b"N"),
        rebuild(STORED, b"K\x00", b"]", b"]", b"N", b"N"),
        rebuild(STORED, b"\x88", b")", b")", b"N", b"N"),
        rebuild(STORED, b"K\x00", bins.tuple_of(b"\x88"), b")", b"N", b"N"),
        rebuild(STORED, b"K\x00", DEEP, DEEP, b"N", b"N"),
        rebuild(STORED, b"K\x00", b")", b")", *[b"N"] * 9),
        rebuild(STORED, b"N", b"N", name=PARAMETER),
        rebuild(name=PARAMETER),
        bins.name_of("collections", "OrderedDict")
        + bins.tuple_of(b"](]N]Nee")
        + b"R.",
        bins.name_of("torch", "FloatStorage") + bins.numbers(HUGE) + b"R.",
        bins.EMPTY_DICT + bins.text("a") + b"Ns.",
        bins.EMPTY_DICT + bins.text("a") + DEEP + b"s.",
        b"\x80\x02]q\x00h\x00a.",
        b"\x80\x02}q\x00" + bins.text("a") + b"h\x00s.",
        DEEP + b".",
        b"]" * 100_000 + b"a" * 99_999 + b".",
        b"(" * 1_000_000 + b".",
        DEEP + b"Q.",
        b"\x80\x02c" + b"x" * 100_000 + b"\ny\n.",
        b"\x80\x02" + DEEP + bins.text("x") + b"\x93.",
        b"\x97.",
        b"\x98.",
    ],
    ids=repr_short,
)
def test_malformed_pickles(tmp_path, program):
    write_program(tmp_path, program)
    with refused(ValueError, "Nothing of it was run") as caught:
        open_tensors(tmp_path)
    assert len(str(caught.value)) < 600


def test_memory_follows_the_file_not_its_words(tmp_path):
    path = write_program(tmp_path, b"\x80\x02Nr\xff\xff\xff\xff].")
    tracemalloc.start()
    with refused(ValueError, "no dict"):
        TorchReader([path], "x")
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


# Files that are damaged, or something else.


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04" + b"\0" * 64,
        b"PK\x05\x06" + b"\xff" * 18,
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
        b"cos\nsystem\n(S'false'\ntR.",
        pickle.dumps({"a": 1}),
    ],
)
def test_garbage(tmp_path, content):
    (tmp_path / BIN).write_bytes(content)
    with refused(ValueError, "Not a complete file of torch's"):
        open_tensors(tmp_path)


@pytest.mark.parametrize(
    "start",
    [b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M", b"sys_info\0\0"],
)
def test_the_format_before_torch_1_6(tmp_path, start):
    (tmp_path / BIN).write_bytes(start + b"\0" * 600)
    with refused(ValueError, "before version 1.6.* save it again"):
        open_tensors(tmp_path)


def test_truncated_file(tmp_path):
    path = write_one(tmp_path, bins.tensor(STORED, 0, (4,), (1,)))
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        with refused(ValueError, "download or copy it again"):
            open_tensors(tmp_path)
    path.write_bytes(whole)
    np.testing.assert_array_equal(read_all(path)["a"], FOUR)


def test_damaged_bytes_give_errors_of_ours(tmp_path):
    path = write_one(tmp_path, bins.tensor(STORED, 0, (2, 2), (2, 1)))
    whole = path.read_bytes()
    rng = random.Random(0)
    refusals = 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            for array in read_all(path).values():
                assert array.nbytes <= 16
        except ValueError as error:
            assert f"Received: {path}" in str(error)
            refusals += 1
    assert refusals > len(whole) / 2


def test_compressed_entries(tmp_path):
    path = tmp_path / BIN
    program = bins.state_dict({"a": bins.tensor(STORED, 0, (4,), (1,))})
    options = {"compression": zipfile.ZIP_DEFLATED}
    bins.write_archive(path, program, {"data/0": FOUR.tobytes()}, **options)
    with refused(ValueError, "an entry is compressed"):
        open_tensors(tmp_path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_archives_of_something_else(tmp_path):
    path = tmp_path / BIN
    for names in (["x/y"], ["a/data.pkl"] * 2, ["a/data.pkl", "b/data.pkl"]):
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, b"N.")
        with refused(ValueError, "one data.pkl and no name twice"):
            open_tensors(tmp_path)


def test_pickle_of_absurd_size(tmp_path):
    write_program(tmp_path, b"]" * (2**23 + 1))
    with refused(ValueError, "at most 8388608 bytes in archive/data.pkl"):
        open_tensors(tmp_path)
