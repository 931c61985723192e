"""Files, whole and damaged."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from safetensors.numpy import load_file, save_file

from kbert.checkpoints.readers import open_tensors, read_config

INDEX = "model.safetensors.index.json"
ARRAYS = {
    "a": np.arange(6, dtype="float32").reshape(2, 3),
    "b": np.ones((), "float16"),
    "c": np.zeros((0, 4), "float32"),
    "position_ids": np.arange(5),
}


def write_shards(directory, weight_map=None, **shards):
    """Write shards, and an index of them or of what it is told."""
    listed = {}
    for file, arrays in shards.items():
        save_file(arrays, directory / f"{file}.safetensors")
        listed |= {name: f"{file}.safetensors" for name in arrays}
    index = {"metadata": {}, "weight_map": weight_map or listed}
    (directory / INDEX).write_text(json.dumps(index))


def assert_holds(reader, arrays):
    assert dict(reader.shapes()) == {k: v.shape for k, v in arrays.items()}
    for name, array in arrays.items():
        read = reader.read(name)
        assert read.dtype == array.dtype
        np.testing.assert_array_equal(read, array)


def test_single_file(tmp_path):
    save_file(ARRAYS, tmp_path / "model.safetensors")
    for source in (tmp_path, str(tmp_path)):
        reader = open_tensors(source)
        assert reader.location == str(tmp_path)
        assert_holds(reader, ARRAYS)


def test_shards(tmp_path):
    a, *rest = ARRAYS
    write_shards(
        tmp_path, one={a: ARRAYS[a]}, two={name: ARRAYS[name] for name in rest}
    )
    assert_holds(open_tensors(tmp_path), ARRAYS)


def test_single_file_wins_over_shards(tmp_path):
    # save_pretrained over an old checkpoint leaves its shards behind.
    write_shards(tmp_path, one={"old": np.zeros(2)})
    save_file(ARRAYS, tmp_path / "model.safetensors")
    assert_holds(open_tensors(tmp_path), ARRAYS)


def test_missing_shard(tmp_path):
    write_shards(tmp_path, one={"a": np.zeros(2)}, two={"b": np.zeros(2)})
    (tmp_path / "two.safetensors").unlink()
    with refused(FileNotFoundError, "two.safetensors"):
        open_tensors(tmp_path)


def test_index_lists_what_no_shard_holds(tmp_path):
    one = "one.safetensors"
    write_shards(tmp_path, {"a": one, "lost": one}, one={"a": np.zeros(2)})
    with refused(ValueError, r"shards lack: \['lost'\]"):
        open_tensors(tmp_path)


def test_two_shards_hold_one_name(tmp_path):
    listed = {"a": "one.safetensors", "b": "two.safetensors"}
    both = {"a": np.zeros(2), "b": np.zeros(2)}
    write_shards(tmp_path, listed, one=both, two=both)
    with refused(ValueError, "Two shards hold the tensor"):
        open_tensors(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "../x.safetensors",
        "/etc/passwd",
        "..",
        ".",
        "",
        "sub/x.safetensors",
        "./x.safetensors",
        "..\\x.safetensors",
        "C:\\x.safetensors",
        None,
        7,
        ["x.safetensors"],
        {"x": "y"},
    ],
    ids=repr,
)
def test_index_leads_nowhere_else(tmp_path, name):
    directory = tmp_path / "checkpoint"
    (directory / "sub").mkdir(parents=True)
    for place in (tmp_path, directory, directory / "sub"):
        save_file({"a": np.zeros(2)}, place / "x.safetensors")
    write_shards(directory, {"a": name})
    with refused(ValueError, "may only name files beside it|relative path"):
        open_tensors(directory)


@pytest.mark.parametrize(
    "index",
    ["", "{", "[]", "{}", '{"weight_map": {}}', '{"weight_map": []}', "null"],
)
def test_index_that_is_none(tmp_path, index):
    (tmp_path / INDEX).write_text(index)
    with refused(ValueError, "JSON|weight_map"):
        open_tensors(tmp_path)


def test_shard_that_is_something_else(tmp_path):
    write_shards(tmp_path, {"a": INDEX})
    with refused(ValueError, "Not a complete safetensors file"):
        open_tensors(tmp_path)


def test_truncated_file(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file(ARRAYS, path)
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        with refused(ValueError, "download or copy it again"):
            open_tensors(tmp_path)
    path.write_bytes(whole)
    assert_holds(open_tensors(tmp_path), ARRAYS)


def test_truncated_shard_is_named(tmp_path):
    write_shards(tmp_path, one={"a": np.zeros(9)}, two={"b": np.zeros(9)})
    path = tmp_path / "two.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with refused(ValueError, "Not a complete") as caught:
        open_tensors(tmp_path)
    assert str(path) in str(caught.value)


def header(content: bytes, length: int | None = None) -> bytes:
    size = len(content) if length is None else length
    return size.to_bytes(8, "little") + content


ONE = '{"a": {"dtype": "%s", "shape": %s, "data_offsets": %s}}'
TWO = (
    '{"a": {"dtype": "F32", "shape": [2], "data_offsets": %s}, '
    '"%s": {"dtype": "F32", "shape": [2], "data_offsets": %s}}'
)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 8,
        b"\xff" * 64,
        header(b"{}", 2**60),
        header(b"{}", 2**64 - 1),
        header(b"not json"),
        header(b"\xff\xfe\xfd"),
        header(b"[]"),
        header(b'{"a": 1}'),
        header((ONE % ("F32", "[2]", "[0, 4]")).encode()) + b"\0" * 4,
        header((ONE % ("F32", "[-2]", "[0, 8]")).encode()) + b"\0" * 8,
        header((ONE % ("F32", "[2]", "[8, 0]")).encode()) + b"\0" * 8,
        header((ONE % ("F32", "[2]", "[0, 80]")).encode()) + b"\0" * 8,
        header((ONE % ("F32", f"[{2**40}, {2**40}]", "[0, 8]")).encode())
        + b"\0" * 8,
        header((ONE % ("F33", "[2]", "[0, 8]")).encode()) + b"\0" * 8,
        header((ONE % ("F32", "[2]", "[0, 8]")).encode()) + b"\0" * 9,
        header((ONE % ("F32", "[2]", "[-8, 0]")).encode()) + b"\0" * 8,
        header((ONE % ("F32", "[2]", "[4, 12]")).encode()) + b"\0" * 12,
        header((ONE % ("F32", "[2]", "[0.0, 8.0]")).encode()) + b"\0" * 8,
        header((ONE % ("F32", "[2]", "[8]")).encode()) + b"\0" * 8,
        header((ONE % ("F32", "[NaN]", "[0, 8]")).encode()) + b"\0" * 8,
        header((ONE % ("F32", "[2]", "[0, 8]")).encode() + b"{}") + b"\0" * 8,
        header((TWO % ("[0, 8]", "b", "[4, 12]")).encode()) + b"\0" * 16,
        header((TWO % ("[0, 8]", "b", "[0, 8]")).encode()) + b"\0" * 16,
        header((TWO % ("[0, 8]", "b", "[12, 20]")).encode()) + b"\0" * 20,
        header((TWO % ("[0, 8]", "a", "[8, 16]")).encode()) + b"\0" * 16,
        header(b'{"a": ' + b"[" * 10**5 + b"]" * 10**5 + b"}"),
        b"PK\x03\x04" + b"\0" * 64,  # a zip, as torch writes
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
    ],
)
def test_garbage(tmp_path, content):
    (tmp_path / "model.safetensors").write_bytes(content)
    with refused(ValueError, "Not a complete safetensors file"):
        open_tensors(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        # As in JSON at large, the last of two entries counts.
        TWO % ("[8, 16]", "a", "[0, 8]"),
        # Nothing says that numbers begin at a multiple of their size.
        ONE % ("F32", "[2]", "[0, 8]") + " " * 3,
        " " + ONE % ("F32", "[2]", "[0, 8]"),
        '{"__metadata__": {"a": "b"}, ' + (ONE % ("F32", "[2]", "[0, 8]"))[1:],
    ],
)
def test_header_as_the_library_reads_it(tmp_path, content):
    path = tmp_path / "model.safetensors"
    path.write_bytes(header(content.encode()) + bytes(range(8)))
    assert_holds(open_tensors(tmp_path), load_file(path))


@pytest.mark.parametrize("dtype", ["F8_E4M3", "U8", "I32", "BOOL"])
def test_what_is_no_float(tmp_path, dtype):
    size = 8 if dtype != "I32" else 2
    content = ONE % (dtype, f"[{size}]", "[0, 8]")
    path = tmp_path / "model.safetensors"
    path.write_bytes(header(content.encode()) + b"\1\0" * 4)
    reader = open_tensors(tmp_path)
    assert not reader.is_float("a")
    if dtype == "F8_E4M3":
        with refused(ValueError, "Expected a in one of F64, F32, F16, BF16"):
            reader.read("a")
    else:
        assert_holds(reader, load_file(path))


def test_file_can_not_be_written_to(tmp_path):
    save_file(ARRAYS, tmp_path / "model.safetensors")
    array = open_tensors(tmp_path).read("a")
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_one_tensor_at_a_time_is_in_memory(tmp_path):
    mib = 2**20
    arrays = {str(i): np.full(8 * mib, i + 1, "float32") for i in range(4)}
    save_file(arrays, tmp_path / "model.safetensors")
    reader = open_tensors(tmp_path)
    before = mapped_bytes()
    views = []  # they stay right while they are out of memory
    for name, array in arrays.items():
        views.append(reader.read(name))
        np.testing.assert_array_equal(views[-1], array)
        assert mapped_bytes() - before < 48 * mib
    for view, array in zip(views, arrays.values(), strict=True):
        np.testing.assert_array_equal(view, array)


def mapped_bytes() -> int:
    """Resident pages of files."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssFile:")[2].split()[0]) * 1024


def test_no_weights(tmp_path):
    with refused(
        FileNotFoundError, "Found none of model.safetensors, pytorch_m"
    ):
        open_tensors(tmp_path)


@pytest.mark.parametrize("read", [open_tensors, read_config])
def test_path_that_is_no_checkpoint(tmp_path, read):
    with refused(FileNotFoundError, "does not exist"):
        read(tmp_path / "missing")
    file = tmp_path / "model.ckpt"
    file.write_text("")
    with refused(FileNotFoundError, "is a file"):
        read(file)


def test_config(tmp_path):
    with refused(FileNotFoundError, "config.json"):
        read_config(tmp_path)
    path = tmp_path / "config.json"
    path.write_text('{"hidden_size": 4, "id2label": {"0": "é"}}', "utf-8")
    assert read_config(tmp_path) == {
        "hidden_size": 4,
        "id2label": {"0": "é"},
    }


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"hidden_size: 4", b"\xff\xfe{}", b"[]", b"3", b'"{}"'],
)
def test_config_that_is_none(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)
    with refused(ValueError, "JSON") as caught:
        read_config(tmp_path)
    assert str(tmp_path / "config.json") in str(caught.value)
