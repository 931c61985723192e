"""Word-piece vocabularies, and the Rust tokenizers built from them.

References:
    Devlin et al. 2018, https://arxiv.org/abs/1810.04805;
    google-research/bert, tokenization.py, for the rules.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from kbert.data.texts import short_repr
from kbert.data.tokenizer_families import TokenizerFamily, add_special_tokens

# The longest word in code points, as transformers and the published files have
# it; google-research/bert was at 100 first and 200 later.
MAX_WORD_LENGTH = 100


def read_vocab(path: str | os.PathLike) -> list[str]:
    """Reads a `vocab.txt`: one token a line, the line number its id.

    Lines end at a newline and nothing else, because tokens may hold
    characters that `str.splitlines` and `str.strip` take for white space
    (U+2028, U+0085, U+3000), and a line lost shifts every later id. A
    carriage return before the newline goes, and so do empty lines at the end.

    Args:
        path: The file, in UTF-8.

    Returns:
        The tokens in the order of their ids.

    Raises:
        ValueError: The file is not UTF-8.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Expected a vocabulary in UTF-8: {error}. Received: vocab={path!r}"
        ) from error
    tokens = [line.removesuffix("\r") for line in text.split("\n")]
    while tokens and not tokens[-1]:
        tokens.pop()
    return tokens


def check_vocab(
    vocab: str | os.PathLike | Sequence[str] | Mapping[str, int],
    needed: Sequence[str],
) -> dict[str, int]:
    """Turns a vocabulary of any accepted form into a dict, and checks it.

    Args:
        vocab: Path of a `vocab.txt`, list of tokens or dict of token to id.
        needed: Tokens that must be in it.

    Returns:
        Token to id, in the order of the ids, which are 0 … size - 1.

    Raises:
        TypeError: `vocab` has no accepted form, a token is no string or an
            id no integer.
        ValueError: The vocabulary is empty, repeats a token, leaves out an
            id or lacks a needed token.
    """
    received = f"Received: vocab={short_repr(vocab)}"
    if isinstance(vocab, Mapping):
        if not all(isinstance(token_id, int) for token_id in vocab.values()):
            raise TypeError(f"Expected ids to be integers. {received}")
        tokens = sorted(vocab, key=lambda token: vocab[token])
        ids = [vocab[token] for token in tokens]
        if ids != list(range(len(ids))):
            due = next(i for i, token_id in enumerate(ids) if token_id != i)
            raise ValueError(
                "Expected ids from 0 on without gaps or repeats, but "
                f"{tokens[due]!r} has {ids[due]!r} where {due} is due. "
                f"{received}"
            )
    elif isinstance(vocab, (str, os.PathLike)):
        tokens = read_vocab(vocab)
    elif isinstance(vocab, Sequence):
        tokens = list(vocab)
    else:
        raise TypeError(
            "Expected the path of a vocab.txt, a list of tokens or a dict of "
            f"token to id. {received}"
        )
    if not tokens:
        raise ValueError(f"Expected a vocabulary with tokens in it. {received}")
    _check_tokens(tokens, received)
    checked = {token: index for index, token in enumerate(tokens)}
    missing = [token for token in needed if token not in checked]
    if missing:
        raise ValueError(
            f"Expected {missing} in the vocabulary of {len(tokens)} tokens. "
            f"{received}"
        )
    return checked


def _check_tokens(tokens: list[str], received: str) -> None:
    """Refuses tokens that are no strings, repeated, or break a line."""
    for index, token in enumerate(tokens):
        if not isinstance(token, str):
            raise TypeError(
                f"Expected tokens to be strings, but token {index} is "
                f"{token!r}. {received}"
            )
        if "\n" in token or token.endswith("\r"):
            raise ValueError(
                "Expected tokens that a line of vocab.txt can hold, but token "
                f"{index} is {token!r}. {received}"
            )
    repeated = [token for token, n in Counter(tokens).items() if n > 1]
    if repeated:
        raise ValueError(
            f"Expected each token once, but these come again: {repeated[:5]}. "
            f"{received}"
        )


def wordpiece_tokenizer(
    vocab: Mapping[str, int],
    *,
    family: TokenizerFamily,
    lowercase: bool,
    strip_accents: bool | None,
    split_chinese: bool,
    never_split: Sequence[str],
    max_word_length: int,
    special_tokens: Mapping[str, str],
) -> tokenizers.Tokenizer:
    """Builds a word-piece tokenizer from a checked vocabulary.

    Args:
        vocab: Token to id.
        family: The family, for its template.
        lowercase: Whether to lower-case.
        strip_accents: Whether to strip accents; None means iff lower-casing.
        split_chinese: Whether each CJK ideograph is a word.
        never_split: Tokens found before normalisation, as whole words.
        max_word_length: Longest word in code points; longer ones are unknown.
        special_tokens: The five special tokens, keyed as `SPECIAL_TOKENS`.

    Returns:
        The Rust tokenizer, without truncation and padding.
    """
    backend = tokenizers.Tokenizer(
        models.WordPiece(
            dict(vocab),
            unk_token=special_tokens["unk_token"],
            max_input_chars_per_word=max_word_length,
        )
    )
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=split_chinese,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    add_special_tokens(backend, family, special_tokens)
    backend.add_tokens(
        [
            tokenizers.AddedToken(token, normalized=False, single_word=True)
            for token in never_split
        ]
    )
    return backend


def is_plain_bert(backend: tokenizers.Tokenizer) -> bool:
    """Whether a vocabulary and BERT's switches describe a tokenizer.

    Args:
        backend: The Rust tokenizer. Its template is not looked at.

    Returns:
        True if `wordpiece_tokenizer` can build the same word pieces.
    """
    normalizer, model = backend.normalizer, backend.model
    return (
        isinstance(normalizer, normalizers.BertNormalizer)
        and normalizer.clean_text
        and isinstance(backend.pre_tokenizer, pre_tokenizers.BertPreTokenizer)
        and isinstance(model, models.WordPiece)
        and model.continuing_subword_prefix == "##"
        and model.max_input_chars_per_word == MAX_WORD_LENGTH
    )
