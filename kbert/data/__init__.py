"""From raw text to batches: tokenizer, readers and `*_dataset` functions."""

from kbert.data.chunks import chunked_dataset
from kbert.data.classification import classification_dataset
from kbert.data.columns import read_columns
from kbert.data.conll import read_conll
from kbert.data.documents import read_documents
from kbert.data.masked_lm import masked_lm_dataset
from kbert.data.pretraining_records import write_pretraining_records
from kbert.data.records import read_records, write_records
from kbert.data.replaced_token import replaced_token_dataset
from kbert.data.sentence_pairs import sentence_pair_dataset
from kbert.data.sentences import split_sentences
from kbert.data.span_example import SpanExample
from kbert.data.spans import span_dataset
from kbert.data.squad import read_squad
from kbert.data.tags import convert_tags, tag_names
from kbert.data.token_classification import token_classification_dataset
from kbert.data.tokenizer import Tokenizer

__all__ = [
    "SpanExample",
    "Tokenizer",
    "chunked_dataset",
    "classification_dataset",
    "convert_tags",
    "masked_lm_dataset",
    "read_columns",
    "read_conll",
    "read_documents",
    "read_records",
    "read_squad",
    "replaced_token_dataset",
    "sentence_pair_dataset",
    "span_dataset",
    "split_sentences",
    "tag_names",
    "token_classification_dataset",
    "write_pretraining_records",
    "write_records",
]
