"""Reads tensors and configs out of files, and nothing more."""

import dataclasses
import json
import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open

from kbert.checkpoints.mapping import TensorSource
from kbert.checkpoints.torch_bin import TorchReader
from kbert.hub import find_file


class SafetensorsReader:
    """Tensors of one or several safetensors files, read one at a time.

    Args:
        paths: the files; together they hold each name once.
        location: what error messages call the checkpoint.

    Raises:
        ValueError: if a file is damaged or a name appears twice.

    References:
        https://huggingface.co/docs/safetensors
    """

    def __init__(self, paths: list[Path], location: str):
        """See the class."""
        self.location = location
        self._tensors: dict[str, _Tensor] = {}
        for path in paths:
            for name, tensor in _read_header(path):
                if name in self._tensors:
                    raise ValueError(
                        f"Two shards hold the tensor {name!r}. Received: {path}"
                    )
                self._tensors[name] = tensor

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return name → shape of every tensor."""
        return {name: x.shape for name, x in self._tensors.items()}

    def is_float(self, name: str) -> bool:
        """Return whether a tensor holds floats that numpy can read."""
        return self._tensors[name].dtype in ("F64", "F32", "F16", "BF16")

    def read(self, name: str) -> np.ndarray:
        """Return one tensor as a view of the file, in the file's dtype."""
        tensor = self._tensors[name]
        if tensor.dtype not in _DTYPES:
            raise ValueError(
                f"Expected {name} in one of {', '.join(_DTYPES)}. Received: "
                f"{tensor.dtype} in {self.location}"
            )
        # What was read before would still count as memory of this process.
        if hasattr(mmap, "MADV_DONTNEED"):
            tensor.file.madvise(mmap.MADV_DONTNEED)
        return np.ndarray(
            tensor.shape, _DTYPES[tensor.dtype], tensor.file, tensor.start
        )


# As files name them. Their numbers begin with the lowest byte.
_DTYPES = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}


@dataclasses.dataclass(frozen=True)
class _Tensor:
    """Where a tensor lies; `start` counts bytes."""

    file: mmap.mmap
    start: int
    dtype: str
    shape: tuple[int, ...]


def _read_header(path: Path) -> Iterator[tuple[str, _Tensor]]:
    """Yield name and place of every tensor of a file."""
    try:
        # The library holds lengths, offsets and shapes against the file.
        with safe_open(path, framework="numpy") as checked:
            names = checked.keys()
    except SafetensorError as error:
        raise ValueError(
            f"Not a complete safetensors file ({error}); download or copy it "
            f"again. Received: {path}"
        ) from error
    with path.open("rb") as opened:
        file = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    length = int.from_bytes(file[:8], "little")
    header = json.loads(file[8 : 8 + length])
    for name in names:
        entry = header[name]
        start = 8 + length + entry["data_offsets"][0]
        yield name, _Tensor(file, start, entry["dtype"], tuple(entry["shape"]))


# Name of the weights in one file → what reads it. The first there is wins;
# the index of shards has the same name and `.index.json` after it.
_READERS = {
    "model.safetensors": SafetensorsReader,
    "pytorch_model.bin": TorchReader,
}


def open_tensors(
    source: str | os.PathLike, revision: str | None = None, folder: str = ""
) -> TensorSource:
    """Open the weights of a Hugging Face directory or hub id.

    Args:
        source: directory or hub id.
        revision: branch, tag or commit on the hub.
        folder: the folder in it, such as "2_Dense"; "" for none.

    Returns:
        A reader over `model.safetensors`, or over the shards that
        `model.safetensors.index.json` lists; where there is neither, over
        `pytorch_model.bin` or its shards.

    Raises:
        FileNotFoundError: if there is none, or a listed shard is absent.
        ValueError: if a file is damaged, or is a pickle of anything but
            tensors.
    """
    start = f"{folder}/" if folder else ""
    location = os.path.join(source, folder) if folder else str(source)
    for name, reader_of in _READERS.items():
        name = start + name
        single = find_file(source, name, revision=revision, required=False)
        if single is not None:
            return reader_of([single], location=location)
        index = find_file(
            source, f"{name}.index.json", revision=revision, required=False
        )
        if index is None:
            continue
        weight_map = _read_weight_map(index)
        shards = sorted({start + name for name in weight_map.values()})
        paths = [find_file(source, name, revision=revision) for name in shards]
        reader = reader_of([p for p in paths if p], location=location)
        absent = set(weight_map) - set(reader.shapes())
        if absent:
            raise ValueError(
                "The index of shards lists tensors that its shards lack: "
                f"{sorted(absent)[:8]}. Received: {index}"
            )
        return reader
    raise FileNotFoundError(
        f"Found none of {', '.join(_READERS)} and their indexes. Received: "
        f"source={os.fspath(source)!r}, folder={folder!r}"
    )


def _read_weight_map(index: Path) -> dict[str, str]:
    """Read an index: tensor name → name of the shard beside it."""
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ValueError(
            "An index of shards must hold a `weight_map` of tensor name to "
            f"file name. Received: {index}"
        )
    for name in weight_map.values():
        # The index is downloaded text: a shard lies beside it or nowhere.
        if not isinstance(name, str) or Path(name).name != name:
            raise ValueError(
                "An index of shards may only name files beside it. "
                f"Received: {name!r} in {index}"
            )
    return weight_map


def read_config(
    source: str | os.PathLike, revision: str | None = None, folder: str = ""
) -> dict[str, Any]:
    """Read `config.json` of a Hugging Face directory or hub id.

    Args:
        source: directory or hub id.
        revision: branch, tag or commit on the hub.
        folder: the folder in it; "" for none.

    Returns:
        The parsed object.

    Raises:
        FileNotFoundError: if it is absent.
        ValueError: if it is no JSON object.
    """
    name = f"{folder}/config.json" if folder else "config.json"
    path = find_file(source, name, revision=revision)
    assert path is not None  # required files are found or raise
    return read_json(path)


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that holds one JSON object."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"Not a JSON file ({error}). Received: {path}"
        ) from error
    if not isinstance(value, dict):
        raise ValueError(f"Expected a JSON object. Received: {path}")
    return value
