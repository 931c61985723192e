"""Metrics: means over the tokens of a whole epoch, weights respected."""

from kbert.metrics.masked_lm import MaskedLMAccuracy, Perplexity
from kbert.metrics.next_sentence import NextSentenceAccuracy
from kbert.metrics.replaced_token import ReplacedTokenAccuracy

__all__ = [
    "MaskedLMAccuracy",
    "NextSentenceAccuracy",
    "Perplexity",
    "ReplacedTokenAccuracy",
]
