"""Names of tensors in foreign checkpoints: data only.

The left side is Hugging Face transformers' name without the model's prefix, or
Google's in the tables `…_TF`; the right side kbert's variable path.
"""

import dataclasses
import re
from collections.abc import Iterable

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


def _linear(tensor: str, variable: str) -> tuple[Row, Row]:
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


def _embeddings() -> tuple[Row, ...]:
    return (
        *_table("embeddings.word_embeddings", "embedding/token"),
        *_table("embeddings.position_embeddings", "embedding/position"),
        *_table("embeddings.token_type_embeddings", "embedding/segment"),
        *_layer_norm("embeddings.LayerNorm", "embedding/layer_norm"),
    )


def _blocks(prefix: str, names: dict[str, str]) -> tuple[Row, ...]:
    """Rows of one block; `names` is ours → theirs."""
    rows: list[Row] = []
    for ours, theirs in names.items():
        make = _layer_norm if ours.endswith("layer_norm") else _linear
        rows += make(prefix + theirs, "encoder_block_{i}/" + ours)
    return tuple(rows)


_BERT_BLOCKS = _blocks(
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
_DISTILBERT_BLOCKS = _blocks(
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
_ALBERT_BLOCKS = _blocks(
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
_ONE_LAYER = _linear("classifier", "classifier/logits")
# A dense layer of its own on the first token's state.
_TWO_LAYERS = (
    *_linear("classifier.dense", "classifier/dense"),
    *_linear("classifier.out_proj", "classifier/logits"),
)
_TOKENS = _linear("classifier", "token_classifier/logits")
_SPAN = _linear("qa_outputs", "span/logits")


def _mlm(dense: str, layer_norm: str, bias: str) -> tuple[Row, ...]:
    return (
        *_linear(dense, "mlm/dense"),
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
        *_embeddings(),
        *_BERT_BLOCKS,
        *_linear("pooler.dense", "pooler/dense"),
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
        "nsp": _linear("cls.seq_relationship", "nsp/logits"),
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
            *_linear("pre_classifier", "classifier/dense"),
            *_linear("classifier", "classifier/logits"),
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
        *_embeddings(),
        *_linear("encoder.embedding_hidden_mapping_in", "embedding/projection"),
        *_ALBERT_BLOCKS,
        *_linear("pooler", "pooler/dense"),
    ),
    heads={
        "classifier": _ONE_LAYER,
        "token_classifier": _TOKENS,
        "span": _SPAN,
        "mlm": _mlm(
            "predictions.dense", "predictions.LayerNorm", "predictions.bias"
        ),
        "nsp": _linear("sop_classifier.classifier", "nsp/logits"),
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
        *_embeddings(),
        *_linear("embeddings_project", "embedding/projection"),
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
            *_linear("discriminator_predictions.dense", "replaced_token/dense"),
            *_linear(
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
        *_blocks(
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
        *_linear("pooler.dense", "pooler/dense"),
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
            *_linear("classifier", "span/logits"),
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
        *_embeddings(),
        *_table("encoder.rel_embeddings", "relative_embedding"),
        *_layer_norm("encoder.LayerNorm", "relative_embedding/layer_norm"),
        *_blocks(
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
            *_linear("pooler.dense", "classifier/dense"),
            *_linear("classifier", "classifier/logits"),
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


def _google(row: Row) -> Row:
    """Say in Google's words what a row says in Hugging Face's.

    The path is the same with slashes; the last word is that of the variable,
    except that an embedding has none; kernels are (in, out) already.
    """
    path = row.tensor.rpartition(".")[0]
    path = path.replace(".{i}", "_{i}").replace(".", "/")
    word = row.variable.rpartition("/")[2]
    return Row(path if word == "embeddings" else f"{path}/{word}", row.variable)


# TensorFlow 1 checkpoints of google-research/bert.
BERT_TF = Table(
    prefix="bert/",
    anchor="embeddings/word_embeddings",
    encoder=tuple(_google(row) for row in BERT.encoder),
    heads={
        "mlm": (
            *(_google(row) for row in BERT.heads["mlm"][:-1]),
            Row("cls/predictions/output_bias", "mlm_bias/bias"),
        ),
        "nsp": (
            Row(
                "cls/seq_relationship/output_weights",
                "nsp/logits/kernel",
                transpose=True,
            ),
            Row("cls/seq_relationship/output_bias", "nsp/logits/bias"),
        ),
        "span": (
            Row("cls/squad/output_weights", "span/logits/kernel", True),
            Row("cls/squad/output_bias", "span/logits/bias"),
        ),
        # run_classifier.py's own head, which has no scope.
        "classifier": (
            Row("output_weights", "classifier/logits/kernel", transpose=True),
            Row("output_bias", "classifier/logits/bias"),
        ),
    },
    architectures={},  # not written
    # State of the optimisers: of run_pretraining.py, of TensorFlow, LAMB.
    ignored=(
        r"(.*/)?((adam|lamb)_[mv]|AdamWeightDecayOptimizer.*"
        r"|Adam(_\d+)?|LAMB.*)",
        r"global_step|beta[12]_power",
    ),
    required=r"(embeddings|encoder)/",
    tied={},
)

# TensorFlow 1 checkpoints of google-research/albert: BERT's heads, and blocks
# whose scopes are `attention_ffn_block`'s in its modeling.py.
ALBERT_TF = dataclasses.replace(
    BERT_TF,
    encoder=tuple(
        _google(row)
        for row in (
            *_embeddings(),
            *_linear(
                "encoder.embedding_hidden_mapping_in", "embedding/projection"
            ),
            *_blocks(
                "encoder.transformer.group_{g}.inner_group_{j}.",
                {
                    "attention/query": "attention_1.self.query",
                    "attention/key": "attention_1.self.key",
                    "attention/value": "attention_1.self.value",
                    "attention/output_dense": "attention_1.output.dense",
                    "attention_layer_norm": "LayerNorm",
                    "intermediate": "ffn_1.intermediate.dense",
                    "output_dense": "ffn_1.intermediate.output.dense",
                    "output_layer_norm": "LayerNorm_1",
                },
            ),
            *_linear("pooler.dense", "pooler/dense"),
        )
    ),
)

# TensorFlow 1 checkpoints of google-research/electra: the generator's encoder
# lies under `generator/`, and uses the embeddings under `electra/`.
ELECTRA_TF = dataclasses.replace(
    BERT_TF,
    prefix="electra/",
    encoder=tuple(_google(row) for row in ELECTRA.encoder),
    heads={
        "mlm": (
            *(_google(row) for row in ELECTRA.heads["mlm"][:-1]),
            Row("generator_predictions/output_bias", "mlm_bias/bias"),
        ),
        "replaced_token": tuple(
            dataclasses.replace(
                _google(row),
                tensor=_google(row).tensor.replace("_prediction/", "_1/"),
            )
            for row in ELECTRA.heads["replaced_token"]
        ),
    },
    required=r"(embeddings|encoder|embeddings_project)/",
    roles=ELECTRA.roles,
    head_size=64,  # get_bert_config and get_generator_config
)

# `EncoderConfig.family` → the table of its TensorFlow 1 checkpoints.
TF_TABLES = {"bert": BERT_TF, "albert": ALBERT_TF, "electra": ELECTRA_TF}


def is_electra(names: Iterable[str]) -> bool:
    """Return whether a TensorFlow checkpoint has ELECTRA's names."""
    return any(re.search(r"(^|/)electra/encoder/", name) for name in names)
