"""kbert: BERT-family text encoders for Keras 3."""

from kbert.version import __version__

__all__ = ["__version__"]
