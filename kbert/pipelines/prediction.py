"""What the pipelines share: checks, and texts through a model in batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from kbert.data.batching import Batch, BatchOptions, plan_epoch
from kbert.data.classification import InputBatches
from kbert.data.encoding import EncodedTexts
from kbert.data.tokenizer import Tokenizer
from kbert.models import encoder_config
from kbert.saving import check_vocabulary


def check_options(
    model: keras.Model,
    tokenizer: Tokenizer,
    batch_size: int,
    max_length: int | None,
) -> int:
    """Check what every pipeline is given.

    Args:
        model: an encoder or a task model of kbert.
        tokenizer: the tokenizer it was trained with.
        batch_size: texts in a batch.
        max_length: most tokens in a text; None for the most that both model
            and tokenizer take.

    Returns:
        `max_length`, never None.

    Raises:
        TypeError: if `tokenizer` is no `kbert.Tokenizer`, or a number no int.
        ValueError: if the tokenizer is another model's, or a number is out
            of range.
    """
    if not isinstance(tokenizer, Tokenizer):
        raise TypeError(
            "`tokenizer` must be a kbert.Tokenizer. Received: "
            f"tokenizer={tokenizer!r}"
        )
    config = encoder_config(model)
    check_vocabulary(tokenizer, config)
    if "segment_ids" in model.input and not tokenizer.has_segments:
        raise ValueError(
            "The tokenizer is not this model's: the model takes segment_ids, "
            "which the tokenizer's family has not. Received: "
            f"tokenizer.family={tokenizer.family!r}"
        )
    longest = min(
        config.max_positions, tokenizer.max_length or config.max_positions
    )
    options = BatchOptions(
        batch_size=batch_size,
        max_length=longest if max_length is None else max_length,
    )
    if options.max_length > longest:
        raise ValueError(
            f"The model takes at most {longest} tokens. Received: "
            f"max_length={max_length}"
        )
    return options.max_length


def portions(sizes: Sequence[int], limit: int = 1_000_000) -> Iterator[slice]:
    """Divide texts so that what is kept of them at a time is bounded.

    Args:
        sizes: characters of each of N texts.
        limit: most characters in a portion of more than one text.

    Yields:
        Slices that cover N texts in order.
    """
    start, total = 0, 0
    for index, size in enumerate(sizes):
        if total + size > limit and index > start:
            yield slice(start, index)
            start, total = index, 0
        total += size
    if start < len(sizes):
        yield slice(start, len(sizes))


def predict(
    model: keras.Model,
    tokenizer: Tokenizer,
    encoded: EncodedTexts,
    *,
    batch_size: int,
    max_length: int,
    more_inputs: Callable[[Batch], Mapping[str, np.ndarray]] | None = None,
) -> Iterator[tuple[np.ndarray, Any]]:
    """Run texts through a model, those of like length together.

    Args:
        model: the model.
        tokenizer: what encoded the texts.
        encoded: N texts.
        batch_size: texts in a batch.
        max_length: most tokens in a text.
        more_inputs: makes the inputs of a batch that are not the texts'. What
            the model has no input for is left out.

    Yields:
        Numbers of the texts in a batch, int (B,), and the model's outputs for
        them, arrays (B, …).
    """
    options = BatchOptions(batch_size=batch_size, max_length=max_length)
    make_inputs = InputBatches(encoded, tokenizer)
    for batch in plan_epoch(encoded.lengths, options):
        inputs = make_inputs(batch)
        if more_inputs is not None:
            inputs.update(more_inputs(batch))
        yield batch.indices, predict_batch(model, inputs, len(batch.indices))


def predict_batch(
    model: keras.Model, inputs: Mapping[str, np.ndarray], size: int
) -> Any:
    """Return a model's outputs, arrays (B, …), for one batch.

    Args:
        model: the model.
        inputs: arrays (B, …). What the model has no input for is left out.
        size: B.
    """
    # Not `predict`, whose set-up costs a single text 20 times its answer.
    outputs = model.predict_on_batch(
        {name: inputs[name] for name in model.input}
    )
    # Under a strategy every replica answers the whole batch.
    return keras.tree.map_structure(lambda rows: rows[:size], outputs)


def class_logits(
    model: keras.Model,
    tokenizer: Tokenizer,
    encoded: EncodedTexts,
    *,
    batch_size: int,
    max_length: int,
) -> np.ndarray:
    """Run texts through a classifier; as `predict`, in their order.

    Returns:
        Logits, float32 (N, C).
    """
    shape = (len(encoded.lengths), model.output_shape[-1])
    logits = np.zeros(shape, "float32")
    for indices, rows in predict(
        model,
        tokenizer,
        encoded,
        batch_size=batch_size,
        max_length=max_length,
    ):
        logits[indices] = rows
    return logits


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return probabilities over the last axis, in the logits' dtype."""
    exp = np.exp(logits - logits.max(axis=-1, keepdims=True))
    # numpy sums in pairs only along memory: in another layout, 30,000 float32
    # lose the fifth digit.
    total = exp.sum(axis=-1, keepdims=True, dtype="float64")
    return (exp / total).astype(logits.dtype)
