"""Trained vocabularies, saved and loaded by transformers."""

import pytest

transformers = pytest.importorskip(
    "transformers", reason="pip install keras-kbert[parity]"
)

from tokenizer_texts import SNIPPETS, assert_same  # noqa: E402

from kbert.data.tokenizer import Tokenizer  # noqa: E402

TEXTS = [
    "The quick brown fox jumps over the lazy dog, and runs (again) home.",
    "Playing the film wasn't a very good idea: bad plots, 1,000 words!",
    "Naïve café Zürich straße — “quotes” … ½ ﬁne x² σας 中文 日本語 한글 😀",
] * 5
OPTIONS = [
    {"model": "wordpiece"},
    {"model": "wordpiece", "lowercase": False, "num_unused": 0},
    {"model": "wordpiece", "strip_accents": False},
    {"model": "bpe"},
    {"model": "unigram"},
    {"model": "unigram", "lowercase": False},
    {"model": "unigram", "strip_accents": False},
]


@pytest.mark.parametrize("extra", [[], ["[E1]", "<e2>"]], ids=["", "extra"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_saved_and_loaded(options, extra, tmp_path):
    tokenizer = Tokenizer.train(
        TEXTS, 450, max_length=77, extra_special_tokens=extra, **options
    )
    tokenizer.save(tmp_path)
    texts = [*TEXTS[:3], *SNIPPETS, "", "a <mask> [MASK] b [E1]x <e2> [SEP]"]
    again = Tokenizer.from_pretrained(tmp_path)
    assert again.get_vocab() == tokenizer.get_vocab()
    assert again.special_tokens == tokenizer.special_tokens
    assert again.special_token_ids == tokenizer.special_token_ids
    assert (again.family, again.max_length) == (tokenizer.family, 77)
    assert again.backend.to_str() == tokenizer.backend.to_str()
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs.model_max_length == 77
    assert theirs.get_vocab() == tokenizer.get_vocab()
    assert_same(tokenizer.encode_batch(texts), theirs(texts).encodings)
    assert_same(
        tokenizer.encode_batch(texts, texts[::-1]),
        theirs(texts, texts[::-1]).encodings,
    )
    for name in ("pad", "unk", "cls", "sep", "mask"):
        assert getattr(theirs, f"{name}_token_id") == getattr(
            tokenizer, f"{name}_token_id"
        )
