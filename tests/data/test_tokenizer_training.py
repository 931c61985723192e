"""Vocabularies from raw text, against the rules of their models."""

import json
import os
import pathlib
import random
import string
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest
import tokenizers

from kbert.data import training_words
from kbert.data.tokenizer import Tokenizer

DATA = pathlib.Path(__file__).parents[3] / "shared" / "data" / "pretrain"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"the real data is not at {DATA}"
)
MODELS = ["wordpiece", "bpe", "unigram"]
models = pytest.mark.parametrize("model", MODELS)


def make_texts(num_texts=400, seed=0):
    """Words of a made-up language, whose counts have many ties."""
    rng = random.Random(seed)
    syllables = "ka lo mi ter un ing ness ü ß pré 中文 do, (x) 3 'll".split()
    words = [
        "".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(900)
    ]
    return [" ".join(rng.choices(words, k=12)) for _ in range(num_texts)]


TEXTS = make_texts()


def train(texts=TEXTS, vocab_size=500, model="wordpiece", **options):
    return Tokenizer.train(texts, vocab_size, model=model, **options)


def rules(tokenizer):
    return json.loads(tokenizer.backend.to_str())


# What is learned.


def reference_word_pieces(texts, vocab_size, min_frequency):
    """Sennrich's algorithm, every pair counted anew; ties by the pieces' ids.

    The tokens of the vocabulary without special ones, in order.
    """
    shell = tokenizers.normalizers.BertNormalizer()
    split = tokenizers.pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    counts = Counter(
        word for text in texts for word, _ in split(shell.normalize_str(text))
    )
    words = {
        word: [word[0], *(f"##{letter}" for letter in word[1:])]
        for word in counts
    }
    vocab = sorted(set("".join(words)))
    vocab += sorted({piece for word in words.values() for piece in word[1:]})
    number = {token: index for index, token in enumerate(vocab)}
    while len(number) < vocab_size:
        pairs = Counter()
        for word, pieces in words.items():
            for pair in zip(pieces, pieces[1:], strict=False):
                pairs[pair] += counts[word]
        best = min(pairs, key=lambda p: (-pairs[p], number[p[0]], number[p[1]]))
        if pairs[best] < min_frequency:
            break
        joined = best[0] + best[1].removeprefix("##")
        number.setdefault(joined, len(number))
        for pieces in words.values():
            index = 0
            while index < len(pieces) - 1:
                if (pieces[index], pieces[index + 1]) == best:
                    pieces[index : index + 2] = [joined]
                index += 1
    return list(number)


@pytest.mark.parametrize(
    "vocab_size,min_frequency", [(120, 2), (200, 2), (900, 60)]
)
def test_word_pieces_are_those_of_the_algorithm(vocab_size, min_frequency):
    expected = reference_word_pieces(TEXTS, vocab_size - 5, min_frequency)
    vocab = train(
        vocab_size=vocab_size, num_unused=0, min_frequency=min_frequency
    ).get_vocab()
    tokens = sorted(vocab, key=lambda token: vocab[token])
    assert tokens[5:] == expected
    # The rare pairs were left out, or the vocabulary is full.
    assert (len(vocab) == vocab_size) == (min_frequency == 2)


def test_more_frequent_words_come_whole_first():
    texts = ["common"] * 50 + ["seldom"] * 5
    tokenizer = train(texts, 24, num_unused=0)
    assert tokenizer("common").tokens == ["[CLS]", "common", "[SEP]"]
    assert "seldom" not in tokenizer.get_vocab()
    tokenizer = train(texts, 40, num_unused=0)
    assert "seldom" in tokenizer.get_vocab()


@models
def test_everything_trained_on_is_known(model):
    tokenizer = train(model=model)
    assert tokenizer.vocab_size <= 500
    for encoding in tokenizer.encode_batch(TEXTS):
        assert tokenizer.unk_token_id not in encoding.ids
    # Pieces, not letters.
    lengths = [len(tokenizer(text)) for text in TEXTS]
    assert sum(lengths) < 0.6 * sum(len("".join(t.split())) for t in TEXTS)


def test_bytes_are_all_there():
    tokenizer = train(["abc"], 262, model="bpe")
    text = "日本 naïve 😀\x00\u2028"
    assert tokenizer.decode(tokenizer(text).ids) == text


# Layout and rules.


def test_published_ids_of_bert():
    tokenizer = train()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    ids = [0, 100, 101, 102, 103]
    assert [tokenizer.token_to_id(name) for name in names] == ids
    assert tokenizer.id_to_token(1) == "[unused0]"
    assert tokenizer.id_to_token(99) == "[unused98]"
    assert tokenizer.special_token_ids == tuple(ids)
    assert tokenizer("a", "a").type_ids == [0, 0, 0, 1, 1]


def test_layout_of_roberta():
    tokenizer = train(model="bpe", extra_special_tokens=["<e>"])
    first = [tokenizer.id_to_token(index) for index in range(5)]
    assert first == ["<s>", "<pad>", "</s>", "<unk>", "<e>"]
    assert tokenizer.mask_token_id == tokenizer.vocab_size - 1 == 499
    assert tokenizer.special_token_ids == (0, 1, 2, 3, 4, 499)
    assert tokenizer("ka", "lo").tokens.count("</s>") == 3


def test_layout_of_albert():
    tokenizer = train(model="unigram", extra_special_tokens=["[E]"])
    first = [tokenizer.id_to_token(index) for index in range(6)]
    assert first == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "[E]"]
    assert tokenizer.special_token_ids == (0, 1, 2, 3, 4, 5)


@models
def test_extra_special_tokens_are_kept_whole(model):
    # One of them is a piece that would have been learned.
    texts = ["entity marks"] * 20
    tokenizer = train(
        texts, 300, model=model, extra_special_tokens=["[E1]", "entity"]
    )
    vocab = tokenizer.get_vocab()
    extra = {vocab["[E1]"], vocab["entity"]}
    assert extra < set(tokenizer.special_token_ids)
    assert len(vocab) == tokenizer.vocab_size
    assert vocab["[E1]"] in tokenizer("marks [E1] marks").ids


@pytest.mark.parametrize("model", ["wordpiece", "unigram"])
@pytest.mark.parametrize(
    "options,same",
    [
        ({}, ("ÜBER", "uber")),
        ({"strip_accents": False}, ("ÜBER", "über")),
        ({"lowercase": False, "strip_accents": True}, ("Über", "Uber")),
    ],
)
def test_case_and_accents(model, options, same):
    tokenizer = train(["ÜBER über Über uber"] * 9, 140, model=model, **options)
    one, two = (tokenizer(text).ids for text in same)
    assert one == two
    assert tokenizer.unk_token_id not in one
    cased = train(
        ["ÜBER über Über uber"] * 9, 140, model=model, lowercase=False
    )
    assert cased(same[0]).ids != cased(same[1]).ids


@pytest.mark.parametrize("model", ["wordpiece", "unigram"])
def test_alphabets(model):
    texts = ["aaab aab ab"] * 30 + ["b中 é"]
    tokenizer = train(
        texts, 140, model=model, max_alphabet=2, initial_alphabet="Ω9"
    )
    unknown = tokenizer.unk_token_id
    assert unknown in tokenizer("中").ids
    assert unknown in tokenizer("e").ids
    assert unknown not in tokenizer("aω9 ab ωa").ids


def test_alphabet_ties_are_broken_by_the_character():
    tokenizer = train(["d c b a"] * 3, 200, max_alphabet=2, num_unused=0)
    assert {"a", "b"} < set(tokenizer.get_vocab())
    assert not {"c", "d"} & set(tokenizer.get_vocab())


def test_words_that_would_be_unknown_are_not_trained_on():
    long = "ab" * 60
    tokenizer = train([long] * 9 + ["ac"], 200, num_unused=0)
    assert not {"##b", "ab"} & set(tokenizer.get_vocab())


# The same in every process.


def fingerprint(texts):
    return [
        json.dumps(rules(train(texts, 700, model=model)), sort_keys=True)
        for model in MODELS
    ]


@pytest.mark.slow
def test_same_vocabulary_again_and_in_other_processes():
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1])\n"
        "import test_tokenizer_training as t\n"
        "print(json.dumps(t.fingerprint(t.TEXTS)))"
    )
    mine = fingerprint(TEXTS)
    assert fingerprint(TEXTS) == mine
    for seed, threads in (("1", "1"), ("2", "4")):
        done = subprocess.run(
            [sys.executable, "-c", code, os.path.dirname(__file__)],
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "RAYON_NUM_THREADS": threads,
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert json.loads(done.stdout.splitlines()[-1]) == mine


def test_memory_is_bounded_by_the_words(monkeypatch):
    expected = rules(train())
    monkeypatch.setattr(training_words, "_MAX_CHUNKS", 10)
    monkeypatch.setattr(training_words, "_FEED_SIZE", 50)
    assert rules(train()) == expected


# Where texts come from.


@models
def test_files_are_their_lines(model, tmp_path):
    half = len(TEXTS) // 2
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_bytes("\ufeff".encode() + "\n".join(TEXTS[:half]).encode())
    two.write_bytes("\r\n\r\n".join([*TEXTS[half:], ""]).encode())
    expected = rules(train(model=model))
    assert rules(train([one, two], model=model)) == expected
    assert rules(train([one, *TEXTS[half:]], model=model)) == expected
    both = tmp_path / "both.txt"
    both.write_text("\n".join(TEXTS), encoding="utf-8")
    assert rules(train(both, model=model)) == expected
    assert rules(train((text for text in TEXTS), model=model)) == expected


@models
def test_very_long_lines(model, tmp_path):
    path = tmp_path / "long.txt"
    path.write_text(" ".join(TEXTS * 10) + "\n" + "x1" * 100_000, "utf-8")
    tokenizer = train(path, model=model)
    assert tokenizer.unk_token_id not in tokenizer(TEXTS[0]).ids


def test_a_long_line_of_data_takes_no_hours():
    letters = random.Random(0).choices(string.ascii_lowercase, k=1_000_000)
    start = time.perf_counter()
    train([*TEXTS, "".join(letters)], 3000, model="bpe")
    # Joined as one word, it takes minutes.
    assert time.perf_counter() - start < 60


@pytest.mark.parametrize("kind", ["tuple", "array", "series", "generator"])
def test_what_holds_the_texts(kind):
    pandas = pytest.importorskip("pandas")
    makers = {
        "tuple": tuple,
        "array": np.array,
        "series": pandas.Series,
        "generator": iter,
    }
    assert rules(train(makers[kind](TEXTS))) == rules(train())
    for wrong in (pandas.DataFrame({"text": TEXTS}), {"text": TEXTS}, 3, None):
        with pytest.raises(TypeError, match="Received: texts="):
            train(wrong)


# Bad input.


@models
@pytest.mark.parametrize("texts", [[], [""], ["", " \n\t "], iter(())])
def test_no_words(model, texts):
    with pytest.raises(ValueError, match="texts with words.*Received: texts"):
        train(texts, model=model)


@pytest.mark.parametrize("model", ["wordpiece", "unigram"])
def test_no_words_after_normalisation(model):
    with pytest.raises(ValueError, match="texts with words"):
        train(["\x00\x01"], model=model)


@models
def test_vocabulary_too_small(model):
    smallest = None
    with pytest.raises(ValueError, match="vocab_size of at least") as caught:
        train(vocab_size=10, model=model)
    message = str(caught.value)
    assert message.endswith("Received: vocab_size=10")
    smallest = int(message.split("at least ")[1].split(",")[0])
    assert train(vocab_size=smallest, model=model).vocab_size == smallest
    with pytest.raises(ValueError, match=f"at least {smallest},"):
        train(vocab_size=smallest - 1, model=model)


@models
@pytest.mark.parametrize("bad", [None, 3, b"bytes", float("nan"), ["a", "b"]])
def test_items_that_are_no_strings(model, bad):
    with pytest.raises(TypeError, match=r"Received: texts\[2\]="):
        train(["a b", "c", bad, "d"], model=model)


@models
def test_half_a_surrogate_pair(model):
    with pytest.raises(ValueError, match=r"surrogate.*Received: texts\[1\]="):
        train(["a b", "c \ud800"], model=model)


@models
def test_invalid_files(model, tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("fine\nna\u00efve\n".encode("latin-1"))
    with pytest.raises(ValueError, match="line 2, is no UTF-8.*latin.txt'$"):
        train(path, model=model)
    with pytest.raises(FileNotFoundError):
        train([tmp_path / "none.txt"], model=model)
    with pytest.raises(IsADirectoryError):
        train(tmp_path, model=model)


def test_names_of_files_are_not_texts(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("some words")
    with pytest.raises(ValueError, match="pathlib.Path.*corpus.txt'$"):
        train([str(path)])
    with pytest.raises(TypeError, match="Received: texts='.*corpus.txt'$"):
        train(str(path))


@pytest.mark.parametrize(
    "options,message",
    [
        ({"model": "word"}, "Received: model='word'"),
        ({"model": "bpe", "lowercase": True}, "Received: lowercase=True"),
        ({"model": "bpe", "num_unused": 0}, "Received: num_unused=0"),
        ({"model": "unigram", "min_frequency": 2}, "min_frequency=2"),
        ({"vocab_size": 0}, "Received: vocab_size=0"),
        ({"vocab_size": 1e4}, "Received: vocab_size=10000.0"),
        ({"min_frequency": 0}, "Received: min_frequency=0"),
        ({"max_alphabet": True}, "Received: max_alphabet=True"),
        ({"num_unused": -1}, "Received: num_unused=-1"),
        ({"extra_special_tokens": ["[E]", "[E]"]}, "special_tokens="),
        ({"extra_special_tokens": ["[PAD]"]}, "special_tokens="),
        ({"extra_special_tokens": [""]}, "special_tokens="),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError) as caught:
        train(**options)
    assert message in str(caught.value)


def test_bad_initial_alphabet():
    with pytest.raises(TypeError, match="Received: initial_alphabet="):
        train(initial_alphabet=["a", "b"])


# Real text.


@needs_data
@models
@pytest.mark.slow
def test_real_text(model):
    paths = sorted(DATA.glob("wikipedia/*.txt"))
    tokenizer = train(paths, 8000, model=model)
    assert tokenizer.vocab_size == 8000
    book = DATA / "gutenberg" / "The-War-of-the-Worlds_36.txt"
    held_out = book.read_text("utf-8").split("\n")
    ids = tokenizer.encode_ids(held_out).ids
    unknown = (ids == tokenizer.unk_token_id).mean()
    words = sum(len(text.split()) for text in held_out)
    assert unknown <= (0.0 if model == "bpe" else 0.001)
    # Special tokens and punctuation are among them.
    assert len(ids) < 1.8 * words
