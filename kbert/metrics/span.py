"""Exact match and F1 of the answers that a span model points at."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from kbert.losses.span import NEVER, check_span, span_weights
from kbert.metrics.weighted_mean import WeightedMeanMetric

OUTPUTS = ("start", "end")


class SpanMetric(WeightedMeanMetric):
    """A mean over rows, of the most likely answer beside the true one.

    Subclasses implement `compare(true, said)`.

    Args:
        max_answer_length: int, most tokens in an answer; None for any number.
        name: of the metric.
    """

    def __init__(
        self, max_answer_length: int | None = None, name: str | None = None
    ) -> None:
        """See the class."""
        super().__init__(name=name)
        if max_answer_length is not None and max_answer_length < 1:
            raise ValueError(
                "`max_answer_length` must be at least 1. Received: "
                f"max_answer_length={max_answer_length}"
            )
        self.max_answer_length = max_answer_length
        self._direction = "up"

    def update_state(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> None:
        """Add a batch."""
        if not (isinstance(y_true, Mapping) and isinstance(y_pred, Mapping)):
            raise ValueError(
                'Expected dicts of "start" and "end", which `compile` cannot '
                "give a metric; see `ValidationMetrics`. Received: labels "
                f"{type(y_true).__name__}, logits {type(y_pred).__name__}"
            )
        if not isinstance(sample_weight, Mapping):
            sample_weight = dict.fromkeys(OUTPUTS, sample_weight)
        true, logits, rows, candidates = [], [], [], []
        for name in OUTPUTS:
            labels = ops.cast(ops.convert_to_tensor(y_true[name]), "int32")
            mask = getattr(y_pred[name], "_keras_mask", None)
            scores = ops.convert_to_tensor(y_pred[name], dtype="float32")
            check_span(labels, scores)
            weights, allowed = span_weights(
                labels, scores, mask, sample_weight[name]
            )
            true.append(labels)
            logits.append(scores)
            rows.append(weights)
            candidates.append(allowed)
        said = best_span(
            logits[0],
            logits[1],
            ops.logical_and(*candidates),
            self.max_answer_length,
        )
        self.add_weighted(self.compare(true, said), ops.minimum(*rows))

    def compare(self, true: Sequence[Any], said: Sequence[Any]) -> Any:
        """Compare starts and ends, int32 (B,); return float32 (B,)."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            "max_answer_length": self.max_answer_length,
            "name": self.name,
        }


@keras.saving.register_keras_serializable(package="kbert")
class SpanExactMatch(SpanMetric):
    """Share of windows where the most likely answer is the true one.

    A true answer of 0 to 0, which says that the window has none, is matched
    by the same. The most likely answer has the largest sum of a start and an
    end logit, the end not before the start. It is a number about tokens of
    windows, to follow a training with; what is reported of a model is
    `squad_scores`, of answers as text.

    Use it in `ValidationMetrics`: `compile` gives a metric one output.

    Args:
        max_answer_length: int, most tokens in an answer; None for any number.
        name: of the metric.

    Call arguments:
        y_true: a dict of `start` and `end`, int (B,): an answer's first and
            last token.
        y_pred: a dict of `start` and `end`, float (B, S): logits.
        sample_weight: None, (B,), (B, S), or a dict of them. A (B, S) is, as
            in `SpanLoss`, 0 where no answer can be; then none runs across
            such positions either.

    Returns:
        float32 scalar over all batches since the last reset; 0 without a
        window.

    Raises:
        ValueError: if `max_answer_length` is under 1, or what is compared is
            no dict or of shapes that do not fit.

    Example:
        >>> import kbert
        >>> exact = kbert.metrics.SpanExactMatch()
        >>> logits = {"start": [[0.0, 2.0, 4.0]], "end": [[0.0, 5.0, 2.0]]}
        >>> float(exact({"start": [1], "end": [1]}, logits))
        1.0
    """

    def __init__(
        self, max_answer_length: int | None = None, name: str = "exact_match"
    ) -> None:
        """See the class."""
        super().__init__(max_answer_length, name=name)

    def compare(self, true: Sequence[Any], said: Sequence[Any]) -> Any:
        """Return 1 where both ends are right, float32 (B,)."""
        same = ops.logical_and(true[0] == said[0], true[1] == said[1])
        return ops.cast(same, "float32")


@keras.saving.register_keras_serializable(package="kbert")
class SpanF1(SpanMetric):
    """F1 of the most likely answer's tokens, mean over windows.

    F1 of the tokens that the true and the most likely answer share, by
    position; 1 where both are "no answer". Else as `SpanExactMatch`.

    Args:
        max_answer_length: int, most tokens in an answer; None for any number.
        name: of the metric.

    Call arguments:
        y_true: a dict of `start` and `end`, int (B,): an answer's first and
            last token.
        y_pred: a dict of `start` and `end`, float (B, S): logits.
        sample_weight: None, (B,), (B, S), or a dict of them: see
            `SpanExactMatch`.

    Returns:
        float32 scalar over all batches since the last reset; 0 without a
        window.

    Raises:
        ValueError: if `max_answer_length` is under 1, or what is compared is
            no dict or of shapes that do not fit.

    Example:
        >>> import kbert
        >>> f1 = kbert.metrics.SpanF1()
        >>> logits = {"start": [[0.0, 2.0, 0.0]], "end": [[0.0, 1.0, 0.0]]}
        >>> round(float(f1({"start": [1], "end": [2]}, logits)), 4)
        0.6667
    """

    def __init__(
        self, max_answer_length: int | None = None, name: str = "f1"
    ) -> None:
        """See the class."""
        super().__init__(max_answer_length, name=name)

    def compare(self, true: Sequence[Any], said: Sequence[Any]) -> Any:
        """Return F1 of the shared tokens, float32 (B,)."""
        first = ops.maximum(true[0], said[0])
        last = ops.minimum(true[1], said[1])
        shared, *sizes = (
            ops.cast(ops.maximum(end - start + 1, 0), "float32")
            for start, end in ((first, last), true, said)
        )
        return 2.0 * shared / (sizes[0] + sizes[1])


def best_span(
    starts: Any, ends: Any, candidates: Any, max_length: int | None = None
) -> tuple[Any, Any]:
    """Return first and last token of the answers with the largest logits.

    Args:
        starts: float32 (B, S), logits.
        ends: float32 (B, S), logits.
        candidates: bool (B, S), where an answer can be, from its first token
            to its last.
        max_length: most tokens in an answer; None for any number.

    Returns:
        int32 (B,), twice. Of equal sums the first, and the shortest of it.
    """
    length = ops.shape(starts)[1]
    positions = ops.arange(length, dtype="int32")
    distance = positions - ops.expand_dims(positions, -1)
    allowed = distance >= 0
    if max_length is not None:
        allowed = ops.logical_and(allowed, distance < max_length)
    # Two candidates with nothing else between them share a number.
    gaps = ops.cumsum(ops.cast(ops.logical_not(candidates), "int32"), axis=1)
    blocks = ops.where(candidates, gaps, -1)
    together = ops.expand_dims(gaps, 2) == ops.expand_dims(blocks, 1)
    together = ops.logical_and(together, ops.expand_dims(candidates, 2))
    # S × S sums are little beside one attention head's.
    sums = ops.expand_dims(starts, 2) + ops.expand_dims(ends, 1)
    sums = ops.where(ops.logical_and(together, allowed), sums, NEVER)
    best = ops.argmax(ops.reshape(sums, (-1, length * length)), axis=-1)
    best = ops.cast(best, "int32")
    return best // length, best % length
