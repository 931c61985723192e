"""Task models: an encoder's own graph with one head on it.

Each builder returns a plain functional `keras.Model` that shares the
encoder's layers, and so its weights. None compiles.
"""

from collections.abc import Sequence

import keras

from kbert.layers import ClassificationHead, Pooler
from kbert.models.encoder import encoder_config


def build_classifier(
    encoder: keras.Model,
    num_classes: int,
    *,
    hidden_dropout: float | None = None,
    label_names: Sequence[str] | None = None,
    problem_type: str | None = None,
    name: str = "classifier",
) -> keras.Model:
    """Build a classifier of texts or pairs of texts.

    The loss decides what the outputs mean: with
    `SparseCategoricalCrossentropy(from_logits=True)` one label of
    `num_classes`, with `BinaryCrossentropy(from_logits=True)` any number of
    them, with `num_classes=1` and `MeanSquaredError` a regression.

    Args:
        encoder: a model of `build_encoder` or `load_encoder`. It is not
            copied: training the classifier trains it.
        num_classes: number C of outputs.
        hidden_dropout: dropout probability of the head; None for the
            encoder's.
        label_names: C names, kept in the model and in saved checkpoints.
        problem_type: "single_label_classification",
            "multi_label_classification" or "regression", kept likewise:
            `pipelines.Classifier` and transformers turn logits into scores by
            it. It does not choose the loss.
        name: of the model.

    Returns:
        A `keras.Model` with the encoder's inputs and one output, the logits,
        float32 (B, C). An encoder without a pooler gets a fresh one.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if `encoder` is no kbert encoder, `num_classes` is under
            1, `label_names` does not hold `num_classes` different names, or
            `problem_type` is unknown.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_classifier(encoder, num_classes=3)
        >>> model.output_shape
        (None, 3)

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 4.1
    """
    outputs = _encoder_outputs(encoder)
    config = encoder_config(encoder)
    dtype = encoder.get_layer("embedding").dtype_policy
    if "pooled_output" in outputs:
        pooled = outputs["pooled_output"]
    else:
        pooled = Pooler(
            config.hidden_size,
            initializer_range=config.initializer_range,
            dtype=dtype,
            name="pooler",
        )(outputs["sequence_output"])
    head = ClassificationHead(
        num_classes,
        hidden_dropout=_given_or(hidden_dropout, config.hidden_dropout),
        initializer_range=config.initializer_range,
        label_names=label_names,
        problem_type=problem_type,
        dtype=dtype,
        name="classifier",
    )
    return keras.Model(encoder.input, head(pooled), name=name)


def _encoder_outputs(encoder: keras.Model) -> dict[str, keras.KerasTensor]:
    outputs = getattr(encoder, "output", None)
    if not isinstance(outputs, dict) or "sequence_output" not in outputs:
        raise ValueError(
            "`encoder` must be a model of build_encoder or load_encoder, "
            "whose output is a dict with `sequence_output`. Received: "
            f"encoder={encoder!r}"
        )
    return outputs


def _given_or(value: float | None, default: float) -> float:
    return default if value is None else value
