"""The losses on vectors, and their gradients, are sentence-transformers'."""

import numpy as np
import pytest
from loss_reference import gradient

torch = pytest.importorskip("torch", reason="pip install keras-kbert[parity]")
reference = pytest.importorskip(
    "sentence_transformers.sentence_transformer.losses",
    reason="pip install sentence-transformers",
)

from kbert.losses import (  # noqa: E402
    CoSENTLoss,
    CosineSimilarityLoss,
    MatryoshkaLoss,
    MultipleNegativesRankingLoss,
    TripletLoss,
)

ROWS, TEXTS, SIZE = 7, 4, 12
BOTH = ("query_to_doc", "doc_to_query")
# sentence-transformers' distances by their names here.
DISTANCES = {"cosine": "COSINE", "euclidean": "EUCLIDEAN"}
DISTANCES["manhattan"] = "MANHATTAN"


class Vectors(torch.nn.Module):
    """A model whose vectors are given."""

    def forward(self, features):
        return {"sentence_embedding": features["vectors"].clone()}

    def get_embedding_dimension(self):
        return SIZE


def draw(texts):
    rng = np.random.default_rng(0)
    ids = np.arange(ROWS * texts).reshape(ROWS, texts).astype("int32")
    return ids, rng.normal(size=(ROWS, texts, SIZE)).astype("float32")


def same(ours, theirs, targets, vectors, labels=None):
    x = torch.tensor(vectors, requires_grad=True)
    columns = [{"vectors": x[:, k]} for k in range(vectors.shape[1])]
    value = theirs(columns, labels)
    value.backward()
    assert float(ours(targets, vectors)) == pytest.approx(
        value.item(), rel=1e-5, abs=1e-5
    )
    slope = gradient(lambda v: ours(targets, v), vectors)
    np.testing.assert_allclose(slope, x.grad.numpy(), atol=1e-5)


@pytest.mark.parametrize("texts", [2, TEXTS])
@pytest.mark.parametrize("is_symmetric", [False, True])
def test_ranking(texts, is_symmetric):
    ids, vectors = draw(texts)
    options = {"scale": 20.0}
    if is_symmetric:
        options |= {"directions": BOTH, "partition_mode": "per_direction"}
    theirs = reference.MultipleNegativesRankingLoss(Vectors(), **options)
    ours = MultipleNegativesRankingLoss(symmetric=is_symmetric)
    same(ours, theirs, ids, vectors)


@pytest.mark.parametrize("name", ["cosine", "cosent"])
def test_scored(name):
    _, vectors = draw(2)
    scores = np.array([0.2, 0.9, -0.3, 0.2, 1.0, 0.0, 0.4], "float32")
    if name == "cosine":
        pair = CosineSimilarityLoss(), reference.CosineSimilarityLoss
    else:
        pair = CoSENTLoss(), reference.CoSENTLoss
    same(pair[0], pair[1](Vectors()), scores, vectors, torch.tensor(scores))


@pytest.mark.parametrize("distance", DISTANCES)
def test_triplet(distance):
    ids, vectors = draw(3)
    metric = getattr(reference.TripletDistanceMetric, DISTANCES[distance])
    theirs = reference.TripletLoss(Vectors(), metric, triplet_margin=0.5)
    same(TripletLoss(0.5, distance), theirs, ids, vectors)


def test_matryoshka():
    ids, vectors = draw(3)
    sizes, weights = [12, 6, 3], [1.0, 0.5, 2.0]
    model = Vectors()
    inner = reference.MultipleNegativesRankingLoss(model)
    theirs = reference.MatryoshkaLoss(model, inner, sizes, weights)
    ours = MatryoshkaLoss(MultipleNegativesRankingLoss(), sizes, weights)
    same(ours, theirs, ids, vectors)
