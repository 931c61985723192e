"""The files that records are kept in.

A directory holds shards, an index and a manifest. The shards are TFRecord
files of `tf.train.Example`, which other programs can read; record i is in
shard i modulo their number. The index has a row a record: where it lies in its
shard, a checksum, and the length of its longest vector. It gives any record
without reading those before it, and lengths without reading any.
"""

import json
import mmap
import os
import shutil
import struct
import zlib
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from kbert.data.record_encoding import check_example, decode, encode

_FORMAT, _VERSION = "kbert-records", 2
_MANIFEST, _INDEX = "manifest.json", "index.bin"
_ROW = np.dtype(
    [("offset", "<u8"), ("size", "<u4"), ("crc32", "<u4"), ("length", "<u4")]
)
_PACK_ROW = struct.Struct("<QIII").pack
# What TFRecord puts before a record (its length and the length's checksum)
# and after it (its checksum).
_BEFORE, _AFTER = 12, 4


def check_path(directory: str | os.PathLike) -> Path:
    """Returns an absolute path of the local file system.

    Args:
        directory: The path.

    Raises:
        ValueError: It is an address, such as `gs://…`.
    """
    if "://" in os.fspath(directory):
        raise ValueError(
            "Expected a path of the local file system: copy the files. "
            f"Received: directory={os.fspath(directory)!r}"
        )
    return Path(directory).absolute()


def unfinished_path(directory: Path) -> Path:
    """Returns where the records of a directory are while they are written."""
    return directory.with_name(f"{directory.name}.unfinished")


class RecordDirectory:
    """The records of one directory, by their numbers.

    It can be pickled and used by several threads and processes.

    Args:
        path: The directory.

    Raises:
        FileNotFoundError: It has no manifest.
        ValueError: Its files are not as they were written.
    """

    def __init__(self, path: Path):
        """Reads the manifest and checks the files against it."""
        self.path = path
        manifest = _read_manifest(path)
        self.num_records: int = manifest["num_records"]
        self.features: dict[str, int] = manifest["features"]
        self.metadata: dict[str, Any] = manifest["metadata"]
        self._shards = [path / name for name in manifest["shards"]]
        for name, size in {
            **manifest["shards"],
            _INDEX: self.num_records * _ROW.itemsize,
        }.items():
            found = (
                (path / name).stat().st_size if (path / name).exists() else 0
            )
            if found != size:
                raise ValueError(
                    f"Expected {name} with {size} bytes, as it was written, "
                    f"but it has {found}. Received: directory={str(path)!r}"
                )
        index = _map_file(path / _INDEX)
        if zlib.crc32(index) != manifest["index_crc32"]:
            raise ValueError(
                f"Expected {_INDEX} as it was written, but its checksum "
                f"differs. Received: directory={str(path)!r}"
            )
        self._index = np.frombuffer(index, dtype=_ROW)
        self._maps: dict[int, mmap.mmap] = {}

    def __reduce__(self) -> tuple[type, tuple[Path]]:
        """Lets another process open the files anew."""
        return type(self), (self.path,)

    @property
    def lengths(self) -> np.ndarray:
        """Length of the longest vector of each record."""
        return self._index["length"]

    def __getitem__(self, number: int) -> dict[str, np.ndarray]:
        """Reads the record of a number from 0 to `num_records` - 1.

        Raises:
            ValueError: It is not as it was written.
        """
        shard = number % len(self._shards)
        offset, size, checksum, _ = self._index[number].item()
        if shard not in self._maps:
            self._maps[shard] = _map_file(self._shards[shard])
        data = self._maps[shard][offset : offset + size]
        if zlib.crc32(data) != checksum:
            raise ValueError(
                f"Expected record {number} as it was written to "
                f"{self._shards[shard].name}, but its checksum differs: write "
                "or copy the records anew. "
                f"Received: directory={str(self.path)!r}"
            )
        return decode(data, self.features)


def _map_file(path: Path) -> mmap.mmap:
    """Returns the bytes of a file that is not empty, without reading them."""
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def write_directory(
    examples: Iterable[Mapping[str, Any]],
    path: Path,
    num_shards: int,
    metadata: Mapping[str, Any],
) -> int:
    """Writes records: see `kbert.data.write_records`."""
    unfinished = unfinished_path(path)
    if unfinished.exists():
        shutil.rmtree(unfinished)
    unfinished.mkdir(parents=True)
    try:
        manifest = _write_files(examples, unfinished, num_shards)
        manifest["metadata"] = dict(metadata)
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        (unfinished / _MANIFEST).write_text(text, encoding="utf-8")
        unfinished.rename(path)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return manifest["num_records"]


def _write_files(
    examples: Iterable[Mapping[str, Any]], path: Path, num_shards: int
) -> dict[str, Any]:
    """Writes the shards and the index, and returns the manifest."""
    import tensorflow as tf

    names = [
        f"records-{shard:05d}-of-{num_shards:05d}.tfrecord"
        for shard in range(num_shards)
    ]
    ends = dict.fromkeys(names, 0)
    features: dict[str, int] = {}
    number, index_crc32 = -1, 0
    with ExitStack() as stack:
        index = stack.enter_context(open(path / _INDEX, "wb"))
        writers = [
            stack.enter_context(tf.io.TFRecordWriter(str(path / name)))
            for name in names
        ]
        for number, example in enumerate(examples):
            arrays = check_example(example, f"examples[{number}]")
            ranks = {name: array.ndim for name, array in arrays.items()}
            features = features or ranks
            if ranks != features:
                raise ValueError(
                    "Expected every example to have the keys and ranks of "
                    f"the first, {features}. "
                    f"Received: examples[{number}] with {ranks}"
                )
            data = encode(arrays)
            name = names[number % num_shards]
            row = _PACK_ROW(
                ends[name] + _BEFORE,
                len(data),
                zlib.crc32(data),
                max(array.size * array.ndim for array in arrays.values()),
            )
            writers[number % num_shards].write(data)
            ends[name] += _BEFORE + len(data) + _AFTER
            index.write(row)
            index_crc32 = zlib.crc32(row, index_crc32)
    if number < 0:
        raise ValueError("Expected at least one example. Received: none")
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "num_records": number + 1,
        "features": features,
        "shards": ends,
        "index_crc32": index_crc32,
    }


def _read_manifest(path: Path) -> dict[str, Any]:
    """Reads the manifest of a directory."""
    received = f"Received: directory={str(path)!r}"
    if not (path / _MANIFEST).is_file():
        was_cut_off = unfinished_path(path).exists()
        raise FileNotFoundError(
            f"Expected records there, but there is no {_MANIFEST}"
            + (": the writing was cut off, repeat it" if was_cut_off else "")
            + f". {received}"
        )
    try:
        manifest = json.loads((path / _MANIFEST).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"Expected a {_MANIFEST} in JSON: {error}. {received}"
        ) from error
    kind = [manifest.get(key) for key in ("format", "version")]
    if kind != [_FORMAT, _VERSION]:
        raise ValueError(
            f"Expected records of the format {[_FORMAT, _VERSION]}, but these "
            f"are of {kind}. {received}"
        )
    return manifest
