"""The loss of each kind of head, by transformers and by kbert's users."""

import keras
import numpy as np
from keras import ops

import kbert

_CROSS_ENTROPY = keras.losses.SparseCategoricalCrossentropy


def make_labels(head, inputs):
    """transformers' arguments, and labels and weights for a Keras model."""
    rng = np.random.default_rng(1)
    mask = inputs["padding_mask"]
    rows, length = mask.shape
    some = mask * (np.arange(length) % 2 == 0)  # at least the first of each
    tokens = rng.integers(5, 50, mask.shape)
    pair = rng.integers(0, 2, rows)
    if head == "ForSequenceClassification":
        labels = rng.integers(0, 3, rows)
        return {"labels": labels}, labels, None
    if head == "ForTokenClassification":
        labels = rng.integers(0, 3, mask.shape)
        return {"labels": np.where(mask, labels, -100)}, labels, mask
    if head == "ForQuestionAnswering":
        start, end = rng.integers(0, length, (2, rows))
        theirs = {"start_positions": start, "end_positions": end}
        return theirs, {"start": start, "end": end}, None
    masked = {"labels": np.where(some, tokens, -100)}
    if head == "ForMaskedLM":
        return masked, tokens, some
    theirs = masked | {
        "next_sentence_label": pair,
        "sentence_order_label": pair,
    }
    return theirs, {"mlm": tokens, "nsp": pair}, {"mlm": some, "nsp": None}


def their_loss(model, inputs, labels):
    """The loss that transformers' model computes itself."""
    import inspect

    import torch

    known = inspect.signature(model.forward).parameters
    given = {
        "input_ids": inputs["token_ids"],
        "attention_mask": inputs["padding_mask"],
        **labels,
    }
    if "type_vocab_size" in model.config.to_dict():
        given["token_type_ids"] = inputs["segment_ids"]
    given = {
        name: torch.tensor(value).long()
        for name, value in given.items()
        if name in known
    }
    with torch.no_grad():
        return float(model(**given).loss)


def our_loss(outputs, labels, weights):
    """The loss that `compile` and `fit` would compute of a model's outputs."""
    if "mlm" in outputs:
        mlm = kbert.losses.MaskedLMLoss()
        nsp = kbert.losses.NextSentenceLoss()
        return float(
            mlm(labels["mlm"], outputs["mlm"], weights["mlm"])
            + nsp(labels["nsp"], outputs["nsp"])
        )
    if "start" in outputs:
        loss = _CROSS_ENTROPY(from_logits=True)
        return float(
            ops.mean([loss(labels[key], outputs[key]) for key in labels])
        )
    if weights is None:
        return float(
            _CROSS_ENTROPY(from_logits=True)(labels, outputs["logits"])
        )
    loss = _CROSS_ENTROPY(from_logits=True, reduction="mean_with_sample_weight")
    return float(loss(labels, outputs["logits"], weights))
