import time
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kbert.pipelines.words import group_pieces, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \t\n", []),
        ("Rome fell.", ["Rome", "fell", "."]),
        ("(Paris),", ["(", "Paris", ")", ","]),
        ("O'Neil O’Neil’s x-ray", ["O'Neil", "O’Neil", "’s", "x-ray"]),
        ("the U.S. and the U.N.", ["the", "U.S.", "and", "the", "U.N."]),
        ("John F. Kennedy had plan B.", None),
        ("3.14 1,000 10:30 1/2", ["3.14", "1,000", "10:30", "1/2"]),
        ("Oslo,Rome/Bonn", ["Oslo", ",", "Rome", "/", "Bonn"]),
        ("AT&T me@home.org", ["AT&T", "me@home.org"]),
        ("@me #tag $5", ["@me", "#tag", "$", "5"]),
        ("see https://x.org/a?b=c.", ["see", "https://x.org/a?b=c", "."]),
        ("so... -- 'yes'", ["so", "...", "--", "'", "yes", "'"]),
        ("日本語 ひら", ["日", "本", "語", "ひ", "ら"]),
        ("在Paris。", ["在", "Paris", "。"]),
        ("한국 사람", ["한국", "사람"]),
        ("ไป่", ["ไ", "ป่"]),
        ("Zu\u0308rich cafe\u0301s", ["Zu\u0308rich", "cafe\u0301s"]),
        ("हिन्दी", ["हिन्दी"]),
        ("a👩\u200d🚀b", ["a", "👩\u200d🚀", "b"]),
        ("co\u00adop \u200bx\u200b", ["co\u00adop", "x"]),
        ("a\x00b", ["a\x00b"]),
    ],
)
def test_words_of(text, words):
    if words is None:
        words = ["John", "F.", "Kennedy", "had", "plan", "B", "."]
    assert [text[a:b] for a, b in split_words(text)] == words


TEXTS = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from("ab.-' \t\u0301\u200d日😀,/:@1Z"),
    ),
    max_size=40,
)


@given(TEXTS)
@example("\u0301.\u200d'S")
@settings(deadline=None)
def test_words_are_in_order_and_hold_all_that_can_be_seen(text):
    spans = split_words(text)
    flat = spans.reshape(-1)
    assert (np.diff(flat) >= 0).all() and (spans[:, 0] < spans[:, 1]).all()
    held = np.zeros(len(text), bool)
    for start, end in spans:
        held[start:end] = True
        assert not any(char.isspace() for char in text[start:end])
    for char, is_held in zip(text, held, strict=True):
        is_hidden = unicodedata.category(char) in ("Cc", "Cf")
        assert is_held or char.isspace() or is_hidden


@pytest.mark.parametrize("part", ["a+", "a.", "a.a ", "a://", "'s", "\u0301-"])
def test_no_text_takes_long(part):
    start = time.perf_counter()
    split_words(part * 20_000)
    # Milliseconds; half a minute if it were quadratic.
    assert time.perf_counter() - start < 3


def groups(words, pieces):
    offsets = np.array([piece[:2] for piece in pieces]).reshape(-1, 2)
    of = np.array([piece[2] for piece in pieces], np.int64)
    spans, owners = group_pieces(np.array(words).reshape(-1, 2), offsets, of)
    return spans.tolist(), owners.tolist()


def test_pieces_of_words():
    pieces = [(0, 1, 0), (1, 2, 0), (4, 6, 1)]
    assert groups([(0, 2), (3, 6)], pieces) == ([[0, 2], [3, 6]], [0, 0, 1])


def test_words_that_share_a_piece_are_one():
    words = [(0, 1), (1, 2), (2, 3), (4, 5)]
    pieces = [(0, 2, 0), (1, 3, 0), (3, 5, 1)]
    assert groups(words, pieces) == ([[0, 3], [4, 5]], [0, 0, 1])


def test_pieces_of_no_word():
    # A space before its word; one that stands alone; an empty piece inside.
    pieces = [(0, 1, 0), (1, 2, 0), (2, 3, 1), (3, 5, 2), (4, 4, 2), (5, 6, 3)]
    spans, owners = groups([(1, 2), (3, 5)], pieces)
    assert spans == [[1, 2], [3, 5]]
    assert owners == [0, 0, -1, 1, 1, -1]


def test_nothing_to_group():
    assert groups([], []) == ([], [])
    assert groups([], [(0, 1, 0)]) == ([], [-1])
    assert groups([(0, 1)], []) == ([[0, 1]], [])
