"""From raw text to batches: tokenizer, readers and `*_dataset` functions."""

from kbert.data.chunks import chunked_dataset
from kbert.data.classification import classification_dataset
from kbert.data.columns import read_columns
from kbert.data.documents import read_documents
from kbert.data.masked_lm import masked_lm_dataset
from kbert.data.pretraining_records import write_pretraining_records
from kbert.data.records import read_records, write_records
from kbert.data.replaced_token import replaced_token_dataset
from kbert.data.sentences import split_sentences
from kbert.data.tokenizer import Tokenizer

__all__ = [
    "Tokenizer",
    "chunked_dataset",
    "classification_dataset",
    "masked_lm_dataset",
    "read_columns",
    "read_documents",
    "read_records",
    "replaced_token_dataset",
    "split_sentences",
    "write_pretraining_records",
    "write_records",
]
