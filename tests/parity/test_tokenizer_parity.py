"""The tokenizer against transformers, and against BERT's rules in Python.

transformers runs the same Rust library, so it shows that kbert sets it up and
reads it right. The rules written out below show that the library itself
follows Devlin et al. 2018 and the code published with it.
"""

import json
import pathlib
import re
import unicodedata

import numpy as np
import pytest

hypothesis = pytest.importorskip(
    "hypothesis", reason="pip install keras-kbert[test]"
)
transformers = pytest.importorskip(
    "transformers", reason="pip install keras-kbert[parity]"
)

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from tokenizer_texts import (  # noqa: E402
    SNIPPETS,
    TEXTS,
    THOROUGH,
    assert_same,
)

from kbert.data.tokenizer import Tokenizer  # noqa: E402

DATA = pathlib.Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"the real data is not at {DATA}"
)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def small_vocab() -> list[str]:
    """Special tokens, words, and many letters at and after a word's start."""
    words = "the un want ##want ##ed runn ##ing straße naive istanbul σας Σ ß"
    letters = {chr(code) for code in range(33, 127)}
    letters |= set("äéíöñøłßİıσςΣαβγабвжאבاب١२ⅷ½①中文日本ガか한글ᄒ")
    letters |= {"\u1112", "\u1161", "\u11ab", "\u0301", "\u200d", "€", "😀"}
    tokens = SPECIAL + words.split() + sorted(letters)
    tokens += [f"##{letter}" for letter in sorted(letters)]
    return list(dict.fromkeys(tokens))


VOCAB = {token: index for index, token in enumerate(small_vocab())}


def pair_of(**options):
    """A tokenizer of ours and one of transformers, from one vocabulary."""
    ours = Tokenizer.from_vocab(
        VOCAB,
        lowercase=options.get("do_lower_case", True),
        strip_accents=options.get("strip_accents"),
        split_chinese=options.get("tokenize_chinese_chars", True),
    )
    theirs = transformers.BertTokenizer(vocab=dict(VOCAB), **options)
    return ours, theirs


OPTIONS = [
    {"do_lower_case": True},
    {"do_lower_case": False},
    {"do_lower_case": True, "strip_accents": False},
    {"do_lower_case": False, "strip_accents": True},
    {"do_lower_case": True, "tokenize_chinese_chars": False},
]
PAIRS = [pair_of(**options) for options in OPTIONS]


# Against transformers.


@THOROUGH
@given(TEXTS)
def test_single_texts(text):
    for ours, theirs in PAIRS:
        assert_same([ours(text)], theirs([text]).encodings)


@THOROUGH
@given(TEXTS, TEXTS, st.integers(3, 40))
def test_pairs_and_truncation(first, second, max_length):
    ours, theirs = PAIRS[0]
    for length in (None, max_length):
        reference = theirs(
            [first], [second], truncation=length is not None, max_length=length
        )
        mine = ours.encode_batch([first], [second], max_length=length)
        assert_same(mine, reference.encodings)
        flat = ours.encode_ids([first], [second], max_length=length)
        assert flat.ids.tolist() == reference["input_ids"][0]
        assert flat.type_ids.tolist() == reference["token_type_ids"][0]


@pytest.mark.parametrize("max_length", range(2, 14))
def test_truncated_single_texts(max_length):
    ours, theirs = PAIRS[0]
    texts = ["", "the", "unwanted running", "a b c d e f g h i j"]
    reference = theirs(texts, truncation=True, max_length=max_length)
    assert_same(
        ours.encode_batch(texts, max_length=max_length), reference.encodings
    )
    flat = ours.encode_ids(texts, max_length=max_length)
    assert flat.ids.tolist() == sum(reference["input_ids"], [])
    full = [len(ids) for ids in theirs(texts)["input_ids"]]
    assert flat.num_truncated == sum(size > max_length for size in full)


@pytest.mark.parametrize("truncation", ["only_first", "only_second"])
@pytest.mark.parametrize("max_length", range(8, 24))
def test_cut_one_text_of_a_pair(truncation, max_length):
    ours, theirs = PAIRS[0]
    short, long = ["a b", "c"], ["d e f g h i j k l m n o p q r s", "t u"]
    texts = (long, short) if truncation == "only_first" else (short, long)
    reference = theirs(*texts, truncation=truncation, max_length=max_length)
    mine = ours.encode_batch(
        *texts, truncation=truncation, max_length=max_length
    )
    assert_same(mine, reference.encodings)
    flat = ours.encode_ids(*texts, truncation=truncation, max_length=max_length)
    assert flat.ids.tolist() == sum(reference["input_ids"], [])
    assert flat.type_ids.tolist() == sum(reference["token_type_ids"], [])


@pytest.mark.parametrize("overlap", [0, 1, 4])
def test_windows(overlap):
    ours, theirs = PAIRS[0]
    question, context = "the un want", "unwanted running, a b c d e f g. " * 5
    reference = theirs(
        [question],
        [context],
        truncation="only_second",
        max_length=20,
        stride=overlap,
        return_overflowing_tokens=True,
    )
    first = ours.encode_batch(
        [question],
        [context],
        truncation="only_second",
        max_length=20,
        overlap=overlap,
    )[0]
    assert_same([first, *first.overflowing], reference.encodings)


@THOROUGH
@given(st.lists(TEXTS, max_size=5))
def test_words(words):
    ours, theirs = PAIRS[0]
    mine = ours.encode_batch([words], is_split_into_words=True)
    # transformers calls an empty list of words a missing text.
    if words:
        reference = theirs([words], is_split_into_words=True)
        assert_same(mine, reference.encodings)
    else:
        assert mine[0].tokens == ["[CLS]", "[SEP]"]


@THOROUGH
@given(TEXTS)
def test_decode(text):
    ours, theirs = PAIRS[0]
    ids = ours(text).ids
    for skip in (True, False):
        mine = ours.decode(ids, skip_special_tokens=skip)
        assert mine == theirs.decode(ids, skip_special_tokens=skip)


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("name", ["uncased", "cased"])
def test_every_line_of_the_pretraining_texts(name):
    vocab = DATA / "vocabs" / f"bert-base-{name}" / "vocab.txt"
    ours = Tokenizer.from_vocab(vocab, lowercase=name == "uncased")
    theirs = transformers.BertTokenizer(
        vocab=str(vocab), do_lower_case=name == "uncased"
    )
    count = 0
    for path in sorted((DATA / "pretrain").rglob("*.txt")):
        lines = path.read_text(encoding="utf-8").split("\n")
        for start in range(0, len(lines), 2000):
            chunk = lines[start : start + 2000]
            mine, reference = ours.encode_batch(chunk), theirs(chunk)
            assert_same(mine, reference.encodings)
            count += len(chunk)
        flat = ours.encode_ids(lines[:2000], max_length=128)
        cut = theirs(lines[:2000], truncation=True, max_length=128)["input_ids"]
        assert flat.ids.tolist() == [i for ids in cut for i in ids]
    assert count > 50_000


@needs_data
def test_multilingual_lines():
    vocab = DATA / "vocabs" / "bert-base-multilingual-cased" / "vocab.txt"
    ours = Tokenizer.from_vocab(vocab, lowercase=False)
    theirs = transformers.BertTokenizer(vocab=str(vocab), do_lower_case=False)
    assert ours.get_vocab() == theirs.get_vocab()
    path = DATA / "pretrain" / "wikipedia" / "enwiki_sample.txt"
    lines = path.read_text(encoding="utf-8").split("\n")[::8] + SNIPPETS
    assert_same(ours.encode_batch(lines), theirs(lines).encodings)


# Files, in both directions.


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lowercase": False},
        {"lowercase": True, "strip_accents": False, "max_length": None},
        {"lowercase": False, "strip_accents": True, "max_length": 64},
        {"split_chinese": False},
        {"never_split": ("Σ", "the"), "lowercase": True},
        {"cls_token": "{", "sep_token": "}", "pad_token": "~"},
        # transformers' BertTokenizer has no such setting.
        {"max_word_length": 5},
    ],
    ids=str,
)
@pytest.mark.parametrize("loader", ["BertTokenizer", "AutoTokenizer"])
def test_transformers_loads_what_is_saved(options, loader, tmp_path):
    if loader == "BertTokenizer" and "max_word_length" in options:
        pytest.skip("BertTokenizer resets the limit to 100")
    ours = Tokenizer.from_vocab(VOCAB, **options)
    ours.save(tmp_path)
    theirs = getattr(transformers, loader).from_pretrained(tmp_path)
    texts = [*SNIPPETS, " ".join(SNIPPETS), "Σ the (Σ), other Σx. the[MASK]the"]
    assert_same(ours.encode_batch(texts), theirs(texts).encodings)
    assert_same(
        ours.encode_batch(texts, texts[::-1]),
        theirs(texts, texts[::-1]).encodings,
    )
    assert theirs.get_vocab() == ours.get_vocab()
    assert theirs.pad_token_id == ours.pad_token_id
    assert theirs.mask_token_id == ours.mask_token_id
    assert sorted(theirs.all_special_ids) == list(ours.special_token_ids)
    unknown = theirs.model_max_length > 10**9
    assert (None if unknown else theirs.model_max_length) == ours.max_length


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_what_transformers_saves_is_loaded(options, tmp_path):
    _, theirs = pair_of(**options)
    theirs.model_max_length = 77
    theirs.save_pretrained(tmp_path)
    ours = Tokenizer.from_pretrained(tmp_path)
    assert_same(ours.encode_batch(SNIPPETS), theirs(SNIPPETS).encodings)
    assert ours.max_length == 77
    assert ours.get_vocab() == theirs.get_vocab()


@pytest.mark.parametrize(
    "in_json",
    [{"lowercase": True}, {"lowercase": False}, {"strip_accents": False}],
    ids=str,
)
@pytest.mark.parametrize(
    "config",
    [
        {"do_lower_case": True},
        {"do_lower_case": False},
        {"do_lower_case": False, "tokenizer_class": "BertTokenizer"},
        {"do_lower_case": True, "strip_accents": False},
        {"do_lower_case": True, "strip_accents": None},
        {"do_lower_case": True, "tokenize_chinese_chars": False},
        {"do_lower_case": False, "tokenizer_class": "PreTrainedTokenizerFast"},
        {"do_lower_case": True, "tokenizer_class": "PreTrainedTokenizerFast"},
    ],
    ids=str,
)
def test_config_against_tokenizer_json(in_json, config, tmp_path):
    """Where the two files disagree, the result is transformers'."""
    if "strip_accents" in in_json and "strip_accents" not in config:
        if config.get("tokenizer_class") != "PreTrainedTokenizerFast":
            pytest.skip("transformers forgets what only tokenizer.json says")
    Tokenizer.from_vocab(VOCAB, **in_json).save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = Tokenizer.from_pretrained(tmp_path)
    assert_same(ours.encode_batch(SNIPPETS), theirs(SNIPPETS).encodings)


# Against BERT's rules, written out.

CJK_BLOCKS = [
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0x2F800, 0x2FA1F),
]


def is_punctuation(letter: str) -> bool:
    ascii_symbol = letter.isascii() and letter.isprintable()
    return (ascii_symbol and not letter.isalnum() and letter != " ") or (
        unicodedata.category(letter).startswith("P")
    )


def basic_words(text: str, lowercase: bool) -> list[str]:
    """Splits at white space, punctuation and ideographs."""
    cleaned = ""
    for letter in text:
        category = unicodedata.category(letter)
        if letter in "\t\n\r" or category == "Zs":
            cleaned += " "
        elif letter == "\ufffd" or category in ("Cc", "Cf"):
            continue
        elif any(low <= ord(letter) <= high for low, high in CJK_BLOCKS):
            cleaned += f" {letter} "
        else:
            cleaned += letter
    if lowercase:
        decomposed = unicodedata.normalize("NFD", cleaned.lower())
        cleaned = "".join(
            x for x in decomposed if unicodedata.category(x) != "Mn"
        )
    spaced = "".join(f" {x} " if is_punctuation(x) else x for x in cleaned)
    return spaced.split()


def pieces(word: str, vocab: dict[str, int]) -> list[int]:
    """Takes the longest piece of the vocabulary again and again."""
    found, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        for end in range(len(word), start, -1):
            if prefix + word[start:end] in vocab:
                break
        else:
            return [vocab["[UNK]"]]
        found.append(vocab[prefix + word[start:end]])
        start = end
    return found if len(word) <= 100 else [vocab["[UNK]"]]


def reference_ids(text: str, vocab: dict[str, int], lowercase: bool):
    """Ids by the paper's rules; special tokens in the text stay whole."""
    special = "|".join(map(re.escape, SPECIAL))
    ids = [vocab["[CLS]"]]
    for part in re.split(f"({special})", text):
        if part in SPECIAL:
            ids.append(vocab[part])
        else:
            for word in basic_words(part, lowercase):
                ids += pieces(word, vocab)
    return [*ids, vocab["[SEP]"]]


def is_settled(letter: str) -> bool:
    """Whether the Rust library and any Python agree about a character.

    The library's categories are those of Unicode 8 (its lower-casing is newer):
    punctuation that came later does not split, accents that came later stay.
    A character whose category is still that of Unicode 3.2, the oldest that
    Python knows, is safe.

    There are three more differences from google-research/bert as it is now:
    private-use characters vanish, where it makes their word unknown;
    each letter is lower-cased on its own, so a capital sigma at the end of a
    word gives σ, where it gives ς;
    the ideographs U+2B820 to U+2B91F (not in Unicode 3.2) do not split.
    """
    category = unicodedata.category(letter)
    old = unicodedata.ucd_3_2_0.category(letter)
    return category == old and category not in ("Cn", "Co") and letter != "Σ"


@pytest.mark.parametrize("lowercase", [True, False])
def test_every_settled_character(lowercase):
    ours = Tokenizer.from_vocab(VOCAB, lowercase=lowercase)
    rules = ours.backend.normalizer, ours.backend.pre_tokenizer
    count = 0
    for code in range(0x110000):
        letter = chr(code)
        if 0xD800 <= code < 0xE000 or not is_settled(letter):
            continue
        text = f"a{letter}b {letter}"
        words = rules[1].pre_tokenize_str(rules[0].normalize_str(text))
        assert [w for w, _ in words] == basic_words(text, lowercase), hex(code)
        count += 1
    assert count > 90_000


def test_known_differences():
    """If one of these fails, the library has changed: update `is_settled`."""
    ours = Tokenizer.from_vocab(VOCAB)

    def words(text):
        normal = ours.backend.normalizer.normalize_str(text)
        split = ours.backend.pre_tokenizer.pre_tokenize_str(normal)
        return [word for word, _ in split]

    assert words("a\ue000b") == ["ab"]
    assert basic_words("a\ue000b", True) == ["a\ue000b"]
    assert words("ΣΑΣ") == ["σασ"]
    assert basic_words("ΣΑΣ", True) == ["σας"]
    for code in (0x2B820, 0x2B91F):
        assert words(f"a{chr(code)}b") == [f"a{chr(code)}b"]
    assert words(f"a{chr(0x2B920)}b") == ["a", chr(0x2B920), "b"]
    assert basic_words("a\U0002b820b", True) == ["a", "\U0002b820", "b"]
    # Punctuation of Unicode 8 and 9, and an accent of Unicode 11.
    assert words("a\U000112a9b") == ["a", "\U000112a9", "b"]
    assert words("a\U0001e95eb") == ["a\U0001e95eb"]
    assert words("a\u07fdb") == ["a\u07fdb"]


SETTLED_TEXTS = TEXTS.map(lambda text: "".join(filter(is_settled, text)))


@THOROUGH
@given(SETTLED_TEXTS)
def test_rules_on_made_up_texts(text):
    for lowercase in (True, False):
        ours = PAIRS[0 if lowercase else 1][0]
        assert ours(text).ids == reference_ids(text, VOCAB, lowercase)


@needs_data
@pytest.mark.parametrize("name", ["uncased", "cased"])
def test_rules_on_real_lines(name):
    lowercase = name == "uncased"
    path = DATA / "vocabs" / f"bert-base-{name}" / "vocab.txt"
    ours = Tokenizer.from_vocab(path, lowercase=lowercase)
    vocab = ours.get_vocab()
    generator = np.random.default_rng(0)
    lines = []
    for file in sorted((DATA / "pretrain").rglob("*.txt")):
        content = file.read_text(encoding="utf-8").split("\n")
        lines += generator.choice(content, 40).tolist()
    lines = ["".join(filter(is_settled, line)) for line in lines]
    ids = ours.encode_ids(lines).ids.tolist()
    expected = [reference_ids(line, vocab, lowercase) for line in lines]
    assert ids == sum(expected, [])
