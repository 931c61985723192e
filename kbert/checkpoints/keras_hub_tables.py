"""KerasHub's backbones: what they compute, and their variables. Data only.

The left side of a row is the path of a backbone's variable, the right side
kbert's.
"""

import dataclasses

from kbert.checkpoints.mapping import Row

# Whatever lies in a block: ours → theirs.
_BLOCK = {
    "attention/query": "self_attention_layer/query",
    "attention/key": "self_attention_layer/key",
    "attention/value": "self_attention_layer/value",
    "attention/output_dense": "self_attention_layer/attention_output",
    "attention_layer_norm": "self_attention_layer_norm",
    "intermediate": "feedforward_intermediate_dense",
    "output_dense": "feedforward_output_dense",
    "output_layer_norm": "feedforward_layer_norm",
}


def _layer(tensor: str, variable: str) -> tuple[Row, ...]:
    """Rows of a dense layer or a layer normalisation."""
    is_norm = variable.endswith("layer_norm")
    # Only attention's own layers have an axis for the heads.
    reshape = "attention/" in variable
    return tuple(
        Row(f"{tensor}/{word}", f"{variable}/{word}", reshape=reshape)
        for word in (("gamma", "beta") if is_norm else ("kernel", "bias"))
    )


def _blocks(prefix: str) -> tuple[Row, ...]:
    rows: list[Row] = []
    for ours, theirs in _BLOCK.items():
        rows += _layer(prefix + theirs, "encoder_block_{i}/" + ours)
    return tuple(rows)


def _embeddings(prefix: str = "", segment: str = "segment_embedding"):
    return (
        *(
            Row(f"{theirs}/embeddings", f"embedding/{ours}/embeddings")
            for ours, theirs in {
                "token": prefix + "token_embedding",
                "position": prefix + "position_embedding",
                "segment": segment,
            }.items()
            if theirs
        ),
        *_layer("embeddings_layer_norm", "embedding/layer_norm"),
    )


@dataclasses.dataclass(frozen=True)
class Backbone:
    """One class of backbones.

    Args:
        class_name: in `keras_hub.models`.
        rows: of its variables.
        activation: that it computes, in kbert's word.
        layer_norm_epsilon: that it adds.
        has_pooler: whether it has one, always or never.
        has_segments: whether it has a segment table, always or never.
        vocabulary_argument: its constructor's word for the vocabulary's size.
        family_values: fields of `EncoderConfig` that a backbone leaves open,
            as published for its family.
    """

    class_name: str
    rows: tuple[Row, ...]
    activation: str
    layer_norm_epsilon: float
    has_pooler: bool
    has_segments: bool
    vocabulary_argument: str = "vocabulary_size"
    family_values: dict[str, int] = dataclasses.field(default_factory=dict)


_POOLER = _layer("pooled_dense", "pooler/dense")
_BLOCKS = _blocks("transformer_layer_{i}/")
# KerasHub leaves out the two rows of positions and the one of segments that
# RoBERTa's files have; `kbert.kerashub` adds them.
_ROBERTA_VALUES = {"position_offset": 2, "num_segments": 1, "pad_token_id": 1}

BERT = Backbone(
    class_name="BertBackbone",
    rows=(*_embeddings(), *_BLOCKS, *_POOLER),
    activation="gelu_tanh",
    layer_norm_epsilon=1e-12,
    has_pooler=True,
    has_segments=True,
)
ROBERTA = Backbone(
    class_name="RobertaBackbone",
    rows=(*_embeddings("embeddings/"), *_BLOCKS),
    activation="gelu",
    layer_norm_epsilon=1e-5,
    has_pooler=False,
    has_segments=False,
    family_values=_ROBERTA_VALUES,
)
DISTILBERT = Backbone(
    class_name="DistilBertBackbone",
    rows=(
        *_embeddings("token_and_position_embedding/", segment=""),
        *_BLOCKS,
    ),
    activation="gelu",
    layer_norm_epsilon=1e-12,
    has_pooler=False,
    has_segments=False,
    family_values={"num_segments": 0},
)
ALBERT = Backbone(
    class_name="AlbertBackbone",
    rows=(
        *_embeddings(),
        *_layer("embedding_projection", "embedding/projection"),
        *_blocks("group_{g}_inner_layer_{j}/"),
        *_POOLER,
    ),
    activation="gelu_tanh",
    layer_norm_epsilon=1e-12,
    has_pooler=True,
    has_segments=True,
)
ELECTRA = Backbone(
    class_name="ElectraBackbone",
    rows=(
        *_embeddings(),
        *_layer("embeddings_projection", "embedding/projection"),
        *_BLOCKS,
        *_POOLER,
    ),
    activation="gelu_tanh",
    layer_norm_epsilon=1e-12,
    has_pooler=True,
    has_segments=True,
    vocabulary_argument="vocab_size",
)

# `EncoderConfig.family` → its backbone.
BACKBONES = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": dataclasses.replace(
        ROBERTA, class_name="XLMRobertaBackbone"
    ),
    "distilbert": DISTILBERT,
    "albert": ALBERT,
    "electra": ELECTRA,
}
