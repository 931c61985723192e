"""ELECTRA's discriminator, alone and with its generator, live."""

import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

torch = pytest.importorskip("torch", reason="pip install keras-kbert[parity]")
transformers = pytest.importorskip(
    "transformers", reason="pip install keras-kbert[parity]"
)

import kbert  # noqa: E402

for folder in ("golden", "checkpoints"):
    sys.path.append(str(Path(__file__).parents[1] / folder))

from electra_files import (  # noqa: E402
    google_tensors,
    with_slots,
    write_checkpoint,
)
from family_models import (  # noqa: E402
    largest_difference,
    make_inputs,
    make_model,
    our_outputs,
    their_outputs,
)

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


@pytest.mark.parametrize("width", [64, 128])
def test_googles_file_of_both(width, tmp_path):
    """What the two compute, after Google's names and without a config."""
    sizes = {"vocab_size": 50, "max_position_embeddings": 20}
    sizes |= {"embedding_size": 16, "num_hidden_layers": 2}
    theirs = {
        "discriminator": draw("ForPreTraining", 128, **sizes),
        "generator": draw("ForMaskedLM", width, **sizes),
    }
    table = theirs["discriminator"].electra.embeddings
    theirs["generator"].electra.embeddings.load_state_dict(table.state_dict())
    both = {}
    for role, model in theirs.items():
        tensors = {k: v.numpy() for k, v in model.state_dict().items()}
        tensors.pop("electra.embeddings.position_ids", None)
        both |= google_tensors(tensors, role)
    write_checkpoint(tmp_path / "model.ckpt-7", with_slots(both))
    ours = {
        "discriminator": kbert.load_replaced_token_detector(tmp_path),
        "generator": kbert.load_masked_lm(tmp_path, all_positions=True),
    }
    inputs = make_inputs(theirs["generator"])
    for role, model in ours.items():
        expected = their_outputs(theirs[role], inputs)
        found = our_outputs(model, inputs)
        mask = inputs["padding_mask"]
        assert largest_difference(found, expected, mask) < 1e-5
    (tmp_path / "electra_config.json").write_text('{"num_attention_heads": 1}')
    other = kbert.load_replaced_token_detector(tmp_path / "model.ckpt-7")
    expected = their_outputs(theirs["discriminator"], inputs)
    found = our_outputs(other, inputs)
    assert largest_difference(found, expected, mask) > 1e-3


def draw(head, width, **sizes):
    """A random model with the heads that Google's code gives a width."""
    torch.manual_seed(width + len(head))
    config = transformers.ElectraConfig(
        hidden_size=width,
        num_attention_heads=width // 64,
        intermediate_size=2 * width,
        initializer_range=0.05,
        **sizes,
    )
    model = getattr(transformers, f"Electra{head}")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    return model
