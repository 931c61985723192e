"""Names of variables in Google's TensorFlow 1 checkpoints: data only."""

import dataclasses
import re
from collections.abc import Iterable

from kbert.checkpoints.mapping import Row
from kbert.checkpoints.tables import (
    BERT,
    ELECTRA,
    Table,
    blocks,
    embeddings,
    linear,
)


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
            *embeddings(),
            *linear(
                "encoder.embedding_hidden_mapping_in", "embedding/projection"
            ),
            *blocks(
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
            *linear("pooler.dense", "pooler/dense"),
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
