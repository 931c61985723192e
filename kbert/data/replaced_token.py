"""Data sets for ELECTRA's pretraining, from those with masked tokens."""

from typing import Any


def replaced_token_dataset(dataset: Any):
    """Turn batches of masked tokens into those of replaced tokens.

    Adds what `build_replaced_token_pretrainer` asks for: the ids under the
    masks, from which it finds out which of its generator's guesses are wrong,
    and labels for both of its outputs.

    Args:
        dataset: of `masked_lm_dataset`. Labels of pairs are left out: ELECTRA
            reads two segments and has no loss for them.

    Returns:
        A `tf.data.Dataset` of `(x, y, sample_weight)` dicts. `x` has
        `original_ids` more, int32 (B, P): the masked tokens, 0 in unused
        slots. `y` has `mlm`, the same, and `replaced_token`, int32 (B, S),
        all 0: see that builder. `sample_weight` is float32, `mlm` (B, P) as
        before, and `replaced_token` (B, S), the padding mask.

    Raises:
        ValueError: if `dataset` has no such batches.

    Example:
        >>> import kbert
        >>> tokenizer = kbert.Tokenizer.from_vocab(
        ...     ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"])
        >>> dataset = kbert.data.replaced_token_dataset(
        ...     kbert.data.masked_lm_dataset(
        ...         ["good bad good", "bad"], tokenizer=tokenizer,
        ...         batch_size=2, max_length=8))
        >>> x, y, sample_weight = next(iter(dataset))
        >>> x["original_ids"].shape, y["replaced_token"].shape
        (TensorShape([2, 2]), TensorShape([2, 8]))

    References:
        Clark et al., 2020, https://arxiv.org/abs/2003.10555, section 2
    """
    import tensorflow as tf

    spec = getattr(dataset, "element_spec", None)
    if not (
        isinstance(spec, tuple)
        and len(spec) == 3
        and isinstance(spec[0], dict)
        and "mask_positions" in spec[0]
    ):
        raise ValueError(
            "`dataset` must be one of `masked_lm_dataset`, with batches "
            f"(x, y, sample_weight). Received: dataset={dataset!r}"
        )

    def add(x: Any, y: Any, weights: Any) -> Any:
        if isinstance(y, dict):
            y, weights = y["mlm"], weights["mlm"]
        mask = x["padding_mask"]
        return (
            {**x, "original_ids": y},
            {"mlm": y, "replaced_token": tf.zeros_like(mask)},
            {"mlm": weights, "replaced_token": tf.cast(mask, tf.float32)},
        )

    return dataset.map(add)
