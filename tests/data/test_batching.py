import dataclasses

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kbert.data.batching import (
    ArraySpec,
    BatchOptions,
    FlatRows,
    make_dataset,
    plan_epoch,
)

# Typed in, so that a change of the ladder is seen.
LADDER = [8, 16, 24, 32, 40, 48, 56]
LADDER += [64, 80, 96, 112]
LADDER += [128, 160, 192, 224]
LADDER += [256, 320, 384, 448, 512]

NUM_TOKENS = st.one_of(st.integers(2, 40), st.integers(2, 700))


@st.composite
def options_and_lengths(draw):
    lengths = np.array(draw(st.lists(NUM_TOKENS, min_size=1, max_size=120)))
    options = BatchOptions(
        batch_size=draw(st.integers(1, 40)),
        # Often no number of the ladder, as a `max_length` need not be one.
        max_length=int(lengths.max()) + draw(st.sampled_from([0, 1, 30])),
        shuffle=draw(st.booleans()),
        seed=draw(st.integers(0, 5)),
        pad_to=draw(st.sampled_from(["bucket", "batch", "max"])),
        drop_remainder=draw(st.booleans()),
    )
    return lengths, options


def case(lengths, **changes):
    options = {"batch_size": 4, "max_length": 700} | changes
    return np.array(lengths), BatchOptions(**options)


def padded_by_hand(longest, options):
    if options.pad_to == "max":
        return options.max_length
    if options.pad_to == "batch":
        return longest
    for step in LADDER:
        if step >= longest:
            return min(step, options.max_length)
    return longest


def order_of(plan):
    return [int(index) for batch in plan for index in batch.indices]


@given(options_and_lengths(), st.integers(0, 3), st.booleans())
@example(case([5]), 0, False)
@example(case([5], drop_remainder=True), 0, False)
@example(case([5, 9, 2], drop_remainder=True, shuffle=True), 1, True)
@example(case([7] * 11, shuffle=True), 2, False)
@example(case([513, 600, 512, 511, 3, 700]), 0, False)
def test_plan_holds_every_example_once(drawn, epoch, keep_order):
    lengths, options = drawn
    plan = plan_epoch(lengths, options, epoch=epoch, keep_order=keep_order)
    size, order = options.batch_size, order_of(plan)
    full, rest = divmod(len(lengths), size)
    sizes = sorted(len(batch.indices) for batch in plan)
    if options.drop_remainder:
        assert sizes == [size] * full
        assert len(set(order)) == len(order) == full * size
    else:
        assert sizes == [rest] * (rest > 0) + [size] * full
        assert sorted(order) == list(range(len(lengths)))


@given(options_and_lengths(), st.integers(0, 3), st.booleans())
@example(case([513, 600, 512, 511, 3, 700]), 0, False)
@example(case([65, 66, 67], max_length=70), 0, False)
def test_padded_lengths(drawn, epoch, keep_order):
    lengths, options = drawn
    for batch in plan_epoch(
        lengths, options, epoch=epoch, keep_order=keep_order
    ):
        longest = int(lengths[batch.indices].max())
        assert longest <= batch.length <= options.max_length
        assert batch.length == padded_by_hand(longest, options)
        assert isinstance(batch.length, int)


@given(options_and_lengths(), st.integers(0, 3), st.booleans())
def test_same_seed_and_epoch_give_the_same_plan(drawn, epoch, keep_order):
    lengths, options = drawn
    first, second = (
        plan_epoch(lengths, options, epoch=epoch, keep_order=keep_order)
        for _ in range(2)
    )
    assert order_of(first) == order_of(second)
    assert [b.length for b in first] == [b.length for b in second]


@given(options_and_lengths(), st.integers(0, 3))
def test_order_is_kept(drawn, epoch):
    lengths, options = drawn
    options = dataclasses.replace(options, shuffle=False)
    keep_order = options.pad_to == "bucket"
    order = order_of(
        plan_epoch(lengths, options, epoch=epoch, keep_order=keep_order)
    )
    # What a remainder leaves out are the last ones.
    assert order == list(range(len(order)))


@pytest.mark.parametrize("pad_to", ["bucket", "batch", "max"])
def test_epochs_and_seeds_differ(pad_to):
    lengths = np.random.default_rng(0).integers(2, 60, 200)
    orders = set()
    for seed in range(3):
        options = BatchOptions(
            batch_size=8, max_length=64, shuffle=True, seed=seed, pad_to=pad_to
        )
        for epoch in range(3):
            orders.add(
                tuple(order_of(plan_epoch(lengths, options, epoch=epoch)))
            )
    assert len(orders) == 9
    # Neither the examples nor the batches are in the order of lengths.
    for order in orders:
        steps = np.diff(lengths[list(order)])
        assert (steps > 0).any() and (steps < 0).any()


def test_without_shuffle_every_epoch_is_the_same():
    lengths = np.random.default_rng(0).integers(2, 60, 50)
    options = BatchOptions(batch_size=8, max_length=64)
    plans = [plan_epoch(lengths, options, epoch=epoch) for epoch in range(2)]
    assert order_of(plans[0]) == order_of(plans[1])
    # Sorted by length, ties by place.
    assert order_of(plans[0]) == sorted(
        range(50), key=lambda i: (lengths[i], i)
    )


@pytest.mark.parametrize("pad_to", ["bucket", "batch", "max"])
def test_shuffled_remainder_is_not_always_the_longest(pad_to):
    lengths = np.arange(2, 25)
    options = BatchOptions(
        batch_size=5,
        max_length=24,
        shuffle=True,
        pad_to=pad_to,
        drop_remainder=True,
    )
    epochs = 400
    times_seen = np.zeros(23)
    for epoch in range(epochs):
        plan = plan_epoch(lengths, options, epoch=epoch)
        times_seen[order_of(plan)] += 1
    # Each of 23 is seen in 20 of 23 epochs: 348 ± 6.7.
    assert (np.abs(times_seen - epochs * 20 / 23) < 5 * 6.74).all()


@pytest.mark.parametrize("shuffle", [False, True])
def test_buckets_reduce_padding(shuffle):
    lengths = np.random.default_rng(0).integers(2, 129, 5000)
    tokens = {}
    for pad_to in ("bucket", "batch", "max"):
        options = BatchOptions(
            batch_size=32, max_length=128, shuffle=shuffle, pad_to=pad_to
        )
        plan = plan_epoch(lengths, options)
        tokens[pad_to] = sum(len(b.indices) * b.length for b in plan)
    # Of uniform lengths up to 128, batches of 32 waste about half; "bucket"
    # wastes half a step, 4 to 16 tokens of 65.
    assert tokens["max"] == 5000 * 128
    assert tokens["batch"] > 1.85 * lengths.sum()
    assert tokens["bucket"] < 1.15 * lengths.sum()


def test_shapes_are_few():
    lengths = np.random.default_rng(0).integers(2, 513, 20_000)
    options = BatchOptions(batch_size=8, max_length=512, shuffle=True)
    shapes = {
        batch.length
        for epoch in range(3)
        for batch in plan_epoch(lengths, options, epoch=epoch)
    }
    assert shapes <= set(LADDER)


@pytest.mark.parametrize("drop_remainder", [False, True])
def test_no_examples_no_batches(drop_remainder):
    options = BatchOptions(
        batch_size=4, max_length=8, drop_remainder=drop_remainder
    )
    assert plan_epoch(np.zeros(0, "int64"), options) == []


@given(
    st.lists(st.lists(st.integers(1, 99), max_size=6), min_size=1, max_size=9),
    st.randoms(use_true_random=False),
    st.sampled_from([("int32", 0), ("int32", -100), ("float32", 0.5)]),
    st.integers(0, 3),
)
def test_rows_are_padded(rows, random, kind, extra):
    dtype, fill = kind
    lengths = np.array([len(row) for row in rows])
    values = np.array([x for row in rows for x in row], dtype)
    indices = [random.randrange(len(rows)) for _ in range(5)]
    length = max(len(rows[i]) for i in indices) + extra
    expected = [rows[i] + [fill] * (length - len(rows[i])) for i in indices]
    padded = FlatRows(values, lengths).padded(np.array(indices), length, fill)
    assert padded.shape == (5, length)
    assert padded.dtype == dtype
    assert padded.tolist() == expected


def test_rows_without_items_are_padded():
    rows = FlatRows(np.zeros(0, "int32"), np.zeros(3, "int64"))
    assert rows.padded(np.array([2, 0]), 2, 7).tolist() == [[7, 7], [7, 7]]
    assert rows.padded(np.array([1]), 0, 7).shape == (1, 0)


@pytest.mark.parametrize(
    "name, value, error, expected",
    [
        ("batch_size", 0, ValueError, "at least 1"),
        ("batch_size", -3, ValueError, "at least 1"),
        ("batch_size", True, TypeError, "must be an int"),
        ("batch_size", 2.0, TypeError, "must be an int"),
        ("batch_size", "8", TypeError, "must be an int"),
        ("batch_size", None, TypeError, "must be an int"),
        ("max_length", 0, ValueError, "at least 1"),
        ("max_length", None, TypeError, "must be an int"),
        ("max_length", False, TypeError, "must be an int"),
        ("seed", -1, ValueError, "at least 0"),
        ("seed", None, TypeError, "must be an int"),
        ("shuffle", "no", TypeError, "must be a bool"),
        ("shuffle", 7, TypeError, "must be a bool"),
        ("drop_remainder", None, TypeError, "must be a bool"),
        ("pad_to", "buckets", ValueError, "'bucket', 'batch', 'max'"),
        ("pad_to", None, ValueError, "'bucket', 'batch', 'max'"),
        ("pad_to", ["max"], ValueError, "'bucket', 'batch', 'max'"),
    ],
)
def test_bad_options(name, value, error, expected):
    options = {"batch_size": 4, "max_length": 8} | {name: value}
    with pytest.raises(error) as caught:
        BatchOptions(**options)
    message = str(caught.value)
    assert f"`{name}`" in message and expected in message
    assert message.endswith(f"Received: {name}={value!r}")


def test_numpy_options_are_options():
    options = BatchOptions(
        batch_size=np.int64(4), max_length=np.int32(8), shuffle=np.True_
    )
    plan = plan_epoch(np.array([2, 3, 8]), options)
    assert sorted(order_of(plan)) == [0, 1, 2]


def test_dataset_iterates_epochs():
    pytest.importorskip("tensorflow")
    lengths = np.random.default_rng(1).integers(2, 30, 37)
    options = BatchOptions(batch_size=4, max_length=30, shuffle=True, seed=3)
    dataset = make_dataset(
        lengths,
        lambda batch: {"place": batch.indices, "size": np.int32(batch.length)},
        {
            "place": ArraySpec(("B",), "int64"),
            "size": ArraySpec((), "int32"),
        },
        options,
    )
    assert len(dataset) == 10
    for epoch in range(3):
        plan = plan_epoch(lengths, options, epoch=epoch)
        batches = list(dataset)
        assert [b["size"].numpy() for b in batches] == [b.length for b in plan]
        order = np.concatenate([b["place"].numpy() for b in batches])
        assert order.tolist() == order_of(plan)


def test_no_tuning_thread_holds_up_the_end_of_an_epoch():
    """With one, deleting an iterator waited 5 s about one time in five."""
    dataset = make_dataset(
        np.array([1, 2]),
        lambda batch: batch.indices,
        ArraySpec(("B",), "int64"),
        BatchOptions(batch_size=1, max_length=4),
    )
    assert dataset.options().autotune.enabled is False


def test_batches_are_numbered():
    lengths, options = case([5] * 10, shuffle=True)
    plan = plan_epoch(lengths, options, epoch=2)
    assert [(b.epoch, b.number) for b in plan] == [(2, 0), (2, 1), (2, 2)]
