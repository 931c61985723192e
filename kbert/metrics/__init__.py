"""Metrics: means over the tokens of a whole epoch, weights respected."""

from kbert.metrics.masked_lm import MaskedLMAccuracy, Perplexity
from kbert.metrics.next_sentence import NextSentenceAccuracy

__all__ = ["MaskedLMAccuracy", "NextSentenceAccuracy", "Perplexity"]
