"""Task models: an encoder's own graph with one head on it.

Each builder returns a plain functional `keras.Model` that shares the
encoder's layers, and so its weights. None compiles.
"""

from collections.abc import Sequence
from typing import Any

import keras

from kbert.families import CLASSIFIER_FORMS, TRANSFORMED
from kbert.layers import (
    ClassificationHead,
    SentencePooling,
    SpanHead,
    TokenClassificationHead,
)
from kbert.models.packed import refuse_packed
from kbert.models.parts import (
    encoder_outputs,
    given_or,
    head_input,
    layer_dtype,
    pooled_output,
)
from kbert.models.reading import encoder_config


def build_classifier(
    encoder: keras.Model,
    num_classes: int,
    *,
    hidden_dropout: float | None = None,
    label_names: Sequence[str] | None = None,
    problem_type: str | None = None,
    dense_activation: str | None = "family",
    has_input_dropout: bool | None = None,
    pooling: str | None = None,
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
        dense_activation: "family" for the head of the encoder's family; None
            for one linear layer on the pooler's output (BERT, ALBERT); else
            the activation of a dense layer before it, which then reads the
            first token's hidden state: "tanh" (RoBERTa), "gelu" (ELECTRA),
            "relu" (DistilBERT).
        has_input_dropout: whether dropout comes before that dense layer too
            (not in DistilBERT); None for what the family does.
        pooling: "cls" or "mean" for a head that reads the first token's state
            or the mean over all real tokens, and no pooler; None for what
            the family does ("cls" in ModernBERT, in others as above).
        name: of the model.

    Returns:
        A `keras.Model` with the encoder's inputs and one output, the logits,
        float32 (B, C). An encoder without a pooler gets a fresh one, unless
        the head has a dense layer: then the model has no pooler.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if `encoder` is no kbert encoder, or packed,
            `num_classes` is under 1, `label_names` does not hold
            `num_classes` different names, or `problem_type` is unknown.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_classifier(encoder, num_classes=3)
        >>> model.output_shape
        (None, 3)

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 4.1
    """
    refuse_packed(encoder, "a classifier")
    config = encoder_config(encoder)
    form: dict[str, Any] = CLASSIFIER_FORMS.get(
        config.family, CLASSIFIER_FORMS["bert"]
    )
    if dense_activation == "family":
        dense_activation = form["dense_activation"]
    if has_input_dropout is None:
        has_input_dropout = bool(form["has_input_dropout"])
    head = ClassificationHead(
        num_classes,
        hidden_dropout=given_or(hidden_dropout, config.hidden_dropout),
        initializer_range=config.initializer_range,
        label_names=label_names,
        problem_type=problem_type,
        dense_size=None if dense_activation is None else config.hidden_size,
        dense_activation=dense_activation,
        has_input_dropout=has_input_dropout,
        dtype=layer_dtype(encoder),
        name="classifier",
    )
    if pooling is None and config.family in TRANSFORMED:
        pooling = "cls"
    if pooling is not None:
        pool = SentencePooling(
            pooling, dtype=layer_dtype(encoder), name="pooling"
        )
        x = pool(
            encoder_outputs(encoder)["sequence_output"],
            padding_mask=encoder.input["padding_mask"],
        )
    elif dense_activation is None:
        x = pooled_output(encoder)
    else:
        x = encoder_outputs(encoder)["sequence_output"][:, 0]
    logits = head(head_input(encoder, x))
    return keras.Model(encoder.input, logits, name=name)


def build_token_classifier(
    encoder: keras.Model,
    num_classes: int,
    *,
    hidden_dropout: float | None = None,
    label_names: Sequence[str] | None = None,
    name: str = "token_classifier",
) -> keras.Model:
    """Build a classifier of tokens, for entities or parts of speech.

    Args:
        encoder: a model of `build_encoder` or `load_encoder`. It is not
            copied: training the classifier trains it.
        num_classes: number C of classes a token.
        hidden_dropout: dropout probability of the head; None for the
            encoder's.
        label_names: C names, kept in the model and in saved checkpoints.
        name: of the model.

    Returns:
        A `keras.Model` with the encoder's inputs and one output, the logits,
        float32 (B, S, C), of padding too. It has no pooler.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if `encoder` is no kbert encoder, `num_classes` is under
            1, or `label_names` does not hold `num_classes` different names.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_token_classifier(encoder, num_classes=9)
        >>> model.output_shape
        (None, None, 9)

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 5.3
    """
    outputs = encoder_outputs(encoder)
    config = encoder_config(encoder)
    head = TokenClassificationHead(
        num_classes,
        hidden_dropout=given_or(hidden_dropout, config.hidden_dropout),
        initializer_range=config.initializer_range,
        label_names=label_names,
        dtype=layer_dtype(encoder),
        name="token_classifier",
    )
    logits = head(head_input(encoder, outputs["sequence_output"]))
    return keras.Model(encoder.input, logits, name=name)


def build_span_model(
    encoder: keras.Model, *, name: str = "span_model"
) -> keras.Model:
    """Build a model that points at an answer in the text, as SQuAD asks.

    Args:
        encoder: a model of `build_encoder` or `load_encoder`. It is not
            copied: training the model trains it.
        name: of the model.

    Returns:
        A `keras.Model` with the encoder's inputs and a dict of outputs:
        `start` and `end`, logits over positions, float32 (B, S), of the
        question and of padding too. It has no pooler.

    Raises:
        ValueError: if `encoder` is no kbert encoder, or packed.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_span_model(encoder)
        >>> {name: logits.shape for name, logits in model.output.items()}
        {'start': (None, None), 'end': (None, None)}

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 4.2
    """
    refuse_packed(encoder, "a span model")
    outputs = encoder_outputs(encoder)
    head = SpanHead(
        initializer_range=encoder_config(encoder).initializer_range,
        dtype=layer_dtype(encoder),
        name="span",
    )
    logits = head(head_input(encoder, outputs["sequence_output"]))
    return keras.Model(encoder.input, logits, name=name)
