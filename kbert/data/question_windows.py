"""Questions and their contexts, as the windows that a span model reads."""

import logging
from collections.abc import Sequence

import numpy as np
import tokenizers

from kbert.data.texts import Texts, check_texts, pair_up
from kbert.data.tokenizer import Tokenizer
from kbert.data.windows import Windows, split_windows

_LOGGER = logging.getLogger("kbert")


def encode_questions(
    tokenizer: Tokenizer,
    questions: Texts,
    contexts: Texts,
    *,
    max_length: int = 384,
    overlap: int = 128,
    max_question_length: int = 64,
) -> Windows:
    """Encode each question with its context, in windows where that is long.

    A window is the question, then a stretch of the context, with the
    family's special tokens; the context is text 1 of `sequence_ids`. Every
    token of the context is in one window or more, and a question has one
    window at least, however short its context.

    Args:
        tokenizer: the model's tokenizer.
        questions: N strings. Of one with more than `max_question_length`
            tokens the first ones stay, and a log line says of how many.
        contexts: N strings.
        max_length: most tokens in a window, specials included.
        overlap: tokens of the context that neighbouring windows share. Where
            a question leaves no more room than that, half the room it leaves.
        max_question_length: most tokens of a question.

    Returns:
        The windows; `texts` are numbers of questions.

    Raises:
        TypeError: if a text is no string, or a number no integer.
        ValueError: if `questions` and `contexts` differ in number, or the
            three lengths do not go together.

    References:
        `convert_examples_to_features` in google-research/bert
        `run_squad.py`, whose `doc_stride` is the step from one window to the
        next: the room for the context less this overlap.
    """
    num_special = tokenizer.num_special_tokens(pair=True)
    check_lengths(num_special, max_length, overlap, max_question_length)
    questions = check_texts(questions, "questions")
    contexts = check_texts(contexts, "contexts")
    pair_up(questions, contexts)
    questions, sizes = cut_questions(tokenizer, questions, max_question_length)
    rooms = max_length - num_special - sizes
    overlaps = np.where(rooms > overlap, overlap, rooms // 2)
    encodings: list[tokenizers.Encoding] = []
    texts = [np.zeros(0, np.int64)]
    is_best: list[np.ndarray] = []
    # The Rust side takes one overlap at a time; nearly always there is one.
    for value in np.unique(overlaps).tolist():
        chosen = np.flatnonzero(overlaps == value)
        windows = split_windows(
            tokenizer.encode_batch(
                [questions[i] for i in chosen],
                [contexts[i] for i in chosen],
                max_length=max_length,
                truncation="only_second",
                overlap=value,
            ),
            value,
            sequence=1,
        )
        encodings += windows.encodings
        texts.append(chosen[windows.texts])
        is_best += windows.is_best
    numbers = np.concatenate(texts)
    order = np.argsort(numbers, kind="stable")
    return Windows(
        [encodings[i] for i in order],
        numbers[order],
        [is_best[i] for i in order],
    )


def check_lengths(
    num_special: int, max_length: int, overlap: int, max_question_length: int
) -> None:
    """Check the three lengths of `encode_questions` against each other.

    Args:
        num_special: special tokens of a pair.
        max_length: see `encode_questions`.
        overlap: likewise.
        max_question_length: likewise.

    Raises:
        TypeError: if one is no integer.
        ValueError: if they do not go together.
    """
    received = (
        f"Received: max_length={max_length!r}, overlap={overlap!r}, "
        f"max_question_length={max_question_length!r}"
    )
    if any(
        isinstance(number, bool) or not isinstance(number, (int, np.integer))
        for number in (max_length, overlap, max_question_length)
    ):
        raise TypeError(f"The lengths must be integers. {received}")
    room = max_length - num_special
    if not 1 <= max_question_length < room:
        raise ValueError(
            "`max_question_length` must be at least 1 and leave room for the "
            f"context in the {room} tokens of text of a window. {received}"
        )
    if not 0 <= overlap < room:
        raise ValueError(
            f"`overlap` must be at least 0 and less than the {room} tokens of "
            f"text of a window. {received}"
        )


def cut_questions(
    tokenizer: Tokenizer, questions: list[str], max_question_length: int
) -> tuple[list[str], np.ndarray]:
    """Cut questions that have too many tokens, and say once how many.

    Args:
        tokenizer: the model's tokenizer.
        questions: N strings.
        max_question_length: most tokens.

    Returns:
        N strings, and int64 (N,), the tokens of each.
    """

    def encode(texts: Sequence[str]) -> list[tokenizers.Encoding]:
        return tokenizer.encode_batch(texts, add_special_tokens=False)

    encoded = encode(questions)
    sizes = np.array([len(e.ids) for e in encoded], np.int64)
    too_long = np.flatnonzero(sizes > max_question_length)
    questions = list(questions)
    for index in too_long.tolist():
        whole, ends = questions[index], encoded[index].offsets
        # The start of a text has the text's first tokens, nearly always:
        # byte pairs can join otherwise where a word is cut.
        for keep in range(max_question_length, -1, -1):
            questions[index] = whole[: ends[keep - 1][1]] if keep else ""
            sizes[index] = len(encode([questions[index]])[0].ids)
            if sizes[index] <= max_question_length:
                break
    if len(too_long):
        _LOGGER.warning(
            "%d of %d questions have more than max_question_length=%d tokens "
            "and were cut.",
            len(too_long),
            len(questions),
            max_question_length,
        )
    return questions, sizes
