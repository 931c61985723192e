"""The tokenizer on a vocabulary of a few tokens, without other packages."""

import copy
import json
import pickle
import threading

import numpy as np
import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors

from kbert.data.tokenizer import Tokenizer
from kbert.data.vocabulary import read_vocab

TOKENS = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the play ##ing ##s graft ##er hello world "
    "naive naïve cafe café istanbul straße σασ ガ カ 中 文 . , ' don t Don "
    "a b c d e f g ж ##ж 😀 ₿ íö io"
).split()


@pytest.fixture(scope="module")
def uncased():
    return Tokenizer.from_vocab(TOKENS)


@pytest.fixture(scope="module")
def cased():
    return Tokenizer.from_vocab(TOKENS, lowercase=False)


def pieces(tokenizer, text, **options):
    return tokenizer.encode_batch([text], **options)[0].tokens[1:-1]


def spans(tokenizer, text):
    """The parts of the text that the tokens' offsets point at."""
    encoding = tokenizer(text)
    return [text[start:end] for start, end in encoding.offsets[1:-1]]


# Rules.


def test_one_text_and_a_pair(uncased):
    encoding = uncased("The playing, hello")
    assert encoding.tokens == "[CLS] the play ##ing , hello [SEP]".split()
    assert encoding.type_ids == [0] * 7
    assert encoding.word_ids == [None, 0, 1, 1, 2, 3, None]
    assert encoding.special_tokens_mask == [1, 0, 0, 0, 0, 0, 1]
    pair = uncased("the", "playing")
    assert pair.tokens == ["[CLS]", "the", "[SEP]", "play", "##ing", "[SEP]"]
    assert pair.type_ids == [0, 0, 0, 1, 1, 1]
    bare = uncased.encode("the", "playing", add_special_tokens=False)
    assert bare.tokens == ["the", "play", "##ing"]
    assert uncased.encode("the").ids == uncased("the").ids


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u200b", "\u00ad"])
def test_nothing_to_encode(uncased, text):
    assert uncased(text).tokens == ["[CLS]", "[SEP]"]
    assert uncased(text, text).tokens == ["[CLS]", "[SEP]", "[SEP]"]
    assert uncased.encode_batch([text])[0].tokens == ["[CLS]", "[SEP]"]


def test_accents_follow_case_unless_told():
    texts = ["naïve", "Naïve"]
    for lowercase, strip_accents, expected in [
        (True, None, [["naive"], ["naive"]]),
        (True, True, [["naive"], ["naive"]]),
        (True, False, [["naïve"], ["naïve"]]),
        (False, None, [["naïve"], ["[UNK]"]]),
        (False, False, [["naïve"], ["[UNK]"]]),
        (False, True, [["naive"], ["[UNK]"]]),
    ]:
        tokenizer = Tokenizer.from_vocab(
            TOKENS, lowercase=lowercase, strip_accents=strip_accents
        )
        assert [pieces(tokenizer, text) for text in texts] == expected
    keeps = Tokenizer.from_vocab(TOKENS, strip_accents=False)
    assert pieces(keeps, "ÍÖ") == ["íö"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("café", ["cafe"]),
        ("cafe\u0301", ["cafe"]),
        ("hello\u00a0world", ["hello", "world"]),
        ("hel\u00adlo", ["hello"]),
        ("İstanbul", ["istanbul"]),
        ("straße", ["straße"]),
        ("ΣΑΣ", ["σασ"]),
        ("ガ", ["カ"]),
        ("中文", ["中", "文"]),
        ("don't", ["don", "'", "t"]),
        ("hello😀", ["[UNK]"]),
        ("hello 😀", ["hello", "😀"]),
        ("play₿", ["[UNK]"]),
        ("the ₿.", ["the", "₿", "."]),
    ],
)
def test_unicode(uncased, text, expected):
    assert pieces(uncased, text) == expected


def test_cjk_switch():
    joined = Tokenizer.from_vocab([*TOKENS, "中文"], split_chinese=False)
    assert pieces(joined, "中文") == ["中文"]
    split = Tokenizer.from_vocab([*TOKENS, "中文"])
    assert pieces(split, "中文") == ["中", "文"]


def test_long_words_count_code_points(uncased):
    # 60 Cyrillic letters are 120 bytes.
    assert pieces(uncased, "ж" * 60) == ["ж"] + ["##ж"] * 59
    assert pieces(uncased, "ж" * 100) == ["ж"] + ["##ж"] * 99
    assert pieces(uncased, "ж" * 101) == ["[UNK]"]
    short = Tokenizer.from_vocab(TOKENS, max_word_length=3)
    assert pieces(short, "жжж жжжж") == ["ж", "##ж", "##ж", "[UNK]"]
    long = Tokenizer.from_vocab(TOKENS, max_word_length=200)
    assert len(pieces(long, "ж" * 200)) == 200


def test_special_tokens_in_the_text(uncased, cased):
    for tokenizer in (uncased, cased):
        assert (
            pieces(tokenizer, "the [MASK]. hello[SEP]world")
            == "the [MASK] . hello [SEP] world".split()
        )
    # Only as written.
    assert "[MASK]" not in pieces(uncased, "[mask] [ MASK ]")


def test_never_split(tmp_path):
    tokenizer = Tokenizer.from_vocab(TOKENS, never_split=["graft", "Don"])
    # A whole word only: tok#672.
    assert (
        pieces(tokenizer, "graft, grafter Graft")
        == "graft , graft ##er graft".split()
    )
    # Found before lower-casing.
    assert pieces(tokenizer, "Don don Dona") == ["Don", "don", "[UNK]"]
    assert tokenizer.token_to_id("Don") not in tokenizer.special_token_ids
    tokenizer.save(tmp_path)
    again = Tokenizer.from_pretrained(tmp_path)
    assert pieces(again, "Don don") == ["Don", "don"]
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert sorted(config["never_split"]) == ["Don", "graft"]
    (tmp_path / "tokenizer.json").unlink()
    assert (
        pieces(Tokenizer.from_pretrained(tmp_path), "Don don")
        == "Don don".split()
    )


# Offsets.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("naïve café.", ["naïve", "café", "."]),
        # A combining mark that goes is inside a word, but not after one.
        ("nai\u0308ve cafe\u0301.", ["nai\u0308ve", "cafe", "."]),
        ("😀 hello 😀", ["😀", "hello", "😀"]),
        ("👩\u200d🚀 the", ["👩\u200d🚀", "the"]),
        ("ガ カ\u3099 中文", ["ガ", "カ", "中", "文"]),
        ("İstanbul playing", ["İstanbul", "play", "ing"]),
        ("hel\u00adlo world", ["hel\u00adlo", "world"]),
        ("the  \u00a0 world", ["the", "world"]),
        ("hello[MASK]world", ["hello", "[MASK]", "world"]),
    ],
)
def test_offsets_are_of_the_original(uncased, text, expected):
    assert spans(uncased, text) == expected


def test_offsets_of_a_pair(uncased):
    first, second = "naïve", "ΣΑΣ playing"
    encoding = uncased(first, second)
    assert encoding.offsets[1:2] == [(0, 5)]
    assert encoding.offsets[3:6] == [(0, 3), (4, 8), (8, 11)]
    assert encoding.sequence_ids == [None, 0, None, 1, 1, 1, None]


def test_offsets_of_words_restart(uncased):
    words = ["naïve", "don't", "", "play\u00a0the", "playing"]
    encoding = uncased.encode_batch([words], is_split_into_words=True)[0]
    found = [
        (words[word][start:end], word)
        for (start, end), word in zip(
            encoding.offsets, encoding.word_ids, strict=True
        )
        if word is not None
    ]
    assert found == [
        ("naïve", 0), ("don", 1), ("'", 1), ("t", 1), ("play", 3), ("the", 3),
        ("play", 4), ("ing", 4),
    ]  # fmt: skip


def test_pairs_of_word_lists(uncased):
    encoding = uncased.encode_batch(
        [("the", "playing")], [["hello"]], is_split_into_words=True
    )[0]
    assert encoding.tokens == "[CLS] the play ##ing [SEP] hello [SEP]".split()
    assert encoding.word_ids == [None, 0, 1, 1, None, 0, None]
    assert encoding.type_ids == [0, 0, 0, 0, 0, 1, 1]
    for empty in ([], (), np.array([], object)):
        encoding = uncased.encode_batch([empty], is_split_into_words=True)[0]
        assert encoding.tokens == ["[CLS]", "[SEP]"]


# What holds the texts.


def holders():
    texts = ["the play", "", "hello"]
    yield texts
    yield tuple(texts)
    yield np.array(texts)
    yield np.array(texts, object)
    yield [np.str_(text) for text in texts]
    pandas = pytest.importorskip("pandas")
    yield pandas.Series(texts, index=[5, 3, 3])
    yield pandas.Series(texts, dtype=object)
    yield pandas.DataFrame({"text": texts})["text"]
    datasets = pytest.importorskip("datasets")
    yield datasets.Dataset.from_dict({"text": texts})["text"]


def test_holders(uncased):
    expected = [uncased(text).ids for text in ("the play", "", "hello")]
    for texts in holders():
        encodings = uncased.encode_batch(texts)
        assert [encoding.ids for encoding in encodings] == expected
        flat = uncased.encode_ids(texts, texts)
        assert flat.lengths.tolist() == [7, 3, 5]
        words = [text.split() for text in texts]
        encodings = uncased.encode_batch(words, is_split_into_words=True)
        assert [encoding.ids for encoding in encodings] == expected


def test_arrays_of_words(uncased):
    words = np.array([["the", "play"], ["hello", "world"]])
    encodings = uncased.encode_batch(list(words), is_split_into_words=True)
    assert encodings[1].tokens == ["[CLS]", "hello", "world", "[SEP]"]


def test_no_texts(uncased):
    for empty in ([], (), np.array([])):
        assert uncased.encode_batch(empty) == []
        assert uncased.encode_batch(empty, empty) == []
        assert uncased.encode_batch(empty, is_split_into_words=True) == []
        flat = uncased.encode_ids(empty)
        assert flat.ids.shape == flat.type_ids.shape == flat.lengths.shape
        assert flat.ids.dtype == np.int32
        assert flat.num_truncated == 0


@pytest.mark.parametrize(
    "texts",
    ["a string", b"bytes", None, 3, {"a": "b"}, {"a"}, np.array("a"),
     np.array([["a"]]), (text for text in ["a"])],
    ids=lambda texts: type(texts).__name__,
)  # fmt: skip
@pytest.mark.parametrize("method", ["encode_batch", "encode_ids"])
def test_no_sequence_of_texts(uncased, method, texts):
    with pytest.raises(TypeError, match="Received: texts="):
        getattr(uncased, method)(texts)
    if texts is not None:
        with pytest.raises(TypeError, match="Received: pairs="):
            getattr(uncased, method)(["a"], texts)


def test_data_frame_is_no_column(uncased):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match="Received: texts="):
        uncased.encode_batch(pandas.DataFrame({"text": ["a"]}))


@pytest.mark.parametrize(
    "item",
    [None, float("nan"), 3, b"bytes", ["the"], ("the", "play")],
    ids=lambda item: type(item).__name__,
)
@pytest.mark.parametrize("method", ["encode_batch", "encode_ids"])
def test_no_text(uncased, method, item):
    encode = getattr(uncased, method)
    with pytest.raises(TypeError) as error:
        encode(["the", "play", item])
    assert str(error.value).endswith(f"Received: texts[2]={item!r}")
    with pytest.raises(TypeError) as error:
        encode(["the", "play"], [item, "the"])
    assert str(error.value).endswith(f"Received: pairs[0]={item!r}")


def test_missing_value_in_a_series(uncased):
    pandas = pytest.importorskip("pandas")
    for dtype in (object, "str"):
        series = pandas.Series(["the", None], dtype=dtype)
        with pytest.raises(TypeError, match=r"missing .*Received: texts\[1\]="):
            uncased.encode_batch(series)


@pytest.mark.parametrize("text", [None, 3, b"a", ["a"], np.array(["a"])])
def test_encode_takes_one_string(uncased, text):
    with pytest.raises(TypeError, match="`encode_batch`.*Received: text="):
        uncased(text)
    if text is not None:
        with pytest.raises(TypeError, match="`encode_batch`.*Received: pair="):
            uncased("a", text)


def test_words_must_be_lists_of_strings(uncased):
    with pytest.raises(TypeError, match=r"Received: texts\[1\]='a b'"):
        uncased.encode_batch([["a"], "a b"], is_split_into_words=True)
    with pytest.raises(TypeError, match=r"Received: texts\[0\]\[1\]=None"):
        uncased.encode_batch([["a", None]], is_split_into_words=True)
    with pytest.raises(TypeError, match=r"Received: texts\[0\]=\['a'\]"):
        uncased.encode_batch([["a"]])


@pytest.mark.parametrize("method", ["encode_batch", "encode_ids"])
def test_numbers_of_texts_differ(uncased, method):
    with pytest.raises(ValueError, match=r"len\(texts\)=2, len\(pairs\)=1"):
        getattr(uncased, method)(["a", "b"], ["c"])


@pytest.mark.parametrize("method", ["encode_batch", "encode_ids"])
def test_half_a_surrogate_pair(uncased, method):
    encode, half = getattr(uncased, method), "ab\ud83d"
    with pytest.raises(ValueError) as error:
        encode(["the", "é", half])
    assert "character 2 " in str(error.value)
    assert str(error.value).endswith(f"Received: texts[2]={half!r}")
    with pytest.raises(ValueError, match=r"Received: pairs\[1\]="):
        encode(["a", "b"], ["c", "\udc00"])
    with pytest.raises(ValueError, match=r"Received: texts\[0\]\[1\]="):
        uncased.encode_batch([["a", "\ud800"]], is_split_into_words=True)
    # What the message advises.
    fixed = "a\ud83d\ude00\ud800".encode("utf-16", "surrogatepass")
    uncased(fixed.decode("utf-16", "replace"))


# Truncation.


def test_truncation_leaves_nothing_behind(uncased):
    text = "a b c d e f g"
    assert (
        uncased.encode(text, max_length=5).tokens == "[CLS] a b c [SEP]".split()
    )
    assert len(uncased(text).ids) == 9
    assert len(uncased.encode(text, max_length=2).ids) == 2
    assert len(uncased.encode(text, max_length=9).overflowing) == 0
    bare = uncased.encode(text, max_length=1, add_special_tokens=False)
    assert bare.tokens == ["a"]


@pytest.mark.parametrize(
    ("first", "second", "max_length", "truncation", "expected"),
    [
        (5, 2, 8, "longest_first", (3, 2)),
        (2, 5, 8, "longest_first", (2, 3)),
        (5, 5, 8, "longest_first", (2, 3)),
        (6, 5, 8, "longest_first", (3, 2)),
        (5, 2, 8, "only_first", (3, 2)),
        (2, 5, 8, "only_second", (2, 3)),
        (0, 9, 3, "longest_first", (0, 0)),
        (5, 5, 13, "longest_first", (5, 5)),
    ],
)
def test_truncated_pairs(
    uncased, first, second, max_length, truncation, expected
):
    texts, pairs = [" a" * first], [" b" * second]
    options = {"max_length": max_length, "truncation": truncation}
    encoding = uncased.encode_batch(texts, pairs, **options)[0]
    counts = encoding.tokens.count("a"), encoding.tokens.count("b")
    assert counts == expected
    flat = uncased.encode_ids(texts, pairs, **options)
    assert flat.ids.tolist() == encoding.ids
    assert flat.type_ids.tolist() == encoding.type_ids
    assert flat.num_truncated == (sum(expected) < first + second)


def test_flat_ids(uncased):
    texts = ["the play", "", "a b c d e f g", "hello"]
    flat = uncased.encode_ids(texts)
    assert (flat.ids.dtype, flat.type_ids.dtype) == (np.int32, np.int32)
    assert flat.lengths.dtype == np.int64
    assert flat.lengths.tolist() == [4, 2, 9, 3]
    assert flat.ids.tolist() == sum((uncased(t).ids for t in texts), [])
    assert flat.type_ids.tolist() == [0] * 18
    assert flat.num_truncated == 0
    assert uncased.encode_ids(texts, max_length=4).num_truncated == 1
    assert uncased.encode_ids(texts, max_length=3).num_truncated == 2
    assert uncased.encode_ids(texts, max_length=9).num_truncated == 0
    with pytest.raises(AttributeError):
        flat.num_truncated = 1


def test_flat_ids_over_several_chunks(uncased):
    texts = [" ".join("abcdefg"[: n % 8]) for n in range(5000)]
    flat = uncased.encode_ids(texts, texts[::-1], max_length=10)
    encodings = uncased.encode_batch(texts, texts[::-1], max_length=10)
    assert flat.ids.tolist() == [i for e in encodings for i in e.ids]
    assert flat.type_ids.tolist() == [i for e in encodings for i in e.type_ids]
    assert flat.lengths.tolist() == [len(e.ids) for e in encodings]
    assert flat.num_truncated == sum(bool(e.overflowing) for e in encodings)


def test_two_very_long_texts(uncased):
    # The Rust side would keep each part of one with each part of the other.
    flat = uncased.encode_ids(["a " * 50_000], ["b " * 50_000], max_length=64)
    assert flat.lengths.tolist() == [64]
    assert flat.num_truncated == 1


@pytest.mark.parametrize("words", [False, True])
def test_windows(uncased, words):
    def text(string):
        return string.split() if words else string

    encoding = uncased.encode_batch(
        [text("the")],
        [text("a b c d e f g")],
        truncation="only_second",
        max_length=8,
        overlap=2,
        is_split_into_words=words,
    )[0]
    windows = [
        " ".join(window.tokens[3:-1])
        for window in (encoding, *encoding.overflowing)
    ]
    assert windows == ["a b c d", "c d e f", "e f g"]
    single = uncased.encode_batch(["a b c d e"], max_length=5, overlap=1)[0]
    assert [w.tokens[1:-1] for w in single.overflowing] == [["c", "d", "e"]]


@pytest.mark.parametrize("method", ["encode_batch", "encode_ids"])
def test_max_length_without_room(uncased, method):
    encode = getattr(uncased, method)
    for max_length in (1, 0, -1):
        with pytest.raises(ValueError, match=f"max_length={max_length}"):
            encode(["a"], max_length=max_length)
    with pytest.raises(ValueError, match="3 special.*max_length=2"):
        encode(["a"], ["b"], max_length=2)
    for max_length in (2.5, 8.0, "8", True):
        with pytest.raises(TypeError, match="integers.*Received: max_length="):
            encode(["a"], max_length=max_length)
    encode(["a"], max_length=np.int64(4))


@pytest.mark.parametrize("method", ["encode_batch", "encode_ids"])
def test_truncation_names(uncased, method):
    encode = getattr(uncased, method)
    with pytest.raises(ValueError, match="Received: truncation='longest'"):
        encode(["a"], ["b"], max_length=8, truncation="longest")
    with pytest.raises(ValueError, match="pairs=None"):
        encode(["a"], max_length=8, truncation="only_second")
    same = encode(["a b c"], max_length=4, truncation="only_first")
    assert len(same) == 1 if method == "encode_batch" else same.num_truncated


@pytest.mark.parametrize("method", ["encode_batch", "encode_ids"])
@pytest.mark.parametrize("first_is_whole", [True, False])
def test_whole_text_leaves_no_room(uncased, method, first_is_whole):
    whole, cut = ["a", "a b c d e f"], ["c d e f g", "g"]
    texts = (whole, cut) if first_is_whole else (cut, whole)
    options = {
        "truncation": "only_second" if first_is_whole else "only_first",
        "max_length": 9,
    }
    with pytest.raises(ValueError) as error:
        getattr(uncased, method)(*texts, **options)
    name = "texts" if first_is_whole else "pairs"
    assert f"the 6 tokens of {name}[1] leave 0 of 6" in str(error.value)
    # Nothing to cut, no matter how little room there is.
    options["max_length"] = 10
    getattr(uncased, method)(*texts, **options)


def test_overlap_must_leave_room(uncased):
    for overlap in (6, 7, -1):
        with pytest.raises(ValueError, match=f"overlap={overlap}"):
            uncased.encode_batch(["a b c"], max_length=8, overlap=overlap)
    with pytest.raises(ValueError, match="max_length=None, overlap=2"):
        uncased.encode_batch(["a"], overlap=2)
    with pytest.raises(TypeError, match="overlap=1.5"):
        uncased.encode_batch(["a"], max_length=8, overlap=1.5)
    with pytest.raises(ValueError, match="windows of a pair"):
        uncased.encode_batch(["a"], ["b"], max_length=8, overlap=2)
    options = {"max_length": 10, "truncation": "only_second", "overlap": 3}
    with pytest.raises(ValueError, match=r"overlap=3.*texts\[1\] leave 3 of 7"):
        uncased.encode_batch(["a", "a b c d"], ["c", "d e f g"], **options)
    # The same question with a context that fits.
    uncased.encode_batch(["a", "a b c d"], ["c", "d e f"], **options)
    # Even without special tokens the Rust side counts two.
    with pytest.raises(ValueError, match="overlap=2"):
        uncased.encode_batch(
            ["a b c"], max_length=4, overlap=2, add_special_tokens=False
        )


# Ids and tokens.


def test_vocabulary(uncased):
    assert uncased.vocab_size == len(TOKENS)
    assert uncased.max_length == 512
    assert uncased.pad_token_id == 0
    assert uncased.unk_token_id == 1
    assert uncased.cls_token_id == 2
    assert uncased.sep_token_id == 3
    assert uncased.mask_token_id == 4
    assert uncased.special_token_ids == (0, 1, 2, 3, 4)
    assert uncased.num_special_tokens() == 2
    assert uncased.num_special_tokens(pair=True) == 3
    assert uncased.get_vocab() == {t: i for i, t in enumerate(TOKENS)}
    assert uncased.token_to_id("play") == TOKENS.index("play")
    assert uncased.token_to_id("absent") is None
    assert uncased.id_to_token(np.int32(5)) == TOKENS[5]
    assert uncased.id_to_token(-1) is uncased.id_to_token(10**6) is None
    expected = f"Tokenizer(vocab_size={len(TOKENS)}, max_length=512)"
    assert repr(uncased) == expected


def test_vocab_size_counts_added_tokens(tmp_path, uncased):
    uncased.save(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    added = {**content["added_tokens"][0], "content": "<new>"}
    content["added_tokens"].append({**added, "id": len(TOKENS)})
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    tokenizer = Tokenizer.from_pretrained(tmp_path)
    assert tokenizer.vocab_size == len(TOKENS) + 1
    assert tokenizer.special_token_ids == (0, 1, 2, 3, 4, len(TOKENS))
    assert pieces(tokenizer, "the<new>") == ["the", "<new>"]


def test_decode(uncased):
    ids = uncased("The playing, don [MASK]").ids
    assert uncased.decode(ids) == "the playing, don"
    kept = uncased.decode(np.array(ids), skip_special_tokens=False)
    assert kept == "[CLS] the playing, don [MASK] [SEP]"
    rows = uncased.decode_batch([ids, [], uncased("a b").ids])
    assert rows == ["the playing, don", "", "a b"]
    rows = uncased.decode_batch(np.array([[5, 6], [6, 7]]))
    assert rows == ["the play", "playing"]
    assert uncased.decode([]) == ""
    assert uncased.decode_batch([]) == []


@pytest.mark.parametrize(
    "ids", [[-1], [10**6], [1.5], [[1]], 3, ["the"], [None]], ids=str
)
def test_decode_of_no_ids(uncased, ids):
    with pytest.raises(ValueError, match=r"Received: ids\[1\]="):
        uncased.decode_batch([[5], ids])
    with pytest.raises(ValueError, match=r"Received: ids\[0\]="):
        uncased.decode(ids)


# Vocabularies.


@pytest.mark.parametrize(
    "content",
    [
        "\n".join(TOKENS),
        "\n".join(TOKENS) + "\n",
        "\n".join(TOKENS) + "\n\n\n",
        "\r\n".join(TOKENS) + "\r\n",
        "\ufeff" + "\n".join(TOKENS),
    ],
    ids=["no end", "end", "blank lines", "carriage returns", "byte order mark"],
)
def test_line_ends(tmp_path, content):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content.encode())
    assert read_vocab(path) == TOKENS
    for vocab in (path, str(path)):
        assert Tokenizer.from_vocab(vocab).vocab_size == len(TOKENS)


def test_tokens_that_look_like_space(tmp_path):
    # str.splitlines would split at these, str.strip would empty them.
    odd = ["\u2028", "\u0085", "\u3000", " ", "\x0b", "\x1c", "a b", "x\ry"]
    tokens = [*TOKENS, *odd, "last"]
    path = tmp_path / "vocab.txt"
    path.write_bytes("\n".join(tokens).encode() + b"\n")
    tokenizer = Tokenizer.from_vocab(path)
    assert tokenizer.get_vocab() == {t: i for i, t in enumerate(tokens)}
    tokenizer.save(tmp_path / "saved")
    assert (tmp_path / "saved" / "vocab.txt").read_bytes() == path.read_bytes()
    again = Tokenizer.from_pretrained(tmp_path / "saved")
    assert again.get_vocab() == tokenizer.get_vocab()
    assert again("last").ids[1] == len(tokens) - 1


def test_forms_of_a_vocabulary(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS), encoding="utf-8")
    ids = {token: index for index, token in enumerate(TOKENS)}
    backwards = dict(reversed(ids.items()))
    forms = [TOKENS, tuple(TOKENS), ids, backwards, tmp_path / "vocab.txt"]
    for form in forms:
        assert Tokenizer.from_vocab(form).get_vocab() == ids


@pytest.mark.parametrize(
    ("vocab", "message"),
    [
        ([], "with tokens in it"),
        ({}, "with tokens in it"),
        (TOKENS[1:], r"\['\[PAD\]'\] in the vocabulary"),
        ([*TOKENS, "the"], r"once.*\['the'\]"),
        ({"[PAD]": 0, "a": 2}, "'a' has 2 where 1 is due"),
        ({"[PAD]": 0, "a": 0}, "'a' has 0 where 1 is due"),
        ({"[PAD]": 1}, "'.PAD.' has 1 where 0 is due"),
        ([*TOKENS, "a\nb"], "line of vocab.txt"),
        ([*TOKENS, "a\r"], "line of vocab.txt"),
    ],
)
def test_bad_vocabularies(vocab, message):
    with pytest.raises(ValueError, match=f"{message}.*Received: vocab="):
        Tokenizer.from_vocab(vocab)


def test_bad_vocabulary_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        Tokenizer.from_vocab(tmp_path / "vocab.txt")
    (tmp_path / "vocab.txt").write_bytes(b"")
    with pytest.raises(ValueError, match="Received: vocab="):
        Tokenizer.from_vocab(tmp_path / "vocab.txt")
    (tmp_path / "vocab.txt").write_bytes("é".encode("latin-1"))
    with pytest.raises(ValueError, match="UTF-8.*Received: vocab="):
        Tokenizer.from_vocab(tmp_path / "vocab.txt")


@pytest.mark.parametrize("vocab", [None, 3, {"a"}, {"[PAD]": "0"}], ids=str)
def test_no_vocabulary(vocab):
    with pytest.raises(TypeError, match="Received: vocab="):
        Tokenizer.from_vocab(vocab)


def test_bad_tokens():
    with pytest.raises(TypeError, match="token 0 is 3.*Received: vocab="):
        Tokenizer.from_vocab([3, *TOKENS])
    with pytest.raises(ValueError, match=r"\['absent'\].*Received: vocab="):
        Tokenizer.from_vocab(TOKENS, never_split=["absent"])
    with pytest.raises(TypeError, match="Received: never_split='the'"):
        Tokenizer.from_vocab(TOKENS, never_split="the")
    with pytest.raises(ValueError, match=r"\['<pad>'\] in the vocabulary"):
        Tokenizer.from_vocab(TOKENS, pad_token="<pad>")


# Files.


OPTIONS = [
    {},
    {"lowercase": False},
    {"lowercase": True, "strip_accents": False},
    {"lowercase": False, "strip_accents": True},
    {"split_chinese": False},
    {"max_length": None},
    {"max_length": 64, "never_split": ["Don", "graft"]},
    {"cls_token": "hello", "sep_token": "world", "mask_token": "graft"},
    {"max_word_length": 4},
]
TEXTS = ["Naïve Café ΣΑΣ", "中文 Don't Don grafts", "hello [MASK] [SEP]", ""]


def assert_equal(left, right):
    assert left.get_vocab() == right.get_vocab()
    assert left.max_length == right.max_length
    assert left.special_token_ids == right.special_token_ids
    assert left.pad_token_id == right.pad_token_id
    assert left.mask_token_id == right.mask_token_id
    assert left.encode_batch(TEXTS)[0].offsets == (
        right.encode_batch(TEXTS)[0].offsets
    )
    for pairs in (None, TEXTS[::-1]):
        one, two = left.encode_ids(TEXTS, pairs), right.encode_ids(TEXTS, pairs)
        assert one.ids.tolist() == two.ids.tolist()
        assert one.type_ids.tolist() == two.type_ids.tolist()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_save_and_load(tmp_path, options):
    tokenizer = Tokenizer.from_vocab(TOKENS, **options)
    tokenizer.encode("a b c", max_length=3)
    tokenizer.save(tmp_path / "new" / "folder")
    again = Tokenizer.from_pretrained(tmp_path / "new" / "folder")
    assert_equal(tokenizer, again)
    again.save(tmp_path / "again")
    for file in (tmp_path / "new" / "folder").iterdir():
        # The second time gives the same bytes.
        copied = tmp_path / "again" / file.name
        assert copied.read_bytes() == file.read_bytes()
    if "max_word_length" not in options:
        (tmp_path / "again" / "tokenizer.json").unlink()
        assert_equal(tokenizer, Tokenizer.from_pretrained(tmp_path / "again"))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_pickle_and_copy(options):
    tokenizer = Tokenizer.from_vocab(TOKENS, **options)
    tokenizer.encode("a b c", max_length=3)
    assert_equal(tokenizer, pickle.loads(pickle.dumps(tokenizer)))
    copied = copy.deepcopy(tokenizer)
    assert_equal(tokenizer, copied)
    assert copied.backend is not tokenizer.backend


def test_truncation_and_padding_in_the_file_are_left_out(tmp_path, uncased):
    backend = tokenizers.Tokenizer.from_str(uncased.backend.to_str())
    backend.enable_truncation(3)
    backend.enable_padding(length=3)
    backend.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 9}')
    tokenizer = Tokenizer.from_pretrained(tmp_path)
    assert len(tokenizer("a b c d").ids) == 6
    assert len(tokenizer("").ids) == 2
    assert tokenizer.max_length == 9


def write(directory, config=None):
    (directory / "vocab.txt").write_text("\n".join(TOKENS), encoding="utf-8")
    if config is not None:
        path = directory / "tokenizer_config.json"
        path.write_text(json.dumps(config), encoding="utf-8")
    return directory


def test_vocabulary_alone(tmp_path):
    tokenizer = Tokenizer.from_pretrained(str(write(tmp_path)))
    assert pieces(tokenizer, "Naïve") == ["naive"]
    assert tokenizer.max_length is None
    cased = Tokenizer.from_pretrained(tmp_path, lowercase=False)
    assert pieces(cased, "naïve Naïve") == ["naïve", "[UNK]"]


@pytest.mark.parametrize(
    ("config", "text", "expected"),
    [
        ({}, "Café 中文", ["cafe", "中", "文"]),
        ({"do_lower_case": None, "never_split": None}, "Café", ["cafe"]),
        ({"do_lower_case": False}, "café", ["café"]),
        ({"strip_accents": False}, "Café", ["café"]),
        ({"tokenize_chinese_chars": False}, "中文", ["[UNK]"]),
        ({"never_split": ["Don"]}, "Don", ["Don"]),
        ({"mask_token": "hello"}, "the hello", ["the", "hello"]),
    ],
)
def test_vocabulary_with_a_config(tmp_path, config, text, expected):
    tokenizer = Tokenizer.from_pretrained(write(tmp_path, config))
    assert pieces(tokenizer, text) == expected


def test_special_tokens_of_a_config(tmp_path):
    token = {"__type": "AddedToken", "content": "hello", "lstrip": False}
    config = {"mask_token": token, "pad_token": "world"}
    tokenizer = Tokenizer.from_pretrained(write(tmp_path, config))
    assert tokenizer.mask_token_id == TOKENS.index("hello")
    assert tokenizer.pad_token_id == TOKENS.index("world")
    assert tokenizer.cls_token_id == TOKENS.index("[CLS]")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(512, 512), (512.0, 512), (10**30, None), (1e30, None), (None, None)],
)
def test_max_length_of_a_config(tmp_path, value, expected):
    config = {"model_max_length": value}
    tokenizer = Tokenizer.from_pretrained(write(tmp_path, config))
    assert tokenizer.max_length == expected


def test_config_changes_tokenizer_json(tmp_path, uncased):
    uncased.save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text('{"do_lower_case": false}')
    assert pieces(Tokenizer.from_pretrained(tmp_path), "Don") == ["Don"]
    tokenizer = Tokenizer.from_pretrained(tmp_path, lowercase=True)
    assert pieces(tokenizer, "Don") == ["don"]
    # What the config does not mention, tokenizer.json decides.
    Tokenizer.from_vocab(TOKENS, strip_accents=False).save(tmp_path)
    path.write_text('{"do_lower_case": true}')
    assert pieces(Tokenizer.from_pretrained(tmp_path), "Café") == ["café"]
    path.unlink()
    assert pieces(Tokenizer.from_pretrained(tmp_path), "Café") == ["café"]
    # A general class takes tokenizer.json as it is, but an argument counts.
    general = {"tokenizer_class": "PreTrainedTokenizerFast"}
    path.write_text(json.dumps({**general, "do_lower_case": False}))
    assert pieces(Tokenizer.from_pretrained(tmp_path), "Don") == ["don"]
    tokenizer = Tokenizer.from_pretrained(tmp_path, lowercase=False)
    assert pieces(tokenizer, "Don") == ["Don"]


def test_any_tokenizer_json(tmp_path):
    """Of other rules, the file is kept as it is."""
    vocab = {token: index for index, token in enumerate(TOKENS)}
    backend = tokenizers.Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    backend.normalizer = normalizers.Sequence([normalizers.Lowercase()])
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS]:2 $A:1 [SEP]:2",
        pair="[CLS]:0 $A:0 [SEP]:0 [SEP]:0 $B:0 [SEP]:0",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    backend.save(str(tmp_path / "tokenizer.json"))
    config = {"do_lower_case": False, "model_max_length": 7}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer.from_pretrained(tmp_path)
    assert pieces(tokenizer, "The play the.") == ["the", "play", "[UNK]"]
    assert tokenizer.num_special_tokens(pair=True) == 4
    # The types of single texts are read where the template sets them.
    assert tokenizer.encode_ids(["the"]).type_ids.tolist() == [2, 1, 2]
    flat = tokenizer.encode_ids(["the play"], ["a b c"], max_length=7)
    encoding = tokenizer.encode_batch(["the play"], ["a b c"], max_length=7)[0]
    assert flat.ids.tolist() == encoding.ids
    tokenizer.save(tmp_path / "saved")
    names = sorted(path.name for path in (tmp_path / "saved").iterdir())
    assert names == ["tokenizer.json", "tokenizer_config.json"]
    assert_equal(tokenizer, Tokenizer.from_pretrained(tmp_path / "saved"))


def test_bert_pieces_in_another_template(tmp_path, uncased):
    backend = copy.deepcopy(uncased.backend)
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", 2)]
    )
    Tokenizer(backend).save(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"


def test_missing_files(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(FileNotFoundError) as error:
        Tokenizer.from_pretrained(tmp_path)
    assert "tokenizer.json or a vocab.txt" in str(error.value)
    assert "Received: source=" in str(error.value)
    with pytest.raises(FileNotFoundError, match="Received: source="):
        Tokenizer.from_pretrained(tmp_path / "absent")
    with pytest.raises(TypeError, match="Received: source=None"):
        Tokenizer.from_pretrained(None)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", "{}"),
        ("tokenizer.json", "no json"),
        ("tokenizer_config.json", "no json"),
        ("tokenizer_config.json", "[]"),
    ],
)
def test_bad_files(tmp_path, name, content):
    (write(tmp_path) / name).write_text(content)
    with pytest.raises(ValueError, match=f"Received: path='.*{name}'$"):
        Tokenizer.from_pretrained(tmp_path)


def test_special_token_not_in_tokenizer_json(tmp_path, uncased):
    uncased.save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text('{"cls_token": "<s>", "sep_token": "</s>"}')
    with pytest.raises(ValueError) as error:
        Tokenizer.from_pretrained(tmp_path)
    expected = "Received: {'cls_token': '<s>', 'sep_token': '</s>'}"
    assert str(error.value).endswith(expected)


# Threads.


def test_threads_with_different_lengths(uncased):
    """Truncation is a setting of the Rust object, and must not leak."""
    texts = [" ".join("abcdefg" * 10)] * 50
    wrong = []

    def work(max_length):
        expected = 72 if max_length is None else max_length
        for _ in range(20):
            encodings = uncased.encode_batch(texts, max_length=max_length)
            sizes = {len(encoding.ids) for encoding in encodings}
            lengths = uncased.encode_ids(texts, max_length=max_length).lengths
            if sizes | set(lengths.tolist()) != {expected}:
                wrong.append((max_length, sizes))

    threads = [
        threading.Thread(target=work, args=(max_length,))
        for max_length in (None, 5, 17, 40)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
