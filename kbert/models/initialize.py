"""Gives a student some of its teacher's layers."""

from collections.abc import Sequence

import keras

from kbert.layers import EncoderBlock
from kbert.models.reading import encoder_config, encoder_layers

# What of a layer's config two models may differ in with the same weights.
_FREE = {
    "name",
    "dtype",
    "trainable",
    "hidden_dropout",
    "attention_dropout",
    "initializer_range",
}
# What a head may say or not; what both say must agree.
_OPTIONAL = {"label_names", "problem_type"}


def initialize_from(
    student: keras.Model,
    teacher: keras.Model,
    layers: Sequence[int] | None = None,
) -> dict[str, str | None]:
    """Copy a teacher's embeddings and some of its blocks into a student.

    What comes before and after the blocks (embeddings, normalisations, pooler,
    head) is copied from the teacher's layer of the same name. A pooler or
    head that the teacher lacks, or has with other sizes, stays as it is.

    Args:
        student: an encoder or task model of kbert's builders, changed in
            place.
        teacher: likewise, of the same width.
        layers: the teacher's block for each of the student's, from 0 on; None
            for blocks evenly spread from the first: 0, 2, 4 for 3 of 6. A
            shared block of the teacher counts each time that it is applied.

    Returns:
        What was copied: layer of the student → layer of the teacher, or None
        for a layer that stays as it was.

    Raises:
        ValueError: if `layers` does not fit the numbers of blocks, or
            embeddings or blocks differ in more than dropout.

    Example:
        >>> from dataclasses import replace
        >>> import kbert
        >>> config = replace(kbert.families.BERT_TINY, num_layers=4)
        >>> teacher = kbert.build_encoder(config)
        >>> student = kbert.build_encoder(replace(config, num_layers=2))
        >>> for ours, theirs in kbert.initialize_from(student, teacher).items():
        ...     print(ours, "<-", theirs)
        embedding <- embedding
        encoder_block_0 <- encoder_block_0
        encoder_block_1 <- encoder_block_2
        pooler <- pooler

    References:
        Sanh et al., 2019, https://arxiv.org/abs/1910.01108, section 3
    """
    order = encoder_config(teacher).block_order()
    sources = {x.name: x for x in encoder_layers(teacher) if x.weights}
    targets = [x for x in encoder_layers(student) if x.weights]
    blocks = [x for x in targets if isinstance(x, EncoderBlock)]
    if layers is None:
        layers = [i * len(order) // len(blocks) for i in range(len(blocks))]
    if len(layers) != len(blocks) or not all(
        isinstance(i, int) and 0 <= i < len(order) for i in layers
    ):
        raise ValueError(
            f"`layers` must name {len(blocks)} of the teacher's blocks, in "
            f"[0, {len(order)}), one for each of the student's. "
            f"Received: layers={layers!r}"
        )
    chosen = {
        block.name: f"encoder_block_{order[i]}"
        for block, i in zip(blocks, layers, strict=True)
    }
    copies = {}
    for target in targets:
        source = sources.get(chosen.get(target.name, target.name))
        difference = _difference(target, source)
        if difference and _is_encoder(target):
            raise ValueError(
                f"The student's {target.name!r} cannot take the teacher's "
                f"weights. Received: {difference}"
            )
        copies[target.name] = None if difference else source
    # Nothing changes before everything is checked.
    for target in targets:
        source = copies[target.name]
        if source is not None:
            for ours, theirs in zip(
                target.weights, source.weights, strict=True
            ):
                ours.assign(theirs)
    return {name: layer and layer.name for name, layer in copies.items()}


def _is_encoder(layer: keras.layers.Layer) -> bool:
    """Whether a layer belongs below the pooler and the head."""
    return isinstance(layer, EncoderBlock) or layer.name in (
        "embedding",
        "final_layer_norm",
        "relative_bias",
        "relative_embedding",
    )


def _difference(
    target: keras.layers.Layer, source: keras.layers.Layer | None
) -> str:
    """Say how two layers differ in more than their weights; "" if not."""
    if source is None:
        return "a teacher without that layer"
    ours, theirs = (
        {k: v for k, v in layer.get_config().items() if k not in _FREE}
        for layer in (target, source)
    )
    for key in sorted(ours.keys() | theirs.keys()):
        pair = ours.get(key), theirs.get(key)
        if None in pair and key in _OPTIONAL:
            continue
        if pair[0] != pair[1]:
            return (
                f"{key}={pair[0]!r} in the student, {pair[1]!r} in the "
                f"teacher's {source.name!r}"
            )
    return ""
