"""Writes TensorFlow 1 checkpoints as google-research/bert names them.

References:
    https://github.com/google-research/bert and
    https://github.com/google-research/albert, for the files;
    https://www.tensorflow.org/api_docs/python/tf/raw_ops/SaveV2
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kbert.checkpoints import tf_checkpoint, translate
from kbert.config import EncoderConfig
from kbert.hub import checkpoint_prefix

# Keys of a config.json that Google's code has no use for, or one value of.
_NOT_GOOGLES = ("architectures", "dtype", "layer_norm_eps", "model_type")
_NOT_GOOGLES += ("pad_token_id", "position_embedding_type")


def find_target(path: str | os.PathLike, family: str) -> Path:
    """Return the prefix of the checkpoint to write, and make its directory.

    Args:
        path: a directory, or a prefix such as `dir/bert_model.ckpt`.
        family: of the model.

    Returns:
        The prefix.

    Raises:
        NotADirectoryError: if the directory is a file.
        ValueError: if TensorFlow cannot read from there, or a config of
            another family of Google's lies there.
    """
    prefix = checkpoint_prefix(path)
    if prefix is None:
        prefix = Path(path) / tf_checkpoint.FILES[family][1]
    tf_checkpoint.check_prefix(prefix)
    directory = prefix.parent
    if directory.exists() and not directory.is_dir():
        raise NotADirectoryError(
            f"Expected a directory. Received: {str(directory)!r}"
        )
    for other, (config, _) in tf_checkpoint.FILES.items():
        if other != family and (directory / config).exists():
            raise ValueError(
                f"The directory holds a checkpoint of {other!r} already "
                f"({config}): choose another. Received: {str(directory)!r}"
            )
    directory.mkdir(parents=True, exist_ok=True)
    return prefix


def config_to_google(
    config: EncoderConfig, written: Mapping[str, Any]
) -> dict[str, Any]:
    """Say in Google's words what a config.json says.

    Args:
        config: of the encoder.
        written: the config.json; labels and the head's dropout are kept,
            since Google's code takes no notice of keys it does not know.

    Returns:
        The object to write.

    Raises:
        ValueError: if Google's code would compute something else with it.
    """
    words = tf_checkpoint.ACTIVATIONS.get(config.family, {})
    google = {
        key: value
        for key, value in written.items()
        if key not in _NOT_GOOGLES and value is not None
    }
    for theirs, hf in words.items():
        if written["hidden_act"] == hf:
            google["hidden_act"] = theirs
    again = translate.config_from_hf(
        tf_checkpoint.config_in_hf_words(google, config.family)
    ).encoder
    lost = [
        f"{field.name}={getattr(config, field.name)!r}"
        for field in dataclasses.fields(config)
        if field.name != "has_pooler"
        and getattr(again, field.name) != getattr(config, field.name)
    ]
    if lost:
        raise ValueError(
            f"Google's {tf_checkpoint.FILES[config.family][0]} cannot express "
            f"this encoder. Received: {', '.join(lost)}"
        )
    return google


def write_checkpoint(
    prefix: Path,
    tensors: Mapping[str, np.ndarray],
    config: Mapping[str, Any],
    family: str,
) -> None:
    """Write the variables and the config beside them.

    Args:
        prefix: of the checkpoint; its directory exists.
        tensors: name → array.
        config: what `config_to_google` gave.
        family: of the model.
    """
    import tensorflow as tf

    path = prefix.parent / tf_checkpoint.FILES[family][0]
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    with tf.device("CPU"):
        tf.raw_ops.SaveV2(
            prefix=str(prefix),
            tensor_names=list(tensors),
            shape_and_slices=[""] * len(tensors),
            tensors=list(tensors.values()),
        )
