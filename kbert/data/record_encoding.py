"""Examples to the bytes of a `tf.train.Example`, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kbert.data.texts import short_repr

_INT32 = np.iinfo(np.int32)


def check_example(example: Any, name: str) -> dict[str, np.ndarray]:
    """Returns an example as arrays of integers.

    Args:
        example: Names to integers or vectors of integers.
        name: What the caller names it, for the messages.

    Raises:
        TypeError: It is no mapping with strings as keys.
        ValueError: It is empty, or a value is no vector or scalar of
            integers that int32 holds.
    """
    if not isinstance(example, Mapping) or not all(
        isinstance(key, str) for key in example
    ):
        raise TypeError(
            "Expected examples to be dicts of strings to integers or vectors "
            f"of integers. Received: {name}={short_repr(example)}"
        )
    arrays = {key: _as_array(value) for key, value in example.items()}
    for key, array in arrays.items():
        if (
            array.ndim > 1
            or array.size
            and (
                array.dtype.kind not in "iub"
                or array.min() < _INT32.min
                or array.max() > _INT32.max
            )
        ):
            raise ValueError(
                "Expected integers, or vectors of integers, that int32 "
                f"holds. Received: {name}[{key!r}]={short_repr(example[key])}"
            )
    if not arrays:
        raise ValueError(
            f"Expected an example with values in it. Received: {name}={{}}"
        )
    return arrays


def encode(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Returns a `tf.train.Example`, the same for the same values."""
    import tensorflow as tf

    example = tf.train.Example()
    for name, array in arrays.items():
        values = example.features.feature[name].int64_list.value
        values.extend(array.astype(np.int64).ravel().tolist())
    return example.SerializeToString(deterministic=True)


def decode(data: bytes, features: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Returns the arrays of a `tf.train.Example`, int32."""
    import tensorflow as tf

    found = tf.train.Example.FromString(data).features.feature
    arrays = {
        name: np.array(found[name].int64_list.value, dtype=np.int32)
        for name in features
    }
    return {
        name: array if features[name] else array.reshape(())
        for name, array in arrays.items()
    }


def _as_array(value: Any) -> np.ndarray:
    """Returns an array, of objects where lists do not make a matrix."""
    try:
        return np.asarray(value)
    except ValueError:
        return np.asarray(value, dtype=object)
