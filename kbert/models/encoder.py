"""The encoder as a functional model."""

from typing import Any

import keras

from kbert.config import EncoderConfig
from kbert.layers import (
    BertEmbedding,
    EncoderBlock,
    Pooler,
    RelativeBias,
    RelativeEmbedding,
)

# `EncoderConfig.relative_attention` → the argument of a block, and the name of
# the layer that makes it.
RELATIVE = {
    "bias": ("attention_bias", "relative_bias"),
    "disentangled": ("relative_embeddings", "relative_embedding"),
}


def build_encoder(
    config: EncoderConfig, *, dtype: str | keras.DTypePolicy | None = None
) -> keras.Model:
    """Build an encoder with fresh weights.

    Args:
        config: sizes and switches.
        dtype: dtype policy of all layers, such as "mixed_bfloat16"; None
            for Keras' global policy.

    Returns:
        A functional `keras.Model` named "encoder". Inputs: a dict of
        `token_ids`, `segment_ids` (absent where `config.num_segments` is 0)
        and `padding_mask` (1 = real token), int32 (B, S). Outputs: a dict of
        `sequence_output`, float (B, S, H), and, where `config.has_pooler`,
        `pooled_output`, float (B, H).

    Raises:
        TypeError: if `config` is not an `EncoderConfig`.

    Example:
        >>> import numpy as np, kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> ids = np.array([[101, 7592, 102, 0]])
        >>> outputs = encoder({"token_ids": ids, "segment_ids": 0 * ids,
        ...                    "padding_mask": (ids > 0).astype("int32")})
        >>> tuple(outputs["sequence_output"].shape)
        (1, 4, 128)

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805
    """
    if not isinstance(config, EncoderConfig):
        raise TypeError(
            "`config` must be a kbert.EncoderConfig, such as "
            f"kbert.families.BERT_BASE. Received: config={config!r}"
        )
    inputs = {"token_ids": _token_input("token_ids")}
    if config.num_segments:
        inputs["segment_ids"] = _token_input("segment_ids")
    inputs["padding_mask"] = _token_input("padding_mask")

    embedding = BertEmbedding(
        config.vocab_size,
        config.hidden_size,
        max_positions=config.max_positions,
        num_segments=config.num_segments,
        embedding_size=config.embedding_size,
        position_offset=config.position_offset,
        pad_token_id=config.pad_token_id,
        family=config.family,
        hidden_dropout=config.hidden_dropout,
        layer_norm_epsilon=config.layer_norm_epsilon,
        initializer_range=config.initializer_range,
        has_position_table=config.has_position_table,
        has_bias=config.has_bias,
        dtype=dtype,
        name="embedding",
    )
    x = embedding(inputs["token_ids"], inputs.get("segment_ids"))
    x = apply_blocks(config, x, inputs, dtype)
    outputs = {"sequence_output": x}
    if config.has_pooler:
        pooler = Pooler(
            config.hidden_size,
            initializer_range=config.initializer_range,
            dtype=dtype,
            name="pooler",
        )
        outputs["pooled_output"] = pooler(x)
    return keras.Model(inputs, outputs, name="encoder")


def apply_blocks(
    config: EncoderConfig,
    x: keras.KerasTensor,
    inputs: dict[str, keras.KerasTensor],
    dtype: str | keras.DTypePolicy | None,
    prefix: str = "",
) -> keras.KerasTensor:
    """Apply new encoder blocks, and what goes with them, to embeddings.

    Args:
        config: of the encoder.
        x: embeddings, float (B, S, H).
        inputs: of the model.
        dtype: dtype policy of the layers.
        prefix: what the names of the layers begin with.

    Returns:
        The hidden states, float (B, S, H).
    """
    shared = {"padding_mask": inputs["padding_mask"]}
    if config.relative_attention:
        argument, name = RELATIVE[config.relative_attention]
        shared[argument] = _relative_layer(config, dtype, prefix + name)(x)
    blocks = [
        _build_block(config, i, dtype, prefix) for i in range(config.num_blocks)
    ]
    for index in config.block_order():
        x = blocks[index](x, **shared)
    if config.pre_norm:
        norm = keras.layers.LayerNormalization(
            epsilon=config.layer_norm_epsilon,
            center=config.has_bias,
            dtype=dtype,
            name=prefix + "final_layer_norm",
        )
        x = norm(x)
    return x


def _token_input(name: str) -> keras.KerasTensor:
    return keras.Input(shape=(None,), dtype="int32", name=name)


def _relative_layer(
    config: EncoderConfig, dtype: str | keras.DTypePolicy | None, name: str
) -> keras.layers.Layer:
    options: dict[str, Any] = {
        "num_buckets": config.relative_buckets,
        "max_distance": config.relative_distance,
        "initializer_range": config.initializer_range,
        "dtype": dtype,
        "name": name,
    }
    if config.relative_attention == "bias":
        return RelativeBias(config.num_heads, **options)
    return RelativeEmbedding(
        config.hidden_size,
        layer_norm_epsilon=config.layer_norm_epsilon,
        **options,
    )


def _build_block(
    config: EncoderConfig,
    index: int,
    dtype: str | keras.DTypePolicy | None,
    prefix: str,
) -> EncoderBlock:
    is_local = config.local_window and index % config.global_every
    return EncoderBlock(
        config.hidden_size,
        config.num_heads,
        config.intermediate_size,
        activation=config.activation,
        hidden_dropout=config.hidden_dropout,
        attention_dropout=config.attention_dropout,
        layer_norm_epsilon=config.layer_norm_epsilon,
        initializer_range=config.initializer_range,
        has_bias=config.has_bias,
        pre_norm=config.pre_norm,
        # Embeddings come normalised.
        has_input_norm=not config.pre_norm or index > 0,
        gated=config.gated,
        rotary_base=(
            config.local_rotary_base if is_local else config.rotary_base
        ),
        window=config.local_window if is_local else None,
        dtype=dtype,
        name=f"{prefix}encoder_block_{index}",
    )
