import numpy as np
import pytest

import kbert
from kbert.pipelines import Classifier, FillMask
from kbert.pipelines.prediction import portions, predict, softmax

TEXTS = ["the film was good", "", "bad " * 40, "not [MASK]", "a bad film"]


def test_outputs_of_any_structure(tiny_config, tiny_tokenizer, monkeypatch):
    model = kbert.build_span_model(kbert.build_encoder(tiny_config))
    encoded = tiny_tokenizer.encode_ids(TEXTS, max_length=32)

    def run():
        found = {}
        for indices, outputs in predict(
            model, tiny_tokenizer, encoded, batch_size=2, max_length=32
        ):
            assert set(outputs) == {"start", "end"}
            for row, index in enumerate(indices):
                assert index not in found
                found[index] = {n: x[row] for n, x in outputs.items()}
            assert all(len(x) == len(indices) for x in outputs.values())
        return found

    expected = run()
    assert sorted(expected) == list(range(len(TEXTS)))
    original = model.predict_on_batch

    def twice(inputs):
        """What Keras returns where two replicas each answer the batch."""
        rows = original(inputs)
        return {name: np.concatenate([x] * 2) for name, x in rows.items()}

    monkeypatch.setattr(model, "predict_on_batch", twice)
    for index, outputs in run().items():
        for name, row in outputs.items():
            np.testing.assert_array_equal(row, expected[index][name])


def test_softmax():
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 5, (3, 4, 6)).astype("float32")
    logits[0, 0] = [1e30, -1e30, 0, 0, 0, 1e30]
    scores = softmax(logits)
    assert scores.dtype == "float32"
    exact = np.exp(logits[1:].astype("float64"))
    exact /= exact.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(scores[1:], exact, atol=1e-7)
    np.testing.assert_array_equal(scores[0, 0], [0.5, 0, 0, 0, 0, 0.5])


@pytest.mark.parametrize("order", ["C", "F"])
def test_softmax_of_a_vocabulary_is_exact(order):
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (4, 30522)).astype("float32", order=order)
    exact = np.exp(logits.astype("float64"))
    exact /= exact.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(softmax(logits), exact, rtol=2e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda encoder, t: Classifier(kbert.build_classifier(encoder, 2), t),
        lambda encoder, t: FillMask(kbert.build_masked_lm(encoder), t),
    ],
    ids=["Classifier", "FillMask"],
)
@pytest.mark.parametrize(
    "kind, error, expected, received",
    [
        ("text", TypeError, "kbert.Tokenizer", "tokenizer='bert'"),
        ("larger", ValueError, "more ids", "vocab_size=22"),
        ("distilbert", ValueError, "segment_ids", "family='distilbert'"),
    ],
)
def test_tokenizers_of_other_models(
    tiny_config, tiny_tokenizer, make, kind, error, expected, received
):
    vocab = tiny_tokenizer.get_vocab()
    tokenizer = {
        "text": "bert",
        "larger": kbert.Tokenizer.from_vocab({**vocab, "more": len(vocab)}),
        "distilbert": kbert.Tokenizer(
            tiny_tokenizer.backend, family="distilbert"
        ),
    }[kind]
    with pytest.raises(error) as caught:
        make(kbert.build_encoder(tiny_config), tokenizer)
    message = str(caught.value)
    assert expected in message
    assert "Received: " in message and message.endswith(received), message


@pytest.mark.parametrize(
    ("sizes", "slices"),
    [
        ([], []),
        ([0, 0], [(0, 2)]),
        ([4, 6, 1], [(0, 2), (2, 3)]),
        ([11, 50, 1, 9, 1], [(0, 1), (1, 2), (2, 4), (4, 5)]),
    ],
)
def test_portions_hold_a_text_at_least(sizes, slices):
    assert list(portions(sizes, 10)) == [slice(*pair) for pair in slices]
