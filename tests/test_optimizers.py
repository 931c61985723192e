import importlib.util
import math
import os
import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest
from keras import ops

from kbert.optimizers import AdamW, WarmupLinearDecay, adamw

BACKEND = keras.backend.backend()
tensorflow_only = pytest.mark.skipif(
    BACKEND != "tensorflow", reason="a TensorFlow matter"
)


def linear_rate(step, peak, train_steps, warmup_steps, end=0.0):
    if step < warmup_steps:
        return peak * step / max(1, warmup_steps)
    left = max(0, train_steps - step) / max(1, train_steps - warmup_steps)
    return end + (peak - end) * left


class Reference:
    """AdamW of Loshchilov and Hutter in float64, one variable."""

    def __init__(self, weights, decay, epsilon=1e-6, betas=(0.9, 0.999)):
        self.w = np.asarray(weights, "float64")
        self.m, self.v = np.zeros_like(self.w), np.zeros_like(self.w)
        self.decay, self.epsilon, self.betas = decay, epsilon, betas
        self.steps = 0

    def update(self, gradient, rate):
        self.steps += 1
        first, second = self.betas
        self.m = first * self.m + (1 - first) * gradient
        self.v = second * self.v + (1 - second) * gradient**2
        m_hat = self.m / (1 - first**self.steps)
        v_hat = self.v / (1 - second**self.steps)
        self.w = self.w - rate * self.decay * self.w
        self.w = self.w - rate * m_hat / (np.sqrt(v_hat) + self.epsilon)


def make_variables(dtype="float32"):
    rng = np.random.default_rng(0)
    shapes = {
        "kernel": (4, 3),
        "bias": (3,),
        "gamma": (3,),
        "embeddings": (5, 3),
    }
    return [
        keras.Variable(rng.normal(size=shape), dtype=dtype, name=name)
        for name, shape in shapes.items()
    ]


def numpy_of(variables):
    return [
        ops.convert_to_numpy(ops.cast(v, "float32")).copy() for v in variables
    ]


def tensors(arrays, dtype="float32"):
    return [ops.convert_to_tensor(a, dtype=dtype) for a in arrays]


def make_model(seed=0):
    keras.utils.set_random_seed(seed)
    token_ids = keras.Input((6,), dtype="int32")
    x = keras.layers.Embedding(12, 8, name="token")(token_ids)
    x = keras.layers.LayerNormalization(name="norm")(x)
    x = keras.layers.Dense(8, activation="tanh", name="dense")(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(token_ids, keras.layers.Dense(1, name="head")(x))


def make_data(size=64):
    rng = np.random.default_rng(1)
    x = rng.integers(0, 12, size=(size, 6)).astype("int32")
    return x, rng.normal(size=(size, 1)).astype("float32")


def moved_without_gradient(model):
    """Return paths and shares left after an update with zero gradients."""
    for variable in model.trainable_variables:
        variable.assign(np.ones(variable.shape, "float32"))
    optimizer = model.optimizer
    for variable in optimizer.variables:
        if "momentum" in variable.path or "velocity" in variable.path:
            variable.assign(np.zeros(variable.shape, "float32"))
    zeros = [ops.zeros(v.shape) for v in model.trainable_variables]
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        optimizer = optimizer.inner_optimizer
    optimizer.apply(zeros, model.trainable_variables)
    after = numpy_of(model.trainable_variables)
    paths = [v.path for v in model.trainable_variables]
    return dict(zip(paths, after, strict=True))


def assert_decays_kernels_only(model, rate):
    for path, after in moved_without_gradient(model).items():
        is_decayed = path.split("/")[-1] in ("kernel", "embeddings")
        expected = 1 - rate * 0.01 if is_decayed else 1.0
        np.testing.assert_allclose(after, expected, rtol=0, atol=1e-7)


# The schedule


@pytest.mark.parametrize(
    "train_steps, warmup_steps, end",
    [(100, 10, 0.0), (7, 0, 0.0), (5, 5, 0.0), (1, 0, 0.0), (1, 1, 0.0),
     (90, 13, 1e-5)],
)  # fmt: skip
def test_schedule_follows_the_closed_form(train_steps, warmup_steps, end):
    schedule = WarmupLinearDecay(2e-4, train_steps, warmup_steps, end)
    for step in range(train_steps + 3):
        expected = linear_rate(step, 2e-4, train_steps, warmup_steps, end)
        rate = float(schedule(step))
        assert rate == pytest.approx(expected, rel=3e-7, abs=1e-12)


def test_schedule_hits_its_corners_exactly():
    schedule = WarmupLinearDecay(0.5, 100, 10, end_learning_rate=0.25)
    corners = [float(schedule(step)) for step in (0, 5, 10, 55, 100, 10**6)]
    assert corners == [0.0, 0.25, 0.5, 0.375, 0.25, 0.25]


def test_schedule_tells_millions_of_steps_apart():
    # float32 cannot count beyond 2**24: the last steps must still fall.
    train_steps = 2**24 + 1001
    schedule = WarmupLinearDecay(1.0, train_steps, 0)
    for left in (0, 1, 2, 3, 1000):
        rate = float(schedule(train_steps - left))
        assert rate == pytest.approx(left / train_steps, rel=1e-6)


@pytest.mark.parametrize(
    "kind",
    [
        int,
        np.int64,
        np.array,
        lambda step: keras.Variable(step, dtype="int32", trainable=False),
    ],
)
def test_schedule_takes_any_integer(kind):
    rate = WarmupLinearDecay(1.0, 10, 4)(kind(3))
    assert keras.backend.standardize_dtype(rate.dtype) == "float32"
    assert float(rate) == 0.75


def test_schedule_round_trips():
    schedule = WarmupLinearDecay(2e-5, np.int64(90), 9, 1e-6)
    config = keras.saving.serialize_keras_object(schedule)
    assert config["registered_name"] == "kbert>WarmupLinearDecay"
    again = keras.saving.deserialize_keras_object(config)
    assert again.get_config() == schedule.get_config()
    assert schedule.get_config() == {
        "peak_learning_rate": 2e-5,
        "train_steps": 90,
        "warmup_steps": 9,
        "end_learning_rate": 1e-6,
    }


@pytest.mark.parametrize(
    "arguments",
    [
        {"peak_learning_rate": -1e-3},
        {"peak_learning_rate": math.nan},
        {"peak_learning_rate": math.inf},
        {"peak_learning_rate": "1e-3"},
        {"peak_learning_rate": True},
        {"train_steps": 0},
        {"train_steps": 10.0},
        {"train_steps": True},
        {"warmup_steps": -1},
        {"warmup_steps": 11},
        {"warmup_steps": 0.1},
        {"end_learning_rate": -1e-9},
        {"end_learning_rate": 2e-3},
    ],
)
def test_schedule_refuses(arguments):
    good = {"peak_learning_rate": 1e-3, "train_steps": 10, "warmup_steps": 1}
    (name, value), *_ = arguments.items()
    with pytest.raises(ValueError, match=f"Received: .*{name}={value!r}"):
        WarmupLinearDecay(**(good | arguments))


# The update


@pytest.mark.parametrize("beta_1", [0.9, 0.0])
def test_update_follows_the_paper(beta_1):
    variables = make_variables()
    optimizer = AdamW(
        WarmupLinearDecay(1e-2, 12, 3),
        weight_decay=0.1,
        global_clipnorm=None,
        beta_1=beta_1,
    )
    references = [
        Reference(w, 0.1 if i in (0, 3) else 0.0, betas=(beta_1, 0.999))
        for i, w in enumerate(numpy_of(variables))
    ]
    rng = np.random.default_rng(3)
    for step in range(12):
        # Gradients about as small as epsilon show where it is added.
        gradients = [1e-6 * rng.normal(size=r.w.shape) for r in references]
        optimizer.apply(tensors(gradients), variables)
        for reference, gradient in zip(references, gradients, strict=True):
            reference.update(gradient, linear_rate(step, 1e-2, 12, 3))
    for actual, reference in zip(numpy_of(variables), references, strict=True):
        np.testing.assert_allclose(actual, reference.w, rtol=0, atol=5e-7)


def test_clips_the_global_norm():
    for scale, expected in ((10.0, 1.0), (0.01, None)):
        variables = make_variables()
        gradients = [scale * np.ones(v.shape, "float32") for v in variables]
        norm = math.sqrt(sum((g**2).sum() for g in gradients))
        optimizer = adamw(1e-3)
        optimizer.apply(tensors(gradients), variables)
        share = 1.0 if expected is None else expected / norm
        # The first mean is (1 - beta_1) times the gradient.
        for moment, gradient in zip(
            optimizer._momentums, gradients, strict=True
        ):
            np.testing.assert_allclose(
                moment.numpy(), 0.1 * share * gradient, rtol=1e-5
            )


def test_zero_gradients_shrink_what_decays_and_nothing_else():
    variables = make_variables()
    before = numpy_of(variables)
    optimizer = adamw(0.1, weight_decay=0.5)
    optimizer.apply([ops.zeros(v.shape) for v in variables], variables)
    kernel, bias, gamma, embeddings = numpy_of(variables)
    np.testing.assert_allclose(kernel, 0.95 * before[0], rtol=1e-6)
    np.testing.assert_array_equal(bias, before[1])
    np.testing.assert_array_equal(gamma, before[2])
    np.testing.assert_allclose(embeddings, 0.95 * before[3], rtol=1e-6)


@pytest.mark.parametrize(
    "names, decayed",
    [
        ((), [True, True, True, True]),
        (["embeddings"], [True, True, True, False]),
        (("kernel", "bias", "gamma", "embeddings"), [False] * 4),
        # Whole segments, not parts of them.
        (("bed", "ker"), [True] * 4),
    ],
)
def test_excludes_by_name(names, decayed):
    variables = make_variables()
    before = numpy_of(variables)
    optimizer = adamw(0.1, weight_decay=0.5, exclude_from_decay=names)
    optimizer.apply([ops.zeros(v.shape) for v in variables], variables)
    moved = [
        not np.array_equal(a, b)
        for a, b in zip(before, numpy_of(variables), strict=True)
    ]
    assert moved == decayed


def test_no_weight_decay():
    variables = make_variables()
    before = numpy_of(variables)
    optimizer = adamw(0.1, weight_decay=0.0)
    optimizer.apply([ops.zeros(v.shape) for v in variables], variables)
    for a, b in zip(before, numpy_of(variables), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_variables(dtype):
    variables = make_variables(dtype)
    before = numpy_of(variables)
    optimizer = adamw(0.01, weight_decay=0.0, clipnorm=None)
    for _ in range(3):
        gradients = tensors([np.full(v.shape, 1e-3) for v in variables], dtype)
        optimizer.apply(gradients, variables)
    for a, b in zip(before, numpy_of(variables), strict=True):
        # A steady gradient moves a weight by the rate at each step.
        np.testing.assert_allclose(b - a, -0.03, atol=0.02)


def test_the_gradients_of_a_repeated_token_are_summed_first():
    token_ids = keras.Input((3,), dtype="int32")
    embedded = keras.layers.Embedding(4, 1)(token_ids)
    model = keras.Model(token_ids, ops.sum(embedded, axis=(1, 2)))
    model.compile(
        adamw(1e-3, clipnorm=None), loss=lambda y, prediction: prediction
    )
    model.fit(np.array([[1, 1, 2]]), np.zeros(1), verbose=0)
    (velocity,) = model.optimizer._velocities
    np.testing.assert_allclose(
        velocity.numpy()[:, 0],
        [0.0, 0.001 * 2**2, 0.001, 0.0],
        rtol=1e-4,
    )


def test_a_callable_learning_rate():
    variables = make_variables()
    optimizer = AdamW(lambda: 0.25)
    optimizer.build(variables)
    assert float(optimizer.learning_rate) == 0.25


# Accumulation


def test_schedule_counts_updates_not_micro_batches():
    x, y = np.ones((8, 1), "float32"), np.zeros((8, 1), "float32")
    inputs = keras.Input((1,))
    head = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Model(inputs, head(inputs))
    model.compile(
        adamw(
            1.0,
            train_steps=4,
            warmup=0,
            weight_decay=0.0,
            gradient_accumulation_steps=4,
        ),
        loss=lambda y, prediction: prediction,
    )
    seen = []
    for micro in range(8):
        model.fit(
            x[micro : micro + 1], y[micro : micro + 1], batch_size=1, verbose=0
        )
        seen.append(float(head.get_weights()[0][0, 0]))
    # Under a steady gradient Adam moves by the rate: 1, then 0.75.
    expected = [0, 0, 0, -1, -1, -1, -1, -1.75]
    np.testing.assert_allclose(seen, expected, atol=1e-5)
    assert float(model.optimizer.learning_rate) == 0.5


def test_accumulation_equals_the_large_batch():
    x, y = make_data(32)
    weights = []
    for steps, batch_size in ((None, 16), (4, 4)):
        model = make_model()
        model.compile(
            adamw(
                1e-2,
                train_steps=4,
                warmup=1,
                gradient_accumulation_steps=steps,
            ),
            loss="mse",
        )
        model.fit(
            x, y, batch_size=batch_size, epochs=2, shuffle=False, verbose=0
        )
        weights.append(model.get_weights())
    for large, small in zip(*weights, strict=True):
        np.testing.assert_allclose(large, small, rtol=0, atol=2e-5)


# Saving


def test_optimizer_round_trips():
    optimizer = adamw(
        3e-5,
        train_steps=90,
        weight_decay=0.02,
        clipnorm=0.5,
        beta_1=0.8,
        beta_2=0.98,
        epsilon=1e-8,
        exclude_from_decay=("scale",),
        gradient_accumulation_steps=2,
    )
    assert optimizer.get_config()["exclude_from_decay"] == ["scale"]
    config = keras.saving.serialize_keras_object(optimizer)
    assert config["registered_name"] == "kbert>AdamW"
    for again in (
        keras.saving.deserialize_keras_object(config),
        keras.optimizers.get(keras.optimizers.serialize(optimizer)),
        AdamW.from_config(optimizer.get_config()),
    ):
        assert type(again) is AdamW
        assert again.get_config() == optimizer.get_config()
        assert again.exclude_from_decay == ("scale",)
        assert isinstance(again._learning_rate, WarmupLinearDecay)


def test_a_reloaded_model_decays_the_same_variables(tmp_path):
    model = make_model()
    model.compile(adamw(1e-2), loss="mse")
    model.fit(*make_data(16), verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again.optimizer) is AdamW
    assert_decays_kernels_only(model, 1e-2)
    assert_decays_kernels_only(again, 1e-2)


@pytest.mark.parametrize("accumulation", [None, 4])
def test_resuming_equals_an_unbroken_run(tmp_path, accumulation):
    x, y = make_data(50)

    def fit(model):
        # 50 steps of one row, an accumulation left open at the end.
        model.fit(x, y, batch_size=1, shuffle=False, verbose=0)

    model = make_model()
    model.compile(
        adamw(
            1e-2,
            train_steps=100,
            warmup=0.3,
            gradient_accumulation_steps=accumulation,
        ),
        loss="mse",
    )
    fit(model)
    model.save(tmp_path / "model.keras")
    fit(model)
    again = keras.saving.load_model(tmp_path / "model.keras")
    fit(again)
    for a, b in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)
    states = (model.optimizer.variables, again.optimizer.variables)
    for a, b in zip(*map(numpy_of, states), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)


def test_under_a_loss_scale(tmp_path):
    model = make_model()
    optimizer = keras.optimizers.LossScaleOptimizer(
        adamw(1e-2), initial_scale=8.0
    )
    plain = make_model()
    plain.compile(adamw(1e-2), loss="mse")
    model.compile(optimizer, loss="mse")
    for each in (model, plain):
        each.fit(*make_data(16), shuffle=False, verbose=0)
    for a, b in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again.optimizer.inner_optimizer) is AdamW
    assert_decays_kernels_only(model, 1e-2)
    assert_decays_kernels_only(again, 1e-2)


def test_under_mixed_precision(tmp_path):
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = make_model()
        model.compile(adamw(1e-2), loss="mse")
        model.fit(*make_data(16), verbose=0)
        model.save(tmp_path / "model.keras")
        again = keras.saving.load_model(tmp_path / "model.keras")
    finally:
        keras.config.set_dtype_policy("float32")
    assert type(again.optimizer) is keras.optimizers.LossScaleOptimizer
    assert_decays_kernels_only(again, 1e-2)


# Ways to run


@pytest.mark.parametrize(
    "options",
    [
        {"jit_compile": True},
        {"steps_per_execution": 2},
        {"run_eagerly": True},
    ],
    ids=str,
)
def test_every_way_to_run_gives_the_same_weights(options):
    if BACKEND == "torch" and "run_eagerly" not in options:
        pytest.skip("Keras' PyTorch trainer runs eagerly")
    weights = []
    for each in ({"jit_compile": False}, options):
        model = make_model()
        model.compile(adamw(1e-2, train_steps=8), loss="mse", **each)
        model.fit(*make_data(32), batch_size=8, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    for a, b in zip(*weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6)


@tensorflow_only
def test_sparse_gradients_equal_dense_ones():
    import tensorflow as tf

    rows = tf.constant([1, 3, 1])
    values = tf.constant(
        np.random.default_rng(0).normal(size=(3, 3)), "float32"
    )
    sparse = tf.IndexedSlices(values, rows, tf.constant([5, 3]))
    results = []
    for gradient in (sparse, tf.convert_to_tensor(sparse)):
        variable = keras.Variable(np.ones((5, 3)), name="embeddings")
        optimizer = adamw(1e-2)
        for _ in range(3):
            optimizer.apply([gradient], [variable])
        results.append(variable.numpy())
    np.testing.assert_array_equal(*results)


@tensorflow_only
def test_raw_tensorflow_variables():
    import tensorflow as tf

    variables = [
        tf.Variable([1.0], name="dense/kernel"),
        tf.Variable([1.0], name="dense/bias"),
    ]
    adamw(0.1).apply([tf.zeros(1), tf.zeros(1)], variables)
    assert [float(v[0]) for v in variables] == pytest.approx([0.999, 1.0])


# The factory


@pytest.mark.parametrize(
    "warmup, steps",
    [
        (None, 90),
        (0.1, 90),
        (0.0, 0),
        (0, 0),
        (1, 1),
        (900, 900),
        (np.int64(7), 7),
        (np.float32(0.5), 450),
        (0.0001, 1),
    ],
)
def test_warmup_is_a_share_or_a_count(warmup, steps):
    schedule = adamw(2e-5, train_steps=900, warmup=warmup)._learning_rate
    assert schedule.get_config() == {
        "peak_learning_rate": 2e-5,
        "train_steps": 900,
        "warmup_steps": steps,
        "end_learning_rate": 0.0,
    }


def test_defaults_are_those_of_bert():
    config = adamw(2e-5).get_config()
    assert config["learning_rate"] == pytest.approx(2e-5)
    assert config["weight_decay"] == 0.01
    assert config["global_clipnorm"] == 1.0
    assert (config["beta_1"], config["beta_2"]) == (0.9, 0.999)
    assert config["epsilon"] == 1e-6
    assert config["exclude_from_decay"] == ["bias", "gamma", "beta"]
    config.pop("name")
    direct = AdamW(2e-5).get_config()
    direct.pop("name")
    assert direct == config


def test_takes_a_schedule():
    schedule = keras.optimizers.schedules.CosineDecay(1e-3, 10)
    assert adamw(schedule)._learning_rate is schedule


SCHEDULE = WarmupLinearDecay(1e-3, 10, 1)


@pytest.mark.parametrize(
    "arguments, received",
    [
        ({"warmup": 1.0, "train_steps": 9}, "warmup=1.0"),
        ({"warmup": 2.5, "train_steps": 9}, "warmup=2.5"),
        ({"warmup": -1, "train_steps": 9}, "warmup=-1"),
        ({"warmup": -0.1, "train_steps": 9}, "warmup=-0.1"),
        ({"warmup": 10, "train_steps": 9}, "warmup=10"),
        ({"warmup": True, "train_steps": 9}, "warmup=True"),
        ({"warmup": "0.1", "train_steps": 9}, "warmup='0.1'"),
        ({"warmup": 0.1}, "warmup=0.1, train_steps=None"),
        ({"train_steps": 0}, "train_steps=0"),
        ({"train_steps": 9.5}, "train_steps=9.5"),
        ({"learning_rate": SCHEDULE, "train_steps": 9}, "learning_rate=.*"),
        ({"learning_rate": SCHEDULE, "warmup": 2}, "warmup=2.*"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0"),
        ({"learning_rate": None}, "learning_rate=None"),
        ({"weight_decay": -0.01}, "weight_decay=-0.01"),
        ({"weight_decay": None}, "weight_decay=None"),
        ({"clipnorm": 0}, "global_clipnorm=0"),
        ({"clipnorm": -1.0}, "global_clipnorm=-1.0"),
        ({"beta_1": 1.0}, "beta_1=1.0"),
        ({"beta_2": -0.1}, "beta_2=-0.1"),
        ({"epsilon": -1e-8}, "epsilon=-1e-08"),
        ({"exclude_from_decay": "bias"}, "exclude_from_decay='bias'"),
        ({"exclude_from_decay": ["norm/gamma"]}, r".*\['norm/gamma'\]"),
        ({"exclude_from_decay": [1]}, r"exclude_from_decay=\[1\]"),
        ({"gradient_accumulation_steps": 1}, ".*=1"),
    ],
    ids=str,
)
def test_refuses(arguments, received):
    with pytest.raises(ValueError, match=f"Received: {received}$"):
        adamw(**({"learning_rate": 1e-3} | arguments))


def test_class_refuses():
    with pytest.raises(ValueError, match="Received: amsgrad=True"):
        AdamW(1e-3, amsgrad=True)
    with pytest.raises(ValueError, match="not recognized.*wieght_decay"):
        AdamW(1e-3, wieght_decay=0.1)
    with pytest.raises(ValueError, match="exclude_from_decay.*Received"):
        AdamW(1e-3).exclude_from_weight_decay(var_names=["bias"])


# Other processes


def run(script, *arguments, backend):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    environment = os.environ | {
        "KERAS_BACKEND": backend,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONPATH": os.pathsep.join(
            [os.path.dirname(__file__), *filter(None, sys.path)]
        ),
    }
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-3000:]


CONTINUE = """
    import sys
    import keras
    import numpy as np
    import test_optimizers as here

    model = keras.saving.load_model(sys.argv[1])
    model.fit(*here.make_data(24), batch_size=4, shuffle=False, verbose=0)
    np.savez(sys.argv[2], *model.get_weights())
    here.assert_decays_kernels_only(model, here.linear_rate(12, 1e-2, 20, 2))
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_another_backend_resumes(tmp_path, backend):
    model = make_model()
    model.compile(adamw(1e-2, train_steps=20), loss="mse")
    model.fit(*make_data(24), batch_size=4, shuffle=False, verbose=0)
    model.save(tmp_path / "model.keras")
    model.fit(*make_data(24), batch_size=4, shuffle=False, verbose=0)
    output = tmp_path / "weights.npz"
    run(CONTINUE, tmp_path / "model.keras", output, backend=backend)
    for a, b in zip(model.get_weights(), np.load(output).values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)


MIRRORED = """
    import contextlib
    import keras
    import numpy as np
    import tensorflow as tf
    import test_optimizers as here
    from kbert.optimizers import adamw

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * 2
    )
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    x, y = here.make_data(32)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(
        8, drop_remainder=True
    )
    for wrap in (lambda o: o, keras.optimizers.LossScaleOptimizer):
        weights = []
        for scope in (contextlib.nullcontext(), strategy.scope()):
            with scope:
                model = here.make_model()
                optimizer = wrap(adamw(1e-2, train_steps=8, clipnorm=None))
                model.compile(optimizer, loss="mse", jit_compile=False)
            model.fit(data, epochs=2, verbose=0)
            weights.append(model.get_weights())
        for a, b in zip(*weights, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)
"""


@pytest.mark.slow
@tensorflow_only
def test_two_replicas_equal_one_device():
    run(MIRRORED, backend="tensorflow")
