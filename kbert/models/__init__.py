"""Builders: functions that return plain functional Keras models."""

from kbert.models.adapt import freeze
from kbert.models.attention import attention_weights
from kbert.models.builders import (
    build_classifier,
    build_span_model,
    build_token_classifier,
)
from kbert.models.chunked import build_chunked_classifier
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
from kbert.models.sentence import (
    build_pair_encoder,
    build_sentence_encoder,
    is_sentence_encoder,
    sentence_layers,
)

__all__ = [
    "Distiller",
    "attention_weights",
    "build_chunked_classifier",
    "build_classifier",
    "build_encoder",
    "build_masked_lm",
    "build_packed",
    "build_pair_encoder",
    "build_pretrainer",
    "build_replaced_token_detector",
    "build_replaced_token_pretrainer",
    "build_sentence_encoder",
    "build_span_model",
    "build_token_classifier",
    "discriminator_of",
    "encoder_config",
    "freeze",
    "generator_of",
    "initialize_from",
    "is_sentence_encoder",
    "sentence_layers",
]
