"""Vocabularies from raw text: word pieces, byte pairs and unigram pieces.

Word pieces and unigrams are trained on words that are counted here, in one
pass over the texts, and sorted. Left to itself, `WordPieceTrainer` numbers the
letters inside words in the order of a hash table and breaks ties by these
numbers, and `UnigramTrainer` adds floats in such an order: each process would
get another vocabulary from the same texts.

References:
    Devlin et al. 2018, https://arxiv.org/abs/1810.04805; Sennrich et al.
    2016, https://arxiv.org/abs/1508.07909; Kudo 2018,
    https://arxiv.org/abs/1804.10959.
"""

import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from kbert.data.byte_level import byte_level_tokenizer
from kbert.data.text_files import read_texts
from kbert.data.texts import check_texts
from kbert.data.tokenizer_families import FAMILIES
from kbert.data.training_words import (
    TrainingOptions,
    choose_alphabet,
    count_words,
    no_words,
    repeat_words,
)
from kbert.data.unigram_training import train_unigram
from kbert.data.vocabulary import (
    MAX_WORD_LENGTH,
    check_vocab,
    wordpiece_tokenizer,
)

# Google's vocabularies have [UNK] at 100, after [PAD] and 99 spare tokens.
_NUM_UNUSED = 99
_MIN_FREQUENCY = 2
# Each pair that is joined takes time in proportion to the longest word: a line
# of encoded data would take hours.
_LONG_RUN = re.compile(r"\S{1000}")


def train_tokenizer(
    texts: Iterable[str | os.PathLike] | os.PathLike,
    model: str,
    options: TrainingOptions,
) -> tuple[tokenizers.Tokenizer, str]:
    """Trains a vocabulary: see `kbert.Tokenizer.train`.

    Args:
        texts: Strings, or paths of text files.
        model: `"wordpiece"`, `"bpe"` or `"unigram"`.
        options: The other arguments.

    Returns:
        The Rust tokenizer and the family that it belongs to.
    """
    if model not in _MODELS:
        raise ValueError(
            f"Expected one of {list(_MODELS)}. Received: model={model!r}"
        )
    name, train, foreign = _MODELS[model]
    for option in foreign:
        value = getattr(options, option)
        if value is not None:
            raise ValueError(
                f"Expected no {option}, which a {model!r} model has no use "
                f"for. Received: {option}={value!r}"
            )
    options.check_values()
    special = list(FAMILIES[name].special_tokens.values())
    extra = check_texts(options.extra_special_tokens, "extra_special_tokens")
    if "" in extra or len({*special, *extra}) < len(special) + len(extra):
        raise ValueError(
            f"Expected tokens that differ from each other and from {special}. "
            f"Received: extra_special_tokens={extra}"
        )
    filled = (text for text in read_texts(texts) if text.strip())
    first = next(filled, None)
    if first is None:
        raise no_words()
    backend = train(
        itertools.chain([first], filled),
        replace(options, extra_special_tokens=extra),
    )
    backend.add_special_tokens(
        [
            tokenizers.AddedToken(token, normalized=False, special=True)
            for token in extra
        ]
    )
    return backend, name


def _train_wordpiece(
    texts: Iterable[str], options: TrainingOptions
) -> tokenizers.Tokenizer:
    """Trains BERT's vocabulary."""
    family = FAMILIES["bert"]
    special_tokens = family.special_tokens
    pad, *others = special_tokens.values()
    num_unused = options.num_unused
    num_unused = _NUM_UNUSED if num_unused is None else num_unused
    unused = [f"[unused{index}]" for index in range(num_unused)]
    first = [pad, *unused, *others, *options.extra_special_tokens]

    def build(tokens: list[str]) -> tokenizers.Tokenizer:
        return wordpiece_tokenizer(
            check_vocab(tokens, first),
            family=family,
            lowercase=options.lowercase is None or options.lowercase,
            strip_accents=options.strip_accents,
            split_chinese=True,
            never_split=(),
            max_word_length=MAX_WORD_LENGTH,
            special_tokens=special_tokens,
        )

    shell = build(first)
    # Longer words are unknown to the tokenizer, whatever pieces it has.
    words = {
        word: count
        for word, count in count_words(texts, shell).items()
        if len(word) <= MAX_WORD_LENGTH
    }
    words, letters, asked = choose_alphabet(words, options, shell)
    inner = asked.union(*(word[1:] for word in words))
    alphabet = [*letters, *(f"##{letter}" for letter in sorted(inner))]
    options.check_room(len(first), len(alphabet))
    trainer = trainers.WordPieceTrainer(
        vocab_size=options.vocab_size,
        min_frequency=options.min_frequency or _MIN_FREQUENCY,
        # They get their numbers, by which ties are broken, in this order.
        special_tokens=[*first, *alphabet],
        show_progress=options.show_progress,
    )
    shell = tokenizers.Tokenizer(models.WordPiece(unk_token=others[0]))
    shell.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    shell.train_from_iterator(repeat_words(words), trainer)
    return build(_tokens_of(shell))


def _train_bpe(
    texts: Iterable[str], options: TrainingOptions
) -> tokenizers.Tokenizer:
    """Trains RoBERTa's vocabulary, with the mask token at its end."""
    family = FAMILIES["roberta"]
    pad, unk, cls, sep, mask = family.special_tokens.values()
    first = [cls, pad, sep, unk, *options.extra_special_tokens]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    options.check_room(len(first) + 1, len(alphabet))
    trainer = trainers.BpeTrainer(
        vocab_size=options.vocab_size - 1,
        min_frequency=options.min_frequency or _MIN_FREQUENCY,
        special_tokens=first,
        initial_alphabet=alphabet,
        show_progress=options.show_progress,
    )
    shell = tokenizers.Tokenizer(models.BPE())
    shell.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    shell.train_from_iterator(_cut_long_runs(texts), trainer)
    merges = json.loads(shell.to_str())["model"]["merges"]
    return byte_level_tokenizer(
        check_vocab([*_tokens_of(shell), mask], first),
        [(left, right) for left, right in merges],
        family=family,
        special_tokens=family.special_tokens,
        add_prefix_space=False,
        trim_offsets=True,
    )


def _cut_long_runs(texts: Iterable[str]) -> Iterator[str]:
    """Cuts texts inside long runs without white space."""
    for text in texts:
        start = 0
        if len(text) > 1000:
            for match in _LONG_RUN.finditer(text):
                yield text[start : match.end()]
                start = match.end()
        yield text[start:]


def _tokens_of(shell: tokenizers.Tokenizer) -> list[str]:
    """Returns the tokens of a vocabulary in the order of their ids."""
    vocab = shell.get_vocab()
    return sorted(vocab, key=lambda token: vocab[token])


# Model to its family, its trainer, and the options that mean nothing to it:
# RoBERTa's keeps every byte as it is, sentencepiece has no least frequency.
_MODELS = {
    "wordpiece": ("bert", _train_wordpiece, ()),
    "bpe": (
        "roberta",
        _train_bpe,
        (
            "lowercase",
            "strip_accents",
            "initial_alphabet",
            "max_alphabet",
            "num_unused",
        ),
    ),
    "unigram": ("albert", train_unigram, ("min_frequency", "num_unused")),
}
