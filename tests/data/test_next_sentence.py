"""Segments are checked on a corpus whose tokens are their own numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbert.data.corpus import Corpus
from kbert.data.next_sentence import (
    full_sentences,
    next_sentence_pairs,
    sentence_order_pairs,
)

SEP = -1


def corpus_of(documents):
    """Make documents, given as lists of sentence lengths."""
    lengths = [size for document in documents for size in document]
    sizes = [len(document) for document in documents]
    return Corpus(
        ids=np.arange(sum(lengths), dtype=np.int32),
        word_starts=np.ones(sum(lengths), bool),
        sentences=np.cumsum([0, *lengths]),
        documents=np.cumsum([0, *sizes]),
    )


def drawn(seed, num_documents=300, most=20, longest=30):
    rng = np.random.default_rng(seed)
    return [
        rng.integers(1, longest, rng.integers(1, most)).tolist()
        for _ in range(num_documents)
    ]


def documents_of(corpus):
    """The document of each token."""
    sizes = np.diff(corpus.sentences[corpus.documents])
    return np.repeat(np.arange(len(sizes)), sizes)


DOCUMENTS = st.lists(
    st.lists(st.integers(1, 12), min_size=1, max_size=6),
    min_size=2,
    max_size=6,
)


@given(DOCUMENTS, st.integers(12, 40), st.integers(0, 3))
def test_pairs_hold_what_their_labels_say(documents, room, seed):
    corpus = corpus_of(documents)
    if max(map(len, documents)) < 2:
        with pytest.raises(ValueError, match="one sentence each"):
            next_sentence_pairs(corpus, room, np.random.default_rng(seed))
        return
    pairs = next_sentence_pairs(corpus, room, np.random.default_rng(seed))
    of = documents_of(corpus)
    for (a, a_end, b, b_end), label in zip(
        pairs.bounds, pairs.labels, strict=True
    ):
        assert a < a_end and b < b_end
        assert a_end - a + b_end - b <= room
        assert len(set(of[a:a_end])) == len(set(of[b:b_end])) == 1
        assert (of[a] != of[b]) == label
        assert label or a_end <= b


def test_pairs_without_truncation_tile_the_documents():
    # Room for all: whatever is not A or a true B was put back.
    corpus = corpus_of(drawn(0))
    pairs = next_sentence_pairs(
        corpus, 10**6, np.random.default_rng(0), short_probability=0
    )
    ranges = []
    for (a, a_end, b, b_end), label in zip(
        pairs.bounds, pairs.labels, strict=True
    ):
        ranges.append((a, a_end))
        if not label:
            assert b == a_end
            ranges.append((b, b_end))
    assert [start for start, _ in ranges[1:]] == [end for _, end in ranges[:-1]]
    assert ranges[0][0] == 0 and ranges[-1][1] == len(corpus.ids)
    assert {end for _, end in ranges} <= set(corpus.sentences)


@pytest.mark.parametrize(
    "documents",
    [
        drawn(1),
        drawn(2, most=4),  # many documents of one sentence
        drawn(3, longest=200),  # sentences that fill a sequence
        [[5] * 3000, [5] * 10],
    ],
)
def test_half_of_the_pairs_are_random(documents):
    corpus = corpus_of(documents)
    pairs = next_sentence_pairs(corpus, 200, np.random.default_rng(0))
    assert abs(pairs.labels.mean() - 0.5) < 0.01 + 16 / len(pairs.labels)
    # Neither half is all in one place.
    quarters = np.array_split(pairs.labels, 4)
    assert all(0.3 < quarter.mean() < 0.7 for quarter in quarters)


def test_random_segments_come_from_everywhere_else():
    corpus = corpus_of([[4] * 20 for _ in range(12)])
    seen = np.zeros((12, 12))
    of = documents_of(corpus)
    for seed in range(200):
        pairs = next_sentence_pairs(corpus, 30, np.random.default_rng(seed))
        chosen = pairs.bounds[pairs.labels == 1]
        np.add.at(seen, (of[chosen[:, 0]], of[chosen[:, 2]]), 1)
    assert (np.diag(seen) == 0).all()
    share = seen.sum(0) / seen.sum()
    assert np.abs(share - 1 / 12).max() < 4 * np.sqrt(1 / 12 / seen.sum())


def test_one_pair_in_ten_aims_at_a_shorter_length():
    corpus = corpus_of([[2] * 30_000, [2] * 30_000])

    def lengths(**options):
        pairs = next_sentence_pairs(
            corpus, 100, np.random.default_rng(0), **options
        )
        bounds = pairs.bounds
        return (bounds[:, 1::2] - bounds[:, ::2]).sum(1)

    # But for the ends of documents.
    assert (lengths(short_probability=0) >= 99).mean() > 0.995
    share = (lengths() < 90).mean()
    assert abs(share - 0.1 * 88 / 99) < 0.03
    assert (lengths(short_probability=1) < 90).mean() > 0.8


def truncated_by_hand(size_a, size_b, room):
    while size_a + size_b > room:
        if size_a > size_b:
            size_a -= 1
        else:
            size_b -= 1
    return size_a, size_b


@given(st.integers(1, 40), st.integers(1, 40), st.integers(2, 50))
def test_pairs_are_cut_as_one_token_after_the_other(size_a, size_b, room):
    corpus = corpus_of([[size_a, size_b]])
    pairs = sentence_order_pairs(
        corpus, room, np.random.default_rng(0), short_probability=0
    )
    # A first sentence that fills the room takes the next one all the same.
    start, end, second, last = pairs.bounds[0]
    sizes = (end - start, last - second)
    first, other = (size_a, size_b)
    if pairs.labels[0]:
        first, other = other, first
    assert sizes == truncated_by_hand(first, other, room)


def test_tokens_are_cut_from_both_ends():
    corpus = corpus_of([[60, 40]] * 2000)
    pairs = sentence_order_pairs(corpus, 50, np.random.default_rng(0))
    later = np.maximum(pairs.bounds[:, 0], pairs.bounds[:, 2])
    from_front = later - (np.arange(len(later)) * 100 + 60)
    # 15 tokens of the second sentence go, each from either end.
    kept = from_front[(pairs.bounds[:, 1] - pairs.bounds[:, 0]) == 25]
    assert abs(kept.mean() - 7.5) < 0.2
    assert abs(kept.var() - 3.75) < 0.5


@given(DOCUMENTS, st.integers(12, 40), st.integers(0, 3))
def test_order_pairs_are_neighbours(documents, room, seed):
    corpus = corpus_of(documents)
    if corpus.ids.size == len(documents):
        with pytest.raises(ValueError, match="Received: .* of one token"):
            sentence_order_pairs(corpus, room, np.random.default_rng(seed))
        return
    pairs = sentence_order_pairs(corpus, room, np.random.default_rng(seed))
    of = documents_of(corpus)
    for (a, a_end, b, b_end), label in zip(
        pairs.bounds, pairs.labels, strict=True
    ):
        assert a < a_end and b < b_end and a_end - a + b_end - b <= room
        assert of[a] == of[b_end - 1] == of[b]
        assert (b_end <= a) if label else (a_end <= b)


def test_half_of_the_order_pairs_are_swapped():
    pairs = sentence_order_pairs(
        corpus_of(drawn(1)), 64, np.random.default_rng(0)
    )
    error = 3 * 0.5 / np.sqrt(len(pairs.labels))
    assert abs(pairs.labels.mean() - 0.5) < error


def test_one_document_is_enough_for_sentence_order():
    pairs = sentence_order_pairs(corpus_of([[5]]), 30, np.random.default_rng(0))
    assert sorted(pairs.bounds[0].tolist()) == [0, 2, 2, 5]


def test_one_document_is_refused_and_told_what_to_do():
    with pytest.raises(
        ValueError, match="blank lines between documents.*Received: 1 document"
    ):
        next_sentence_pairs(
            corpus_of([[3, 4, 5]]), 30, np.random.default_rng(0)
        )


def test_the_same_seed_gives_the_same_pairs():
    corpus = corpus_of(drawn(1))
    for make in (next_sentence_pairs, sentence_order_pairs):
        one, same, other = (
            make(corpus, 64, np.random.default_rng(seed)) for seed in (1, 1, 2)
        )
        np.testing.assert_array_equal(one.bounds, same.bounds)
        assert (
            one.bounds.shape != other.bounds.shape
            or not (one.bounds == other.bounds).all()
        )


@given(DOCUMENTS, st.integers(12, 40))
def test_full_sentences_hold_every_token_once(documents, room):
    corpus = corpus_of(documents)
    packed = full_sentences(corpus, room, SEP)
    starts, ends = packed.bounds[:, 0], packed.bounds[:, 1]
    rows = [
        packed.corpus.ids[start:end].tolist()
        for start, end in zip(starts, ends, strict=True)
    ]
    kept = [token for row in rows for token in row if token != SEP]
    assert kept == corpus.ids.tolist()
    of = documents_of(corpus)
    sentence_ends = set(corpus.sentences - 1)
    for index, row in enumerate(rows):
        assert 0 < len(row) <= room
        assert row[0] != SEP != row[-1] and row[-1] in sentence_ends
        tokens = [token for token in row if token != SEP]
        changes = np.flatnonzero(np.diff(of[tokens])) + 1
        where = [
            i - n for n, i in enumerate(np.flatnonzero(np.equal(row, SEP)))
        ]
        assert where == changes.tolist()
        # The next sentence, with a separator before it, did not fit.
        if index + 1 < len(rows):
            following = rows[index + 1][0]
            sentence = np.searchsorted(corpus.sentences, following, "right")
            size = corpus.sentences[sentence] - following
            assert len(row) + (of[following] != of[row[-1]]) + size > room
