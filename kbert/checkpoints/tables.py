"""Names of tensors in foreign checkpoints: data only.

The left side is Hugging Face transformers' name without the model's prefix, or
Google's in `BERT_TF`; the right side kbert's variable path.
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
        heads: name of a head layer → rows of the head, whose names in the
            file have no prefix.
        architectures: name of the head layer ("" for none) → the class
            name that transformers' config.json gives.
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


_BLOCK = "encoder.layer.{i}."
_OURS = "encoder_block_{i}/"

BERT = Table(
    prefix="bert.",
    anchor="embeddings.word_embeddings.weight",
    encoder=(
        *_table("embeddings.word_embeddings", "embedding/token"),
        *_table("embeddings.position_embeddings", "embedding/position"),
        *_table("embeddings.token_type_embeddings", "embedding/segment"),
        *_layer_norm("embeddings.LayerNorm", "embedding/layer_norm"),
        *_linear(_BLOCK + "attention.self.query", _OURS + "attention/query"),
        *_linear(_BLOCK + "attention.self.key", _OURS + "attention/key"),
        *_linear(_BLOCK + "attention.self.value", _OURS + "attention/value"),
        *_linear(
            _BLOCK + "attention.output.dense",
            _OURS + "attention/output_dense",
        ),
        *_layer_norm(
            _BLOCK + "attention.output.LayerNorm",
            _OURS + "attention_layer_norm",
        ),
        *_linear(_BLOCK + "intermediate.dense", _OURS + "intermediate"),
        *_linear(_BLOCK + "output.dense", _OURS + "output_dense"),
        *_layer_norm(_BLOCK + "output.LayerNorm", _OURS + "output_layer_norm"),
        *_linear("pooler.dense", "pooler/dense"),
    ),
    heads={"classifier": _linear("classifier", "classifier/logits")},
    architectures={
        "": "BertModel",
        "classifier": "BertForSequenceClassification",
    },
    # Buffers of 0, 1, 2, … and of 0 that old versions of transformers saved.
    ignored=(r"embeddings\.(position_ids|token_type_ids)",),
    required=r"(embeddings|encoder)\.",
)

TABLES = {"bert": BERT}


def _google(row: Row) -> Row:
    """Say in Google's words what a row says in Hugging Face's.

    The path is the same with slashes; the last word is that of the variable,
    except that an embedding has none; kernels are (in, out) already.
    """
    path = row.tensor.rpartition(".")[0]
    path = path.replace(".{i}", "_{i}").replace(".", "/")
    word = row.variable.rpartition("/")[2]
    return Row(path if word == "embeddings" else f"{path}/{word}", row.variable)


# TensorFlow 1 checkpoints of google-research/bert. `cls/…`, the heads of
# pre-training and of SQuAD, is left over and listed as unused.
BERT_TF = Table(
    prefix="bert/",
    anchor="embeddings/word_embeddings",
    encoder=tuple(_google(row) for row in BERT.encoder),
    # run_classifier.py's own head, which has no scope.
    heads={
        "classifier": (
            Row("output_weights", "classifier/logits/kernel", transpose=True),
            Row("output_bias", "classifier/logits/bias"),
        ),
    },
    architectures={},  # not written
    # State of the optimisers: of run_pretraining.py, of TensorFlow, LAMB.
    ignored=(
        r"(.*/)?(adam_[mv]|AdamWeightDecayOptimizer.*|Adam(_\d+)?|LAMB.*)",
        r"global_step|beta[12]_power",
    ),
    required=r"(embeddings|encoder)/",
)
