"""Record files: what is read is what was written, in a known order, once."""

import pickle
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from kbert.data import read_records, write_records


def make_examples(number=101, seed=0):
    rng = np.random.default_rng(seed)
    examples = []
    for index in range(number):
        size = int(rng.integers(0, 40))
        ids = rng.integers(0, 30_522, size, dtype=np.int32)
        examples.append(
            {
                "token_ids": ids,
                "segment_ids": (np.arange(size) > size // 2).astype(np.int8),
                "word_starts": rng.random(size) < 0.5,
                "number": index,
            }
        )
    return examples


def assert_same(found, expected):
    assert len(found) == len(expected)
    for one, two in zip(found, expected, strict=True):
        assert list(one) == list(two)
        for name, array in one.items():
            assert isinstance(array, np.ndarray)
            assert array.dtype == np.int32
            assert array.shape == np.shape(two[name])
            np.testing.assert_array_equal(array, two[name])


def numbers(records):
    return [int(record["number"]) for record in records]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("records") / "whole"
    assert write_records(make_examples(), path, num_shards=7) == 101
    return path


@pytest.fixture
def copy(directory, tmp_path):
    return shutil.copytree(directory, tmp_path / "copy")


# There and back.


@pytest.mark.parametrize("num_shards", [1, 7, 150])
def test_round_trip(num_shards, tmp_path):
    examples = make_examples()
    count = write_records(iter(examples), tmp_path / "r", num_shards=num_shards)
    records = read_records(tmp_path / "r")
    assert count == len(records) == 101
    assert_same(list(records), examples)
    assert_same([records[i] for i in range(101)], examples)
    assert_same(
        [records[-1], records[np.int64(3)]], [examples[100], examples[3]]
    )
    for index in (101, -102):
        with pytest.raises(IndexError):
            records[index]


def test_int32_limits_and_lists(tmp_path):
    limits = [-(2**31), 2**31 - 1]
    write_records([{"a": limits, "b": np.int64(7), "c": []}], tmp_path)
    assert_same(list(read_records(tmp_path)), [{"a": limits, "b": 7, "c": []}])


def test_tensorflow_reads_the_shards(directory):
    tf = pytest.importorskip("tensorflow")
    examples = make_examples()
    paths = sorted(str(path) for path in directory.glob("*.tfrecord"))
    assert len(paths) == 7
    seen = []
    for shard, path in enumerate(paths):
        data = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
        parsed = tf.io.parse_example(
            data,
            {
                "token_ids": tf.io.RaggedFeature(tf.int64),
                "number": tf.io.FixedLenFeature([], tf.int64),
            },
        )
        for ids, number in zip(
            parsed["token_ids"].to_list(), parsed["number"].numpy(), strict=True
        ):
            assert ids == examples[number]["token_ids"].tolist()
            assert number % 7 == shard
            seen.append(int(number))
    assert sorted(seen) == list(range(101))


def test_same_examples_same_bytes(directory, tmp_path):
    write_records(make_examples(), tmp_path / "again", num_shards=7)
    for path in directory.iterdir():
        assert (
            path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()
        )


def test_metadata(tmp_path):
    metadata = {"vocab_size": 30522, "source": "naïve"}
    write_records(make_examples(3), tmp_path, metadata=metadata)
    assert read_records(tmp_path).metadata == metadata


def test_several_directories(tmp_path):
    examples = make_examples()
    paths = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    for path, (start, end) in zip(
        paths, [(0, 50), (50, 51), (51, 101)], strict=True
    ):
        write_records(examples[start:end], path, num_shards=3)
    assert_same(list(read_records(paths)), examples)
    assert numbers(read_records(paths, shard_index=1, num_shards=4)) == list(
        range(1, 101, 4)
    )
    assert sorted(numbers(read_records(paths, shuffle=True))) == list(
        range(101)
    )


# Order, workers and resuming.


def test_lengths_come_from_the_index(directory, tmp_path):
    sizes = [example["token_ids"].size for example in make_examples()]
    assert read_records(directory).lengths.tolist() == sizes
    share = read_records(directory, shard_index=2, num_shards=3)
    assert share.lengths.tolist() == sizes[2::3]
    assert [len(r["token_ids"]) for r in share] == sizes[2::3]
    assert list(share.numbers) == numbers(share) and share.total == 101
    write_records(
        [{"a": [1], "b": [1, 2, 3], "c": 5}, {"a": [], "b": [], "c": 9}],
        tmp_path,
    )
    assert read_records(tmp_path).lengths.tolist() == [3, 0]
    both = read_records([directory, directory])
    assert both.lengths.tolist() == sizes * 2


def test_shuffle(directory):
    records = read_records(directory, shuffle=True, seed=3)
    first, second = numbers(records), numbers(records)
    for order in (first, second):
        assert sorted(order) == list(range(101))
    assert first != second
    # A true shuffle: no trace of shards or of a buffer in the order.
    for order in (first, second):
        assert abs(np.corrcoef(order, np.arange(101))[0, 1]) < 0.35
        assert (
            abs(np.corrcoef(np.array(order) % 7, np.arange(101))[0, 1]) < 0.35
        )
    again = read_records(directory, shuffle=True, seed=3)
    assert [numbers(again), numbers(again)] == [first, second]
    assert numbers(read_records(directory, shuffle=True, seed=4)) != first
    assert numbers([again[i] for i in range(101)]) == list(range(101))
    plain = read_records(directory)
    assert numbers(plain) == numbers(plain) == list(range(101))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("num_shards", [1, 2, 7, 10, 101])
def test_every_record_once_over_workers(directory, num_shards, shuffle):
    workers = [
        read_records(
            directory, shard_index=i, num_shards=num_shards, shuffle=shuffle
        )
        for i in range(num_shards)
    ]
    for _ in range(2):
        seen = [numbers(worker) for worker in workers]
        assert sorted(sum(seen, [])) == list(range(101))
        assert [len(part) for part in seen] == [len(w) for w in workers]
    sizes = {len(worker) for worker in workers}
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("start", [0, 1, 33, 34, 70, 101])
def test_resume(directory, shuffle, start):
    options = dict(shard_index=1, num_shards=3, shuffle=shuffle, seed=9)
    records = read_records(directory, **options)
    assert len(records) == 34
    whole = sum((numbers(records) for _ in range(4)), [])
    resumed = read_records(directory, **options, start=start)
    assert len(resumed) == 34
    rest = sum((numbers(resumed) for _ in range(4)), [])
    assert rest[: len(whole) - start] == whole[start:]


def test_a_pass_cut_short_does_not_shorten_the_next(directory):
    records = read_records(directory, shuffle=True)
    part = iter(records)
    next(part)
    assert len(numbers(records)) == 101
    assert len(numbers(part)) == 100


def test_other_processes_and_threads(directory, monkeypatch):
    monkeypatch.chdir(directory.parent)
    records = read_records("whole", shuffle=True)
    records[5]
    copied = pickle.loads(pickle.dumps(records))
    monkeypatch.chdir("/")
    assert numbers(copied) == numbers(records)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(copied.__getitem__, [*range(101)] * 3))
    assert numbers(found) == [*range(101)] * 3


# Killed writers, and writers that fail.


def test_killed_writer(tmp_path):
    code = (
        "import sys, itertools; from kbert.data import write_records\n"
        "def examples():\n"
        "    for i in itertools.count():\n"
        "        if i == 5000: print('many', flush=True)\n"
        "        yield {'number': i}\n"
        "write_records(examples(), sys.argv[1])"
    )
    path = tmp_path / "r"
    writer = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE
    )
    with writer:
        assert writer.stdout.readline() == b"many\n"
        writer.send_signal(signal.SIGKILL)
    assert not path.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["r.unfinished"]
    with pytest.raises(FileNotFoundError, match="cut off.*Received: dir"):
        read_records(path)
    write_records(make_examples(), path)
    assert numbers(read_records(path)) == list(range(101))
    assert list(tmp_path.iterdir()) == [path]


def test_failing_examples_leave_nothing(tmp_path):
    def examples():
        yield {"number": 1}
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        write_records(examples(), tmp_path / "r")
    assert not list(tmp_path.iterdir())


def test_what_is_there_is_kept(directory, tmp_path):
    with pytest.raises(FileExistsError, match="Received: directory="):
        write_records(make_examples(3), directory)
    assert len(read_records(directory)) == 101
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(FileExistsError):
            write_records(make_examples(3), path)
    assert (tmp_path / "file").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    write_records(make_examples(3), tmp_path / "empty")
    assert len(read_records(tmp_path / "empty")) == 3


# Damage.


def damage(path, offset):
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_one_damaged_byte(copy):
    shard = sorted(copy.glob("*.tfrecord"))[2]
    # The last byte of the last record, before TFRecord's own checksum.
    damage(shard, -5)
    records = read_records(copy)
    assert numbers([records[i] for i in range(90)]) == list(range(90))
    with pytest.raises(ValueError, match="record 100 .*00002-of.*copy'$"):
        records[100]
    with pytest.raises(ValueError, match="checksum"):
        list(records)


@pytest.mark.parametrize(
    "name", ["index.bin", "records-00003-of-00007.tfrecord"]
)
def test_files_cut_or_missing(copy, name):
    data = (copy / name).read_bytes()
    (copy / name).write_bytes(data[:-1])
    with pytest.raises(ValueError, match=f"{name} with {len(data)} bytes"):
        read_records(copy)
    (copy / name).unlink()
    with pytest.raises(
        ValueError, match=f"{name}.*has 0.*Received: directory="
    ):
        read_records(copy)


def test_damaged_index_and_manifest(copy):
    damage(copy / "index.bin", 9)
    with pytest.raises(ValueError, match="index.bin.*checksum"):
        read_records(copy)
    manifest = copy / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"version": 2', '"version": 3'))
    with pytest.raises(ValueError, match="Expected records of the format.*3"):
        read_records(copy)
    manifest.write_text(text[:-5])
    with pytest.raises(ValueError, match="in JSON.*Received: directory="):
        read_records(copy)
    manifest.unlink()
    with pytest.raises(FileNotFoundError, match="no manifest.json. Received"):
        read_records(copy)


# Bad input.


@pytest.mark.parametrize(
    "bad,error",
    [
        ([{"a": 1.5}], ValueError),
        ([{"a": ["x"]}], ValueError),
        ([{"a": [[1, 2]]}], ValueError),
        ([{"a": [[1], [1, 2]]}], ValueError),
        ([{"a": [2**31]}], ValueError),
        ([{"a": -(2**31) - 1}], ValueError),
        ([{"a": np.array([2**63], np.uint64)}], ValueError),
        ([{"a": None}], ValueError),
        ([{"a": [1]}, {"a": 1}], ValueError),
        ([{"a": 1}, {"b": 1}], ValueError),
        ([{"a": 1}, {"a": 1, "b": 1}], ValueError),
        ([{"a": 1}, {}], ValueError),
        ([{}], ValueError),
        ([], ValueError),
        ([[1, 2]], TypeError),
        ([{1: 2}], TypeError),
    ],
)
def test_bad_examples(bad, error, tmp_path):
    with pytest.raises(error, match="Expected .*Received: "):
        write_records(bad, tmp_path / "r")
    assert not list(tmp_path.iterdir())


def test_bad_arguments(directory, tmp_path):
    examples = make_examples(3)
    for num_shards in (0, 1.0, True, None):
        with pytest.raises(ValueError, match="Received: num_shards="):
            write_records(examples, tmp_path / "r", num_shards=num_shards)
    with pytest.raises(TypeError, match="JSON"):
        write_records(examples, tmp_path / "r", metadata={"a": np.ones(2)})
    for options in (
        {"num_shards": 0},
        {"shard_index": 2, "num_shards": 2},
        {"shard_index": -1, "num_shards": 2},
        {"num_shards": 102},
        {"start": -1},
        {"seed": -1},
    ):
        with pytest.raises(ValueError, match="Received: .*=-?[0-9]"):
            read_records(directory, **options)
    with pytest.raises(TypeError):
        read_records(directory, start=1.0)
    for function in (read_records, lambda path: write_records(examples, path)):
        with pytest.raises(ValueError, match="local.*Received: directory='gs:"):
            function("gs://bucket/records")
    with pytest.raises(ValueError, match="Received: directory="):
        read_records([])


def test_directories_that_do_not_fit(directory, tmp_path):
    write_records([{"number": [1]}], tmp_path / "a")
    with pytest.raises(ValueError, match="same features. Received"):
        read_records([directory, tmp_path / "a"])
    write_records(make_examples(3), tmp_path / "b", metadata={"vocab_size": 9})
    with pytest.raises(ValueError, match="same metadata. Received"):
        read_records([directory, tmp_path / "b"])


# Speed.


@pytest.mark.slow
def test_reading_keeps_a_model_busy(tmp_path):
    ids = np.arange(128, dtype=np.int32) + 1_000
    example = {"token_ids": ids, "segment_ids": ids % 2, "word_starts": ids % 2}
    write_records([example] * 4_000, tmp_path)
    speeds = []
    for _ in range(3):
        records = read_records(tmp_path, shuffle=True)
        start = time.perf_counter()
        count = sum(record["token_ids"].size for record in records)
        speeds.append(count / (time.perf_counter() - start))
    assert count == 4_000 * 128
    assert max(speeds) > 200_000
