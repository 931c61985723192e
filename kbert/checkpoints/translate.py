"""Turns Hugging Face's config.json into an `EncoderConfig` and back.

Every key of a config is taken, checked, or known to mean nothing here;
whatever is left over is handed back by name, never dropped in silence.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from kbert.config import EncoderConfig

# Their key → our field, and what transformers' BertConfig takes where the
# key is absent.
_BERT_FIELDS: dict[str, tuple[str, Any]] = {
    "vocab_size": ("vocab_size", 30522),
    "hidden_size": ("hidden_size", 768),
    "num_hidden_layers": ("num_layers", 12),
    "num_attention_heads": ("num_heads", 12),
    "intermediate_size": ("intermediate_size", 3072),
    "max_position_embeddings": ("max_positions", 512),
    "type_vocab_size": ("num_segments", 2),
    "layer_norm_eps": ("layer_norm_epsilon", 1e-12),
    "hidden_dropout_prob": ("hidden_dropout", 0.1),
    "attention_probs_dropout_prob": ("attention_dropout", 0.1),
    "initializer_range": ("initializer_range", 0.02),
    "pad_token_id": ("pad_token_id", 0),
}

# Without these a config describes no encoder at all.
_REQUIRED = ("model_type", "vocab_size", "hidden_size", "num_hidden_layers")

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

# Keys that change what the model computes, and the only value kbert builds.
_FIXED = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "use_bidirectional_attention": True,
}

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
        model_type: key of the family's table.
        classifier_dropout: the head's own dropout, or None.
        label_names: names of the classes in order, or None where there are
            none or only transformers' placeholders.
        num_labels: number of classes the config speaks of, or None.
        problem_type: what kind of labels the head gives, or None.
        unknown_keys: keys this module does not know.
    """

    encoder: EncoderConfig
    model_type: str
    classifier_dropout: float | None
    label_names: list[str] | None
    num_labels: int | None
    problem_type: str | None
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
    for key in _REQUIRED:
        if key not in config:
            raise ValueError(
                f"A BERT config.json must have the key {key!r}. Received: "
                f"keys {sorted(config)}"
            )
    if config["model_type"] != "bert":
        raise ValueError(
            "kbert reads checkpoints of model_type 'bert'. Received: "
            f"model_type={config['model_type']!r}"
        )
    for key, only in _FIXED.items():
        if config.get(key, only) != only:
            raise ValueError(
                f"kbert builds encoders with {key}={only!r} only. Received: "
                f"{key}={config[key]!r}"
            )
    fields = {
        ours: config.get(theirs, default)
        for theirs, (ours, default) in _BERT_FIELDS.items()
    }
    if fields["pad_token_id"] is None:
        fields["pad_token_id"] = 0
    activation = config.get("hidden_act", "gelu")
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise ValueError(
            f"`hidden_act` must be one of {sorted(_ACTIVATIONS)}. Received: "
            f"hidden_act={activation!r}"
        )
    dropout = config.get("classifier_dropout")
    if not isinstance(dropout, (int, float, type(None))):
        raise ValueError(
            "`classifier_dropout` must be a number or null. Received: "
            f"classifier_dropout={dropout!r}"
        )
    known = {*_BERT_FIELDS, *_FIXED, *_HEAD_KEYS, *_IGNORABLE}
    known |= {"model_type", "hidden_act", "classifier_dropout"}
    label_names, num_labels = _labels(config)
    return TranslatedConfig(
        encoder=EncoderConfig(activation=_ACTIVATIONS[activation], **fields),
        model_type=config["model_type"],
        classifier_dropout=dropout,
        label_names=label_names,
        num_labels=num_labels,
        problem_type=config.get("problem_type"),
        unknown_keys=tuple(sorted(set(config) - known)),
    )


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
        dtype: of the encoder's weights.

    Returns:
        The object to write.

    Raises:
        ValueError: if the config is of no family kbert can name.
    """
    if (
        config.position_offset
        or config.shared_layers
        or not config.num_segments
        or config.embedding_size not in (None, config.hidden_size)
    ):
        raise ValueError(
            "Only encoders of BERT's own shape can be saved in Hugging Face "
            "form: position_offset=0, shared_layers=False, num_segments>=1, "
            f"embedding_size=None. Received: {config}"
        )
    written: dict[str, Any] = {
        "architectures": [architecture],
        "model_type": "bert",
        "hidden_act": {"gelu_tanh": "gelu_new"}.get(
            config.activation, config.activation
        ),
        "classifier_dropout": classifier_dropout,
        "position_embedding_type": "absolute",
        "dtype": dtype,
    }
    for theirs, (ours, _) in _BERT_FIELDS.items():
        written[theirs] = getattr(config, ours)
    if num_classes is not None:
        names = list(label_names or placeholder_names(num_classes))
        written["id2label"] = {str(i): name for i, name in enumerate(names)}
        written["label2id"] = {name: i for i, name in enumerate(names)}
        if problem_type is not None:
            written["problem_type"] = problem_type
    return dict(sorted(written.items()))
