"""Attention weights of every family against transformers' own."""

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install keras-kbert[parity]")
pytest.importorskip("transformers", reason="pip install keras-kbert[parity]")

import kbert  # noqa: E402

sys.path.append(str(Path(__file__).parents[1] / "golden"))

from family_models import MODELS, make_inputs, make_model  # noqa: E402


def their_weights(model, inputs):
    """(B, L, N, S, S), what transformers gives with `output_attentions`."""
    given = {
        "input_ids": torch.tensor(inputs["token_ids"]).long(),
        "attention_mask": torch.tensor(inputs["padding_mask"]).long(),
    }
    if hasattr(model.config, "type_vocab_size"):
        given["token_type_ids"] = torch.tensor(inputs["segment_ids"]).long()
    with torch.no_grad():
        outputs = model(**given, output_attentions=True)
    return torch.stack(outputs.attentions, dim=1).numpy()


def check(theirs, inputs, directory):
    expected = their_weights(theirs, inputs)
    theirs.save_pretrained(directory)
    encoder = kbert.load_encoder(directory)
    weights = kbert.attention_weights(encoder, inputs)
    assert weights.shape == expected.shape
    assert weights.dtype == np.float32
    real = inputs["padding_mask"].astype(bool)
    # (B, S, L, N, S): rows of padding mean nothing.
    ours, theirs = (np.moveaxis(x, 3, 1)[real] for x in (weights, expected))
    assert np.abs(ours - theirs).max() < 1e-5
    # Weights that tell no head or layer from another would prove nothing.
    assert np.ptp(theirs[0], axis=(0, 1)).max() > 0.01


@pytest.mark.parametrize("name", MODELS)
def test_every_family(name, tmp_path):
    theirs = make_model(name, "Model", attn_implementation="eager")
    check(theirs, make_inputs(theirs), tmp_path)


def test_blocks_of_a_long_text_are_put_together(tmp_path):
    """The model itself goes by blocks here, past many windows."""
    theirs = make_model(
        "modernbert",
        "Model",
        max_position_embeddings=80,
        attn_implementation="eager",
    )
    rng = np.random.default_rng(0)
    mask = (np.arange(70) < np.array([70, 31])[:, None]).astype("int32")
    ids = np.where(mask, rng.integers(5, 50, mask.shape), 3).astype("int32")
    inputs = {"token_ids": ids, "padding_mask": mask}
    check(theirs, inputs, tmp_path)
