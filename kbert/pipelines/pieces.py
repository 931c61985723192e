"""Pieces of a vocabulary and the words of a text, each from the other."""

from collections.abc import Sequence

import tokenizers
from tokenizers import models

from kbert.data.texts import short_repr
from kbert.data.tokenizer import Tokenizer


def piece_text(tokenizer: Tokenizer, token: str) -> str:
    """Return a piece as it is written in a text.

    Args:
        tokenizer: whose vocabulary it is of.
        token: the piece, as the vocabulary has it.

    Returns:
        The text, with a space in front if the piece itself says that it
        follows one, as byte-level and SentencePiece vocabularies do. A piece
        that holds a part of a character's bytes gives "�".
    """
    model = tokenizer.backend.model
    if isinstance(model, models.WordPiece):
        return token.removeprefix(model.continuing_subword_prefix)
    decoder = tokenizer.backend.decoder
    if decoder is None:
        return token
    # Decoders drop the space of a first piece, so it comes second.
    return decoder.decode(["x", token])[1:]


def word_ids(
    tokenizer: Tokenizer, words: Sequence[str], before: str
) -> list[int]:
    """Find the tokens that words are at one place of a text.

    A vocabulary may hold a word twice: as it follows a space, and as it goes
    on from a letter or a bracket.

    Args:
        tokenizer: whose vocabulary to look in.
        words: words, or pieces as the vocabulary has them.
        before: the character in front of the place, or "" where the text
            begins.

    Returns:
        An id for each word.

    Raises:
        ValueError: if a word is not one token, or is the same as another.
    """
    found: dict[int, int] = {}  # id → index of the word
    for index, word in enumerate(words):
        received = f"Received: targets[{index}]={short_repr(word)}"
        encoding = _encoded_at(tokenizer, word, before)
        token_id = _token_at(tokenizer, word, before, encoding)
        if token_id is None:
            is_unknown = encoding.ids == [tokenizer.unk_token_id]
            problem = (
                "which lacks this one"
                if is_unknown
                else f"but here this is {encoding.tokens}"
            )
            raise ValueError(
                f"Each target must be one token of the vocabulary, {problem}. "
                f"{received}"
            )
        if token_id in found:
            same = found[token_id]
            raise ValueError(
                "Each target must be another token, but this is the same as "
                f"targets[{same}]={words[same]!r}. {received}"
            )
        found[token_id] = index
    return list(found)


def _encoded_at(
    tokenizer: Tokenizer, word: str, before: str
) -> tokenizers.Encoding:
    if word and before.isspace():
        word = " " + word.removeprefix(" ")
    return tokenizer.encode(word, add_special_tokens=False)


def _token_at(
    tokenizer: Tokenizer, word: str, before: str, encoding: tokenizers.Encoding
) -> int | None:
    """Return the id of a word or piece, or None if it is not one token."""
    piece = tokenizer.token_to_id(word)
    if piece in tokenizer.special_token_ids:
        return piece
    whole = encoding.ids[0] if len(encoding) == 1 else None
    if whole == tokenizer.unk_token_id:
        whole = None
    if not before or before.isspace():
        # "##ing" can only be meant as a piece; "ing" is a word here, and must
        # not be taken for the end of one.
        is_marked = piece is not None and piece_text(tokenizer, word) != word
        return piece if whole is None and is_marked else whole
    # Here a word goes on, though SentencePiece begins any text with a space.
    adds_space = (
        whole is not None
        and piece_text(tokenizer, encoding.tokens[0]).startswith(" ")
        and not word.startswith(" ")
    )
    return whole if piece is None and not adds_space else piece
