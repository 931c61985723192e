"""ELECTRA's pretraining: a generator and a discriminator in one graph."""

from dataclasses import replace

import keras

from kbert.config import EncoderConfig
from kbert.layers import ReplacedTokenSampler
from kbert.layers.initializers import no_random_values, truncated_normal
from kbert.models.encoder import apply_blocks, build_encoder
from kbert.models.packed import refuse_packed
from kbert.models.parts import (
    encoder_outputs,
    layer_dtype,
    mlm_logits,
    replaced_token_head,
)
from kbert.models.pretraining import (
    build_masked_lm,
    build_replaced_token_detector,
)
from kbert.models.reading import GENERATOR, encoder_config, generator_config


def build_replaced_token_pretrainer(
    encoder: keras.Model,
    *,
    generator_size: float = 0.25,
    generator_depth: float = 1.0,
    name: str = "replaced_token_pretrainer",
) -> keras.Model:
    """Build ELECTRA's pretraining model around its discriminator.

    A new, smaller encoder, the generator, guesses the masked tokens, and
    `encoder`, the discriminator, tells of each token whether it is the
    original one. Both read one set of tables, and their normalisation; each
    projects them to its own width. No gradient goes from the discriminator
    through the guesses.

    Which tokens are wrong is known in the graph only, so the labels of
    `replaced_token` are all 0 and its logits say "the discriminator is
    wrong": those of `build_replaced_token_detector`, with the sign changed
    where the guess is wrong. `data.replaced_token_dataset` gives the batches.

    Args:
        encoder: a model of `build_encoder` or `load_encoder`, the
            discriminator. It is not copied: training the model trains it.
        generator_size: width of the generator as a share of the encoder's;
            its feed-forward layers and the number of its heads follow. The
            paper has 1/4, and 1/3 for its base size.
        generator_depth: number of layers likewise.
        name: of the model.

    Returns:
        A `keras.Model` with the encoder's inputs, `mask_positions`, int32
        (B, P), each in [0, S) and 0 in unused slots, `original_ids`, int32
        (B, P), the masked tokens, and a dict of outputs: `mlm`, float32
        (B, P, V), the generator's logits, and `replaced_token`, float32
        (B, S), above 0 where the discriminator is wrong. `discriminator_of`
        and `generator_of` take the two out.

    Raises:
        ValueError: if `encoder` is no kbert encoder, or a share is not in
            (0, 1] or makes a width that is no multiple of the heads.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_replaced_token_pretrainer(encoder)
        >>> model.compile(
        ...     optimizer="adam",
        ...     loss={"mlm": kbert.losses.MaskedLMLoss(),
        ...           "replaced_token": kbert.losses.ReplacedTokenLoss()},
        ...     loss_weights={"mlm": 1.0, "replaced_token": 50.0})
        >>> {name: logits.shape for name, logits in model.output.items()}
        {'mlm': (None, None, 30522), 'replaced_token': (None, None)}

    References:
        Clark et al., 2020, https://arxiv.org/abs/2003.10555;
        `run_pretraining.py` in google-research/electra
    """
    encoder_outputs(encoder)
    refuse_packed(encoder, "a generator")
    config = _smaller(encoder_config(encoder), generator_size, generator_depth)
    inputs = dict(encoder.input)
    for key in ("mask_positions", "original_ids"):
        inputs[key] = keras.Input((None,), dtype="int32", name=key)
    logits = _generator_logits(encoder, config, inputs)
    sampled = ReplacedTokenSampler(name="replaced_token_sampler")(
        logits,
        inputs["token_ids"],
        mask_positions=inputs["mask_positions"],
        original_ids=inputs["original_ids"],
    )
    # `call`, not `encoder(…)`: it applies the layers one by one, so that the
    # graph stays flat and no layer of it is a model.
    states = encoder.call({**encoder.input, "token_ids": sampled["token_ids"]})
    answers = replaced_token_head(encoder)(
        states["sequence_output"], is_replaced=sampled["is_replaced"]
    )
    outputs = {"mlm": logits, "replaced_token": answers}
    return keras.Model(inputs, outputs, name=name)


def _smaller(
    config: EncoderConfig, generator_size: float, generator_depth: float
) -> EncoderConfig:
    """The generator's config, as `get_generator_config` of ELECTRA has it."""
    for key, share in (
        ("generator_size", generator_size),
        ("generator_depth", generator_depth),
    ):
        if not 0 < share <= 1:
            raise ValueError(
                f"`{key}` must be above 0 and at most 1. "
                f"Received: {key}={share}"
            )
    size = max(1, round(config.hidden_size * generator_size))
    num_heads = max(1, size * config.num_heads // config.hidden_size)
    if size % num_heads:
        raise ValueError(
            f"`generator_size` makes a width of {size}, which {num_heads} "
            f"heads cannot share. Received: generator_size={generator_size}"
        )
    width = config.embedding_size or config.hidden_size
    num_layers = max(1, round(config.num_layers * generator_depth))
    return replace(
        config,
        hidden_size=size,
        num_layers=num_layers,
        num_heads=num_heads,
        intermediate_size=max(
            1, round(config.intermediate_size * size / config.hidden_size)
        ),
        embedding_size=None if width == size else width,
        global_every=min(config.global_every, num_layers),
        has_pooler=False,
    )


def _generator_logits(
    encoder: keras.Model,
    config: EncoderConfig,
    inputs: dict[str, keras.KerasTensor],
) -> keras.KerasTensor:
    """Logits (B, P, V) of a new generator on the encoder's tables."""
    embedding = encoder.get_layer("embedding")
    x = embedding(inputs["token_ids"], inputs.get("segment_ids"), project=False)
    if config.embedding_size is not None:
        project = keras.layers.Dense(
            config.hidden_size,
            use_bias=config.has_bias,
            kernel_initializer=truncated_normal(config.initializer_range),
            dtype=layer_dtype(encoder),
            name=GENERATOR + "projection",
        )
        x = project(x)
    x = apply_blocks(config, x, inputs, layer_dtype(encoder), GENERATOR)
    return mlm_logits(
        config, embedding, x, inputs["mask_positions"], prefix=GENERATOR
    )


def discriminator_of(model: keras.Model) -> keras.Model:
    """Copy the discriminator out of a replaced-token pretrainer.

    Args:
        model: of `build_replaced_token_pretrainer`, or such a model loaded
            from a `.keras` file.

    Returns:
        A model of `build_replaced_token_detector` with the weights as they
        are now, for `save_pretrained`.

    Raises:
        ValueError: if `model` is no such model.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_replaced_token_pretrainer(encoder)
        >>> kbert.discriminator_of(model).output_shape
        (None, None)
    """
    _check_pretrainer(model)
    config = encoder_config(model)
    with no_random_values():
        detector = build_replaced_token_detector(
            build_encoder(config, dtype=layer_dtype(model))
        )
    return _filled(detector, model, prefix="")


def generator_of(
    model: keras.Model, *, all_positions: bool = False
) -> keras.Model:
    """Copy the generator out of a replaced-token pretrainer.

    Args:
        model: of `build_replaced_token_pretrainer`, or such a model loaded
            from a `.keras` file.
        all_positions: whether to give logits for every token; see
            `build_masked_lm`.

    Returns:
        A model of `build_masked_lm` with the weights as they are now, for
        `save_pretrained` and `pipelines`.

    Raises:
        ValueError: if `model` is no such model.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_replaced_token_pretrainer(encoder)
        >>> kbert.encoder_config(kbert.generator_of(model)).hidden_size
        32
    """
    _check_pretrainer(model)
    config = generator_config(model)
    with no_random_values():
        masked_lm = build_masked_lm(
            build_encoder(config, dtype=layer_dtype(model)),
            all_positions=all_positions,
        )
    return _filled(masked_lm, model, prefix=GENERATOR)


def _check_pretrainer(model: keras.Model) -> None:
    names = [layer.name for layer in model.layers]
    if not {GENERATOR + "mlm", "replaced_token"} <= set(names):
        raise ValueError(
            "`model` must be one of build_replaced_token_pretrainer. "
            f"Received: layers {names}"
        )


def _filled(
    target: keras.Model, source: keras.Model, prefix: str
) -> keras.Model:
    """Give a model the weights of another, whose own layers have a prefix.

    The generator's are the embedding without its projection, and the layers
    that have the prefix.
    """
    values = {variable.path: variable for variable in source.weights}
    for variable in target.weights:
        path = variable.path
        if prefix:
            path = path.replace("embedding/projection/", "projection/")
        if not path.startswith("embedding/"):
            path = prefix + path
        variable.assign(values[path])
    return target
