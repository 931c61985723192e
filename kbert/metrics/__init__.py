"""Metrics of a whole epoch: means over tokens, and correlations."""

from kbert.metrics.correlation import PearsonCorrelation, SpearmanCorrelation
from kbert.metrics.entities import entity_scores
from kbert.metrics.entity_f1 import EntityF1
from kbert.metrics.masked_lm import MaskedLMAccuracy, Perplexity
from kbert.metrics.matthews import MatthewsCorrelation
from kbert.metrics.next_sentence import NextSentenceAccuracy
from kbert.metrics.replaced_token import ReplacedTokenAccuracy
from kbert.metrics.span import SpanExactMatch, SpanF1
from kbert.metrics.squad import squad_scores
from kbert.metrics.token_accuracy import TokenAccuracy
from kbert.metrics.validation import ValidationMetrics

__all__ = [
    "EntityF1",
    "MaskedLMAccuracy",
    "MatthewsCorrelation",
    "NextSentenceAccuracy",
    "PearsonCorrelation",
    "Perplexity",
    "ReplacedTokenAccuracy",
    "SpanExactMatch",
    "SpanF1",
    "SpearmanCorrelation",
    "TokenAccuracy",
    "ValidationMetrics",
    "entity_scores",
    "squad_scores",
]
