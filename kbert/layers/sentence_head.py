"""The last layer of a sentence encoder: its vectors, and how to use them."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")


@keras.saving.register_keras_serializable(package="kbert")
class SentenceHead(keras.layers.Layer):
    """Vectors of texts in float32, of unit length where asked.

    It also keeps what belongs to the vectors: saved with the model, read by
    `pipelines.Embedder`, without effect on the layer's output.

    Args:
        normalize: whether to give each vector length 1. A zero vector, that
            of an all-padding row, stays 0.
        similarity: how vectors are compared: "cosine", "dot", "euclidean" or
            "manhattan".
        prompts: name → what goes before a text, such as
            {"query": "query: "}.
        default_prompt_name: the prompt of texts for which none is named.
        max_length: most tokens in a text the model was trained with; None
            for as many as it has positions.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        vectors: float (B, D).

    Returns:
        Float32 (B, D).

    Raises:
        TypeError: if a prompt is no string.
        ValueError: if `similarity` or `default_prompt_name` is unknown.

    Example:
        >>> import numpy as np, kbert
        >>> head = kbert.layers.SentenceHead()
        >>> vectors = head(np.array([[3.0, 4.0]]))
        >>> [round(float(x), 3) for x in vectors[0]]
        [0.6, 0.8]

    References:
        `Normalize` in huggingface/sentence-transformers
    """

    def __init__(
        self,
        normalize: bool = True,
        similarity: str = "cosine",
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
        max_length: int | None = None,
        **kwargs,
    ):
        """See the class."""
        # Whatever the global policy: vectors are compared in float32.
        super().__init__(**{"dtype": "float32", **kwargs})
        if similarity not in SIMILARITIES:
            raise ValueError(
                f"`similarity` must be one of {SIMILARITIES}. Received: "
                f"similarity={similarity!r}"
            )
        self.normalize = normalize
        self.similarity = similarity
        self.prompts = check_prompts(prompts or {}, default_prompt_name)
        self.default_prompt_name = default_prompt_name
        self.max_length = max_length

    def build(self, vectors_shape):
        """There are no weights."""

    def call(self, vectors):
        """See the class."""
        vectors = ops.cast(vectors, "float32")
        if not self.normalize:
            return vectors
        # Scaled first, so that no square over- or underflows; the result
        # does not depend on the scale, so neither does its gradient.
        largest = ops.max(ops.abs(vectors), axis=-1, keepdims=True)
        largest = ops.stop_gradient(largest)
        scaled = vectors / ops.where(largest > 0, largest, 1.0)
        square = ops.sum(scaled * scaled, axis=-1, keepdims=True)
        return scaled * ops.rsqrt(ops.where(square > 0, square, 1.0))

    def compute_output_shape(self, vectors_shape):
        """Return (B, D)."""
        return vectors_shape

    def compute_output_spec(self, vectors):
        """Return the shape in float32, whatever comes in."""
        return keras.KerasTensor(vectors.shape, "float32")

    def get_config(self):
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "normalize": self.normalize,
            "similarity": self.similarity,
            "prompts": dict(self.prompts),
            "default_prompt_name": self.default_prompt_name,
            "max_length": self.max_length,
        }


def check_prompts(
    prompts: Mapping[str, str], default_prompt_name: str | None
) -> dict[str, Any]:
    """Return prompts as a dict.

    Raises:
        TypeError: if a name or a prompt is no string.
        ValueError: if there is no prompt of the default's name.
    """
    prompts = dict(prompts)
    if not all(isinstance(x, str) for x in (*prompts, *prompts.values())):
        raise TypeError(
            f"`prompts` must map strings to strings. Received: {prompts!r}"
        )
    if default_prompt_name not in (None, *prompts):
        raise ValueError(
            "`default_prompt_name` must be a name in `prompts`. Received: "
            f"default_prompt_name={default_prompt_name!r}, prompts={prompts!r}"
        )
    return prompts
