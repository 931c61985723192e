"""From the files of a model to its tokenizer, whatever its family."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from kbert.data.byte_level import byte_level_tokenizer, read_merges
from kbert.data.texts import check_texts
from kbert.data.tokenizer_families import (
    FAMILIES,
    GENERAL_CLASSES,
    family_of_backend,
    family_of_class,
    family_of_model_type,
    fits,
    read_switches,
)
from kbert.data.tokenizer_files import (
    check_overrides,
    override,
    read_config,
    read_object,
    read_special_tokens,
    read_tokenizer_json,
)
from kbert.data.unigram import (
    read_sentencepiece,
    shift_pieces,
    unigram_tokenizer,
)
from kbert.data.vocabulary import (
    MAX_WORD_LENGTH,
    check_vocab,
    read_vocab,
    wordpiece_tokenizer,
)
from kbert.hub import find_file

# Where nothing names the family, the file does. XLM-RoBERTa and CamemBERT
# share theirs, and differ in every id.
_FAMILY_OF_FILE = {
    "vocab.txt": "bert",
    "vocab.json": "roberta",
    "spiece.model": "albert",
    "30k-clean.model": "albert",  # google-research/albert's name for it
    "sentencepiece.bpe.model": None,
    "spm.model": "deberta-v2",
}


@dataclass(frozen=True)
class LoadedTokenizer:
    """What the files say: the arguments of `kbert.Tokenizer`."""

    backend: tokenizers.Tokenizer
    family: str
    special_tokens: dict[str, str]
    max_length: int | None


def load_tokenizer(
    source: str | os.PathLike,
    *,
    revision: str | None,
    lowercase: bool | None,
    add_prefix_space: bool | None,
) -> LoadedTokenizer:
    """Reads a tokenizer: see `kbert.Tokenizer.from_pretrained`."""

    def find(name: str) -> Path | None:
        return find_file(source, name, revision=revision, required=False)

    config = read_config(find("tokenizer_config.json"))
    given = read_special_tokens(
        config, read_object(find("special_tokens_map.json"))
    )
    overrides = {
        name: value
        for name, value in (
            ("do_lower_case", lowercase),
            ("add_prefix_space", add_prefix_space),
        )
        if value is not None
    }
    named = config.get("tokenizer_class")
    family = family_of_class(named)
    if named in (None, *GENERAL_CLASSES):
        named = read_object(find("config.json")).get("model_type")
        family = family_of_model_type(named)
    path = find("tokenizer.json")
    if path is not None:
        backend = read_tokenizer_json(path, config)
        # Some models have the tokenizer of another family.
        if family is None or not fits(FAMILIES[family], backend, given):
            family = family_of_backend(backend, given)
        backend = override(backend, overrides)
    else:
        name, path = _find_vocabulary(source, revision, family)
        if family is None:
            family = _family_of_vocabulary(name, path, named)
        backend = _build(path, family, {**config, **overrides}, given, find)
        check_overrides(overrides, FAMILIES[family].switches)
        added = config.get("added_tokens_decoder") or {
            index: {"content": token, "normalized": token not in given.values()}
            for token, index in read_object(find("added_tokens.json")).items()
        }
        _add_tokens(backend, added)
    return LoadedTokenizer(
        backend=backend,
        family=family,
        special_tokens={**FAMILIES[family].special_tokens, **given},
        max_length=config["model_max_length"],
    )


def _find_vocabulary(
    source: str | os.PathLike, revision: str | None, family: str | None
) -> tuple[str, Path]:
    """Returns the name and path of a vocabulary's file."""
    names = [FAMILIES[family].vocab_file] if family else list(_FAMILY_OF_FILE)
    names = [name for name in names if name is not None]
    for name in names:
        path = find_file(source, name, revision=revision, required=False)
        if path is not None:
            return name, path
    expected = " or a ".join(["tokenizer.json", *names])
    raise FileNotFoundError(
        f"Expected a {expected} there, and found none. "
        f"Received: source={source!r}, revision={revision!r}"
    )


def _family_of_vocabulary(name: str, path: Path, named: str | None) -> str:
    """Tells the family by the name of a file, and what is in it."""
    if name == "vocab.txt":
        mpnet = FAMILIES["mpnet"].special_tokens.values()
        return "mpnet" if set(mpnet) <= set(read_vocab(path)) else "bert"
    family = _FAMILY_OF_FILE[name]
    if family is None or named is not None:
        raise ValueError(
            "Expected `tokenizer_class` in tokenizer_config.json or "
            "`model_type` in config.json to name one of "
            f"{list(FAMILIES)}, as {name} alone does not tell. "
            f"Received: {named!r}, path={os.fspath(path)!r}"
        )
    return family


def _build(
    path: Path,
    family_key: str,
    config: Mapping[str, Any],
    given: Mapping[str, str],
    find: Callable[[str], Path | None],
) -> tokenizers.Tokenizer:
    """Builds the tokenizer of a vocabulary's file."""
    family = FAMILIES[family_key]
    special_tokens = {**family.special_tokens, **given}
    switches: dict[str, Any] = read_switches(family, config)
    if family.algorithm == "WordPiece":
        never_split = check_texts(config.get("never_split", ()), "never_split")
        return wordpiece_tokenizer(
            check_vocab(path, [*special_tokens.values(), *never_split]),
            family=family,
            lowercase=switches["do_lower_case"],
            strip_accents=switches["strip_accents"],
            split_chinese=switches["tokenize_chinese_chars"],
            never_split=never_split,
            max_word_length=MAX_WORD_LENGTH,
            special_tokens=special_tokens,
        )
    if family.algorithm == "BPE":
        merges = find("merges.txt")
        if merges is None:
            raise FileNotFoundError(
                "Expected a merges.txt beside the vocab.json. "
                f"Received: path={os.fspath(path)!r}"
            )
        vocab = check_vocab(read_object(path), list(special_tokens.values()))
        return byte_level_tokenizer(
            vocab,
            read_merges(merges),
            family=family,
            special_tokens=special_tokens,
            **switches,
        )
    model = shift_pieces(read_sentencepiece(path), family)
    needed = set(special_tokens.values()).difference(family.added_tokens)
    missing = needed.difference(piece for piece, _ in model.pieces)
    if missing:
        raise ValueError(
            f"Expected {sorted(missing)} among the {len(model.pieces)} pieces. "
            f"Received: path={os.fspath(path)!r}"
        )
    return unigram_tokenizer(
        model,
        family=family,
        special_tokens=special_tokens,
        **switches,
    )


def _add_tokens(
    backend: tokenizers.Tokenizer, added: Mapping[Any, Mapping[str, Any]]
) -> None:
    """Adds tokens that were given to a model after its vocabulary.

    Args:
        backend: The Rust tokenizer.
        added: Id, as a number or its digits, to the token's properties.

    Raises:
        ValueError: A token has another id, or ids are left out.
    """
    known = {
        token.content for token in backend.get_added_tokens_decoder().values()
    }
    by_id = {int(key): properties for key, properties in added.items()}
    for index in sorted(by_id):
        properties = {**by_id[index]}
        properties.pop("__type", None)
        token = tokenizers.AddedToken(**properties)
        due = backend.token_to_id(token.content)
        due = backend.get_vocab_size() if due is None else due
        if index != due:
            raise ValueError(
                f"Expected the added token {token.content!r} to have the id "
                f"{due}, which it has in the vocabulary or which comes next. "
                f"Received: {index}"
            )
        if token.content not in known:
            backend.add_tokens([token])
