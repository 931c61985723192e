"""Pretraining models: masked words, next sentence, replaced tokens."""

import keras

from kbert.layers import ClassificationHead
from kbert.models.packed import refuse_packed
from kbert.models.parts import (
    encoder_outputs,
    layer_dtype,
    mlm_logits,
    pooled_output,
    replaced_token_head,
)
from kbert.models.reading import encoder_config


def build_masked_lm(
    encoder: keras.Model,
    *,
    all_positions: bool = False,
    activation: str | None = None,
    name: str = "masked_lm",
) -> keras.Model:
    """Build a masked language model, its weights tied to the embeddings.

    Args:
        encoder: a model of `build_encoder` or `load_encoder`. It is not
            copied: training the model trains it.
        all_positions: whether to give logits for every token, as
            transformers' models do. Training wants the masked ones only:
            the vocabulary is by far the widest projection.
        activation: of the head's dense layer; None for the encoder's.
        name: of the model.

    Returns:
        A `keras.Model` with the encoder's inputs, `mask_positions`, int32
        (B, P), each in [0, S) and 0 in unused slots, and one output: logits,
        float32 (B, P, V). With `all_positions` it has no such input and the
        logits are (B, S, V). It has no pooler.

    Raises:
        ValueError: if `encoder` is no kbert encoder.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_masked_lm(encoder)
        >>> model.output_shape
        (None, None, 30522)
        >>> sorted(model.input)
        ['mask_positions', 'padding_mask', 'segment_ids', 'token_ids']

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 3.1
    """
    inputs, logits = _masked_lm(encoder, all_positions, activation)
    return keras.Model(inputs, logits, name=name)


def build_pretrainer(
    encoder: keras.Model,
    *,
    hidden_dropout: float = 0.0,
    name: str = "pretrainer",
) -> keras.Model:
    """Build BERT's pretraining model: masked words and the next sentence.

    Args:
        encoder: a model of `build_encoder` or `load_encoder`. It is not
            copied: training the model trains it.
        hidden_dropout: dropout probability of the sentence head, 0 in BERT
            (ALBERT has its classifier's).
        name: of the model.

    Returns:
        A `keras.Model` with the encoder's inputs, `mask_positions`, int32
        (B, P), each in [0, S) and 0 in unused slots, and a dict of outputs:
        `mlm`, float32 (B, P, V), and `nsp`, float32 (B, 2), where class 0 is
        "B follows A" and 1 "B is random". An encoder without a pooler gets
        a fresh one.

    Raises:
        ValueError: if `encoder` is no kbert encoder, or packed.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_pretrainer(encoder)
        >>> {name: logits.shape for name, logits in model.output.items()}
        {'mlm': (None, None, 30522), 'nsp': (None, 2)}

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 3.1;
        `run_pretraining.py` in google-research/bert
    """
    refuse_packed(encoder, "a next-sentence head")
    inputs, logits = _masked_lm(encoder)
    head = ClassificationHead(
        2,
        hidden_dropout=hidden_dropout,
        initializer_range=encoder_config(encoder).initializer_range,
        dtype=layer_dtype(encoder),
        name="nsp",
    )
    outputs = {"mlm": logits, "nsp": head(pooled_output(encoder))}
    return keras.Model(inputs, outputs, name=name)


def build_replaced_token_detector(
    encoder: keras.Model, *, name: str = "replaced_token_detector"
) -> keras.Model:
    """Build ELECTRA's discriminator: which tokens are not the original ones.

    Args:
        encoder: a model of `build_encoder` or `load_encoder`. It is not
            copied: training the model trains it.
        name: of the model.

    Returns:
        A `keras.Model` with the encoder's inputs and one output: logits,
        float32 (B, S), above 0 for a replaced token. It has no pooler.

    Raises:
        ValueError: if `encoder` is no kbert encoder.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.ELECTRA_SMALL)
        >>> model = kbert.build_replaced_token_detector(encoder)
        >>> model.output_shape
        (None, None)

    References:
        Clark et al., 2020, https://arxiv.org/abs/2003.10555, section 2
    """
    x = encoder_outputs(encoder)["sequence_output"]
    head = replaced_token_head(encoder)
    return keras.Model(encoder.input, head(x), name=name)


def _masked_lm(
    encoder: keras.Model,
    all_positions: bool = False,
    activation: str | None = None,
) -> tuple[dict[str, keras.KerasTensor], keras.KerasTensor]:
    """The inputs and the logits of masked-language modelling."""
    x = encoder_outputs(encoder)["sequence_output"]
    inputs = dict(encoder.input)
    positions = None
    if not all_positions:
        positions = keras.Input((None,), dtype="int32", name="mask_positions")
        inputs["mask_positions"] = positions
    embedding = encoder.get_layer("embedding")
    config = encoder_config(encoder)
    return inputs, mlm_logits(config, embedding, x, positions, activation)
