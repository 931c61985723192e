"""Data sets of questions and the spans of text that answer them."""

import logging
from collections.abc import Sequence

import numpy as np

from kbert.data.answer_spans import answer_spans, context_ranges
from kbert.data.batching import ArraySpec, Batch, BatchOptions, make_dataset
from kbert.data.classification import InputBatches, check_max_length
from kbert.data.encoding import EncodedTexts, flatten
from kbert.data.question_windows import (
    check_lengths,
    cut_questions,
    encode_questions,
)
from kbert.data.span_example import SpanExample
from kbert.data.texts import as_list, check_texts, short_repr
from kbert.data.tokenizer import Tokenizer

_LOGGER = logging.getLogger("kbert")

# Questions encoded at once: the Encoding objects are some kilobytes each.
_CHUNK = 1024


def span_dataset(
    examples: Sequence[SpanExample],
    *,
    tokenizer: Tokenizer,
    batch_size: int,
    max_length: int = 384,
    overlap: int = 128,
    max_question_length: int = 64,
    keep_answer_free_windows: bool = True,
    shuffle: bool = False,
    seed: int = 0,
    pad_to: str = "bucket",
    drop_remainder: bool = False,
):
    """Turn questions and their contexts into batches to train a span model.

    A context too long for one window is split into several, each an example
    of its own with the question in front. Texts are tokenised once, here;
    batches are padded as they are asked for.

    Args:
        examples: N questions, as `read_squad` returns. The first answer of
            each is the one trained on.
        tokenizer: the model's tokenizer.
        batch_size: windows in a batch.
        max_length: most tokens in a window, specials included.
        overlap: tokens of the context that neighbouring windows share, and
            half the room that a question leaves where it leaves no more.
            transformers calls this number `stride`; run_squad.py's
            `doc_stride` is the step, the room for the context less this.
        max_question_length: most tokens of a question; of longer ones the
            first tokens stay, and a log line says of how many.
        keep_answer_free_windows: whether windows without the answer of a
            question that has one are trained on, to give no answer, as the
            original does. Where contexts are many windows long they are the
            most by far, and the model may learn to give no answer: then
            pass False. Windows of questions without answer are always kept.
        shuffle: whether every epoch has another order.
        seed: of the order.
        pad_to: "bucket" groups windows of like length and pads a batch to
            one of a few lengths, "batch" pads to the longest in the batch,
            "max" to `max_length`.
        drop_remainder: whether to leave out a last batch that is not full.

    Returns:
        A `tf.data.Dataset` of (x, y, sample_weight). x is a dict of int32
        (B, S): `token_ids`, `padding_mask` (1 = real token) and, for families
        with segments, `segment_ids`. y is a dict of int32 (B,): `start` and
        `end`, the positions of the answer's first and last token, both 0
        where the window does not hold the whole answer. An answer that begins
        or ends inside a token takes all of it. `sample_weight` is a dict of
        float32 (B, S) under the same keys: 1 at the context's tokens and at
        position 0, 0 at the question and at padding, which `SpanLoss` then
        leaves out. With `shuffle=False` and `pad_to="max"` the order of the
        examples is kept.

    Raises:
        TypeError: if an example is no `SpanExample`, or a value has the
            wrong type.
        ValueError: if there is no window, or a value is out of range.

    Example:
        >>> import kbert
        >>> tokenizer = kbert.Tokenizer.from_vocab(
        ...     "[PAD] [UNK] [CLS] [SEP] [MASK] who came ? ann late .".split())
        >>> example = kbert.data.SpanExample(
        ...     id="1", question="Who came?", context="Ann came late.",
        ...     answers=["Ann"], answer_starts=[0])
        >>> dataset = kbert.data.span_dataset(
        ...     [example], tokenizer=tokenizer, batch_size=1)
        >>> x, y, sample_weight = next(iter(dataset))
        >>> x["token_ids"].numpy().tolist()
        [[2, 5, 6, 7, 3, 8, 6, 9, 10, 3, 0, 0, 0, 0, 0, 0]]
        >>> int(y["start"][0]), int(y["end"][0])
        (5, 5)

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 4.2
        and 4.3; `convert_examples_to_features` in google-research/bert
        `run_squad.py`
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
    check_lengths(
        tokenizer.num_special_tokens(pair=True),
        max_length,
        overlap,
        max_question_length,
    )
    rows, spans, contexts = _encode(
        _check_examples(examples),
        tokenizer,
        max_length=max_length,
        overlap=overlap,
        max_question_length=max_question_length,
        keep_answer_free_windows=keep_answer_free_windows,
    )
    make_inputs = InputBatches(rows, tokenizer)

    def make_batch(batch: Batch) -> tuple[dict, dict, dict]:
        start, end = spans[:, batch.indices]
        first, stop = contexts[:, batch.indices, None]
        place = np.arange(batch.length)
        weight = (place == 0) | (first <= place) & (place < stop)
        weight = weight.astype("float32")
        return (
            make_inputs(batch),
            {"start": start, "end": end},
            {"start": weight, "end": weight},
        )

    position = ArraySpec(("B",), "int32")
    weight = ArraySpec(("B", "S"), "float32")
    signature = (
        make_inputs.signature,
        {"start": position, "end": position},
        {"start": weight, "end": weight},
    )
    return make_dataset(rows.lengths, make_batch, signature, options)


def _check_examples(examples: Sequence[SpanExample]) -> list[SpanExample]:
    items = as_list(examples, "examples")
    for index, item in enumerate(items):
        if not isinstance(item, SpanExample):
            raise TypeError(
                "Every example must be a `kbert.data.SpanExample`. Received: "
                f"examples[{index}]={short_repr(item)}"
            )
    return items


def _encode(
    examples: list[SpanExample],
    tokenizer: Tokenizer,
    *,
    max_length: int,
    overlap: int,
    max_question_length: int,
    keep_answer_free_windows: bool,
) -> tuple[EncodedTexts, np.ndarray, np.ndarray]:
    """Return W windows, `answer_spans` and `context_ranges` of them."""
    questions, _ = cut_questions(
        tokenizer,
        check_texts([e.question for e in examples], "questions"),
        max_question_length,
    )
    parts = [flatten([])]
    spans = [np.zeros((2, 0), np.int32)]
    contexts = [np.zeros((2, 0), np.int32)]
    num_lost = 0
    for first in range(0, len(examples), _CHUNK):
        chunk = examples[first : first + _CHUNK]
        windows = encode_questions(
            tokenizer,
            questions[first : first + _CHUNK],
            [example.context for example in chunk],
            max_length=max_length,
            overlap=overlap,
            max_question_length=max_question_length,
        )
        ranges = context_ranges(windows)
        found = answer_spans(chunk, windows, ranges)
        holds_answer = found[0] > 0
        has_answer = np.array([not e.is_impossible for e in chunk])
        num_lost += int(has_answer.sum())
        num_lost -= len(np.unique(windows.texts[holds_answer]))
        chosen = np.flatnonzero(
            keep_answer_free_windows | holds_answer | ~has_answer[windows.texts]
        )
        parts.append(flatten([windows.encodings[i] for i in chosen]))
        spans.append(found[:, chosen])
        contexts.append(ranges[:, chosen])
    if num_lost:
        _LOGGER.warning(
            "%d of %d questions have an answer that is whole in no window.",
            num_lost,
            len(examples),
        )
    rows = EncodedTexts(
        ids=np.concatenate([part.ids for part in parts]),
        type_ids=np.concatenate([part.type_ids for part in parts]),
        lengths=np.concatenate([part.lengths for part in parts]),
        num_truncated=0,
    )
    return rows, np.concatenate(spans, 1), np.concatenate(contexts, 1)
