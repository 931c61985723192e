"""Sequences for pretraining that are kept in record files."""

import hashlib
import json
from typing import Any

import numpy as np

from kbert.data.records import Records
from kbert.data.segments import Rows
from kbert.data.texts import short_repr
from kbert.data.tokenizer import Tokenizer

_KIND = "kbert pretraining sequences"
# What tokenizers of one vocabulary may do in different ways: case, accents,
# Chinese, punctuation, spaces, marks that are not shown.
_PROBE = "Tokenizers DIFFER: naïve Ⅷ 東京 don't re-do  x\u00adyz\u200b 3.14 ﬁn"


def describe_sequences(
    tokenizer: Tokenizer, max_length: int, pairs: str | None
) -> dict[str, Any]:
    """Return the metadata of records.

    Args:
        tokenizer: what made the tokens.
        max_length: most tokens of a sequence.
        pairs: how pairs were made, None for sequences of one segment.
    """
    return {
        "kind": _KIND,
        "max_length": max_length,
        "pairs": pairs,
        "vocab_size": tokenizer.vocab_size,
        "special_token_ids": list(tokenizer.special_token_ids),
        "tokenizer_sha256": _checksum(tokenizer),
    }


def _checksum(tokenizer: Tokenizer) -> str:
    """Return a checksum of what a tokenizer does.

    Not of its JSON file, which other versions of the library may write in
    another way.
    """
    facts = [
        sorted(tokenizer.get_vocab().items()),
        sorted(tokenizer.special_tokens.items()),
        tokenizer.encode(_PROBE, _PROBE.upper()).ids,
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


class RecordRows:
    """Reads sequences and writes them out, as `SegmentRows` does.

    Args:
        records: what `write_pretraining_records` wrote.
        tokenizer: of the model.
        max_length: most tokens that a sequence may have.
        has_words: whether to read where words start.
        copies: how often each is there, with masks of its own.

    Raises:
        ValueError: if they are other records, another tokenizer made them,
            they are longer, or come shuffled or from some record on.
    """

    def __init__(
        self,
        records: Records,
        tokenizer: Tokenizer,
        *,
        max_length: int,
        has_words: bool,
        copies: int,
    ):
        """See the class."""
        metadata = records.metadata
        if metadata.get("kind") != _KIND:
            raise ValueError(
                "Expected records that `write_pretraining_records` wrote. "
                f"Received: records with metadata={short_repr(metadata)}"
            )
        for name, value in describe_sequences(
            tokenizer, metadata["max_length"], metadata["pairs"]
        ).items():
            if metadata[name] != value:
                raise ValueError(
                    "Expected the tokenizer that the records were made with, "
                    f"whose {name} is {metadata[name]}. Received: "
                    f"{tokenizer!r}, whose {name} is {value}"
                )
        if metadata["max_length"] > max_length:
            raise ValueError(
                f"The records have up to {metadata['max_length']} tokens. "
                f"Received: max_length={max_length}"
            )
        if records.shuffle or records.start:
            raise ValueError(
                "Order and place are the data set's: pass `shuffle` and "
                "`start_step` to it, not to `read_records`. Received: records "
                f"with shuffle={records.shuffle}, start={records.start}"
            )
        self.is_pair = metadata["pairs"] is not None
        self.lengths = np.tile(records.lengths, copies)
        self._records = records
        self._has_words = has_words
        self.pad_token_id = tokenizer.pad_token_id

    def __call__(self, indices: np.ndarray, length: int) -> Rows:
        """Return rows of the sequences `indices`, padded to `length`."""
        records = self._records
        copies, places = np.divmod(indices, len(records))
        shape = (len(indices), length)
        token_ids = np.full(shape, self.pad_token_id, np.int32)
        segment_ids = np.zeros(shape, np.int32)
        word_starts = np.zeros(shape, bool)
        labels = np.zeros(len(indices), np.int32)
        for row, place in enumerate(places.tolist()):
            record = records[place]
            size = len(record["token_ids"])
            token_ids[row, :size] = record["token_ids"]
            if self._has_words:
                word_starts[row, :size] = record["word_starts"]
            if self.is_pair:
                segment_ids[row, :size] = record["segment_ids"]
                labels[row] = record["label"]
        numbers = records.numbers.start + places * records.numbers.step
        return Rows(
            token_ids,
            segment_ids,
            (np.arange(length) < self.lengths[indices, None]).astype(np.int32),
            word_starts if self._has_words else None,
            labels if self.is_pair else None,
            numbers + copies * records.total,
        )
