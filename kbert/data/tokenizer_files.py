"""The files of a tokenizer: which there are, and what they say."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import normalizers

from kbert.data.byte_level import byte_level_tokenizer, read_merges
from kbert.data.tokenizer_families import (
    FAMILIES,
    GENERAL_CLASSES,
    SPECIAL_TOKENS,
    family_of_backend,
    family_of_class,
    family_of_model_type,
    fits,
    read_switches,
)
from kbert.data.tokenizer_rules import class_switches
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
    family = family_of_class(config.get("tokenizer_class"))
    if config.get("tokenizer_class") in (None, *GENERAL_CLASSES):
        model_type = read_object(find("config.json")).get("model_type")
        family = family_of_model_type(model_type)
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
            family = _family_of_vocabulary(name, path, config)
        backend = _build(path, family, {**config, **overrides}, given, find)
        _check_overrides(overrides, FAMILIES[family].switches)
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
    own = FAMILIES[family].vocab_file if family else None
    for name in [own] if own else _FAMILY_OF_FILE:
        path = find_file(source, name, revision=revision, required=False)
        if path is not None:
            return name, path
    expected = own or "vocab.txt, vocab.json or a SentencePiece model"
    raise FileNotFoundError(
        f"Expected a tokenizer.json or a {expected} there, and found neither. "
        f"Received: source={source!r}, revision={revision!r}"
    )


def _family_of_vocabulary(
    name: str, path: Path, config: Mapping[str, Any]
) -> str:
    """Tells the family by the name of a file, and what is in it."""
    family = _FAMILY_OF_FILE[name]
    named = config.get("tokenizer_class")
    if family is None or named not in (None, *GENERAL_CLASSES):
        raise ValueError(
            "Expected `tokenizer_class` in tokenizer_config.json or "
            "`model_type` in config.json to name one of "
            f"{list(FAMILIES)}, as {name} alone does not tell. "
            f"Received: path={os.fspath(path)!r}, tokenizer_class={named!r}"
        )
    if family == "bert":
        mpnet = FAMILIES["mpnet"].special_tokens.values()
        family = "mpnet" if set(mpnet) <= set(read_vocab(path)) else "bert"
    return family


def _build(
    path: Path,
    family_key: str,
    config: Mapping[str, Any],
    given: Mapping[str, str],
    find: Any,
) -> tokenizers.Tokenizer:
    """Builds the tokenizer of a vocabulary's file."""
    family = FAMILIES[family_key]
    special_tokens = {**family.special_tokens, **given}
    switches: dict[str, Any] = read_switches(family, config)
    if family.algorithm == "WordPiece":
        never_split = config.get("never_split", ())
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
    return unigram_tokenizer(
        shift_pieces(read_sentencepiece(path), family),
        family=family,
        special_tokens=special_tokens,
        **switches,
    )


def read_object(path: str | os.PathLike | None) -> dict[str, Any]:
    """Reads a file with a JSON object.

    Args:
        path: The file, or None if there is none.

    Returns:
        The object, empty if there is no file.

    Raises:
        ValueError: The file is not a JSON object.
    """
    if path is None:
        return {}
    received = f"Received: path={os.fspath(path)!r}"
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"Expected JSON: {error}. {received}") from error
    if not isinstance(content, dict):
        raise ValueError(f"Expected a JSON object. {received}")
    return content


def read_config(path: str | os.PathLike | None) -> dict[str, Any]:
    """Reads a `tokenizer_config.json`.

    Args:
        path: The file, or None if there is none.

    Returns:
        What it holds, without nulls other than that of `strip_accents`, with
        `model_max_length` as an integer or None.

    Raises:
        ValueError: The file is not a JSON object.
    """
    # A null stands for the default, which only for this one is a value.
    config = {
        name: value
        for name, value in read_object(path).items()
        if value is not None or name == "strip_accents"
    }
    # transformers writes 1e30 for "unknown".
    max_length = config.get("model_max_length", 0)
    is_known = 0 < max_length < 10**9
    config["model_max_length"] = int(max_length) if is_known else None
    return config


def read_special_tokens(*files: Mapping[str, Any]) -> dict[str, str]:
    """Returns the special tokens that files name; the first to do so counts.

    Args:
        *files: Objects in which a token is a string, or an object with its
            properties.
    """
    found = {}
    for name in SPECIAL_TOKENS:
        for content in files:
            token = content.get(name)
            token = token.get("content") if isinstance(token, dict) else token
            if token is not None:
                found.setdefault(name, token)
    return found


def read_tokenizer_json(
    path: str | os.PathLike, config: Mapping[str, Any]
) -> tokenizers.Tokenizer:
    """Reads a `tokenizer.json`, without the truncation and padding in it.

    Args:
        path: The file.
        config: What `tokenizer_config.json` beside it says.

    Returns:
        The Rust tokenizer.

    Raises:
        ValueError: The file is not a tokenizer.
    """
    try:
        backend = tokenizers.Tokenizer.from_file(os.fspath(path))
    # The library raises a bare Exception for anything that it cannot read.
    except Exception as error:
        raise ValueError(
            f"Expected a file of the tokenizers library: {error}. "
            f"Received: path={os.fspath(path)!r}"
        ) from error
    backend.no_truncation()
    backend.no_padding()
    # Where the two files disagree, transformers 5.24 follows the config for
    # its classes (BertTokenizer also when tokenizer_class is missing) and the
    # tokenizer.json for its general ones. It puts the class' defaults in the
    # place of what the config does not mention; here tokenizer.json decides
    # that, as it does everywhere outside transformers.
    if config.get("tokenizer_class") in GENERAL_CLASSES:
        return backend
    if isinstance(backend.normalizer, normalizers.BertNormalizer):
        override_normalizer(backend, config)
    elif "add_prefix_space" in config and _is_byte_level(backend):
        backend = _set_prefix_space(backend, config["add_prefix_space"])
    return backend


def override(
    backend: tokenizers.Tokenizer, overrides: Mapping[str, Any]
) -> tokenizers.Tokenizer:
    """Sets switches that a caller asks for.

    Args:
        backend: The Rust tokenizer of a `tokenizer.json`.
        overrides: `do_lower_case`, `add_prefix_space`, both or none.

    Returns:
        The Rust tokenizer, or another in its place.

    Raises:
        ValueError: It has no such switch.
    """
    switches = []
    if isinstance(backend.normalizer, normalizers.BertNormalizer):
        switches.append("do_lower_case")
        override_normalizer(backend, overrides)
    if _is_byte_level(backend):
        switches.append("add_prefix_space")
        if "add_prefix_space" in overrides:
            backend = _set_prefix_space(backend, overrides["add_prefix_space"])
    _check_overrides(overrides, switches)
    return backend


def _check_overrides(overrides: Mapping[str, Any], switches: Any) -> None:
    """Refuses switches that a tokenizer does not have."""
    unknown = {k: v for k, v in overrides.items() if k not in switches}
    if unknown:
        raise ValueError(
            "Expected no override of a switch that this tokenizer does not "
            f"have; it has {list(switches)}. Received: {unknown}"
        )


def override_normalizer(
    backend: tokenizers.Tokenizer, config: Mapping[str, Any]
) -> None:
    """Sets the switches of a BERT normaliser that a config mentions."""
    old = backend.normalizer
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=old.clean_text,
        handle_chinese_chars=config.get(
            "tokenize_chinese_chars", old.handle_chinese_chars
        ),
        strip_accents=config.get("strip_accents", old.strip_accents),
        lowercase=config.get("do_lower_case", old.lowercase),
    )


def _is_byte_level(backend: tokenizers.Tokenizer) -> bool:
    """Whether the words of a tokenizer carry the space before them."""
    return isinstance(
        backend.pre_tokenizer, tokenizers.pre_tokenizers.ByteLevel
    )


def _set_prefix_space(
    backend: tokenizers.Tokenizer, value: bool
) -> tokenizers.Tokenizer:
    """Returns the tokenizer with another `add_prefix_space`."""
    rules = json.loads(backend.to_str())
    for part in ("pre_tokenizer", "post_processor"):
        if "add_prefix_space" in (rules[part] or {}):
            rules[part]["add_prefix_space"] = value
    return tokenizers.Tokenizer.from_str(json.dumps(rules))


def save_tokenizer(
    directory: Path,
    backend: tokenizers.Tokenizer,
    *,
    rules: str,
    family: str,
    special_tokens: Mapping[str, str],
    max_length: int | None,
) -> None:
    """Writes the files of a tokenizer: see `kbert.Tokenizer.save`.

    Args:
        directory: Where to write.
        backend: The Rust tokenizer.
        rules: Its JSON text.
        family: Its family.
        special_tokens: Its special tokens.
        max_length: Most tokens that the model takes, or None.
    """
    _write(directory / "tokenizer.json", rules)
    config: dict[str, Any] = dict(special_tokens)
    if max_length is not None:
        config["model_max_length"] = max_length
    row = FAMILIES[family]
    # transformers builds its classes anew from the vocabulary and this
    # config; its general class takes tokenizer.json as it is.
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    switches = class_switches(backend, rules, row, special_tokens)
    if switches is not None:
        config["tokenizer_class"] = row.tokenizer_class
        config.update(switches)
        if row.algorithm == "WordPiece":
            added = backend.get_added_tokens_decoder().values()
            config["never_split"] = [t.content for t in added if not t.special]
            vocab = backend.get_vocab(with_added_tokens=False)
            tokens = sorted(vocab, key=lambda token: vocab[token])
            _write(directory / "vocab.txt", "".join(f"{t}\n" for t in tokens))
    _write(
        directory / "tokenizer_config.json",
        json.dumps(config, indent=2, ensure_ascii=False) + "\n",
    )


def _write(path: Path, text: str) -> None:
    """Writes UTF-8 and leaves line ends alone on every system."""
    path.write_bytes(text.encode("utf-8"))
