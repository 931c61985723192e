"""Writes `pytorch_model.bin` by hand, honest or not, without torch."""

import pickle
import zipfile
from pathlib import Path

import numpy as np

STORAGES = {
    "float64": "DoubleStorage",
    "float32": "FloatStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int64": "LongStorage",
    "bool": "BoolStorage",
}


def name_of(module: str, name: str) -> bytes:
    return b"c" + f"{module}\n{name}\n".encode()


def text(value: str) -> bytes:
    encoded = value.encode()
    return b"X" + len(encoded).to_bytes(4, "little") + encoded


def number(value: int) -> bytes:
    encoded = pickle.encode_long(value)
    return b"\x8a" + bytes([len(encoded)]) + encoded


def tuple_of(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def numbers(*values: int) -> bytes:
    return tuple_of(*(number(value) for value in values))


EMPTY_DICT = name_of("collections", "OrderedDict") + b")R"
REBUILD = name_of("torch._utils", "_rebuild_tensor_v2")


def storage(key: str, count: int, kind: str = "FloatStorage") -> bytes:
    return (
        tuple_of(
            text("storage"),
            name_of("torch", kind),
            text(key),
            text("cpu"),
            number(count),
        )
        + b"Q"
    )


def tensor(stored: bytes, offset: int, shape, strides) -> bytes:
    arguments = (
        stored,
        number(offset),
        numbers(*shape),
        numbers(*strides),
        b"\x89",
        EMPTY_DICT,
    )
    return REBUILD + tuple_of(*arguments) + b"R"


def state_dict(tensors: dict[str, bytes]) -> bytes:
    items = b"".join(text(name) + made for name, made in tensors.items())
    return b"\x80\x02" + EMPTY_DICT + b"(" + items + b"u."


def write_archive(
    path: Path, program: bytes, entries: dict[str, bytes], **options
) -> None:
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr("archive/data.pkl", program)
        for name, content in entries.items():
            archive.writestr(f"archive/{name}", content)


def write_bin(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays as `torch.save` writes a dict of tensors."""
    entries = {"byteorder": b"little"}
    made = {}
    for key, (name, array) in enumerate(arrays.items()):
        entries[f"data/{key}"] = array.tobytes()
        strides = [
            int(np.prod(array.shape[i + 1 :])) for i in range(array.ndim)
        ]
        kind = STORAGES[array.dtype.name]
        stored = storage(str(key), array.size, kind)
        made[name] = tensor(stored, 0, array.shape, strides)
    write_archive(path, state_dict(made), entries)
