"""F1 of entities, as a Keras metric."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from kbert.losses.token_classification import check_token_classification
from kbert.losses.weighted_mean import labels_and_weights
from kbert.metrics.entity_rules import OUTSIDE, Rules, make_rules
from kbert.metrics.weighted_mean import SumMetric


@keras.saving.register_keras_serializable(package="kbert")
class EntityF1(SumMetric):
    """F1 of whole entities over an epoch, with seqeval's numbers.

    Counts what `entity_scores` counts, on the model's own numbers and in the
    graph: see there for the modes. Give it to `compile(weighted_metrics=…)`:
    Keras keeps the weights from what is in `metrics=…`. An entity that is
    cut in two rows counts as two.

    Args:
        label_names: list of C tags, such as `["O", "B-PER", "I-PER"]`; the
            head's `label_names`.
        mode: "default" or "strict".
        scheme: of "strict", see `entity_scores`.
        average: "micro" over all entities; "macro", the mean of the types
            that occur; or "weighted", their mean by true entities.
        name: of the metric.

    Call arguments:
        y_true: int (B, S), classes in [0, C). Another label makes the result
            NaN, unless its weight is 0.
        y_pred: float (B, S, C), logits.
        sample_weight: (B, S), 1 for a token that has a label, 0 for what is
            left out, so that its neighbours are each other's: padding,
            special tokens, further pieces of a word. Other weights count as
            1. Without it every position is a token.

    Returns:
        float32 scalar over all batches since the last reset; 0 without an
        entity.

    Raises:
        ValueError: if the shapes do not fit, a name is no tag of the scheme,
            or mode, scheme or average are not known.

    Example:
        >>> import numpy as np, kbert
        >>> f1 = kbert.metrics.EntityF1(["O", "B-PER", "I-PER"])
        >>> logits = np.eye(3)[[[1, 2, 0, 1]]]
        >>> float(f1([[1, 2, 0, 0]], logits, sample_weight=[[1, 1, 1, 0]]))
        1.0

    References:
        seqeval 1.2.2, `f1_score`
    """

    def __init__(
        self,
        label_names: Sequence[str],
        mode: str = "default",
        scheme: str | None = None,
        average: str = "micro",
        name: str = "entity_f1",
    ) -> None:
        """See the class."""
        rules = make_rules(mode, scheme)
        _check_names(label_names, rules, mode)
        if average not in ("micro", "macro", "weighted"):
            raise ValueError(
                '`average` must be "micro", "macro" or "weighted". Received: '
                f"average={average!r}"
            )
        types = [rules.parse(label).type for label in label_names]
        # By type: right, predicted and true entities.
        super().__init__((3, len(set(types))), name=name)
        self._direction = "up"
        self.label_names = list(label_names)
        self.mode = mode
        self.scheme = scheme
        self.average = average
        # Class C is what stands before and after a text: outside.
        self._type_ids = [sorted(set(types)).index(type_) for type_ in types]
        tags = [*label_names, OUTSIDE]
        self._steps = [
            [int(flag) for flag in rules.step(left, right)]
            for left in tags
            for right in tags
        ]

    def update_state(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> None:
        """Add a batch."""
        labels, weights = labels_and_weights(y_true, y_pred, sample_weight)
        logits = ops.convert_to_tensor(y_pred)
        num_classes = len(self.label_names)
        check_token_classification(labels, logits, num_classes)
        kept = weights != 0
        valid = ops.logical_and(labels >= 0, labels < num_classes)
        valid = ops.all(ops.logical_or(valid, ops.logical_not(kept)))
        labels = ops.clip(ops.cast(labels, "int32"), 0, num_classes - 1)
        true = self._entities(labels, kept)
        predicted = ops.cast(ops.argmax(logits, axis=-1), "int32")
        said = self._entities(predicted, kept)
        same = ops.logical_and(true[0], said[0])
        for ours, theirs in zip(true[1:], said[1:], strict=True):
            same = ops.logical_and(same, ours == theirs)
        counts = ops.stack(
            [
                self._count(same, true[1]),
                self._count(said[0], said[1]),
                self._count(true[0], true[1]),
            ]
        )
        self.add(ops.where(valid, counts, float("nan")))

    def _entities(self, classes: Any, kept: Any) -> tuple[Any, Any, Any]:
        """Return where an entity ends, its type and where it began.

        Each (B, S + 1): an entity ends at the position after its last token.
        """
        outside = len(self.label_names)
        positions = ops.arange(ops.shape(classes)[1], dtype="int32")
        # What is kept moves to the front, in its order.
        order = ops.argsort(
            ops.where(kept, positions, positions + ops.shape(classes)[1])
        )
        classes = ops.where(kept, classes, outside)
        classes = ops.take_along_axis(classes, order, axis=1)
        classes = ops.pad(classes, ((0, 0), (1, 1)), constant_values=outside)
        left, right = classes[:, :-1], classes[:, 1:]
        steps = ops.convert_to_tensor(self._steps, dtype="int32")
        steps = ops.take(steps, left * (outside + 1) + right, axis=0)
        starts, breaks, ends = (steps[..., i] for i in range(3))
        begins = _last_begins(starts, breaks)
        positions = ops.arange(ops.shape(left)[1], dtype="int32")
        ends = ops.logical_and(ends == 1, begins < positions)
        # Nothing ends after "outside": its type is never read.
        types = ops.convert_to_tensor([*self._type_ids, 0], dtype="int32")
        return ends, ops.take(types, left, axis=0), begins

    def _count(self, ends: Any, types: Any) -> Any:
        """Count entities by type, float32."""
        ids = ops.arange(self.sums.shape[1], dtype="int32")
        hit = ops.logical_and(
            ops.expand_dims(ends, -1), ops.expand_dims(types, -1) == ids
        )
        return ops.sum(ops.cast(hit, "float32"), axis=(0, 1))

    def result(self) -> Any:
        """Return F1, a float32 scalar; 0 without an entity."""
        counts = self.totals()
        if self.average == "micro":
            counts = ops.sum(counts, axis=1, keepdims=True)
        right, said, true = counts[0], counts[1], counts[2]
        f1 = ops.divide_no_nan(2.0 * right, said + true)
        if self.average == "weighted":
            weights = true
        else:
            weights = ops.cast(said + true != 0, "float32")
        return ops.divide_no_nan(ops.sum(weights * f1), ops.sum(weights))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            "label_names": self.label_names,
            "mode": self.mode,
            "scheme": self.scheme,
            "average": self.average,
            "name": self.name,
        }


def _last_begins(starts: Any, breaks: Any) -> Any:
    """Return the first start at or after the last break before each position.

    Args:
        starts: int (B, T), 0 or 1.
        breaks: int (B, T), 0 or 1.

    Returns:
        int (B, T); the position itself or a later one, where an entity has
        not begun.
    """
    length = ops.shape(starts)[1]
    positions = ops.arange(length, dtype="int32")

    def before(flags: Any) -> Any:
        return ops.cumsum(flags, axis=1) - flags

    def nth(flags: Any, index: Any) -> Any:
        """Return where the flag number `index` is."""
        where = ops.sort(ops.where(flags == 1, positions, length), axis=1)
        return ops.take_along_axis(
            where, ops.clip(index, 0, length - 1), axis=1
        )

    last = ops.minimum(nth(breaks, before(breaks) - 1), length - 1)
    return nth(starts, ops.take_along_axis(before(starts), last, axis=1))


def _check_names(names: Sequence[str], rules: Rules, mode: str) -> None:
    """Refuse what is no list of tags that a text's end separates."""
    if isinstance(names, str) or len(names) == 0:
        raise ValueError(
            "`label_names` must be a list of tags. Received: "
            f"label_names={names!r}"
        )
    tags = [rules.parse(name) for name in names]
    outside = {"_", *(tag.type for tag in tags if tag.prefix == OUTSIDE)}
    for name, tag in zip(names, tags, strict=True):
        odd = mode == "default" and tag.prefix not in "OBIES"
        if odd and (tag.prefix == "." or tag.type in outside):
            raise ValueError(
                "A tag after which an entity would begin in the text before "
                "is no tag of EntityF1; `entity_scores` counts it as seqeval "
                f"does. Received: label_names={list(names)!r}, with {name!r}"
            )
