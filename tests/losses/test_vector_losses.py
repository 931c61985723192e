"""The losses on vectors against loops in float64."""

import keras
import numpy as np
import pytest
from keras import ops
from loss_reference import compiled, gradient

import kbert
from kbert.losses import (
    CoSENTLoss,
    CosineSimilarityLoss,
    MatryoshkaLoss,
    MultipleNegativesRankingLoss,
    TripletLoss,
)

ROWS, TEXTS, SIZE = 5, 4, 6
each_wrap = pytest.mark.parametrize("wrap", [lambda f: f, compiled])
LOSSES = [
    MultipleNegativesRankingLoss(3.0, symmetric=True, similarity="dot"),
    CosineSimilarityLoss("first"),
    CoSENTLoss(4.0),
    TripletLoss(0.3, "manhattan"),
    MatryoshkaLoss(TripletLoss(0.3), [6, 2], [1.0, 0.5]),
]


def draw(seed=0, texts=TEXTS):
    """Ids with equal texts, and a negative or two that are not there."""
    rng = np.random.default_rng(seed)
    ids = np.arange(ROWS * texts).reshape(ROWS, texts).astype("int32")
    vectors = rng.normal(size=(ROWS, texts, SIZE)).astype("float32")
    return ids, vectors


def with_duplicates():
    ids, vectors = draw()
    ids[3, 0] = ids[1, 0]  # another positive of the same anchor
    ids[4, 1] = ids[0, 1]  # the same positive of another anchor
    ids[2, 3] = ids[2, 1]  # a hard negative that is the positive
    ids[0, 3] = ids[1, 0]  # a hard negative that is another's anchor
    ids[1, 2] = ids[3, 1]  # and one that is the anchor's other positive
    ids[1, 3] = ids[2, 2] = -1
    return ids, vectors


def of_length_1(x):
    x = np.asarray(x, "float64")
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def ranking(ids, vectors, scale, is_symmetric=False, is_cosine=True):
    """Each row's loss, written from what the class says."""
    x = of_length_1(vectors) if is_cosine else np.asarray(vectors, "float64")
    rows, texts = ids.shape
    pairs = {(a, p) for a, p in ids[:, :2].tolist()}
    losses = []
    for i in range(rows):
        own = scale * x[i, 0] @ x[i, 1]
        scores, back = [own], [own]
        for j in range(rows):
            for k in range(1, texts):
                other = ids[j, k]
                if (j, k) == (i, 1) or other in (-1, ids[i, 0]):
                    continue
                if (ids[i, 0], other) not in pairs:
                    scores.append(scale * x[i, 0] @ x[j, k])
            if ids[j, 0] == ids[i, 1] or j == i:
                continue
            if (ids[j, 0], ids[i, 1]) not in pairs:
                back.append(scale * x[i, 1] @ x[j, 0])
        loss = np.log(np.exp(scores).sum()) - own
        if is_symmetric:
            loss = (loss + np.log(np.exp(back).sum()) - own) / 2
        losses.append(loss)
    return np.array(losses)


@each_wrap
@pytest.mark.parametrize("is_symmetric", [False, True])
@pytest.mark.parametrize("make", [draw, with_duplicates])
def test_ranking(make, is_symmetric, wrap):
    ids, vectors = make()
    loss = wrap(MultipleNegativesRankingLoss(5.0, symmetric=is_symmetric))
    expected = ranking(ids, vectors, 5.0, is_symmetric)
    value = float(loss(ids, vectors))
    assert value == pytest.approx(expected.mean(), rel=1e-5)
    weights = np.array([1, 0, 2, 0.5, 3], "float32")
    value = float(loss(ids, vectors, weights))
    expected = (expected * weights).sum() / weights.sum()
    assert value == pytest.approx(expected, rel=1e-5)


def test_duplicates_matter_here():
    ids, vectors = with_duplicates()
    plain, _ = draw()
    one, two = (ranking(x, vectors, 5.0, True) for x in (ids, plain))
    assert (np.abs(one - two) > 1e-3).all()


def test_ranking_by_products():
    ids, vectors = with_duplicates()
    loss = MultipleNegativesRankingLoss(0.5, similarity="dot")
    expected = ranking(ids, vectors, 0.5, is_cosine=False).mean()
    assert float(loss(ids, vectors)) == pytest.approx(expected, rel=1e-5)


def test_what_is_no_negative_gets_no_gradient():
    ids, vectors = with_duplicates()
    loss = MultipleNegativesRankingLoss()
    slope = gradient(lambda x: loss(ids, x), vectors)
    assert (slope[1, 3] == 0).all() and (slope[2, 2] == 0).all()
    assert (np.abs(slope[:, 0]).max(-1) > 1e-4).all()


def test_ids_above_the_whole_numbers_of_float32():
    ids, vectors = draw()
    loss = MultipleNegativesRankingLoss()
    expected = float(loss(ids, vectors))
    assert float(loss(ids + 2**30, vectors)) == pytest.approx(expected)


def test_one_row_has_no_negatives():
    ids, vectors = draw(texts=2)
    loss = MultipleNegativesRankingLoss(symmetric=True)
    assert float(loss(ids[:1], vectors[:1])) == pytest.approx(0, abs=1e-6)


@each_wrap
def test_cosine_similarity(wrap):
    _, vectors = draw(texts=2)
    scores = np.array([0.1, -0.4, 1.0, 0.0, 0.7], "float32")
    x = of_length_1(vectors)
    expected = ((x[:, 0] * x[:, 1]).sum(-1) - scores) ** 2
    loss = wrap(CosineSimilarityLoss())
    value = float(loss(scores, vectors))
    assert value == pytest.approx(expected.mean(), rel=1e-5)
    value = float(loss(scores, vectors, np.float32([0, 1, 0, 2, 0])))
    expected = (expected[1] + 2 * expected[3]) / 3
    assert value == pytest.approx(expected, rel=1e-5)


@each_wrap
def test_cosent(wrap):
    _, vectors = draw(texts=2)
    scores = np.array([0.1, -0.4, 1.0, 0.1, 0.7], "float32")
    x = of_length_1(vectors)
    cosines = (x[:, 0] * x[:, 1]).sum(-1)
    weights = np.array([1, 2, 0.5, 0, 1], "float32")
    loss = wrap(CoSENTLoss(7.0))
    for w in (None, weights):
        each = np.ones(ROWS) if w is None else w
        total = 1.0
        for i in range(ROWS):
            for j in range(ROWS):
                if scores[i] > scores[j]:
                    gap = 7.0 * (cosines[j] - cosines[i])
                    total += each[i] * each[j] * np.exp(gap)
        value = float(loss(scores, vectors, w))
        assert value == pytest.approx(np.log(total), rel=1e-5)


@each_wrap
@pytest.mark.parametrize("distance", ["cosine", "euclidean", "manhattan"])
def test_triplets(distance, wrap):
    ids, vectors = with_duplicates()
    weights = np.array([1, 2, 0.5, 3, 1], "float32")
    total, count = 0.0, 0.0
    for i in range(ROWS):
        x = np.asarray(vectors[i], "float64")
        gaps = x - x[0]
        far = {
            "cosine": 1 - of_length_1(x) @ of_length_1(x[0]),
            "euclidean": np.sqrt((gaps**2).sum(-1)),
            "manhattan": np.abs(gaps).sum(-1),
        }[distance]
        for k in range(2, TEXTS):
            if ids[i, k] not in (-1, ids[i, 0], ids[i, 1]):
                total += weights[i] * max(0.0, far[1] - far[k] + 0.8)
                count += weights[i]
    value = float(wrap(TripletLoss(0.8, distance))(ids, vectors, weights))
    assert value == pytest.approx(total / count, rel=1e-5)


def test_matryoshka_is_the_sum_over_sizes():
    ids, vectors = with_duplicates()
    weights = np.array([1, 2, 0.5, 3, 1], "float32")
    inner = MultipleNegativesRankingLoss(5.0)
    loss = MatryoshkaLoss(inner, [6, 3, 1], [1.0, 0.5, 2.0])
    parts = [float(inner(ids, vectors[..., :d], weights)) for d in (6, 3, 1)]
    expected = parts[0] + 0.5 * parts[1] + 2 * parts[2]
    value = float(loss(ids, vectors, weights))
    assert value == pytest.approx(expected, rel=1e-5)
    # Products see the length: every part has length 1.
    inner = MultipleNegativesRankingLoss(5.0, similarity="dot")
    value = float(MatryoshkaLoss(inner, [6])(ids, 9 * vectors))
    expected = ranking(ids, vectors, 5.0).mean()
    assert value == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda x: x.name)
@pytest.mark.parametrize("factor", [0.0, 1e-30, 1e12])
def test_finite_everywhere(loss, factor):
    ids, vectors = draw()
    targets = ids
    if isinstance(loss, (CosineSimilarityLoss, CoSENTLoss)):
        targets, vectors = np.linspace(-1, 1, ROWS, dtype="float32"), None
        vectors = draw(texts=2)[1]
    vectors = (factor * vectors).astype("float32")
    assert np.isfinite(float(loss(targets, vectors)))
    slope = gradient(lambda x: loss(targets, x), vectors)
    assert np.isfinite(slope).all()
    # Nothing counts.
    assert float(loss(targets, vectors, np.zeros(ROWS, "float32"))) == 0


@pytest.mark.parametrize("loss", LOSSES, ids=lambda x: x.name)
def test_config_round_trip(loss):
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert type(again) is type(loss)
    assert again.get_config() == loss.get_config()


@pytest.mark.parametrize("loss", LOSSES, ids=lambda x: x.name)
def test_bad_shapes(loss):
    ids, vectors = draw(texts=3)
    for y, x, w in (
        (ids[:, :2], vectors, None),
        (ids, vectors[0], None),
        (ids[:3], vectors, None),
        (ids[:, :1], vectors[:, :1], None),
    ):
        with pytest.raises(ValueError, match="Received"):
            loss(y, x, w)
    y, x = ids, vectors
    if isinstance(loss, (CosineSimilarityLoss, CoSENTLoss)):
        y, x = np.zeros(ROWS), vectors[:, :2]
    for w in (np.ones((ROWS, 1)), np.ones(ROWS + 1)):
        with pytest.raises(ValueError, match="sample_weight"):
            loss(y, x, w)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MultipleNegativesRankingLoss(scale=0),
        lambda: MultipleNegativesRankingLoss(similarity="euclidean"),
        lambda: CoSENTLoss(-1.0),
        lambda: TripletLoss(margin=0),
        lambda: TripletLoss(distance="dot"),
        lambda: MatryoshkaLoss(TripletLoss(), []),
        lambda: MatryoshkaLoss(TripletLoss(), [0]),
        lambda: MatryoshkaLoss(TripletLoss(), [2], [1, 1]),
        lambda: MatryoshkaLoss(TripletLoss(), [7])(*draw()),
    ],
)
def test_bad_options(make):
    with pytest.raises(ValueError, match="Received"):
        make()
    with pytest.raises(TypeError, match="Received"):
        MatryoshkaLoss("triplet", [2])


@pytest.mark.parametrize("has_scores", [False, True])
def test_in_fit(tiny_config, tiny_tokenizer, has_scores):
    """`fit` shows the loss, and training brings pairs together."""
    keras.utils.set_random_seed(0)
    sentences = kbert.build_sentence_encoder(kbert.build_encoder(tiny_config))
    model = kbert.build_pair_encoder(sentences)
    words = ["good", "bad", "film", "plot", "very", "play"]
    options = {"tokenizer": tiny_tokenizer, "batch_size": 3, "max_length": 8}
    if has_scores:
        options["scores"] = [1.0, 0.5, 0.0, -0.5, 0.2, 0.8]
        loss = CosineSimilarityLoss()
    else:
        options["negatives"] = [["the"], [], ["a", "not"], ["a"], [], ["a"]]
        loss = MatryoshkaLoss(MultipleNegativesRankingLoss(), [16, 8])
    dataset = kbert.data.sentence_pair_dataset(
        words, ["the " + word for word in words[::-1]], **options
    )
    model.compile(keras.optimizers.Adam(3e-3), loss, jit_compile=False)
    expected = np.mean(
        [float(loss(y, model.predict_on_batch(x))) for x, y in dataset]
    )
    shown = model.evaluate(dataset, verbose=0)
    assert shown == pytest.approx(expected, rel=1e-4)
    model.fit(dataset, epochs=15, shuffle=False, verbose=0)
    assert model.evaluate(dataset, verbose=0) < 0.5 * shown
    assert ops.shape(sentences.output)[-1] == 16
