"""Documents as rows of chunks, and back."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="kbert")
class MergeChunks(keras.layers.Layer):
    """The chunks of all documents as rows, which an encoder reads.

    Args:
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        chunks: any dtype (B, K, S): K chunks a document.

    Returns:
        The same values and dtype, (B · K, S): the chunks of the first
        document, then those of the second, ….

    Example:
        >>> import numpy as np, kbert
        >>> rows = kbert.layers.MergeChunks()(np.zeros((2, 3, 5), "int32"))
        >>> tuple(rows.shape)
        (6, 5)
    """

    def __init__(self, **kwargs):
        """See the class."""
        super().__init__(**kwargs)

    def build(self, chunks_shape):
        """There are no weights."""

    def call(self, chunks):
        """See the class."""
        return ops.reshape(chunks, (-1, ops.shape(chunks)[2]))

    def compute_output_spec(self, chunks):
        """Return (B · K, S) in the dtype given."""
        documents, count, length = chunks.shape
        rows = None
        if documents is not None and count is not None:
            rows = documents * count
        return keras.KerasTensor((rows, length), dtype=chunks.dtype)


@keras.saving.register_keras_serializable(package="kbert")
class SplitChunks(keras.layers.Layer):
    """One vector a chunk, put back to the documents: undoes `MergeChunks`.

    Args:
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        vectors: float (B · K, H).
        chunks: of any dtype (B, K, S), what `MergeChunks` was given. Only
            its shape is read.

    Returns:
        Float (B, K, H) in the dtype of `vectors`.

    Example:
        >>> import numpy as np, kbert
        >>> chunks = np.zeros((2, 3, 5), "int32")
        >>> vectors = np.zeros((6, 8), "float32")
        >>> tuple(kbert.layers.SplitChunks()(vectors, chunks).shape)
        (2, 3, 8)
    """

    def __init__(self, **kwargs):
        """See the class."""
        super().__init__(**kwargs)

    def build(self, vectors_shape, chunks_shape=None):
        """There are no weights."""

    def call(self, vectors, chunks):
        """See the class."""
        count, size = ops.shape(chunks)[1], vectors.shape[-1]
        return ops.reshape(vectors, (-1, count, size))

    def compute_output_spec(self, vectors, chunks):
        """Return (B, K, H) in the dtype given."""
        shape = (*chunks.shape[:2], vectors.shape[-1])
        return keras.KerasTensor(shape, dtype=vectors.dtype)
