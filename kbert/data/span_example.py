"""A question with its context and answers."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SpanExample:
    """A question, the text that may answer it, and the answers people gave.

    Args:
        id: differs from those of all other questions.
        question: the question.
        context: the text to answer it from.
        title: of the article that the context is from.
        answers: texts of the answers, pieces of the context. None of them
            means that the context does not answer the question.
        answer_starts: where in the context each answer starts, counted in
            characters (code points).

    Raises:
        ValueError: if an answer is blank or does not stand where its start
            says, or the two differ in number.

    Example:
        >>> import kbert
        >>> example = kbert.data.SpanExample(
        ...     id="1", question="Who came?", context="Ann came late.",
        ...     answers=("Ann",), answer_starts=(0,))
        >>> example.is_impossible
        False
    """

    id: str
    question: str
    context: str
    title: str = ""
    answers: Sequence[str] = ()
    answer_starts: Sequence[int] = ()

    def __post_init__(self) -> None:
        """Check every answer."""
        if len(self.answers) != len(self.answer_starts):
            raise ValueError(
                "Every answer needs a start. Received: "
                f"id={self.id!r}, answers={self.answers!r}, "
                f"answer_starts={self.answer_starts!r}"
            )
        for answer, start in zip(self.answers, self.answer_starts, strict=True):
            if not stands_at(self.context, answer, start):
                raise ValueError(
                    "An answer must stand in the context where its start "
                    f"says. Received: id={self.id!r}, answer={answer!r}, "
                    f"start={start!r}"
                )

    @property
    def is_impossible(self) -> bool:
        """Whether the context does not answer the question."""
        return not self.answers


def stands_at(context: str, answer: str, start: int) -> bool:
    """Say whether an answer is not blank and stands where its start says.

    Args:
        context: the text.
        answer: a piece of it.
        start: number of a character.
    """
    return (
        start >= 0
        and bool(answer.strip())
        and context.startswith(answer, start)
    )
