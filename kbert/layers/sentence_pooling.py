"""One vector a sequence, from all its hidden states."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from kbert.layers.composite import CompositeLayer

MODES = (
    "cls",
    "mean",
    "max",
    "mean_sqrt_length",
    "weighted_mean",
    "last_token",
    "attention",
)


@keras.saving.register_keras_serializable(package="kbert")
class SentencePooling(CompositeLayer):
    """Hidden states of a sequence to one vector, padding left out.

    Args:
        mode: how, or several ways whose vectors are concatenated in order:

            - "cls": the first token's state.
            - "mean": the mean over real tokens.
            - "max": the largest value of each component over real tokens.
            - "mean_sqrt_length": their sum over the square root of their
              number.
            - "weighted_mean": the mean, the token at position p (from 1)
              counting p times.
            - "last_token": the last real token's state.
            - "attention": the mean, tokens weighted by a softmax over their
              products with a learned vector, which starts at 0: the mean.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        sequence_output: float (B, S, H).
        padding_mask: int or bool (B, S), 1 for a real token; None for no
            padding. "cls" does not read it.

    Returns:
        Float (B, M·H) for M modes, in the compute dtype. Arithmetic is
        float32 whatever it is: in bfloat16 257 tokens count as 256. A row
        with no real token gives 0, but its first state for "cls".

    Raises:
        ValueError: if `mode` is unknown or empty.

    Example:
        >>> import numpy as np, kbert
        >>> pooling = kbert.layers.SentencePooling("mean")
        >>> x = np.array([[[2.0], [4.0], [9.0]]], "float32")
        >>> float(pooling(x, np.array([[1, 1, 0]]))[0, 0])
        3.0

    References:
        Reimers & Gurevych, 2019, https://arxiv.org/abs/1908.10084, section
        3; `Pooling` in huggingface/sentence-transformers; for "attention"
        Yang et al., 2016, https://aclanthology.org/N16-1174, section 2.2
    """

    def __init__(self, mode: str | Sequence[str] = "mean", **kwargs):
        """See the class."""
        super().__init__(**kwargs)
        self.modes = (mode,) if isinstance(mode, str) else tuple(mode)
        if not self.modes or not set(self.modes) <= set(MODES):
            raise ValueError(
                f"`mode` must be one of {MODES}, or a list of them. "
                f"Received: mode={mode!r}"
            )
        self.mode = mode if isinstance(mode, str) else list(mode)

    def build(self, sequence_output_shape, padding_mask_shape=None):
        """Create the vector of "attention"; other modes have no weights."""
        if "attention" in self.modes:
            self.query = self.add_weight(
                shape=(sequence_output_shape[-1],),
                initializer="zeros",
                name="query",
            )

    def call(self, sequence_output, padding_mask=None):
        """See the class."""
        x = sequence_output
        if self.modes == ("cls",):
            return x[:, 0]
        if padding_mask is None:
            padding_mask = ops.ones(ops.shape(x)[:2], "int32")
        mask = ops.cast(padding_mask, "float32")
        states = ops.cast(x, "float32")
        vectors = [self._pool(mode, states, mask) for mode in self.modes]
        pooled = vectors[0]
        if len(vectors) > 1:
            pooled = ops.concatenate(vectors, axis=-1)
        return ops.cast(pooled, x.dtype)

    def _pool(self, mode: str, x: Any, mask: Any) -> Any:
        """One mode's vectors, float32 (B, H)."""
        if mode == "cls":
            return x[:, 0]
        if mode == "max":
            real = mask[:, :, None] > 0
            highest = ops.max(ops.where(real, x, -3e38), axis=1)
            return ops.where(ops.any(real, axis=1), highest, 0.0)
        return ops.einsum("bs,bsh->bh", self._weights(mode, x, mask), x)

    def _weights(self, mode: str, x: Any, mask: Any) -> Any:
        """What each token counts in a mode that sums, float32 (B, S)."""
        positions = ops.cast(ops.arange(1, ops.shape(x)[1] + 1), "float32")
        if mode == "weighted_mean":
            # From the first real token on, wherever padding stands.
            before = ops.cumsum(mask, axis=1) < 0.5
            skipped = ops.sum(ops.cast(before, "float32"), 1, keepdims=True)
            mask = mask * (positions - skipped)
        elif mode == "last_token":
            last = ops.max(mask * positions, axis=1, keepdims=True)
            return mask * ops.cast(positions == last, "float32")
        elif mode == "attention":
            query = ops.cast(self.query, "float32")
            scores = ops.where(mask > 0, ops.matmul(x, query), -3e38)
            highest = ops.max(scores, axis=1, keepdims=True)
            mask = mask * ops.exp(scores - ops.stop_gradient(highest))
        total = ops.sum(mask, axis=1, keepdims=True)
        if mode == "mean_sqrt_length":
            total = ops.sqrt(total)
        return mask / ops.where(total > 0, total, 1.0)

    def compute_output_shape(
        self, sequence_output_shape, padding_mask_shape=None
    ):
        """Return (B, M·H)."""
        width = sequence_output_shape[-1]
        if width is not None:
            width *= len(self.modes)
        return (sequence_output_shape[0], width)

    def get_config(self):
        """Return the constructor's arguments."""
        mode = self.mode if isinstance(self.mode, str) else list(self.mode)
        return {**super().get_config(), "mode": mode}
