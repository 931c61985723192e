"""What BERT's kernels and tables start from."""

import contextlib
import contextvars
from collections.abc import Iterator

import keras

_SKIPPED = contextvars.ContextVar("skipped", default=False)


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """Return a new truncated normal, cut at two standard deviations.

    A new one for each weight: a Keras initializer draws the same values
    every time it is called.
    """
    if _SKIPPED.get():
        return keras.initializers.Zeros()
    return keras.initializers.TruncatedNormal(stddev=stddev)


@contextlib.contextmanager
def no_random_values() -> Iterator[None]:
    """Let weights built in this context start at zero.

    For loaders, which replace every one: drawing BERT-base's 110 million
    numbers takes longer than reading them.
    """
    token = _SKIPPED.set(True)
    try:
        yield
    finally:
        _SKIPPED.reset(token)
