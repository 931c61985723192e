"""Vectors to a `.npy` file, row after row, however many there will be."""

import os
from pathlib import Path

import numpy as np


class VectorFile:
    """A `.npy` file of vectors that grows.

    It is written beside its place and put there at the end, so that a file
    at the place is a whole one.

    Args:
        path: where; a file there is replaced.
        width: components of a vector, as they are stored.
        dtype: of a component.
    """

    def __init__(self, path: str | os.PathLike, width: int, dtype: np.dtype):
        """See the class."""
        self._path = Path(path)
        self._part = self._path.with_name(self._path.name + ".part")
        self._width = width
        self._dtype = dtype
        self._rows = 0
        self._file = self._part.open("wb")
        self._write_header()

    def _write_header(self) -> None:
        """Write the header; numpy leaves room for any number of rows."""
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self._rows, self._width),
        }
        np.lib.format.write_array_header_1_0(self._file, header)

    def append(self, rows: np.ndarray) -> None:
        """Write rows (n, width)."""
        self._file.write(rows.tobytes())
        self._rows += len(rows)

    def close(self) -> np.ndarray:
        """Finish the file and return it as a memory map."""
        self._file.seek(0)
        self._write_header()
        self._file.close()
        os.replace(self._part, self._path)
        return read_vectors(self._path, self._dtype)

    def abandon(self) -> None:
        """Remove what was written."""
        self._file.close()
        self._part.unlink(missing_ok=True)


def read_vectors(path: str | os.PathLike, dtype: np.dtype) -> np.ndarray:
    """Return a file's vectors (N, D) as a memory map, not to be written."""
    vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    # numpy has no bfloat16: its files call it "two bytes".
    return vectors if vectors.dtype == dtype else vectors.view(dtype)
