"""Activations whose exact form matters to a checkpoint."""

import math
from collections.abc import Callable

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="kbert")
def gelu(x):
    """Gaussian error linear unit, the exact erf form BERT was trained with.

    Equal to `keras.activations.gelu`, but written through `erf`, which ONNX
    has, and not `erfc`, which it lacks.

    Args:
        x: float tensor of any shape.

    Returns:
        A tensor like `x`.

    Example:
        >>> import kbert
        >>> round(float(kbert.layers.gelu(1.0)), 4)
        0.8413

    References:
        Hendrycks & Gimpel, 2016, https://arxiv.org/abs/1606.08415
    """
    return 0.5 * x * (1.0 + ops.erf(x * (1.0 / math.sqrt(2.0))))


@keras.saving.register_keras_serializable(package="kbert")
def gelu_tanh(x):
    """The tanh approximation of `gelu` (about 1e-3 off), as ALBERT uses it.

    Args:
        x: float tensor of any shape.

    Returns:
        A tensor like `x`.

    Example:
        >>> import kbert
        >>> round(float(kbert.layers.gelu_tanh(1.0)), 4)
        0.8412
    """
    return ops.gelu(x, approximate=True)


def get_activation(activation: str | Callable) -> Callable:
    """Return the function behind an activation's name.

    "gelu" is always the exact form and "gelu_tanh" the approximation; any
    other name, or a function, goes to `keras.activations.get`.
    """
    own = {"gelu": gelu, "gelu_tanh": gelu_tanh}
    if isinstance(activation, str) and activation in own:
        return own[activation]
    return keras.activations.get(activation)


def activation_name(activation: Callable) -> str:
    """Return the name that `get_activation` has for a function."""
    if activation in (gelu, keras.activations.gelu):
        return "gelu"
    return "gelu_tanh" if activation is gelu_tanh else activation.__name__
