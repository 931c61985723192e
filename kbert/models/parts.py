"""What the task builders share: the encoder's outputs and defaults."""

from typing import Any

import keras

from kbert.config import EncoderConfig
from kbert.families import TRANSFORMED
from kbert.layers import (
    BertEmbedding,
    MLMBias,
    MLMHead,
    Pooler,
    ReplacedTokenHead,
)
from kbert.models.reading import encoder_config


def encoder_outputs(encoder: keras.Model) -> dict[str, keras.KerasTensor]:
    """Return the symbolic outputs of an encoder.

    Raises:
        ValueError: if `encoder` is no kbert encoder.
    """
    outputs = getattr(encoder, "output", None)
    if not isinstance(outputs, dict) or "sequence_output" not in outputs:
        raise ValueError(
            "`encoder` must be a model of build_encoder or load_encoder, "
            "whose output is a dict with `sequence_output`. Received: "
            f"encoder={encoder!r}"
        )
    return outputs


def head_input(encoder: keras.Model, x: keras.KerasTensor) -> Any:
    """Return `x` as the heads of the encoder's family read it.

    That is `x` itself, or in ModernBERT what a dense layer, gelu and a
    normalisation, named "transform", make of it.
    """
    config = encoder_config(encoder)
    if config.family not in TRANSFORMED:
        return x
    transform = MLMHead(
        config.hidden_size,
        activation="gelu",
        layer_norm_epsilon=config.layer_norm_epsilon,
        initializer_range=config.initializer_range,
        has_bias=config.has_bias,
        dtype=layer_dtype(encoder),
        name="transform",
    )
    return transform(x)


def pooled_output(encoder: keras.Model) -> keras.KerasTensor:
    """Return the pooled output (B, H), of a fresh pooler if there is none."""
    outputs = encoder_outputs(encoder)
    if "pooled_output" in outputs:
        return outputs["pooled_output"]
    config = encoder_config(encoder)
    pooler = Pooler(
        config.hidden_size,
        initializer_range=config.initializer_range,
        dtype=layer_dtype(encoder),
        name="pooler",
    )
    return pooler(outputs["sequence_output"])


def mlm_logits(
    config: EncoderConfig,
    embedding: BertEmbedding,
    x: keras.KerasTensor,
    positions: keras.KerasTensor | None,
    activation: str | None = None,
    prefix: str = "",
) -> Any:
    """Return the logits (B, P, V) of a new masked-language head.

    Args:
        config: of the encoder.
        embedding: whose token table the head is tied to.
        x: hidden states (B, S, H).
        positions: int (B, P), or None for every position.
        activation: of the head's dense layer; None for the encoder's.
        prefix: what the names of the layers begin with.
    """
    head = MLMHead(
        config.hidden_size,
        embedding_size=config.embedding_size,
        activation=activation or config.activation,
        layer_norm_epsilon=config.layer_norm_epsilon,
        initializer_range=config.initializer_range,
        has_bias=config.has_bias,
        dtype=embedding.dtype_policy,
        name=prefix + "mlm",
    )
    bias = MLMBias(
        config.vocab_size,
        dtype=embedding.dtype_policy,
        name=prefix + "mlm_bias",
    )
    return bias(embedding(head(x, positions), reverse=True))


def replaced_token_head(encoder: keras.Model) -> ReplacedTokenHead:
    """Return a new head that tells replaced tokens of an encoder."""
    config = encoder_config(encoder)
    return ReplacedTokenHead(
        config.hidden_size,
        activation=config.activation,
        initializer_range=config.initializer_range,
        dtype=layer_dtype(encoder),
        name="replaced_token",
    )


def layer_dtype(encoder: keras.Model) -> keras.DTypePolicy:
    """Return the dtype policy that the encoder was built with."""
    return encoder.get_layer("embedding").dtype_policy


def given_or(value: float | None, default: float) -> float:
    """Return `value`, or `default` where it is None."""
    return default if value is None else value
