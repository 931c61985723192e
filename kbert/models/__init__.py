"""Builders: functions that return plain functional Keras models."""

from kbert.models.adapt import freeze
from kbert.models.builders import (
    build_classifier,
    build_span_model,
    build_token_classifier,
)
from kbert.models.distiller import Distiller
from kbert.models.encoder import build_encoder
from kbert.models.initialize import initialize_from
from kbert.models.packed import build_packed
from kbert.models.pretraining import (
    build_masked_lm,
    build_pretrainer,
    build_replaced_token_detector,
)
from kbert.models.reading import encoder_config
from kbert.models.replaced_token import (
    build_replaced_token_pretrainer,
    discriminator_of,
    generator_of,
)

__all__ = [
    "Distiller",
    "build_classifier",
    "build_encoder",
    "build_masked_lm",
    "build_packed",
    "build_pretrainer",
    "build_replaced_token_detector",
    "build_replaced_token_pretrainer",
    "build_span_model",
    "build_token_classifier",
    "discriminator_of",
    "encoder_config",
    "freeze",
    "generator_of",
    "initialize_from",
]
