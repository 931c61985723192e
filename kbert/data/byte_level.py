"""RoBERTa's tokenizer: byte-pair encoding of bytes.

References:
    Radford et al. 2019, "Language Models are Unsupervised Multitask
    Learners", section 2.2; Liu et al. 2019, https://arxiv.org/abs/1907.11692.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from kbert.data.tokenizer_families import TokenizerFamily, add_special_tokens


def read_merges(path: str | os.PathLike) -> list[tuple[str, str]]:
    """Reads a `merges.txt`: two tokens a line, the most frequent pair first.

    Args:
        path: The file, in UTF-8. A first line `#version …` is no merge.

    Returns:
        The pairs of tokens.

    Raises:
        ValueError: The file is not UTF-8, or a line does not hold two tokens.
    """
    received = f"Received: path={os.fspath(path)!r}"
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Expected merges in UTF-8: {error}. {received}"
        ) from error
    merges = []
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line or line.startswith("#version"):
            continue
        left, _, right = line.partition(" ")
        if not left or not right or " " in right:
            raise ValueError(
                "Expected two tokens with a space between them in each line, "
                f"but line {number} is {line!r}. {received}"
            )
        merges.append((left, right))
    return merges


def byte_level_tokenizer(
    vocab: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    *,
    family: TokenizerFamily,
    special_tokens: Mapping[str, str],
    add_prefix_space: bool,
    trim_offsets: bool,
) -> tokenizers.Tokenizer:
    """Builds RoBERTa's tokenizer.

    Args:
        vocab: Token to id, checked.
        merges: Pairs of tokens, in the order in which they are joined.
        family: The family, for its template.
        special_tokens: The five special tokens, keyed as `SPECIAL_TOKENS`.
        add_prefix_space: Whether the first word is treated as one that
            follows a space.
        trim_offsets: Whether offsets leave out the space before a word.

    Returns:
        The Rust tokenizer, without truncation and padding.

    Raises:
        ValueError: A merge joins or gives a token that is not in `vocab`.
    """
    for left, right in merges:
        unknown = [t for t in (left, right, left + right) if t not in vocab]
        if unknown:
            raise ValueError(
                "Expected merges of tokens in the vocabulary, but it lacks "
                f"{unknown}. Received: merge={(left, right)!r}"
            )
    backend = tokenizers.Tokenizer(
        models.BPE(
            dict(vocab),
            list(merges),
            continuing_subword_prefix="",
            end_of_word_suffix="",
            fuse_unk=False,
        )
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=add_prefix_space
    )
    backend.decoder = decoders.ByteLevel()
    add_special_tokens(
        backend,
        family,
        special_tokens,
        trim_offsets=trim_offsets,
        add_prefix_space=add_prefix_space,
    )
    return backend
