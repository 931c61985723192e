"""From queries and keys to the weights of attention."""

import keras
from keras import ops

# Finite in float32, where scores are masked: a fully masked row softens to
# equal weights and never to NaN.
_MASKED_SCORE = -1e30


def softened_scores(query, key, mask, bias, scale: float):
    """Return the weight of every key for every query.

    Args:
        query: float (B, T, N, D).
        key: float (B, S, N, D).
        mask: bool, broadcastable to (B, N, T, S), or None.
        bias: float, likewise, added to the scores; or None.
        scale: of the products of queries and keys.

    Returns:
        Float32 (B, N, T, S), each row of sum 1.
    """
    scores = ops.einsum("btnd,bsnd->bnts", query * scale, key)
    scores = ops.cast(scores, "float32")
    if bias is not None:
        scores = scores + ops.cast(bias, "float32")
    if mask is not None:
        scores = ops.where(mask, scores, _MASKED_SCORE)
    # Keras warns of a softmax over one thing, as one token's is.
    if scores.shape[-1] == 1:
        return ops.ones_like(scores)
    return ops.softmax(scores, axis=-1)


def use_flash() -> bool | None:
    """Return False on a TPU, None (let Keras choose) elsewhere.

    Keras 3.15's automatic choice computed unscaled, causal attention on an
    emulated TPU.
    """
    if keras.backend.backend() != "jax":
        return None
    devices = keras.distribution.list_devices()
    return False if any("tpu" in device for device in devices) else None
