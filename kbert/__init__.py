"""kbert: BERT-family text encoders for Keras 3."""

from kbert import families, layers
from kbert.config import EncoderConfig
from kbert.models import build_classifier, build_encoder, encoder_config
from kbert.version import __version__

__all__ = [
    "EncoderConfig",
    "__version__",
    "build_classifier",
    "build_encoder",
    "encoder_config",
    "families",
    "layers",
]
