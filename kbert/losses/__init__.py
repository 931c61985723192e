"""Losses: float32, weighted means over the weights of all replicas."""

from kbert.losses.distillation import (
    DistillationLoss,
    HiddenStateLoss,
    RelationLoss,
)
from kbert.losses.masked_lm import MaskedLMLoss
from kbert.losses.matryoshka import MatryoshkaLoss
from kbert.losses.next_sentence import NextSentenceLoss
from kbert.losses.ranking import MultipleNegativesRankingLoss
from kbert.losses.replaced_token import ReplacedTokenLoss
from kbert.losses.similarity import CoSENTLoss, CosineSimilarityLoss
from kbert.losses.span import SpanLoss
from kbert.losses.token_classification import TokenClassificationLoss
from kbert.losses.triplet import TripletLoss

__all__ = [
    "CoSENTLoss",
    "CosineSimilarityLoss",
    "DistillationLoss",
    "HiddenStateLoss",
    "MaskedLMLoss",
    "MatryoshkaLoss",
    "MultipleNegativesRankingLoss",
    "NextSentenceLoss",
    "RelationLoss",
    "ReplacedTokenLoss",
    "SpanLoss",
    "TokenClassificationLoss",
    "TripletLoss",
]
