"""The numbers that describe one encoder."""

import dataclasses

ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "silu", "tanh")
RELATIVE_ATTENTION = ("bias", "disentangled")


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Sizes and switches of a BERT-family encoder.

    What differs between families (BERT, RoBERTa, ALBERT, …) is a field here.
    Only the builders read a config; layers take the single values. To vary
    one, use `dataclasses.replace`.

    Args:
        vocab_size: rows of the token embedding table.
        hidden_size: width H of the hidden states; a multiple of `num_heads`.
        num_layers: number of encoder blocks.
        num_heads: attention heads of a block.
        intermediate_size: width of the feed-forward layer of a block.
        max_positions: longest sequence in tokens, specials included.
        num_segments: rows of the segment table; 0 for no such table and no
            `segment_ids` input (DistilBERT).
        position_offset: row of the position table that the first token uses;
            the table has `max_positions + position_offset` rows (RoBERTa: 2).
        embedding_size: width of the embedding tables where they are projected
            to `hidden_size` (ALBERT, ELECTRA-small); None for tables of
            `hidden_size` and no projection.
        shared_layers: whether layers share their weights (ALBERT): the
            `num_layers` layers fall into `num_layer_groups` runs, and a
            layer of a run applies the same `layers_per_group` blocks.
        num_layer_groups: see `shared_layers`; a divisor of `num_layers`.
        layers_per_group: see `shared_layers`.
        activation: of the feed-forward layer: "gelu" is the exact erf form,
            "gelu_tanh" its approximation; "relu", "silu" or "tanh".
        layer_norm_epsilon: added to the variance in layer normalisation.
        hidden_dropout: dropout probability after embeddings and sublayers,
            and in heads.
        attention_dropout: dropout probability of attention weights.
        initializer_range: standard deviation of the truncated normal that
            kernels and tables start from.
        pad_token_id: token id that fills up short sequences.
        has_pooler: whether the encoder has a [CLS] pooler.
        has_position_table: whether position embeddings are added to the
            token's (not in ModernBERT and DeBERTa-v3).
        has_bias: whether dense layers and normalisations have a bias (not in
            ModernBERT); the last projection of a head always has one.
        pre_norm: whether a block normalises the input of each sublayer, and
            the encoder its output (ModernBERT); else a block normalises the
            sum after each sublayer (BERT).
        gated: whether the feed-forward layer multiplies its activation by a
            gate, a second projection (ModernBERT's GeGLU).
        rotary_base: base of the rotary position embedding of queries and
            keys; None for no such embedding.
        local_rotary_base: the same in layers of local attention.
        local_window: number of tokens on each side that a layer of local
            attention sees; None for no such layers.
        global_every: every how many layers, from the first, attention is
            global all the same; at most `num_layers`.
        relative_attention: "bias" adds a learned number to the scores, by
            head and distance (MPNet); "disentangled" lets queries and keys
            attend to embeddings of distances (DeBERTa); None for neither.
        relative_buckets: number of buckets that distances fall into: both
            directions together for "bias", each for "disentangled".
        relative_distance: distance in tokens from which on all are the same.
        family: name of the checkpoint family, transformers' `model_type`.
            It says under which names weights are saved and computes nothing.

    Raises:
        TypeError: if a value has the wrong type.
        ValueError: if a value is out of range or values contradict each other.

    Example:
        >>> import dataclasses, kbert
        >>> config = dataclasses.replace(kbert.families.BERT_TINY, num_layers=1)
        >>> config.hidden_size
        128

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805
    """

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    intermediate_size: int
    max_positions: int = 512
    num_segments: int = 2
    position_offset: int = 0
    embedding_size: int | None = None
    shared_layers: bool = False
    num_layer_groups: int = 1
    layers_per_group: int = 1
    activation: str = "gelu"
    layer_norm_epsilon: float = 1e-12
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1
    initializer_range: float = 0.02
    pad_token_id: int = 0
    has_pooler: bool = True
    has_position_table: bool = True
    has_bias: bool = True
    pre_norm: bool = False
    gated: bool = False
    rotary_base: float | None = None
    local_rotary_base: float | None = None
    local_window: int | None = None
    global_every: int = 1
    relative_attention: str | None = None
    relative_buckets: int = 32
    relative_distance: int = 128
    family: str = "bert"

    def __post_init__(self) -> None:
        """Check every field; nothing is repaired."""
        for name in (
            "vocab_size",
            "hidden_size",
            "num_layers",
            "num_heads",
            "intermediate_size",
            "max_positions",
            "num_layer_groups",
            "layers_per_group",
            "global_every",
            "relative_buckets",
            "relative_distance",
        ):
            self._check_int(name, minimum=1)
        for name in ("num_segments", "position_offset", "pad_token_id"):
            self._check_int(name, minimum=0)
        for name in ("embedding_size", "local_window"):
            if getattr(self, name) is not None:
                self._check_int(name, minimum=1)
        for name in ("rotary_base", "local_rotary_base"):
            if getattr(self, name) is not None:
                self._check_float(name, minimum=1.0)
        for name in ("hidden_dropout", "attention_dropout"):
            self._check_float(name, minimum=0.0)
            if getattr(self, name) >= 1.0:
                self._refuse(name, "less than 1")
        self._check_float("layer_norm_epsilon", minimum=0.0)
        self._check_float("initializer_range", minimum=0.0)
        if self.hidden_size % self.num_heads:
            raise ValueError(
                "`hidden_size` must be a multiple of `num_heads`. Received: "
                f"hidden_size={self.hidden_size}, num_heads={self.num_heads}"
            )
        if self.pad_token_id >= self.vocab_size:
            self._refuse("pad_token_id", f"below vocab_size={self.vocab_size}")
        if self.activation not in ACTIVATIONS:
            self._refuse("activation", f"one of {ACTIVATIONS}")
        if not self.shared_layers and (
            self.num_layer_groups != 1 or self.layers_per_group != 1
        ):
            raise ValueError(
                "Layer groups need shared_layers=True. Received: "
                f"num_layer_groups={self.num_layer_groups}, "
                f"layers_per_group={self.layers_per_group}"
            )
        if self.num_layers % self.num_layer_groups:
            self._refuse("num_layer_groups", "a divisor of `num_layers`")
        if not isinstance(self.family, str):
            raise TypeError(
                f"`family` must be a string. Received: family={self.family!r}"
            )
        self._check_positions()
        for name in (
            "shared_layers",
            "has_pooler",
            "has_position_table",
            "has_bias",
            "pre_norm",
            "gated",
        ):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(
                    f"`{name}` must be a bool. Received: "
                    f"{name}={getattr(self, name)!r}"
                )

    def _check_positions(self) -> None:
        if self.relative_attention not in (None, *RELATIVE_ATTENTION):
            self._refuse(
                "relative_attention", f"None or one of {RELATIVE_ATTENTION}"
            )
        if self.global_every > self.num_layers:
            self._refuse("global_every", "at most `num_layers`")
        if self.local_window is None and (
            self.global_every != 1 or self.local_rotary_base is not None
        ):
            raise ValueError(
                "Layers of local attention need `local_window`. Received: "
                f"local_window=None, global_every={self.global_every}, "
                f"local_rotary_base={self.local_rotary_base}"
            )
        if self.shared_layers and self.local_window is not None:
            raise ValueError(
                "Layers that share their weights cannot differ in attention. "
                f"Received: shared_layers=True, local_window="
                f"{self.local_window}"
            )
        if self.rotary_base and self.hidden_size // self.num_heads % 2:
            raise ValueError(
                "Rotary embeddings need heads of an even size. Received: "
                f"hidden_size={self.hidden_size}, num_heads={self.num_heads}"
            )

    @property
    def num_blocks(self) -> int:
        """The number of different encoder blocks."""
        return max(self.block_order()) + 1

    def block_order(self) -> list[int]:
        """Return the number of the encoder block of each application."""
        if not self.shared_layers:
            return list(range(self.num_layers))
        run = self.num_layers // self.num_layer_groups
        return [
            layer // run * self.layers_per_group + inner
            for layer in range(self.num_layers)
            for inner in range(self.layers_per_group)
        ]

    def _check_int(self, name: str, minimum: int) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(
                f"`{name}` must be an int. Received: {name}={value!r}"
            )
        if value < minimum:
            self._refuse(name, f"at least {minimum}")

    def _check_float(self, name: str, minimum: float) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(
                f"`{name}` must be a float. Received: {name}={value!r}"
            )
        if not value >= minimum:
            self._refuse(name, f"at least {minimum}")

    def _refuse(self, name: str, expected: str) -> None:
        raise ValueError(
            f"`{name}` must be {expected}. Received: "
            f"{name}={getattr(self, name)!r}"
        )
