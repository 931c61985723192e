"""kbert's updates and rates against PyTorch's and transformers'."""

import keras
import numpy as np
import pytest
from keras import ops

from kbert.optimizers import WarmupLinearDecay, adamw

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


SHAPES = {"kernel": (7, 5), "bias": (5,), "gamma": (5,), "embeddings": (11, 5)}


@pytest.mark.parametrize(
    "train_steps, warmup_steps",
    [(100, 10), (900, 90), (37, 0), (5, 5), (1, 0), (1, 1), (12345, 617)],
)
def test_schedule_equals_transformers(train_steps, warmup_steps):
    peak = 2e-5
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=peak)
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, warmup_steps, train_steps
    )
    (reference,) = schedule.lr_lambdas
    ours = WarmupLinearDecay(peak, train_steps, warmup_steps)
    steps = np.arange(train_steps + 3)
    rates = ops.convert_to_numpy(ours(ops.convert_to_tensor(steps, "int32")))
    expected = np.array([peak * reference(int(step)) for step in steps])
    # Three roundings of float32.
    np.testing.assert_allclose(rates, expected, rtol=2e-7, atol=0)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("clipnorm", [None, 1.0])
def test_updates_equal_torch(scale, clipnorm):
    rng = np.random.default_rng(0)
    weights = {
        name: rng.normal(size=shape).astype("float32")
        for name, shape in SHAPES.items()
    }
    parameters = {
        name: torch.nn.Parameter(torch.tensor(value))
        for name, value in weights.items()
    }
    variables = [keras.Variable(v, name=n) for n, v in weights.items()]
    reference = torch.optim.AdamW(
        [
            {"params": [parameters["kernel"], parameters["embeddings"]]},
            {
                "params": [parameters["bias"], parameters["gamma"]],
                "weight_decay": 0.0,
            },
        ],
        lr=1e-3,
        eps=1e-6,
        weight_decay=0.01,
    )
    schedule = transformers.get_linear_schedule_with_warmup(reference, 2, 20)
    optimizer = adamw(1e-3, train_steps=20, warmup=2, clipnorm=clipnorm)
    for _ in range(20):
        gradients = [
            (scale * rng.normal(size=v.shape)).astype("float32")
            for v in variables
        ]
        for parameter, gradient in zip(
            parameters.values(), gradients, strict=True
        ):
            parameter.grad = torch.tensor(gradient)
        if clipnorm:
            torch.nn.utils.clip_grad_norm_(parameters.values(), clipnorm)
        reference.step()
        schedule.step()
        optimizer.apply(
            [ops.convert_to_tensor(g) for g in gradients], variables
        )
    for variable, parameter in zip(variables, parameters.values(), strict=True):
        np.testing.assert_allclose(
            variable.numpy(),
            parameter.detach().numpy(),
            rtol=0,
            atol=1e-6,
        )
