"""What a model card says of transformers, done as it says."""

import re
import sys
from pathlib import Path

import huggingface_hub
import pytest

pytest.importorskip("torch", reason="pip install keras-kbert[parity]")
pytest.importorskip("transformers", reason="pip install keras-kbert[parity]")

sys.path.append(str(Path(__file__).parents[1] / "golden"))

from family_models import (  # noqa: E402
    FOLDER,
    cases,
    largest_difference,
    load,
    make_inputs,
    our_outputs,
    their_outputs,
)

import kbert  # noqa: E402


@pytest.mark.parametrize(
    ("name", "head"),
    [case for case in cases() if case[0] in ("bert", "distilbert")],
)
def test_transformers_loads_it_as_the_card_says(name, head, tmp_path):
    model, _ = load(name, head, FOLDER / f"{name}-{head}")
    kbert.save_pretrained(model, tmp_path)
    card = huggingface_hub.ModelCard.load(tmp_path / "README.md")
    blocks = re.findall(r"^```python\n(.*?)^```", card.text, re.M | re.S)
    scope = {"source": str(tmp_path)}
    exec(blocks[1], scope)
    theirs = scope["model"].eval()
    inputs = make_inputs(theirs)
    difference = largest_difference(
        our_outputs(model, inputs),
        their_outputs(theirs, inputs),
        inputs["padding_mask"],
    )
    assert difference < 1e-5
