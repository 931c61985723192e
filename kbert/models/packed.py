"""The same model for rows that hold several sequences."""

from typing import Any

import keras

from kbert.layers import (
    BertEmbedding,
    ClassificationHead,
    EncoderBlock,
    SentencePooling,
    SpanHead,
)
from kbert.models.reading import encoder_config

# Each gives one result a row, or compares all tokens of it.
_ONE_SEQUENCE = (ClassificationHead, SentencePooling, SpanHead)


def build_packed(model: keras.Model) -> keras.Model:
    """Build the same model for packed rows, in which no token is padding.

    A row holds one sequence after the other; a token sees its own alone, and
    positions start anew in each. So a sequence gets the outputs that it gets
    in a row of its own. `masked_lm_dataset(…, pack=True)` makes such rows.

    The two models share their layers: training one trains the other, and
    either can be saved, evaluated or built on.

    Args:
        model: an encoder, masked language model, token classifier or
            replaced-token detector of kbert's builders and loaders.

    Returns:
        A `keras.Model`, not compiled, of the same name, outputs, variable
        paths and `encoder_config`. Its input `sequence_ids` takes the place
        of `padding_mask`: int32 (B, S), 1 for the tokens of a row's first
        sequence, 2 for those of its second, …, 0 for padding. An encoder's
        `pooled_output` is of the first sequence in a row.

    Raises:
        ValueError: if the model holds no kbert encoder, or is packed already,
            or has one result a row (a classifier, a pretrainer with
            next-sentence head, a span model).

    Example:
        >>> import numpy as np, kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> packed = kbert.build_packed(encoder)
        >>> ids = np.array([[101, 7592, 102, 101, 2088, 102]])
        >>> outputs = packed({"token_ids": ids, "segment_ids": 0 * ids,
        ...                   "sequence_ids": np.array([[1, 1, 1, 2, 2, 2]])})
        >>> tuple(outputs["sequence_output"].shape)
        (1, 6, 128)

    References:
        Krell et al., 2021, https://arxiv.org/abs/2107.02027
    """
    encoder_config(model)
    refuse_packed(model, "a packed model")
    heads = [x.name for x in model.layers if isinstance(x, _ONE_SEQUENCE)]
    if heads:
        raise ValueError(
            "A row of several sequences has no single result. Build the "
            "masked language model, token classifier or replaced-token "
            f"detector of this encoder. Received: a model with {heads}"
        )
    names = [
        "sequence_ids" if name == "padding_mask" else name
        for name in model.input
    ]
    inputs = {
        name: keras.Input(x.shape[1:], dtype=x.dtype, name=name)
        for name, x in zip(names, model.input.values(), strict=True)
    }
    sequence_ids = inputs["sequence_ids"]

    def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(layer, EncoderBlock):
            kwargs["sequence_ids"] = kwargs.pop("padding_mask")
        elif any(x is sequence_ids for x in keras.tree.flatten((args, kwargs))):
            raise ValueError(
                "Only kbert's blocks know what to do with several sequences "
                f"in a row. Received: a model whose layer {layer.name!r} "
                "reads `padding_mask`"
            )
        elif isinstance(layer, BertEmbedding) and not kwargs.get("reverse"):
            kwargs["sequence_ids"] = sequence_ids
        return layer(*args, **kwargs)

    copy = keras.models.clone_model(
        # Not the model itself: a compiled one would be compiled again.
        keras.Model(list(model.input.values()), model.output),
        input_tensors=list(inputs.values()),
        clone_function=lambda layer: layer,
        call_function=call,
    )
    return keras.Model(inputs, copy.output, name=model.name)


def refuse_packed(model: keras.Model, what: str) -> None:
    """Refuse to build what a row of several sequences cannot have.

    Args:
        model: an encoder or task model.
        what: that is to be built, for the error.

    Raises:
        ValueError: if the model is one of `build_packed`.
    """
    inputs = getattr(model, "input", None)
    if isinstance(inputs, dict) and "sequence_ids" in inputs:
        raise ValueError(
            f"Cannot build {what} of a packed model, whose rows hold several "
            "sequences: build it of the model that was packed, which has the "
            f"same weights. Received: inputs {sorted(inputs)}"
        )
