"""Loads checkpoints into models and saves models as checkpoints."""

import json
import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import keras
from safetensors.numpy import save_file

from kbert.checkpoints import (
    mapping,
    readers,
    tables,
    tf_checkpoint,
    translate,
)
from kbert.checkpoints.mapping import LoadReport
from kbert.config import EncoderConfig
from kbert.data.tokenizer import Tokenizer
from kbert.layers import ClassificationHead
from kbert.models import build_classifier, build_encoder, encoder_config

_LOGGER = logging.getLogger("kbert")
_POOLER = "pooler/dense/kernel"
_HEAD = "classifier/logits/kernel"


class _Checkpoint:
    """An opened checkpoint: config, names, tensors."""

    def __init__(self, source: str | os.PathLike, revision: str | None):
        prefix = tf_checkpoint.find_prefix(source)
        if prefix is not None:
            config = tf_checkpoint.read_config(prefix)
        else:
            config = readers.read_config(source, revision)
        self.config = translate.config_from_hf(config)
        if prefix is not None:
            self.table = tables.BERT_TF
            self.tensors = tf_checkpoint.TensorFlowReader(prefix)
        else:
            self.table = tables.TABLES[self.config.model_type]
            self.tensors = readers.open_tensors(source, revision)
        self.names = mapping.canonical_names(
            self.tensors.shapes(), self.table.prefix, self.table.anchor
        )

    def row(self, variable: str) -> mapping.Row:
        """The row of a variable outside the blocks."""
        rows = (*self.table.encoder, *self.table.heads["classifier"])
        return next(row for row in rows if row.variable == variable)

    def shape(self, variable: str) -> tuple[int, ...] | None:
        """Shape the file gives a variable, None where it is absent."""
        row = self.row(variable)
        if row.tensor not in self.names:
            return None
        shape = self.tensors.shapes()[self.names[row.tensor]]
        return shape[::-1] if row.transpose else shape

    def encoder_config(
        self,
        hidden_dropout: float | None,
        attention_dropout: float | None,
        has_pooler: bool | None = None,
    ) -> EncoderConfig:
        """The config, with what the caller and the file say of it."""
        config = self.config.encoder
        if has_pooler is None:
            has_pooler = self.shape(_POOLER) is not None
        if hidden_dropout is not None:
            config = replace(config, hidden_dropout=hidden_dropout)
        if attention_dropout is not None:
            config = replace(config, attention_dropout=attention_dropout)
        return replace(config, has_pooler=has_pooler)

    def fill(
        self, model: keras.Model, head: str = "", fresh: Sequence[str] = ()
    ) -> LoadReport:
        """Fill the model, and log what happened."""
        rows = mapping.expand(
            (*self.table.encoder, *self.table.heads.get(head, ())),
            self.config.encoder.num_layers,
        )
        report = mapping.load_tensors(
            model,
            self.tensors,
            rows,
            self.names,
            fresh=fresh,
            ignored=self.table.ignored,
            encoder=self.table.required,
        )
        report = replace(report, ignored_config_keys=self.config.unknown_keys)
        _LOGGER.info("%s", report)
        if report.ignored_config_keys:
            _LOGGER.warning(
                "%s: config.json has keys without meaning for kbert: %s",
                report.source,
                ", ".join(report.ignored_config_keys),
            )
        return report


def load_encoder(
    source: str | os.PathLike,
    *,
    hidden_dropout: float | None = None,
    attention_dropout: float | None = None,
    dtype: str | keras.DTypePolicy | None = None,
    revision: str | None = None,
    report: bool = False,
) -> keras.Model | tuple[keras.Model, LoadReport]:
    """Load a pretrained encoder.

    Args:
        source: a Hugging Face hub id, such as
            "google-bert/bert-base-uncased"; a directory with `config.json`
            and weights as safetensors or `pytorch_model.bin`; or one of
            Google's with `bert_config.json` and `bert_model.ckpt`, or the
            prefix of such a checkpoint, `dir/bert_model.ckpt`. A local
            directory wins over a hub id of the same name.
        hidden_dropout: replaces the checkpoint's, in [0, 1).
        attention_dropout: likewise.
        dtype: dtype policy, such as "mixed_bfloat16"; None for Keras'
            global policy.
        revision: branch, tag or commit on the hub.
        report: whether to return what was loaded too.

    Returns:
        The model of `build_encoder`, or it and a `LoadReport`. It has a
        pooler if the checkpoint has one. A task head in the checkpoint is
        listed as unused.

    Raises:
        FileNotFoundError: if the source or a file of it does not exist.
        ValueError: if a file is damaged, a weight is missing, a shape
            differs from the config, or the config asks for something kbert
            does not compute.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> kbert.save_pretrained(encoder, "/tmp/tiny")
        >>> kbert.load_encoder("/tmp/tiny").name
        'encoder'
    """
    checkpoint = _Checkpoint(source, revision)
    model = build_encoder(
        checkpoint.encoder_config(hidden_dropout, attention_dropout),
        dtype=dtype,
    )
    loaded = checkpoint.fill(model)
    return (model, loaded) if report else model


def load_classifier(
    source: str | os.PathLike,
    *,
    num_classes: int | None = None,
    label_names: Sequence[str] | None = None,
    fresh_head: bool = False,
    hidden_dropout: float | None = None,
    attention_dropout: float | None = None,
    dtype: str | keras.DTypePolicy | None = None,
    revision: str | None = None,
    report: bool = False,
) -> keras.Model | tuple[keras.Model, LoadReport]:
    """Load a fine-tuned classifier with its head.

    Args:
        source: hub id, directory or prefix, as for `load_encoder`.
        num_classes: number of classes; None for the checkpoint's.
        label_names: names of the classes; None for the checkpoint's.
        fresh_head: True to start with a new random head (and pooler, where
            the checkpoint has none) instead of the checkpoint's.
        hidden_dropout: replaces the checkpoint's, in the head too.
        attention_dropout: replaces the checkpoint's.
        dtype: dtype policy; None for Keras' global policy.
        revision: branch, tag or commit on the hub.
        report: whether to return what was loaded too.

    Returns:
        The model of `build_classifier`, or it and a `LoadReport`.

    Raises:
        FileNotFoundError: if the source or a file of it does not exist.
        ValueError: as `load_encoder`, or if the checkpoint has no
            classification head, or one of another number of classes, and
            `fresh_head` is False.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_classifier(encoder, num_classes=2)
        >>> kbert.save_pretrained(model, "/tmp/tiny_classifier")
        >>> kbert.load_classifier("/tmp/tiny_classifier").output_shape
        (None, 2)
    """
    checkpoint = _Checkpoint(source, revision)
    head_shape = checkpoint.shape(_HEAD)
    if not fresh_head:
        _check_head(checkpoint, head_shape, num_classes, label_names)
        assert head_shape is not None  # `_check_head` has seen to it
        num_classes = head_shape[-1]
    elif num_classes is None:
        num_classes = len(label_names or ()) or checkpoint.config.num_labels
        if num_classes is None:
            raise ValueError(
                "A fresh head needs `num_classes` or `label_names`. "
                f"Received: source={os.fspath(source)!r}, fresh_head=True"
            )
    if label_names is None and checkpoint.config.num_labels == num_classes:
        label_names = checkpoint.config.label_names
    encoder = build_encoder(
        checkpoint.encoder_config(
            hidden_dropout,
            attention_dropout,
            has_pooler=None if fresh_head else True,
        ),
        dtype=dtype,
    )
    if hidden_dropout is None:
        hidden_dropout = checkpoint.config.classifier_dropout
    model = build_classifier(
        encoder,
        num_classes,
        hidden_dropout=hidden_dropout,
        label_names=label_names,
        # Another head may be for another kind of labels.
        problem_type=None if fresh_head else checkpoint.config.problem_type,
    )
    fresh = ["classifier/"] if fresh_head else []
    if fresh_head and checkpoint.shape(_POOLER) is None:
        fresh.append("pooler/")
    loaded = checkpoint.fill(model, head="classifier", fresh=fresh)
    return (model, loaded) if report else model


def _check_head(
    checkpoint: _Checkpoint,
    head_shape: tuple[int, ...] | None,
    num_classes: int | None,
    label_names: Sequence[str] | None,
) -> None:
    location = checkpoint.tensors.location
    if not head_shape:
        raise ValueError(
            "The checkpoint has no classification head (no tensor "
            f"{checkpoint.row(_HEAD).tensor}). Pass fresh_head=True and "
            f"num_classes to start a new one. Received: source={location!r}"
        )
    if num_classes not in (None, head_shape[-1]):
        raise ValueError(
            f"The checkpoint's head has {head_shape[-1]} classes. Pass "
            "fresh_head=True to start a new one. Received: "
            f"num_classes={num_classes}, source={location!r}"
        )
    names = checkpoint.config.label_names
    if label_names is None and names is not None:
        if len(set(names)) < len(names) or len(names) != head_shape[-1]:
            raise ValueError(
                f"The head has {head_shape[-1]} classes, but `id2label` in "
                "config.json does not hold as many different names. Pass "
                f"label_names. Received: id2label={names}, source={location!r}"
            )


def save_pretrained(
    model: keras.Model,
    directory: str | os.PathLike,
    tokenizer: Tokenizer | None = None,
) -> None:
    """Save a model in Hugging Face's layout.

    Writes `config.json`, `model.safetensors` and, with a tokenizer, its
    files. transformers loads them with equal outputs, and so do kbert's
    loaders. Existing files of these names are replaced.

    Args:
        model: an encoder or a task model of kbert's builders.
        directory: where to write; made if absent.
        tokenizer: the tokenizer the model was trained with.

    Raises:
        NotADirectoryError: if `directory` is a file.
        ValueError: if the model is none of kbert's, Hugging Face's format
            cannot express it, or the tokenizer has more ids than the
            model's embedding table.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> kbert.save_pretrained(encoder, "/tmp/tiny")
    """
    config = encoder_config(model)
    if tokenizer is not None:
        check_vocabulary(tokenizer, config)
    heads = [x for x in model.layers if isinstance(x, ClassificationHead)]
    table = tables.BERT
    head_name = heads[0].name if heads else ""
    if len(heads) > 1 or head_name not in table.architectures:
        raise ValueError(
            "Expected an encoder or a model of build_classifier. Received: "
            f"heads {[head.name for head in heads]}"
        )
    rows = mapping.expand(
        _file_rows(table, head_name, table.prefix if head_name else ""),
        config.num_layers,
    )
    written = translate.config_to_hf(
        config,
        table.architectures[head_name],
        num_classes=heads[0].num_classes if heads else None,
        label_names=heads[0].label_names if heads else None,
        problem_type=heads[0].problem_type if heads else None,
        dtype=model.get_layer("embedding").variable_dtype,
        classifier_dropout=_own_dropout(heads, config),
    )
    tensors = mapping.collect_tensors(model, rows)

    directory = Path(directory)
    if directory.exists() and not directory.is_dir():
        raise NotADirectoryError(
            f"Expected a directory. Received: directory={str(directory)!r}"
        )
    directory.mkdir(parents=True, exist_ok=True)
    # transformers refuses a file without this mark.
    save_file(tensors, directory / "model.safetensors", {"format": "pt"})
    (directory / "config.json").write_text(
        json.dumps(written, indent=2) + "\n", encoding="utf-8"
    )
    # safetensors lets nobody but the owner read what it writes.
    shutil.copymode(directory / "config.json", directory / "model.safetensors")
    if tokenizer is not None:
        tokenizer.save(directory)


def _file_rows(
    table: tables.Table, head_name: str, prefix: str
) -> list[mapping.Row]:
    """Rows with the names that a file of this architecture uses."""
    encoder = [
        replace(row, tensor=prefix + row.tensor) for row in table.encoder
    ]
    return [*encoder, *table.heads.get(head_name, ())]


def _own_dropout(
    heads: list[ClassificationHead], config: EncoderConfig
) -> float | None:
    if heads and heads[0].hidden_dropout != config.hidden_dropout:
        return heads[0].hidden_dropout
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
