"""Writes sequences for pretraining to files, for corpora beyond memory."""

import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from kbert.data.classification import check_max_length
from kbert.data.corpus import items_of
from kbert.data.masked_lm import pair_maker
from kbert.data.pretraining import make_segments
from kbert.data.record_rows import describe_sequences
from kbert.data.records import write_records
from kbert.data.segments import SegmentRows, Template
from kbert.data.texts import check_texts, short_repr
from kbert.data.tokenizer import Tokenizer

# Documents are tokenised and paired so many characters at a time. A random
# second segment comes from the same part, so it has some documents at least.
_CHUNK_CHARACTERS = 2**23
_CHUNK_DOCUMENTS = 8
# Sequences that are written out at once.
_BLOCK = 256


def write_pretraining_records(
    documents: Iterable[Any],
    directory: str | os.PathLike,
    *,
    tokenizer: Tokenizer,
    max_length: int,
    next_sentence: bool = False,
    sentence_order: bool = False,
    short_probability: float = 0.1,
    seed: int = 0,
    num_shards: int = 8,
    show_progress: bool = False,
) -> int:
    """Tokenise documents and write the sequences that a model is trained on.

    `masked_lm_dataset(read_records(directory), …)` masks them anew in every
    epoch. Documents are read once, some 8 million characters at a time, and
    memory does not grow with their number. The same documents give the same
    files. A run that was killed is repeated, see `write_records`; to use
    several processes or machines, give each a part of the documents and a
    directory of its own, and `read_records` all directories.

    Args:
        documents: lists of sentences, as `read_documents` yields them.
        directory: where to write; it must not exist, or be empty.
        tokenizer: of the model.
        max_length: most tokens in a sequence, special ones included.
        next_sentence: see `masked_lm_dataset`. The other document is one of
            the same 8 million characters.
        sentence_order: see `masked_lm_dataset`.
        short_probability: see `masked_lm_dataset`.
        seed: of the pairs.
        num_shards: how many files.
        show_progress: whether to show on standard error how many documents
            are done.

    Returns:
        How many sequences were written. Each record has `token_ids` (S,),
        special ones included, and `word_starts` (S,), 1 where a word begins;
        of pairs also `segment_ids` (S,) and `label`, 0 where B follows A.

    Raises:
        FileExistsError: if the directory has something in it.
        TypeError: if a document is no list of strings, or an option has the
            wrong type.
        ValueError: if there is no text, an option is out of range, or
            `next_sentence` has one document, or only documents of one
            sentence.

    Example:
        >>> import kbert
        >>> tokenizer = kbert.Tokenizer.from_vocab(
        ...     ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"])
        >>> kbert.data.write_pretraining_records(
        ...     [["good", "bad good"], ["bad"]], "sequences",
        ...     tokenizer=tokenizer, max_length=5)
        2
        >>> records = kbert.data.read_records("sequences")
        >>> records[0]["token_ids"].tolist()
        [2, 5, 6, 5, 3]
        >>> dataset = kbert.data.masked_lm_dataset(
        ...     records, tokenizer=tokenizer, batch_size=2, max_length=5)

    References:
        google-research/bert, `create_pretraining_data.py`
    """
    from tqdm import tqdm

    check_max_length(tokenizer, max_length)
    make_pairs = pair_maker(
        next_sentence=next_sentence,
        sentence_order=sentence_order,
        short_probability=short_probability,
    )
    template = Template.of(tokenizer)
    kind = "next_sentence" if next_sentence else None
    kind = "sentence_order" if sentence_order else kind

    def sequences() -> Iterator[dict[str, Any]]:
        with tqdm(
            items_of(documents, "documents"),
            unit=" documents",
            disable=not show_progress,
        ) as items:
            for number, chunk in enumerate(
                _chunks(items, _CHUNK_DOCUMENTS if next_sentence else 1)
            ):
                segments = make_segments(
                    chunk,
                    tokenizer,
                    template,
                    max_length=max_length,
                    make_pairs=make_pairs,
                    has_words=True,
                    copies=1,
                    seed=seed,
                    chunk=number,
                )
                yield from _examples(SegmentRows(segments, template))

    return write_records(
        sequences(),
        directory,
        num_shards=num_shards,
        metadata=describe_sequences(tokenizer, max_length, kind),
    )


def _chunks(documents: Iterable[Any], fewest: int) -> Iterator[list[list[str]]]:
    """Gather documents; what is left at the end goes into the last chunk."""
    ready: list[list[str]] = []
    chunk: list[list[str]] = []
    size = 0
    for index, document in enumerate(documents):
        if isinstance(document, str):
            raise TypeError(
                "Expected documents as lists of sentences; "
                "`split_sentences` makes one of a text, `read_documents` of "
                f"files. Received: {short_repr(document)} at {index}"
            )
        texts = check_texts(document, f"documents[{index}]")
        if not any(texts):
            continue
        chunk.append(texts)
        size += sum(map(len, texts))
        if size >= _CHUNK_CHARACTERS and len(chunk) >= fewest:
            if ready:
                yield ready
            ready, chunk, size = chunk, [], 0
    if ready or chunk:
        yield ready + chunk


def _examples(rows: SegmentRows) -> Iterator[dict[str, Any]]:
    """Write out sequences without padding."""
    for start in range(0, len(rows.lengths), _BLOCK):
        lengths = rows.lengths[start : start + _BLOCK]
        block = rows(start + np.arange(len(lengths)), int(lengths.max()))
        vectors: dict[str, Any] = {
            "token_ids": block.token_ids,
            "word_starts": block.word_starts,
        }
        if block.labels is not None:
            vectors["segment_ids"] = block.segment_ids
        for row, length in enumerate(lengths.tolist()):
            example = {name: v[row, :length] for name, v in vectors.items()}
            if block.labels is not None:
                example["label"] = block.labels[row]
            yield example
