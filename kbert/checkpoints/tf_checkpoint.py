"""Reads the TensorFlow 1 checkpoints that Google's BERT code writes.

Such a checkpoint is a prefix of file names, `bert_model.ckpt`, to which
belong `.index`, `.data-00000-of-00001` and so on. Its config is
`bert_config.json` beside it, or `albert_config.json`; google-research/electra
writes none.

References:
    https://github.com/google-research/bert,
    https://github.com/google-research/albert and
    https://github.com/google-research/electra, for the files;
    https://www.tensorflow.org/api_docs/python/tf/train/load_checkpoint
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kbert.checkpoints.readers import read_json
from kbert.checkpoints.tf_tables import TF_TABLES
from kbert.hub import checkpoint_prefix, find_file

# `EncoderConfig.family` → what Google's directories call the config and the
# checkpoint.
FILES = {
    "bert": ("bert_config.json", "bert_model.ckpt"),
    "albert": ("albert_config.json", "model.ckpt-best"),
}
# What google-research/albert calls "gelu" is the tanh form: see
# github.com/huggingface/transformers/issues/2395.
ACTIVATIONS = {"albert": {"gelu": "gelu_new"}}
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


def find_prefix(source: str | os.PathLike) -> Path | None:
    """Return the prefix of the TensorFlow checkpoint that a source means.

    Args:
        source: a prefix such as `dir/bert_model.ckpt`; or a directory with
            `bert_config.json` or `bert_model.ckpt.index`, or ALBERT's
            `albert_config.json` or `model.ckpt-best.index`, or with one file
            `….index` of any name, and no `config.json`, by which it would be
            Hugging Face's.

    Returns:
        The prefix, whether or not all its files are there; None if the
        source is anything else.
    """
    prefix = checkpoint_prefix(source)
    if prefix is not None:
        return prefix
    # Anything else is refused where it is read as Hugging Face's.
    if not isinstance(source, (str, os.PathLike)) or not os.fspath(source):
        return None
    directory = Path(source)
    if (directory / "config.json").exists():
        return None
    names = [(f"{prefix}.index", prefix) for _, prefix in FILES.values()]
    for name, prefix in (*names, *FILES.values()):
        if (directory / name).is_file():
            return directory / prefix
    indexes = list(directory.glob("*.index"))
    return indexes[0].with_suffix("") if len(indexes) == 1 else None


def find_config(prefix: Path, family: str, role: str) -> Path | None:
    """Return the config beside a checkpoint that may have none.

    Args:
        prefix: the checkpoint.
        family: of the model.
        role: which of the checkpoint's two encoders is meant.

    Returns:
        `generator_config.json` where that is the role, under any name that
        ends so, or else `electra_config.json`, `bert_config.json` or
        `config.json`; None if there is none of these.

    Raises:
        ValueError: if several names end so.
    """
    found = sorted(prefix.parent.glob(f"*{role}_config.json"))
    if len(found) > 1:
        raise ValueError(
            f"Expected one {role}_config.json beside the checkpoint. Received: "
            f"{', '.join(path.name for path in found)} beside {prefix}"
        )
    for name in (f"{family}_config.json", "bert_config.json", "config.json"):
        found.append(prefix.parent / name)
    return next((path for path in found if path.is_file()), None)


def read_config(prefix: Path) -> dict[str, Any]:
    """Read the config beside a checkpoint, in the words of a config.json.

    Args:
        prefix: the checkpoint.

    Returns:
        The parsed object, with `model_type`: in Google's directories the name
        of the file tells it.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if there are two, it is no JSON object, or its family is
            not one that Google's code has.
    """
    names = [config for config, _ in FILES.values()]
    found = {
        family: prefix.parent / config
        for family, (config, _) in FILES.items()
        if (prefix.parent / config).is_file()
    }
    if not found:
        find_file(prefix.parent, " or ".join(names))  # raises
    if len(found) > 1:
        raise ValueError(
            f"Expected one of {' and '.join(names)} beside the checkpoint, "
            f"and found both. Received: {prefix}"
        )
    [(family, path)] = found.items()
    config = config_in_hf_words(read_json(path), family)
    if config["model_type"] not in sorted(TF_TABLES):
        raise ValueError(
            f"Google's TensorFlow checkpoints are of {sorted(TF_TABLES)}. "
            f"Received: model_type={config['model_type']!r} in {path}"
        )
    return config


def config_in_hf_words(config: dict[str, Any], family: str) -> dict[str, Any]:
    """Say in the words of a config.json what one of Google's configs says.

    Args:
        config: the parsed object.
        family: the family that the name of its file tells.

    Returns:
        Another object, with `model_type`.
    """
    config = {"model_type": family, **config}
    activation = config.get("hidden_act")
    for theirs, hf in ACTIVATIONS.get(family, {}).items():
        if activation == theirs:
            config["hidden_act"] = hf
    # google-research/albert projects only where the sizes differ.
    if config.get("embedding_size", 0) == config.get("hidden_size"):
        config["embedding_size"] = None
    return config


class TensorFlowReader:
    """Tensors of a TensorFlow 1 checkpoint, read one at a time.

    Args:
        prefix: the checkpoint, such as `dir/bert_model.ckpt`.

    Raises:
        FileNotFoundError: if a file of it is absent.
        ValueError: if a file is damaged, it is a TensorFlow 2 checkpoint of
            objects, or its path has a `[`.
    """

    def __init__(self, prefix: Path):
        """See the class."""
        import tensorflow as tf

        self.location = str(prefix)
        # What TensorFlow has no class for comes as one of Python's.
        self._errors = (
            tf.errors.OpError,
            IndexError,
            RuntimeError,
            ValueError,
        )
        _check_files(prefix)
        try:
            self._reader = tf.train.load_checkpoint(str(prefix))
        except self._errors as error:
            raise self._damaged(error) from error
        self._shapes = {
            name: tuple(shape)
            for name, shape in self._reader.get_variable_to_shape_map().items()
        }
        self._dtypes = self._reader.get_variable_to_dtype_map()
        if _OBJECT_GRAPH in self._shapes:
            raise ValueError(
                "Expected a checkpoint of named variables, as "
                "google-research/bert writes it, and this one is of objects, "
                f"as TensorFlow 2 writes it. Received: {prefix}"
            )

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return name → shape of every tensor."""
        return self._shapes

    def is_float(self, name: str) -> bool:
        """Return whether a tensor holds floating-point numbers."""
        return self._dtypes[name].is_floating

    def read(self, name: str) -> np.ndarray:
        """Read one tensor, in the dtype of the file."""
        try:
            return self._reader.get_tensor(name)
        except self._errors as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> ValueError:
        return ValueError(
            f"Not a complete TensorFlow checkpoint ({error}); download or "
            f"copy it again. Received: {self.location}"
        )


def check_prefix(prefix: Path) -> None:
    """Refuse a path that TensorFlow cannot read a checkpoint from."""
    if "[" in str(prefix):
        raise ValueError(
            "TensorFlow takes a [ in the path of a checkpoint for a pattern: "
            f"move or rename the directory. Received: {prefix}"
        )


def _check_files(prefix: Path) -> None:
    """Name the file that is absent, where TensorFlow is vague."""
    find_file(prefix.parent, f"{prefix.name}.index")
    check_prefix(prefix)
    pattern = re.compile(
        re.escape(prefix.name) + r"\.data-\d{5}-of-(\d{5})", re.ASCII
    )
    counts = [
        int(match[1])
        for entry in prefix.parent.iterdir()
        if (match := pattern.fullmatch(entry.name))
    ]
    count = max(counts, default=1)
    for i in range(count):
        name = f"{prefix.name}.data-{i:05d}-of-{count:05d}"
        find_file(prefix.parent, name)
