"""Hard negatives against a search of every text."""

import numpy as np
import pytest

import kbert
from kbert.pipelines import hard_negatives, mine_hard_negatives

CORPUS = [f"text {i}" for i in range(40)]
ANCHORS = [f"anchor {i}" for i in range(9)] + ["anchor 2", "text 7"]
POSITIVES = [f"text {3 * i}" for i in range(11)]


class Known:
    """Vectors drawn for each text, and cosines."""

    def __init__(self):
        rng = np.random.default_rng(0)
        texts = dict.fromkeys([*CORPUS, *ANCHORS])
        self.vectors = {x: rng.normal(size=4).astype("float32") for x in texts}
        # Anchors are near their positives, as a trained model's.
        for a, p in zip(ANCHORS, POSITIVES, strict=True):
            if a.startswith("anchor"):
                self.vectors[a] = self.vectors[p] + 0.3 * self.vectors[a]
        self.most = 0

    def encode(self, texts, *, prompt_name, show_progress):
        self.most = max(self.most, len(texts))
        rows = [self.vectors[text] for text in texts]
        return np.array(rows, "float32").reshape(-1, 4)

    def similarity(self, a, b):
        a, b = np.atleast_2d(a), np.atleast_2d(b)
        norms = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)
        return a @ b.T / norms


def by_search(known, corpus, count, margin):
    def score(a, b):
        a, b = known.vectors[a], known.vectors[b]
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    found = []
    for anchor, positive in zip(ANCHORS, POSITIVES, strict=True):
        own = {
            p for a, p in zip(ANCHORS, POSITIVES, strict=True) if a == anchor
        }
        limit = score(anchor, positive) - margin
        left = [
            x
            for x in dict.fromkeys(corpus)
            if x not in own and x != anchor and score(anchor, x) <= limit
        ]
        found.append(sorted(left, key=lambda x: -score(anchor, x))[:count])
    return found


@pytest.mark.parametrize("margin", [0.0, 0.1, 0.6, 3.0])
@pytest.mark.parametrize("sizes", [(16384, 1024), (7, 4), (1, 1)])
def test_equals_a_search(monkeypatch, sizes, margin):
    monkeypatch.setattr(hard_negatives, "_TEXTS", sizes[0])
    monkeypatch.setattr(hard_negatives, "_ANCHORS", sizes[1])
    known = Known()
    corpus = CORPUS + CORPUS[:5]
    found = mine_hard_negatives(
        known, ANCHORS, POSITIVES, corpus, num_negatives=4, margin=margin
    )
    assert found == by_search(known, corpus, 4, margin)
    if margin == 3.0:
        assert found == [[]] * len(ANCHORS)
    if sizes[0] == 7:
        assert known.most == len(ANCHORS)


def test_without_a_corpus_the_positives_are_searched():
    known = Known()
    found = mine_hard_negatives(known, ANCHORS, POSITIVES, num_negatives=40)
    assert found == by_search(known, POSITIVES, 40, 0.05)
    assert len(found[0]) > 3


def test_for_the_data_set(tiny_config, tiny_tokenizer):
    model = kbert.build_sentence_encoder(kbert.build_encoder(tiny_config))
    embedder = kbert.pipelines.Embedder(model, tiny_tokenizer)
    anchors, positives = ["good", "bad"], ["good film", "bad plot"]
    negatives = mine_hard_negatives(
        embedder, anchors, positives, ["the", "very good", "good film"]
    )
    dataset = kbert.data.sentence_pair_dataset(
        anchors,
        positives,
        negatives=negatives,
        tokenizer=tiny_tokenizer,
        batch_size=2,
        max_length=8,
    )
    [(_, y)] = dataset
    assert y.shape == (2, 2 + max(map(len, negatives)))
    empty = mine_hard_negatives(embedder, anchors, positives, [])
    assert empty == [[], []]


@pytest.mark.parametrize(
    "change, error",
    [
        ({"num_negatives": 0}, ValueError),
        ({"num_negatives": 1.5}, ValueError),
        ({"margin": -0.1}, ValueError),
        ({"positives": ["text 1"]}, ValueError),
        ({"corpus": ["text 1", None]}, TypeError),
        ({"corpus": "text 1"}, TypeError),
    ],
)
def test_bad_input(change, error):
    options = {"anchors": ANCHORS, "positives": POSITIVES, "corpus": CORPUS}
    with pytest.raises(error, match="Received"):
        mine_hard_negatives(Known(), **{**options, **change})
