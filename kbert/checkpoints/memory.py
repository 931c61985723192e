"""Memory that goes from a file to a variable with one copy."""

import math
import mmap
from typing import Any

import keras
import ml_dtypes  # noqa: F401 (numpy learns of bfloat16)
import numpy as np

# Rows that become columns at once: the lines of memory they are written to
# stay in the processor's cache. It halves the time of a transposition.
_STRIP = 16


def zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return zeros in pages of their own, which exist once written to.

    They begin where TensorFlow wants a tensor to begin, and go back to the
    system with the last reference.
    """
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    # No mapping is empty. A copy: shared with no other process.
    pages = mmap.mmap(-1, max(size, 1), access=mmap.ACCESS_COPY)
    return np.ndarray(shape, dtype, pages)


def to_tensor(array: np.ndarray) -> Any:
    """Copy an array, of any strides, to a tensor of the backend."""
    if not _can_lend(array.dtype):
        return keras.ops.convert_to_tensor(array)
    copy = zeros(array.shape, array.dtype.newbyteorder("="))
    if array.ndim == 2 and array.flags.f_contiguous:
        for start in range(0, array.shape[1], _STRIP):
            strip = slice(start, start + _STRIP)
            copy[:, strip] = array[:, strip]
    else:
        copy[...] = array
    return _lend(copy)


def _can_lend(dtype: np.dtype) -> bool:
    # TensorFlow takes no bfloat16 of numpy's this way.
    return keras.backend.backend() == "tensorflow" and dtype.kind == "f"


def _lend(array: np.ndarray) -> Any:
    """Make a tensor of TensorFlow's of an array of `zeros`, without a copy.

    TensorFlow does not write to memory that it was lent: the first update of
    a variable gives it memory of its own.
    """
    import tensorflow as tf

    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())


class Unwritten(keras.initializers.Zeros):
    """Zeros, for variables that a loader fills.

    On TensorFlow they cost neither time nor memory until then.
    """

    def __call__(self, shape, dtype=None):
        """Return zeros.

        Args:
            shape: tuple of int.
            dtype: str, or None for Keras' default.

        Returns:
            A tensor of the backend.
        """
        numpy_dtype = np.dtype(keras.backend.standardize_dtype(dtype))
        if not _can_lend(numpy_dtype):
            return super().__call__(shape, dtype=dtype)
        return _lend(zeros(tuple(shape), numpy_dtype))
