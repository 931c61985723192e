"""Data sets of texts that belong together, for sentence encoders."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kbert.data.batching import ArraySpec, Batch, BatchOptions, make_dataset
from kbert.data.classification import (
    InputBatches,
    check_max_length,
    report_truncated,
    target_arrays,
    weight_array,
)
from kbert.data.texts import Texts, as_list, check_texts, short_repr
from kbert.data.tokenizer import EncodedTexts, Tokenizer

# The number of a text that a row does not have.
_NONE = -1


def sentence_pair_dataset(
    anchors: Sequence[str],
    positives: Sequence[str],
    scores: Sequence[float] | np.ndarray | None = None,
    *,
    tokenizer: Tokenizer,
    batch_size: int,
    max_length: int,
    negatives: Sequence[str] | Sequence[Sequence[str]] | None = None,
    sample_weight: Sequence[float] | np.ndarray | None = None,
    shuffle: bool = False,
    seed: int = 0,
    pad_to: str = "bucket",
    drop_remainder: bool = False,
):
    """Turn pairs or triplets of texts into batches for `build_pair_encoder`.

    A row is an anchor, its positive, and its hard negatives: K texts, as many
    as the row with the most has. Every text is tokenised once, here, however
    many rows it is in; batches are padded as they are asked for.

    Args:
        anchors: N strings, such as questions.
        positives: N strings that belong to them, such as answers. With
            `scores` the second texts, alike or not.
        scores: N floats from -1 to 1, how much alike the two texts are, for
            `CosineSimilarityLoss` and `CoSENTLoss`: divide scores of 0 to 5
            by 5. None for pairs that belong together.
        tokenizer: the tokenizer of the model's checkpoint.
        batch_size: B, rows in a batch.
        max_length: most tokens in a text, [CLS] and [SEP] included; longer
            ones are truncated, and how many is logged once.
        negatives: texts that sound like the anchors' positives and are none:
            N strings, or N lists of any number of strings.
        sample_weight: N weights for the loss.
        shuffle: whether each epoch has another order. The same seed gives
            the same epochs.
        seed: of the order.
        pad_to: "bucket" (default) groups rows whose longest texts are of
            like length and pads each batch to one of a few lengths. "batch"
            pads to the longest text of the batch and "max" to `max_length`;
            both keep the order. All texts of a batch have one length.
        drop_remainder: whether to leave out a last batch that is not full.
            With "max" all shapes are then static.

    Returns:
        A `tf.data.Dataset` of `(x, y)`, or `(x, y, sample_weight)` where
        weights are given. `x` is a dict of int32 (B, K, S): `token_ids`,
        `segment_ids` (absent where the tokenizer's family has none),
        `padding_mask`, which is 0 in all of a negative that a row lacks. `y`
        is float32 (B,), the scores; without them int32 (B, K), numbers that
        are equal for equal texts, by which a loss knows what is no negative,
        and -1 for a negative that a row lacks.

    Raises:
        TypeError: if a text is no string or an option has the wrong type.
        ValueError: if lengths differ, there is no row, a score is out of
            range, there are scores and negatives, or `max_length` is over
            what the tokenizer's model takes.

    Example:
        >>> import kbert
        >>> tokenizer = kbert.Tokenizer.from_vocab(
        ...     ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"])
        >>> dataset = kbert.data.sentence_pair_dataset(
        ...     ["good", "bad"], ["good good", "bad bad"],
        ...     negatives=["bad", "good"],
        ...     tokenizer=tokenizer, batch_size=2, max_length=4)
        >>> x, y = next(iter(dataset))
        >>> x["token_ids"].numpy()[0].tolist()
        [[2, 5, 3, 0], [2, 5, 5, 3], [2, 6, 3, 0]]
        >>> y.numpy().tolist()
        [[0, 1, 2], [2, 3, 0]]

    References:
        Reimers & Gurevych, 2019, https://arxiv.org/abs/1908.10084
    """
    options = BatchOptions(
        batch_size=batch_size,
        max_length=max_length,
        shuffle=shuffle,
        seed=seed,
        pad_to=pad_to,
        drop_remainder=drop_remainder,
    )
    check_max_length(tokenizer, max_length)
    numbers, texts = _number_rows(anchors, positives, negatives)
    targets = [numbers]
    if scores is not None:
        if negatives is not None:
            raise ValueError(
                "Scored pairs have no negatives. Received: scores and negatives"
            )
        targets = [_score_array(scores, len(numbers))]
    if sample_weight is not None:
        targets.append(weight_array(sample_weight, len(numbers)))
    encoded = tokenizer.encode_ids(texts, max_length=max_length)
    report_truncated(encoded, max_length)
    make_inputs = PairBatches(encoded, tokenizer, numbers)

    def make_batch(batch: Batch) -> tuple[Any, ...]:
        rows = (target[batch.indices] for target in targets)
        return (make_inputs(batch), *rows)

    signature = (
        make_inputs.signature,
        *(ArraySpec(("B", *t.shape[1:]), t.dtype.name) for t in targets),
    )
    return make_dataset(make_inputs.lengths, make_batch, signature, options)


class PairBatches:
    """Makes the inputs of a batch of rows of texts.

    Args:
        encoded: the T different texts.
        tokenizer: what tokenised them.
        numbers: int (N, K), the texts of each row; -1 for none.

    Attributes:
        lengths: int (N,), tokens in the longest text of each row.
        signature: of a batch.
    """

    def __init__(
        self, encoded: EncodedTexts, tokenizer: Tokenizer, numbers: np.ndarray
    ):
        """See the class."""
        self._texts = InputBatches(encoded, tokenizer)
        self._numbers = numbers
        self._fills = {"token_ids": tokenizer.pad_token_id}
        lengths = np.append(encoded.lengths, 0)  # the last for a text of -1
        self.lengths = lengths[numbers].max(axis=1, initial=0)
        self.signature = {
            name: ArraySpec(("B", numbers.shape[1], "S"), "int32")
            for name in self._texts.signature
        }

    def __call__(self, batch: Batch) -> dict[str, np.ndarray]:
        """Return int32 arrays (B, K, S)."""
        numbers = self._numbers[batch.indices]
        there = numbers != _NONE
        inputs = {}
        texts = self._texts(Batch(numbers[there], batch.length))
        for name, values in texts.items():
            shape = (*numbers.shape, batch.length)
            inputs[name] = np.full(shape, self._fills.get(name, 0), "int32")
            inputs[name][there] = values
        return inputs


def _number_rows(
    anchors: Texts, positives: Texts, negatives: Texts | None
) -> tuple[np.ndarray, list[str]]:
    """Number equal texts alike.

    Returns:
        int32 (N, K), the numbers of each row's texts, and the texts.
    """
    rows = [[text] for text in check_texts(anchors, "anchors")]
    columns = {"positives": [[x] for x in check_texts(positives, "positives")]}
    if negatives is not None:
        columns["negatives"] = [
            [item] if isinstance(item, str) else check_texts(item, name)
            for index, item in enumerate(as_list(negatives, "negatives"))
            for name in [f"negatives[{index}]"]
        ]
    for name, column in columns.items():
        if len(column) != len(rows):
            raise ValueError(
                f"`{name}` must have one entry an anchor. Received: "
                f"{len(column)} {name} for {len(rows)} anchors"
            )
        rows = [row + more for row, more in zip(rows, column, strict=True)]
    known: dict[str, int] = {}
    numbers = np.full((len(rows), max(map(len, rows), default=2)), _NONE)
    for row, texts in zip(numbers, rows, strict=True):
        row[: len(texts)] = [known.setdefault(x, len(known)) for x in texts]
    return numbers.astype("int32"), list(known)


def _score_array(scores: Any, num_rows: int) -> np.ndarray:
    """Check scores and return float32 (N,)."""
    array = target_arrays(scores, None, None, num_rows)[0].astype("float32")
    wrong = array.ndim != 1 or not (np.abs(array) <= 1).all()
    if wrong:
        raise ValueError(
            "`scores` must be numbers from -1 to 1, as a cosine is: divide "
            f"scores of 0 to 5 by 5. Received: scores={short_repr(scores)}"
        )
    return array
