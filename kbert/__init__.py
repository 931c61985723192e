"""kbert: BERT-family text encoders for Keras 3."""

from kbert import (
    data,
    families,
    layers,
    losses,
    metrics,
    optimizers,
    pipelines,
)
from kbert.config import EncoderConfig
from kbert.data.tokenizer import Tokenizer
from kbert.kerashub import from_keras_hub, to_keras_hub
from kbert.models import (
    Distiller,
    build_classifier,
    build_encoder,
    build_masked_lm,
    build_packed,
    build_pretrainer,
    build_replaced_token_detector,
    build_replaced_token_pretrainer,
    build_span_model,
    build_token_classifier,
    discriminator_of,
    encoder_config,
    freeze,
    generator_of,
    initialize_from,
)
from kbert.pretrained import (
    load_classifier,
    load_encoder,
    load_masked_lm,
    load_pretrainer,
    load_replaced_token_detector,
    load_span_model,
    load_token_classifier,
)
from kbert.saving import save_pretrained
from kbert.tf_saving import save_tf_checkpoint
from kbert.version import __version__

__all__ = [
    "Distiller",
    "EncoderConfig",
    "Tokenizer",
    "__version__",
    "build_classifier",
    "build_encoder",
    "build_masked_lm",
    "build_packed",
    "build_pretrainer",
    "build_replaced_token_detector",
    "build_replaced_token_pretrainer",
    "build_span_model",
    "build_token_classifier",
    "data",
    "discriminator_of",
    "encoder_config",
    "families",
    "freeze",
    "from_keras_hub",
    "generator_of",
    "initialize_from",
    "layers",
    "load_classifier",
    "load_encoder",
    "load_masked_lm",
    "load_pretrainer",
    "load_replaced_token_detector",
    "load_span_model",
    "load_token_classifier",
    "losses",
    "metrics",
    "optimizers",
    "pipelines",
    "save_pretrained",
    "save_tf_checkpoint",
    "to_keras_hub",
]
