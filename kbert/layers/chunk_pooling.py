"""One vector a document, from one vector a chunk."""

import keras
from keras import ops

from kbert.layers.composite import CompositeLayer

AGGREGATES = ("mean", "max", "attention")


@keras.saving.register_keras_serializable(package="kbert")
class ChunkPooling(CompositeLayer):
    """The mean, the maximum or a learned average over a document's chunks.

    A chunk of padding alone has no influence and gets no gradient.

    | `aggregate` | |
    |---|---|
    | "mean" | every chunk counts alike |
    | "max" | the largest value of each of the H numbers |
    | "attention" | weights `softmax(w · tanh(W x + b))` over the chunks |

    A fresh "attention" is the mean: `w` starts at 0.

    Args:
        aggregate: str, see above.
        attention_size: int, rows of `W`; read by "attention" alone.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        vectors: float (B, K, H), one a chunk.
        padding_mask: int or bool (B, K, S), 1 for a real token: a chunk
            counts that has one. None for no padding.

    Returns:
        Float (B, H) in the compute dtype; the arithmetic is float32. A
        document with no real chunk gets zeros.

    Raises:
        ValueError: if `aggregate` is unknown or `attention_size` under 1.

    Example:
        >>> import numpy as np, kbert
        >>> pooling = kbert.layers.ChunkPooling("mean")
        >>> vectors = np.array([[[2.0], [4.0], [9.0]]], "float32")
        >>> mask = np.array([[[1, 1], [1, 0], [0, 0]]])
        >>> float(pooling(vectors, mask)[0, 0])
        3.0

    References:
        Yang et al., 2016, https://aclanthology.org/N16-1174, section 2.2
        (attention); Sun et al., 2019, https://arxiv.org/abs/1905.05583,
        section 5.3.1 (all three, on BERT)
    """

    def __init__(
        self, aggregate: str = "mean", attention_size: int = 128, **kwargs
    ):
        """See the class."""
        super().__init__(**kwargs)
        if aggregate not in AGGREGATES:
            raise ValueError(
                f"`aggregate` must be one of {AGGREGATES}. Received: "
                f"aggregate={aggregate!r}"
            )
        if attention_size < 1:
            raise ValueError(
                "`attention_size` must be at least 1. Received: "
                f"attention_size={attention_size}"
            )
        self.aggregate = aggregate
        self.attention_size = attention_size
        self.dense = self.score = None
        if aggregate == "attention":
            self.dense = keras.layers.Dense(
                attention_size, activation="tanh", dtype="float32", name="dense"
            )
            self.score = keras.layers.Dense(
                1,
                use_bias=False,
                kernel_initializer="zeros",
                dtype="float32",
                name="score",
            )

    def build(self, vectors_shape, padding_mask_shape=None):
        """Create the kernels of "attention"; the first shape is (B, K, H)."""
        if self.dense is not None and self.score is not None:
            self.dense.build(vectors_shape)
            self.score.build((*vectors_shape[:-1], self.attention_size))

    def call(self, vectors, padding_mask=None):
        """See the class."""
        x = ops.cast(vectors, "float32")
        if padding_mask is None:
            real = ops.ones_like(x[:, :, :1])
        else:
            has_token = ops.any(ops.cast(padding_mask, "bool"), axis=2)
            real = ops.cast(has_token, "float32")[:, :, None]
        if self.aggregate == "max":
            return ops.cast(_maximum(x, real), self.compute_dtype)
        if self.dense is not None and self.score is not None:
            weights = _softmax(self.score(self.dense(x)), real)
        else:
            count = ops.maximum(ops.sum(real, axis=1, keepdims=True), 1.0)
            weights = real / count
        return ops.cast(ops.sum(x * weights, axis=1), self.compute_dtype)

    def compute_output_spec(self, vectors, padding_mask=None):
        """Return (B, H) in the compute dtype."""
        shape = (vectors.shape[0], vectors.shape[-1])
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self):
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "aggregate": self.aggregate,
            "attention_size": self.attention_size,
        }


def _maximum(x, real):
    """Largest values over axis 1 where `real` is 1; 0 where it never is."""
    # An infinity would make NaN of a row with no real chunk.
    low = ops.where(real > 0, x, -3e38)
    return ops.max(low, axis=1) * ops.max(real, axis=1)


def _softmax(scores, real):
    """Softmax over axis 1 where `real` is 1, and 0 elsewhere."""
    # Not Keras' own, which warns of documents of one chunk.
    scores = ops.where(real > 0, scores, -3e38)
    largest = ops.stop_gradient(ops.max(scores, axis=1, keepdims=True))
    weights = ops.exp(scores - largest) * real
    # At least 1 where a chunk is real.
    return weights / ops.maximum(ops.sum(weights, axis=1, keepdims=True), 1.0)
