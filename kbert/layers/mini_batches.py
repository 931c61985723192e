"""A model run on some rows at a time, for batches beyond memory."""

from typing import Any

import keras
from keras import ops

# More calls of one dropout layer than there are in a pass through a model.
_CALLS = 64


@keras.saving.register_keras_serializable(package="kbert")
class MiniBatches(keras.layers.Layer):
    """A model of rows, run on some rows at a time without their activations.

    In training memory holds the activations of one mini-batch, whatever the
    number of rows: the backward pass computes them again, with the same
    dropout. That costs about a third more time.

    Args:
        model: whose inputs are a dict of (R, …) and whose output is (R, D).
            It shares no statistics between rows, such as of a batch
            normalisation.
        size: rows in a mini-batch.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        inputs: dict of int (R, …), those of the model.
        training: whether to apply dropout, drawn for each mini-batch.

    Returns:
        What the model returns for all rows.

    Raises:
        ValueError: if `size` is no int of at least 1.

    Example:
        >>> import numpy as np, kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_sentence_encoder(encoder)
        >>> ids = np.full((5, 4), 7)
        >>> inputs = {"token_ids": ids, "segment_ids": 0 * ids,
        ...           "padding_mask": 0 * ids + 1}
        >>> tuple(kbert.layers.MiniBatches(model, size=2)(inputs).shape)
        (5, 128)

    References:
        Gao et al., 2021, https://arxiv.org/abs/2101.06983; Chen et al., 2016,
        https://arxiv.org/abs/1604.06174
    """

    def __init__(self, model: keras.Model, size: int, **kwargs):
        """See the class."""
        super().__init__(**kwargs)
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(
                f"`size` must be an int of at least 1. Received: size={size!r}"
            )
        self.model = model
        self.size = size

    def build(self, inputs_shape):
        """The model is built."""

    def call(self, inputs, training=None):
        """See the class."""
        names = list(self.model.input)
        rows = ops.shape(inputs[names[0]])[0]
        count = (rows + self.size - 1) // self.size
        pieces = [self._cut(inputs[name], rows, count) for name in names]
        variables = self.model.variables
        seeds = [v for v in variables if v.name == "seed_generator_state"]
        weights = [v for v in variables if v.name != "seed_generator_state"]
        states = []
        for seed in seeds:
            # Another seed for each mini-batch, and other counts next time.
            numbers = ops.cast(ops.arange(count), seed.dtype)
            steps = ops.stack([numbers, ops.zeros_like(numbers)], axis=1)
            states.append(ops.convert_to_tensor(seed)[None] + steps)
            if training:
                seed.assign(
                    seed + ops.convert_to_tensor([0, _CALLS], seed.dtype)
                )

        def run(*arrays: Any) -> Any:
            # Whatever is read or drawn comes in from outside, so that it is
            # the same when it is computed again.
            values, arrays = arrays[: len(weights)], arrays[len(weights) :]
            drawn, arrays = arrays[: len(seeds)], arrays[len(seeds) :]
            mapping = zip([*weights, *seeds], [*values, *drawn], strict=True)
            with keras.StatelessScope(state_mapping=list(mapping)):
                part = dict(zip(names, arrays, strict=True))
                return self.model.call(part, training=training)

        again = keras.remat(run)
        values = [ops.convert_to_tensor(weight) for weight in weights]
        vectors = ops.map(lambda xs: again(*values, *xs), [*states, *pieces])
        return ops.reshape(vectors, (-1, vectors.shape[-1]))[:rows]

    def _cut(self, x: Any, rows: Any, count: Any) -> Any:
        """Rows (R, …) as mini-batches (count, size, …), filled with 0."""
        rest = ops.shape(x)[1:]
        missing = ops.zeros((count * self.size - rows, *rest), x.dtype)
        shape = (count, self.size, *rest)
        return ops.reshape(ops.concatenate([x, missing]), shape)

    def compute_output_spec(self, inputs, training=None):
        """Return (R, D) in the dtype of the model's output."""
        output = self.model.output
        rows = inputs[next(iter(self.model.input))].shape[0]
        return keras.KerasTensor((rows, *output.shape[1:]), output.dtype)

    def get_config(self):
        """Return the constructor's arguments."""
        model = keras.saving.serialize_keras_object(self.model)
        return {**super().get_config(), "model": model, "size": self.size}

    @classmethod
    def from_config(cls, config):
        """Return the layer of such a dict."""
        model = keras.saving.deserialize_keras_object(config["model"])
        return cls(**{**config, "model": model})
