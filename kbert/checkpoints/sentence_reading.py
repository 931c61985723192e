"""Reads sentence-transformers' files, of every version."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kbert.checkpoints.readers import read_json
from kbert.checkpoints.sentence_files import (
    ACTIVATIONS,
    MODES,
    OLD_KEYS,
    DenseFile,
    SentenceFiles,
)
from kbert.hub import find_file

# A name of before `sentence_bert_config.json` was everybody's.
_TRANSFORMER_FILES = [
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert")
] + ["sentence_xlm-roberta_config.json"]


def read_sentence_files(
    source: str | os.PathLike, revision: str | None = None
) -> SentenceFiles | None:
    """Read what sentence-transformers' files say.

    Args:
        source: directory or hub id.
        revision: branch, tag or commit on the hub.

    Returns:
        It, or None where there is no `modules.json`.

    Raises:
        FileNotFoundError: if a module's file is absent.
        ValueError: if a file is damaged or asks for a module, an order of
            modules or an option that kbert does not compute.
    """
    path = find_file(source, "modules.json", revision=revision, required=False)
    if path is None:
        return None
    folders = _folders(path)
    read = _Reader(source, revision)
    expected = ["Transformer", "Pooling"]
    expected += ["Dense"] * sum(kind == "Dense" for kind, _ in folders)
    kinds = [kind for kind, _ in folders]
    if kinds not in (expected, [*expected, "Normalize"]):
        raise ValueError(
            "kbert builds Transformer, Pooling, any number of Dense, and "
            f"Normalize or not, in this order. Received: {kinds} in {path}"
        )
    max_length, unknown = read.transformer(folders[0][1])
    dense = [read.dense(folder) for kind, folder in folders if kind == "Dense"]
    files = SentenceFiles(
        folder=folders[0][1],
        modes=read.modes(folders[1][1]),
        dense=tuple(dense),
        normalize=kinds[-1] == "Normalize",
        max_length=max_length,
        unknown_keys=unknown,
    )
    return _with_uses(files, read.object("config_sentence_transformers.json"))


def _folders(path: Path) -> list[tuple[str, str]]:
    """Kinds and folders of the modules, in order."""
    modules = _read_list(path)
    found = []
    for module in sorted(modules, key=lambda module: module.get("idx", 0)):
        name, folder = module.get("type"), module.get("path")
        if not isinstance(name, str) or not isinstance(folder, str):
            raise ValueError(
                "Every module needs a `type` and a `path`. Received: "
                f"{module} in {path}"
            )
        package, _, kind = name.rpartition(".")
        if package.split(".")[0] != "sentence_transformers":
            kind = name  # code of the model's own
        found.append((kind, folder.strip("/")))
    return found


def _read_list(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    try:
        modules = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"Not a JSON file ({error}). Received: {path}"
        ) from error
    if not isinstance(modules, list) or not all(
        isinstance(module, dict) for module in modules
    ):
        raise ValueError(f"Expected a list of objects. Received: {path}")
    return modules


def _with_uses(
    files: SentenceFiles, config: Mapping[str, Any]
) -> SentenceFiles:
    """Add what `config_sentence_transformers.json` says."""
    kind = config.get("model_type") or "SentenceTransformer"
    if kind != "SentenceTransformer":
        raise ValueError(
            "Expected a model of one vector a text. Received: "
            f"model_type={kind!r}"
        )
    # A null is a prompt that nobody has filled in.
    prompts = config.get("prompts") or {}
    return replace(
        files,
        similarity=config.get("similarity_fn_name") or "cosine",
        prompts={name: text or "" for name, text in prompts.items()},
        default_prompt_name=config.get("default_prompt_name"),
    )


class _Reader:
    """Reads the config of each kind of module."""

    def __init__(self, source: str | os.PathLike, revision: str | None):
        self._source = source
        self._revision = revision

    def object(self, name: str, required: bool = False) -> dict[str, Any]:
        path = find_file(
            self._source, name, revision=self._revision, required=required
        )
        return {} if path is None else read_json(path)

    def transformer(self, folder: str) -> tuple[int | None, tuple[str, ...]]:
        """Most tokens, and the keys that mean nothing here."""
        start = f"{folder}/" if folder else ""
        config: dict[str, Any] = {}
        for name in _TRANSFORMER_FILES:
            config = config or self.object(start + name)
        if config.pop("do_lower_case", False):
            told = self.object(start + "tokenizer_config.json")
            if not told.get("do_lower_case"):
                raise ValueError(
                    "The model lower-cases texts before its tokenizer, which "
                    "says that it does not. Set `do_lower_case` to true in "
                    "tokenizer_config.json and to false in "
                    f"sentence_bert_config.json. Received: {self._source!r}"
                )
        task = config.pop("transformer_task", "feature-extraction")
        modality = config.pop("modality_config", {"text": {}})
        output = modality.get("text", {}).get("method_output_name")
        config.pop("module_output_name", None)
        if (
            task != "feature-extraction"
            or "text" not in modality
            or output not in (None, "last_hidden_state")
        ):
            raise ValueError(
                "kbert pools the last hidden states of texts. Received: "
                f"transformer_task={task!r}, modality_config={modality!r}"
            )
        # Absent, the tokenizer's own limit counts.
        return config.pop("max_seq_length", None), tuple(config)

    def modes(self, folder: str) -> tuple[str, ...]:
        config = self.object(f"{folder}/config.json", required=True)
        if not config.get("include_prompt", True):
            raise ValueError(
                "kbert does not leave prompts out of pooling. Received: "
                f"include_prompt=False in {folder}/config.json"
            )
        modes = config.get("pooling_mode")
        if modes is None:
            modes = [m for m, key in OLD_KEYS.items() if config.get(key)]
            modes = modes or ["mean"]
        modes = [modes] if isinstance(modes, str) else modes
        if not set(modes) <= set(MODES):
            raise ValueError(
                f"Known pooling modes are {list(MODES)}. Received: "
                f"pooling_mode={modes} in {folder}/config.json"
            )
        return tuple(MODES[mode] for mode in modes)

    def dense(self, folder: str) -> DenseFile:
        config = self.object(f"{folder}/config.json", required=True)
        name = config.get("activation_function", "torch.nn.Tanh")
        activation = ACTIVATIONS.get(name.rpartition(".")[2])
        own = ("sentence_embedding", None)
        if (
            activation is None
            or config.get("use_residual")
            or config.get("module_input_name") not in own
            or config.get("module_output_name") not in own
        ):
            raise ValueError(
                "A Dense module reads and writes the sentence's vector, "
                "without residual, and has an activation among "
                f"{list(ACTIVATIONS)}. Received: {config} in {folder}"
            )
        return DenseFile(
            folder=folder,
            in_features=config["in_features"],
            out_features=config["out_features"],
            bias=config.get("bias", True),
            activation=activation,
        )
