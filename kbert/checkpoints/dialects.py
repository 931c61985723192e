"""How each family's config.json says what an `EncoderConfig` says: data only.

`translate.py` reads these rows in both directions.
"""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Dialect:
    """The keys of one family's config.json.

    Args:
        fields: their key → (our field, the value where the key is absent, as
            transformers' config class has it).
        constants: our fields that the family's config does not speak of.
        activation: their key of the activation, and its default.
        head_dropout: their key of a classifier's own dropout, and its default
            (None for the encoder's dropout).
        head_dropout_of: heads that this dropout is for.
        positions_after_padding: whether positions start behind the padding id
            (RoBERTa's `padding_idx + 1`) and the config counts those rows as
            positions.
        equal_sizes_need_no_projection: whether an embedding size that is the
            hidden size means that there is no projection (ELECTRA).
        written: keys that are written as they stand and only read to check
            that kbert computes what they ask for.
        ignorable: keys of this family that say nothing about what is computed.
    """

    fields: dict[str, tuple[str, Any]]
    constants: dict[str, Any] = dataclasses.field(default_factory=dict)
    activation: tuple[str, str] = ("hidden_act", "gelu")
    head_dropout: tuple[str, float | None] = ("classifier_dropout", None)
    head_dropout_of: tuple[str, ...] = ("classifier", "token_classifier")
    positions_after_padding: bool = False
    equal_sizes_need_no_projection: bool = False
    written: dict[str, Any] = dataclasses.field(default_factory=dict)
    ignorable: tuple[str, ...] = ()


_BERT_FIELDS = {
    "vocab_size": ("vocab_size", 30522),
    "hidden_size": ("hidden_size", 768),
    "num_hidden_layers": ("num_layers", 12),
    "num_attention_heads": ("num_heads", 12),
    "intermediate_size": ("intermediate_size", 3072),
    "max_position_embeddings": ("max_positions", 512),
    "type_vocab_size": ("num_segments", 2),
    "layer_norm_eps": ("layer_norm_epsilon", 1e-12),
    "hidden_dropout_prob": ("hidden_dropout", 0.1),
    "attention_probs_dropout_prob": ("attention_dropout", 0.1),
    "initializer_range": ("initializer_range", 0.02),
    "pad_token_id": ("pad_token_id", 0),
}
# Keys that change what a model computes, and the one value kbert builds.
_ENCODER_ONLY = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "is_encoder_decoder": False,
}

BERT = Dialect(
    fields=_BERT_FIELDS,
    written=_ENCODER_ONLY | {"use_bidirectional_attention": True},
)
ROBERTA = Dialect(
    fields=_BERT_FIELDS
    | {
        "vocab_size": ("vocab_size", 50265),
        "pad_token_id": ("pad_token_id", 1),
    },
    positions_after_padding=True,
    written=_ENCODER_ONLY,
)
DISTILBERT = Dialect(
    fields={
        "vocab_size": ("vocab_size", 30522),
        "dim": ("hidden_size", 768),
        "n_layers": ("num_layers", 6),
        "n_heads": ("num_heads", 12),
        "hidden_dim": ("intermediate_size", 3072),
        "max_position_embeddings": ("max_positions", 512),
        "dropout": ("hidden_dropout", 0.1),
        "attention_dropout": ("attention_dropout", 0.1),
        "initializer_range": ("initializer_range", 0.02),
        "pad_token_id": ("pad_token_id", 0),
    },
    constants={"num_segments": 0, "layer_norm_epsilon": 1e-12},
    activation=("activation", "gelu"),
    head_dropout=("seq_classif_dropout", 0.2),
    head_dropout_of=("classifier",),
    # Sinusoidal tables are saved like learned ones; `qa_dropout` is 0.1 in
    # every published config, and the encoder's dropout here.
    ignorable=("sinusoidal_pos_embds", "qa_dropout", "tie_weights_"),
)
ALBERT = Dialect(
    fields=_BERT_FIELDS
    | {
        "vocab_size": ("vocab_size", 30000),
        "embedding_size": ("embedding_size", 128),
        "hidden_size": ("hidden_size", 4096),
        "num_hidden_groups": ("num_layer_groups", 1),
        "inner_group_num": ("layers_per_group", 1),
        "num_attention_heads": ("num_heads", 64),
        "intermediate_size": ("intermediate_size", 16384),
        "hidden_dropout_prob": ("hidden_dropout", 0.0),
        "attention_probs_dropout_prob": ("attention_dropout", 0.0),
    },
    constants={"shared_layers": True},
    activation=("hidden_act", "gelu_new"),
    head_dropout=("classifier_dropout_prob", 0.1),
    head_dropout_of=("classifier", "token_classifier", "nsp"),
    written=_ENCODER_ONLY,
    ignorable=("down_scale_factor", "gap_size", "net_structure_type")
    + ("num_memory_blocks",),
)
ELECTRA = Dialect(
    fields=_BERT_FIELDS
    | {
        "embedding_size": ("embedding_size", 128),
        "hidden_size": ("hidden_size", 256),
        "num_attention_heads": ("num_heads", 4),
        "intermediate_size": ("intermediate_size", 1024),
    },
    equal_sizes_need_no_projection=True,
    written=_ENCODER_ONLY,
    ignorable=("summary_type", "summary_use_proj", "summary_activation")
    + ("summary_last_dropout", "summary_first_dropout"),
)

# transformers' `model_type` → its dialect.
DIALECTS = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "distilbert": DISTILBERT,
    "albert": ALBERT,
    "electra": ELECTRA,
}
