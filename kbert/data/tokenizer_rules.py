"""Whether transformers' class for a family would build the same tokenizer."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import tokenizers

from kbert.data.byte_level import byte_level_tokenizer
from kbert.data.tokenizer_families import TokenizerFamily
from kbert.data.unigram import SentencePieceModel, unigram_tokenizer
from kbert.data.vocabulary import is_plain_bert

# transformers gives ALBERT's unknown piece this number, whatever the file says.
_ALBERT_UNK_ID = 1


def class_switches(
    backend: tokenizers.Tokenizer,
    rules: str,
    family: TokenizerFamily,
    special_tokens: Mapping[str, str],
) -> dict[str, Any] | None:
    """Reads the switches of a family off a tokenizer.

    Args:
        backend: The Rust tokenizer, without truncation.
        rules: Its JSON text.
        family: The family.
        special_tokens: Its special tokens.

    Returns:
        The switches as `tokenizer_config.json` names them, or None if the
        family's class does not build the same tokenizer from them.
    """
    content = json.loads(rules)
    if (
        not family.class_has_same_rules
        or content["model"]["type"] != family.algorithm
        or not _has_template(backend, family, special_tokens)
    ):
        return None
    if family.algorithm == "WordPiece":
        normalizer = backend.normalizer
        if not is_plain_bert(backend):
            return None
        return {
            "do_lower_case": normalizer.lowercase,
            "strip_accents": normalizer.strip_accents,
            "tokenize_chinese_chars": normalizer.handle_chinese_chars,
        }
    if family.algorithm == "BPE":
        switches, again = _byte_level(content, family, special_tokens)
    else:
        switches, again = _unigram(content, family, special_tokens)
    is_same = _without_ids(content) == _without_ids(json.loads(again.to_str()))
    return switches if is_same else None


def _byte_level(
    content: dict[str, Any],
    family: TokenizerFamily,
    special_tokens: Mapping[str, str],
) -> tuple[dict[str, Any], tokenizers.Tokenizer]:
    """Builds the class' tokenizer on a vocabulary of its special tokens."""
    switches = {
        name: bool((content[part] or {}).get(name))
        for name, part in (
            ("add_prefix_space", "pre_tokenizer"),
            ("trim_offsets", "post_processor"),
        )
    }
    tokens = dict.fromkeys(special_tokens.values())
    return switches, byte_level_tokenizer(
        {token: index for index, token in enumerate(tokens)},
        [],
        family=family,
        special_tokens=special_tokens,
        **switches,
    )


def _unigram(
    content: dict[str, Any],
    family: TokenizerFamily,
    special_tokens: Mapping[str, str],
) -> tuple[dict[str, Any], tokenizers.Tokenizer]:
    """Builds the class' tokenizer on a vocabulary of its special tokens."""
    parts = (content["normalizer"] or {}).get("normalizers", [])
    kinds = [part["type"] for part in parts]
    char_maps = [
        base64.b64decode(part["precompiled_charsmap"])
        for part in parts
        if part["type"] == "Precompiled"
    ]
    found = {
        "do_lower_case": "Lowercase" in kinds,
        "keep_accents": "StripAccents" not in kinds,
    }
    switches = {name: found[name] for name in family.switches}
    unk_token = family.special_tokens["unk_token"]
    first = family.first_pieces
    unk_id = first.index(unk_token) if first else _ALBERT_UNK_ID
    # The number of the unknown piece needs as many pieces.
    pieces = [f"{index}" for index in range(unk_id + 1)]
    model = SentencePieceModel(
        pieces=[(piece, 0.0) for piece in [*pieces, *special_tokens.values()]],
        unk_id=unk_id,
        whole_pieces={},
        char_map=char_maps[0] if char_maps else b"",
    )
    return switches, unigram_tokenizer(
        model, family=family, special_tokens=special_tokens, **switches
    )


def _without_ids(content: dict[str, Any]) -> dict[str, Any]:
    """Returns the rules of a tokenizer, without its vocabulary and template."""
    model = content["model"]
    post_processor = content["post_processor"] or {}
    return {
        "model": {
            key: value or None
            for key, value in model.items()
            if key not in ("vocab", "merges")
        },
        "post_processor": [
            post_processor.get("trim_offsets"),
            post_processor.get("add_prefix_space"),
        ],
        **{
            part: content[part]
            for part in ("normalizer", "pre_tokenizer", "decoder")
        },
    }


def _has_template(
    backend: tokenizers.Tokenizer,
    family: TokenizerFamily,
    special_tokens: Mapping[str, str],
) -> bool:
    """Whether a text and a pair get the special tokens of a family."""
    unk, cls, sep = (
        special_tokens[name] for name in ("unk_token", "cls_token", "sep_token")
    )
    middle = [sep, sep] if family.doubles_separator else [sep]
    types = [0] * 6 if family.doubles_separator else [0, 0, 0, 1, 1]
    pair = backend.encode(unk, unk)
    return (
        backend.encode(unk).tokens == [cls, unk, sep]
        and pair.tokens == [cls, unk, *middle, unk, sep]
        and pair.type_ids == types
    )
