"""Sentence encoders: one vector a text."""

from collections.abc import Mapping, Sequence

import keras

from kbert.layers import MiniBatches, SentenceHead, SentencePooling
from kbert.models.chunked import on_chunks
from kbert.models.packed import refuse_packed
from kbert.models.parts import encoder_outputs

# The layer that is a sentence encoder's last.
HEAD = "sentence"


def build_sentence_encoder(
    encoder: keras.Model,
    pooling: str | Sequence[str] = "mean",
    *,
    normalize: bool = True,
    dense: Sequence[keras.layers.Dense] = (),
    similarity: str = "cosine",
    prompts: Mapping[str, str] | None = None,
    default_prompt_name: str | None = None,
    max_length: int | None = None,
    name: str = "sentence_encoder",
) -> keras.Model:
    """Build an encoder of whole texts, for search and similarity.

    Args:
        encoder: a model of `build_encoder` or `load_encoder`. It is not
            copied: training the sentence encoder trains it.
        pooling: from the states of all tokens to one vector: a mode of
            `SentencePooling`, or a list of modes whose vectors are
            concatenated.
        normalize: whether vectors get length 1.
        dense: layers that project the pooled vector, first to last.
        similarity: how vectors are meant to be compared: "cosine", "dot",
            "euclidean" or "manhattan".
        prompts: name → what goes before a text; see `pipelines.Embedder`.
        default_prompt_name: the prompt of texts for which none is named.
        max_length: most tokens in a text; None for the model's positions.
        name: of the model.

    Returns:
        A `keras.Model` with the encoder's inputs and one output, the
        vectors, float32 (B, D) whatever the encoder computes in. It has no
        pooler. `similarity`, `prompts`, `default_prompt_name` and
        `max_length` are kept in its last layer, `SentenceHead`, and so in
        saved files.

    Raises:
        TypeError: if an entry of `dense` is no `keras.layers.Dense`.
        ValueError: if `encoder` is no kbert encoder, or packed, or an
            option is unknown.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_sentence_encoder(encoder)
        >>> model.output_shape
        (None, 128)

    References:
        Reimers & Gurevych, 2019, https://arxiv.org/abs/1908.10084
    """
    refuse_packed(encoder, "a sentence encoder")
    x = encoder_outputs(encoder)["sequence_output"]
    pool = SentencePooling(pooling, dtype="float32", name="pooling")
    x = pool(x, padding_mask=encoder.input["padding_mask"])
    for layer in dense:
        if not isinstance(layer, keras.layers.Dense):
            raise TypeError(
                "`dense` must hold keras.layers.Dense layers. Received: "
                f"{layer!r}"
            )
        x = layer(x)
    head = SentenceHead(
        normalize=normalize,
        similarity=similarity,
        prompts=prompts,
        default_prompt_name=default_prompt_name,
        max_length=max_length,
        name=HEAD,
    )
    return keras.Model(encoder.input, head(x), name=name)


def build_pair_encoder(
    sentence_encoder: keras.Model,
    *,
    mini_batch_size: int | None = None,
    name: str = "pair_encoder",
) -> keras.Model:
    """Build what trains a sentence encoder: vectors of K texts a row.

    A row holds a pair, or a text with what is like it and what is not:
    batches of `data.sentence_pair_dataset`, for the losses on vectors, such
    as `losses.MultipleNegativesRankingLoss`.

    Args:
        sentence_encoder: a model of `build_sentence_encoder` or
            `load_sentence_encoder`. It is not copied: training the pair
            encoder trains it. Embed with it, and save it, afterwards.
        mini_batch_size: how many texts go through the encoder at a time,
            for batches whose activations are more than memory holds: see
            `layers.MiniBatches`. None for all.
        name: of the model.

    Returns:
        A `keras.Model` with the sentence encoder's inputs, int32 (B, K, S)
        for K texts of S tokens, and one output, float32 (B, K, D). A text
        that is all padding gets 0 where the pooling does so.

    Raises:
        ValueError: if `sentence_encoder` is none.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> sentences = kbert.build_sentence_encoder(encoder)
        >>> model = kbert.build_pair_encoder(sentences)
        >>> model.output_shape
        (None, None, 128)

    References:
        Reimers & Gurevych, 2019, https://arxiv.org/abs/1908.10084, section 3
    """
    if not is_sentence_encoder(sentence_encoder):
        raise ValueError(
            "`sentence_encoder` must be a model of build_sentence_encoder or "
            f"load_sentence_encoder. Received: {sentence_encoder!r}"
        )
    run = None
    if mini_batch_size is not None:
        run = MiniBatches(sentence_encoder, mini_batch_size, name="sentences")
    inputs, vectors = on_chunks(sentence_encoder, run)
    return keras.Model(inputs, vectors, name=name)


def is_sentence_encoder(model: keras.Model) -> bool:
    """Return whether a model gives one vector a text: no pair encoder."""
    return sentence_layers(model) is not None and len(model.output.shape) == 2


def sentence_layers(
    model: keras.Model,
) -> tuple[SentencePooling, list[keras.layers.Dense], SentenceHead] | None:
    """Return the layers that `build_sentence_encoder` put on an encoder.

    Args:
        model: any model.

    Returns:
        The pooling, the dense layers in order and the head; None if the
        model is no sentence encoder.
    """
    heads = [x for x in model.layers if isinstance(x, SentenceHead)]
    pools = [x for x in model.layers if isinstance(x, SentencePooling)]
    if len(heads) != 1 or len(pools) != 1:
        return None
    # Functional models list layers in the order of the graph.
    start, end = (model.layers.index(x) for x in (pools[0], heads[0]))
    between = model.layers[start + 1 : end]
    dense = [x for x in between if isinstance(x, keras.layers.Dense)]
    return pools[0], dense, heads[0]
