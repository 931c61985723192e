"""Batches of texts through the Rust tokenizer, to objects or to arrays."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any

import numpy as np
import tokenizers

from kbert.data.texts import Texts, check_texts, check_words, pair_up
from kbert.data.truncation import (
    check_room,
    check_truncation,
    tokens_to_keep,
)

# Texts handed to the Rust side at once: enough for its threads, and few enough
# that the Encoding objects, some kilobytes each, do not pile up.
_CHUNK = 2048


@dataclass(frozen=True)
class EncodedTexts:
    """Token ids of N texts or pairs, end to end.

    Attributes:
        ids: int32 array (sum of lengths,), special tokens included.
        type_ids: int32 array of the same shape: 0 in the first text of a
            pair, 1 in the second.
        lengths: int64 array (N,), the number of tokens of each.
        num_truncated: How many of the N were cut.
    """

    ids: np.ndarray
    type_ids: np.ndarray
    lengths: np.ndarray
    num_truncated: int


class Encoder:
    """A Rust tokenizer that several threads can use at once.

    `kbert.Tokenizer` documents the arguments of its methods.

    Args:
        backend: The Rust tokenizer. Its truncation and padding are switched
            off, and it must not be used elsewhere.
    """

    def __init__(self, backend: tokenizers.Tokenizer):
        """Takes over the tokenizer."""
        backend.no_padding()
        backend.no_truncation()
        self.backend = backend
        # Truncation is a setting of the Rust object, so whoever encodes holds
        # this lock from setting it until the result is there.
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the lock, which can be neither pickled nor copied."""
        return {"backend": self.backend}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Makes a new lock."""
        self.__init__(state["backend"])

    def encode_batch(
        self,
        texts: Texts,
        pairs: Texts | None,
        *,
        max_length: int | None,
        truncation: str,
        overlap: int,
        add_special_tokens: bool,
        is_split_into_words: bool,
    ) -> list[tokenizers.Encoding]:
        """Encodes texts or pairs to N objects of the Rust library."""
        check = check_words if is_split_into_words else check_texts
        inputs = pair_up(
            check(texts, "texts"),
            None if pairs is None else check(pairs, "pairs"),
        )
        num_special = add_special_tokens * self._num_special(pairs)
        # Of windows, the Rust side takes off the special tokens of a single
        # text even where none are added.
        reserved = self._num_special(None) if overlap else 0
        max_length, truncation = check_truncation(
            max_length,
            truncation,
            overlap,
            pairs is not None,
            max(num_special, reserved),
        )
        settings = None
        if max_length is not None:
            settings = {
                "max_length": max_length,
                "strategy": truncation,
                "stride": overlap,
            }
            if truncation != "longest_first":
                self._check_rooms(
                    inputs,
                    max_length - num_special,
                    truncation,
                    overlap,
                    is_split_into_words,
                )
        return self._run(
            inputs,
            settings=settings,
            add_special_tokens=add_special_tokens,
            is_pretokenized=is_split_into_words,
        )

    def encode_ids(
        self,
        texts: Texts,
        pairs: Texts | None,
        *,
        max_length: int | None,
        truncation: str,
    ) -> EncodedTexts:
        """Encodes texts or pairs to arrays."""
        inputs = pair_up(
            check_texts(texts, "texts"),
            None if pairs is None else check_texts(pairs, "pairs"),
        )
        max_length, truncation = check_truncation(
            max_length,
            truncation,
            0,
            pairs is not None,
            self._num_special(pairs),
        )
        # Types of single texts are not worth reading where all are 0.
        has_types = pairs is not None or any(self._run([""])[0].type_ids)
        ids, type_ids = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        lengths = np.zeros(len(inputs), np.int64)
        num_truncated = 0
        for start in range(0, len(inputs), _CHUNK):
            chunk = self._run(inputs[start : start + _CHUNK], is_fast=True)
            rows = [encoding.ids for encoding in chunk]
            types = [e.type_ids for e in chunk] if has_types else []
            for index, encoding in enumerate(chunk):
                if max_length is None or len(rows[index]) <= max_length:
                    continue
                # Cut here and not by the Rust side, which keeps what it cuts
                # off: of a pair in all combinations, by the square of the
                # lengths.
                keep = tokens_to_keep(
                    encoding.sequence_ids, max_length, truncation, start + index
                )
                rows[index] = list(compress(rows[index], keep))
                if has_types:
                    types[index] = list(compress(types[index], keep))
                num_truncated += 1
            sizes = [len(row) for row in rows]
            lengths[start : start + len(rows)] = sizes
            ids.append(_flatten(rows, sum(sizes)))
            if has_types:
                type_ids.append(_flatten(types, sum(sizes)))
        flat = np.concatenate(ids)
        return EncodedTexts(
            ids=flat,
            type_ids=(
                np.concatenate(type_ids) if has_types else np.zeros_like(flat)
            ),
            lengths=lengths,
            num_truncated=num_truncated,
        )

    def rules(self) -> str:
        """Returns the JSON text of the tokenizer, without truncation."""
        with self._lock:
            self.backend.no_truncation()
            return self.backend.to_str(pretty=True)

    def _num_special(self, pairs: Texts | None) -> int:
        """Returns how many special tokens a text or pair gets."""
        return self.backend.num_special_tokens_to_add(pairs is not None)

    def _run(
        self,
        inputs: list,
        *,
        settings: dict[str, Any] | None = None,
        is_fast: bool = False,
        add_special_tokens: bool = True,
        is_pretokenized: bool = False,
    ) -> list[tokenizers.Encoding]:
        """Encodes checked texts or pairs; `is_fast` leaves out the offsets."""
        backend = self.backend
        encode = backend.encode_batch_fast if is_fast else backend.encode_batch
        with self._lock:
            if settings is None:
                backend.no_truncation()
            else:
                backend.enable_truncation(**settings)
            return encode(
                inputs,
                is_pretokenized=is_pretokenized,
                add_special_tokens=add_special_tokens,
            )

    def _check_rooms(
        self,
        inputs: list[tuple],
        room: int,
        truncation: str,
        overlap: int,
        is_pretokenized: bool,
    ) -> None:
        """Checks every pair of which one text must stay whole.

        The Rust side fails without saying where, or panics, if the text that
        stays whole is too long.
        """

        def sizes(texts: list) -> list[int]:
            encodings = self._run(
                texts,
                is_fast=True,
                add_special_tokens=False,
                is_pretokenized=is_pretokenized,
            )
            return [len(encoding) for encoding in encodings]

        whole = 1 if truncation == "only_first" else 0
        for index, size in enumerate(sizes([pair[whole] for pair in inputs])):
            if room - size <= overlap:
                check_room(
                    sizes(list(inputs[index])), room, truncation, overlap, index
                )


def flatten(encodings: Sequence[tokenizers.Encoding]) -> EncodedTexts:
    """Returns N encodings of `Tokenizer.encode_batch` as arrays."""
    rows = [encoding.ids for encoding in encodings]
    types = [encoding.type_ids for encoding in encodings]
    sizes = [len(row) for row in rows]
    return EncodedTexts(
        ids=_flatten(rows, sum(sizes)),
        type_ids=_flatten(types, sum(sizes)),
        lengths=np.array(sizes, np.int64),
        num_truncated=sum(bool(e.overflowing) for e in encodings),
    )


def _flatten(rows: list[list[int]], size: int) -> np.ndarray:
    """Returns rows of ids end to end, int32."""
    return np.fromiter(chain.from_iterable(rows), np.int32, size)
