"""The two ends of masked-language modelling; the table goes between them."""

import keras
from keras import ops

from kbert.layers.activations import get_activation
from kbert.layers.composite import CompositeLayer
from kbert.layers.initializers import truncated_normal


@keras.saving.register_keras_serializable(package="kbert")
class MLMHead(CompositeLayer):
    """Hidden states at the masked positions, made ready for the token table.

    Gathers first, so that everything after it, the projection to the
    vocabulary above all, sees P positions and not S. Then dense, activation,
    layer normalisation. The logits are
    `bias(embedding(head(x, mask_positions), reverse=True))`: the caller
    calls the embedding again, and the weights are tied.

    Args:
        hidden_size: int, width H of the input.
        embedding_size: int or None, width E of the token table if not H.
        activation: str, "gelu" (exact), "gelu_tanh", or a Keras name.
        layer_norm_epsilon: float.
        initializer_range: float, standard deviation of the initial kernel.
        has_bias: bool, whether the dense layer and the normalisation have a
            bias (not in ModernBERT).
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        sequence_output: float (B, S, H).
        mask_positions: int (B, P), each in [0, S), 0 in unused slots; None
            for every position in order, and then P is S.

    Returns:
        Float (B, P, E) in the compute dtype.

    Example:
        >>> import numpy as np, kbert
        >>> head = kbert.layers.MLMHead(hidden_size=8, embedding_size=4)
        >>> x = head(np.ones((2, 5, 8), "float32"), np.array([[1], [3]]))
        >>> tuple(x.shape)
        (2, 1, 4)

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 3.1;
        `get_masked_lm_output` in google-research/bert `run_pretraining.py`
    """

    def __init__(
        self,
        hidden_size: int,
        embedding_size: int | None = None,
        activation: str = "gelu",
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        has_bias: bool = True,
        **kwargs,
    ):
        """See the class."""
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.embedding_size = embedding_size
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.has_bias = has_bias
        self.dense = keras.layers.Dense(
            embedding_size or hidden_size,
            activation=get_activation(activation),
            use_bias=has_bias,
            kernel_initializer=truncated_normal(initializer_range),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.layer_norm = keras.layers.LayerNormalization(
            epsilon=layer_norm_epsilon,
            center=has_bias,
            dtype=self.dtype_policy,
            name="layer_norm",
        )

    def build(self, sequence_output_shape, mask_positions_shape=None):
        """Create the weights; the first shape is (B, S, H)."""
        self.dense.build(sequence_output_shape)
        self.layer_norm.build((*sequence_output_shape[:-1], self.dense.units))

    def call(self, sequence_output, mask_positions=None):
        """See the class."""
        x = sequence_output
        if mask_positions is not None:
            x = _gather_positions(x, mask_positions)
        return self.layer_norm(self.dense(x))

    def compute_output_shape(
        self, sequence_output_shape, mask_positions_shape=None
    ):
        """Return (B, P, E)."""
        rows = mask_positions_shape or sequence_output_shape[:-1]
        return (*rows, self.dense.units)

    def get_config(self):
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "hidden_size": self.hidden_size,
            "embedding_size": self.embedding_size,
            "activation": self.activation,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
            "has_bias": self.has_bias,
        }


def _gather_positions(x, positions):
    """Pick (B, P, H) from (B, S, H).

    One take from all rows laid end to end: on TensorFlow `take_along_axis`
    costs four times as much, forward and backward.
    """
    batch, length, _ = ops.shape(x)
    first = ops.arange(batch, dtype="int32") * length
    rows = ops.cast(positions, "int32") + ops.expand_dims(first, 1)
    return ops.take(ops.reshape(x, (-1, x.shape[-1])), rows, axis=0)


@keras.saving.register_keras_serializable(package="kbert")
class MLMBias(keras.layers.Layer):
    """The bias of each vocabulary entry, which the token table has not.

    Args:
        vocab_size: int, number V of entries.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        logits: float (..., V), of `embedding(x, reverse=True)`.

    Returns:
        Logits, float32 (..., V) under every dtype policy. The product with
        the table stays in the compute dtype: it is the largest of the model.

    Example:
        >>> import numpy as np, kbert
        >>> bias = kbert.layers.MLMBias(vocab_size=100)
        >>> tuple(bias(np.ones((2, 1, 100), "float32")).shape)
        (2, 1, 100)

    References:
        `get_masked_lm_output` in google-research/bert `run_pretraining.py`
    """

    def __init__(self, vocab_size: int, **kwargs):
        """See the class."""
        # Neither the bias nor logits that come in float32 are cast down.
        super().__init__(autocast=False, **kwargs)
        self.vocab_size = vocab_size

    def build(self, logits_shape):
        """Create the bias; the shape is (..., V)."""
        self.bias = self.add_weight(
            shape=(self.vocab_size,),
            initializer="zeros",
            dtype="float32",
            autocast=False,
            name="bias",
        )

    def call(self, logits):
        """See the class."""
        return ops.cast(logits, "float32") + self.bias

    def compute_output_spec(self, logits):
        """Return float32 (..., V)."""
        return keras.KerasTensor(logits.shape, dtype="float32")

    def get_config(self):
        """Return the constructor's arguments."""
        return {**super().get_config(), "vocab_size": self.vocab_size}
