"""One vector a sequence, from all its hidden states."""

import keras
from keras import ops

MODES = ("cls", "mean")


@keras.saving.register_keras_serializable(package="kbert")
class SentencePooling(keras.layers.Layer):
    """The first token's state, or the mean over real tokens.

    Args:
        mode: "cls" or "mean".
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        sequence_output: float (B, S, H).
        padding_mask: int or bool (B, S), 1 for a real token; None for no
            padding. "cls" does not read it.

    Returns:
        Float (B, H) in the compute dtype. Sums are float32 whatever it is:
        in bfloat16 257 tokens count as 256. The mean of a row with no real
        token is 0.

    Raises:
        ValueError: if `mode` is unknown.

    Example:
        >>> import numpy as np, kbert
        >>> pooling = kbert.layers.SentencePooling("mean")
        >>> x = np.array([[[2.0], [4.0], [9.0]]], "float32")
        >>> float(pooling(x, np.array([[1, 1, 0]]))[0, 0])
        3.0

    References:
        Reimers & Gurevych, 2019, https://arxiv.org/abs/1908.10084, section 3
    """

    def __init__(self, mode: str = "mean", **kwargs):
        """See the class."""
        super().__init__(**kwargs)
        if mode not in MODES:
            raise ValueError(
                f"`mode` must be one of {MODES}. Received: mode={mode!r}"
            )
        self.mode = mode

    def build(self, sequence_output_shape, padding_mask_shape=None):
        """There are no weights."""

    def call(self, sequence_output, padding_mask=None):
        """See the class."""
        if self.mode == "cls":
            return sequence_output[:, 0]
        x = ops.cast(sequence_output, "float32")
        if padding_mask is None:
            return ops.cast(ops.mean(x, axis=1), sequence_output.dtype)
        weights = ops.cast(padding_mask, "float32")[:, :, None]
        count = ops.maximum(ops.sum(weights, axis=1), 1.0)
        mean = ops.sum(x * weights, axis=1) / count
        return ops.cast(mean, sequence_output.dtype)

    def compute_output_shape(
        self, sequence_output_shape, padding_mask_shape=None
    ):
        """Return (B, H)."""
        return (sequence_output_shape[0], sequence_output_shape[-1])

    def get_config(self):
        """Return the constructor's arguments."""
        return {**super().get_config(), "mode": self.mode}
