"""Losses of a student whose labels are a teacher's outputs."""

import math
from typing import Any

import keras
from keras import ops

from kbert.losses.weighted_mean import (
    WeightedMeanLoss,
    check_shapes,
    labels_and_weights,
)

HIDDEN_STATE_KINDS = ("cosine", "mean_squared")
# Finite in float32, and equal in teacher and student: 0 · 0, never NaN.
_MASKED_SCORE = -1e30


@keras.saving.register_keras_serializable(package="kbert")
class DistillationLoss(WeightedMeanLoss):
    """Soft labels: T² · KL(teacher ‖ student) of softened softmaxes.

    Both are softened by the temperature T, and T² keeps the gradients as
    large as those of hard labels whatever T is. Computed from log-softmaxes
    in float32. The mean is Σ weight · loss / Σ weight over all replicas: see
    `MaskedLMLoss`. Logits that mean something else than one class of several
    (several labels, a regression) are for `HiddenStateLoss("mean_squared")`.

    Args:
        temperature: T, above 0; higher ones show more of what the teacher
            thinks of the wrong classes.
        name: of the loss.

    Call arguments:
        y_true: float (…, C), the teacher's logits of C > 1 classes: (B, C) of
            texts, (B, S, C) of tokens, (B, P, V) of masked tokens, (B, S) of
            the positions of a span.
        y_pred: float, the student's logits, in the same shape.
        sample_weight: float (…), 0 for padding. Without it everything counts.

    Returns:
        float32 scalar; 0 where all weights are 0.

    Raises:
        ValueError: if the shapes do not fit, there is one class only, or the
            temperature is not above 0.

    Example:
        >>> import kbert
        >>> loss = kbert.losses.DistillationLoss(temperature=1.0)
        >>> round(float(loss([[2.0, 1.0, 0.0]], [[0.0, 1.0, 3.0]])), 4)
        1.8226

    References:
        Hinton et al., 2015, https://arxiv.org/abs/1503.02531, section 2
    """

    num_label_axes = 1

    def __init__(
        self, temperature: float = 2.0, name: str = "distillation_loss"
    ) -> None:
        """See the class."""
        super().__init__(name=name)
        if not 0 < temperature < math.inf:
            raise ValueError(
                "`temperature` must be a number above 0. "
                f"Received: temperature={temperature!r}"
            )
        self.temperature = temperature

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return T² · KL of each pair of rows, float32 (…)."""
        check_shapes(y_true, y_pred, "Expected logits of one shape, (…, C)")
        if y_true.shape[-1] == 1:
            raise ValueError(
                "The softmax over one class is always 1: there is nothing to "
                f"learn. Received: logits of shape {tuple(y_true.shape)}"
            )
        value = _divergence(
            y_true / self.temperature, y_pred / self.temperature
        )
        return self.temperature**2 * value

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "temperature": self.temperature}


@keras.saving.register_keras_serializable(package="kbert")
class HiddenStateLoss(WeightedMeanLoss):
    """Distance of the student's vectors from the teacher's.

    For hidden states, sentence vectors, and logits of any meaning. The mean is
    Σ weight · loss / Σ weight over all replicas: see `MaskedLMLoss`.

    Args:
        kind: "cosine" for 1 - cos, as DistilBERT has it, or "mean_squared"
            for the mean square over the components.
        name: of the loss.

    Call arguments:
        y_true: float (…, H), the teacher's vectors.
        y_pred: float (…, H), the student's. Those of another size need a
            projection first: `Distiller` learns one.
        sample_weight: float (…), 0 for padding. Without it everything counts.

    Returns:
        float32 scalar; 0 where all weights are 0.

    Raises:
        ValueError: if the shapes do not fit or `kind` is unknown.

    Example:
        >>> import kbert
        >>> loss = kbert.losses.HiddenStateLoss("cosine")
        >>> padding_mask = [[1, 1, 0]]
        >>> teacher = [[[1.0, 0.0], [0.0, 2.0], [5.0, 5.0]]]
        >>> student = [[[3.0, 0.0], [4.0, 0.0], [0.0, -1.0]]]
        >>> float(loss(teacher, student, padding_mask))
        0.5

    References:
        Sanh et al., 2019, https://arxiv.org/abs/1910.01108, section 3;
        Jiao et al., 2019, https://arxiv.org/abs/1909.10351, equation 8;
        Reimers & Gurevych, 2020, https://arxiv.org/abs/2004.09813, section 2
    """

    num_label_axes = 1

    def __init__(
        self, kind: str = "cosine", name: str = "hidden_state_loss"
    ) -> None:
        """See the class."""
        super().__init__(name=name)
        if kind not in HIDDEN_STATE_KINDS:
            raise ValueError(
                f"`kind` must be one of {HIDDEN_STATE_KINDS}. "
                f"Received: kind={kind!r}"
            )
        self.kind = kind

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return the distance of each pair of vectors, float32 (…)."""
        check_shapes(y_true, y_pred, "Expected vectors of one shape, (…, H)")
        if self.kind == "mean_squared":
            return ops.mean(ops.square(y_true - y_pred), axis=-1)
        return 1.0 - ops.sum(_unit(y_true) * _unit(y_pred), axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "kind": self.kind}


@keras.saving.register_keras_serializable(package="kbert")
class RelationLoss(WeightedMeanLoss):
    """MiniLM's self-attention relations: KL of how tokens look at each other.

    Queries, keys or values are cut into relation heads; the scaled products
    of all pairs of tokens go through a softmax, and the teacher's is the
    student's label. Neither the sizes nor the numbers of heads of teacher and
    student need to agree. `Distiller` takes the mean over the queries', the
    keys' and the values' relations.

    Args:
        num_relation_heads: int, how many relation heads, which divides both
            sizes. The paper has 48 for a size of 768.
        name: of the loss.

    Call arguments:
        y_true: float (B, S, H), the teacher's queries, keys or values of all
            its heads, side by side.
        y_pred: float (B, S, G), the student's.
        sample_weight: (B, S), 1 for a real token and 0 for padding, which is
            neither looked at nor counted. Without it everything counts.

    Returns:
        float32 scalar; 0 where all weights are 0.

    Raises:
        ValueError: if the shapes do not fit or a size is no multiple of
            `num_relation_heads`.

    Example:
        >>> import numpy as np, kbert
        >>> loss = kbert.losses.RelationLoss(num_relation_heads=2)
        >>> values = np.random.default_rng(0).normal(size=(1, 5, 8))
        >>> float(loss(values, values))
        0.0

    References:
        Wang et al., 2020, https://arxiv.org/abs/2012.15828 (MiniLMv2),
        section 3
    """

    num_label_axes = 2

    def __init__(
        self, num_relation_heads: int = 12, name: str = "relation_loss"
    ) -> None:
        """See the class."""
        super().__init__(name=name)
        if num_relation_heads < 1:
            raise ValueError(
                "`num_relation_heads` must be at least 1. Received: "
                f"num_relation_heads={num_relation_heads!r}"
            )
        self.num_relation_heads = num_relation_heads

    def __call__(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> Any:
        """Return the weighted mean, a float32 scalar; 0 if nothing counts."""
        y_true, weights = labels_and_weights(
            y_true, y_pred, sample_weight, num_label_axes=1
        )
        real = ops.cast(weights > 0, "bool")
        return super().__call__(
            self._scores(y_true, real), self._scores(y_pred, real), weights
        )

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return the mean KL over heads of each token, float32 (B, S)."""
        return ops.mean(_divergence(y_true, y_pred), axis=-1)

    def _scores(self, x: Any, real: Any) -> Any:
        """Masked products of vectors (B, S, H): float32 (B, S, heads, S)."""
        x = ops.convert_to_tensor(x, dtype="float32")
        if len(x.shape) != 3 or x.shape[-1] % self.num_relation_heads:
            raise ValueError(
                "Expected vectors (B, S, H) where H is a multiple of "
                f"num_relation_heads={self.num_relation_heads}. Received: "
                f"shape {tuple(x.shape)}"
            )
        head_size = x.shape[-1] // self.num_relation_heads
        batch, length = ops.shape(x)[:2]
        x = ops.reshape(x, (batch, length, self.num_relation_heads, head_size))
        scores = ops.einsum("bsrd,btrd->bsrt", x, x) / math.sqrt(head_size)
        return ops.where(real[:, None, None, :], scores, _MASKED_SCORE)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "num_relation_heads": self.num_relation_heads,
        }


def _divergence(teacher: Any, student: Any) -> Any:
    """KL(teacher ‖ student) of logits, over the last axis."""
    teacher = ops.log_softmax(teacher, axis=-1)
    student = ops.log_softmax(student, axis=-1)
    return ops.sum(ops.exp(teacher) * (teacher - student), axis=-1)


def _unit(x: Any) -> Any:
    """`x` at length 1; a vector of zeros stays, with a finite gradient."""
    square = ops.sum(ops.square(x), axis=-1, keepdims=True)
    return x * ops.rsqrt(ops.maximum(square, 1e-24))
