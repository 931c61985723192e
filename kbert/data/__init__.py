"""From raw text to batches: tokenizer, readers and `*_dataset` functions."""

from kbert.data.classification import classification_dataset
from kbert.data.columns import read_columns
from kbert.data.records import read_records, write_records
from kbert.data.tokenizer import Tokenizer

__all__ = [
    "Tokenizer",
    "classification_dataset",
    "read_columns",
    "read_records",
    "write_records",
]
