"""What the heads share: their last projection and checks of arguments."""

from collections.abc import Sequence
from numbers import Integral

import keras

from kbert.layers.initializers import truncated_normal


def logits_layer(units: int, initializer_range: float) -> keras.layers.Dense:
    """Return a new linear layer named "logits", float32 under every policy.

    It is tiny, and a bfloat16 logit has three significant digits.
    """
    return keras.layers.Dense(
        units,
        kernel_initializer=truncated_normal(initializer_range),
        dtype="float32",
        name="logits",
    )


def check_classes(num_classes: int, label_names: Sequence[str] | None) -> None:
    """Refuse a number of classes that is none, and names that do not fit.

    Raises:
        TypeError: if `num_classes` is no int or a name no string.
        ValueError: if `num_classes` is under 1, or `label_names` does not
            hold `num_classes` different names.
    """
    # `Integral` lets numpy's integers in, which `labels.max() + 1` gives.
    if isinstance(num_classes, bool) or not isinstance(num_classes, Integral):
        raise TypeError(
            "`num_classes` must be an int. Received: "
            f"num_classes={num_classes!r}"
        )
    if num_classes < 1:
        raise ValueError(
            "`num_classes` must be at least 1. Received: "
            f"num_classes={num_classes}"
        )
    if label_names is None:
        return
    if isinstance(label_names, str) or not all(
        isinstance(name, str) for name in label_names
    ):
        raise TypeError(
            "`label_names` must be a list of strings. Received: "
            f"label_names={label_names!r}"
        )
    if not len(set(label_names)) == len(label_names) == num_classes:
        raise ValueError(
            f"`label_names` must hold {num_classes} different names, one a "
            f"class. Received: label_names={list(label_names)!r}"
        )
