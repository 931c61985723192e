"""Names of tensors in foreign checkpoints: data only.

The left side is Hugging Face transformers' name without the model's prefix, or
Google's in the tables `…_TF`; the right side kbert's variable path.
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
    },
    architectures=_architectures("Electra"),
    ignored=_BUFFERS,
    required=r"(embeddings|encoder|embeddings_project)\.",
    tied={"generator_lm_head.weight": _ANCHOR},
    mlm_activation="gelu",
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

# `EncoderConfig.family` → the table of its TensorFlow 1 checkpoints.
TF_TABLES = {"bert": BERT_TF, "albert": ALBERT_TF}
