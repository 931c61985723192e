"""Rows of texts that belong together."""

import numpy as np
import pytest

from kbert.data import sentence_pair_dataset

ANCHORS = ["good film", "bad plot", "the film was very good", "good film"]
POSITIVES = ["a good film", "the plot was bad", "good film", "film"]
NEGATIVES = [["bad film"], [], ["plot", "a good film", "bad film"], ["plot"]]


def rows(dataset):
    """Each row's texts as ids without padding, and its target."""
    found = []
    for x, y, *_ in dataset:
        ids, mask = x["token_ids"].numpy(), x["padding_mask"].numpy()
        assert (np.diff(mask, axis=-1) <= 0).all()
        assert (ids[mask == 0] == 0).all()
        for texts, real, target in zip(ids, mask, y.numpy(), strict=True):
            texts = [
                list(text[is_real > 0])
                for text, is_real in zip(texts, real, strict=True)
            ]
            found.append((texts, target.tolist()))
    return found


def test_every_text_stands_in_its_place(tiny_tokenizer):
    dataset = sentence_pair_dataset(
        ANCHORS,
        POSITIVES,
        negatives=NEGATIVES,
        tokenizer=tiny_tokenizer,
        batch_size=3,
        max_length=8,
        pad_to="batch",
    )
    found = rows(dataset)
    assert len(found) == 4
    number_of = {}
    for index, (texts, numbers) in enumerate(found):
        expected = [ANCHORS[index], POSITIVES[index], *NEGATIVES[index]]
        expected += [None] * (5 - len(expected))
        for text, ids, number in zip(expected, texts, numbers, strict=True):
            if text is None:
                assert (ids, number) == ([], -1)
            else:
                assert ids == tiny_tokenizer(text).ids
                assert number_of.setdefault(text, number) == number
    assert len(set(number_of.values())) == len(number_of)


def test_rows_of_like_length_share_a_batch(tiny_tokenizer):
    anchors = []
    for word in ("good", "bad", "film", "plot"):
        anchors += [word, f"{word} bad film " * 6]
    dataset = sentence_pair_dataset(
        anchors,
        ["bad", "bad"] * 4,
        tokenizer=tiny_tokenizer,
        batch_size=4,
        max_length=32,
        shuffle=True,
    )
    lengths = sorted(x["token_ids"].shape[-1] for x, _ in dataset)
    assert lengths == [8, 24]
    first, second = (str(rows(dataset)) for _ in range(2))
    assert first != second
    assert sorted(first) == sorted(second)


def test_scores_weights_and_static_shapes(tiny_tokenizer):
    dataset = sentence_pair_dataset(
        ANCHORS,
        POSITIVES,
        [0.5, -1, 1, 0.0],
        sample_weight=[1, 2, 3, 4],
        tokenizer=tiny_tokenizer,
        batch_size=3,
        max_length=8,
        pad_to="max",
        drop_remainder=True,
    )
    assert dataset.element_spec[0]["token_ids"].shape == (3, 2, 8)
    [(_, y, weights)] = dataset
    assert y.dtype == "float32"
    assert y.numpy().tolist() == [0.5, -1.0, 1.0]
    assert weights.numpy().tolist() == [1, 2, 3]


def test_long_texts_are_cut(tiny_tokenizer, caplog):
    dataset = sentence_pair_dataset(
        ["good " * 9],
        ["bad"],
        tokenizer=tiny_tokenizer,
        batch_size=1,
        max_length=6,
    )
    [(x, _)] = dataset
    assert x["padding_mask"].numpy().sum(-1).tolist() == [[6, 3]]
    assert "1 of 2 texts" in caplog.text


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"positives": ["film"]}, ValueError, "1 positives for 4 anchors"),
        ({"negatives": ["film"]}, ValueError, "1 negatives for 4 anchors"),
        ({"negatives": [["film", 3]] * 4}, TypeError, r"negatives\[0\]\[1\]"),
        ({"negatives": [None] * 4}, TypeError, r"negatives\[0\]"),
        ({"scores": [0, 1, 2, 5]}, ValueError, "divide"),
        ({"scores": [0, 1, np.nan, 0]}, ValueError, "finite"),
        ({"scores": [0.0]}, ValueError, "1 labels for 4"),
        (
            {"scores": [0.0] * 4, "negatives": NEGATIVES},
            ValueError,
            "no negatives",
        ),
        ({"sample_weight": [1]}, ValueError, "sample_weight"),
        ({"anchors": [], "positives": []}, ValueError, "at least one"),
        ({"max_length": 99}, ValueError, "max_length=99"),
    ],
)
def test_bad_input(tiny_tokenizer, change, error, message):
    options = {
        "anchors": ANCHORS,
        "positives": POSITIVES,
        "tokenizer": tiny_tokenizer,
        "batch_size": 2,
        "max_length": 8,
    }
    with pytest.raises(error, match=message) as caught:
        sentence_pair_dataset(**{**options, **change})
    assert "Received: " in str(caught.value)
