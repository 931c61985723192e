"""ELECTRA's checkpoints as google-research/electra writes them.

Its `run_pretraining.py` keeps the generator's encoder under `generator/`, the
discriminator's under `electra/`, and the embeddings of both under `electra/`.
"""

from pathlib import Path

import numpy as np
import tensorflow as tf
from safetensors.numpy import load_file, save_file


def write_checkpoint(prefix: Path, tensors: dict[str, np.ndarray]) -> None:
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


def google_name(name: str, role: str) -> str:
    """Say in Google's words what a file of transformers' calls a tensor."""
    if role == "generator" and not name.startswith("electra.embeddings."):
        name = name.replace("electra.", "generator.")
    name = name.replace("generator_lm_head", "generator_predictions.output")
    name = name.replace("output.bias", "output_bias")
    name = name.replace("dense_prediction", "dense_1")
    name = name.replace("_embeddings.weight", "_embeddings")
    name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
    name = name.replace("LayerNorm.bias", "LayerNorm.beta")
    name = name.replace(".weight", ".kernel")
    return name.replace("layer.", "layer_").replace(".", "/")


def google_tensors(
    tensors: dict[str, np.ndarray], role: str
) -> dict[str, np.ndarray]:
    """Name the tensors of transformers' `ElectraFor…` as Google does."""
    named = {}
    for name, array in tensors.items():
        if name == "generator_lm_head.weight":
            continue  # the embeddings once more
        name = google_name(name, role)
        named[name] = array.T if name.endswith("kernel") else array
    return named


def with_slots(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Add what Adam keeps for every tensor."""
    slots = {
        f"{name}/{slot}": np.full_like(array, 7.0)
        for name, array in tensors.items()
        for slot in ("adam_m", "adam_v")
    }
    return tensors | slots | {"global_step": np.array(1200)}


def read(directory: Path) -> dict[str, np.ndarray]:
    return load_file(directory / "model.safetensors")


def write(directory: Path, tensors: dict[str, np.ndarray]) -> None:
    tensors = {k: np.ascontiguousarray(v) for k, v in tensors.items()}
    save_file(tensors, directory / "model.safetensors")
