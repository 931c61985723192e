"""What BERT's kernels and tables start from."""

import contextlib
import contextvars
from collections.abc import Iterator

import keras

_REPLACEMENT: contextvars.ContextVar[keras.initializers.Initializer | None] = (
    contextvars.ContextVar("replacement", default=None)
)


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """Return a new truncated normal, cut at two standard deviations.

    A new one for each weight: a Keras initializer draws the same values
    every time it is called.
    """
    replacement = _REPLACEMENT.get()
    if replacement is not None:
        return replacement
    return keras.initializers.TruncatedNormal(stddev=stddev)


@contextlib.contextmanager
def no_random_values(
    replacement: keras.initializers.Initializer | None = None,
) -> Iterator[None]:
    """Let weights built in this context start from something else, or zero.

    For loaders, which replace every one: drawing BERT-base's 110 million
    numbers takes longer than reading them.
    """
    token = _REPLACEMENT.set(replacement or keras.initializers.Zeros())
    try:
        yield
    finally:
        _REPLACEMENT.reset(token)
