"""Every family and head against stored outputs of transformers.

Needs neither torch nor transformers; `family_models.py` wrote the files.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

sys.path.append(str(Path(__file__).parent))

from family_models import (  # noqa: E402
    FOLDER,
    cases,
    largest_difference,
    load,
    our_outputs,
)

import kbert  # noqa: E402
from kbert.checkpoints.mapping import weight_variables  # noqa: E402


def reference(name, head):
    tensors = load_file(FOLDER / f"{name}-{head}" / "reference.safetensors")
    split = {"input": {}, "output": {}}
    for key, value in tensors.items():
        kind, _, key = key.partition(".")
        split[kind][key] = value
    return split["input"], split["output"]


@pytest.mark.parametrize(("name", "head"), cases())
def test_outputs_and_the_way_back(name, head, tmp_path):
    inputs, expected = reference(name, head)
    directory = FOLDER / f"{name}-{head}"
    model, report = load(name, head, directory)
    assert report.missing == report.unused == report.ignored_config_keys == ()
    ours = our_outputs(model, inputs)
    assert largest_difference(ours, expected, inputs["padding_mask"]) < 1e-5

    kbert.save_pretrained(model, tmp_path)
    again, _ = load(name, head, tmp_path)
    assert kbert.encoder_config(again) == kbert.encoder_config(model)
    for path, variable in weight_variables(model).items():
        np.testing.assert_array_equal(
            weight_variables(again)[path].numpy(), variable.numpy()
        )
    written = load_file(tmp_path / "model.safetensors")
    original = load_file(directory / "model.safetensors")
    assert set(written) == set(original)
    for key, value in written.items():
        np.testing.assert_array_equal(value, original[key])


def test_a_wrong_family_rule_would_show():
    """What a family changes moves its outputs far past the tolerance."""
    inputs, expected = reference("roberta", "Model")
    model, _ = load("roberta", "Model", FOLDER / "roberta-Model")
    table = model.get_layer("embedding").position.embeddings
    table.assign(np.roll(table.numpy(), 1, axis=0))  # positions off by one
    ours = our_outputs(model, inputs)
    assert largest_difference(ours, expected, inputs["padding_mask"]) > 1e-2
