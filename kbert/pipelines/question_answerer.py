"""Answers to questions, as parts of a text."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from kbert.data.encoding import flatten
from kbert.data.question_windows import check_lengths, encode_questions
from kbert.data.texts import check_texts, short_repr
from kbert.data.tokenizer import Tokenizer
from kbert.data.windows import Windows
from kbert.layers import SpanHead
from kbert.pipelines.answers import Span, WindowLogits, best_spans
from kbert.pipelines.prediction import (
    check_options,
    portions,
    predict,
    softmax,
)


class QuestionAnswerer:
    """Answers to questions, cut from contexts of any length.

    A context that is too long is read in windows that share tokens. All
    pairs of a first and a last token in the context compete, in the window
    that shows most of what is around the first.

    The score of an answer is its probability among the `n_best` answers, or
    among these and no answer where that is allowed: the softmax of their
    logits, start and end added up.

    Args:
        model: a model of `build_span_model` or `load_span_model`.
        tokenizer: the tokenizer it was trained with.
        null_threshold: a question has no answer if the logit of "no answer"
            is higher than the best answer's by more than this: 0.0 is the
            original's choice, and a development set tells a better one. None
            for models of questions that all have answers (SQuAD 1.1).
        n_best: how many answers compete for the scores.
        max_answer_length: most tokens of an answer.
        batch_size: windows in a batch.
        max_length: most tokens in a window: the question, a stretch of the
            context and the special tokens.
        overlap: tokens of the context that neighbouring windows share.
            Answers of up to half as many are whole in a window.
        max_question_length: most tokens of a question; longer ones are cut,
            with a log line.

    Raises:
        TypeError: if `tokenizer` is no `kbert.Tokenizer`, or a number no int.
        ValueError: if the model has no head for spans, the tokenizer is
            another model's, or an option is out of range.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_span_model(encoder)
        >>> tokenizer = kbert.Tokenizer.from_vocab(
        ...     "[PAD] [UNK] [CLS] [SEP] [MASK] who ran the dog".split())
        >>> answer = kbert.pipelines.QuestionAnswerer(model, tokenizer)
        >>> context = "The dog ran"
        >>> result = answer("Who ran?", context)
        >>> context[result["start"] : result["end"]] == result["text"]
        True
        >>> answer("Who ran?", "")["has_answer"]
        False

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, sections 4.2
        and 4.3; `write_predictions` in google-research/bert `run_squad.py`
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        *,
        null_threshold: float | None = None,
        n_best: int = 20,
        max_answer_length: int = 30,
        batch_size: int = 32,
        max_length: int = 384,
        overlap: int = 128,
        max_question_length: int = 64,
    ):
        """See the class."""
        check_options(model, tokenizer, batch_size, max_length)
        check_lengths(
            tokenizer.num_special_tokens(pair=True),
            max_length,
            overlap,
            max_question_length,
        )
        _check_head(model)
        _check_count("n_best", n_best)
        _check_count("max_answer_length", max_answer_length)
        if null_threshold is not None and not -np.inf < null_threshold < np.inf:
            raise ValueError(
                "`null_threshold` must be a finite number or None. Received: "
                f"null_threshold={null_threshold!r}"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.null_threshold = null_threshold
        self.n_best = n_best
        self.max_answer_length = max_answer_length
        self.batch_size = batch_size
        self.max_length = max_length
        self.overlap = overlap
        self.max_question_length = max_question_length

    def __call__(
        self,
        questions: str | Sequence[str],
        contexts: str | Sequence[str],
        *,
        top_k: int = 1,
    ) -> dict[str, Any] | list[dict[str, Any]]:
        """Answer one question or many.

        Args:
            questions: a string, or N strings.
            contexts: where to look: a string, which may stand for the
                context of all questions, or N strings.
            top_k: how many answers to list, at most `n_best`.

        Returns:
            For a string a dict, for N strings a list of N dicts:

            - `text`, `start`, `end`, `score`: the answer; its place in the
              context in code points, so that `context[start:end]` is `text`;
              its probability. With no answer `text` is "", the place 0 and
              the score that of "no answer".
            - `has_answer`: a bool. False where the threshold says so, and
              where the question or the context has no words.
            - `null_score_difference`: how much higher the logit of "no
              answer" is than the best answer's, a float; infinity where
              nothing can be an answer.
            - `answers`: the `top_k` best answers, or as many as there are,
              whether or not "no answer" wins: dicts of `text`, `start`,
              `end` and `score`.

        Raises:
            TypeError: if a text is no string, or `top_k` no int.
            ValueError: if questions and contexts differ in number, or
                `top_k` is out of range.
        """
        _check_count("top_k", top_k)
        if top_k > self.n_best:
            raise ValueError(
                f"`top_k` must be at most n_best={self.n_best}. Received: "
                f"top_k={top_k}"
            )
        if isinstance(questions, str):
            if not isinstance(contexts, str):
                raise TypeError(
                    "One question needs one context, a string. Received: "
                    f"contexts={short_repr(contexts)}"
                )
            return self._answer([questions], [contexts], top_k)[0]
        questions = check_texts(questions, "questions")
        if isinstance(contexts, str):
            contexts = [contexts] * len(questions)
        contexts = check_texts(contexts, "contexts")
        if len(questions) != len(contexts):
            raise ValueError(
                "Expected one context for all questions or one for each. "
                f"Received: {len(questions)} questions, {len(contexts)} "
                "contexts"
            )
        return self._answer(questions, contexts, top_k)

    def _answer(
        self, questions: list[str], contexts: list[str], top_k: int
    ) -> list[dict[str, Any]]:
        results = [self._result("", [], top_k) for _ in questions]
        readable = [
            number
            for number, texts in enumerate(
                zip(questions, contexts, strict=True)
            )
            if all(text and not text.isspace() for text in texts)
        ]
        for portion in portions([len(contexts[n]) for n in readable]):
            numbers = readable[portion]
            windows = encode_questions(
                self.tokenizer,
                [questions[number] for number in numbers],
                [contexts[number] for number in numbers],
                max_length=self.max_length,
                overlap=self.overlap,
                max_question_length=self.max_question_length,
            )
            logits = self._logits(windows)
            ends = np.searchsorted(windows.texts, np.arange(len(numbers) + 1))
            for index, number in enumerate(numbers):
                results[number] = self._result(
                    contexts[number],
                    logits[ends[index] : ends[index + 1]],
                    top_k,
                )
        return results

    def _logits(self, windows: Windows) -> list[WindowLogits]:
        """Run the model on windows, and keep what it says of contexts."""
        logits: dict[int, WindowLogits] = {}
        for indices, outputs in predict(
            self.model,
            self.tokenizer,
            flatten(windows.encodings),
            batch_size=self.batch_size,
            max_length=self.max_length,
        ):
            for index, start, end in zip(
                indices.tolist(), outputs["start"], outputs["end"], strict=True
            ):
                encoding = windows.encodings[index]
                sequence_ids = encoding.sequence_ids
                size = sequence_ids.count(1)
                begin = sequence_ids.index(1) if size else 0
                context = slice(begin, begin + size)
                logits[index] = WindowLogits(
                    start=start[context],
                    end=end[context],
                    offsets=encoding.offsets[context],
                    is_best=windows.is_best[index][context],
                    null=float(start[0]) + float(end[0]),
                )
        return [logits[index] for index in range(len(windows))]

    def _result(
        self, context: str, windows: Sequence[WindowLogits], top_k: int
    ) -> dict[str, Any]:
        """Describe the answer to one question."""
        spans = best_spans(
            context, windows, self.n_best, self.max_answer_length
        )
        if not spans:
            return {
                **_described(context, Span(0, 0, 0.0), 1.0),
                "has_answer": False,
                "null_score_difference": float("inf"),
                "answers": [],
            }
        # As the original: the window that is least sure of "no answer".
        null = min(window.null for window in windows)
        difference = null - spans[0].logit
        choices = [span.logit for span in spans]
        if self.null_threshold is not None:
            choices.append(null)
        scores = softmax(np.array(choices)).tolist()
        answers = [
            _described(context, span, score)
            for span, score in zip(spans[:top_k], scores, strict=False)
        ]
        has_answer = (
            self.null_threshold is None or difference <= self.null_threshold
        )
        best = (
            answers[0]
            if has_answer
            else _described(context, Span(0, 0, null), scores[-1])
        )
        return {
            **best,
            "has_answer": has_answer,
            "null_score_difference": difference,
            "answers": answers,
        }


def _described(context: str, span: Span, score: float) -> dict[str, Any]:
    return {
        "text": context[span.start : span.end],
        "score": score,
        "start": span.start,
        "end": span.end,
    }


def _check_head(model: keras.Model) -> None:
    if not any(isinstance(layer, SpanHead) for layer in model.layers):
        raise ValueError(
            "Expected a model of build_span_model or load_span_model. "
            f"Received: model={model!r}"
        )


def _check_count(name: str, count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)):
        raise TypeError(f"`{name}` must be an int. Received: {name}={count!r}")
    if count < 1:
        raise ValueError(
            f"`{name}` must be at least 1. Received: {name}={count}"
        )
