"""Reads tensors and configs out of files, and nothing more."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
        self._files = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._dtypes: dict[str, str] = {}
        for path in paths:
            file = _open(path)
            for name in file.keys():  # noqa: SIM118 (not a dict)
                if name in self._files:
                    raise ValueError(
                        f"Two shards hold the tensor {name!r}. Received: {path}"
                    )
                self._files[name] = file
                entry = file.get_slice(name)
                self._shapes[name] = tuple(entry.get_shape())
                self._dtypes[name] = entry.get_dtype()

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return name → shape of every tensor."""
        return self._shapes

    def is_float(self, name: str) -> bool:
        """Return whether a tensor holds floats that numpy can read."""
        return self._dtypes[name] in ("F64", "F32", "F16", "BF16")

    def read(self, name: str) -> np.ndarray:
        """Read one tensor, in the dtype of the file."""
        return self._files[name].get_tensor(name)


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="numpy")
    except SafetensorError as error:
        raise ValueError(
            f"Not a complete safetensors file ({error}); download or copy it "
            f"again. Received: {path}"
        ) from error


# Name of the weights in one file → what reads it. The first there is wins;
# the index of shards has the same name and `.index.json` after it.
_READERS = {
    "model.safetensors": SafetensorsReader,
    "pytorch_model.bin": TorchReader,
}


def open_tensors(
    source: str | os.PathLike, revision: str | None = None
) -> TensorSource:
    """Open the weights of a Hugging Face directory or hub id.

    Args:
        source: directory or hub id.
        revision: branch, tag or commit on the hub.

    Returns:
        A reader over `model.safetensors`, or over the shards that
        `model.safetensors.index.json` lists; where there is neither, over
        `pytorch_model.bin` or its shards.

    Raises:
        FileNotFoundError: if there is none, or a listed shard is absent.
        ValueError: if a file is damaged, or is a pickle of anything but
            tensors.
    """
    for name, reader_of in _READERS.items():
        single = find_file(source, name, revision=revision, required=False)
        if single is not None:
            return reader_of([single], location=str(source))
        index = find_file(
            source, f"{name}.index.json", revision=revision, required=False
        )
        if index is None:
            continue
        weight_map = _read_weight_map(index)
        shards = sorted(set(weight_map.values()))
        paths = [find_file(source, name, revision=revision) for name in shards]
        reader = reader_of([p for p in paths if p], location=str(source))
        absent = set(weight_map) - set(reader.shapes())
        if absent:
            raise ValueError(
                "The index of shards lists tensors that its shards lack: "
                f"{sorted(absent)[:8]}. Received: {index}"
            )
        return reader
    raise FileNotFoundError(
        f"Found none of {', '.join(_READERS)} and their indexes. Received: "
        f"source={os.fspath(source)!r}"
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
    source: str | os.PathLike, revision: str | None = None
) -> dict[str, Any]:
    """Read `config.json` of a Hugging Face directory or hub id.

    Args:
        source: directory or hub id.
        revision: branch, tag or commit on the hub.

    Returns:
        The parsed object.

    Raises:
        FileNotFoundError: if it is absent.
        ValueError: if it is no JSON object.
    """
    path = find_file(source, "config.json", revision=revision)
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
