"""Loads checkpoints into models: each head's weights from the file."""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace

import keras

from kbert.checkpoints.checkpoint import Checkpoint
from kbert.checkpoints.mapping import LoadReport, load_tensors
from kbert.checkpoints.memory import Unwritten
from kbert.checkpoints.readers import open_tensors
from kbert.checkpoints.sentence_files import SentenceFiles
from kbert.checkpoints.sentence_reading import read_sentence_files
from kbert.checkpoints.tf_checkpoint import find_prefix
from kbert.config import EncoderConfig
from kbert.layers.activations import get_activation
from kbert.layers.initializers import no_random_values
from kbert.models import (
    build_classifier,
    build_encoder,
    build_masked_lm,
    build_pretrainer,
    build_replaced_token_detector,
    build_sentence_encoder,
    build_span_model,
    build_token_classifier,
)

_LOGGER = logging.getLogger("kbert")

Loaded = keras.Model | tuple[keras.Model, LoadReport]


def load_encoder(
    source: str | os.PathLike,
    *,
    hidden_dropout: float | None = None,
    attention_dropout: float | None = None,
    dtype: str | keras.DTypePolicy | None = None,
    revision: str | None = None,
    report: bool = False,
) -> Loaded:
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
    checkpoint = Checkpoint(source, revision)
    config = checkpoint.encoder_config(hidden_dropout, attention_dropout)
    model = _empty_encoder(config, dtype)
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
) -> Loaded:
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
    checkpoint = Checkpoint(source, revision)
    num_classes, label_names = _classes(
        checkpoint, "classifier", num_classes, label_names, fresh_head
    )
    config = checkpoint.encoder_config(hidden_dropout, attention_dropout)
    fresh = ["classifier/", "transform/"] if fresh_head else []
    if not config.has_pooler and fresh_head:
        fresh.append("pooler/")
    if hidden_dropout is None:
        hidden_dropout = checkpoint.head_dropout("classifier")
    model = build_classifier(
        _empty_encoder(config, dtype),
        num_classes,
        hidden_dropout=hidden_dropout,
        label_names=label_names,
        # Another head may be for another kind of labels.
        problem_type=None if fresh_head else checkpoint.config.problem_type,
        pooling=checkpoint.config.classifier_pooling,
    )
    loaded = checkpoint.fill(model, ["classifier"], fresh)
    return (model, loaded) if report else model


def load_token_classifier(
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
) -> Loaded:
    """Load a fine-tuned classifier of tokens with its head.

    Args:
        source: hub id, directory or prefix, as for `load_encoder`.
        num_classes: number of classes; None for the checkpoint's.
        label_names: names of the classes; None for the checkpoint's.
        fresh_head: True to start with a new random head.
        hidden_dropout: replaces the checkpoint's, in the head too.
        attention_dropout: replaces the checkpoint's.
        dtype: dtype policy; None for Keras' global policy.
        revision: branch, tag or commit on the hub.
        report: whether to return what was loaded too.

    Returns:
        The model of `build_token_classifier`, or it and a `LoadReport`.

    Raises:
        FileNotFoundError: if the source or a file of it does not exist.
        ValueError: as `load_classifier`.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_token_classifier(encoder, num_classes=3)
        >>> kbert.save_pretrained(model, "/tmp/tiny_tagger")
        >>> kbert.load_token_classifier("/tmp/tiny_tagger").output_shape
        (None, None, 3)
    """
    checkpoint = Checkpoint(source, revision)
    num_classes, label_names = _classes(
        checkpoint, "token_classifier", num_classes, label_names, fresh_head
    )
    config = checkpoint.encoder_config(hidden_dropout, attention_dropout)
    if hidden_dropout is None:
        hidden_dropout = checkpoint.head_dropout("token_classifier")
    model = build_token_classifier(
        _empty_encoder(config, dtype),
        num_classes,
        hidden_dropout=hidden_dropout,
        label_names=label_names,
    )
    fresh = ["token_classifier/", "transform/"] if fresh_head else []
    loaded = checkpoint.fill(model, ["token_classifier"], fresh)
    return (model, loaded) if report else model


def load_span_model(
    source: str | os.PathLike,
    *,
    fresh_head: bool = False,
    hidden_dropout: float | None = None,
    attention_dropout: float | None = None,
    dtype: str | keras.DTypePolicy | None = None,
    revision: str | None = None,
    report: bool = False,
) -> Loaded:
    """Load a model that points at answers, with its head.

    Args:
        source: hub id, directory or prefix, as for `load_encoder`.
        fresh_head: True to start with a new random head.
        hidden_dropout: replaces the checkpoint's.
        attention_dropout: replaces the checkpoint's.
        dtype: dtype policy; None for Keras' global policy.
        revision: branch, tag or commit on the hub.
        report: whether to return what was loaded too.

    Returns:
        The model of `build_span_model`, or it and a `LoadReport`.

    Raises:
        FileNotFoundError: if the source or a file of it does not exist.
        ValueError: as `load_encoder`, or if the checkpoint has no span head
            and `fresh_head` is False.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_span_model(encoder)
        >>> kbert.save_pretrained(model, "/tmp/tiny_span")
        >>> sorted(kbert.load_span_model("/tmp/tiny_span").output)
        ['end', 'start']
    """
    checkpoint = Checkpoint(source, revision)
    if not fresh_head:
        _head_shape(checkpoint, "span")
    config = checkpoint.encoder_config(hidden_dropout, attention_dropout)
    model = build_span_model(_empty_encoder(config, dtype))
    fresh = ["span/", "transform/"] if fresh_head else []
    loaded = checkpoint.fill(model, ["span"], fresh)
    return (model, loaded) if report else model


def load_sentence_encoder(
    source: str | os.PathLike,
    *,
    hidden_dropout: float | None = None,
    attention_dropout: float | None = None,
    dtype: str | keras.DTypePolicy | None = None,
    revision: str | None = None,
    report: bool = False,
) -> Loaded:
    """Load an encoder of whole texts, with what makes vectors of its states.

    Args:
        source: hub id or directory of sentence-transformers, with
            `modules.json`: an encoder, pooling, dense layers and
            normalisation or not. Or any source of `load_encoder`, of which
            the mean over real tokens is taken, not normalised, as
            sentence-transformers does; for another pooling give
            `load_encoder`'s model to `build_sentence_encoder`.
        hidden_dropout: replaces the checkpoint's.
        attention_dropout: replaces the checkpoint's.
        dtype: dtype policy of the encoder; None for Keras' global policy.
            Pooling and what follows it are float32.
        revision: branch, tag or commit on the hub.
        report: whether to return what was loaded too.

    Returns:
        The model of `build_sentence_encoder`, or it and a `LoadReport`.
        Prompts, similarity and most tokens of a text are those of the files.

    Raises:
        FileNotFoundError: if the source or a file of it does not exist.
        ValueError: as `load_encoder`, or if the files ask for a module or an
            option that kbert does not compute.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_sentence_encoder(encoder, ["cls", "mean"])
        >>> kbert.save_pretrained(model, "/tmp/tiny_sentence")
        >>> kbert.load_sentence_encoder("/tmp/tiny_sentence").output_shape
        (None, 256)

    References:
        https://sbert.net/docs/sentence_transformer/usage/custom_models.html
    """
    files = None
    if find_prefix(source) is None:
        files = read_sentence_files(source, revision)
    if files is None:
        _LOGGER.info("%s: no modules.json; vectors are means", source)
        files = SentenceFiles()
    checkpoint = Checkpoint(source, revision, folder=files.folder)
    config = checkpoint.encoder_config(hidden_dropout, attention_dropout)
    encoder = _empty_encoder(replace(config, has_pooler=False), dtype)
    loaded = checkpoint.fill(encoder)
    keys = (*loaded.ignored_config_keys, *files.unknown_keys)
    loaded = replace(loaded, ignored_config_keys=keys)
    dense = [
        keras.layers.Dense(
            file.out_features,
            activation=get_activation(file.activation),
            use_bias=file.bias,
            dtype="float32",
            name=f"projection_{number}",
        )
        for number, file in enumerate(files.dense)
    ]
    model = build_sentence_encoder(
        encoder,
        files.modes,
        normalize=files.normalize,
        dense=dense,
        similarity=files.similarity,
        prompts=files.prompts,
        default_prompt_name=files.default_prompt_name,
        max_length=files.max_length,
    )
    for layer, file in zip(dense, files.dense, strict=True):
        tensors = open_tensors(source, revision, file.folder)
        names = {name: name for name in tensors.shapes()}
        part = load_tensors(layer, tensors, file.rows(layer.name), names)
        of_folder = [f"{file.folder}/{name}" for name in part.loaded]
        loaded = replace(loaded, loaded=(*loaded.loaded, *of_folder))
        if part.unused:
            raise ValueError(
                "A dense layer has one kernel and one bias. Left over: "
                f"{part.unused}. Received: {tensors.location}"
            )
    return (model, loaded) if report else model


def load_masked_lm(
    source: str | os.PathLike,
    *,
    all_positions: bool = False,
    hidden_dropout: float | None = None,
    attention_dropout: float | None = None,
    dtype: str | keras.DTypePolicy | None = None,
    revision: str | None = None,
    report: bool = False,
) -> Loaded:
    """Load a masked language model with its head.

    Args:
        source: hub id, directory or prefix, as for `load_encoder`. Of a file
            that holds ELECTRA's discriminator too, this is the generator.
        all_positions: whether to give logits for every token; see
            `build_masked_lm`.
        hidden_dropout: replaces the checkpoint's.
        attention_dropout: replaces the checkpoint's.
        dtype: dtype policy; None for Keras' global policy.
        revision: branch, tag or commit on the hub.
        report: whether to return what was loaded too.

    Returns:
        The model of `build_masked_lm`, or it and a `LoadReport`.

    Raises:
        FileNotFoundError: if the source or a file of it does not exist.
        ValueError: as `load_encoder`, or if the checkpoint has no
            masked-language head, or one that is not tied to its embeddings.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_masked_lm(encoder)
        >>> kbert.save_pretrained(model, "/tmp/tiny_mlm")
        >>> kbert.load_masked_lm("/tmp/tiny_mlm").output_shape
        (None, None, 30522)
    """
    checkpoint = Checkpoint(source, revision, head="mlm")
    _head_shape(checkpoint, "mlm")
    config = checkpoint.encoder_config(hidden_dropout, attention_dropout)
    model = build_masked_lm(
        _empty_encoder(config, dtype),
        all_positions=all_positions,
        activation=checkpoint.table.mlm_activation,
    )
    loaded = checkpoint.fill(model, ["mlm"])
    return (model, loaded) if report else model


def load_pretrainer(
    source: str | os.PathLike,
    *,
    hidden_dropout: float | None = None,
    attention_dropout: float | None = None,
    dtype: str | keras.DTypePolicy | None = None,
    revision: str | None = None,
    report: bool = False,
) -> Loaded:
    """Load a pretraining model: masked words, and the sentence head.

    BERT's second head tells whether B follows A, ALBERT's whether A and B are
    in order.

    Args:
        source: hub id, directory or prefix, as for `load_encoder`.
        hidden_dropout: replaces the checkpoint's.
        attention_dropout: replaces the checkpoint's.
        dtype: dtype policy; None for Keras' global policy.
        revision: branch, tag or commit on the hub.
        report: whether to return what was loaded too.

    Returns:
        The model of `build_pretrainer`, or it and a `LoadReport`.

    Raises:
        FileNotFoundError: if the source or a file of it does not exist.
        ValueError: as `load_masked_lm`, or if the checkpoint has no sentence
            head.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_pretrainer(encoder)
        >>> kbert.save_pretrained(model, "/tmp/tiny_pretrainer")
        >>> sorted(kbert.load_pretrainer("/tmp/tiny_pretrainer").output)
        ['mlm', 'nsp']
    """
    checkpoint = Checkpoint(source, revision)
    for head in ("mlm", "nsp"):
        _head_shape(checkpoint, head)
    config = checkpoint.encoder_config(hidden_dropout, attention_dropout)
    dropout = 0.0
    if hidden_dropout is None:
        dropout = checkpoint.head_dropout("nsp") or 0.0
    model = build_pretrainer(
        _empty_encoder(replace(config, has_pooler=True), dtype),
        hidden_dropout=dropout,
    )
    loaded = checkpoint.fill(model, ["mlm", "nsp"])
    return (model, loaded) if report else model


def load_replaced_token_detector(
    source: str | os.PathLike,
    *,
    hidden_dropout: float | None = None,
    attention_dropout: float | None = None,
    dtype: str | keras.DTypePolicy | None = None,
    revision: str | None = None,
    report: bool = False,
) -> Loaded:
    """Load ELECTRA's discriminator with its head.

    Args:
        source: hub id, directory or prefix, as for `load_encoder`. Of a file
            that holds ELECTRA's generator too, this is the discriminator.
        hidden_dropout: replaces the checkpoint's.
        attention_dropout: replaces the checkpoint's.
        dtype: dtype policy; None for Keras' global policy.
        revision: branch, tag or commit on the hub.
        report: whether to return what was loaded too.

    Returns:
        The model of `build_replaced_token_detector`, or it and a
        `LoadReport`.

    Raises:
        FileNotFoundError: if the source or a file of it does not exist.
        ValueError: as `load_encoder`, or if the checkpoint has no
            replaced-token head.

    Example:
        >>> import dataclasses, kbert
        >>> small = kbert.families.ELECTRA_SMALL
        >>> small = dataclasses.replace(small, num_layers=1)
        >>> encoder = kbert.build_encoder(small)
        >>> model = kbert.build_replaced_token_detector(encoder)
        >>> kbert.save_pretrained(model, "/tmp/small_detector")
        >>> kbert.load_replaced_token_detector("/tmp/small_detector").name
        'replaced_token_detector'
    """
    checkpoint = Checkpoint(source, revision)
    _head_shape(checkpoint, "replaced_token")
    config = checkpoint.encoder_config(hidden_dropout, attention_dropout)
    model = build_replaced_token_detector(_empty_encoder(config, dtype))
    loaded = checkpoint.fill(model, ["replaced_token"])
    return (model, loaded) if report else model


def _empty_encoder(
    config: EncoderConfig, dtype: str | keras.DTypePolicy | None
) -> keras.Model:
    """An encoder whose every weight waits to be loaded."""
    with no_random_values(Unwritten()):
        return build_encoder(config, dtype=dtype)


# A variable that every head of this name has.
_HEAD_VARIABLES = {
    "classifier": "classifier/logits/kernel",
    "token_classifier": "token_classifier/logits/kernel",
    "span": "span/logits/kernel",
    "mlm": "mlm/dense/kernel",
    "nsp": "nsp/logits/kernel",
    "replaced_token": "replaced_token/dense/kernel",
}


def _head_shape(checkpoint: Checkpoint, head: str) -> tuple[int, ...]:
    """Shape of a head's kernel, (hidden, classes) for those with classes."""
    shape = checkpoint.shape_of(_HEAD_VARIABLES[head])
    if not shape:
        name = {
            "classifier": "classification",
            "token_classifier": "token classification",
            "mlm": "masked-language",
            "nsp": "next-sentence",
            "replaced_token": "replaced-token",
        }.get(head, head)
        remedy = (
            "Load the encoder and build the model on it to start a new one."
            if head in ("mlm", "nsp", "replaced_token")
            else "Pass fresh_head=True (and num_classes where there are "
            "classes) to start a new one."
        )
        row = checkpoint.row_of(_HEAD_VARIABLES[head])
        sign = f"no tensor {row.tensor}" if row else "its family has none"
        raise ValueError(
            f"The checkpoint has no {name} head ({sign}). {remedy} Received: "
            f"source={checkpoint.tensors.location!r}"
        )
    return shape


def _classes(
    checkpoint: Checkpoint,
    head: str,
    num_classes: int | None,
    label_names: Sequence[str] | None,
    fresh_head: bool,
) -> tuple[int, Sequence[str] | None]:
    """How many classes a head has, and their names."""
    location = checkpoint.tensors.location
    names = checkpoint.config.label_names
    if fresh_head:
        if num_classes is None:
            num_classes = len(label_names or ()) or checkpoint.config.num_labels
        if num_classes is None:
            raise ValueError(
                "A fresh head needs `num_classes` or `label_names`. "
                f"Received: source={location!r}, fresh_head=True"
            )
        if label_names is None and names and len(names) == num_classes:
            label_names = names
        return num_classes, label_names
    count = _head_shape(checkpoint, head)[-1]
    if num_classes not in (None, count):
        raise ValueError(
            f"The checkpoint's head has {count} classes. Pass fresh_head=True "
            f"to start a new one. Received: num_classes={num_classes}, "
            f"source={location!r}"
        )
    if label_names is None and names is not None:
        if not len(set(names)) == len(names) == count:
            raise ValueError(
                f"The head has {count} classes, but `id2label` in config.json "
                "does not hold as many different names. Pass label_names. "
                f"Received: id2label={names}, source={location!r}"
            )
        label_names = names
    return count, label_names
