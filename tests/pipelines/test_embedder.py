"""Texts to vectors: order, prompts, numbers, files; parity is with torch."""

import logging

import ml_dtypes
import numpy as np
import pytest

import kbert
from kbert.data.batching import BatchOptions
from kbert.data.token_batches import plan_by_tokens
from kbert.pipelines import embedder as module

TEXTS = [
    "the film was not very good",
    "",
    "bad",
    "a bad plot , a good play !",
    "ünknown 😀 中文",
    "bad",
    "play " * 60,
]


@pytest.fixture(scope="module")
def model(tiny_config):
    model = kbert.build_sentence_encoder(
        kbert.build_encoder(tiny_config),
        prompts={"query": "good film ", "": "bad "},
        max_length=24,
    )
    rng = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(weight + rng.normal(0, 0.2, tuple(weight.shape)))
    return model


@pytest.fixture(scope="module")
def embed(model, tiny_tokenizer):
    return kbert.pipelines.Embedder(model, tiny_tokenizer)


def test_order_batches_and_padding_change_nothing(embed, tiny_tokenizer):
    """Each vector is that of its text in a batch of its own."""
    vectors = embed(TEXTS)
    assert vectors.dtype == "float32" and vectors.shape == (7, 16)
    for text, vector in zip(TEXTS, vectors, strict=True):
        encoding = tiny_tokenizer.encode(text, max_length=24)
        ids = np.array([encoding.ids])
        x = {
            "token_ids": ids,
            "segment_ids": 0 * ids,
            "padding_mask": 0 * ids + 1,
        }
        expected = np.asarray(embed.model.predict_on_batch(x))[0]
        np.testing.assert_allclose(vector, expected, atol=1e-6)
        assert embed(text).shape == (16,)
        np.testing.assert_allclose(embed(text), vector, atol=1e-6)
    for size in (1, 2, 100):
        again = embed.encode(TEXTS[::-1], batch_size=size)
        np.testing.assert_allclose(again, vectors[::-1], atol=1e-6)


def test_texts_in_pieces(embed, tmp_path, monkeypatch):
    """From a generator, in pieces, and through a file: the same vectors."""
    vectors = embed(TEXTS)
    monkeypatch.setattr(module, "_CHUNK", 3)
    np.testing.assert_allclose(embed(iter(TEXTS)), vectors, atol=1e-6)
    path = tmp_path / "vectors.npy"
    found = embed.encode((text for text in TEXTS), output=path)
    assert isinstance(found, np.memmap)
    np.testing.assert_allclose(found, vectors, atol=1e-6)
    np.testing.assert_allclose(np.load(path), vectors, atol=1e-6)
    assert [file.name for file in tmp_path.iterdir()] == ["vectors.npy"]


def test_an_error_keeps_the_file_that_was_there(embed, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 2)
    path = tmp_path / "vectors.npy"
    path.write_text("mine")
    with pytest.raises(TypeError, match="Received: "):
        embed.encode(iter([*TEXTS, 3]), output=path)
    assert path.read_text() == "mine"
    assert [file.name for file in tmp_path.iterdir()] == ["vectors.npy"]


@pytest.mark.parametrize("dtype", ["bfloat16", "binary", "ubinary", "int8"])
def test_smaller_numbers(embed, tmp_path, dtype):
    vectors = embed(TEXTS)
    ranges = np.stack([vectors.min(0), vectors.max(0)])
    options = {"dtype": dtype, "ranges": ranges if "int8" in dtype else None}
    found = embed.encode(TEXTS, **options)
    if dtype == "bfloat16":
        expected = vectors.astype(ml_dtypes.bfloat16)
    elif dtype == "int8":
        # At the edge of a step, rounding decides.
        steps = (vectors - ranges[0]) / (ranges[1] - ranges[0]) * 255
        assert np.abs(found - (np.floor(steps) - 128)).max() <= 1
        assert (found[vectors == ranges[1]] >= 126).all()
        expected = found
    else:
        bits = np.packbits(vectors > 0, axis=1)
        expected = bits if dtype == "ubinary" else bits.astype(int) - 128
    np.testing.assert_array_equal(found, expected)
    written = embed.encode(TEXTS, output=tmp_path / "x.npy", **options)
    assert written.dtype == found.dtype
    np.testing.assert_array_equal(written, found)
    assert embed.encode([], **options).shape == (0, found.shape[1])
    assert embed.encode("bad", **options).shape == found.shape[1:]


def test_ranges_of_the_texts_themselves(embed):
    found = embed.encode(TEXTS, dtype="int8")
    assert found.min(0).tolist() == [-128] * 16
    assert found.max(0).min() >= 126  # rounding decides at the edge
    constant = np.array([[0.5, 0.0], [0.5, 255.0]], "float32")
    assert kbert.pipelines.quantize(constant, "uint8").tolist() == [
        [0, 0],
        [0, 255],
    ]


def test_prompts(model, embed, tiny_tokenizer):
    asked = embed.encode(["bad"], prompt_name="query")
    np.testing.assert_allclose(asked, embed(["good film bad"]), atol=1e-6)
    given = embed.encode(["bad"], prompt="very ")
    np.testing.assert_allclose(given, embed(["very bad"]), atol=1e-6)
    usual = kbert.pipelines.Embedder(
        model, tiny_tokenizer, default_prompt_name="query"
    )
    np.testing.assert_allclose(usual(["bad"]), asked, atol=1e-6)
    none = usual.encode(["bad"], prompt="")
    np.testing.assert_allclose(none, embed(["bad"]), atol=1e-6)


def test_dimensions_are_normalised_again(tiny_config, tiny_tokenizer, embed):
    short = embed.encode(TEXTS, dimensions=5)
    expected = embed(TEXTS)[:, :5]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(short, expected, atol=1e-6)
    encoder = kbert.build_encoder(tiny_config)
    plain = kbert.build_sentence_encoder(encoder, normalize=False)
    plain = kbert.pipelines.Embedder(plain, tiny_tokenizer)
    np.testing.assert_array_equal(
        plain.encode(TEXTS, dimensions=5), plain(TEXTS)[:, :5]
    )


def test_nothing_in(embed, tmp_path):
    assert embed([]).shape == (0, 16)
    assert embed.encode([], dimensions=3, dtype="int8").shape == (0, 3)
    found = embed.encode(iter([]), output=tmp_path / "x.npy")
    assert found.shape == (0, 16)
    assert embed.similarity(embed([]), embed(["bad"])).shape == (0, 1)


def test_the_callers_model_stays_as_it_was(model, tiny_tokenizer):
    before = model.jit_compile
    embed = kbert.pipelines.Embedder(model, tiny_tokenizer)
    vectors = embed(["bad"])
    assert model.jit_compile == before
    weight = model.trainable_variables[0]
    old = weight.numpy()
    weight.assign(old[::-1])
    assert np.abs(embed(["bad"]) - vectors).max() > 1e-4
    weight.assign(old)


def test_mask_tokens_are_reported_once(embed, model, tiny_tokenizer, caplog):
    embed = kbert.pipelines.Embedder(model, tiny_tokenizer)
    with caplog.at_level(logging.WARNING, "kbert"):
        embed(["a good film"])
        assert not said(caplog)
        embed(["a [MASK] film"])
        embed(["a [MASK] film"])
    [message] = said(caplog)
    assert "[MASK]" in message


def said(caplog):
    return [x.getMessage() for x in caplog.records if x.name == "kbert"]


def test_progress_counts_texts(embed, capsys):
    embed.encode(TEXTS, show_progress=True)
    assert "7/7" in capsys.readouterr().err
    embed.encode(TEXTS)
    assert capsys.readouterr().err == ""


def test_plan_by_tokens_holds_each_text_once():
    lengths = np.random.default_rng(0).integers(1, 40, 97)
    for pad_to in ("batch", "bucket"):
        options = BatchOptions(batch_size=1, max_length=40, pad_to=pad_to)
        plan = plan_by_tokens(lengths, options, 128)
        seen = np.concatenate([batch.indices for batch in plan])
        assert sorted(seen) == list(range(97))
        for batch in plan:
            assert batch.length * len(batch.indices) <= 128
            assert lengths[batch.indices].max() <= batch.length
        full = [len(batch.indices) * batch.length for batch in plan[:-1]]
        assert min(full) > 64
    [one] = plan_by_tokens(np.array([40]), options, 8)
    assert one.indices.tolist() == [0]
    assert plan_by_tokens(np.zeros(0, int), options, 8) == []


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (TypeError, lambda e: e([1])),
        (TypeError, lambda e: e(None)),
        (ValueError, lambda e: e.encode(TEXTS, dtype="float16")),
        (ValueError, lambda e: e.encode(TEXTS, dimensions=0)),
        (ValueError, lambda e: e.encode(TEXTS, dimensions=17)),
        (ValueError, lambda e: e.encode(TEXTS, batch_size=0)),
        (ValueError, lambda e: e.encode(TEXTS, prompt_name="passage")),
        (TypeError, lambda e: e.encode(TEXTS, prompt=3)),
        (
            ValueError,
            lambda e: e.encode(TEXTS, prompt_name="query", prompt="x"),
        ),
        (ValueError, lambda e: e.encode("bad", dtype="int8")),
        (ValueError, lambda e: e.encode(["bad"], dtype="int8")),
        (ValueError, lambda e: e.encode("bad", output="x.npy")),
        (
            ValueError,
            lambda e: e.encode(TEXTS, dtype="int8", output="x.npy"),
        ),
        (
            ValueError,
            lambda e: e.encode(TEXTS, dtype="int8", ranges=np.ones((2, 3))),
        ),
        (
            ValueError,
            lambda e: e.encode(
                TEXTS, dtype="int8", ranges=np.arange(32, 0, -1).reshape(2, 16)
            ),
        ),
        (ValueError, lambda e: e.similarity(np.ones((2, 3)), np.ones((2, 4)))),
        (
            ValueError,
            lambda e: e.similarity(np.ones((2, 3), "uint8"), np.ones((2, 3))),
        ),
    ],
)
def test_bad_calls(embed, error, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match="Received: "):
        call(embed)
    assert not list(tmp_path.iterdir())


def test_bad_models(tiny_config, tiny_tokenizer):
    encoder = kbert.build_encoder(tiny_config)
    for model in (encoder, kbert.build_classifier(encoder, 2)):
        with pytest.raises(ValueError, match="Received: "):
            kbert.pipelines.Embedder(model, tiny_tokenizer)
