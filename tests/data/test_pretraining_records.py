"""Sequences in record files against the same ones in memory."""

import json
import pathlib
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import kbert.data.pretraining_records
from kbert.data import (
    Tokenizer,
    masked_lm_dataset,
    read_documents,
    read_records,
    write_pretraining_records,
    write_records,
)

DATA = pathlib.Path(__file__).parents[3] / "shared" / "data"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)
WORDS = [f"w{i}" for i in range(200)]
PAIRS = [{}, {"next_sentence": True}, {"sentence_order": True}]
LENGTH = 32


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.from_vocab([*SPECIAL, *WORDS, "##x", "##y"])


def documents(num=60, seed=0):
    """Document d says nothing but word d, so a token tells where it is from."""
    rng = np.random.default_rng(seed)
    return [
        [
            " ".join(f"w{d}" + "xy"[: rng.integers(3)] for _ in range(size))
            for size in rng.integers(1, 12, rng.integers(2, 9))
        ]
        for d in range(num)
    ]


@pytest.fixture(scope="module")
def directories(tokenizer, tmp_path_factory):
    """A directory for each kind of pairs."""
    made = []
    for number, pairs in enumerate(PAIRS):
        made.append(tmp_path_factory.mktemp("sequences") / str(number))
        write_pretraining_records(
            iter(documents()),
            made[-1],
            tokenizer=tokenizer,
            max_length=LENGTH,
            num_shards=3,
            **pairs,
        )
    return made


def dataset(source, tokenizer, **options):
    options = {"batch_size": 8, "max_length": LENGTH} | options
    return masked_lm_dataset(source, tokenizer=tokenizer, **options)


def take(data, count=-1):
    return [
        tf.nest.map_structure(lambda array: array.numpy(), batch)
        for batch in data.take(count)
    ]


def assert_same(one, other):
    assert len(one) == len(other)
    tf.nest.assert_same_structure(one, other)
    for a, b in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def masked_sequences(made):
    """Each sequence with its masks and labels, without padding, sorted."""
    return sorted(
        (
            x["token_ids"][row][x["padding_mask"][row] > 0].tolist(),
            x["mask_positions"][row][weights["mlm"][row] > 0].tolist(),
            y["mlm"][row][weights["mlm"][row] > 0].tolist(),
            int(y["nsp"][row]),
        )
        for x, y, weights in made
        for row in range(len(y["nsp"]))
    )


# What is read is what memory would have given.


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": True, "seed": 0, "unit": "word"},
        {"shuffle": True, "unit": "span", "pad_to": "max"},
        {"unit": "ngram", "pad_to": "batch", "drop_remainder": True},
        {"dupe_factor": 1, "shuffle": True},
        {"max_predictions": 2, "max_length": 40},
    ],
)
def test_the_batches_of_memory(tokenizer, directories, kind, options):
    if "max_length" in options:
        # Pairs depend on the room; these are the records' ones.
        options = options | {"pad_to": "batch"}
    records = read_records(directories[kind])
    found = dataset(records, tokenizer, **options)
    in_memory = dataset(
        documents(), tokenizer, **options | PAIRS[kind] | {"max_length": LENGTH}
    )
    for _ in range(2):  # epochs
        assert_same(take(found), take(in_memory))
    assert found.cardinality() == in_memory.cardinality()


def test_copies_with_masks_of_their_own(tokenizer, directories):
    options = dict(dupe_factor=3, shuffle=True)
    found = dataset(read_records(directories[0]), tokenizer, **options)
    in_memory = dataset(documents(), tokenizer, **options)
    assert_same(take(found), take(in_memory))
    # Of pairs, memory would draw others for each copy.
    records = read_records(directories[1])
    rows = masked_sequences(take(dataset(records, tokenizer, **options)))
    assert len(rows) == 3 * len(records)
    once = masked_sequences(take(dataset(records, tokenizer, dupe_factor=1)))
    assert all(row in rows for row in once)
    assert len({str(row) for row in rows}) > 2 * len(records)


def test_what_a_record_holds(tokenizer, directories):
    records = read_records(directories[1])
    for record in list(records)[::5]:
        ids = record["token_ids"]
        ends = np.flatnonzero(ids == SEP)
        assert ids[0] == CLS and len(ends) == 2 and ends[1] == len(ids) - 1
        assert (record["segment_ids"] == (np.arange(len(ids)) > ends[0])).all()
        # 205 and 206 are `##x` and `##y`.
        is_start = (ids >= 5) & (ids < 205)
        np.testing.assert_array_equal(record["word_starts"], is_start)
        own = ids[is_start]
        if len(set(own)) == 2:
            assert record["label"] == 1
    assert records.metadata["vocab_size"] == 207
    assert records.metadata["pairs"] == "next_sentence"
    assert set(read_records(directories[0])[0]) == {"token_ids", "word_starts"}


def test_families_without_segments(tokenizer, directories):
    distilbert = Tokenizer(
        tokenizer.backend,
        special_tokens=tokenizer.special_tokens,
        family="distilbert",
    )
    x, _, _ = take(dataset(read_records(directories[1]), distilbert), 1)[0]
    assert "segment_ids" not in x


# Workers.


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_workers_share_an_epoch(tokenizer, directories, unit):
    def epochs(num_workers):
        shares = [
            dataset(
                read_records(
                    directories[1], shard_index=i, num_shards=num_workers
                ),
                tokenizer,
                shuffle=True,
                unit=unit,
                seed=4,
            )
            for i in range(num_workers)
        ]
        return [
            masked_sequences([b for share in shares for b in take(share)])
            for _ in range(2)
        ]

    first, second = epochs(1)
    assert first != second
    for num_workers in (2, 3):
        assert epochs(num_workers) == [first, second]


def test_parts_written_apart_are_read_together(tokenizer, tmp_path):
    parts = [documents()[:30], documents()[30:]]
    for number, part in enumerate(parts):
        write_pretraining_records(
            part, tmp_path / str(number), tokenizer=tokenizer, max_length=24
        )
    both = read_records([tmp_path / "0", tmp_path / "1"])
    made = take(dataset(both, tokenizer, max_length=24))
    expected = [take(dataset(p, tokenizer, max_length=24)) for p in parts]

    def lengths(batches):
        return sorted(n for x, *_ in batches for n in x["padding_mask"].sum(1))

    assert lengths(made) == lengths(sum(expected, []))


# Resuming.


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("pad_to", ["bucket", "max"])
@pytest.mark.parametrize("drop_remainder", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
def test_resumed_batches_are_those_of_an_uninterrupted_run(
    tokenizer, directories, in_memory, pad_to, drop_remainder, shuffle
):
    options = dict(
        pad_to=pad_to, drop_remainder=drop_remainder, shuffle=shuffle
    )
    source = read_records(directories[1])
    if in_memory:
        source = documents()
        options["next_sentence"] = True
    finite = dataset(source, tokenizer, **options)
    steps = int(finite.cardinality())
    whole = sum((take(finite) for _ in range(3)), [])
    assert len(whole) == 3 * steps
    for start in (0, 3, steps - 1, steps, steps + 5):
        resumed = dataset(source, tokenizer, **options, start_step=start)
        assert resumed.cardinality() == tf.data.INFINITE_CARDINALITY
        assert_same(take(resumed, 3 * steps - start), whole[start:])
        # `fit` may look at a batch before it begins.
        assert_same(take(resumed, 2), whole[start : start + 2])


def test_a_worker_resumes_its_share(tokenizer, directories):
    def share(**options):
        records = read_records(directories[2], shard_index=1, num_shards=2)
        return dataset(records, tokenizer, shuffle=True, **options)

    once = share()
    whole = take(once) + take(once)
    assert_same(take(share(start_step=4), len(whole) - 4), whole[4:])


@pytest.mark.parametrize(
    ("start_step", "error"),
    [(-1, ValueError), (1.0, TypeError), (True, TypeError)],
)
def test_bad_starts(tokenizer, start_step, error):
    with pytest.raises(error, match=f"Received: start_step={start_step}"):
        dataset(documents(), tokenizer, start_step=start_step)


# Writing.


def test_parts_of_a_corpus(tokenizer, tmp_path, monkeypatch):
    """Small parts lose nothing, and pairs still come from two documents."""
    monkeypatch.setattr(
        kbert.data.pretraining_records, "_CHUNK_CHARACTERS", 300
    )
    texts = documents(100)
    for name, options in (("a", {}), ("b", {"next_sentence": True})):
        for again in ("", "again"):
            write_pretraining_records(
                [*texts[:50], [], [""], *texts[50:]],
                tmp_path / (name + again),
                tokenizer=tokenizer,
                max_length=LENGTH,
                **options,
            )
        for path in (tmp_path / name).iterdir():
            other = tmp_path / f"{name}again" / path.name
            assert path.read_bytes() == other.read_bytes()
    ids = [r["token_ids"] for r in read_records(tmp_path / "a")]
    expected = [i for d in texts for i in tokenizer(" ".join(d)).ids[1:-1]]
    assert [i for row in ids for i in row if i >= 5] == expected
    pairs = list(read_records(tmp_path / "b"))
    labels = np.array([record["label"] for record in pairs])
    assert 0.4 < labels.mean() < 0.6
    seen = set()
    for record, label in zip(pairs, labels, strict=True):
        row, second = record["token_ids"], record["segment_ids"] > 0
        is_word = (row >= 5) & (row < 205)
        words = [set(row[is_word & half]) for half in (~second, second)]
        assert max(map(len, words)) <= 1
        if all(words):
            assert (words[0] != words[1]) == label
        seen.update(*words)
    assert len(seen) == 100


def test_a_last_part_of_one_document_joins_the_one_before(
    tokenizer, tmp_path, monkeypatch
):
    monkeypatch.setattr(kbert.data.pretraining_records, "_CHUNK_CHARACTERS", 1)
    for number in (2, 8, 9, 16, 17):
        count = write_pretraining_records(
            documents(number),
            tmp_path / str(number),
            tokenizer=tokenizer,
            max_length=LENGTH,
            next_sentence=True,
        )
        assert count >= number


def test_progress_is_shown_where_asked(tokenizer, tmp_path, capsys):
    for shown in (True, False):
        write_pretraining_records(
            documents(),
            tmp_path / str(shown),
            tokenizer=tokenizer,
            max_length=LENGTH,
            show_progress=shown,
        )
        assert ("60 documents" in capsys.readouterr().err) == shown


WRITE = """
import itertools, json, sys
import kbert.data.pretraining_records
from kbert.data import Tokenizer, write_pretraining_records
path, vocab, size, kill = json.loads(sys.argv[1])
# Smaller parts, for a quicker test.
kbert.data.pretraining_records._CHUNK_CHARACTERS = 2**20
tokenizer = Tokenizer.from_vocab(vocab)
def documents():
    done = 0
    for number in itertools.count():
        if done > size:
            if kill:
                print("far", flush=True)
                input()
            return
        words = [vocab[5 + (number * 7 + i) % 200] for i in range(120)]
        document = [" ".join(words[i : i + 12]) for i in range(0, 120, 12)]
        done += sum(map(len, document))
        yield document
write_pretraining_records(
    documents(), path, tokenizer=tokenizer, max_length=128, next_sentence=True
)
import resource
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def run(path, size, kill=False):
    # Long words: many bytes for a token.
    vocab = [*SPECIAL, *(f"counterrevolutionary{w}" for w in WORDS)]
    arguments = json.dumps([str(path), vocab, size, kill])
    return subprocess.Popen(
        [sys.executable, "-c", WRITE, arguments],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
    )


@pytest.mark.slow
def test_a_killed_writer_leaves_nothing_that_reads(tokenizer, tmp_path):
    path = tmp_path / "r"
    # Past two parts, so that there are records in the files.
    with run(path, 2**21 + 2**19, kill=True) as writer:
        assert writer.stdout.readline() == b"far\n"
        writer.send_signal(signal.SIGKILL)
    assert [p.name for p in tmp_path.iterdir()] == ["r.unfinished"]
    assert any(
        p.stat().st_size for p in (tmp_path / "r.unfinished").glob("*.tfrecord")
    )
    with pytest.raises(FileNotFoundError, match="cut off"):
        read_records(path)
    for name in ("r", "clean"):
        write_pretraining_records(
            documents(),
            tmp_path / name,
            tokenizer=tokenizer,
            max_length=LENGTH,
        )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["clean", "r"]
    for file in path.iterdir():
        other = tmp_path / "clean" / file.name
        assert file.read_bytes() == other.read_bytes()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path):
    peaks = []
    for size in (5e6, 55e6):
        with run(tmp_path / str(size), size) as writer:
            peaks.append(int(writer.stdout.read()) / 1024)
        shutil.rmtree(tmp_path / str(size))
    # 50 MB of text more, of which no fifth is kept.
    assert peaks[1] - peaks[0] < 10
    assert peaks[1] < 2 * peaks[0]


# Refusals.


def test_another_tokenizer_is_refused(tokenizer, directories):
    records = read_records(directories[0])
    vocab = [*SPECIAL, *WORDS, "##x", "##y"]
    swapped = [*vocab[:5], vocab[6], vocab[5], *vocab[7:]]
    others = [
        (Tokenizer.from_vocab(vocab[:-1]), "vocab_size is 207.*206"),
        (Tokenizer.from_vocab(swapped), "tokenizer_sha256"),
    ]
    for other, message in others:
        with pytest.raises(ValueError, match=f"{message}") as caught:
            dataset(records, other)
        assert "Received: Tokenizer(" in str(caught.value)
    # The same tokens, loaded anew, are the same tokenizer.
    take(dataset(records, Tokenizer.from_vocab(vocab)), 1)


def test_other_rules_with_the_same_vocabulary_are_refused(tmp_path):
    vocab = [*SPECIAL, *"abcdefghijklmnopqrstuvwxyz", "T", "é"]
    vocab += [f"##{c}" for c in "abcdefghijklmnopqrstuvwxyzCDEFIRS"]
    uncased, cased = (
        Tokenizer.from_vocab(vocab, lowercase=lowercase)
        for lowercase in (True, False)
    )
    write_pretraining_records(
        [["a b c"]], tmp_path / "r", tokenizer=uncased, max_length=8
    )
    records = read_records(tmp_path / "r")
    with pytest.raises(ValueError, match="tokenizer_sha256"):
        dataset(records, cased)


def test_records_and_options_that_do_not_fit(tokenizer, directories, tmp_path):
    records = read_records(directories[1])
    for options in (
        {"next_sentence": True},
        {"sentence_order": True},
        {"short_probability": 0.2},
    ):
        with pytest.raises(ValueError, match="leave out.*Received: "):
            dataset(records, tokenizer, **options)
    with pytest.raises(ValueError, match="to 32 tokens. Received: max_length"):
        dataset(records, tokenizer, max_length=31)
    for options in ({"shuffle": True}, {"start": 5}):
        with pytest.raises(ValueError, match="pass `shuffle`.*Received: "):
            dataset(read_records(directories[1], **options), tokenizer)
    write_records([{"token_ids": [1]}], tmp_path / "other")
    with pytest.raises(ValueError, match="write_pretraining_records.*Rec"):
        dataset(read_records(tmp_path / "other"), tokenizer)
    with pytest.raises(ValueError, match="same metadata"):
        read_records(directories[1:])


@pytest.mark.parametrize(
    ("texts", "options", "error", "message"),
    [
        ([], {}, ValueError, "at least one example. Received: none"),
        ([[], [""]], {}, ValueError, "Received: "),
        (["w1 w2"], {}, TypeError, "'w1 w2' at 0"),
        ([["w1"], "w2"], {}, TypeError, "'w2' at 1"),
        ([["w1"], [2]], {}, TypeError, r"documents\[1\]\[0\]=2"),
        ("w1", {}, TypeError, "documents='w1'"),
        ([["w1", "w2"]], {"next_sentence": True}, ValueError, "1 document"),
        ([["w1"]], {"max_length": 2}, ValueError, "max_length=2"),
        ([["w1"]], {"max_length": 600}, ValueError, "max_length=600"),
        ([["w1"]], {"next_sentence": 1}, TypeError, "next_sentence=1"),
        ([["w1"]], {"short_probability": 2}, ValueError, "=2"),
        ([["w1"]], {"num_shards": 0}, ValueError, "num_shards=0"),
    ],
)
def test_bad_writing(tokenizer, tmp_path, texts, options, error, message):
    options = {"max_length": 16} | options
    with pytest.raises(error, match=message) as caught:
        write_pretraining_records(
            texts, tmp_path / "r", tokenizer=tokenizer, **options
        )
    assert "Received: " in str(caught.value)
    assert not list(tmp_path.iterdir())


# Real text.


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason=f"the real data is not at {DATA}")
@pytest.mark.parametrize("unit", ["token", "word"])
def test_real_text(tmp_path, unit):
    tokenizer = Tokenizer.from_vocab(
        DATA / "vocabs" / "bert-base-uncased" / "vocab.txt"
    )
    texts = list(read_documents(DATA / "pretrain" / "wikipedia"))
    write_pretraining_records(
        texts,
        tmp_path / "r",
        tokenizer=tokenizer,
        max_length=128,
        next_sentence=True,
    )
    options = dict(max_length=128, shuffle=True, unit=unit, batch_size=32)
    one = dataset(read_records(tmp_path / "r"), tokenizer, **options)
    other = dataset(texts, tokenizer, **options, next_sentence=True)
    assert_same(take(one), take(other))
