"""Builders: functions that return plain functional Keras models."""

from kbert.models.adapt import freeze
from kbert.models.builders import build_classifier
from kbert.models.encoder import build_encoder, encoder_config

__all__ = ["build_classifier", "build_encoder", "encoder_config", "freeze"]
