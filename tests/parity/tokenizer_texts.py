"""Texts for the tokenizers, and how two of them are compared."""

from hypothesis import settings
from hypothesis import strategies as st

# Kinds of text that tokenizers have got wrong: see PAINS, tokenization.
SNIPPETS = [
    "", " ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2028", "\u0085",
    "\u00ad", "\u200b", "\u200d", "\ufeff", "\u0000", "\ufffd", "\u0007",
    "the", "unwanted", "running", "naïve", "NAÏVE", "café", "cafe\u0301",
    "İstanbul", "ıI", "straße", "STRASSE", "ẞ", "σας", "ΣΑΣ", "Å", "ﬁ",
    "中文", "日本語", "か\u3099", "ガ", "ｶﾞ", "한글", "\u1112\u1161\u11ab",
    "العربية", "َ", "हिन्दी", "ไทย", "Ж" * 60, "a" * 100, "a" * 101,
    "é" * 101, "👩\u200d🚀", "🇩🇪", "😀", "don't", "e.g.", "$5.00", "x^2", "`",
    "…", "—", "«»", "[MASK]", "[SEP]", "[CLS]", "[mask]", "[MASK", "MASK]",
    "[UNK]", "[PAD]", "##ing", "\U00020000", "\uf900", "①", "½", "ⅷ", "\u0345",
]  # fmt: skip
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(SNIPPETS),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        st.text("aeiou \u0301ßİΣσ.,中", max_size=8),
    ),
    max_size=12,
).map("".join)
# The examples are many and cheap; the clock of a shared machine is neither.
THOROUGH = settings(max_examples=400, deadline=None)


def assert_same(ours, theirs):
    """Compares lists of `tokenizers.Encoding` in everything they hold."""
    assert len(ours) == len(theirs)
    for mine, reference in zip(ours, theirs, strict=True):
        assert mine.ids == reference.ids
        assert mine.type_ids == reference.type_ids
        assert mine.offsets == reference.offsets
        assert mine.word_ids == reference.word_ids
        assert mine.special_tokens_mask == reference.special_tokens_mask
