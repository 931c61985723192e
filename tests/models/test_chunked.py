"""Chunked classifiers against the plain encoder on one chunk at a time."""

import dataclasses

import keras
import numpy as np
import pytest
from keras import ops

import kbert

BACKEND = keras.backend.backend()
MODERNBERT = {
    "family": "modernbert",
    "num_layers": 4,
    "has_position_table": False,
    "has_bias": False,
    "has_pooler": False,
    "pre_norm": True,
    "gated": True,
    "rotary_base": 100.0,
    "local_rotary_base": 10.0,
    "local_window": 2,
    "global_every": 3,
    "num_segments": 0,
}
VARIANTS = {
    "bert": {},
    "roberta": {
        "family": "roberta",
        "num_segments": 1,
        "position_offset": 2,
        "pad_token_id": 1,
    },
    "distilbert": {
        "family": "distilbert",
        "num_segments": 0,
        "has_pooler": False,
    },
    "albert": {
        "family": "albert",
        "embedding_size": 8,
        "shared_layers": True,
        "num_layers": 3,
    },
    "deberta": {
        "family": "deberta_v2",
        "relative_attention": "disentangled",
        "relative_buckets": 4,
        "relative_distance": 6,
        "has_position_table": False,
        "num_segments": 0,
        "has_pooler": False,
    },
    "modernbert": MODERNBERT,
}
AGGREGATES = ("mean", "max", "attention")
each_variant = pytest.mark.parametrize("name", VARIANTS)
each_aggregate = pytest.mark.parametrize("aggregate", AGGREGATES)
# Tokens in the chunks of each document.
CHUNKS = [[7, 7, 4], [5], [7, 2]]
LENGTH = 7


def numbers(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def make_encoder(config, name):
    """Weights large enough for attention to be far from uniform."""
    encoder = kbert.build_encoder(dataclasses.replace(config, **VARIANTS[name]))
    randomise(encoder)
    return encoder


def randomise(model, seed=0):
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        shape = tuple(weight.shape)
        weight.assign(rng.normal("gamma" in weight.path, 0.25, shape))


def copy_weights(source, target):
    weights = {weight.path: weight for weight in source.weights}
    for weight in target.weights:
        weight.assign(weights[weight.path])


def draw(model, documents=CHUNKS, seed=0, num_chunks=3):
    """Inputs (B, K, S) of documents, padding of random ids among them."""
    rng = np.random.default_rng(seed)
    shape = (len(documents), num_chunks, LENGTH)
    mask = np.zeros(shape, "int32")
    for row, lengths in enumerate(documents):
        for number, length in enumerate(lengths):
            mask[row, number, :length] = 1
    inputs = {
        "token_ids": rng.integers(5, 22, shape).astype("int32"),
        "segment_ids": np.zeros(shape, "int32"),
        "padding_mask": mask,
    }
    return {name: inputs[name] for name in model.input}


def vectors_by_hand(model, encoder, inputs, documents=CHUNKS):
    """What the head reads of each chunk, from the encoder on it alone."""
    plain = kbert.build_classifier(encoder, 3)
    copy_weights(model, plain)
    to_vector = keras.Model(plain.input, plain.get_layer("classifier").input)
    return [
        [
            numbers(
                to_vector({k: v[row, [number], :n] for k, v in inputs.items()})
            )[0]
            for number, n in enumerate(lengths)
        ]
        for row, lengths in enumerate(documents)
    ]


@each_variant
@pytest.mark.parametrize("aggregate", ["mean", "max"])
def test_logits_are_the_heads_of_the_aggregate(name, aggregate, tiny_config):
    encoder = make_encoder(tiny_config, name)
    model = kbert.build_chunked_classifier(encoder, 3, aggregate)
    randomise(model, seed=1)
    inputs = draw(model)
    reduce = getattr(np, aggregate)
    documents = np.stack(
        [
            reduce(each, axis=0)
            for each in vectors_by_hand(model, encoder, inputs)
        ]
    )
    expected = numbers(model.get_layer("classifier")(documents))
    np.testing.assert_allclose(numbers(model(inputs)), expected, atol=1e-5)


@each_variant
@each_aggregate
def test_one_chunk_gives_the_plain_classifiers_logits(
    name, aggregate, tiny_config
):
    encoder = make_encoder(tiny_config, name)
    model = kbert.build_chunked_classifier(encoder, 3, aggregate)
    plain = kbert.build_classifier(encoder, 3)
    randomise(model, seed=1)
    copy_weights(model, plain)
    inputs = draw(model, [[7], [4]], num_chunks=1)
    expected = plain({key: x[:, 0] for key, x in inputs.items()})
    np.testing.assert_array_equal(numbers(model(inputs)), numbers(expected))
    # And chunks of padding beside it change the shape alone.
    wider = draw(model, [[7], [4]], num_chunks=3)
    for key, x in inputs.items():
        wider[key][:, :1] = x
    np.testing.assert_allclose(
        numbers(model(wider)), numbers(expected), atol=1e-6
    )


@pytest.mark.parametrize("aggregate", ["mean", "max"])
def test_order_of_the_chunks_does_not_matter(aggregate, tiny_config):
    encoder = make_encoder(tiny_config, "bert")
    model = kbert.build_chunked_classifier(encoder, 3, aggregate)
    inputs = draw(model)
    turned = {key: x[:, ::-1] for key, x in inputs.items()}
    np.testing.assert_allclose(
        numbers(model(turned)), numbers(model(inputs)), atol=1e-6
    )


@each_aggregate
def test_a_document_of_padding_alone_has_finite_logits(aggregate, tiny_config):
    encoder = make_encoder(tiny_config, "bert")
    model = kbert.build_chunked_classifier(encoder, 3, aggregate)
    assert np.isfinite(numbers(model(draw(model, [[], [3]])))).all()


def embedding_gradient(model, inputs, labels):
    """Gradient of a loss with respect to the token table, (V, E)."""
    table = model.get_layer("embedding").token.embeddings
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if BACKEND == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(inputs, training=True))
        return tf.convert_to_tensor(tape.gradient(loss, table.value)).numpy()
    if BACKEND == "torch":
        model.zero_grad()
        loss_of(labels, model(inputs, training=True)).backward()
        return table.value.grad.cpu().numpy()
    import jax

    values = [v.value for v in model.trainable_variables]
    others = [v.value for v in model.non_trainable_variables]
    index = [v is table for v in model.trainable_variables].index(True)

    def loss(values):
        logits, _ = model.stateless_call(values, others, inputs, training=True)
        return loss_of(labels, logits)

    return np.asarray(jax.grad(loss)(values)[index])


@each_aggregate
@pytest.mark.parametrize("name", ["bert", "albert", "modernbert"])
def test_gradients_reach_every_real_chunk_and_no_other(
    name, aggregate, tiny_config
):
    config = dataclasses.replace(tiny_config, vocab_size=200)
    model = kbert.build_chunked_classifier(
        make_encoder(config, name), 3, aggregate
    )
    randomise(model, seed=1)
    inputs = draw(model)
    # Every token is another, so a row of the table is one token's gradient.
    ids = inputs["token_ids"]
    ids[:] = 5 + np.arange(ids.size).reshape(ids.shape)
    gradient = embedding_gradient(model, inputs, np.array([0, 1, 2]))
    size = np.abs(gradient).sum(-1)
    assert np.isfinite(gradient).all()
    real = inputs["padding_mask"].astype(bool)
    if name == "bert":
        assert (size[ids[real]] > 0).all()
    chunk_sizes = np.where(real, size[ids], 0).sum(-1)
    assert (chunk_sizes[real.any(-1)] > 0).all()
    assert (size[ids[~real.any(-1)]] == 0).all()


@each_variant
def test_the_graph_is_flat_and_survives_a_keras_file(
    name, tiny_config, tmp_path
):
    encoder = make_encoder(tiny_config, name)
    plain = kbert.build_classifier(encoder, 2)
    model = kbert.build_chunked_classifier(
        encoder, 2, "attention", label_names=["no", "yes"]
    )
    randomise(model, seed=1)
    more = {
        f"chunk_pooling/{path}"
        for path in ("dense/kernel", "dense/bias", "score/kernel")
    }
    paths = {weight.path for weight in model.weights}
    assert paths == {weight.path for weight in plain.weights} | more
    assert kbert.encoder_config(model) == kbert.encoder_config(plain)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert kbert.encoder_config(again) == kbert.encoder_config(model)
    inputs = draw(model)
    np.testing.assert_array_equal(
        numbers(again(inputs)), numbers(model(inputs))
    )
    assert again.get_layer("classifier").label_names == ["no", "yes"]
    kbert.freeze(again)
    names = {v.path.split("/")[0] for v in again.trainable_variables}
    assert names <= {"chunk_pooling", "transform", "classifier"}


def test_weights_are_the_encoders_own(tiny_config):
    encoder = make_encoder(tiny_config, "bert")
    model = kbert.build_chunked_classifier(encoder, 2)
    for name in ("embedding", "encoder_block_1", "pooler"):
        assert model.get_layer(name) is encoder.get_layer(name)


@each_aggregate
def test_savers_refuse_what_they_would_lose(aggregate, tiny_config, tmp_path):
    encoder = make_encoder(tiny_config, "bert")
    model = kbert.build_chunked_classifier(encoder, 2, aggregate)
    for save in (kbert.save_pretrained, kbert.save_tf_checkpoint):
        with pytest.raises(ValueError, match=r"chunks.*model\.save"):
            save(model, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    kbert.save_pretrained(encoder, tmp_path / "encoder")


def test_other_builders_refuse_it(tiny_config):
    encoder = make_encoder(tiny_config, "bert")
    model = kbert.build_chunked_classifier(encoder, 2)
    for build in (kbert.build_span_model, kbert.build_packed):
        with pytest.raises(ValueError, match="Received"):
            build(model)
    with pytest.raises(ValueError, match="packed"):
        kbert.build_chunked_classifier(kbert.build_packed(encoder), 2)
    with pytest.raises(ValueError, match="aggregate='sum'"):
        kbert.build_chunked_classifier(encoder, 2, "sum")


def test_mixed_precision_gives_float32_logits(tiny_config):
    encoder = kbert.build_encoder(tiny_config, dtype="mixed_bfloat16")
    model = kbert.build_chunked_classifier(encoder, 2, "attention")
    logits = model(draw(model))
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"


@pytest.mark.skipif(BACKEND == "torch", reason="no XLA there")
@each_aggregate
def test_a_step_compiles_with_static_shapes(
    aggregate, tiny_config, tiny_tokenizer
):
    dataset = kbert.data.chunked_dataset(
        ["the film was good . " * 4, "bad"] * 2,
        [1, 0] * 2,
        tokenizer=tiny_tokenizer,
        batch_size=2,
        chunk_length=8,
        max_chunks=3,
        pad_to="max",
        drop_remainder=True,
    )
    shapes = {tuple(s.shape) for s in dataset.element_spec[0].values()}
    assert shapes == {(2, 3, 8)}
    model = kbert.build_chunked_classifier(
        kbert.build_encoder(tiny_config), 2, aggregate
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=True)
    history = model.fit(dataset, verbose=0, shuffle=False)
    assert np.isfinite(history.history["loss"]).all()


def documents_with_the_answer_last(count, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    texts = []
    for label in labels:
        filler = rng.choice(["the film was", "a plot is", "very ,"], 12)
        texts.append(" ".join([*filler, ("bad", "good")[label]]))
    return texts, labels


@each_aggregate
def test_an_epoch_learns_what_only_the_last_chunk_says(
    aggregate, tiny_config, tiny_tokenizer
):
    keras.utils.set_random_seed(2)
    config = dataclasses.replace(tiny_config, initializer_range=0.2)
    model = kbert.build_chunked_classifier(
        kbert.build_encoder(config), 2, aggregate
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(3e-3), loss, metrics=["accuracy"])
    options = {
        "tokenizer": tiny_tokenizer,
        "batch_size": 16,
        "chunk_length": 10,
        "max_chunks": 8,
    }
    texts, labels = documents_with_the_answer_last(1000, seed=0)
    train = kbert.data.chunked_dataset(texts, labels, shuffle=True, **options)
    model.fit(train, epochs=1, verbose=0, shuffle=False)
    texts, labels = documents_with_the_answer_last(200, seed=1)
    test = kbert.data.chunked_dataset(texts, labels, **options)
    # 7 standard deviations over chance; how far it gets depends on the draw.
    assert model.evaluate(test, verbose=0)[1] > 0.75
