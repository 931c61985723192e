"""The files of a tokenizer: reading, overriding and writing them."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import normalizers, pre_tokenizers

from kbert.data.tokenizer_families import (
    FAMILIES,
    GENERAL_CLASSES,
    SPECIAL_TOKENS,
)
from kbert.data.tokenizer_rules import class_switches


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
    config: dict[str, Any] = {
        name: value
        for name, value in read_object(path).items()
        if value is not None or name == "strip_accents"
    }
    # transformers writes 1e30 for "unknown".
    max_length = config.get("model_max_length") or 0
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
    check_overrides(overrides, switches)
    return backend


def check_overrides(
    overrides: Mapping[str, Any], switches: Iterable[str]
) -> None:
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
    return isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel)


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
