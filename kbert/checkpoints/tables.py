"""Names of tensors in foreign checkpoints: data only.

The left side is Hugging Face transformers' name without the model's prefix, the
right side kbert's variable path. Google's names are in `tf_tables.py`.
"""

import dataclasses

from kbert.checkpoints.mapping import Row


@dataclasses.dataclass(frozen=True)
class Table:
    """All names of one family.

    Args:
        prefix: what a task model's file puts before the encoder's names.
        anchor: an encoder tensor that every file has; finds the prefix.
        encoder: rows of the encoder.
        heads: name of a head → rows of its layers, whose names in the file
            have no prefix. A pretrainer has the heads "mlm" and "nsp".
        architectures: name of the head, "pretrainer", or "" for none → the
            class name that transformers' config.json gives.
        tied: names that only repeat another tensor → that tensor's name.
        mlm_activation: of the masked-language head where it is always this
            one, whatever the encoder's is; or None.
        ignored: regular expressions of names that hold no weight.
        required: a regular expression of names that are all to be used.
        aliases: other starts of names that some files have → ours.
        roles: of a family whose files may hold two encoders: head → what the
            scope of its encoder begins with, "" for every other head.
        head_size: width of an attention head where it is always this one,
            so that tensors tell all sizes and a config may be absent; or None.
    """

    prefix: str
    anchor: str
    encoder: tuple[Row, ...]
    heads: dict[str, tuple[Row, ...]]
    architectures: dict[str, str]
    ignored: tuple[str, ...]
    required: str
    tied: dict[str, str]
    mlm_activation: str | None = None
    aliases: dict[str, str] = dataclasses.field(default_factory=dict)
    roles: dict[str, str] = dataclasses.field(default_factory=dict)
    head_size: int | None = None


def linear(tensor: str, variable: str) -> tuple[Row, Row]:
    """Rows of a dense layer."""
    return (
        Row(f"{tensor}.weight", f"{variable}/kernel", transpose=True),
        Row(f"{tensor}.bias", f"{variable}/bias"),
    )


def _layer_norm(tensor: str, variable: str) -> tuple[Row, Row]:
    return (
        Row(f"{tensor}.weight", f"{variable}/gamma"),
        Row(f"{tensor}.bias", f"{variable}/beta"),
    )


def _table(tensor: str, variable: str) -> tuple[Row]:
    return (Row(f"{tensor}.weight", f"{variable}/embeddings"),)


def embeddings() -> tuple[Row, ...]:
    """Rows of BERT's tables and their normalisation."""
    return (
        *_table("embeddings.word_embeddings", "embedding/token"),
        *_table("embeddings.position_embeddings", "embedding/position"),
        *_table("embeddings.token_type_embeddings", "embedding/segment"),
        *_layer_norm("embeddings.LayerNorm", "embedding/layer_norm"),
    )


def blocks(prefix: str, names: dict[str, str]) -> tuple[Row, ...]:
    """Rows of one block; `names` is ours → theirs."""
    rows: list[Row] = []
    for ours, theirs in names.items():
        make = _layer_norm if ours.endswith("layer_norm") else linear
        rows += make(prefix + theirs, "encoder_block_{i}/" + ours)
    return tuple(rows)


_BERT_BLOCKS = blocks(
    "encoder.layer.{i}.",
    {
        "attention/query": "attention.self.query",
        "attention/key": "attention.self.key",
        "attention/value": "attention.self.value",
        "attention/output_dense": "attention.output.dense",
        "attention_layer_norm": "attention.output.LayerNorm",
        "intermediate": "intermediate.dense",
        "output_dense": "output.dense",
        "output_layer_norm": "output.LayerNorm",
    },
)
_DISTILBERT_BLOCKS = blocks(
    "transformer.layer.{i}.",
    {
        "attention/query": "attention.q_lin",
        "attention/key": "attention.k_lin",
        "attention/value": "attention.v_lin",
        "attention/output_dense": "attention.out_lin",
        "attention_layer_norm": "sa_layer_norm",
        "intermediate": "ffn.lin1",
        "output_dense": "ffn.lin2",
        "output_layer_norm": "output_layer_norm",
    },
)
_ALBERT_BLOCKS = blocks(
    "encoder.albert_layer_groups.{g}.albert_layers.{j}.",
    {
        "attention/query": "attention.query",
        "attention/key": "attention.key",
        "attention/value": "attention.value",
        "attention/output_dense": "attention.dense",
        "attention_layer_norm": "attention.LayerNorm",
        "intermediate": "ffn",
        "output_dense": "ffn_output",
        "output_layer_norm": "full_layer_layer_norm",
    },
)

# Buffers of 0, 1, 2, … and of 0 that old versions of transformers saved.
_BUFFERS = (r"embeddings\.(position_ids|token_type_ids)",)
_ANCHOR = "embeddings.word_embeddings.weight"
# One linear layer from the pooled output.
_ONE_LAYER = linear("classifier", "classifier/logits")
# A dense layer of its own on the first token's state.
_TWO_LAYERS = (
    *linear("classifier.dense", "classifier/dense"),
    *linear("classifier.out_proj", "classifier/logits"),
)
_TOKENS = linear("classifier", "token_classifier/logits")
_SPAN = linear("qa_outputs", "span/logits")


def _mlm(dense: str, layer_norm: str, bias: str) -> tuple[Row, ...]:
    return (
        *linear(dense, "mlm/dense"),
        *_layer_norm(layer_norm, "mlm/layer_norm"),
        Row(bias, "mlm_bias/bias"),
    )


def _architectures(name: str) -> dict[str, str]:
    return {
        "": name + "Model",
        "classifier": name + "ForSequenceClassification",
        "token_classifier": name + "ForTokenClassification",
        "span": name + "ForQuestionAnswering",
        "mlm": name + "ForMaskedLM",
        "pretrainer": name + "ForPreTraining",
    }


BERT = Table(
    prefix="bert.",
    anchor=_ANCHOR,
    encoder=(
        *embeddings(),
        *_BERT_BLOCKS,
        *linear("pooler.dense", "pooler/dense"),
    ),
    heads={
        "classifier": _ONE_LAYER,
        "token_classifier": _TOKENS,
        "span": _SPAN,
        "mlm": _mlm(
            "cls.predictions.transform.dense",
            "cls.predictions.transform.LayerNorm",
            "cls.predictions.bias",
        ),
        "nsp": linear("cls.seq_relationship", "nsp/logits"),
    },
    architectures=_architectures("Bert"),
    ignored=_BUFFERS,
    required=r"(embeddings|encoder)\.",
    tied={
        "cls.predictions.decoder.weight": _ANCHOR,
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
)


def _roberta(name: str) -> Table:
    return dataclasses.replace(
        BERT,
        prefix="roberta.",
        heads={
            "classifier": _TWO_LAYERS,
            "token_classifier": _TOKENS,
            "span": _SPAN,
            "mlm": _mlm("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
        },
        architectures=_architectures(name),
        tied={
            "lm_head.decoder.weight": _ANCHOR,
            "lm_head.decoder.bias": "lm_head.bias",
        },
        mlm_activation="gelu",
    )


ROBERTA = _roberta("Roberta")
DISTILBERT = Table(
    prefix="distilbert.",
    anchor=_ANCHOR,
    encoder=(
        *_table("embeddings.word_embeddings", "embedding/token"),
        *_table("embeddings.position_embeddings", "embedding/position"),
        *_layer_norm("embeddings.LayerNorm", "embedding/layer_norm"),
        *_DISTILBERT_BLOCKS,
    ),
    heads={
        "classifier": (
            *linear("pre_classifier", "classifier/dense"),
            *linear("classifier", "classifier/logits"),
        ),
        "token_classifier": _TOKENS,
        "span": _SPAN,
        "mlm": _mlm(
            "vocab_transform", "vocab_layer_norm", "vocab_projector.bias"
        ),
    },
    architectures=_architectures("DistilBert"),
    ignored=_BUFFERS,
    required=r"(embeddings|transformer)\.",
    tied={"vocab_projector.weight": _ANCHOR},
)
ALBERT = Table(
    prefix="albert.",
    anchor=_ANCHOR,
    encoder=(
        *embeddings(),
        *linear("encoder.embedding_hidden_mapping_in", "embedding/projection"),
        *_ALBERT_BLOCKS,
        *linear("pooler", "pooler/dense"),
    ),
    heads={
        "classifier": _ONE_LAYER,
        "token_classifier": _TOKENS,
        "span": _SPAN,
        "mlm": _mlm(
            "predictions.dense", "predictions.LayerNorm", "predictions.bias"
        ),
        "nsp": linear("sop_classifier.classifier", "nsp/logits"),
    },
    architectures=_architectures("Albert"),
    ignored=_BUFFERS,
    required=r"(embeddings|encoder)\.",
    tied={
        "predictions.decoder.weight": _ANCHOR,
        "predictions.decoder.bias": "predictions.bias",
    },
)
ELECTRA = Table(
    prefix="electra.",
    anchor=_ANCHOR,
    encoder=(
        *embeddings(),
        *linear("embeddings_project", "embedding/projection"),
        *_BERT_BLOCKS,
    ),
    heads={
        "classifier": _TWO_LAYERS,
        "token_classifier": _TOKENS,
        "span": _SPAN,
        "mlm": _mlm(
            "generator_predictions.dense",
            "generator_predictions.LayerNorm",
            "generator_lm_head.bias",
        ),
        "replaced_token": (
            *linear("discriminator_predictions.dense", "replaced_token/dense"),
            *linear(
                "discriminator_predictions.dense_prediction",
                "replaced_token/logits",
            ),
        ),
    },
    architectures=_architectures("Electra")
    | {"replaced_token": "ElectraForPreTraining"},
    ignored=_BUFFERS,
    required=r"(embeddings|encoder|embeddings_project)\.",
    tied={"generator_lm_head.weight": _ANCHOR},
    mlm_activation="gelu",
    roles={"mlm": "generator", "": "discriminator"},
)
MPNET = Table(
    prefix="mpnet.",
    anchor=_ANCHOR,
    encoder=(
        *_table("embeddings.word_embeddings", "embedding/token"),
        *_table("embeddings.position_embeddings", "embedding/position"),
        *_layer_norm("embeddings.LayerNorm", "embedding/layer_norm"),
        *_table("encoder.relative_attention_bias", "relative_bias"),
        *blocks(
            "encoder.layer.{i}.",
            {
                "attention/query": "attention.attn.q",
                "attention/key": "attention.attn.k",
                "attention/value": "attention.attn.v",
                "attention/output_dense": "attention.attn.o",
                "attention_layer_norm": "attention.LayerNorm",
                "intermediate": "intermediate.dense",
                "output_dense": "output.dense",
                "output_layer_norm": "output.LayerNorm",
            },
        ),
        *linear("pooler.dense", "pooler/dense"),
    ),
    heads=ROBERTA.heads,
    architectures=_architectures("MPNet"),
    ignored=_BUFFERS,
    required=r"(embeddings|encoder)\.",
    tied=ROBERTA.tied,
    mlm_activation="gelu",
)


def _fused(tensor: str, *variables: str) -> tuple[Row, ...]:
    """Rows of kernels that a file keeps in one tensor."""
    count = len(variables)
    return tuple(
        Row(f"{tensor}.weight", f"{name}/kernel", True, part=(i, count))
        for i, name in enumerate(variables)
    )


def _kernel(tensor: str, variable: str) -> Row:
    return Row(f"{tensor}.weight", f"{variable}/kernel", transpose=True)


def _gamma(tensor: str, variable: str) -> Row:
    return Row(f"{tensor}.weight", f"{variable}/gamma")


_MODERNBERT_TRANSFORM = (
    _kernel("head.dense", "transform/dense"),
    _gamma("head.norm", "transform/layer_norm"),
)
MODERNBERT = Table(
    prefix="model.",
    anchor="embeddings.tok_embeddings.weight",
    encoder=(
        *_table("embeddings.tok_embeddings", "embedding/token"),
        _gamma("embeddings.norm", "embedding/layer_norm"),
        _gamma(
            "layers.{i}.attn_norm", "encoder_block_{i}/attention_layer_norm"
        ),
        *_fused(
            "layers.{i}.attn.Wqkv",
            "encoder_block_{i}/attention/query",
            "encoder_block_{i}/attention/key",
            "encoder_block_{i}/attention/value",
        ),
        _kernel(
            "layers.{i}.attn.Wo", "encoder_block_{i}/attention/output_dense"
        ),
        _gamma("layers.{i}.mlp_norm", "encoder_block_{i}/output_layer_norm"),
        *_fused(
            "layers.{i}.mlp.Wi",
            "encoder_block_{i}/intermediate",
            "encoder_block_{i}/gate",
        ),
        _kernel("layers.{i}.mlp.Wo", "encoder_block_{i}/output_dense"),
        _gamma("final_norm", "final_layer_norm"),
    ),
    heads={
        "classifier": (*_MODERNBERT_TRANSFORM, *_ONE_LAYER),
        "token_classifier": (*_MODERNBERT_TRANSFORM, *_TOKENS),
        "span": (
            *_MODERNBERT_TRANSFORM,
            *linear("classifier", "span/logits"),
        ),
        "mlm": (
            _kernel("head.dense", "mlm/dense"),
            _gamma("head.norm", "mlm/layer_norm"),
            Row("decoder.bias", "mlm_bias/bias"),
        ),
    },
    architectures=_architectures("ModernBert"),
    ignored=(),
    required=r"(embeddings|layers|final_norm)\.",
    tied={"decoder.weight": "embeddings.tok_embeddings.weight"},
    mlm_activation="gelu",
)
DEBERTA_V2 = Table(
    prefix="deberta.",
    anchor=_ANCHOR,
    encoder=(
        *embeddings(),
        *_table("encoder.rel_embeddings", "relative_embedding"),
        *_layer_norm("encoder.LayerNorm", "relative_embedding/layer_norm"),
        *blocks(
            "encoder.layer.{i}.",
            {
                "attention/query": "attention.self.query_proj",
                "attention/key": "attention.self.key_proj",
                "attention/value": "attention.self.value_proj",
                "attention/output_dense": "attention.output.dense",
                "attention_layer_norm": "attention.output.LayerNorm",
                "intermediate": "intermediate.dense",
                "output_dense": "output.dense",
                "output_layer_norm": "output.LayerNorm",
            },
        ),
    ),
    heads={
        "classifier": (
            *linear("pooler.dense", "classifier/dense"),
            *linear("classifier", "classifier/logits"),
        ),
        "token_classifier": _TOKENS,
        "span": _SPAN,
        "mlm": BERT.heads["mlm"],
    },
    architectures=_architectures("DebertaV2"),
    # The head of the replaced-token objective that Microsoft's files keep.
    ignored=(*_BUFFERS, r"mask_predictions\..*"),
    required=r"(embeddings|encoder)\.",
    tied=BERT.tied,
    # Microsoft's own names, and transformers' with `legacy: false`.
    aliases={
        "lm_predictions.lm_head.bias": "cls.predictions.bias",
        "lm_predictions.lm_head.": "cls.predictions.transform.",
    },
)

# `EncoderConfig.family` → its table.
TABLES = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": _roberta("XLMRoberta"),
    "camembert": _roberta("Camembert"),
    "distilbert": DISTILBERT,
    "albert": ALBERT,
    "electra": ELECTRA,
    "mpnet": MPNET,
    "modernbert": MODERNBERT,
    "deberta-v2": DEBERTA_V2,
}
