"""Turns Hugging Face's config.json into an `EncoderConfig` and back.

Every key of a config is taken, checked, or known to mean nothing here;
whatever is left over is handed back by name, never dropped in silence.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from kbert.checkpoints.dialects import DIALECTS, Dialect
from kbert.config import EncoderConfig

_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}

_THEIR_ACTIVATION = {"gelu_tanh": "gelu_new"}

# Keys that say nothing about what an encoder or its head computes.
_IGNORABLE = frozenset(
    "_name_or_path _commit_hash architectures attn_implementation "
    "_attn_implementation _attn_implementation_autoset bos_token_id "
    "chunk_size_feed_forward directionality dtype eos_token_id "
    "finetuning_task gradient_checkpointing output_attentions "
    "output_hidden_states output_past pooler_fc_size "
    "pooler_num_attention_heads pooler_num_fc_layers "
    "pooler_size_per_head pooler_type pruned_heads return_dict "
    "sep_token_id tie_word_embeddings tokenizer_class torch_dtype torchscript "
    "transformers_version use_bfloat16 use_cache use_return_dict".split()
)

_HEAD_KEYS = ("id2label", "label2id", "num_labels", "problem_type")


@dataclasses.dataclass(frozen=True)
class TranslatedConfig:
    """A foreign config in kbert's terms.

    Attributes:
        encoder: the encoder's config; `has_pooler` is True, since a config
            does not say (the weights do).
        classifier_dropout: the head's own dropout, or None.
        label_names: names of the classes in order, or None where there are
            none or only transformers' placeholders.
        num_labels: number of classes the config speaks of, or None.
        problem_type: what kind of labels the head gives, or None.
        classifier_pooling: "cls" or "mean" where the family has the choice,
            else None.
        unknown_keys: keys this module does not know.
    """

    encoder: EncoderConfig
    classifier_dropout: float | None
    label_names: list[str] | None
    num_labels: int | None
    problem_type: str | None
    classifier_pooling: str | None
    unknown_keys: tuple[str, ...]


def config_from_hf(config: dict[str, Any]) -> TranslatedConfig:
    """Translate a parsed config.json.

    Args:
        config: the parsed object.

    Returns:
        The translation.

    Raises:
        ValueError: if a required key is absent, the family is unknown, or
            a key asks for something kbert does not compute.
    """
    family = family_of(config)
    dialect = DIALECTS[family]
    _check_fixed(config, dialect)
    label_names, num_labels = _labels(config)
    pooling = None
    if dialect.head_pooling:
        pooling = config.get(dialect.head_pooling, "cls")
        if pooling not in ("cls", "mean"):
            raise ValueError(
                f"`{dialect.head_pooling}` must be 'cls' or 'mean'. Received: "
                f"{dialect.head_pooling}={pooling!r}"
            )
    known = {*dialect.fields, *dialect.fixed, *dialect.ignorable}
    known |= {*_HEAD_KEYS, *_IGNORABLE, "model_type"}
    known |= {dialect.activation[0], dialect.head_dropout[0]}
    if dialect.head_pooling:
        known.add(dialect.head_pooling)
    return TranslatedConfig(
        encoder=_encoder_config(config, family, dialect),
        classifier_dropout=_classifier_dropout(config, dialect),
        label_names=label_names,
        num_labels=num_labels,
        problem_type=config.get("problem_type"),
        classifier_pooling=pooling,
        unknown_keys=tuple(sorted(set(config) - known)),
    )


def family_of(config: dict[str, Any]) -> str:
    """Return the family of a parsed config.json.

    Raises:
        ValueError: if it names none, or one that kbert does not read.
    """
    if "model_type" not in config:
        raise ValueError(
            "A config.json must have the key 'model_type'. Received: keys "
            f"{sorted(config)}"
        )
    family = config["model_type"]
    if not isinstance(family, str) or family not in DIALECTS:
        raise ValueError(
            f"kbert reads checkpoints of model_type {sorted(DIALECTS)}. "
            f"Received: model_type={family!r}"
        )
    return family


def _check_fixed(config: dict[str, Any], dialect: Dialect) -> None:
    # Without these a config describes no encoder at all.
    sizes = ("vocab_size", "hidden_size", "num_layers")
    for key, (ours, _) in dialect.fields.items():
        if ours in sizes and key not in config:
            raise ValueError(
                f"A config.json of this family must have the key {key!r}. "
                f"Received: keys {sorted(config)}"
            )
    for key, only in dialect.fixed.items():
        if config.get(key, only) != only:
            raise ValueError(
                f"kbert builds encoders with {key}={only!r} only. Received: "
                f"{key}={config[key]!r}"
            )


def _encoder_config(
    config: dict[str, Any], family: str, dialect: Dialect
) -> EncoderConfig:
    fields = dict(dialect.constants)
    for theirs, (ours, default) in dialect.fields.items():
        fields[ours] = config.get(theirs, default)
    if fields["pad_token_id"] is None:
        fields["pad_token_id"] = 0
    dialect.read(config, fields)
    key, default = dialect.activation
    activation = config.get(key, default)
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise ValueError(
            f"`{key}` must be one of {sorted(_ACTIVATIONS)}. Received: "
            f"{key}={activation!r}"
        )
    return EncoderConfig(
        family=family, activation=_ACTIVATIONS[activation], **fields
    )


def _classifier_dropout(
    config: dict[str, Any], dialect: Dialect
) -> float | None:
    key, default = dialect.head_dropout
    dropout = config.get(key, default)
    if not isinstance(dropout, (int, float, type(None))):
        raise ValueError(
            f"`{key}` must be a number or null. Received: {key}={dropout!r}"
        )
    return dropout


def _labels(config: dict[str, Any]) -> tuple[list[str] | None, int | None]:
    id2label = config.get("id2label")
    if not id2label:
        return None, config.get("num_labels")
    try:
        by_id = {int(key): str(name) for key, name in id2label.items()}
    except (AttributeError, ValueError) as error:
        raise ValueError(
            "`id2label` must map class numbers to names. Received: "
            f"id2label={id2label!r}"
        ) from error
    if sorted(by_id) != list(range(len(id2label))):
        raise ValueError(
            "`id2label` must name the classes 0, 1, 2, … without a gap. "
            f"Received: id2label={id2label!r}"
        )
    names = [by_id[i] for i in range(len(by_id))]
    if names == placeholder_names(len(names)):
        return None, len(names)
    return names, len(names)


def placeholder_names(num_classes: int) -> list[str]:
    """Return the names transformers gives to unnamed classes."""
    return [f"LABEL_{i}" for i in range(num_classes)]


def config_to_hf(
    config: EncoderConfig,
    architecture: str,
    *,
    num_classes: int | None = None,
    label_names: Sequence[str] | None = None,
    problem_type: str | None = None,
    classifier_dropout: float | None = None,
    classifier_pooling: str | None = None,
    dtype: str = "float32",
) -> dict[str, Any]:
    """Write a config.json that transformers reads.

    Args:
        config: the encoder's config.
        architecture: transformers' class name.
        num_classes: number of classes of a classifier.
        label_names: their names.
        problem_type: what kind of labels they are, in transformers' words.
        classifier_dropout: the head's dropout where it is its own.
        classifier_pooling: "cls" or "mean" of a classifier that pools so.
        dtype: of the encoder's weights.

    Returns:
        The object to write.

    Raises:
        ValueError: if the config is of no family kbert can name.
    """
    if config.family not in DIALECTS:
        raise ValueError(
            f"Hugging Face's format is known for {sorted(DIALECTS)}. "
            f"Received: family={config.family!r}"
        )
    dialect = DIALECTS[config.family]
    key, default = dialect.head_dropout
    written: dict[str, Any] = {
        **{k: v for k, v in dialect.fixed.items() if k in dialect.saved},
        "architectures": [architecture],
        "model_type": config.family,
        dialect.activation[0]: _THEIR_ACTIVATION.get(
            config.activation, config.activation
        ),
        key: classifier_dropout,
        "dtype": dtype,
    }
    for theirs, (ours, _) in dialect.fields.items():
        written[theirs] = getattr(config, ours)
    if default is not None and classifier_dropout is None:
        written[key] = config.hidden_dropout
    dialect.write(config, written)
    if classifier_pooling is not None and dialect.head_pooling:
        written[dialect.head_pooling] = classifier_pooling
    # Fields that the family's config has no key for would be lost.
    again = config_from_hf(written).encoder
    lost = {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if field.name != "has_pooler"
        and getattr(again, field.name) != getattr(config, field.name)
    }
    # transformers makes no empty table of segments, but where none is usual.
    if written.get("type_vocab_size") == 0 and dialect.fields[
        "type_vocab_size"
    ] != ("num_segments", 0):
        lost["num_segments"] = 0
    if written.get("embedding_size", 0) is None:  # ALBERT always projects
        lost["embedding_size"] = None
    if lost:
        received = ", ".join(f"{name}={value}" for name, value in lost.items())
        raise ValueError(
            f"A config.json of family {config.family!r} cannot express this "
            f"encoder. Received: {received}"
        )
    if num_classes is not None:
        names = list(label_names or placeholder_names(num_classes))
        written["id2label"] = {str(i): name for i, name in enumerate(names)}
        written["label2id"] = {name: i for i, name in enumerate(names)}
        if problem_type is not None:
            written["problem_type"] = problem_type
    return dict(sorted(written.items()))
