"""What each token of a text takes from which other, by layer and head."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from kbert.models.encoder import RELATIVE
from kbert.models.reading import encoder_config, encoder_layers

_TOKEN_INPUTS = {"token_ids", "segment_ids", "padding_mask", "sequence_ids"}


def attention_weights(model: keras.Model, inputs: Mapping[str, Any]) -> Any:
    """Compute the attention weights of every layer and head.

    The model computes as it does in `predict`, layer by layer and without
    its head; neither the model nor what it returns changes.

    Args:
        model: an encoder or task model of kbert's builders and loaders, one
            of `build_packed` included.
        inputs: the model's, int32 arrays (B, S): `token_ids`, `segment_ids`
            where it has them, and `padding_mask` or `sequence_ids`. Inputs of
            the head, such as `mask_positions`, may be there and are not read.

    Returns:
        A numpy array, float32 (B, L, N, S, S): [b, l, n, i, j] is the share
        of token j in what head n of layer l gives token i. Rows sum to 1, and
        padding gets 0. A layer that is applied several times, as ALBERT's,
        counts each time. Rows of tokens that are padding mean nothing.

    Raises:
        ValueError: if the model has no kbert encoder in it or has a generator
            beside it, or an input is missing or no (B, S).

    Example:
        >>> import numpy as np, kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> ids = np.array([[101, 7592, 102, 0]])
        >>> weights = kbert.attention_weights(
        ...     encoder, {"token_ids": ids, "segment_ids": 0 * ids,
        ...               "padding_mask": (ids > 0).astype("int32")})
        >>> weights.shape
        (1, 2, 2, 4, 4)
        >>> float(weights[..., 3].max())
        0.0

    References:
        Clark et al., 2019, https://arxiv.org/abs/1906.04341
    """
    config = encoder_config(model)
    names = {x.name for x in model.inputs}
    if "original_ids" in names:
        raise ValueError(
            "A replaced-token pretrainer holds two encoders: give this one of "
            "them, `discriminator_of(model)` or `generator_of(model)`. "
            f"Received: inputs {sorted(names)}"
        )
    given = _token_inputs(names, inputs)
    layers = {layer.name: layer for layer in encoder_layers(model)}
    # `padding_mask` or, in a packed model, `sequence_ids`.
    shared = {
        name: given[name]
        for name in ("padding_mask", "sequence_ids")
        if name in given
    }
    x = layers["embedding"](
        given["token_ids"],
        given.get("segment_ids"),
        sequence_ids=given.get("sequence_ids"),
        training=False,
    )
    if config.relative_attention:
        argument, name = RELATIVE[config.relative_attention]
        shared[argument] = layers[name](x)
    weights = []
    for index in config.block_order():
        block = layers[f"encoder_block_{index}"]
        weights.append(block.attention_weights(x, **shared))
        x = block(x, **shared, training=False)
    return ops.convert_to_numpy(ops.stack(weights, axis=1))


def _token_inputs(names: set[str], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The encoder's own inputs as int32 tensors of one shape."""
    names = names & _TOKEN_INPUTS
    missing = names - set(inputs)
    if missing:
        raise ValueError(
            f"The model also takes {sorted(missing)}. Received: inputs "
            f"{sorted(inputs)}"
        )
    given = {n: ops.convert_to_tensor(inputs[n], dtype="int32") for n in names}
    shapes = {name: tuple(x.shape) for name, x in given.items()}
    if len(set(shapes.values())) > 1 or len(shapes["token_ids"]) != 2:
        raise ValueError(
            f"All inputs must have one shape (B, S). Received: shapes {shapes}"
        )
    return given
