"""Reads `pytorch_model.bin` without torch and without running its pickle.

Since torch 1.6 such a file is a zip archive: `data.pkl` says which tensors
there are, and `data/0`, `data/1`, … hold their numbers, uncompressed. Every
number that the pickle gives is held against the real size of an entry before
anything is read.

References:
    torch/serialization.py and torch/_utils.py, for the format.
"""

import dataclasses
import math
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

from kbert.checkpoints.safe_pickle import Global, interpret

_STORAGES: dict[str, np.dtype] = {
    f"torch.{name}Storage": np.dtype(dtype)
    for name, dtype in {
        "Double": np.float64,
        "Float": np.float32,
        "Half": np.float16,
        "BFloat16": ml_dtypes.bfloat16,
        "Long": np.int64,
        "Int": np.int32,
        "Short": np.int16,
        "Char": np.int8,
        "Byte": np.uint8,
        "Bool": np.bool_,
    }.items()
}
_FLOATS = frozenset(["float64", "float32", "float16", "bfloat16"])
_DICT = "collections.OrderedDict"
_TENSOR = "torch._utils._rebuild_tensor_v2"
_PARAMETER = "torch._utils._rebuild_parameter"
_ALLOWED = frozenset([_DICT, _TENSOR, _PARAMETER, *_STORAGES])

# How the formats before torch 1.6 begin: a pickled number, and a tar archive
# that begins with the name of its first file.
_OLD_STARTS = (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", b"sys_info\0")
# Far above what real files need (200 bytes a tensor; 5 axes).
_LARGEST_PICKLE = 2**23
_MOST_AXES = 32
_MOST_ELEMENTS = 2**48


@dataclasses.dataclass(frozen=True)
class _Entry:
    """Bytes of a file, inside it for certain."""

    start: int
    size: int


@dataclasses.dataclass(frozen=True)
class _Storage:
    dtype: np.dtype
    entry: _Entry

    @property
    def num_elements(self) -> int:
        return self.entry.size // self.dtype.itemsize


@dataclasses.dataclass(frozen=True)
class _Tensor:
    """A view of a storage; offset and strides count elements."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def span(self) -> int:
        """Elements of the storage from the first used to the last."""
        if 0 in self.shape:
            return 0
        steps = zip(self.shape, self.strides, strict=True)
        return 1 + sum((size - 1) * stride for size, stride in steps)


class TorchReader:
    """Tensors of one or several `pytorch_model.bin`, read one at a time.

    Args:
        paths: the files; together they hold each name once.
        location: what error messages call the checkpoint.

    Raises:
        ValueError: if a file is damaged, in torch's old format, or holds
            anything but a dict of tensors; or a name appears twice.
    """

    def __init__(self, paths: list[Path], location: str):
        """See the class."""
        self.location = location
        self._archives: dict[str, _Archive] = {}
        for path in paths:
            archive = _Archive(path)
            for name in archive.tensors:
                if name in self._archives:
                    raise ValueError(
                        f"Two shards hold the tensor {name!r}. Received: {path}"
                    )
                self._archives[name] = archive

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return name → shape of every tensor."""
        return {
            name: archive.tensors[name].shape
            for name, archive in self._archives.items()
        }

    def is_float(self, name: str) -> bool:
        """Return whether a tensor holds floating-point numbers."""
        tensor = self._archives[name].tensors[name]
        return tensor.storage.dtype.name in _FLOATS

    def read(self, name: str) -> np.ndarray:
        """Read one tensor, in the dtype of the file."""
        archive = self._archives[name]
        return archive.read(archive.tensors[name])


class _Archive:
    """One file: its tensors by name, checked but not read."""

    def __init__(self, path: Path):
        self.path = path
        with path.open("rb") as file:
            self._entries, root = _find_entries(file, path)
            self._order = "<"
            if f"{root}byteorder" in self._entries:
                order = self._read(file, f"{root}byteorder", 16)
                self._order = ">" if order == b"big" else "<"
            program = self._read(file, f"{root}data.pkl", _LARGEST_PICKLE)
        self._root = root
        try:
            value = interpret(program, _find_global, _call, self._find_storage)
            self.tensors = _check_tensors(value)
        except ValueError as error:
            raise ValueError(
                "Expected a dict of tensors, as torch.save writes it, but of "
                f"the pickle in this file, {error}. Nothing of it was run. "
                f"Received: {path}"
            ) from error

    def _read(self, file: BinaryIO, name: str, largest: int) -> bytes:
        entry = self._entries[name]
        if entry.size > largest:
            raise ValueError(
                f"Expected at most {largest} bytes in {name}, and there are "
                f"{entry.size}. Received: {self.path}"
            )
        file.seek(entry.start)
        return file.read(entry.size)

    def _find_storage(self, key: Any) -> _Storage:
        if type(key) is not tuple or len(key) != 5 or key[0] != "storage":
            raise ValueError("it refers to what is no storage")
        _, kind, name, _, count = key
        if not isinstance(kind, Global) or kind.name not in _STORAGES:
            raise ValueError("it has a storage of no known dtype")
        entry = None
        if type(name) is str:
            entry = self._entries.get(f"{self._root}data/{name}")
        if entry is None:
            raise ValueError("it has a storage that is not in the file")
        storage = _Storage(_STORAGES[kind.name], entry)
        if type(count) is not int or count != storage.num_elements:
            raise ValueError(
                f"it says {_short(count)} numbers of a storage that has "
                f"{storage.num_elements}"
            )
        return storage

    def read(self, tensor: _Tensor) -> np.ndarray:
        """Read a tensor's stretch of the file and lay it out."""
        dtype, span = tensor.storage.dtype, tensor.span
        if not span:
            return np.zeros(tensor.shape, dtype)
        flat = np.fromfile(
            self.path,
            dtype=np.dtype(f"{self._order}u{dtype.itemsize}"),
            count=span,
            offset=tensor.storage.entry.start + tensor.offset * dtype.itemsize,
        )
        if len(flat) != span:
            raise ValueError(
                f"The file became shorter while it was read. Received: "
                f"{self.path}"
            )
        flat = flat.astype(flat.dtype.newbyteorder("="), copy=False).view(dtype)
        view = np.lib.stride_tricks.as_strided(
            flat, tensor.shape, [s * dtype.itemsize for s in tensor.strides]
        )
        # Without `reshape`, a single number would gain an axis.
        return np.ascontiguousarray(view).reshape(tensor.shape)


def _find_entries(file: BinaryIO, path: Path) -> tuple[dict[str, _Entry], str]:
    """Find where each entry of the archive lies, and their common folder."""
    if file.read(16).startswith(_OLD_STARTS):
        raise ValueError(
            "This file is in the format that torch wrote before version 1.6, "
            "which kbert does not read: load it with transformers and save "
            f"it again. Received: {path}"
        )
    try:
        with zipfile.ZipFile(file) as archive:
            found = archive.infolist()
        entries = {info.filename: _locate(file, info) for info in found}
    except (
        zipfile.BadZipFile,
        NotImplementedError,  # a later version of zip
        OverflowError,
        struct.error,
        ValueError,
    ) as error:
        raise ValueError(
            f"Not a complete file of torch's ({error}); download or copy it "
            f"again. Received: {path}"
        ) from error
    pickles = [name for name in entries if name.endswith("/data.pkl")]
    if len(pickles) != 1 or len(entries) != len(found):
        raise ValueError(
            "Expected a zip archive as torch.save writes it, with one "
            f"data.pkl and no name twice. Received: {path}"
        )
    return entries, pickles[0].removesuffix("data.pkl")


def _locate(file: BinaryIO, info: zipfile.ZipInfo) -> _Entry:
    """Find an entry's bytes: a header of its own stands before them."""
    if info.compress_type or info.compress_size != info.file_size:
        raise ValueError("an entry is compressed")
    if info.header_offset < 0:
        raise ValueError("an entry begins before the file")
    file.seek(info.header_offset)
    header = file.read(30)
    if len(header) < 30 or not header.startswith(b"PK\x03\x04"):
        raise ValueError("an entry is not where the archive says")
    start = info.header_offset + 30 + sum(struct.unpack("<HH", header[26:]))
    if start + info.file_size > file.seek(0, 2):
        raise ValueError("an entry ends after the file")
    return _Entry(start, info.file_size)


def _find_global(name: str) -> Global:
    if name not in _ALLOWED:
        raise ValueError(f"it asks for {_short(name)}")
    return Global(name)


def _call(name: str, arguments: tuple) -> Any:
    if name == _DICT and not arguments:
        return {}
    if name == _PARAMETER and len(arguments) == 3:
        if isinstance(arguments[0], _Tensor):
            return arguments[0]
    if name == _TENSOR and len(arguments) in (6, 7):
        return _view(*arguments[:4])
    raise ValueError(f"it calls {name} with other arguments than torch does")


def _view(storage: Any, offset: Any, shape: Any, strides: Any) -> _Tensor:
    """Check a tensor's numbers against its storage."""
    numbers = (shape, strides)
    if (
        not isinstance(storage, _Storage)
        or any(type(x) is not tuple or len(x) > _MOST_AXES for x in numbers)
        or len(shape) != len(strides)
        or any(
            type(number) is not int or number < 0
            for number in (offset, *shape, *strides)
        )
    ):
        raise ValueError("it has a tensor of impossible shape or strides")
    # An axis of one element may have any stride.
    strides = tuple(
        stride if size > 1 else 0
        for size, stride in zip(shape, strides, strict=True)
    )
    tensor = _Tensor(storage, offset, shape, strides)
    # An expanded tensor would be small in the file and large in memory.
    most = storage.num_elements
    if (
        math.prod(shape) > most
        or math.prod(max(size, 1) for size in shape) > _MOST_ELEMENTS
        or (tensor.span and offset + tensor.span > most)
    ):
        raise ValueError(
            f"it has a tensor of shape {_short(shape)} in a storage of {most} "
            "numbers"
        )
    return tensor


def _check_tensors(value: Any) -> dict[str, _Tensor]:
    if type(value) is not dict:
        raise ValueError("its value is no dict")
    for name, tensor in value.items():
        if not isinstance(tensor, _Tensor):
            raise ValueError(f"the value of {_short(name)} is no tensor")
    return value


def _short(value: Any, most: int = 80) -> str:
    """Show a value of a file, unless it may be nested too deeply for that."""
    parts = value if type(value) is tuple else (value,)
    if any(type(part) not in (str, int) for part in parts):
        return f"a {type(value).__name__}"
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"
