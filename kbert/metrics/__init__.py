"""Metrics of a whole epoch: means over tokens, and correlations."""

from kbert.metrics.correlation import PearsonCorrelation, SpearmanCorrelation
from kbert.metrics.masked_lm import MaskedLMAccuracy, Perplexity
from kbert.metrics.matthews import MatthewsCorrelation
from kbert.metrics.next_sentence import NextSentenceAccuracy
from kbert.metrics.replaced_token import ReplacedTokenAccuracy

__all__ = [
    "MaskedLMAccuracy",
    "MatthewsCorrelation",
    "NextSentenceAccuracy",
    "PearsonCorrelation",
    "Perplexity",
    "ReplacedTokenAccuracy",
    "SpearmanCorrelation",
]
