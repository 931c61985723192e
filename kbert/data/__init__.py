"""From raw text to batches: tokenizer and `*_dataset` functions."""

from kbert.data.classification import classification_dataset
from kbert.data.tokenizer import Tokenizer

__all__ = ["Tokenizer", "classification_dataset"]
