"""The config of an encoder, read back from the layers of a model."""

from dataclasses import replace
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

# What the names of a generator's layers begin with, in a model that trains it
# and an encoder on its guesses.
GENERATOR = "generator_"


def encoder_config(model: keras.Model) -> EncoderConfig:
    """Read the config back from the layers of a model.

    Works on an encoder, on any task model built from one, and after a
    `.keras` reload: nothing hangs on the model object.

    Args:
        model: a model that holds kbert's encoder layers.

    Returns:
        The `EncoderConfig` that builds the same encoder.

    Raises:
        ValueError: if the model has no kbert encoder in it.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> kbert.encoder_config(encoder) == kbert.families.BERT_TINY
        True
    """
    return _config_of(model, encoder_layers(model))


def encoder_layers(model: keras.Model) -> list[keras.layers.Layer]:
    """Return a model's layers without those of a generator beside it."""
    return [x for x in model.layers if not x.name.startswith(GENERATOR)]


def generator_config(model: keras.Model) -> EncoderConfig:
    """Read back the config of the generator of a replaced-token pretrainer.

    Raises:
        ValueError: if the model has no generator in it.
    """
    layers = [x for x in model.layers if x.name.startswith(GENERATOR)]
    config = _config_of(model, layers)
    width = _only_embedding(model).token.output_dim
    same = width == config.hidden_size
    return replace(config, embedding_size=None if same else width)


def _config_of(
    model: keras.Model, layers: list[keras.layers.Layer]
) -> EncoderConfig:
    """The config of the encoder that these layers and the embedding make."""
    embedding = _only_embedding(model)
    blocks = [x for x in layers if isinstance(x, EncoderBlock)]
    if not blocks:
        raise ValueError(
            "The model has no EncoderBlock among its layers. Received: "
            f"layers {[layer.name for layer in layers]}"
        )
    block = blocks[0]
    return EncoderConfig(
        vocab_size=embedding.vocab_size,
        hidden_size=block.hidden_size,
        num_heads=block.num_heads,
        intermediate_size=block.intermediate_size,
        max_positions=embedding.max_positions,
        num_segments=embedding.num_segments,
        position_offset=embedding.position_offset,
        embedding_size=embedding.embedding_size,
        activation=block.activation,
        layer_norm_epsilon=embedding.layer_norm_epsilon,
        hidden_dropout=embedding.hidden_dropout,
        attention_dropout=block.attention_dropout,
        initializer_range=embedding.initializer_range,
        pad_token_id=embedding.pad_token_id,
        has_pooler=any(isinstance(x, Pooler) for x in layers),
        has_position_table=embedding.has_position_table,
        has_bias=embedding.has_bias,
        pre_norm=block.pre_norm,
        gated=block.gated,
        family=embedding.family,
        **_local_attention_of(blocks),
        **_relative_attention_of(layers),
        **_layers_of(_call_order(model, [x.name for x in blocks])),
    )


def _local_attention_of(blocks: list[EncoderBlock]) -> dict[str, Any]:
    """Fields that give each block its window and its rotary base."""
    fields: dict[str, Any] = {"rotary_base": blocks[0].rotary_base}
    local = [block for block in blocks if block.window is not None]
    if local:
        repeats = [i for i, x in enumerate(blocks) if i and x.window is None]
        fields["global_every"] = repeats[0] if repeats else len(blocks)
        fields["local_window"] = local[0].window
        fields["local_rotary_base"] = local[0].rotary_base
    return fields


def _relative_attention_of(
    layers: list[keras.layers.Layer],
) -> dict[str, Any]:
    for layer in layers:
        if isinstance(layer, (RelativeBias, RelativeEmbedding)):
            is_bias = isinstance(layer, RelativeBias)
            return {
                "relative_attention": "bias" if is_bias else "disentangled",
                "relative_buckets": layer.num_buckets,
                "relative_distance": layer.max_distance,
            }
    return {}


def _only_embedding(model: keras.Model) -> BertEmbedding:
    found = [x for x in model.layers if isinstance(x, BertEmbedding)]
    if len(found) != 1:
        raise ValueError(
            "Expected a model with one BertEmbedding among its layers, such "
            "as `build_encoder` and the task builders return. Received: "
            f"layers {[layer.name for layer in model.layers]}"
        )
    return found[0]


def _call_order(model: keras.Model, names: list[str]) -> list[str]:
    """Names of the blocks as the graph of the model applies them.

    Every block takes the hidden states of the one before as its first
    argument, so the order is followed back from the last application.
    """
    nodes = {
        layer["name"]: layer["inbound_nodes"]
        for layer in model.get_config()["layers"]
    }
    inputs = {}  # (name, number of its call) → the call before it
    for name in names:
        for number, node in enumerate(nodes[name]):
            inputs[name, number] = tuple(
                node["args"][0]["config"]["keras_history"][:2]
            )
    followers = {before: call for call, before in inputs.items()}
    call = next(before for before in followers if before not in inputs)
    order = []
    while call in followers:
        call = followers[call]
        order.append(call[0])
    return order


def _layers_of(order: list[str]) -> dict[str, Any]:
    """Fields of the config that `EncoderConfig.block_order` turns to this."""
    blocks = len(set(order))
    if blocks == len(order):
        return {"num_layers": blocks}
    inner = order.index(order[0], 1) if order[0] in order[1:] else 1
    return {
        "num_layers": len(order) // inner,
        "shared_layers": True,
        "num_layer_groups": blocks // inner,
        "layers_per_group": inner,
    }
