"""Saves models as checkpoints that Hugging Face transformers loads."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
from safetensors.numpy import save_file

from kbert.checkpoints import mapping, tables, translate
from kbert.checkpoints.checkpoint import head_rows
from kbert.checkpoints.sentence_files import (
    DenseFile,
    SentenceFiles,
    written_files,
)
from kbert.config import EncoderConfig
from kbert.data.tokenizer import Tokenizer
from kbert.families import CLASSIFIER_FORMS, TRANSFORMED
from kbert.layers import (
    ClassificationHead,
    SentencePooling,
    TokenClassificationHead,
)
from kbert.layers.activations import activation_name
from kbert.model_card import write_model_card
from kbert.models import encoder_config, sentence_layers
from kbert.models.chunked import is_chunked

# Layers that make up a head, by their names.
_HEADS = (
    "classifier",
    "token_classifier",
    "span",
    "mlm",
    "nsp",
    "replaced_token",
)

FILE_DTYPES = ("float32", "float16", "bfloat16")


def save_pretrained(
    model: keras.Model,
    directory: str | os.PathLike,
    tokenizer: Tokenizer | None = None,
    *,
    dtype: str | None = None,
) -> None:
    """Save a model in Hugging Face's layout.

    Writes `config.json`, `model.safetensors` and, with a tokenizer, its
    files. transformers loads them with equal outputs, and so do kbert's
    loaders. Of a sentence encoder it writes sentence-transformers' files too,
    whose `SentenceTransformer(directory)` then gives equal vectors. Existing
    files of these names are replaced. A `README.md`, the model card with
    headings for you to fill in, is written if there is none.

    Args:
        model: an encoder or a task model of kbert's builders.
        directory: where to write; made if absent.
        tokenizer: the tokenizer the model was trained with.
        dtype: "float32", "float16" or "bfloat16", of the weights in the file:
            two bytes a weight take half the space, and loading makes them
            float32 again. None for the dtype that the model keeps them in.

    Raises:
        NotADirectoryError: if `directory` is a file.
        ValueError: if the model is none of kbert's, Hugging Face's format
            cannot express it, the tokenizer has more ids than the
            model's embedding table, or `dtype` is another or too small for
            a weight.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> kbert.save_pretrained(encoder, "/tmp/tiny")
    """
    config = encoder_config(model)
    if tokenizer is not None:
        check_vocabulary(tokenizer, config)
    if config.family not in tables.TABLES:
        raise ValueError(
            f"Hugging Face's layout is known for {sorted(tables.TABLES)}. "
            f"Received: family={config.family!r}"
        )
    table = tables.TABLES[config.family]
    heads = head_names(model, config, table)
    task = "pretrainer" if set(heads) == {"mlm", "nsp"} else "".join(heads)
    if task not in table.architectures or not set(heads) <= set(table.heads):
        raise ValueError(
            f"A checkpoint of family {config.family!r} has no place for such "
            f"heads. Received: heads {heads}"
        )
    written = write_config(model, config, table.architectures[task])
    rows = head_rows(table, heads, config, table.prefix if heads else "")
    sentence, dense_rows = sentence_parts(model, config)
    tensors = mapping.collect_tensors(model, [*rows, *dense_rows])
    if dtype is not None:
        tensors = {
            name: _cast(name, tensor, dtype) for name, tensor in tensors.items()
        }
        written["dtype"] = dtype

    directory = Path(directory)
    if directory.exists() and not directory.is_dir():
        raise NotADirectoryError(
            f"Expected a directory. Received: directory={str(directory)!r}"
        )
    directory.mkdir(parents=True, exist_ok=True)
    texts = {"config.json": json.dumps(written, indent=2) + "\n", **sentence}
    for name, text in texts.items():
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    _save_tensors(tensors, directory)
    if sentence:
        task = "sentence"
    write_model_card(directory, model, task, written["architectures"][0])
    if tokenizer is not None:
        tokenizer.save(directory)


def _save_tensors(tensors: dict[str, np.ndarray], directory: Path) -> None:
    """Write tensors, those called `folder/…` to that folder."""
    files: dict[str, dict[str, np.ndarray]] = {}
    for name, tensor in tensors.items():
        folder, _, short = name.rpartition("/")
        files.setdefault(folder, {})[short] = tensor
    for folder, held in files.items():
        path = directory / folder / "model.safetensors"
        # transformers refuses a file without this mark.
        save_file(held, path, {"format": "pt"})
        # safetensors lets nobody but the owner read what it writes.
        shutil.copymode(directory / "config.json", path)


def _cast(name: str, tensor: np.ndarray, dtype: str) -> np.ndarray:
    if dtype not in FILE_DTYPES:
        raise ValueError(
            f"`dtype` must be one of {FILE_DTYPES}. Received: dtype={dtype!r}"
        )
    with np.errstate(over="ignore"):  # to infinity, which is refused
        cast = tensor.astype(dtype, order="C")
    if not np.isfinite(cast).all() and np.isfinite(tensor).all():
        raise ValueError(
            f"The tensor {name!r} has weights that {dtype} cannot hold. "
            f"Received: dtype={dtype!r}, a weight of "
            f"{np.abs(tensor).max():g}"
        )
    return cast


def head_names(
    model: keras.Model, config: EncoderConfig, table: tables.Table
) -> list[str]:
    """Return the names of a model's heads, as in tables.

    Args:
        model: a model of kbert's builders.
        config: of its encoder.
        table: of the format to save in.

    Raises:
        ValueError: if the masked-language head has an activation that the
            format gives it no key for, or the model reads documents in
            chunks, which no format can say.
    """
    if is_chunked(model):
        raise ValueError(
            "A checkpoint has no place for how a document's chunks are put "
            "together, and would be loaded as a classifier of single texts. "
            "Save this model with `model.save('….keras')`; the encoder by "
            f"itself can be saved as here. Received: model={model.name!r} of "
            "build_chunked_classifier"
        )
    heads = [layer.name for layer in model.layers if layer.name in _HEADS]
    if "mlm" in heads:
        activation = model.get_layer("mlm").activation
        expected = table.mlm_activation or config.activation
        if activation != expected:
            raise ValueError(
                "The masked-language head of this encoder would be loaded "
                f"with activation={expected!r}. Received: "
                f"activation={activation!r}"
            )
    return heads


def write_config(
    model: keras.Model, config: EncoderConfig, architecture: str
) -> dict[str, Any]:
    """Return a model's config.json, with what its head says.

    Args:
        model: a model of kbert's builders.
        config: of its encoder.
        architecture: transformers' class name.

    Raises:
        ValueError: if the format cannot express the model.
    """
    head = _labelled_head(model, config)
    return translate.config_to_hf(
        config,
        architecture,
        num_classes=head.num_classes if head else None,
        label_names=head.label_names if head else None,
        problem_type=getattr(head, "problem_type", None),
        dtype=model.get_layer("embedding").variable_dtype,
        classifier_dropout=_own_dropout(head, config),
        classifier_pooling=_pooling(model, config),
    )


def _labelled_head(
    model: keras.Model, config: EncoderConfig
) -> ClassificationHead | TokenClassificationHead | None:
    """The head whose classes the config names, if it has the family's form."""
    for layer in model.layers:
        if layer.name == "classifier":
            form = CLASSIFIER_FORMS[config.family]
            if any(getattr(layer, key) != form[key] for key in form):
                raise ValueError(
                    f"The classification head of family {config.family!r} has "
                    f"{form}. Received: dense_activation="
                    f"{layer.dense_activation!r}, has_input_dropout="
                    f"{layer.has_input_dropout}"
                )
        if layer.name in ("classifier", "token_classifier"):
            return layer
    return None


def _pooling(model: keras.Model, config: EncoderConfig) -> str | None:
    """How a classifier pools, where its family's format can say so."""
    if sentence_layers(model) is not None:
        return None
    for layer in model.layers:
        if isinstance(layer, SentencePooling):
            if config.family not in TRANSFORMED:
                raise ValueError(
                    f"A checkpoint of family {config.family!r} has no place "
                    f"for pooling of its own. Received: {layer.mode!r} pooling"
                )
            if layer.mode not in ("cls", "mean"):
                raise ValueError(
                    "A checkpoint of a classifier pools by 'cls' or 'mean'. "
                    f"Received: {layer.mode!r} pooling"
                )
            return layer.mode
    return None


def sentence_parts(
    model: keras.Model, config: EncoderConfig
) -> tuple[dict[str, str], list[mapping.Row]]:
    """Return what a sentence encoder has besides its encoder.

    Args:
        model: any model of kbert's builders.
        config: of its encoder.

    Returns:
        Path → text of sentence-transformers' files, and the rows of dense
        layers, whose tensors are called `folder/name`. Both are empty of
        another model.

    Raises:
        ValueError: if the format cannot express the model.
    """
    layers = sentence_layers(model)
    if layers is None:
        return {}, []
    pooling, projections, head = layers
    width = config.hidden_size * len(pooling.modes)
    files, rows = [], []
    for number, layer in enumerate(projections, start=2):
        file = DenseFile(
            folder=f"{number}_Dense",
            in_features=width,
            out_features=layer.units,
            bias=layer.use_bias,
            activation=activation_name(layer.activation),
        )
        files.append(file)
        rows += [
            replace(row, tensor=f"{file.folder}/{row.tensor}")
            for row in file.rows(layer.path)
        ]
        width = layer.units
    texts = written_files(
        SentenceFiles(
            modes=pooling.modes,
            dense=tuple(files),
            normalize=head.normalize,
            similarity=head.similarity,
            prompts=head.prompts,
            default_prompt_name=head.default_prompt_name,
            max_length=head.max_length,
        ),
        config.hidden_size,
    )
    return texts, rows


def _own_dropout(
    head: ClassificationHead | TokenClassificationHead | None,
    config: EncoderConfig,
) -> float | None:
    if head is not None and head.hidden_dropout != config.hidden_dropout:
        return head.hidden_dropout
    return None


def check_vocabulary(tokenizer: Tokenizer, config: EncoderConfig) -> None:
    """Refuse a tokenizer whose ids a model has no embeddings for.

    Compiled code (XLA, TPUs) clamps such ids in silence, so this is checked
    wherever a tokenizer and a model meet.

    Args:
        tokenizer: the tokenizer.
        config: the model's config, `encoder_config(model)`.

    Raises:
        ValueError: if the tokenizer's largest id has no row.
    """
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            "The tokenizer is not this model's: it has more ids than the "
            "model's embedding table has rows. Received: "
            f"tokenizer.vocab_size={tokenizer.vocab_size}, "
            f"vocab_size={config.vocab_size}"
        )
