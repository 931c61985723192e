"""Groups examples into padded batches, and batches into a `tf.data.Dataset`.

Padding is where most of a short text's cost goes, so by default texts of like
length share a batch. The plan of an epoch is plain numpy and depends on the
seed and the epoch alone; tf.data only carries the batches.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

# Steps of about a sixth keep padding small and the number of shapes, each of
# which an XLA device compiles once, at twenty.
_BUCKETS = np.concatenate(
    [
        np.arange(8, 64, 8),
        np.arange(64, 128, 16),
        np.arange(128, 256, 32),
        np.arange(256, 513, 64),
    ]
)
# Texts are sorted by length among this many batches at a time: enough that a
# batch holds one length, while it still meets other texts every epoch.
_BATCHES_PER_SORT = 50

# Batches made ahead of the model, while it works on one.
_PREFETCHED = 4

PAD_TO = ("bucket", "batch", "max")


@dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """How examples become batches; the same for every `*_dataset`.

    Args:
        batch_size: examples in a batch.
        max_length: most tokens in an example, specials included.
        shuffle: whether every epoch has another order.
        seed: of the order.
        pad_to: "bucket" groups texts of like length and pads a batch to one
            of a few lengths, "batch" pads to the longest in the batch, "max"
            to `max_length`.
        drop_remainder: whether to leave out a last batch that is not full.

    Raises:
        TypeError: if a value has the wrong type.
        ValueError: if a value is out of range.
    """

    batch_size: int
    max_length: int
    shuffle: bool = False
    seed: int = 0
    pad_to: str = "bucket"
    drop_remainder: bool = False

    def __post_init__(self) -> None:
        """Check every option."""
        for name, minimum in (
            ("batch_size", 1),
            ("max_length", 1),
            ("seed", 0),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(
                value, (int, np.integer)
            ):
                raise TypeError(
                    f"`{name}` must be an int. Received: {name}={value!r}"
                )
            if value < minimum:
                raise ValueError(
                    f"`{name}` must be at least {minimum}. Received: "
                    f"{name}={value}"
                )
        for name in ("shuffle", "drop_remainder"):
            value = getattr(self, name)
            if not isinstance(value, (bool, np.bool_)):
                raise TypeError(
                    f"`{name}` must be a bool. Received: {name}={value!r}"
                )
        if self.pad_to not in PAD_TO:
            raise ValueError(
                f"`pad_to` must be one of {PAD_TO}. Received: "
                f"pad_to={self.pad_to!r}"
            )


@dataclass(frozen=True)
class Batch:
    """Which examples make one batch, and its padded length in tokens.

    Args:
        indices: int (B,), numbers of the examples.
        length: tokens that each is padded to.
        epoch: number of the epoch.
        number: of the batch in its epoch. What is drawn for a batch is
            seeded by the two.
    """

    indices: np.ndarray
    length: int
    epoch: int = 0
    number: int = 0


def plan_epoch(
    lengths: np.ndarray,
    options: BatchOptions,
    *,
    epoch: int = 0,
    keep_order: bool = False,
) -> list[Batch]:
    """Decide the batches of one epoch.

    Args:
        lengths: int (N,), tokens in each example, at most
            `options.max_length`.
        options: how to batch.
        epoch: number of the epoch; with `shuffle` each has its own order.
        keep_order: whether batches must follow the order of the examples
            even with `pad_to="bucket"`; has no effect with `shuffle`.

    Returns:
        Batches that hold every example once (but for a dropped remainder).
    """
    rng = np.random.default_rng((options.seed, epoch))
    size = options.batch_size
    order = np.arange(len(lengths))
    if options.shuffle:
        order = rng.permutation(order)
    if options.drop_remainder:
        # Before the sort, which would leave out the longest texts always.
        order = order[: len(order) // size * size]
    if not len(order):
        return []
    if options.pad_to == "bucket" and not (keep_order and not options.shuffle):
        span = _BATCHES_PER_SORT * size if options.shuffle else len(order)
        order = np.concatenate(
            [
                part[np.argsort(lengths[part], kind="stable")]
                for part in _cut(order, span)
            ]
        )
    groups = _cut(order, size)
    if options.shuffle:
        groups = [groups[i] for i in rng.permutation(len(groups))]
    return [
        Batch(
            group,
            padded_length(int(lengths[group].max()), options),
            epoch=epoch,
            number=number,
        )
        for number, group in enumerate(groups)
    ]


def _check_start(start_step: int | None) -> None:
    if start_step is None:
        return
    if isinstance(start_step, bool) or not isinstance(
        start_step, (int, np.integer)
    ):
        raise TypeError(
            "`start_step` must be an int or None. Received: "
            f"start_step={start_step!r}"
        )
    if start_step < 0:
        raise ValueError(
            "`start_step` must be at least 0. Received: "
            f"start_step={start_step}"
        )


def _cut(items: np.ndarray, size: int) -> list[np.ndarray]:
    return [items[i : i + size] for i in range(0, len(items), size)]


def padded_length(longest: int, options: BatchOptions) -> int:
    """Return the length that a batch is padded to.

    Args:
        longest: tokens in the longest example of the batch.
        options: how to batch.
    """
    if options.pad_to == "max":
        return options.max_length
    if options.pad_to == "batch" or longest > _BUCKETS[-1]:
        return longest
    bucket = _BUCKETS[np.searchsorted(_BUCKETS, longest)]
    return min(int(bucket), options.max_length)


class FlatRows:
    """Rows of different lengths, kept end to end in one array.

    Args:
        values: array (sum of lengths,).
        lengths: int (N,), items in each row.
    """

    def __init__(self, values: np.ndarray, lengths: np.ndarray):
        """See the class."""
        self._values = values
        self._lengths = lengths
        self._starts = np.cumsum(lengths) - lengths

    def padded(
        self, indices: np.ndarray, length: int, fill: int | float
    ) -> np.ndarray:
        """Return rows as an array (len(indices), length), filled up."""
        columns = np.arange(length)
        real = columns < self._lengths[indices, None]
        where = self._starts[indices, None] + columns
        rows = np.full(real.shape, fill, self._values.dtype)
        rows[real] = self._values[where[real]]
        return rows


@dataclass(frozen=True)
class ArraySpec:
    """Shape and dtype of one array of a batch.

    Args:
        shape: sizes, with "B" for the batch size and "S" for the padded
            length, which may differ from batch to batch; None for another
            size that may differ.
        dtype: name of the dtype.
    """

    shape: tuple[int | str | None, ...]
    dtype: str


def make_dataset(
    lengths: np.ndarray,
    make_batch: Callable[[Batch], Any],
    signature: Any,
    options: BatchOptions,
    *,
    keep_order: bool = False,
    start_step: int | None = None,
):
    """Turn a way to make batches into a dataset that `fit` can iterate.

    Args:
        lengths: int (N,), tokens in each example.
        make_batch: returns the arrays of one batch, nested like
            `signature`.
        signature: nested `ArraySpec`s of one batch.
        options: how to batch.
        keep_order: as for `plan_epoch`.
        start_step: None for a data set of one epoch. A number for one
            without end that begins with the batch of that number, counted
            over all epochs.

    Returns:
        A `tf.data.Dataset`. Of one epoch, its number of batches is known,
        and iterating it again is the next epoch; one without end begins at
        the same batch every time.

    Raises:
        TypeError: if `start_step` is no int.
        ValueError: if there is no example, `drop_remainder` leaves none, or
            `start_step` is negative.
    """
    # Steps before this one run without TensorFlow; so does importing them.
    import tensorflow as tf

    if not len(lengths):
        raise ValueError("A dataset needs at least one text. Received: none")
    size = options.batch_size
    num_batches = len(lengths) // size
    if not options.drop_remainder:
        num_batches = -(-len(lengths) // size)
    if not num_batches:
        raise ValueError(
            "There are fewer texts than one batch holds, and drop_remainder "
            f"leaves them all out. Received: {len(lengths)} texts, "
            f"batch_size={size}, drop_remainder=True"
        )
    _check_start(start_step)
    sizes = {
        "B": options.batch_size if options.drop_remainder else None,
        "S": options.max_length if options.pad_to == "max" else None,
    }
    specs = tf.nest.map_structure(
        lambda array: tf.TensorSpec(
            [sizes.get(size, size) for size in array.shape], array.dtype
        ),
        signature,
    )

    def batches(epoch: int) -> list[Batch]:
        return plan_epoch(lengths, options, epoch=epoch, keep_order=keep_order)

    epochs = itertools.count()

    def one_epoch() -> Iterator[Any]:
        return map(make_batch, batches(next(epochs)))

    def without_end() -> Iterator[Any]:
        # From the start whenever it is called: `fit` may take a batch to build
        # the model with, and none of the training's may be lost.
        first, skip = divmod(start_step or 0, num_batches)
        yield from map(make_batch, batches(first)[skip:])
        for epoch in itertools.count(first + 1):
            yield from map(make_batch, batches(epoch))

    dataset = tf.data.Dataset.from_generator(
        one_epoch if start_step is None else without_end,
        output_signature=specs,
    )
    dataset = dataset.apply(
        tf.data.experimental.assert_cardinality(
            num_batches if start_step is None else tf.data.INFINITE_CARDINALITY
        )
    )
    dataset = dataset.prefetch(_PREFETCHED)
    # Nothing here has a parallelism to tune, and the thread that would tune it
    # held up the end of an epoch by 4 to 5 seconds, about one time in five.
    tuning_off = tf.data.Options()
    tuning_off.autotune.enabled = False
    return dataset.with_options(tuning_off)
