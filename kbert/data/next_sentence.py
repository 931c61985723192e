"""Sentences to sequences: segment pairs, swapped pairs, full sentences.

Since the tokens of a corpus lie end to end, a segment is a range of them. No
token is copied or looked at here.
"""

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from kbert.data.corpus import Corpus

# How strongly the share of random pairs is held at a half.
_LEAN = 64


@dataclass(frozen=True)
class Segments:
    """What each of N sequences holds, as ranges of a corpus' tokens.

    Attributes:
        bounds: int64 (N, 4), start and end of A, start and end of B; the
            last two are equal where there is no B.
        labels: int32 (N,), 0 where B follows A, 1 where it is random or
            comes before A; None for sequences without B.
        corpus: what they are ranges of.
    """

    bounds: np.ndarray
    labels: np.ndarray | None
    corpus: Corpus


def next_sentence_pairs(
    corpus: Corpus,
    room: int,
    rng: np.random.Generator,
    *,
    short_probability: float = 0.1,
) -> Segments:
    """Make pairs of segments, half of them with a random second one.

    Sentences of a document are gathered until they fill a sequence and are
    cut between two of them into A and B. With probability 1/2, B is replaced
    by sentences from another document, and those it had go into the next
    pair. A pair that is too long loses tokens of its longer segment, from
    the front or the back.

    It differs from the original code in three ways. Short sequences are drawn
    one by one, not by document: one book in ten would become nothing but
    short ones. A random B never comes from A's own document. And since the
    last sentence of a document, alone, can only get a random B, the coin for
    the others leans against the imbalance so far, so that halves stay halves.

    Args:
        corpus: two documents or more, no sentence longer than `room`.
        room: most tokens in A and B together.
        rng: what draws.
        short_probability: share of the sequences that aim at a length
            between 2 and `room`.

    Returns:
        `Segments`, in the order of the documents.

    Raises:
        ValueError: if there is one document, or each has one sentence.

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, appendix A.2;
        google-research/bert, `create_pretraining_data.py`
    """
    num_documents = len(corpus.documents) - 1
    if num_documents < 2:
        raise ValueError(
            "Next-sentence prediction draws from other documents, so it needs "
            "two or more: put blank lines between documents, pass "
            "sentence_order=True, which needs one, or leave out "
            "`next_sentence`. Received: 1 document"
        )
    if (np.diff(corpus.documents) < 2).all():
        raise ValueError(
            "Next-sentence prediction needs documents of two sentences or "
            "more. Are there blank lines between sentences, where they should "
            f"be between documents? Received: {num_documents} documents of "
            "one sentence each"
        )
    tokens, documents = corpus.sentences.tolist(), corpus.documents.tolist()
    bounds, labels = array("q"), []
    lean = 0  # random pairs so far less the others
    for document in range(num_documents):
        sentence, end = documents[document : document + 2]
        while sentence < end:
            target = _target(room, rng, short_probability)
            stop = _fill(tokens, sentence, end, target)
            is_random = rng.random() < 0.5 - lean / _LEAN
            if stop - sentence == 1 and not is_random:
                stop = min(stop + 1, end)  # so that something follows
            is_random |= stop - sentence == 1
            middle = _middle(sentence, stop, rng)
            first = (tokens[sentence], tokens[middle])
            if is_random:
                other = int(rng.integers(num_documents - 1))
                other += other >= document
                begin = int(rng.integers(*documents[other : other + 2]))
                wanted = target - (first[1] - first[0])
                last = _fill(tokens, begin, documents[other + 1], wanted)
                second = (tokens[begin], tokens[last])
                sentence = middle
            else:
                second = (tokens[middle], tokens[stop])
                sentence = stop
            lean += 1 if is_random else -1
            bounds.extend((*first, *second))
            labels.append(is_random)
    return _segments(corpus, bounds, labels, room, rng)


def sentence_order_pairs(
    corpus: Corpus,
    room: int,
    rng: np.random.Generator,
    *,
    short_probability: float = 0.1,
) -> Segments:
    """Make pairs of neighbouring segments, half of them swapped.

    Args:
        corpus: as for `next_sentence_pairs`, but one document is enough. A
            sentence that is left alone is cut in the middle, and left out if
            it is a single token.
        room: as for `next_sentence_pairs`.
        rng: what draws.
        short_probability: as for `next_sentence_pairs`.

    Returns:
        `Segments`: label 1 where A is the later one.

    Raises:
        ValueError: if no document has two tokens.

    References:
        Lan et al., 2019, https://arxiv.org/abs/1909.11942, section 3.1
    """
    tokens, documents = corpus.sentences.tolist(), corpus.documents.tolist()
    bounds, labels = array("q"), []
    for sentence, end in pairwise(documents):
        while sentence < end:
            target = _target(room, rng, short_probability)
            stop = _fill(tokens, sentence, end, target)
            if stop - sentence == 1:
                stop = min(stop + 1, end)
            start, last = tokens[sentence], tokens[stop]
            middle = tokens[_middle(sentence, stop, rng)]
            if stop - sentence == 1:
                middle = (start + last) // 2
            sentence = stop
            if middle == start:
                continue
            is_swapped = rng.random() < 0.5
            pair = (start, middle, middle, last)
            bounds.extend((*pair[2:], *pair[:2]) if is_swapped else pair)
            labels.append(is_swapped)
    if not bounds:
        raise ValueError(
            "Sentence order needs documents of two tokens or more. Received: "
            f"{len(documents) - 1} documents of one token"
        )
    return _segments(corpus, bounds, labels, room, rng)


def cut_documents(corpus: Corpus, room: int) -> Segments:
    """Cut each document into sequences that are full, but for its last.

    Cuts fall between any two tokens: whole sentences would leave a tenth of
    each sequence empty, and nothing short enough to fill it.

    Args:
        corpus: tokens of documents.
        room: most tokens in a sequence, without [CLS] and [SEP].

    Returns:
        `Segments` without B, none of which holds two documents.
    """
    borders = corpus.sentences[corpus.documents]
    counts = -(-np.diff(borders) // room)
    number = np.arange(counts.sum()) - np.repeat(
        np.cumsum(counts) - counts, counts
    )
    starts = np.repeat(borders[:-1], counts) + room * number
    stops = np.minimum(starts + room, np.repeat(borders[1:], counts))
    bounds = np.stack([starts, stops, stops, stops], axis=1)
    return Segments(bounds, labels=None, corpus=corpus)


def full_sentences(corpus: Corpus, room: int, sep_token_id: int) -> Segments:
    """Pack sentences, across documents, into sequences that are full.

    Args:
        corpus: no sentence longer than `room`.
        room: most tokens in a sequence, without [CLS] and the last [SEP].
        sep_token_id: what stands between two documents.

    Returns:
        `Segments` without B. Their corpus holds the separators.

    References:
        Liu et al., 2019, https://arxiv.org/abs/1907.11692, section 4.2,
        FULL-SENTENCES
    """
    borders = corpus.sentences[corpus.documents[1:-1]]
    ids = np.insert(corpus.ids, borders, sep_token_id)
    word_starts = corpus.word_starts
    if word_starts is not None:
        word_starts = np.insert(word_starts, borders, True)
    separators = borders + np.arange(len(borders))
    ends = corpus.sentences + np.searchsorted(borders, corpus.sentences)
    # A separator is a sentence of its own here.
    ends = np.union1d(ends, separators + 1).tolist()
    separates = set(separators.tolist())
    starts, stops, position = [], [], 0
    while position < len(ids):
        position += position in separates  # none at the front is needed
        starts.append(position)
        position = ends[bisect_right(ends, position + room) - 1]
        stops.append(position)
    # Nor at the back.
    stops = np.array(stops)
    stops -= np.isin(stops - 1, separators)
    bounds = np.stack([np.array(starts), stops, stops, stops], axis=1)
    return Segments(
        bounds=bounds,
        labels=None,
        corpus=replace(corpus, ids=ids, word_starts=word_starts),
    )


def _target(
    room: int, rng: np.random.Generator, short_probability: float
) -> int:
    if rng.random() < short_probability:
        return int(rng.integers(2, room + 1))
    return room


def _fill(tokens: list[int], start: int, end: int, target: int) -> int:
    """Return the end of the fewest sentences that have `target` tokens."""
    return min(bisect_left(tokens, tokens[start] + target, start + 1), end)


def _middle(start: int, stop: int, rng: np.random.Generator) -> int:
    """Return the sentence that B begins with."""
    return stop if stop - start == 1 else int(rng.integers(start + 1, stop))


def _segments(
    corpus: Corpus,
    bounds: array,
    labels: list[bool],
    room: int,
    rng: np.random.Generator,
) -> Segments:
    """Cut pairs that are too long, all at once.

    As token by token off the longer segment, B where both are equal, each
    from the front or the back at random.
    """
    pairs = np.array(bounds, np.int64).reshape(-1, 2, 2)
    lengths = pairs[:, :, 1] - pairs[:, :, 0]
    excess = np.maximum(lengths.sum(1) - room, 0)
    # The longer comes down to the other, then both alike.
    alone = np.minimum(excess, np.abs(lengths[:, 0] - lengths[:, 1]))
    is_first = lengths[:, 0] > lengths[:, 1]
    rest = excess - alone
    cuts = np.stack([rest // 2, rest - rest // 2], axis=1)
    cuts[:, 0] += alone * is_first
    cuts[:, 1] += alone * ~is_first
    front = rng.binomial(cuts, 0.5)
    pairs[:, :, 0] += front
    pairs[:, :, 1] -= cuts - front
    return Segments(
        bounds=pairs.reshape(-1, 4),
        labels=np.array(labels, np.int32),
        corpus=corpus,
    )
