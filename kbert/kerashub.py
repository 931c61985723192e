"""Encoders from KerasHub's backbones, and backbones from encoders."""

import dataclasses
import logging
from typing import Any

import keras
import numpy as np

from kbert.checkpoints import mapping
from kbert.checkpoints.keras_hub_tables import BACKBONES, Backbone
from kbert.checkpoints.mapping import Row
from kbert.config import EncoderConfig
from kbert.models import build_encoder, encoder_config
from kbert.models.parts import encoder_outputs, layer_dtype

_LOGGER = logging.getLogger("kbert")
_POSITION = "embedding/position/embeddings"
_SEGMENT = "embedding/segment/embeddings"


def from_keras_hub(backbone: keras.Model) -> keras.Model:
    """Build an encoder that computes what a KerasHub backbone computes.

    Args:
        backbone: a `BertBackbone`, `RobertaBackbone`, `XLMRobertaBackbone`,
            `DistilBertBackbone`, `AlbertBackbone` or `ElectraBackbone` of
            `keras_hub.models`.

    Returns:
        The model of `build_encoder` with the backbone's weights, copied, and
        its dtype policy. Inputs and outputs have KerasHub's names; RoBERTa's
        has `segment_ids` besides, all 0, as its published files do. Its
        config says what KerasHub computes: "gelu_tanh" for BERT and ELECTRA,
        which the published models compute as exact "gelu".

    Raises:
        TypeError: if `backbone` is of another class.
        ValueError: if it has weights that kbert has no place for, such as
            those of an adapter.

    Example:
        >>> import keras_hub, kbert
        >>> backbone = keras_hub.models.BertBackbone(
        ...     vocabulary_size=30522, num_layers=2, num_heads=2,
        ...     hidden_dim=128, intermediate_dim=512)
        >>> encoder = kbert.from_keras_hub(backbone)
        >>> kbert.encoder_config(encoder).activation
        'gelu_tanh'

    References:
        KerasHub's models, https://keras.io/keras_hub/api/models/
    """
    import keras_hub

    classes = {
        getattr(keras_hub.models, spec.class_name): family
        for family, spec in BACKBONES.items()
    }
    if type(backbone) not in classes:
        raise TypeError(
            "`backbone` must be one of keras_hub.models: "
            f"{', '.join(spec.class_name for spec in BACKBONES.values())}. "
            f"Received: backbone={backbone!r}"
        )
    family = classes[type(backbone)]
    spec = BACKBONES[family]
    arguments = backbone.get_config()
    config = _config_of(family, spec, arguments)
    encoder = build_encoder(config, dtype=backbone.token_embedding.dtype_policy)
    rows = _rows(spec, config)
    arrays = _arrays(backbone)
    name_of = {row.variable: row.tensor for row in rows}
    position = arrays[name_of[_POSITION]]
    unused = np.zeros(
        (config.position_offset, position.shape[1]), position.dtype
    )
    arrays[name_of[_POSITION]] = np.concatenate([unused, position])
    if config.num_segments and not spec.has_segments:
        arrays[name_of[_SEGMENT]] = np.zeros_like(
            position, shape=(config.num_segments, position.shape[1])
        )
    source = _Arrays(f"keras_hub.models.{spec.class_name}", arrays)
    _load(encoder, source, rows)
    return encoder


def to_keras_hub(
    encoder: keras.Model, *, allow_differences: bool = False
) -> keras.Model:
    """Build a KerasHub backbone with an encoder's weights.

    A class of backbones has one activation, one epsilon, one rate of dropout,
    and a pooler always or never: BERT's, ALBERT's and ELECTRA's have
    "gelu_tanh", 1e-12 and a pooler; DistilBERT's "gelu", 1e-12 and none;
    RoBERTa's and XLM-RoBERTa's "gelu", 1e-5 and none.

    Args:
        encoder: a model of `build_encoder`, `load_encoder` or
            `from_keras_hub`. Its config's `family` says which class.
        allow_differences: whether to build a backbone that computes
            something else in these four points. Its weights are the
            encoder's all the same, except that a pooler that one side lacks
            is dropped or stays fresh. What differs is logged.

    Returns:
        The backbone of `keras_hub.models`, with weights copied and the
        encoder's dtype policy.

    Raises:
        ValueError: if `encoder` is no kbert encoder, KerasHub has no backbone
            of its family or size, or it would compute something else and
            `allow_differences` is False.

    Example:
        >>> import dataclasses, kbert
        >>> config = dataclasses.replace(
        ...     kbert.families.BERT_TINY, activation="gelu_tanh")
        >>> backbone = kbert.to_keras_hub(kbert.build_encoder(config))
        >>> backbone.hidden_dim
        128

    References:
        KerasHub's models, https://keras.io/keras_hub/api/models/
    """
    encoder_outputs(encoder)
    config = encoder_config(encoder)
    if config.family not in BACKBONES:
        raise ValueError(
            f"KerasHub's backbones are known for {sorted(BACKBONES)}. "
            f"Received: family={config.family!r}"
        )
    spec = BACKBONES[config.family]
    arguments = _arguments_of(spec, config)
    theirs = _config_of(config.family, spec, arguments)
    _check_structure(spec, config, theirs)
    differences = _differences(config, theirs)
    if differences and not allow_differences:
        raise ValueError(
            f"keras_hub.models.{spec.class_name} computes something else than "
            "this encoder; pass allow_differences=True to copy the weights "
            f"all the same. Received: {differences}"
        )
    import keras_hub

    backbone = getattr(keras_hub.models, spec.class_name)(
        **arguments, dtype=layer_dtype(encoder)
    )
    arrays = _arrays(encoder)
    arrays[_POSITION] = arrays[_POSITION][config.position_offset :]
    if config.num_segments and not spec.has_segments:
        # Every token is of segment 0.
        arrays[_POSITION] = arrays[_POSITION] + arrays.pop(_SEGMENT)[0]
    if not spec.has_pooler:
        arrays = {
            path: array
            for path, array in arrays.items()
            if not path.startswith("pooler/")
        }
    rows = [
        dataclasses.replace(row, tensor=row.variable, variable=row.tensor)
        for row in _rows(spec, config)
    ]
    fresh = [] if config.has_pooler else ["pooled_dense/"]
    _load(backbone, _Arrays("the encoder", arrays), rows, fresh)
    if differences:
        _LOGGER.warning(
            "keras_hub.models.%s differs from the encoder: %s",
            spec.class_name,
            differences,
        )
    return backbone


class _Arrays:
    """A `TensorSource` of arrays in memory."""

    def __init__(self, location: str, arrays: dict[str, np.ndarray]):
        self.location = location
        self.arrays = arrays

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: array.shape for name, array in self.arrays.items()}

    def is_float(self, name: str) -> bool:
        return keras.backend.is_float_dtype(self.arrays[name].dtype.name)

    def read(self, name: str) -> np.ndarray:
        return self.arrays[name]


def _arrays(model: keras.Model) -> dict[str, np.ndarray]:
    return {
        path: keras.ops.convert_to_numpy(variable)
        for path, variable in mapping.weight_variables(model).items()
    }


def _rows(spec: Backbone, config: EncoderConfig) -> list[Row]:
    return mapping.expand(spec.rows, config.num_blocks, config.layers_per_group)


def _load(model, source: _Arrays, rows: list[Row], fresh=()) -> None:
    """Fill all of `model` from all of `source`."""
    names = {name: name for name in source.arrays}
    mapping.load_tensors(model, source, rows, names, fresh=fresh, encoder=".*")


def _config_of(
    family: str, spec: Backbone, arguments: dict[str, Any]
) -> EncoderConfig:
    """The config of the encoder that computes what a backbone does."""
    fields: dict[str, Any] = dict(spec.family_values)
    if spec.has_segments:
        fields["num_segments"] = arguments["num_segments"]
    embedding_size = arguments.get("embedding_dim")
    if family == "albert":
        fields["shared_layers"] = True
        fields["num_layer_groups"] = arguments["num_groups"]
        fields["layers_per_group"] = arguments["num_inner_repetitions"]
    elif embedding_size == arguments["hidden_dim"]:
        embedding_size = None  # ELECTRA projects only where sizes differ.
    return EncoderConfig(
        vocab_size=arguments[spec.vocabulary_argument],
        hidden_size=arguments["hidden_dim"],
        num_layers=arguments["num_layers"],
        num_heads=arguments["num_heads"],
        intermediate_size=arguments["intermediate_dim"],
        max_positions=arguments["max_sequence_length"],
        embedding_size=embedding_size,
        activation=spec.activation,
        layer_norm_epsilon=spec.layer_norm_epsilon,
        hidden_dropout=arguments["dropout"],
        attention_dropout=arguments["dropout"],
        has_pooler=spec.has_pooler,
        family=family,
        **fields,
    )


def _arguments_of(spec: Backbone, config: EncoderConfig) -> dict[str, Any]:
    """The arguments of the backbone nearest to a config."""
    arguments = {
        spec.vocabulary_argument: config.vocab_size,
        "num_layers": config.num_layers,
        "num_heads": config.num_heads,
        "hidden_dim": config.hidden_size,
        "intermediate_dim": config.intermediate_size,
        "dropout": config.hidden_dropout,
        "max_sequence_length": config.max_positions,
    }
    if spec.has_segments:
        arguments["num_segments"] = max(config.num_segments, 1)
    if config.family in ("albert", "electra"):
        arguments["embedding_dim"] = config.embedding_size or config.hidden_size
    if config.family == "albert":
        arguments["num_groups"] = (
            config.num_layer_groups
            if config.shared_layers
            else config.num_layers
        )
        arguments["num_inner_repetitions"] = config.layers_per_group
    return arguments


def _check_structure(
    spec: Backbone, config: EncoderConfig, theirs: EncoderConfig
) -> None:
    """Refuse an encoder whose weights no backbone of its family holds."""
    names = ["embedding_size"]
    # Without a table, one segment still fits: it is added to the positions.
    if spec.has_segments or config.num_segments > 1:
        names.append("num_segments")
    wrong = [
        f"{name}={getattr(config, name)!r}"
        for name in names
        if getattr(config, name) != getattr(theirs, name)
    ]
    if config.block_order() != theirs.block_order():
        wrong.append("shared_layers=True")
    if wrong:
        raise ValueError(
            f"keras_hub.models.{spec.class_name} has no place for the weights "
            f"of such an encoder. Received: {', '.join(wrong)}"
        )


def _differences(config: EncoderConfig, theirs: EncoderConfig) -> str:
    """What two encoders of the same weights compute differently."""
    return ", ".join(
        f"{name}={getattr(config, name)!r} "
        f"(KerasHub: {getattr(theirs, name)!r})"
        for name in (
            "activation",
            "layer_norm_epsilon",
            "attention_dropout",
            "has_pooler",
        )
        if getattr(config, name) != getattr(theirs, name)
    )
