"""What BERT's kernels and tables start from."""

import keras


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """Return a new truncated normal, cut at two standard deviations.

    A new one for each weight: a Keras initializer draws the same values
    every time it is called.
    """
    return keras.initializers.TruncatedNormal(stddev=stddev)
