"""Rows that hold several sequences: the plan, and what is in them."""

import itertools
import logging
import pathlib
import time

import keras
import numpy as np
import pytest

import kbert
from kbert.data import Tokenizer, masked_lm_dataset, read_documents
from kbert.data.packing import Packing

DATA = pathlib.Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"the real data is not at {DATA}"
)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)


@pytest.fixture(scope="module")
def tokenizer():
    words = [f"w{i}" for i in range(200)]
    return Tokenizer.from_vocab([*SPECIAL, *words, "##x", "##y"])


def sentences(num=400, seed=0, shortest=5, longest=40):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(shortest, longest, num)
    return [
        " ".join(f"w{i}" for i in rng.integers(0, 200, size)) for size in sizes
    ]


def documents(num=40, seed=0):
    """Document d says nothing but word d."""
    rng = np.random.default_rng(seed)
    return [
        [
            " ".join([f"w{d}"] * size)
            for size in rng.integers(1, 12, rng.integers(2, 9))
        ]
        for d in range(num)
    ]


def batches(texts, tokenizer, **options):
    options = {"batch_size": 8, "max_length": 64, "pack": True} | options
    dataset = masked_lm_dataset(texts, tokenizer=tokenizer, **options)
    return epoch(dataset), dataset


def epoch(dataset):
    return [
        ({k: v.numpy() for k, v in x.items()}, y.numpy(), weights.numpy())
        for x, y, weights in dataset
    ]


def restored(batch):
    """Token ids as they were before the masks."""
    x, y, weights = batch
    ids = x["token_ids"].copy()
    row, slot = np.nonzero(weights)
    assert (ids[row, x["mask_positions"][row, slot]] != PAD).all()
    ids[row, x["mask_positions"][row, slot]] = y[row, slot]
    return ids


def sequences_of(made):
    """The sequences of all rows, and the number of masks in each."""
    for batch in made:
        x, _, weights = batch
        counts = np.zeros(x["token_ids"].shape, int)
        row, slot = np.nonzero(weights)
        np.add.at(counts, (row, x["mask_positions"][row, slot]), 1)
        assert counts.max() == 1
        for ids, numbers, masks in zip(
            restored(batch), x["sequence_ids"], counts, strict=True
        ):
            for number in range(1, numbers.max() + 1):
                where = numbers == number
                yield ids[where].tolist(), masks[where].sum()


# The plan.


def best_fit(lengths, capacity):
    """Room left in the rows, item by item."""
    rooms = []
    for length in sorted(lengths, reverse=True):
        fitting = [room for room in rooms if room >= length]
        room = min(fitting, default=capacity)
        if fitting:
            rooms.remove(room)
        rooms.append(room - length)
    return sorted(rooms)


@pytest.mark.parametrize("seed", range(60))
def test_rows_are_those_of_best_fit_decreasing(seed):
    rng = np.random.default_rng(seed)
    capacity, num = int(rng.integers(1, 40)), int(rng.integers(0, 80))
    lengths = rng.integers(1, capacity + 1, num)
    packing = Packing(lengths, capacity, rng if seed % 2 else None)
    assert sorted(packing.indices) == list(range(num))
    rows = [
        lengths[packing.indices[start:end]]
        for start, end in itertools.pairwise(packing.bounds)
    ]
    assert [sum(row) for row in rows] == packing.lengths.tolist()
    assert all((np.diff(row) <= 0).all() for row in rows)
    assert sorted(capacity - packing.lengths) == best_fit(lengths, capacity)


def test_a_seed_deals_items_of_one_length_out():
    lengths = np.random.default_rng(0).integers(1, 20, 500)
    plain, one, same, other = (
        Packing(lengths, 32, rng)
        for rng in (None, *map(np.random.default_rng, (1, 1, 2)))
    )
    np.testing.assert_array_equal(one.indices, same.indices)
    for packing in (one, other):
        np.testing.assert_array_equal(packing.bounds, plain.bounds)
        np.testing.assert_array_equal(
            lengths[packing.indices], lengths[plain.indices]
        )
        assert (packing.indices != plain.indices).mean() > 0.5
    assert (one.indices != other.indices).mean() > 0.5


def test_a_million_items_take_no_longer_than_sorting_them():
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(3.2, 0.6, 10**6).astype(int), 3, 128)
    start = time.process_time()
    np.argsort(rng.random(10**6))
    middle = time.process_time()
    packing = Packing(lengths, 128)
    assert time.process_time() - middle < 20 * (middle - start)
    assert packing.lengths.mean() > 0.99 * 128


@pytest.mark.parametrize("length", [0, -1, 11])
def test_items_that_fit_into_no_row_are_refused(length):
    with pytest.raises(ValueError, match=rf"Received: one of {length}$"):
        Packing([3, length], 10)


# Rows of masked-language modelling.


@pytest.mark.parametrize("shuffle", [False, True])
def test_every_text_is_in_one_row(tokenizer, shuffle, caplog):
    texts = sentences()
    with caplog.at_level(logging.INFO, "kbert"):
        made, dataset = batches(texts, tokenizer, shuffle=shuffle)
    assert "400 sequences share" in caplog.text
    found = sorted(ids for ids, _ in sequences_of(made))
    assert found == sorted(tokenizer(text).ids for text in texts)
    for x, y, weights in made:
        assert set(x) == {
            "token_ids",
            "segment_ids",
            "sequence_ids",
            "mask_positions",
        }
        assert {array.dtype.name for array in (*x.values(), y)} == {"int32"}
        assert x["token_ids"].shape[1] == 64
        assert y.shape[1] == weights.shape[1] == 10
        steps = np.diff(x["sequence_ids"], axis=1)
        # 1, 1, …, 2, 2, …, and 0 after the last.
        assert (x["sequence_ids"][:, 0] == 1).all()
        is_end = x["sequence_ids"][:, 1:] == 0
        assert set(np.unique(steps[~is_end])) <= {0, 1}
        assert ((x["token_ids"] == PAD) == (x["sequence_ids"] == 0)).all()
        assert (x["segment_ids"] == 0).all()
    tokens = np.concatenate([x["token_ids"] for x, _, _ in made])
    assert (tokens != PAD).mean() > 0.97
    assert len(dataset) == -(-len(tokens) // 8)


def test_shapes_are_static_where_asked(tokenizer):
    _, dataset = batches(
        sentences(), tokenizer, drop_remainder=True, batch_size=4
    )
    x, y, weights = dataset.element_spec
    assert {tuple(spec.shape) for spec in (*x.values(), y, weights)} == {
        (4, 64),
        (4, 10),
    }


@pytest.mark.parametrize("unit", ["token", "word", "span", "ngram"])
def test_masks_are_drawn_in_each_sequence(tokenizer, unit):
    texts = sentences(2000, shortest=7)
    made, _ = batches(texts, tokenizer, unit=unit, max_length=128)
    counts, sizes = [], []
    for ids, count in sequences_of(made):
        counts.append(count)
        sizes.append(len(ids) - 2)
    counts, sizes = np.array(counts), np.array(sizes)
    # Rounded up or down, and exact on average.
    assert (counts >= np.maximum(np.floor(0.15 * sizes), 1)).all()
    assert (counts <= np.ceil(0.15 * sizes)).all()
    expected = np.maximum(0.15 * sizes, 1).sum()
    assert counts.sum() == pytest.approx(expected, rel=0.005)
    for batch in made:
        x, y, weights = batch
        is_masked = weights > 0
        # The sum of a row is rounded once, too.
        in_row = 0.15 * (restored(batch) > MASK).sum(axis=1)
        assert (np.abs(is_masked.sum(axis=1) - in_row) < 1).all()
        assert (y[is_masked] > MASK).all()
        assert (x["mask_positions"][~is_masked] == 0).all()
        # Nothing but what a slot names has changed.
        changed = (restored(batch) != x["token_ids"]).sum()
        assert changed <= is_masked.sum()


def test_words_are_masked_whole(tokenizer):
    texts = [" ".join(["w1xy"] * n) for n in range(3, 20)] * 5
    made, _ = batches(texts, tokenizer, unit="word")
    for batch in made:
        x, _, weights = batch
        ids = restored(batch)
        chosen = np.zeros(ids.shape, bool)
        row, slot = np.nonzero(weights)
        chosen[row, x["mask_positions"][row, slot]] = True
        start = np.argwhere(ids == tokenizer.get_vocab()["w1"])
        whole = np.stack(
            [chosen[start[:, 0], start[:, 1] + i] for i in range(3)]
        )
        assert (whole.all(axis=0) == whole.any(axis=0)).all()
        assert whole.any()


def test_rows_of_more_sequences_than_slots(tokenizer):
    """21 one-word texts fit into 64 tokens; 10 of them get a mask."""
    made, _ = batches(["w1"] * 42, tokenizer)
    for x, y, weights in made:
        assert x["sequence_ids"].max() == 21
        assert weights.shape == (2, 10)
        assert (weights == 1).all()
        assert (y == tokenizer.get_vocab()["w1"]).all()
    made, _ = batches(["w1"] * 42, tokenizer, max_predictions=21)
    assert sum(weights.sum() for _, _, weights in made) == 42


def same(one, other):
    return len(one) == len(other) and all(
        np.array_equal(a[0]["token_ids"], b[0]["token_ids"])
        for a, b in zip(one, other, strict=True)
    )


def test_epochs_follow_the_seed(tokenizer):
    options = {"shuffle": True, "seed": 3}
    first, dataset = batches(sentences(), tokenizer, **options)
    second = epoch(dataset)
    again, dataset = batches(sentences(), tokenizer, **options)
    assert same(again, first) and same(epoch(dataset), second)
    assert not same(first, second)
    rows = [
        sorted(tuple(row) for b in made for row in restored(b))
        for made in (first, second)
    ]
    assert rows[0] == rows[1]
    orders = [
        [tuple(row) for b in made for row in restored(b)]
        for made in (first, second)
    ]
    assert orders[0] != orders[1]
    other, _ = batches(sentences(), tokenizer, shuffle=True, seed=4)
    assert not same(other, first)


def test_static_masks_stay(tokenizer):
    made, dataset = batches(sentences(), tokenizer, dupe_factor=2)
    assert same(epoch(dataset), made)
    found = sorted(ids for ids, _ in sequences_of(made))
    texts = sentences()
    assert found == sorted(tokenizer(text).ids for text in texts + texts)


def test_no_sequence_holds_two_documents(tokenizer):
    made, _ = batches(documents(), tokenizer, max_length=32)
    found = {}
    for ids, _ in sequences_of(made):
        (word,) = set(ids[1:-1])
        assert (ids[0], ids[-1]) == (CLS, SEP)
        found[word] = found.get(word, 0) + len(ids) - 2
    expected = {
        tokenizer(document[0]).ids[1]: sum(
            len(tokenizer(sentence).ids) - 2 for sentence in document
        )
        for document in documents()
    }
    assert found == expected


def test_documents_are_cut_where_sequences_are_full(tokenizer):
    document = [f"w{i} w{i + 1}" for i in range(0, 20, 2)]
    made, _ = batches([document, ["w1 w2 w3"]], tokenizer, max_length=10)
    words = [
        tokenizer.decode(ids, skip_special_tokens=True).split()
        for ids, _ in sequences_of(made)
    ]
    expected = [f"w{i}" for i in range(20)]
    assert sorted(words, key=len) == [
        ["w1", "w2", "w3"],
        expected[16:],
        *sorted([expected[:8], expected[8:16]], key=words.index),
    ]
    assert [len(batch[0]["token_ids"]) for batch in made] == [4]


def test_empty_texts_share_rows_too(tokenizer):
    made, _ = batches(["", "w1", ""], tokenizer)
    ((x, _, weights),) = made
    assert x["token_ids"][0, :8].tolist()[3:7] == [CLS, SEP, CLS, SEP]
    assert weights.sum() == 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"next_sentence": True}, ValueError, "next_sentence=True, pack=True"),
        ({"sentence_order": True}, ValueError, "_order=True, pack=True"),
        ({"pack": 1}, TypeError, "Received: pack=1"),
    ],
)
def test_refusals(tokenizer, options, error, message):
    with pytest.raises(error, match=message):
        batches(documents(), tokenizer, **options)


@pytest.mark.skipif(
    keras.backend.backend() == "jax", reason="compiles for a minute"
)
def test_a_packed_model_fits(tiny_config, tiny_tokenizer):
    texts = ["the film is good", "a bad plot", "not a very good play ."] * 8
    dataset = masked_lm_dataset(
        texts,
        tokenizer=tiny_tokenizer,
        batch_size=2,
        max_length=32,
        pack=True,
        shuffle=True,
    )
    keras.utils.set_random_seed(0)
    model = kbert.build_masked_lm(kbert.build_encoder(tiny_config))
    ours = kbert.build_packed(model)
    ours.compile(
        kbert.optimizers.adamw(1e-2, train_steps=60),
        loss=kbert.losses.MaskedLMLoss(),
    )
    losses = ours.fit(dataset, epochs=8, verbose=0, shuffle=False).history[
        "loss"
    ]
    assert losses[-1] < 0.8 * losses[0]
    # Held-out data need not be packed: the weights are the other model's.
    held_out = masked_lm_dataset(
        texts[:3], tokenizer=tiny_tokenizer, batch_size=3, max_length=32
    )
    model.compile(loss=kbert.losses.MaskedLMLoss())
    assert model.evaluate(held_out, verbose=0) < losses[0]


@needs_data
@pytest.mark.parametrize("max_length", [128, 512])
@pytest.mark.parametrize("what", ["sentences", "documents"])
def test_real_text_fills_rows(what, max_length):
    vocab = DATA / "vocabs" / "bert-base-uncased" / "vocab.txt"
    tokenizer = Tokenizer.from_vocab(vocab)
    folders = [DATA / "pretrain" / name for name in ("wikipedia", "speeches")]
    texts = [d for folder in folders for d in read_documents(folder)]
    if what == "sentences":
        texts = [sentence for document in texts for sentence in document]
    real = total = masked = ordinary = 0
    for x, _, weights in masked_lm_dataset(
        texts,
        tokenizer=tokenizer,
        batch_size=256,
        max_length=max_length,
        pack=True,
    ):
        is_real = x["sequence_ids"].numpy() > 0
        real += is_real.sum()
        total += is_real.size
        masked += weights.numpy().sum()
        ordinary += is_real.sum() - 2 * x["sequence_ids"].numpy().max(1).sum()
    assert real / total >= 0.97
    assert masked / ordinary == pytest.approx(0.15, abs=0.002)
