"""What the terms of a distiller compare."""

from collections.abc import Iterable, Iterator
from typing import Any

import keras
from keras import ops

from kbert.layers import SpanHead

# Finite in float32, and equal in teacher and student.
_MASKED_LOGIT = -1e30


def output_triples(
    student: keras.Model, x: Any, ours: Any, theirs: Any, sample_weight: Any
) -> Iterator[tuple[Any, Any, Any]]:
    """Yield teacher's and student's values of each output, and weights.

    Args:
        student: the student.
        x: dict of the batch's inputs.
        ours: the student's outputs, a tensor or a dict of them.
        theirs: the teacher's, likewise.
        sample_weight: of the labels: None, a tensor, or a dict of them.
    """
    if not isinstance(ours, dict):
        ours, theirs, sample_weight = (
            {"": each} for each in (ours, theirs, sample_weight)
        )
    elif not isinstance(sample_weight, dict):
        sample_weight = dict.fromkeys(ours, sample_weight)
    is_span = any(isinstance(layer, SpanHead) for layer in student.layers)
    has_tokens = "mask_positions" not in student.input
    for name, values in ours.items():
        pair, weights = (theirs[name], values), sample_weight[name]
        if is_span:
            # A softmax over positions: padding has no share in it.
            real = ops.cast(x["padding_mask"], "bool")
            pair = tuple(
                ops.where(real, ops.cast(each, "float32"), _MASKED_LOGIT)
                for each in pair
            )
        elif weights is None and len(values.shape) == 3 and has_tokens:
            weights = x["padding_mask"]
        yield *pair, weights


def mean_loss(
    loss: keras.losses.Loss, pairs: Iterable[tuple[Any, Any]], weights: Any
) -> Any:
    """Return the mean of a loss over pairs of teacher and student."""
    losses = [loss(theirs, ours, weights) for theirs, ours in pairs]
    return sum(losses) / len(losses)
