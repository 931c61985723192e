"""Layers: flat arguments, `keras.ops` only, usable in any Keras model."""

from kbert.layers.activations import gelu, gelu_tanh
from kbert.layers.classification_head import ClassificationHead
from kbert.layers.embedding import BertEmbedding
from kbert.layers.encoder_block import EncoderBlock
from kbert.layers.pooler import Pooler
from kbert.layers.self_attention import SelfAttention

__all__ = [
    "BertEmbedding",
    "ClassificationHead",
    "EncoderBlock",
    "Pooler",
    "SelfAttention",
    "gelu",
    "gelu_tanh",
]
