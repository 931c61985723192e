"""Memory that goes from a file to a variable with one copy."""

import collections
import math
import mmap
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras
import ml_dtypes  # noqa: F401 (numpy learns of bfloat16)
import numpy as np

# Rows that become columns at once: the lines of memory they are written to
# stay in the processor's cache. It halves the time of a transposition.
_STRIP = 16
# The rest is mostly the system making pages, which two threads share.
_THREADS = 2
_AHEAD = 8  # arrays; few, since not every backend keeps the copies


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


def to_tensors(arrays: Iterable[np.ndarray]) -> Iterator[Any]:
    """Copy arrays to tensors of the backend.

    Args:
        arrays: of any strides; taken one by one, a few ahead of the tensors.

    Yields:
        The tensor of each array, in the same order.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        waiting = collections.deque()
        for array in arrays:
            waiting.append(pool.submit(_copy_to_lend, array))
            if len(waiting) > _AHEAD:
                yield _to_tensor(waiting.popleft().result())
        for copy in waiting:
            yield _to_tensor(copy.result())


def _copy_to_lend(array: np.ndarray) -> np.ndarray:
    """Copy an array to memory of `zeros`, unless it can not be lent."""
    if not _can_lend(array.dtype):
        return array
    copy = zeros(array.shape, array.dtype.newbyteorder("="))
    if array.ndim == 2 and array.flags.f_contiguous:
        for start in range(0, array.shape[1], _STRIP):
            strip = slice(start, start + _STRIP)
            copy[:, strip] = array[:, strip]
    else:
        copy[...] = array
    return copy


def _to_tensor(copy: np.ndarray) -> Any:
    if _can_lend(copy.dtype):
        return _lend(copy)
    return keras.ops.convert_to_tensor(copy)


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
