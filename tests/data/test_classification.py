import dataclasses
import logging
import random

import keras
import numpy as np
import pytest

import kbert
from kbert.data import classification_dataset

tf = pytest.importorskip("tensorflow")

TEXTS = [
    "the film was good",
    "bad",
    "a very , very bad plot !",
    "playing is good",
    "not good",
    "the plot was not bad .",
    "films",
    "",
    "good " * 20,
    "zebra",
]
LABELS = [1, 0, 0, 1, 0, 1, 2, 0, 1, 2]
NAMES = ["bad", "good", "other"]


@pytest.fixture
def dataset_of(tiny_tokenizer):
    def make(texts=TEXTS, labels=None, **changes):
        options = {
            "tokenizer": tiny_tokenizer,
            "batch_size": 4,
            "max_length": 32,
        }
        return classification_dataset(texts, labels, **(options | changes))

    return make


@pytest.fixture
def model(tiny_config):
    keras.utils.set_random_seed(0)
    # Large weights, so that the answers to two texts differ.
    tiny_config = dataclasses.replace(tiny_config, initializer_range=0.5)
    model = kbert.build_classifier(kbert.build_encoder(tiny_config), 3)
    model.compile(
        keras.optimizers.SGD(0.1),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def row_by_hand(tokenizer, text, pair, length, max_length):
    """One row of each input, in plain Python lists."""
    encoding = tokenizer.encode(text, pair, max_length=max_length)
    fill = [0] * (length - len(encoding.ids))
    return {
        "token_ids": encoding.ids + [tokenizer.pad_token_id] * len(fill),
        "segment_ids": encoding.type_ids + fill,
        "padding_mask": [1] * len(encoding.ids) + fill,
    }


def predict_alone(model, x):
    return model.predict_on_batch({name: x[name].numpy() for name in x})


def all_labels(dataset):
    return np.concatenate([batch[1].numpy() for batch in dataset])


def random_texts(count, seed=0, longest=25):
    rng = random.Random(seed)
    words = "the a good bad film plot very not was is".split()
    return [
        " ".join(rng.choices(words, k=rng.randint(1, longest)))
        for _ in range(count)
    ]


# Inputs


@pytest.mark.parametrize("pad_to", ["bucket", "batch", "max"])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("has_pairs", [False, True])
@pytest.mark.parametrize("max_length", [32, 7])
def test_inputs_equal_those_made_by_hand(
    dataset_of, tiny_tokenizer, pad_to, shuffle, has_pairs, max_length
):
    pairs = TEXTS[::-1] if has_pairs else None
    dataset = dataset_of(
        labels=np.arange(10),
        pairs=pairs,
        pad_to=pad_to,
        shuffle=shuffle,
        max_length=max_length,
    )
    seen = []
    for x, y in dataset:
        assert set(x) == {"token_ids", "segment_ids", "padding_mask"}
        length = x["token_ids"].shape[1]
        assert length <= max_length
        if pad_to == "batch":
            assert length == x["padding_mask"].numpy().sum(axis=1).max()
        if pad_to == "max":
            assert length == max_length
        for name, array in x.items():
            assert array.dtype == tf.int32
            assert array.shape == (len(y), length)
            for row, place in zip(array.numpy(), y.numpy(), strict=True):
                pair = pairs[place] if has_pairs else None
                expected = row_by_hand(
                    tiny_tokenizer, TEXTS[place], pair, length, max_length
                )
                assert row.tolist() == expected[name], (name, place)
        seen += y.numpy().tolist()
    assert sorted(seen) == list(range(10))
    if not shuffle and pad_to != "bucket":
        assert seen == list(range(10))


def test_pairs_by_their_numbers(dataset_of, tiny_tokenizer):
    ids = tiny_tokenizer.get_vocab()
    dataset = dataset_of(["good"], pairs=["very bad"], pad_to="max")
    ((x,),) = list(dataset)
    tokens = ["[CLS]", "good", "[SEP]", "very", "bad", "[SEP]"]
    expected = [ids[token] for token in tokens] + [ids["[PAD]"]] * 26
    assert x["token_ids"].numpy().tolist() == [expected]
    assert x["segment_ids"].numpy().tolist() == [[0] * 3 + [1] * 3 + [0] * 26]
    assert x["padding_mask"].numpy().tolist() == [[1] * 6 + [0] * 26]


def test_padding_is_the_tokenizers_own_pad(tiny_tokenizer):
    vocab = ["a", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "[PAD]"]
    tokenizer = kbert.Tokenizer.from_vocab(vocab)
    dataset = classification_dataset(
        ["good"], tokenizer=tokenizer, batch_size=1, max_length=5, pad_to="max"
    )
    ((x,),) = list(dataset)
    assert x["token_ids"].numpy().tolist() == [[2, 5, 3, 6, 6]]


def test_empty_text_is_cls_and_sep(dataset_of, tiny_tokenizer):
    ((x,),) = list(dataset_of([""]))
    cls, sep = tiny_tokenizer.cls_token_id, tiny_tokenizer.sep_token_id
    assert x["token_ids"].numpy()[0, :3].tolist() == [cls, sep, 0]
    assert x["padding_mask"].numpy().sum() == 2


def test_static_shapes(dataset_of):
    dataset = dataset_of(
        labels=np.eye(10)[:, :3],
        sample_weight=np.ones(10),
        pad_to="max",
        drop_remainder=True,
    )
    x, y, weight = dataset.element_spec
    for name in ("token_ids", "segment_ids", "padding_mask"):
        assert x[name] == tf.TensorSpec((4, 32), tf.int32)
    assert y == tf.TensorSpec((4, 3), tf.float32)
    assert weight == tf.TensorSpec((4,), tf.float32)
    assert [len(batch[1]) for batch in dataset] == [4, 4]


def test_dynamic_shapes(dataset_of):
    x, y = dataset_of(labels=LABELS).element_spec
    assert x["token_ids"] == tf.TensorSpec((None, None), tf.int32)
    assert y == tf.TensorSpec((None,), tf.int32)
    x, y = dataset_of(labels=LABELS, pad_to="max").element_spec
    assert x["token_ids"] == tf.TensorSpec((None, 32), tf.int32)


# Labels and weights


@pytest.mark.parametrize(
    "labels, names, dtype, expected",
    [
        ([1, 0, 2], None, "int32", [1, 0, 2]),
        ((1, 0, 2), None, "int32", [1, 0, 2]),
        ([1, 0, 2], NAMES, "int32", [1, 0, 2]),
        (np.array([1, 0, 2], "uint8"), None, "int32", [1, 0, 2]),
        (np.array([1, 0, 2], "int64"), NAMES, "int32", [1, 0, 2]),
        ([np.int64(1), 0, np.int8(2)], None, "int32", [1, 0, 2]),
        ([True, False, True], None, "int32", [1, 0, 1]),
        (np.array([True, False, True]), None, "int32", [1, 0, 1]),
        ([0.5, -2.25, 1], None, "float32", [0.5, -2.25, 1.0]),
        (np.array([0.5, 2, 1], "float16"), None, "float32", [0.5, 2.0, 1.0]),
        (["good", "bad", "other"], NAMES, "int32", [1, 0, 2]),
        (np.array(["good", "bad", "bad"]), NAMES, "int32", [1, 0, 0]),
        (np.array(["other"] * 3, object), NAMES, "int32", [2, 2, 2]),
        (
            [[0, 1], [1, 1], [0, 0]],
            None,
            "float32",
            [[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]],
        ),
        (
            np.array([[0, 1, 1], [1, 1, 0], [0, 0, 0]], bool),
            NAMES,
            "float32",
            [[0.0, 1.0, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]],
        ),
    ],
)
def test_labels(dataset_of, labels, names, dtype, expected):
    dataset = dataset_of(
        TEXTS[:3], labels, label_names=names, batch_size=2, pad_to="batch"
    )
    y = all_labels(dataset)
    assert y.dtype == dtype
    assert y.tolist() == expected


def test_pandas_columns(dataset_of):
    pd = pytest.importorskip("pandas")
    # Filtered, so that the index has gaps and starts elsewhere.
    frame = pd.DataFrame(
        {
            "text": ["drop me", *TEXTS[:3], "drop me"],
            "label": [9, 1, 0, 2, 9],
            "name": ["?", "good", "bad", "other", "?"],
            "weight": [9.0, 0.5, 1.0, 2.0, 9.0],
        }
    )
    frame = frame[frame.label != 9]
    for labels in (
        frame.label,
        frame.label.astype("Int64"),
        frame.name,
        frame.name.astype("category"),
    ):
        dataset = dataset_of(
            frame.text,
            labels,
            pairs=frame.text,
            label_names=NAMES,
            sample_weight=frame.weight,
            pad_to="batch",
        )
        ((x, y, weight),) = list(dataset)
        assert y.dtype == tf.int32
        assert y.numpy().tolist() == [1, 0, 2]
        assert weight.numpy().tolist() == [0.5, 1.0, 2.0]
        assert x["segment_ids"].numpy().max() == 1
    several = pd.get_dummies(frame.label)
    ((_, y),) = list(dataset_of(frame.text, several, pad_to="batch"))
    assert y.numpy().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    missing = frame.label.astype("Int64").copy()
    missing.iloc[1] = pd.NA
    with pytest.raises(ValueError, match=r"whole numbers.*Received: labels="):
        dataset_of(frame.text, missing)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_hugging_face_columns(dataset_of):
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict(
        {"text": TEXTS[:3], "label": [1, 0, 2], "weight": [0.5, 1.0, 2.0]}
    )
    dataset = dataset_of(
        table["text"],
        table["label"],
        sample_weight=table["weight"],
        pad_to="batch",
    )
    ((_, y, weight),) = list(dataset)
    assert y.numpy().tolist() == [1, 0, 2]
    assert weight.numpy().tolist() == [0.5, 1.0, 2.0]


@pytest.mark.parametrize("pad_to", ["bucket", "batch", "max"])
def test_labels_and_weights_stay_with_their_texts(dataset_of, pad_to):
    texts = random_texts(101)
    by_ids = {}
    dataset = dataset_of(
        texts,
        np.arange(101),
        sample_weight=np.arange(101) / 8,
        shuffle=True,
        pad_to=pad_to,
    )
    plain = dataset_of(texts, batch_size=1, pad_to="max")
    for place, (x,) in enumerate(plain):
        by_ids.setdefault(x["token_ids"].numpy().tobytes(), set()).add(place)
    seen = []
    for x, y, weight in dataset:
        assert (weight.numpy() == y.numpy() / 8).all()
        for row, place in zip(x["token_ids"].numpy(), y.numpy(), strict=True):
            full = np.zeros(32, "int32")
            full[: len(row)] = row
            assert place in by_ids[full.tobytes()]
            seen.append(place)
    assert sorted(seen) == list(range(101))


# Order and epochs


def test_without_labels_the_order_is_kept(dataset_of, tiny_tokenizer):
    texts = random_texts(30)
    rows = []
    for (x,) in dataset_of(texts, pad_to="bucket"):
        for ids, mask in zip(
            x["token_ids"].numpy(), x["padding_mask"].numpy(), strict=True
        ):
            rows.append(ids[mask == 1].tolist())
    assert rows == [tiny_tokenizer.encode(text).ids for text in texts]


@pytest.mark.parametrize("pad_to", ["bucket", "batch", "max"])
def test_epochs(dataset_of, pad_to):
    texts, places = random_texts(60), np.arange(60)
    options = {"shuffle": True, "seed": 5, "pad_to": pad_to}
    dataset = dataset_of(texts, places, **options)
    first, second = all_labels(dataset), all_labels(dataset)
    assert first.tolist() != second.tolist()
    assert sorted(first) == sorted(second) == list(range(60))
    again = dataset_of(texts, places, **options)
    assert all_labels(again).tolist() == first.tolist()
    assert all_labels(again).tolist() == second.tolist()
    other = dataset_of(texts, places, **(options | {"seed": 6}))
    assert all_labels(other).tolist() != first.tolist()


def test_without_shuffle_epochs_are_equal(dataset_of):
    dataset = dataset_of(random_texts(60), np.arange(60))
    assert all_labels(dataset).tolist() == all_labels(dataset).tolist()


@pytest.mark.parametrize(
    "count, drop_remainder, expected",
    [(10, False, 3), (10, True, 2), (8, False, 2), (8, True, 2), (1, False, 1)],
)
def test_cardinality(dataset_of, count, drop_remainder, expected):
    dataset = dataset_of(
        TEXTS[:count], LABELS[:count], drop_remainder=drop_remainder
    )
    assert len(dataset) == dataset.cardinality().numpy() == expected
    assert len(list(dataset)) == expected


# Truncation


def test_truncation_is_logged_once(dataset_of, caplog):
    with caplog.at_level(logging.DEBUG, logger="kbert"):
        dataset = dataset_of(max_length=5)
        list(dataset)
        list(dataset)
    # Longer than 5 with [CLS] and [SEP]: numbers 0, 2, 3, 5 and 8.
    (record,) = caplog.records
    assert record.name == "kbert" and record.levelno == logging.WARNING
    assert record.getMessage() == (
        "5 of 10 texts have more than max_length=5 tokens and were truncated."
    )


def test_nothing_truncated_nothing_logged(dataset_of, caplog):
    with caplog.at_level(logging.DEBUG, logger="kbert"):
        list(dataset_of(max_length=22))  # "good " * 20, [CLS] and [SEP]
    assert not caplog.records


# Errors

NAN = float("nan")


@pytest.mark.parametrize(
    "changes, error, expected, received",
    [
        ({"max_length": 33}, ValueError, "at most 32 tokens", "max_length=33"),
        ({"max_length": 2.5}, TypeError, "an int", "max_length=2.5"),
        ({"max_length": 1}, ValueError, "2 or more", "length=1, overlap=0"),
        ({"batch_size": 0}, ValueError, "at least 1", "batch_size=0"),
        ({"batch_size": True}, TypeError, "an int", "batch_size=True"),
        ({"pad_to": "longest"}, ValueError, "'max'", "pad_to='longest'"),
        ({"shuffle": "yes"}, TypeError, "a bool", "shuffle='yes'"),
        ({"seed": None}, TypeError, "an int", "seed=None"),
        (
            {"batch_size": 4, "drop_remainder": True},
            ValueError,
            "one batch holds",
            "3 texts, batch_size=4, drop_remainder=True",
        ),
        ({"texts": [], "labels": []}, ValueError, "at least one text", "none"),
        ({"texts": [], "labels": None}, ValueError, "one text", "none"),
        ({"texts": None}, TypeError, "sequence", "texts=None"),
        ({"texts": "good"}, TypeError, "sequence", "texts='good'"),
        ({"texts": 5}, TypeError, "sequence", "texts=5"),
        ({"texts": ["a", None, "a"]}, TypeError, "string", "texts[1]=None"),
        ({"texts": ["a", "a", 3]}, TypeError, "string", "texts[2]=3"),
        ({"texts": [NAN, "a", "a"]}, TypeError, "string", "texts[0]=nan"),
        ({"texts": ["a", b"a", "a"]}, TypeError, "string", "texts[1]=b'a'"),
        (
            {"pairs": ["a", "a"]},
            ValueError,
            "as many second texts",
            "len(texts)=3, len(pairs)=2",
        ),
        ({"pairs": "abc"}, TypeError, "sequence", "pairs='abc'"),
        ({"pairs": ["a", NAN, "a"]}, TypeError, "string", "pairs[1]=nan"),
        ({"labels": [0, 1]}, ValueError, "one entry", "2 labels for 3 texts"),
        ({"labels": []}, ValueError, "one entry", "0 labels for 3 texts"),
        ({"labels": 1}, TypeError, "a sequence", "labels=1"),
        ({"labels": "abc"}, TypeError, "a sequence", "labels='abc'"),
        ({"labels": np.array(1)}, TypeError, "a sequence", "labels=array(1)"),
        ({"labels": [0, -1, 1]}, ValueError, "in [0, ", "labels[1]=-1"),
        ({"labels": [0, 2**40, 1]}, ValueError, "[0, 2147483647)", f"{2**40}"),
        (
            {"labels": [0, 3, 1], "label_names": NAMES},
            ValueError,
            "in [0, 3)",
            "labels[1]=3",
        ),
        ({"labels": [0, NAN, 1]}, ValueError, "finite", "labels[1]=nan"),
        (
            {"labels": [[0, 1], [0, NAN], [1, 1]]},
            ValueError,
            "finite",
            "labels[1]=[0, nan]",
        ),
        ({"labels": [0, 1e300, 1]}, ValueError, "finite", "labels[1]=1e+300"),
        ({"labels": [0, None, 1]}, ValueError, "numbers", "[0, None, 1]"),
        (
            {"labels": [[0], [0, 1], [1]]},
            ValueError,
            "rows of one length",
            "labels=[[0], [0, 1], [1]]",
        ),
        ({"labels": [[[0]]] * 3}, ValueError, "rows", f"{[[[0]]] * 3}"),
        (
            {"labels": ["good", "ugly", "bad"], "label_names": NAMES},
            ValueError,
            "among label_names=['bad', 'good', 'other']",
            "labels[1]='ugly'",
        ),
        (
            {"labels": ["good", 1, "bad"], "label_names": NAMES},
            ValueError,
            "among label_names=",
            "labels[1]=1",
        ),
        (
            {"labels": ["good", ["bad"], "bad"], "label_names": NAMES},
            ValueError,
            "among label_names=",
            "labels[1]=['bad']",
        ),
        (
            {"labels": ["good", "bad", "bad"]},
            ValueError,
            "`label_names`",
            "labels=['good', 'bad', 'bad']",
        ),
        (
            {"labels": [[0, 1]] * 3, "label_names": NAMES},
            ValueError,
            "one column for each of 3",
            "labels of shape (3, 2)",
        ),
        (
            {"label_names": ["a", "a", "b"]},
            ValueError,
            "different",
            "label_names=['a', 'a', 'b']",
        ),
        ({"label_names": "abc"}, TypeError, "strings", "label_names='abc'"),
        ({"label_names": []}, TypeError, "strings", "label_names=[]"),
        ({"label_names": [1, 2]}, TypeError, "strings", "label_names=[1, 2]"),
        (
            {"sample_weight": [1, 2]},
            ValueError,
            "one entry",
            "2 sample_weight for 3 texts",
        ),
        (
            {"sample_weight": [1.0, -0.5, 1.0]},
            ValueError,
            "at least 0",
            "sample_weight=[1.0, -0.5, 1.0]",
        ),
        (
            {"sample_weight": [1.0, NAN, 1.0]},
            ValueError,
            "finite",
            "sample_weight=[1.0, nan, 1.0]",
        ),
        ({"sample_weight": ["a"] * 3}, ValueError, "numbers", f"{['a'] * 3}"),
        ({"sample_weight": [[1]] * 3}, ValueError, "numbers", f"{[[1]] * 3}"),
        ({"sample_weight": 0.5}, TypeError, "sequence", "sample_weight=0.5"),
        (
            {"labels": None, "sample_weight": [1, 1, 1]},
            ValueError,
            "needs `labels`",
            "labels=None",
        ),
    ],
)
def test_errors(dataset_of, changes, error, expected, received):
    arguments = {"texts": TEXTS[:3], "labels": [0, 1, 2]} | changes
    with pytest.raises(error) as caught:
        dataset_of(**arguments)
    message = str(caught.value)
    assert expected in message
    assert "Received: " in message and message.endswith(received), message


def test_long_values_are_cut_short_in_messages(dataset_of):
    with pytest.raises(ValueError) as caught:
        dataset_of(["a"] * 1000, ["good"] * 1000)
    assert len(str(caught.value)) < 200


# In Keras


class Progress(keras.callbacks.Callback):
    """Keeps what the progress bar shows as the total."""

    def on_train_begin(self, logs=None):
        self.steps = self.params["steps"]


def test_fit_with_class_weight_and_validation(dataset_of, model):
    texts = random_texts(22)
    labels = [0 if "bad" in text else 1 for text in texts]
    train = dataset_of(texts, labels, shuffle=True)
    dev = dataset_of(TEXTS, LABELS)
    progress = Progress()
    history = model.fit(
        train,
        validation_data=dev,
        epochs=2,
        class_weight={0: 2.0, 1: 1.0, 2: 1.0},
        callbacks=[progress],
        shuffle=False,
        verbose=0,
    ).history
    assert progress.steps == len(train) == 6
    assert len(history["val_loss"]) == 2
    assert np.isfinite(history["loss"] + history["val_loss"]).all()


def test_loss_equals_one_by_hand(dataset_of, model):
    texts = random_texts(22)
    labels = np.arange(22) % 3
    weights = np.arange(22) / 10
    logits = np.concatenate(
        [
            predict_alone(model, x)
            for (x,) in dataset_of(texts, batch_size=1, pad_to="batch")
        ]
    ).astype("float64")
    log_sums = np.log(np.exp(logits).sum(axis=-1))
    losses = log_sums - logits[np.arange(22), labels]
    plain = dataset_of(texts, labels, shuffle=True)
    loss = model.evaluate(plain, verbose=0, return_dict=True)["loss"]
    assert loss == pytest.approx(losses.mean(), abs=1e-6)
    # Keras' mean over batches counts each batch's items, not its weights.
    weighted = dataset_of(texts, labels, sample_weight=weights, shuffle=True)
    loss = model.evaluate(weighted, verbose=0, return_dict=True)["loss"]
    assert loss == pytest.approx((losses * weights).mean(), abs=1e-6)


@pytest.mark.parametrize("pad_to", ["bucket", "batch", "max"])
def test_predictions_line_up_with_texts(dataset_of, model, pad_to):
    texts = random_texts(11)
    together = model.predict(dataset_of(texts, pad_to=pad_to), verbose=0)
    alone = [
        predict_alone(model, x)
        for text in texts
        for (x,) in dataset_of([text], pad_to="batch")
    ]
    np.testing.assert_allclose(together, np.concatenate(alone), atol=1e-5)
    # The rows differ from each other, so a wrong order would show.
    assert np.abs(np.diff(together, axis=0)).max(axis=1).min() > 1e-3
