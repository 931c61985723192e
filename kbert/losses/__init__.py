"""Losses: float32, weighted means over the weights of all replicas."""

from kbert.losses.distillation import (
    DistillationLoss,
    HiddenStateLoss,
    RelationLoss,
)
from kbert.losses.masked_lm import MaskedLMLoss
from kbert.losses.next_sentence import NextSentenceLoss
from kbert.losses.replaced_token import ReplacedTokenLoss
from kbert.losses.span import SpanLoss
from kbert.losses.token_classification import TokenClassificationLoss

__all__ = [
    "DistillationLoss",
    "HiddenStateLoss",
    "MaskedLMLoss",
    "NextSentenceLoss",
    "RelationLoss",
    "ReplacedTokenLoss",
    "SpanLoss",
    "TokenClassificationLoss",
]
