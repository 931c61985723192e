"""Batches of chunks against the windows of each document alone."""

import logging

import numpy as np
import pytest

import kbert
from kbert.data.chunking import split_chunks
from kbert.data.windows import split_windows

WORDS = "the a good bad film plot very not was is play".split()


def make_texts(lengths, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, n)) for n in lengths]


def windows_of(tokenizer, text, length, overlap, max_chunks):
    [encoding] = tokenizer.encode_batch(
        [text], max_length=length, overlap=overlap
    )
    rows = [encoding.ids, *(more.ids for more in encoding.overflowing)]
    return rows[:max_chunks]


def rows_of(x, row):
    """Real tokens of the real chunks of one document of a batch."""
    masks = x["padding_mask"][row]
    ids = x["token_ids"][row]
    return [
        chunk[mask.astype(bool)].tolist()
        for chunk, mask in zip(ids, masks, strict=True)
        if mask.any()
    ]


@pytest.mark.parametrize("pad_to", ["bucket", "batch", "max"])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("overlap", [0, 2])
def test_every_document_comes_once_with_its_windows(
    tiny_tokenizer, pad_to, shuffle, overlap
):
    texts = make_texts(np.random.default_rng(1).integers(0, 60, 80))
    dataset = kbert.data.chunked_dataset(
        texts,
        np.arange(80),
        tokenizer=tiny_tokenizer,
        batch_size=7,
        chunk_length=9,
        max_chunks=5,
        overlap=overlap,
        sample_weight=np.arange(80) / 80,
        shuffle=shuffle,
        pad_to=pad_to,
    )
    seen = []
    for x, y, weights in dataset.as_numpy_iterator():
        assert {array.dtype for array in x.values()} == {np.dtype("int32")}
        assert len({array.shape for array in x.values()}) == 1
        padding = x["padding_mask"] == 0
        assert (x["token_ids"][padding] == 0).all()
        assert (x["segment_ids"] == 0).all()
        for row, number in enumerate(y):
            expected = windows_of(tiny_tokenizer, texts[number], 9, overlap, 5)
            assert rows_of(x, row) == expected
        np.testing.assert_allclose(weights, y / 80)
        seen += y.tolist()
    assert sorted(seen) == list(range(80))
    assert len(dataset) == 12
    if pad_to != "bucket" and not shuffle:
        assert seen == list(range(80))


def test_padding_fills_with_the_familys_own_id():
    tokenizer = kbert.Tokenizer.from_vocab(
        ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "[PAD]", "good"]
    )
    dataset = kbert.data.chunked_dataset(
        ["good", "good good good"],
        tokenizer=tokenizer,
        batch_size=2,
        chunk_length=4,
        max_chunks=2,
    )
    [(x,)] = dataset.as_numpy_iterator()
    assert x["token_ids"].tolist() == [
        [[1, 5, 2, 4], [4, 4, 4, 4]],
        [[1, 5, 5, 2], [1, 5, 2, 4]],
    ]
    assert x["padding_mask"].tolist() == [
        [[1, 1, 1, 0], [0, 0, 0, 0]],
        [[1, 1, 1, 1], [1, 1, 1, 0]],
    ]


def test_buckets_leave_little_padding_and_few_shapes(tiny_tokenizer):
    lengths = np.random.default_rng(0).integers(1, 400, 600)
    dataset = kbert.data.chunked_dataset(
        make_texts(lengths),
        np.zeros(600, int),
        tokenizer=tiny_tokenizer,
        batch_size=8,
        chunk_length=20,
        max_chunks=16,
        shuffle=True,
    )
    shapes, chunks, real = set(), 0, 0
    for x, _ in dataset.as_numpy_iterator():
        mask = x["padding_mask"]
        shapes.add(mask.shape[1:])
        chunks += mask.shape[0] * mask.shape[1]
        real += mask.any(-1).sum()
    assert chunks / real < 1.1
    assert len(shapes) <= 20
    assert {length for count, length in shapes if count > 1} == {20}


def test_documents_of_one_chunk_are_padded_like_texts(tiny_tokenizer):
    dataset = kbert.data.chunked_dataset(
        make_texts([1, 2, 3, 12]),
        [0, 1, 0, 1],
        tokenizer=tiny_tokenizer,
        batch_size=3,
        chunk_length=30,
        max_chunks=4,
    )
    shapes = [x["token_ids"].shape for x, _ in dataset.as_numpy_iterator()]
    assert shapes == [(3, 1, 8), (1, 1, 16)]


def test_max_has_static_shapes(tiny_tokenizer):
    dataset = kbert.data.chunked_dataset(
        make_texts([3, 40, 5]),
        [[0.0, 1.0]] * 3,
        tokenizer=tiny_tokenizer,
        batch_size=2,
        chunk_length=8,
        max_chunks=3,
        pad_to="max",
        drop_remainder=True,
    )
    x, y = dataset.element_spec
    assert {tuple(spec.shape) for spec in x.values()} == {(2, 3, 8)}
    assert tuple(y.shape) == (2, 2)
    assert len(list(dataset)) == 1


def test_what_is_left_out_is_logged_once(tiny_tokenizer, caplog):
    options = {
        "tokenizer": tiny_tokenizer,
        "batch_size": 2,
        "chunk_length": 8,
        "max_chunks": 2,
    }
    with caplog.at_level(logging.WARNING, "kbert"):
        dataset = kbert.data.chunked_dataset(
            make_texts([3, 13, 12, 99]), **options
        )
        list(dataset)
    assert [record.getMessage() for record in caplog.records] == [
        "2 of 4 texts have more than max_chunks=2 chunks; the first 2 of each "
        "were kept."
    ]
    caplog.clear()
    kbert.data.chunked_dataset(make_texts([3, 12]), **options)
    assert not caplog.records


@pytest.mark.parametrize("overlap", [0, 1, 5])
def test_weights_count_each_token_of_a_text_once(tiny_tokenizer, overlap):
    # More documents than are tokenised at once.
    lengths = np.random.default_rng(0).integers(0, 50, 150)
    chunks = split_chunks(
        make_texts(lengths), tiny_tokenizer, chunk_length=9, overlap=overlap
    )
    texts = np.repeat(np.arange(150), chunks.counts)
    np.testing.assert_array_equal(np.bincount(texts, chunks.weights), lengths)
    whole = split_windows(
        tiny_tokenizer.encode_batch(
            make_texts(lengths), max_length=9, overlap=overlap
        ),
        overlap,
    )
    np.testing.assert_array_equal(texts, whole.texts)
    np.testing.assert_array_equal(
        chunks.encoded.ids, np.concatenate([w.ids for w in whole.encodings])
    )
    assert chunks.num_over == 0


def test_order_by_size_is_order_by_chunks(tiny_tokenizer):
    lengths = np.arange(60)
    for overlap in (0, 3):
        chunks = split_chunks(
            make_texts(lengths), tiny_tokenizer, chunk_length=9, overlap=overlap
        )
        assert (np.diff(chunks.sizes) > 0).all()
        assert (np.diff(chunks.counts) >= 0).all()


def test_no_text_is_refused(tiny_tokenizer):
    with pytest.raises(ValueError, match="at least one text"):
        kbert.data.chunked_dataset(
            [],
            tokenizer=tiny_tokenizer,
            batch_size=2,
            chunk_length=8,
            max_chunks=2,
        )


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"chunk_length": 2}, ValueError, "chunk_length=2, of which 0"),
        ({"chunk_length": 33}, ValueError, "at most 32 tokens"),
        ({"chunk_length": 8.0}, TypeError, "max_length=8.0"),
        ({"overlap": 6}, ValueError, "6 are text, overlap=6"),
        ({"overlap": -1}, ValueError, "overlap=-1"),
        ({"overlap": True}, TypeError, "overlap=True"),
        ({"max_chunks": 0}, ValueError, "max_chunks=0"),
        ({"max_chunks": 2.0}, TypeError, "max_chunks=2.0"),
        ({"labels": [1]}, ValueError, "1 labels for 2 texts"),
        ({"labels": ["x", "y"]}, ValueError, "label_names"),
        ({"texts": "one"}, TypeError, "texts"),
        ({"pad_to": "longest"}, ValueError, "pad_to='longest'"),
    ],
)
def test_wrong_options_are_named(tiny_tokenizer, options, error, message):
    options = {
        "texts": ["good", "bad"],
        "labels": [0, 1],
        "batch_size": 2,
        "chunk_length": 8,
        "max_chunks": 2,
        **options,
    }
    with pytest.raises(error, match=message):
        kbert.data.chunked_dataset(tokenizer=tiny_tokenizer, **options)
