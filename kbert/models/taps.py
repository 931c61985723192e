"""Hidden states of a model, beside its outputs."""

from collections.abc import Sequence
from typing import Any

import keras

from kbert.layers import EncoderBlock
from kbert.models.reading import GENERATOR


class TappedModel:
    """Runs a model and returns what goes into and comes out of its blocks.

    A plain object: a model that holds it does not track its layers twice.

    Args:
        model: a model of kbert's builders, whose layers it shares.
        states: numbers of the blocks whose outputs to return, in the order in
            which they are applied: a shared block counts each time.
        block_inputs: numbers of the blocks whose inputs to return.
    """

    def __init__(
        self,
        model: keras.Model,
        states: Sequence[int] = (),
        block_inputs: Sequence[int] = (),
    ) -> None:
        """See the class."""
        self._model = model
        self._blocks: list[EncoderBlock] = []
        self._tapped = None
        if not states and not block_inputs:
            return
        calls = []  # a block, its input and its output

        def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
            output = layer(*args, **kwargs)
            if isinstance(layer, EncoderBlock) and not layer.name.startswith(
                GENERATOR
            ):
                calls.append((layer, args[0], output))
            return output

        inputs = {
            name: keras.Input(x.shape[1:], dtype=x.dtype, name=name)
            for name, x in model.input.items()
        }
        copy = keras.models.clone_model(
            # Not the model itself: a compiled one would be compiled again.
            keras.Model(list(model.input.values()), model.output),
            input_tensors=list(inputs.values()),
            clone_function=lambda layer: layer,
            call_function=call,
        )
        self._blocks = [calls[index][0] for index in block_inputs]
        self._tapped = keras.Model(
            inputs,
            {
                "outputs": copy.output,
                "states": [calls[index][2] for index in states],
                "block_inputs": [calls[index][1] for index in block_inputs],
            },
        )

    def __call__(self, inputs: Any, training: bool) -> tuple[Any, Any, Any]:
        """Return the model's outputs, and lists of (B, S, H)."""
        inputs = inputs_of(self._model, inputs)
        if self._tapped is None:
            return self._model(inputs, training=training), [], []
        found = self._tapped(inputs, training=training)
        return found["outputs"], found["states"], found["block_inputs"]

    def projections(self, block_inputs: Sequence[Any]) -> list[Any]:
        """Return queries, keys, values (B, S, H) of each block's input."""
        found = []
        for block, x in zip(self._blocks, block_inputs, strict=True):
            found += _query_key_value(block, x)
        return found


def _query_key_value(block: EncoderBlock, x: Any) -> list[Any]:
    """What the block's attention projects its input to, all heads."""
    if block.pre_norm and block.attention_layer_norm is not None:
        x = block.attention_layer_norm(x)
    attention = block.attention
    return [
        project(x)
        for project in (attention.query, attention.key, attention.value)
    ]


def inputs_of(model: keras.Model, inputs: Any) -> Any:
    """Return those of a batch's inputs that a model takes.

    Raises:
        ValueError: if one is missing.
    """
    missing = [name for name in model.input if name not in inputs]
    if missing:
        raise ValueError(
            f"The model {model.name!r} takes {sorted(model.input)}. Received: "
            f"inputs {sorted(inputs)}, without {missing}"
        )
    return {name: inputs[name] for name in model.input}
