"""Memory that becomes tensors."""

import sys
from pathlib import Path

import keras
import ml_dtypes
import numpy as np
import pytest
from keras import ops

from kbert.checkpoints.memory import Unwritten, to_tensors, zeros

TENSORFLOW = keras.backend.backend() == "tensorflow"


def numbers(shape, dtype="float32"):
    rng = np.random.default_rng(0)
    return rng.normal(size=shape).astype(dtype)


def only(items):
    (item,) = items
    return item


def resident_mib() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 5), (40, 50), (2, 3, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64"])
def test_zeros(shape, dtype):
    array = zeros(shape, dtype)
    assert array.shape == shape
    assert array.dtype == np.dtype(dtype)
    assert array.ctypes.data % 64 == 0
    assert not array.any()
    array[...] = 1  # nothing else has these pages
    assert not zeros(shape, dtype).any()


@pytest.mark.parametrize(
    "array",
    [
        numbers((40, 33)),
        numbers((40, 33)).T,  # rows, not a multiple of a strip
        numbers((16, 3)).T,
        numbers((1, 70)).T,
        numbers((70, 1)).T,
        numbers((9, 8))[::2, 1::3],
        numbers((9, 8)).T[::-1],
        numbers((2, 3, 4)).T,
        numbers(5),
        numbers(()),
        numbers((0, 4)).T,
        numbers((6, 5), "float16").T,
        numbers((6, 5), ">f4").T,
        numbers((6, 5), ml_dtypes.bfloat16).T,
        np.frombuffer(bytes(range(48)), "<f4").reshape(3, 4),  # read-only
        np.frombuffer(bytes(range(49)), "<f4", offset=1),  # not aligned
    ],
    ids=lambda x: f"{x.dtype.str}{x.shape}",
)
def test_tensor_of_an_array(array):
    if not TENSORFLOW and not array.dtype.isnative:
        array = array.astype("f4")
    tensor = only(to_tensors([array]))
    assert ops.is_tensor(tensor)
    assert keras.backend.standardize_dtype(tensor.dtype) == array.dtype.name
    np.testing.assert_array_equal(
        ops.convert_to_numpy(ops.cast(tensor, "float32")),
        array.astype("float32"),
    )


def test_tensor_is_a_copy():
    array = numbers((200, 300))
    before = array.copy()
    tensor = only(to_tensors([array]))
    ops.convert_to_numpy(tensor)  # JAX copies in the background until then
    array[...] = 0
    np.testing.assert_array_equal(ops.convert_to_numpy(tensor), before)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_order_of_tensors(count):
    taken = []

    def arrays():
        for i in range(count):
            taken.append(i)
            # The later, the sooner done.
            yield np.full((2 * (count - i), 300), i, "float32").T

    for i, tensor in enumerate(to_tensors(arrays())):
        assert len(taken) <= i + 20, "the rest would fill the memory"
        np.testing.assert_array_equal(
            ops.convert_to_numpy(tensor), np.full((300, 2 * (count - i)), i)
        )
    assert len(taken) == count


def test_error_of_the_reader_comes_through():
    def arrays():
        yield np.zeros(3)
        raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        list(to_tensors(arrays()))


@pytest.mark.skipif(not TENSORFLOW, reason="elsewhere nothing is lent")
@pytest.mark.parametrize("jit_compile", [False, True])
def test_training_leaves_lent_memory(jit_compile):
    tensor = only(to_tensors([numbers((30, 20))]))
    before = np.array(tensor)
    layer = keras.layers.Dense(20, use_bias=False)
    model = keras.Sequential([keras.Input((30,)), layer])
    layer.kernel.assign(tensor)
    model.compile("adam", "mse", jit_compile=jit_compile)
    x, y = numbers((8, 30)), numbers((8, 20))
    for _ in range(3):
        model.train_on_batch(x, y)
    np.testing.assert_array_equal(np.array(tensor), before)
    assert np.abs(np.array(layer.kernel) - before).max() > 1e-4


@pytest.mark.parametrize("shape", [(3, 4), (5,), ()])
@pytest.mark.parametrize("dtype", [None, "float32", "float16", "bfloat16"])
def test_unwritten_values_are_zeros(shape, dtype):
    tensor = Unwritten()(shape, dtype=dtype)
    expected = dtype or "float32"
    assert keras.backend.standardize_dtype(tensor.dtype) == expected
    assert tuple(tensor.shape) == shape
    assert not np.any(ops.convert_to_numpy(ops.cast(tensor, "float32")))


@pytest.mark.skipif(
    not TENSORFLOW or sys.platform != "linux", reason="as TensorFlow on Linux"
)
def test_unwritten_values_take_no_memory():
    before = resident_mib()
    layer = keras.layers.Dense(2**14, kernel_initializer=Unwritten())
    layer.build((None, 2**13))  # 512 MiB
    assert layer.kernel.shape == (2**13, 2**14)
    assert resident_mib() - before < 100
