"""How each family's config.json says what an `EncoderConfig` says.

Rows of data, and a pair of small functions where a family says something in
a way of its own. `translate.py` reads them in both directions.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from kbert.config import EncoderConfig


def _nothing_to_read(config: dict[str, Any], fields: dict[str, Any]) -> None:
    """Every key is a row."""


def _nothing_to_write(config: EncoderConfig, written: dict[str, Any]) -> None:
    """Every key is a row."""


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
        head_pooling: their key of how a classifier pools; None for one way.
        fixed: keys that change what is computed, and the one value kbert
            computes.
        saved: those of `fixed` that are written.
        ignorable: keys of this family that say nothing about what is computed,
            or that `read` takes.
        read: what turns a parsed config into fields beyond the rows: it
            changes the fields that the rows gave.
        write: its inverse: changes the keys that the rows gave.
    """

    fields: dict[str, tuple[str, Any]]
    constants: dict[str, Any] = dataclasses.field(default_factory=dict)
    activation: tuple[str, str] = ("hidden_act", "gelu")
    head_dropout: tuple[str, float | None] = ("classifier_dropout", None)
    head_dropout_of: tuple[str, ...] = ("classifier", "token_classifier")
    head_pooling: str | None = None
    fixed: dict[str, Any] = dataclasses.field(default_factory=dict)
    saved: tuple[str, ...] = ("position_embedding_type",)
    ignorable: tuple[str, ...] = ()
    read: Callable[[dict[str, Any], dict[str, Any]], None] = _nothing_to_read
    write: Callable[[EncoderConfig, dict[str, Any]], None] = _nothing_to_write


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
_ENCODER_ONLY = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "is_encoder_decoder": False,
}

BERT = Dialect(
    fields=_BERT_FIELDS,
    fixed=_ENCODER_ONLY | {"use_bidirectional_attention": True},
)


def _read_roberta(config: dict[str, Any], fields: dict[str, Any]) -> None:
    # Positions start behind the padding id, and the rows before are counted.
    fields["position_offset"] = fields["pad_token_id"] + 1
    fields["max_positions"] -= fields["position_offset"]


def _write_position_offset(
    config: EncoderConfig, written: dict[str, Any]
) -> None:
    written["max_position_embeddings"] += config.position_offset


ROBERTA = Dialect(
    fields=_BERT_FIELDS
    | {
        "vocab_size": ("vocab_size", 50265),
        "pad_token_id": ("pad_token_id", 1),
    },
    fixed=_ENCODER_ONLY,
    read=_read_roberta,
    write=_write_position_offset,
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
    fixed=_ENCODER_ONLY,
    ignorable=("down_scale_factor", "gap_size", "net_structure_type")
    + ("num_memory_blocks",),
)


def _read_electra(config: dict[str, Any], fields: dict[str, Any]) -> None:
    # Equal sizes mean that there is no projection.
    if fields["embedding_size"] == fields["hidden_size"]:
        fields["embedding_size"] = None


def _write_electra(config: EncoderConfig, written: dict[str, Any]) -> None:
    if config.embedding_size is None:
        written["embedding_size"] = config.hidden_size


ELECTRA = Dialect(
    fields=_BERT_FIELDS
    | {
        "embedding_size": ("embedding_size", 128),
        "hidden_size": ("hidden_size", 256),
        "num_attention_heads": ("num_heads", 4),
        "intermediate_size": ("intermediate_size", 1024),
    },
    fixed=_ENCODER_ONLY,
    ignorable=("summary_type", "summary_use_proj", "summary_activation")
    + ("summary_last_dropout", "summary_first_dropout"),
    read=_read_electra,
    write=_write_electra,
)


def _read_mpnet(config: dict[str, Any], fields: dict[str, Any]) -> None:
    # Two rows of the table are unused, whatever the padding id.
    fields["position_offset"] = 2
    fields["max_positions"] -= 2


_MPNET_FIELDS = {k: v for k, v in _BERT_FIELDS.items() if "type_vocab" not in k}
MPNET = Dialect(
    fields=_MPNET_FIELDS
    | {
        "vocab_size": ("vocab_size", 30527),
        "pad_token_id": ("pad_token_id", 1),
        "relative_attention_num_buckets": ("relative_buckets", 32),
    },
    constants={"num_segments": 0, "relative_attention": "bias"},
    fixed=_ENCODER_ONLY,
    saved=(),
    read=_read_mpnet,
    write=_write_position_offset,
)


def _read_modernbert(config: dict[str, Any], fields: dict[str, Any]) -> None:
    """Which layers attend to all tokens, and the bases of their rotation."""
    layers = fields["num_layers"]
    kinds = config.get("layer_types")
    every = config.get("global_attn_every_n_layers", 3)
    if kinds is not None:
        repeats = [i for i, x in enumerate(kinds) if i and x == _GLOBAL]
        every = repeats[0] if repeats else layers
    if not isinstance(every, int) or every < 1:
        raise ValueError(
            "`global_attn_every_n_layers` must be a positive int. Received: "
            f"global_attn_every_n_layers={every!r}"
        )
    every = min(every, layers)
    if kinds is not None and kinds != _layer_types(layers, every):
        raise ValueError(
            "kbert builds encoders whose attention is global in the first "
            "layer and every so many after it. Received: "
            f"layer_types={kinds!r}"
        )
    given = config.get("rope_parameters") or {}
    keys = {_GLOBAL: "global_rope_theta", _LOCAL: "local_rope_theta"}
    bases = {}
    for kind, default in ((_GLOBAL, 160000.0), (_LOCAL, 10000.0)):
        one = given.get(kind) or {}
        if one.get("rope_type", "default") != "default":
            raise ValueError(
                "kbert builds rotary embeddings of rope_type 'default' only. "
                f"Received: rope_parameters={given!r}"
            )
        base = one.get("rope_theta", config.get(keys[kind], default))
        bases[kind] = bases[_GLOBAL] if base is None else base
    fields["rotary_base"] = bases[_GLOBAL]
    window = config.get("local_attention", 128)
    if every > 1:
        fields["global_every"] = every
        fields["local_window"] = window // 2
        fields["local_rotary_base"] = bases[_LOCAL]
    dropouts = {"mlp_dropout": config.get("mlp_dropout", 0.0)}
    dropouts["embedding_dropout"] = fields["hidden_dropout"]
    if len(set(dropouts.values())) > 1:
        raise ValueError(
            "kbert's blocks and embeddings have the same dropout. Received: "
            f"{dropouts}"
        )


_GLOBAL, _LOCAL = "full_attention", "sliding_attention"


def _layer_types(num_layers: int, every: int) -> list[str]:
    return [_LOCAL if i % every else _GLOBAL for i in range(num_layers)]


def _write_modernbert(config: EncoderConfig, written: dict[str, Any]) -> None:
    local_base = config.local_rotary_base or 10000.0
    bases = {_GLOBAL: config.rotary_base, _LOCAL: local_base}
    written |= {
        "layer_types": _layer_types(config.num_layers, config.global_every),
        "rope_parameters": {
            kind: {"rope_theta": base, "rope_type": "default"}
            for kind, base in bases.items()
        },
        # Of versions before 5, for which the bases have no other key either.
        "global_attn_every_n_layers": config.global_every,
        "global_rope_theta": config.rotary_base,
        "local_rope_theta": local_base,
        "local_attention": 2 * (config.local_window or 64),
        "mlp_dropout": config.hidden_dropout,
    }


MODERNBERT = Dialect(
    fields={
        "vocab_size": ("vocab_size", 50368),
        "hidden_size": ("hidden_size", 768),
        "num_hidden_layers": ("num_layers", 22),
        "num_attention_heads": ("num_heads", 12),
        "intermediate_size": ("intermediate_size", 1152),
        "max_position_embeddings": ("max_positions", 8192),
        "norm_eps": ("layer_norm_epsilon", 1e-5),
        "embedding_dropout": ("hidden_dropout", 0.0),
        "attention_dropout": ("attention_dropout", 0.0),
        "initializer_range": ("initializer_range", 0.02),
        "pad_token_id": ("pad_token_id", 50283),
    },
    constants={
        "num_segments": 0,
        "has_position_table": False,
        "has_bias": False,
        "pre_norm": True,
        "gated": True,
    },
    activation=("hidden_activation", "gelu"),
    head_dropout=("classifier_dropout", 0.0),
    head_pooling="classifier_pooling",
    fixed={
        "attention_bias": False,
        "mlp_bias": False,
        "norm_bias": False,
        "decoder_bias": True,
        "classifier_bias": False,
        "classifier_activation": "gelu",
        "rope_scaling": None,
    },
    saved=(),
    # The last two say nothing: some files have them from BERT's.
    ignorable=("layer_types", "rope_parameters", "local_attention")
    + ("global_attn_every_n_layers", "global_rope_theta", "local_rope_theta")
    + ("mlp_dropout", "initializer_cutoff_factor", "deterministic_flash_attn")
    + ("reference_compile", "repad_logits_with_grad", "sparse_prediction")
    + ("sparse_pred_ignore_index", "cls_token_id")
    + ("position_embedding_type", "layer_norm_eps"),
    read=_read_modernbert,
    write=_write_modernbert,
)


def _read_deberta(config: dict[str, Any], fields: dict[str, Any]) -> None:
    distance = config.get("max_relative_positions", -1)
    fields["relative_distance"] = (
        fields["max_positions"] if distance < 1 else distance
    )
    kinds = config.get("pos_att_type", ["p2c", "c2p"])
    if isinstance(kinds, str):
        kinds = kinds.lower().replace(" ", "").split("|")
    if sorted(kinds or ()) != ["c2p", "p2c"]:
        raise ValueError(
            "kbert builds disentangled attention of both kinds only, c2p and "
            f"p2c. Received: pos_att_type={config['pos_att_type']!r}"
        )
    if (
        config.get("embedding_size", fields["hidden_size"])
        != (fields["hidden_size"])
    ):
        raise ValueError(
            "kbert builds this family with embeddings of the hidden size "
            f"only. Received: embedding_size={config['embedding_size']!r}"
        )


def _write_deberta(config: EncoderConfig, written: dict[str, Any]) -> None:
    distance = config.relative_distance
    written["max_relative_positions"] = (
        -1 if distance == config.max_positions else distance
    )
    written["pos_att_type"] = ["p2c", "c2p"]
    if written["cls_dropout"] is None:  # a key that configs have or lack
        del written["cls_dropout"]


DEBERTA_V2 = Dialect(
    fields=_BERT_FIELDS
    | {
        "vocab_size": ("vocab_size", 128100),
        "hidden_size": ("hidden_size", 1536),
        "num_hidden_layers": ("num_layers", 24),
        "num_attention_heads": ("num_heads", 24),
        "intermediate_size": ("intermediate_size", 6144),
        "type_vocab_size": ("num_segments", 0),
        "layer_norm_eps": ("layer_norm_epsilon", 1e-7),
        "position_biased_input": ("has_position_table", True),
        "position_buckets": ("relative_buckets", -1),
    },
    constants={"relative_attention": "disentangled"},
    head_dropout=("cls_dropout", None),
    head_dropout_of=("classifier",),
    fixed={
        "relative_attention": True,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "conv_kernel_size": 0,
        "pooler_dropout": 0,
        "pooler_hidden_act": "gelu",
    },
    saved=("relative_attention", "share_att_key", "norm_rel_ebd"),
    ignorable=("max_relative_positions", "pos_att_type", "embedding_size")
    + ("pooler_hidden_size", "legacy", "position_embedding_type"),
    read=_read_deberta,
    write=_write_deberta,
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
    "mpnet": MPNET,
    "modernbert": MODERNBERT,
    "deberta-v2": DEBERTA_V2,
}
