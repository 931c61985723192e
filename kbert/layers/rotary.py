"""Rotary position embeddings."""

import math

from keras import ops


def rotate(x, base: float):
    """Turn each pair of numbers of a head by an angle that grows with place.

    Number `i` of a head makes a pair with number `i + D/2`; the token at
    position p turns it by `p · base^(-2i/D)`. The product of a turned query
    and a turned key depends on the distance of their tokens.

    Args:
        x: float (B, S, N, D), D even.
        base: float; the larger, the slower the later pairs turn.

    Returns:
        A tensor like `x`. Angles are float32 whatever its dtype.

    References:
        Su et al., 2021, https://arxiv.org/abs/2104.09864; halves as in
        EleutherAI/gpt-neox, which checkpoints follow
    """
    half = x.shape[-1] // 2
    exponents = ops.arange(half, dtype="float32") / half
    speeds = ops.exp(-math.log(base) * exponents)
    places = ops.cast(ops.arange(ops.shape(x)[1]), "float32")
    angles = ops.expand_dims(places, -1) * speeds  # (S, D/2)
    cos, sin = ops.cos(angles)[:, None, :], ops.sin(angles)[:, None, :]
    first = ops.cast(x[..., :half], "float32")
    second = ops.cast(x[..., half:], "float32")
    turned = ops.concatenate(
        [first * cos - second * sin, second * cos + first * sin], axis=-1
    )
    return ops.cast(turned, x.dtype)
