"""AdamW as BERT uses it: warm-up, linear decay, no decay on norms and biases.

References:
    - Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101
    - Devlin et al. 2018, https://arxiv.org/abs/1810.04805 (appendix A)
    - https://github.com/google-research/bert/blob/master/optimization.py
"""

import contextlib
import math
import numbers
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops
from keras.optimizers.schedules import LearningRateSchedule

NOT_DECAYED = ("bias", "gamma", "beta")


@keras.saving.register_keras_serializable(package="kbert")
class WarmupLinearDecay(LearningRateSchedule):
    """A learning rate that rises linearly from 0, then falls linearly.

    Step k counts the updates already made, so with a warm-up the first update
    has rate 0. google-research/bert counts so too, and
    `get_linear_schedule_with_warmup` of transformers, whose values these are.

    Args:
        peak_learning_rate: float, reached at step `warmup_steps`.
        train_steps: int, the step that reaches the end; constant afterwards.
        warmup_steps: int in [0, train_steps].
        end_learning_rate: float in [0, peak_learning_rate].

    Call arguments:
        step: integer scalar, the number of updates already made.

    Returns:
        float32 scalar.

    Example:
        >>> import kbert
        >>> rate = kbert.optimizers.WarmupLinearDecay(
        ...     1e-3, train_steps=100, warmup_steps=10)
        >>> [round(float(rate(k)), 6) for k in (0, 5, 10, 55, 100)]
        [0.0, 0.0005, 0.001, 0.0005, 0.0]
    """

    def __init__(
        self,
        peak_learning_rate: float,
        train_steps: int,
        warmup_steps: int,
        end_learning_rate: float = 0.0,
    ) -> None:
        """See the class."""
        self.peak_learning_rate = _real(
            "peak_learning_rate", peak_learning_rate
        )
        self.train_steps = _integer("train_steps", train_steps, least=1)
        self.warmup_steps = _integer(
            "warmup_steps", warmup_steps, most=self.train_steps
        )
        self.end_learning_rate = _real("end_learning_rate", end_learning_rate)
        if self.end_learning_rate > self.peak_learning_rate:
            raise ValueError(
                "`end_learning_rate` must not exceed `peak_learning_rate`. "
                f"Received: end_learning_rate={end_learning_rate}, "
                f"peak_learning_rate={peak_learning_rate}"
            )

    def __call__(self, step: Any) -> Any:
        """Return the rate of the update that follows `step` others."""
        # Subtracted as integers: float32 counts exactly only up to 2**24.
        step = ops.cast(ops.convert_to_tensor(step), "int32")
        left = ops.cast(ops.maximum(self.train_steps - step, 0), "float32")
        left = left / max(1, self.train_steps - self.warmup_steps)
        risen = ops.cast(step, "float32") / max(1, self.warmup_steps)
        return ops.where(
            step < self.warmup_steps,
            self.peak_learning_rate * risen,
            self.peak_learning_rate * left
            + self.end_learning_rate * (1.0 - left),
        )

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return dict(vars(self))


@keras.saving.register_keras_serializable(package="kbert")
class AdamW(keras.optimizers.AdamW):
    """AdamW that leaves biases and norms undecayed, after reloading too.

    Its updates are those of `torch.optim.AdamW`, which transformers trains
    with. Against `keras.optimizers.AdamW`:

    - what decays is an argument, so saving keeps it. What Keras'
      `exclude_from_weight_decay` sets is lost by `from_config` and by
      `load_model`;
    - `epsilon` joins the corrected root, as in Adam's paper. Keras adds it to
      the uncorrected root: at the first step, an epsilon 32 times as large.
      google-research/bert corrects no bias at all;
    - a schedule sees updates, not the micro-batches of an accumulation;
    - the gradients of a repeated token are summed, then squared. On TensorFlow
      Keras squares them first;
    - on TensorFlow the fused Adam kernel halves the time.

    Args:
        learning_rate: float or `LearningRateSchedule`.
        weight_decay: float, the share of the rate by which weights shrink
            before the gradient step.
        epsilon: float, see above.
        global_clipnorm: float or None, the largest norm of all gradients taken
            together. (torch divides by the norm + 1e-6, Keras by the norm.)
        exclude_from_decay: names that do not decay, each the last segment of a
            variable's path: "bias" for `attention/query/bias`.
        **kwargs: as in `keras.optimizers.AdamW`, without `amsgrad`.

    Example:
        >>> import kbert
        >>> optimizer = kbert.optimizers.AdamW(2e-5, weight_decay=0.1)
        >>> optimizer.exclude_from_decay
        ('bias', 'gamma', 'beta')
    """

    def __init__(
        self,
        learning_rate: float | LearningRateSchedule,
        weight_decay: float = 0.01,
        epsilon: float = 1e-6,
        global_clipnorm: float | None = 1.0,
        exclude_from_decay: Sequence[str] = NOT_DECAYED,
        **kwargs: Any,
    ) -> None:
        """See the class."""
        if not callable(learning_rate):
            learning_rate = _real("learning_rate", learning_rate)
        super().__init__(
            learning_rate=learning_rate,
            weight_decay=_real("weight_decay", weight_decay),
            epsilon=_real("epsilon", epsilon),
            global_clipnorm=global_clipnorm,
            **kwargs,
        )
        self.beta_1 = _real("beta_1", self.beta_1, below=1)
        self.beta_2 = _real("beta_2", self.beta_2, below=1)
        # Keras takes a norm of 0 for no clipping.
        if global_clipnorm is not None and not _real(
            "global_clipnorm", global_clipnorm
        ):
            raise ValueError(
                "`global_clipnorm` must be positive or None. "
                f"Received: global_clipnorm={global_clipnorm}"
            )
        if self.amsgrad:
            raise ValueError(
                "`amsgrad` is not supported. Received: amsgrad=True"
            )
        if isinstance(exclude_from_decay, str) or not all(
            isinstance(name, str) and "/" not in name
            for name in exclude_from_decay
        ):
            raise ValueError(
                "`exclude_from_decay` must be a list of names without slashes. "
                f"Received: exclude_from_decay={exclude_from_decay!r}"
            )
        self.exclude_from_decay = tuple(exclude_from_decay)
        self._scalars: dict[str, tuple[Any, ...]] = {}

    def build(self, variables: Sequence[Any]) -> None:
        """Create the moments and note which variables decay."""
        if self.built:
            return
        with _outside_any_trace():
            super().build(variables)
        # Decided here: `update_step` on TensorFlow sees variables without path.
        self._decayed = frozenset(
            index
            for index, variable in enumerate(variables)
            if _name(variable) not in self.exclude_from_decay
        )

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Update the variables; a gradient may be `tf.IndexedSlices`."""
        if keras.backend.backend() == "tensorflow":
            grads = [_dense(gradient) for gradient in grads]
        # The same for all variables: computed once an update, not once for
        # each. A traced value must not outlive its trace.
        self._scalars = {}
        super().apply(grads, trainable_variables)
        self._scalars = {}

    def _step_scalars(self, learning_rate: Any, dtype: str) -> tuple[Any, ...]:
        """Return 1 - decay, rate and epsilon of this update, and the betas."""
        rate = ops.cast(learning_rate, dtype)
        step = ops.cast(self.iterations + 1, dtype)
        beta_1 = ops.cast(self.beta_1, dtype)
        beta_2 = ops.cast(self.beta_2, dtype)
        # 1 - beta**step without cancellation. Moving both corrections into
        # the scalars leaves the form that the fused kernel computes.
        root = ops.sqrt(-ops.expm1(step * ops.log(beta_2)))
        corrected = -rate * root / ops.expm1(step * ops.log(beta_1))
        kept = 1 - rate * self.weight_decay
        return kept, corrected, self.epsilon * root, beta_1, beta_2

    def update_step(
        self, gradient: Any, variable: Any, learning_rate: Any
    ) -> None:
        """Shrink one variable, then take Adam's step."""
        index = self._get_variable_index(variable)
        m, v = self._momentums[index], self._velocities[index]
        # Half precision would round 1 - beta_2 and epsilon to 0.
        dtype = keras.backend.result_type(variable.dtype, "float32")
        gradient = ops.cast(gradient, dtype)
        if dtype not in self._scalars:
            self._scalars[dtype] = self._step_scalars(learning_rate, dtype)
        kept, rate, epsilon, beta_1, beta_2 = self._scalars[dtype]
        if self.weight_decay and index in self._decayed:
            self.assign(variable, ops.cast(variable, dtype) * kept)
        if (
            keras.backend.backend() == "tensorflow"
            and keras.backend.standardize_dtype(variable.dtype) == dtype
        ):
            import tensorflow as tf

            if isinstance(variable, keras.Variable):
                variable = variable.value
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=m.value.handle,
                v=v.value.handle,
                # Powers of 0 turn off the kernel's own corrections.
                beta1_power=tf.zeros((), rate.dtype),
                beta2_power=tf.zeros((), rate.dtype),
                lr=rate,
                beta1=beta_1,
                beta2=beta_2,
                epsilon=epsilon,
                grad=gradient,
            )
            return
        new_m, new_v = ops.cast(m, dtype), ops.cast(v, dtype)
        new_m += (gradient - new_m) * (1 - beta_1)
        new_v += (ops.square(gradient) - new_v) * (1 - beta_2)
        self.assign(m, new_m)
        self.assign(v, new_v)
        self.assign_sub(variable, rate * new_m / (ops.sqrt(new_v) + epsilon))

    def exclude_from_weight_decay(
        self, var_list: Any = None, var_names: Any = None
    ) -> None:
        """Refuse: a reloaded optimizer would decay these variables."""
        raise ValueError(
            "Give the constructor `exclude_from_decay`, which saving keeps. "
            f"Received: var_list={var_list}, var_names={var_names}"
        )

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        names = list(self.exclude_from_decay)
        return super().get_config() | {"exclude_from_decay": names}

    def _apply_weight_decay(self, variables: Sequence[Any]) -> None:
        # `update_step` shrinks the weights: Keras' hook computes the rate anew
        # for each variable and cannot tell biases apart on TensorFlow.
        pass

    def _get_current_learning_rate(self) -> Any:
        # Keras passes `_iterations`, which counts micro-batches.
        if isinstance(self._learning_rate, LearningRateSchedule):
            return self._learning_rate(self.iterations)
        return super()._get_current_learning_rate()


def adamw(
    learning_rate: float | LearningRateSchedule,
    *,
    train_steps: int | None = None,
    warmup: float | int | None = None,
    weight_decay: float = 0.01,
    clipnorm: float | None = 1.0,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
    exclude_from_decay: Sequence[str] = NOT_DECAYED,
    gradient_accumulation_steps: int | None = None,
) -> AdamW:
    """Build BERT's optimizer.

    Args:
        learning_rate: float, the peak; or a `LearningRateSchedule`, and then
            no `train_steps`.
        train_steps: int, the updates (not micro-batches) until the rate is 0.
            None keeps the rate constant.
        warmup: a float in [0, 1) is a share of `train_steps`, rounded up as
            transformers does; an int is a number of updates. None is 0.1, or
            no warm-up without `train_steps`.
        weight_decay: float, see `AdamW`.
        clipnorm: float or None, the largest global norm of the gradients.
        beta_1: float, see `AdamW`.
        beta_2: float, see `AdamW`.
        epsilon: float, see `AdamW`.
        exclude_from_decay: names that do not decay, see `AdamW`.
        gradient_accumulation_steps: int or None, micro-batches to an update.
            Keras never applies an incomplete update at the end of training.

    Returns:
        An `AdamW`.

    Example:
        >>> import kbert
        >>> optimizer = kbert.optimizers.adamw(2e-5, train_steps=900)
        >>> optimizer.get_config()["learning_rate"]["config"]["warmup_steps"]
        90
    """
    if train_steps is None and warmup:
        raise ValueError(
            "`warmup` needs `train_steps`: without them the rate is constant. "
            f"Received: warmup={warmup}, train_steps=None"
        )
    if train_steps is not None:
        if callable(learning_rate):
            raise ValueError(
                "`train_steps` goes with a float, not with a schedule. "
                f"Received: learning_rate={learning_rate}"
            )
        total = _integer("train_steps", train_steps, least=1)
        warmup_steps = _warmup_steps(0.1 if warmup is None else warmup, total)
        learning_rate = WarmupLinearDecay(learning_rate, total, warmup_steps)
    return AdamW(
        learning_rate,
        weight_decay=weight_decay,
        beta_1=beta_1,
        beta_2=beta_2,
        epsilon=epsilon,
        global_clipnorm=clipnorm,
        exclude_from_decay=exclude_from_decay,
        gradient_accumulation_steps=gradient_accumulation_steps,
    )


def _warmup_steps(warmup: float | int, train_steps: int) -> int:
    if isinstance(warmup, numbers.Integral):
        return _integer("warmup", warmup, most=train_steps)
    return math.ceil(_real("warmup", warmup, below=1.0) * train_steps)


def _real(name: str, value: Any, below: float = math.inf) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, numbers.Real)
        or not 0.0 <= float(value) < below
    ):
        raise ValueError(
            f"`{name}` must be a number in [0, {below}). "
            f"Received: {name}={value!r}"
        )
    return float(value)


def _integer(
    name: str, value: Any, least: int = 0, most: float = math.inf
) -> int:
    if (
        isinstance(value, bool)
        or not isinstance(value, numbers.Integral)
        or not least <= int(value) <= most
    ):
        raise ValueError(
            f"`{name}` must be an integer in [{least}, {most}]. "
            f"Received: {name}={value!r}"
        )
    return int(value)


def _name(variable: Any) -> str:
    # A raw tf.Variable has no path but a name such as `dense/bias:0`.
    path = getattr(variable, "path", variable.name)
    return path.split("/")[-1].split(":")[0]


def _outside_any_trace() -> Any:
    """Return a context in which TensorFlow makes variables eagerly.

    Moments made inside the first trace of a train step come with a condition
    each, and cost MiniLM's first step two seconds.
    """
    if keras.backend.backend() != "tensorflow":
        return contextlib.nullcontext()
    import tensorflow as tf

    if tf.distribute.has_strategy():
        return contextlib.nullcontext()
    return tf.init_scope()


def _dense(gradient: Any) -> Any:
    import tensorflow as tf

    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    num_rows = gradient.dense_shape[0]  # pyright: ignore
    return tf.math.unsorted_segment_sum(
        gradient.values, gradient.indices, num_rows
    )
