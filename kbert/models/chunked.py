"""A classifier of documents longer than the encoder reads at once."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from kbert.layers import ChunkPooling, MergeChunks, SplitChunks
from kbert.models.builders import build_classifier
from kbert.models.parts import layer_dtype


def build_chunked_classifier(
    encoder: keras.Model,
    num_classes: int,
    aggregate: str = "mean",
    *,
    hidden_dropout: float | None = None,
    label_names: Sequence[str] | None = None,
    problem_type: str | None = None,
    pooling: str | None = None,
    name: str = "chunked_classifier",
) -> keras.Model:
    """Build a classifier that reads a document in chunks, all of them.

    Every chunk goes through the encoder by itself, positions starting anew,
    to the vector that the head of `build_classifier` would read. The head
    then reads one vector a document, which is made of those of its chunks
    that have a real token. All of it is one graph: gradients reach each
    chunk. Memory in training grows with batch size times chunks;
    `data.chunked_dataset` bounds them by `max_chunks`.

    For a document of one chunk the logits are those of `build_classifier`
    with the same weights (with "attention" too).

    `save_pretrained` refuses the model, since a checkpoint in Hugging Face's
    layout cannot say that there are chunks: save it with `model.save`.

    Args:
        encoder: a model of `build_encoder` or `load_encoder`. It is not
            copied: training the classifier trains it.
        num_classes: number C of outputs.
        aggregate: "mean" or "max" over the vectors of the chunks, or
            "attention", an average whose weights are learned; see
            `layers.ChunkPooling`.
        hidden_dropout: as in `build_classifier`, like the following.
        label_names: C names, kept in the model.
        problem_type: kept likewise.
        pooling: "cls" or "mean" for the vector of a chunk; None for what the
            encoder's family does.
        name: of the model.

    Returns:
        A `keras.Model` with the encoder's inputs, int32 (B, K, S) for K
        chunks of S tokens, and one output, the logits, float32 (B, C).
        `padding_mask` tells real chunks by their tokens: one without any has
        no influence.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: as `build_classifier`, or if `aggregate` is unknown.

    Example:
        >>> import numpy as np, kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_chunked_classifier(encoder, num_classes=3)
        >>> ids = np.array([[[101, 7592, 102], [101, 2088, 102]]])
        >>> inputs = {"token_ids": ids, "segment_ids": 0 * ids,
        ...           "padding_mask": 0 * ids + 1}
        >>> model.predict(inputs, verbose=0).shape
        (1, 3)

    References:
        Sun et al., 2019, https://arxiv.org/abs/1905.05583, section 5.3.1;
        Pappagari et al., 2019, https://arxiv.org/abs/1910.10781
    """
    plain = build_classifier(
        encoder,
        num_classes,
        hidden_dropout=hidden_dropout,
        label_names=label_names,
        problem_type=problem_type,
        pooling=pooling,
    )
    head = plain.get_layer("classifier")
    to_vectors = keras.Model(plain.input, head.input)
    inputs, vectors = on_chunks(to_vectors)
    pool = ChunkPooling(
        aggregate, dtype=layer_dtype(encoder), name="chunk_pooling"
    )
    document = pool(vectors, inputs["padding_mask"])
    return keras.Model(inputs, head(document), name=name)


def on_chunks(
    model: keras.Model, run: Callable[..., Any] | None = None
) -> tuple[dict[str, keras.KerasTensor], keras.KerasTensor]:
    """Apply a model of single texts to rows of K texts.

    Args:
        model: whose inputs are a dict of (B, S), and whose output is (B, D).
        run: what applies it to such inputs; None for the model's own layers
            in one graph.

    Returns:
        New inputs (B, K, S) of the same names, and the outputs (B, K, D).
    """
    inputs = {
        key: keras.Input((None, *x.shape[1:]), dtype=x.dtype, name=key)
        for key, x in model.input.items()
    }
    merge = MergeChunks(name="merge_chunks")
    # `call` applies each layer again; calling the model would nest it, and
    # change the paths of its variables.
    run = model.call if run is None else run
    vectors = run({key: merge(x) for key, x in inputs.items()})
    split = SplitChunks(name="split_chunks")
    return inputs, split(vectors, inputs["padding_mask"])


def is_chunked(model: keras.Model) -> bool:
    """Return whether a model is one of `build_chunked_classifier`."""
    return any(isinstance(x, ChunkPooling) for x in model.layers)
