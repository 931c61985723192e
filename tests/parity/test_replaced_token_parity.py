"""ELECTRA's discriminator: its loss against transformers', live."""

import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

torch = pytest.importorskip("torch", reason="pip install keras-kbert[parity]")
pytest.importorskip("transformers", reason="pip install keras-kbert[parity]")

import kbert  # noqa: E402

sys.path.append(str(Path(__file__).parents[1] / "golden"))

from family_models import make_inputs, make_model  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    # Keras' own `Variable.__array__` lags behind numpy 2 on PyTorch.
    "ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"
)


@pytest.mark.parametrize("name", ["electra", "electra_base"])
def test_loss_of_real_tokens(name, tmp_path):
    theirs = make_model(name, "ForPreTraining", seed=2)
    theirs.save_pretrained(tmp_path)
    ours = kbert.load_replaced_token_detector(tmp_path)
    inputs = make_inputs(theirs)
    mask = inputs["padding_mask"]
    assert 0 < mask.sum() < mask.size
    labels = np.random.default_rng(0).integers(0, 2, mask.shape)
    with torch.no_grad():
        expected = theirs(
            input_ids=torch.tensor(inputs["token_ids"]).long(),
            token_type_ids=torch.tensor(inputs["segment_ids"]).long(),
            attention_mask=torch.tensor(mask).long(),
            labels=torch.tensor(labels),
        ).loss.item()
    # Keras averages over the last axis before it weighs, so give it one.
    loss = keras.losses.BinaryCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    logits = ops.convert_to_numpy(ours(inputs))[..., None]
    y = labels[..., None].astype("float32")
    assert float(loss(y, logits, mask)) == pytest.approx(expected, abs=1e-5)
    every = float(loss(y, logits))
    assert abs(every - expected) > 1e-2  # padding would show
