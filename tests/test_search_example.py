"""The search examples: the store against exact search, and what they print."""

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import kbert

EXAMPLES = Path(__file__).parent.parent / "examples"

pytest.importorskip("lancedb", reason="the extra `search` is not installed")
pytest.importorskip("ir_measures", reason="likewise")


class Embed:
    """Vectors of length 1 that depend on the text and on the encoder."""

    def __init__(self, seed=0, width=16):
        self.seed, self.width, self.texts = seed, width, []

    def __call__(self, texts):
        self.texts += texts
        rows = [
            np.random.default_rng([self.seed, *text.encode()]).normal(
                size=self.width
            )
            for text in texts
        ]
        return np.array([x / np.linalg.norm(x) for x in rows], "float32")


@pytest.fixture
def make(monkeypatch, tmp_path):
    """From an encoder to the store in one and the same directory."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import vector_store

    monkeypatch.setattr(vector_store, "ROWS", 7)
    return lambda embed: vector_store.VectorStore(str(tmp_path / "x"), embed)


DOCUMENTS = {f"it's {i}": f"text {i} é" for i in range(20)}


def check(store, embed, documents, k=5):
    """Both queries find what an exact search finds."""
    queries = ["text 3 é", "another"]
    scores = embed(queries) @ embed(list(documents.values())).T
    found = store.search(queries, k)
    assert found[0] == store.search(queries[:1], k)[0]
    for hits, row in zip(found, scores, strict=True):
        best = np.argsort(-row)[:k]
        assert [hit["id"] for hit in hits] == [list(documents)[i] for i in best]
        assert all(hit["text"] == documents[hit["id"]] for hit in hits)
        np.testing.assert_allclose(
            [hit["score"] for hit in hits], row[best], atol=1e-5
        )


def test_the_store_finds_what_exact_search_finds(make):
    embed = Embed()
    assert make(embed).search(["a"], 3) == [[]]
    assert make(embed).update(DOCUMENTS) == 20
    check(make(embed), embed, DOCUMENTS)
    check(make(embed), embed, DOCUMENTS, k=100)
    assert make(embed).search([], 3) == []


def test_only_what_is_new_is_embedded(make):
    make(Embed()).update(DOCUMENTS)
    documents = dict(list(DOCUMENTS.items())[3:]) | {"it's 5": "changed"}
    documents["new"] = "a new one"
    embed = Embed()
    assert make(embed).update(documents) == 2
    # And one text that tells whether the encoder is the same.
    assert set(embed.texts[1:]) == {"changed", "a new one"}
    check(make(embed), embed, documents)
    assert make(embed).update({}) == 0
    assert make(embed).search(["a"], 3) == [[]]
    assert make(embed).update(DOCUMENTS) == 20
    check(make(embed), embed, DOCUMENTS)


@pytest.mark.parametrize("other", [Embed(seed=1), Embed(width=8)])
def test_vectors_of_another_encoder_are_not_kept(make, other):
    make(Embed()).update(DOCUMENTS)
    assert make(other).update(DOCUMENTS) == 20
    check(make(other), other, DOCUMENTS)


def run(script, *arguments):
    done = subprocess.run(
        [sys.executable, EXAMPLES / script, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="no layer is tested here"
)
def test_search_train_search_again(tmp_path, tiny_config, tiny_tokenizer):
    config = dataclasses.replace(tiny_config, max_positions=256)
    tokenizer = kbert.Tokenizer(tiny_tokenizer.backend, max_length=256)
    encoder = kbert.build_encoder(config)
    model = kbert.build_sentence_encoder(encoder)
    base, source = tmp_path / "base", tmp_path / "encoder"
    kbert.save_pretrained(encoder, base, tokenizer=tokenizer)
    kbert.save_pretrained(model, source, tokenizer=tokenizer)
    words = "good bad film the a not was".split()
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, 6)) for _ in range(60)]
    corpus, queries = tmp_path / "corpus.jsonl", tmp_path / "queries.jsonl"
    corpus.write_text(
        "".join(
            json.dumps({"_id": f"d{i}", "title": "film", "text": text}) + "\n"
            for i, text in enumerate(texts)
        )
    )
    queries.write_text(
        "".join(
            json.dumps({"_id": f"q{i}", "text": text[:12]}) + "\n"
            for i, text in enumerate(texts)
        )
    )
    qrels = tmp_path / "qrels.tsv"
    rows = [f"q{i}\td{i + 3 * j}\t1\n" for i in range(8) for j in range(2)]
    qrels.write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
    data = ["--corpus", corpus, "--queries", queries, "--qrels", qrels]
    data += ["--encoder", source, "--index", tmp_path / "index"]

    text = run("semantic_search.py", *data, "--search", "good film")
    assert "60 documents, of which 60 were embedded" in text
    embed = kbert.pipelines.Embedder(model, tokenizer)
    scores = embed([text[:12] for text in texts[:8]])
    scores = scores @ embed([f"film {text}" for text in texts]).T
    expected = []
    for i, row in enumerate(scores):
        best = np.argsort(-row)[:10]
        gains = [int(d in (i, i + 3)) for d in best] @ (
            1 / np.log2(np.arange(2, 12))
        )
        expected.append(gains / (1 + 1 / np.log2(3)))
    found = float(re.search(r"by vectors: nDCG@10 (\S+),", text)[1])
    assert abs(found - np.mean(expected)) < 1e-3
    assert len(re.findall(r"^ *-?\d\.\d{3}  d\d+: film", text, re.M)) == 5

    output = tmp_path / "reranker"
    run(
        "train_reranker.py",
        *data,
        "--base",
        base,
        "--smoke",
        "--output",
        output,
    )
    text = run(
        "semantic_search.py", *data, "--reranker", output, "--search", "bad"
    )
    assert "60 documents, of which 0 were embedded" in text
    assert "re-ranked: nDCG@10" in text
