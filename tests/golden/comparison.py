"""What a kbert classifier computes, in the words of a reference file.

Shared by the golden tests (the reference is a file) and the parity tests
(transformers computes it there and then).
"""

from dataclasses import replace

import keras
import numpy as np
from keras import ops

import kbert
from kbert.checkpoints import mapping, tables

LOSSES = {
    "single_label_classification": keras.losses.SparseCategoricalCrossentropy,
    "multi_label_classification": keras.losses.BinaryCrossentropy,
    "regression": keras.losses.MeanSquaredError,
}


def make_loss(problem_type: str) -> keras.losses.Loss:
    """Make the Keras loss of transformers' `problem_type`."""
    if problem_type == "regression":
        return LOSSES[problem_type]()
    return LOSSES[problem_type](from_logits=True)


def to_array(tensor) -> np.ndarray:
    """Bring a tensor of any float dtype to numpy, in float32."""
    return ops.convert_to_numpy(ops.cast(tensor, "float32"))


def batch_of(reference: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Take a model's inputs out of a reference."""
    names = ("token_ids", "segment_ids", "padding_mask")
    return {name: reference[f"input.{name}"] for name in names}


def padded(batch: dict, length: int, pad_token_id: int) -> dict:
    """Pad a batch's rows further."""
    more = length - batch["token_ids"].shape[1]
    fill = {"token_ids": pad_token_id, "segment_ids": 0, "padding_mask": 0}
    return {
        name: np.pad(x, ((0, 0), (0, more)), constant_values=fill[name])
        for name, x in batch.items()
    }


def forward(model: keras.Model, batch: dict) -> dict[str, np.ndarray]:
    """Compute every hidden state, and what a classifier has besides."""
    names = ["embedding"]
    names += [x.name for x in model.layers if x.name.startswith("encoder_b")]
    outputs = {
        f"state.{i}": model.get_layer(name).output
        for i, name in enumerate(names)
    }
    for key, name in (("pooled", "pooler"), ("logits", "classifier")):
        if any(layer.name == name for layer in model.layers):
            outputs[key] = model.get_layer(name).output
    inner = keras.Model(model.input, outputs)
    arrays = inner(batch, training=False)
    return {name: to_array(tensor) for name, tensor in arrays.items()}


def named_weights(model: keras.Model) -> dict[str, np.ndarray]:
    """Gather a classifier's weights under transformers' names."""
    table = tables.BERT
    encoder = [
        replace(row, tensor=table.prefix + row.tensor) for row in table.encoder
    ]
    rows = mapping.expand(
        (*encoder, *table.heads["classifier"]),
        kbert.encoder_config(model).num_layers,
    )
    arrays = mapping.collect_tensors(model, rows)
    return {name: np.array(array) for name, array in arrays.items()}


def train_step(
    model: keras.Model,
    batch: dict,
    labels: np.ndarray,
    *,
    optimizer: keras.optimizers.Optimizer,
    loss: keras.losses.Loss,
    jit_compile: bool | None = None,
) -> tuple[float, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Train on one batch: the loss, and the named weights before and after."""
    if jit_compile is None:  # JAX is slow without, TensorFlow with
        jit_compile = keras.backend.backend() == "jax"
    model.compile(optimizer=optimizer, loss=loss, jit_compile=jit_compile)
    before = named_weights(model)
    value = model.train_on_batch(batch, labels)
    return float(value), before, named_weights(model)


def loss_and_gradients(
    model: keras.Model, batch: dict, labels: np.ndarray, **kwargs
) -> tuple[float, dict[str, np.ndarray]]:
    """Read gradients off the weights: SGD at rate 1 subtracts them."""
    value, before, after = train_step(
        model, batch, labels, optimizer=keras.optimizers.SGD(1.0), **kwargs
    )
    return value, {name: before[name] - after[name] for name in before}


def only(reference: dict[str, np.ndarray], prefix: str) -> dict:
    """Take one kind of array out of a reference, without its prefix."""
    return {
        name.removeprefix(prefix): array
        for name, array in reference.items()
        if name.startswith(prefix)
    }


def largest_difference(
    computed: dict[str, np.ndarray], expected: dict[str, np.ndarray]
) -> float:
    """Compare arrays, of the same names, shapes and finite values."""
    assert expected
    assert set(computed) == set(expected)
    worst = 0.0
    for name, array in computed.items():
        assert array.shape == expected[name].shape, name
        assert np.isfinite(array).all(), name
        worst = max(worst, float(np.abs(array - expected[name]).max()))
    return worst


def forward_difference(
    model: keras.Model,
    reference: dict[str, np.ndarray],
    batch: dict[str, np.ndarray] | None = None,
) -> float:
    """Compare hidden states, pooled output and logits with a reference.

    Hidden states are compared at real tokens. At padding they must be
    finite, no more: nothing reads them, and fused kernels differ there.
    """
    computed = forward(model, batch_of(reference) if batch is None else batch)
    for name, array in computed.items():
        assert np.isfinite(array).all(), name
    expected = {
        name: array
        for name, array in reference.items()
        if name.startswith("state.") or name in ("pooled", "logits")
    }
    mask = reference["input.padding_mask"]
    return largest_difference(
        at_real_tokens(computed, mask), at_real_tokens(expected, mask)
    )


def at_real_tokens(
    arrays: dict[str, np.ndarray], padding_mask: np.ndarray
) -> dict[str, np.ndarray]:
    """Keep hidden states at real tokens; the mask may be narrower."""
    length = padding_mask.shape[1]
    real = padding_mask.astype(bool)
    return {
        name: array[:, :length][real] if name.startswith("state.") else array
        for name, array in arrays.items()
    }
