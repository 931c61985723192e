"""SentencePiece unigram models, turned into Rust tokenizers.

References:
    Kudo 2018, https://arxiv.org/abs/1804.10959; Kudo and Richardson 2018,
    https://arxiv.org/abs/1808.06226; google/sentencepiece,
    src/sentencepiece_model.proto, for the numbers of the types.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from kbert.data.tokenizer_families import TokenizerFamily, add_special_tokens

_UNIGRAM = 1
_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4


@dataclass(frozen=True)
class SentencePieceModel:
    """What a SentencePiece file holds.

    Attributes:
        pieces: Pieces and their log probabilities, in the order of their ids.
        unk_id: Number of the piece for what has no pieces.
        whole_pieces: Control and user-defined pieces, which are found in the
            text before anything else.
        char_map: The normaliser, in the library's own compiled form.
    """

    pieces: Sequence[tuple[str, float]]
    unk_id: int
    whole_pieces: Mapping[str, bool]
    char_map: bytes


def read_sentencepiece(path: str | os.PathLike) -> SentencePieceModel:
    """Reads a SentencePiece file, such as `spiece.model`.

    Args:
        path: The file.

    Returns:
        A `SentencePieceModel`. `whole_pieces` maps each to whether it is a
        control piece.

    Raises:
        ValueError: The file is damaged, or is no unigram model.
    """
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2

    received = f"Received: path={os.fspath(path)!r}"
    # The attributes of the module are made when it is imported.
    proto = getattr(sentencepiece_model_pb2, "ModelProto")()  # noqa: B009
    try:
        proto.ParseFromString(Path(path).read_bytes())
    except DecodeError as error:
        raise ValueError(
            f"Expected a SentencePiece model: {error}. {received}"
        ) from error
    unknown = [i for i, p in enumerate(proto.pieces) if p.type == _UNKNOWN]
    # Pieces are written first: a file cut between two of them still parses.
    parts = ("trainer_spec", "normalizer_spec")
    if len(unknown) != 1 or not all(proto.HasField(part) for part in parts):
        raise ValueError(
            "Expected a whole SentencePiece model, but it has "
            f"{len(proto.pieces)} pieces, {len(unknown)} unknown piece(s) and "
            f"{sum(proto.HasField(part) for part in parts)} of the 2 parts "
            f"after them. {received}"
        )
    if proto.trainer_spec.model_type != _UNIGRAM:
        raise ValueError(
            "Expected a SentencePiece model of type 1 (unigram). "
            f"Received: model_type={proto.trainer_spec.model_type}, "
            f"path={os.fspath(path)!r}"
        )
    return SentencePieceModel(
        pieces=[(piece.piece, piece.score) for piece in proto.pieces],
        unk_id=unknown[0],
        whole_pieces={
            piece.piece: piece.type == _CONTROL
            for piece in proto.pieces
            if piece.type in (_CONTROL, _USER_DEFINED)
        },
        char_map=proto.normalizer_spec.precompiled_charsmap,
    )


def shift_pieces(
    model: SentencePieceModel, family: TokenizerFamily
) -> SentencePieceModel:
    """Gives pieces the ids that the family's checkpoints have for them.

    fairseq puts pieces of its own in front and the mask token at the end.
    """
    if not family.first_pieces:
        return model
    first = family.first_pieces
    mask_token = family.special_tokens["mask_token"]
    # Pieces that a text must not give get no chance beside the others.
    scores = [-100.0 if p == "<unk>NOTUSED" else 0.0 for p in first]
    return SentencePieceModel(
        pieces=[
            *zip(first, scores, strict=True),
            *model.pieces[family.skipped_pieces :],
            (mask_token, 0.0),
        ],
        unk_id=first.index(family.special_tokens["unk_token"]),
        whole_pieces=model.whole_pieces,
        char_map=model.char_map,
    )


def unigram_tokenizer(
    model: SentencePieceModel,
    *,
    family: TokenizerFamily,
    special_tokens: Mapping[str, str],
    do_lower_case: bool = False,
    keep_accents: bool = True,
    split_by_punct: bool = False,
) -> tokenizers.Tokenizer:
    """Builds the tokenizer of a SentencePiece model.

    Args:
        model: The model, its pieces at their ids.
        family: The family.
        special_tokens: The five special tokens, keyed as `SPECIAL_TOKENS`.
        do_lower_case: Whether to lower-case.
        keep_accents: Whether accents stay.
        split_by_punct: Whether each punctuation mark is a word.

    Returns:
        The Rust tokenizer, without truncation and padding.
    """
    backend = tokenizers.Tokenizer(
        models.Unigram(list(model.pieces), unk_id=model.unk_id)
    )
    rules = []
    if family.replaces_quotes:
        rules += [
            normalizers.Replace("``", '"'),
            normalizers.Replace("''", '"'),
        ]
    if not keep_accents:
        rules += [normalizers.NFKD(), normalizers.StripAccents()]
    if do_lower_case:
        rules.append(normalizers.Lowercase())
    if not family.splits_spaces:
        rules.append(normalizers.Strip())
    if model.char_map:
        rules.append(normalizers.Precompiled(model.char_map))
    if not family.splits_spaces:
        rules.append(normalizers.Replace(tokenizers.Regex(" {2,}"), " "))
    backend.normalizer = normalizers.Sequence(rules)
    splits = []
    if family.splits_spaces:
        splits.append(pre_tokenizers.WhitespaceSplit())
    if split_by_punct:
        splits.append(pre_tokenizers.Punctuation(behavior="isolated"))
    splits.append(pre_tokenizers.Metaspace(prepend_scheme="always"))
    backend.pre_tokenizer = pre_tokenizers.Sequence(splits)
    backend.decoder = decoders.Metaspace(prepend_scheme="always")
    backend.add_tokens(
        [
            tokenizers.AddedToken(piece, normalized=False, special=is_control)
            for piece, is_control in model.whole_pieces.items()
        ]
    )
    add_special_tokens(backend, family, special_tokens)
    return backend
