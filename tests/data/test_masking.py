"""The masker on synthetic batches, whose words are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbert.data import Tokenizer
from kbert.data.mask_draws import draw_for_masks
from kbert.data.mask_units import (
    UNITS,
    choose_words,
    find_words,
    group_words,
)
from kbert.data.masking import Masker

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)
NUM_WORDS = 2000


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.from_vocab(
        SPECIAL + [f"w{i}" for i in range(NUM_WORDS - 5)]
    )


def batch(num_rows, length, seed=0, shortest=None, most_pieces=4):
    """Rows [CLS] … [SEP] … [SEP] [PAD] …, words of 1 to 4 pieces."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(5, NUM_WORDS, (num_rows, length), dtype=np.int32)
    ends = rng.integers(shortest or length, length + 1, num_rows)
    column = np.arange(length)
    ids[:, 0] = CLS
    ids[column == ends[:, None] // 2] = SEP
    ids[column == ends[:, None] - 1] = SEP
    ids[column >= ends[:, None]] = PAD
    starts = rng.random((num_rows, length)) < 2 / (1 + most_pieces)
    return ids, starts


def draws_for(shape, seed=0):
    return np.random.default_rng(seed).random((shape[0], shape[1] + 1, 4))


def mask(tokenizer, ids, starts=None, *, unit="token", seed=0, **options):
    masker = Masker(tokenizer, unit=unit)
    slots = options.pop("num_slots", masker.num_slots(ids.shape[1]))
    draws = draws_for(ids.shape, seed)
    return masker(ids, starts, draws, num_slots=slots, **options)


def chosen(masked, shape):
    """Where tokens were chosen, bool (B, S)."""
    where = np.zeros(shape, bool)
    row, slot = np.nonzero(masked.weights)
    where[row, masked.positions[row, slot]] = True
    return where


def words_of(ids, starts):
    """Number of the word of each token by a plain loop; -1 for special."""
    words = np.full(ids.shape, -1)
    number = -1
    for row in range(ids.shape[0]):
        for column in range(ids.shape[1]):
            if ids[row, column] < 5:
                continue
            before = ids[row, column - 1] if column else PAD
            number += bool(starts[row, column] or before < 5)
            words[row, column] = number
    return words


@pytest.mark.parametrize("unit", UNITS)
def test_slots_hold_what_was_there(tokenizer, unit):
    ids, starts = batch(64, 100, shortest=4)
    kept = ids.copy()
    masked = mask(tokenizer, ids, starts, unit=unit)
    np.testing.assert_array_equal(ids, kept)
    where = chosen(masked, ids.shape)
    assert (masked.token_ids == ids)[~where].all()
    used = masked.weights == 1
    assert ((masked.weights == 0) | used).all()
    assert where.sum() == used.sum()  # no position twice
    row, _ = np.nonzero(used)
    assert (masked.labels[used] == ids[row, masked.positions[used]]).all()
    assert (masked.labels[used] >= 5).all()
    assert (masked.positions[~used] == 0).all()
    assert (masked.labels[~used] == 0).all()
    # Used slots come first, in the order of the sequence.
    assert (np.diff(used.astype(int), axis=1) <= 0).all()
    rises = np.diff(masked.positions, axis=1) > 0
    assert rises[used[:, 1:]].all()
    for array, dtype in (
        (masked.token_ids, "int32"),
        (masked.positions, "int32"),
        (masked.labels, "int32"),
        (masked.weights, "float32"),
    ):
        assert array.dtype == dtype


@pytest.mark.parametrize("unit", UNITS)
def test_the_share_of_masked_tokens(tokenizer, unit):
    ids, starts = batch(8000, 128, shortest=64)
    masked = mask(tokenizer, ids, starts, unit=unit)
    share = masked.weights.sum() / (ids >= 5).sum()
    assert abs(share - 0.15) < 0.002


def test_the_number_is_rounded_up_or_down_in_each_row(tokenizer):
    ids, _ = batch(4000, 40)  # 37 ordinary tokens: 5.55 masks
    counts = mask(tokenizer, ids).weights.sum(axis=1)
    assert set(counts) == {5, 6}
    assert abs(counts.mean() - 5.55) < 3 * 0.5 / np.sqrt(4000)


@pytest.mark.parametrize("unit", UNITS)
def test_masks_others_and_same_are_80_10_10(tokenizer, unit):
    ids, starts = batch(8000, 128)
    masked = mask(tokenizer, ids, starts, unit=unit)
    used = masked.weights > 0
    row, _ = np.nonzero(used)
    new, old = (
        masked.token_ids[row, masked.positions[used]],
        masked.labels[used],
    )
    count = used.sum()
    # Tokens of a span share their fate: as many draws as spans, or fewer.
    draws = count / 12 if unit == "span" else count
    ordinary = NUM_WORDS - 5
    for share, expected in (
        ((new == MASK).mean(), 0.8),
        ((new == old).mean(), 0.1 + 0.1 / ordinary),
        (((new != MASK) & (new != old)).mean(), 0.1 - 0.1 / ordinary),
    ):
        assert abs(share - expected) < 3 * np.sqrt(
            expected * (1 - expected) / draws
        )
    assert (new[new != MASK] >= 5).all()


def test_other_tokens_are_ordinary_and_uniform(tokenizer):
    ids = np.full((4000, 128), 7, np.int32)
    ids[:, 0] = CLS
    masked = mask(tokenizer, ids)
    new = masked.token_ids[(masked.token_ids != 7) & (ids == 7)]
    others = new[new != MASK]
    assert others.min() >= 5 and others.max() == NUM_WORDS - 1
    counts = np.bincount(others, minlength=NUM_WORDS)[5:]
    counts = np.delete(counts, 7 - 5)
    expected = counts.mean()
    chi_square = ((counts - expected) ** 2 / expected).sum()
    freedom = len(counts) - 1
    assert abs(chi_square - freedom) < 4 * np.sqrt(2 * freedom)


def test_every_position_is_as_likely(tokenizer):
    ids, _ = batch(20_000, 32)
    rates = chosen(mask(tokenizer, ids), ids.shape).mean(axis=0)
    rates = rates[ids[0] >= 5]
    error = np.sqrt(0.15 * 0.85 / 20_000)
    assert np.abs(rates - 0.15).max() < 4 * error


@pytest.mark.parametrize("unit", ["word", "span", "ngram"])
def test_words_are_masked_whole(tokenizer, unit):
    ids, starts = batch(200, 128, shortest=40)
    words = words_of(ids, starts)
    where = chosen(mask(tokenizer, ids, starts, unit=unit), ids.shape)
    touched = np.unique(words[where])
    sizes = np.bincount(words[words >= 0])
    assert (sizes[touched] > 1).any()
    # Longer words than there are slots are broken only in rows of nothing
    # else, which are not here.
    np.testing.assert_array_equal(np.isin(words, touched), where)


@given(st.data())
def test_words_are_chosen_as_by_a_loop(data):
    rows = np.sort(data.draw(st.lists(st.integers(0, 3), max_size=30)))
    rows = rows.astype(int)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    sizes = rng.integers(1, 6, len(rows))
    budget = rng.integers(0, 9, 4)
    changes = rng.random(len(rows)) < data.draw(st.sampled_from([0.4, 1.0]))
    changes[1:] |= rows[1:] != rows[:-1]
    groups = np.cumsum(changes)
    turns = np.random.default_rng(5).random(31)
    is_chosen = choose_words(rows, sizes, groups, budget, turns[groups])
    expected = np.zeros(len(rows), bool)
    if len(rows):
        for group in sorted(set(groups), key=lambda g: turns[g]):
            for word in np.flatnonzero(groups == group):
                if sizes[word] > budget[rows[word]]:
                    break
                budget[rows[word]] -= sizes[word]
                expected[word] = True
    np.testing.assert_array_equal(is_chosen, expected)


@pytest.mark.parametrize(
    ("unit", "weights"),
    [("span", 0.8 ** np.arange(10)), ("ngram", 1 / np.arange(1, 4))],
)
def test_spans_have_the_lengths_of_the_papers(tokenizer, unit, weights):
    # One token masked in thousands: two spans hardly ever touch.
    ids = np.full((50, 20_000), 9, np.int32)
    starts = np.ones(ids.shape, bool)
    masker = Masker(tokenizer, unit=unit, probability=0.004)
    masked = masker(ids, starts, draws_for(ids.shape), num_slots=200)
    where = chosen(masked, ids.shape).astype(int)
    edges = np.diff(np.pad(where, ((0, 0), (1, 1))), axis=1)
    lengths = np.nonzero(edges == -1)[1] - np.nonzero(edges == 1)[1]
    expected = (weights * np.arange(1, len(weights) + 1)).sum() / weights.sum()
    # Cutting the last span to the budget takes a little off.
    assert abs(lengths.mean() / expected - 1) < 0.1
    shares = np.bincount(lengths, minlength=len(weights) + 1)[1:][
        : len(weights)
    ] / len(lengths)
    assert np.abs(shares - weights / weights.sum()).max() < 0.05


@pytest.mark.parametrize("unit", ["span", "ngram"])
def test_spans_end_where_a_sequence_or_segment_does(unit):
    can_mask = np.ones((500, 8), bool)
    can_mask[::2, 3] = False  # every other row has two segments
    words = find_words(can_mask, can_mask)
    draws = np.random.default_rng(0).random(len(words.first))
    groups = group_words(words, 8, unit, draws)
    segment = np.cumsum((words.first % 8 == 0) | (words.first % 16 == 4))
    both = np.unique(np.stack([groups, segment]), axis=1)
    assert both.shape[1] == len(np.unique(groups))
    assert len(np.unique(groups)) < len(groups)


def test_spans_share_one_fate(tokenizer):
    ids = np.full((300, 128), 9, np.int32)
    ids[:, 0] = CLS
    masked = mask(tokenizer, ids, np.ones(ids.shape, bool), unit="span")
    where = chosen(masked, ids.shape)
    kind = np.where(masked.token_ids == MASK, 1, 2)
    kind[masked.token_ids == 9] = 3
    neighbours = where[:, 1:] & where[:, :-1]
    same = (kind[:, 1:] == kind[:, :-1])[neighbours].mean()
    # 0.66 if each token had its own, 1 but for spans that touch.
    assert same > 0.9


@pytest.mark.parametrize("unit", UNITS)
def test_every_sequence_with_an_ordinary_token_has_a_mask(tokenizer, unit):
    ids = np.zeros((7, 16), np.int32)
    starts = np.zeros(ids.shape, bool)
    ids[:, 0] = CLS
    ids[0, 1:3] = [9, SEP]  # one word
    ids[1, 1:12] = [*[9] * 10, SEP]  # one word of ten pieces
    ids[2, 1] = SEP  # empty
    ids[3] = PAD
    ids[4, 1:5] = [UNK, MASK, CLS, SEP]  # specials only
    ids[5, 1:4] = [UNK, 9, SEP]
    ids[6, 1:15] = 9
    masked = mask(tokenizer, ids, starts, unit=unit, num_slots=3)
    assert masked.weights.sum(axis=1).astype(bool).tolist() == [
        True,
        True,
        False,
        False,
        False,
        True,
        True,
    ]
    np.testing.assert_array_equal(masked.token_ids[2:5], ids[2:5])
    assert (masked.token_ids[ids < 5] == ids[ids < 5]).all()


def test_a_word_too_long_for_the_rounding_is_masked_whole(tokenizer):
    ids = np.array([[CLS, 9, 10, 11, SEP, PAD]], np.int32)
    masked = mask(
        tokenizer, ids, np.zeros(ids.shape, bool), unit="word", num_slots=3
    )
    assert masked.positions.tolist() == [[1, 2, 3]]
    assert masked.weights.tolist() == [[1, 1, 1]]


def test_fewer_slots_mean_fewer_masks(tokenizer):
    ids, starts = batch(50, 128)
    for unit in UNITS:
        masked = mask(tokenizer, ids, starts, unit=unit, num_slots=4)
        assert masked.positions.shape == (50, 4)
        assert (masked.weights.sum(axis=1) >= 1).all()
        limits = np.arange(50) % 5
        masked = mask(tokenizer, ids, starts, num_slots=4, limits=limits)
        assert (masked.weights.sum(axis=1) == limits).all()


def test_the_generator_decides(tokenizer):
    ids, starts = batch(20, 128)
    for unit in UNITS:
        one, same, other = (
            mask(tokenizer, ids, starts, unit=unit, seed=seed)
            for seed in (1, 1, 2)
        )
        np.testing.assert_array_equal(one.token_ids, same.token_ids)
        np.testing.assert_array_equal(one.positions, same.positions)
        assert (one.positions != other.positions).any()


@pytest.mark.parametrize(
    ("length", "slots"),
    [(1, 1), (8, 2), (20, 3), (40, 6), (100, 15), (128, 20), (512, 77)],
)
def test_slots_are_the_share_of_the_length(tokenizer, length, slots):
    assert Masker(tokenizer).num_slots(length) == slots


def test_a_vocabulary_of_specials_is_refused():
    with pytest.raises(ValueError, match="ordinary tokens. Received: Token"):
        Masker(Tokenizer.from_vocab(SPECIAL))


# Draws.


@pytest.mark.parametrize("unit", UNITS)
def test_masks_are_the_sequences_own(tokenizer, unit):
    """Other rows, another place and more padding change nothing."""
    ids, starts = batch(40, 100, shortest=10)
    numbers = np.arange(40) * 7
    masker = Masker(tokenizer, unit=unit)
    lengths = (ids != PAD).sum(axis=1)
    limits = np.array([masker.num_slots(length) for length in lengths])

    def masks(rows, width):
        padded = np.zeros((len(rows), 120), np.int32)
        padded[:, :100] = ids[rows]
        begins = np.zeros(padded.shape, bool)
        begins[:, :100] = starts[rows]
        masked = masker(
            padded[:, :width],
            begins[:, :width],
            draw_for_masks(3, 1, numbers[rows], width),
            num_slots=18,
            limits=limits[rows],
        )
        new = np.zeros(padded.shape, np.int32)
        new[:, :width] = masked.token_ids
        return np.concatenate(
            [new, masked.positions, masked.labels, masked.weights], axis=1
        )

    whole = masks(np.arange(40), 120)
    order = np.random.default_rng(0).permutation(40)
    np.testing.assert_array_equal(masks(order, 120), whole[order])
    some = np.flatnonzero(lengths < 60)[::2]
    assert len(some) > 5
    np.testing.assert_array_equal(masks(some, 60), whole[some])


def test_draws_are_uniform_and_independent():
    draws = draw_for_masks(0, 0, np.arange(2000), 15).reshape(2000, -1)
    assert draws.min() >= 0 and draws.max() < 1
    counts = np.histogram(draws, 20, (0, 1))[0]
    expected = draws.size / 20
    # 19 degrees of freedom: 43.8 is exceeded once in a thousand.
    assert ((counts - expected) ** 2 / expected).sum() < 43.8
    for other in (
        draw_for_masks(0, 0, np.arange(1, 2001), 15),
        draw_for_masks(0, 1, np.arange(2000), 15),
        draw_for_masks(1, 0, np.arange(2000), 15),
        np.roll(draws, 1, axis=1),
    ):
        share = np.corrcoef(draws.ravel(), other.ravel())[0, 1]
        assert abs(share) < 4 / np.sqrt(draws.size)
    again = draw_for_masks(0, 0, np.array([5, 2**40]), 3)
    np.testing.assert_array_equal(again[0].ravel(), draws[5, :16])
