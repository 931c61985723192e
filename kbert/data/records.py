"""Tokenised sequences on disk, for corpora that memory does not hold."""

import bisect
import itertools
import json
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np

from kbert.data.record_files import (
    RecordDirectory,
    check_path,
    write_directory,
)


def write_records(
    examples: Iterable[Mapping[str, Any]],
    directory: str | os.PathLike,
    *,
    num_shards: int = 8,
    metadata: Mapping[str, Any] | None = None,
) -> int:
    """Writes sequences of integers to files, one example at a time.

    The directory appears when everything is in it: until then the files are
    in one of the same name with `.unfinished` at its end, which the next call
    removes. So a run that was killed is repeated, and a directory that is
    there is complete. To write with several processes, give each a directory
    of its own; `read_records` takes them together.

    The shards are TFRecord files of `tf.train.Example`: `tf.data` and other
    programs read them too.

    Args:
        examples: Dicts with the same keys: vectors (S,) of integers, whose
            lengths may differ, or single integers. They come back as int32.
        directory: Where to write, on the local file system; it must not
            exist, or be empty.
        num_shards: How many files to spread the examples over. Reading does
            not depend on it.
        metadata: What to keep beside them as JSON, such as the size of the
            vocabulary and the arguments that they were made with.

    Returns:
        How many examples were written.

    Raises:
        FileExistsError: The directory has something in it.
        TypeError: An example is no dict with strings as keys, or the metadata
            cannot be written as JSON.
        ValueError: There is no example, one has other keys or ranks than the
            first, a value is no integer or vector of integers that int32
            holds, `num_shards` is no positive integer, or the directory is
            an address.

    Example:
        >>> import kbert
        >>> examples = [
        ...     {"token_ids": [2, 7, 9, 3], "is_random": 0},
        ...     {"token_ids": [2, 8, 3], "is_random": 1},
        ... ]
        >>> kbert.data.write_records(examples, "records", num_shards=2)
        2
        >>> records = kbert.data.read_records("records")
        >>> len(records), records[1]["token_ids"].tolist()
        (2, [2, 8, 3])
    """
    path = check_path(directory)
    if type(num_shards) is not int or num_shards < 1:
        raise ValueError(
            f"Expected a positive integer. Received: num_shards={num_shards!r}"
        )
    # Now, not after hours of writing.
    json.dumps(metadata)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileExistsError(
            "Expected a directory that is empty or not there: delete it, or "
            f"choose another. Received: directory={str(path)!r}"
        )
    return write_directory(examples, path, num_shards, metadata or {})


def read_records(
    directory: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    shard_index: int = 0,
    num_shards: int = 1,
    shuffle: bool = False,
    seed: int = 0,
    start: int = 0,
) -> "Records":
    """Opens what `write_records` wrote.

    Args:
        directory: A directory, or several with the same keys and metadata,
            one after the other.
        shard_index: Which worker this is, from 0.
        num_shards: How many workers share the records: each gets every
            `num_shards`-th, so that shares differ by one record at most. It
            need not be the number of files.
        shuffle: Whether each pass is in a random order, of all records of
            the worker.
        seed: Seed of the orders: the same gives the same first pass, second
            pass and so on.
        start: How many records of this worker have been read before, in this
            and earlier passes: reading goes on after them, at no cost.

    Returns:
        A `Records`.

    Raises:
        FileNotFoundError: There are no records, or not all of them yet.
        TypeError: `shard_index`, `num_shards`, `seed` or `start` is no
            integer.
        ValueError: Files are not as they were written, the directories do
            not fit together, there are more workers than records, or a
            number is out of range.

    Example:
        >>> import kbert
        >>> ids = [{"token_ids": [2, n, 3]} for n in range(10, 15)]
        >>> _ = kbert.data.write_records(ids, "numbers")
        >>> def numbers(**options):
        ...     records = kbert.data.read_records("numbers", **options)
        ...     return [int(record["token_ids"][1]) for record in records]
        >>> numbers(shard_index=0, num_shards=2)
        [10, 12, 14]
        >>> whole = numbers(shuffle=True, seed=1)
        >>> numbers(shuffle=True, seed=1, start=2) == whole[2:]
        True
    """
    if isinstance(directory, (str, os.PathLike)):
        directory = [directory]
    directories = [RecordDirectory(check_path(path)) for path in directory]
    if not directories:
        raise ValueError("Expected a directory. Received: directory=[]")
    first = directories[0]
    for other in directories[1:]:
        for name in ("features", "metadata"):
            one, two = getattr(first, name), getattr(other, name)
            if one != two:
                raise ValueError(
                    f"Expected directories with the same {name}. Received: "
                    f"{one} in {str(first.path)!r}, "
                    f"{two} in {str(other.path)!r}"
                )
    return Records(
        directories,
        shard_index=shard_index,
        num_shards=num_shards,
        shuffle=shuffle,
        seed=seed,
        start=start,
    )


class Records:
    """The records of one worker: see `read_records`.

    `len(records)` counts one pass. `records[i]` is record i of this worker in
    the order in which they were written, whatever `shuffle` says. Iterating
    again is the next pass, which goes on to the end whatever was read of the
    pass before. It can be pickled and handed to other processes.

    Attributes:
        metadata: What was kept beside the records.
        numbers: Number of each record of this worker among those of all.
        total: How many records all workers have.
        shuffle: Whether each pass is in a random order.
        start: How many records are passed over.
    """

    def __init__(
        self,
        directories: Sequence[RecordDirectory],
        *,
        shard_index: int,
        num_shards: int,
        shuffle: bool,
        seed: int,
        start: int,
    ):
        """Checks the numbers against what there is."""
        shard_index = operator.index(shard_index)
        num_shards = operator.index(num_shards)
        seed, start = operator.index(seed), operator.index(start)
        self.metadata = directories[0].metadata
        self._directories = directories
        counts = [directory.num_records for directory in directories]
        self._ends = list(itertools.accumulate(counts))
        if not 0 <= shard_index < num_shards <= self._ends[-1]:
            raise ValueError(
                "Expected 0 <= shard_index < num_shards <= the number of "
                f"records, {self._ends[-1]}. Received: "
                f"shard_index={shard_index}, num_shards={num_shards}"
            )
        if min(seed, start) < 0:
            raise ValueError(
                "Expected numbers of at least 0. "
                f"Received: seed={seed}, start={start}"
            )
        self.total = self._ends[-1]
        self.numbers = range(shard_index, self.total, num_shards)
        self.shuffle, self.start = shuffle, start
        self._seed = seed
        self._epoch, self._skip = divmod(start, len(self.numbers))

    def __len__(self) -> int:
        """Returns the number of records in one pass."""
        return len(self.numbers)

    @property
    def lengths(self) -> np.ndarray:
        """Length of the longest vector of each, int64 (N,), from the index."""
        parts = [directory.lengths for directory in self._directories]
        numbers = self.numbers
        return np.concatenate(parts)[numbers.start :: numbers.step].astype(
            np.int64
        )

    def __getitem__(self, index: SupportsIndex) -> dict[str, np.ndarray]:
        """Reads record `index` of this worker.

        Args:
            index: An integer; a negative one counts from the end.

        Returns:
            Name to array, int32 of shape (S,) or ().

        Raises:
            IndexError: There is no such record.
            ValueError: The record is not as it was written.
        """
        number = self.numbers[operator.index(index)]
        part = bisect.bisect(self._ends, number)
        before = self._ends[part - 1] if part else 0
        return self._directories[part][number - before]

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        """Reads the records of the next pass, as `__getitem__` does."""
        epoch, skip = self._epoch, self._skip
        self._epoch, self._skip = epoch + 1, 0
        order: Sequence[int] | np.ndarray = range(len(self))
        if self.shuffle:
            generator = np.random.default_rng([self._seed, epoch])
            order = generator.permutation(len(self))
        return (self[index] for index in order[skip:])
