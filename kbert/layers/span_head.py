"""Head that points at the first and the last token of an answer."""

import keras
from keras import ops

from kbert.layers.composite import CompositeLayer
from kbert.layers.logits import logits_layer


@keras.saving.register_keras_serializable(package="kbert")
class SpanHead(CompositeLayer):
    """A linear layer from each hidden state to a start and an end logit.

    The logits are raw: question and padding get theirs too.

    Args:
        initializer_range: float, standard deviation of the initial kernel.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        sequence_output: float (B, S, H).

    Returns:
        A dict of `start` and `end`: logits over positions, float32 (B, S)
        under every dtype policy.

    Example:
        >>> import numpy as np, kbert
        >>> head = kbert.layers.SpanHead()
        >>> logits = head(np.ones((2, 5, 8), "float32"))
        >>> tuple(logits["start"].shape), tuple(logits["end"].shape)
        ((2, 5), (2, 5))

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 4.2;
        `create_model` in google-research/bert `run_squad.py`
    """

    def __init__(self, initializer_range: float = 0.02, **kwargs):
        """See the class."""
        super().__init__(**kwargs)
        self.initializer_range = initializer_range
        self.logits = logits_layer(2, initializer_range)

    def build(self, sequence_output_shape):
        """Create the kernel; the shape is (B, S, H)."""
        self.logits.build(sequence_output_shape)

    def call(self, sequence_output):
        """See the class."""
        logits = self.logits(ops.cast(sequence_output, "float32"))
        return {"start": logits[..., 0], "end": logits[..., 1]}

    def compute_output_spec(self, sequence_output):
        """Return two float32 (B, S)."""
        shape = sequence_output.shape[:-1]
        return {
            name: keras.KerasTensor(shape, dtype="float32")
            for name in ("start", "end")
        }

    def get_config(self):
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "initializer_range": self.initializer_range,
        }
