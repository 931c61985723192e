"""Layers: flat arguments, `keras.ops` only, usable in any Keras model."""

from kbert.layers.activations import gelu, gelu_tanh
from kbert.layers.chunk_pooling import ChunkPooling
from kbert.layers.chunks import MergeChunks, SplitChunks
from kbert.layers.classification_head import ClassificationHead
from kbert.layers.embedding import BertEmbedding
from kbert.layers.encoder_block import EncoderBlock
from kbert.layers.mini_batches import MiniBatches
from kbert.layers.mlm_head import MLMBias, MLMHead
from kbert.layers.pooler import Pooler
from kbert.layers.relative import RelativeBias, RelativeEmbedding
from kbert.layers.replaced_token_head import ReplacedTokenHead
from kbert.layers.replaced_token_sampler import ReplacedTokenSampler
from kbert.layers.self_attention import SelfAttention
from kbert.layers.sentence_head import SentenceHead
from kbert.layers.sentence_pooling import SentencePooling
from kbert.layers.span_head import SpanHead
from kbert.layers.token_classification_head import TokenClassificationHead

__all__ = [
    "BertEmbedding",
    "ChunkPooling",
    "ClassificationHead",
    "EncoderBlock",
    "MLMBias",
    "MLMHead",
    "MergeChunks",
    "MiniBatches",
    "Pooler",
    "RelativeBias",
    "RelativeEmbedding",
    "ReplacedTokenHead",
    "ReplacedTokenSampler",
    "SelfAttention",
    "SentenceHead",
    "SentencePooling",
    "SpanHead",
    "SplitChunks",
    "TokenClassificationHead",
    "gelu",
    "gelu_tanh",
]
