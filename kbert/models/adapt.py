"""Changes to a built model: what of it trains."""

import keras

from kbert.layers import (
    BertEmbedding,
    EncoderBlock,
    Pooler,
    RelativeBias,
    RelativeEmbedding,
)
from kbert.models.reading import encoder_layers

_TABLES = (BertEmbedding, RelativeBias, RelativeEmbedding)


def freeze(
    model: keras.Model, num_layers: int | None = None, embeddings: bool = True
) -> None:
    """Stop the lower part of an encoder from training.

    Frozen layers keep their weights and drop nothing out; the rest of the
    encoder trains, whatever an earlier call froze. So
    `freeze(model, num_layers=0, embeddings=False)` thaws it all. Call it
    before `compile`.

    Args:
        model: an encoder or a task model of kbert's builders, changed in
            place.
        num_layers: how many encoder blocks to freeze, from the first; None
            for all of them, the pooler and a final normalisation, so that
            only the head trains.
        embeddings: whether to freeze the embeddings too, those of distances
            included.

    Raises:
        ValueError: if the model has no kbert encoder, or fewer different
            blocks than `num_layers` (a shared block counts once).

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_classifier(encoder, num_classes=2)
        >>> kbert.freeze(model)
        >>> [variable.path for variable in model.trainable_variables]
        ['classifier/logits/kernel', 'classifier/logits/bias']
    """
    layers = encoder_layers(model)
    blocks = [x for x in layers if isinstance(x, EncoderBlock)]
    tables = [x for x in layers if isinstance(x, _TABLES)]
    if not blocks or not tables:
        raise ValueError(
            "Expected an encoder or a task model of kbert's builders. "
            f"Received: layers {[layer.name for layer in model.layers]}"
        )
    if num_layers is not None and not 0 <= num_layers <= len(blocks):
        raise ValueError(
            f"`num_layers` must be in [0, {len(blocks)}], the number of "
            f"different encoder blocks. Received: num_layers={num_layers}"
        )
    top = [
        layer
        for layer in layers
        if isinstance(layer, Pooler) or layer.name == "final_layer_norm"
    ]
    for layer in tables:
        layer.trainable = not embeddings
    for index, block in enumerate(blocks):
        block.trainable = num_layers is not None and index >= num_layers
    for layer in top:
        layer.trainable = num_layers is not None
