import dataclasses
import logging
import random

import keras
import numpy as np
import pytest
import tokenizers

import kbert
from kbert.pipelines import FillMask

BACKEND = keras.backend.backend()
# Of very different lengths and numbers of masks, in no order.
TEXTS = [
    "the [MASK] was very , very bad , the film was [MASK] , very bad !",
    "[MASK]",
    "  the film\twas [MASK] .\n",
    "[MASK] " * 25,
    "is play[MASK] a [MASK]",
    "[MASK][MASK][MASK]",
    "The FILM was not [MASK], not bad.",
    "👩‍🚀 é naïve 中文 ([MASK]) 😀",
    "a good film , a bad plot , a good film , a bad plot [MASK] !",
    "[MASK]",
    "[mask] [Mask] [MASK ] [MASK]",
]


@pytest.fixture(scope="module")
def encoder(tiny_config):
    keras.utils.set_random_seed(1)
    # Large weights, so that the answers to two texts differ.
    return kbert.build_encoder(
        dataclasses.replace(tiny_config, initializer_range=0.4)
    )


@pytest.fixture(scope="module")
def models(encoder):
    """Every model with a masked-language head, all of the same weights."""
    rng = np.random.default_rng(0)
    models = {
        "masked positions": kbert.build_masked_lm(encoder),
        "all positions": kbert.build_masked_lm(encoder, all_positions=True),
        "pretrainer": kbert.build_pretrainer(encoder),
    }
    weights = {}
    for model in models.values():
        for layer in (model.get_layer("mlm"), model.get_layer("mlm_bias")):
            values = [rng.normal(0, 0.5, w.shape) for w in layer.weights]
            layer.set_weights(weights.setdefault(layer.name, values))
    return models


@pytest.fixture(scope="module")
def model(models):
    return models["masked positions"]


def find_all(text, token):
    """Places (start, end) of a mask token in a text."""
    places, start = [], text.find(token)
    while start >= 0:
        places.append((start, start + len(token)))
        start = text.find(token, start + len(token))
    return places


def scores_by_hand(models, tokenizer, text):
    """Scores (masks, V) of a text alone and without padding, in float64."""
    encoding = tokenizer(text)
    ids = np.array([encoding.ids], "int32")
    inputs = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
    }
    logits = models["all positions"](inputs, training=False)
    logits = keras.ops.convert_to_numpy(logits)[0].astype("float64")
    exp = np.exp(logits[ids[0] == tokenizer.mask_token_id])
    return exp / exp.sum(axis=-1, keepdims=True)


def check_result(result, text, tokenizer, scores):
    """Everything of one result with a prediction for every token."""
    assert list(result) == ["text", "masks"]
    assert result["text"] == text
    places = [(mask["start"], mask["end"]) for mask in result["masks"]]
    assert places == find_all(text, "[MASK]")
    for mask, row in zip(result["masks"], scores, strict=True):
        assert list(mask) == ["start", "end", "predictions"]
        predictions = mask["predictions"]
        ids = [prediction["token_id"] for prediction in predictions]
        assert sorted(ids) == list(range(tokenizer.vocab_size))
        theirs = [prediction["score"] for prediction in predictions]
        assert theirs == sorted(theirs, reverse=True)
        np.testing.assert_allclose(theirs, row[ids], atol=1e-6)
        for prediction in predictions:
            check_prediction(prediction, text, mask, tokenizer)


def check_prediction(prediction, text, mask, tokenizer):
    assert list(prediction) == ["token", "token_id", "score", "sequence"]
    assert type(prediction["token_id"]) is int
    assert type(prediction["score"]) is float
    token = tokenizer.id_to_token(prediction["token_id"])
    assert prediction["token"] == token
    assert prediction["sequence"] == (
        text[: mask["start"]] + token.removeprefix("##") + text[mask["end"] :]
    )


# Answers


@pytest.mark.parametrize(
    "kind", ["masked positions", "all positions", "pretrainer"]
)
def test_every_token_of_every_mask(models, tiny_tokenizer, kind):
    fill = FillMask(models[kind], tiny_tokenizer, top_k=22, batch_size=3)
    results = fill(TEXTS)
    seen = set()
    for result, text in zip(results, TEXTS, strict=True):
        scores = scores_by_hand(models, tiny_tokenizer, text)
        check_result(result, text, tiny_tokenizer, scores)
        seen.update(tuple(row) for row in scores.round(3))
    # Masks differ in their scores, so a wrong order would show.
    assert len(seen) > 20


def test_a_string_is_answered_by_a_dict(models, model, tiny_tokenizer):
    fill = FillMask(model, tiny_tokenizer, top_k=22)
    for text in TEXTS:
        scores = scores_by_hand(models, tiny_tokenizer, text)
        check_result(fill(text), text, tiny_tokenizer, scores)


@pytest.mark.parametrize("top_k", [1, 3, 21, 22, 1000])
def test_top_k_takes_the_best(model, tiny_tokenizer, top_k):
    full = FillMask(model, tiny_tokenizer, top_k=22)(TEXTS)
    for result, whole in zip(
        FillMask(model, tiny_tokenizer, top_k=top_k)(TEXTS), full, strict=True
    ):
        for mask, every in zip(result["masks"], whole["masks"], strict=True):
            assert mask["predictions"] == every["predictions"][:top_k]


def test_five_by_default(model, tiny_tokenizer):
    (mask,) = FillMask(model, tiny_tokenizer)("a [MASK]")["masks"]
    assert len(mask["predictions"]) == 5


def test_equal_scores_are_ordered_by_id(tiny_config, tiny_tokenizer):
    model = kbert.build_masked_lm(
        kbert.build_encoder(
            dataclasses.replace(tiny_config, initializer_range=0.0)
        )
    )
    fill = FillMask(model, tiny_tokenizer, top_k=22)
    (mask,) = fill("a [MASK]")["masks"]
    assert [p["token_id"] for p in mask["predictions"]] == list(range(22))
    assert [p["score"] for p in mask["predictions"]] == pytest.approx(
        [1 / 22] * 22
    )


def test_half_precision_scores_are_float32(tiny_config, tiny_tokenizer):
    keras.utils.set_random_seed(0)
    model = kbert.build_masked_lm(
        kbert.build_encoder(
            dataclasses.replace(tiny_config, initializer_range=0.4),
            dtype="mixed_bfloat16",
        )
    )
    fill = FillMask(model, tiny_tokenizer, top_k=22)
    for mask in fill(TEXTS[0])["masks"]:
        scores = [prediction["score"] for prediction in mask["predictions"]]
        assert sum(scores) == pytest.approx(1, abs=1e-6)
        # bfloat16 has 8 bits.
        shown = np.array(scores, "float32").view("uint32")
        assert (shown & 0xFFFF).any()


def test_far_apart_logits_give_finite_scores(encoder, tiny_tokenizer):
    model = kbert.build_masked_lm(encoder)
    bias = np.full(22, -1e30)
    bias[7] = 1e4
    model.get_layer("mlm_bias").set_weights([bias])
    (mask,) = FillMask(model, tiny_tokenizer, top_k=22)("[MASK]")["masks"]
    scores = [prediction["score"] for prediction in mask["predictions"]]
    assert mask["predictions"][0]["token"] == "good"
    assert scores == [1.0] + [0.0] * 21


@pytest.mark.parametrize("all_positions", [False, True])
def test_no_prediction_beyond_the_vocabulary(
    tiny_config, tiny_tokenizer, all_positions
):
    keras.utils.set_random_seed(0)
    config = dataclasses.replace(tiny_config, vocab_size=64)
    model = kbert.build_masked_lm(
        kbert.build_encoder(config), all_positions=all_positions
    )
    bias = np.zeros(64)
    bias[22:] = 50.0  # where the table is longer than the vocabulary
    model.get_layer("mlm_bias").set_weights([bias])
    fill = FillMask(model, tiny_tokenizer, top_k=64)
    for mask in fill(TEXTS[0])["masks"]:
        ids = [prediction["token_id"] for prediction in mask["predictions"]]
        scores = [prediction["score"] for prediction in mask["predictions"]]
        assert sorted(ids) == list(range(22))
        assert sum(scores) == pytest.approx(1, abs=1e-6)


def test_no_prediction_where_an_id_is_left_out(tiny_config):
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] a".split()
    backend = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(
            {word: index * 3 for index, word in enumerate(words)},
            unk_token="[UNK]",
        )
    )
    backend.add_special_tokens(words[:5])
    tokenizer = kbert.Tokenizer(backend)
    model = kbert.build_masked_lm(kbert.build_encoder(tiny_config))
    fill = FillMask(model, tokenizer, top_k=22)
    (mask,) = fill("[MASK]", targets=["a"])["masks"]
    assert mask["predictions"][0]["token_id"] == 15
    (mask,) = fill("[MASK]")["masks"]
    ids = [prediction["token_id"] for prediction in mask["predictions"]]
    assert sorted(ids) == [0, 3, 6, 9, 12, 15]
    assert [p["token"] for p in mask["predictions"]] == [
        words[index // 3] for index in ids
    ]


def test_empty_list_and_other_sequences(model, tiny_tokenizer):
    fill = FillMask(model, tiny_tokenizer)
    assert fill([]) == []
    assert fill([], targets=["good"]) == []
    expected = fill(TEXTS[:3])
    for texts in (tuple(TEXTS[:3]), np.array(TEXTS[:3])):
        results = fill(texts)
        assert results == expected
        assert all(type(result["text"]) is str for result in results)


def test_family_without_segments(tiny_config, tiny_tokenizer):
    keras.utils.set_random_seed(0)
    encoder = kbert.build_encoder(
        dataclasses.replace(tiny_config, num_segments=0)
    )
    tokenizer = kbert.Tokenizer(tiny_tokenizer.backend, family="distilbert")
    fill = FillMask(kbert.build_masked_lm(encoder), tokenizer)
    again = FillMask(kbert.build_masked_lm(encoder), tiny_tokenizer)
    assert len(fill(TEXTS)) == len(again(TEXTS)) == len(TEXTS)


def test_saved_and_loaded(models, model, tiny_tokenizer, tmp_path):
    kbert.save_pretrained(model, tmp_path, tokenizer=tiny_tokenizer)
    fill = FillMask(
        kbert.load_masked_lm(tmp_path),
        kbert.Tokenizer.from_pretrained(tmp_path),
        top_k=22,
    )
    for result, text in zip(fill(TEXTS), TEXTS, strict=True):
        scores = scores_by_hand(models, tiny_tokenizer, text)
        check_result(result, text, tiny_tokenizer, scores)


# Work


def test_batches_hold_one_length_and_few_numbers_of_slots(
    encoder, tiny_tokenizer, monkeypatch
):
    model = kbert.build_masked_lm(encoder)
    shapes = []
    predict = model.predict_on_batch

    def watched(inputs):
        shapes.append(
            (inputs["token_ids"].shape, inputs["mask_positions"].shape)
        )
        return predict(inputs)

    monkeypatch.setattr(model, "predict_on_batch", watched)
    texts = ["[MASK]", "good " * 15 + "[MASK] " * 5] * 4
    FillMask(model, tiny_tokenizer, batch_size=4)(texts)
    assert shapes == [((4, 8), (4, 1)), ((4, 24), (4, 8))]
    shapes.clear()
    FillMask(model, tiny_tokenizer)(["a [MASK]", "[MASK] a [MASK]"])
    assert shapes == [((2, 8), (2, 2))]


@pytest.mark.skipif(BACKEND != "tensorflow", reason="counts TensorFlow's")
def test_further_calls_do_not_trace(encoder, tiny_tokenizer):
    model = kbert.build_masked_lm(encoder)
    fill = FillMask(model, tiny_tokenizer, batch_size=4)
    fill(TEXTS)
    fill(TEXTS[:5])
    fill(TEXTS[0])
    function = model.predict_function
    count = function.experimental_get_tracing_count()
    # Batch size, length and slots each become unknown once they vary.
    assert count <= 4
    fill(TEXTS[2:])
    fill("a [MASK]")
    assert model.predict_function is function
    assert function.experimental_get_tracing_count() == count


# Truncation


def test_text_is_truncated_after_its_masks(model, tiny_tokenizer, caplog):
    fill = FillMask(model, tiny_tokenizer, max_length=6)
    with caplog.at_level(logging.WARNING, logger="kbert"):
        long, short = fill(["a [MASK] was bad good plot", "[MASK]"])
    (record,) = caplog.records
    assert record.getMessage() == (
        "1 of 2 texts have more than max_length=6 tokens and were truncated."
    )
    (mask,) = long["masks"]
    (cut,) = fill("a [MASK] was bad")["masks"]
    for ours, theirs in zip(
        mask["predictions"], cut["predictions"], strict=True
    ):
        assert ours["token"] == theirs["token"]
        assert ours["score"] == pytest.approx(theirs["score"], abs=1e-6)
        assert ours["sequence"] == theirs["sequence"] + " good plot"


@pytest.mark.parametrize(
    "text", ["a a a a é [MASK] a", "[MASK] a a a é [MASK] a [MASK] [MASK]"]
)
def test_a_mask_that_is_cut_off_is_an_error(model, tiny_tokenizer, text):
    fill = FillMask(model, tiny_tokenizer, max_length=6)
    where = text.index("é") + 2
    for texts, index in ((text, 0), (["[MASK]", "[MASK]", text], 2)):
        with pytest.raises(ValueError) as caught:
            fill(texts)
        assert str(caught.value) == (
            f"The mask at character {where} is cut off, as the text has more "
            f"than max_length=6 tokens. Received: texts[{index}]={text!r}"
        )


def test_as_many_masks_as_fit(models, model, tiny_tokenizer):
    fill = FillMask(model, tiny_tokenizer, top_k=22)
    assert fill.max_length == 32
    text = "[MASK]" * 30
    scores = scores_by_hand(models, tiny_tokenizer, text)
    assert len(scores) == 30
    check_result(fill(text), text, tiny_tokenizer, scores)
    with pytest.raises(ValueError, match="character 180 is cut off"):
        fill("[MASK]" * 31)


# Targets


def test_targets_have_the_scores_of_the_whole_vocabulary(model, tiny_tokenizer):
    full = FillMask(model, tiny_tokenizer, top_k=22)(TEXTS)
    fill = FillMask(model, tiny_tokenizer, top_k=2)
    # More than top_k; as typed, as pieces, as special tokens.
    targets = ["Good", "bad", "##ing", "[SEP]", ","]
    tokens = {"good", "bad", "##ing", "[SEP]", ","}
    for result, whole in zip(fill(TEXTS, targets=targets), full, strict=True):
        for mask, every in zip(result["masks"], whole["masks"], strict=True):
            assert mask["predictions"] == [
                p for p in every["predictions"] if p["token"] in tokens
            ]


@pytest.mark.parametrize(
    "targets, error, expected, received",
    [
        (
            ["good", "played"],
            ValueError,
            "this is ['play', '##",
            "[1]='played'",
        ),
        (["zebra"], ValueError, "lacks this one", "targets[0]='zebra'"),
        ([""], ValueError, "this is []", "targets[0]=''"),
        ([" "], ValueError, "this is []", "targets[0]=' '"),
        (["a bad"], ValueError, "is ['a', 'bad']", "targets[0]='a bad'"),
        (["bad", "a", "BAD"], ValueError, "as targets[0]='bad'", "[2]='BAD'"),
        ([], ValueError, "must hold words", "none"),
        ("good", TypeError, "a sequence", "targets='good'"),
        ([3], TypeError, "a string", "targets[0]=3"),
    ],
)
def test_bad_targets(encoder, monkeypatch, targets, error, expected, received):
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] good bad a play ##ed".split()
    tokenizer = kbert.Tokenizer.from_vocab(words)
    model = kbert.build_masked_lm(encoder)
    # Nothing is computed for them.
    monkeypatch.setattr(model, "predict_on_batch", None)
    with pytest.raises(error) as caught:
        FillMask(model, tokenizer)(["good [MASK]"], targets=targets)
    message = str(caught.value)
    assert expected in message
    assert "Received: " in message and message.endswith(received), message


# Errors


@pytest.mark.parametrize(
    "text",
    ["", " ", "good", "[mask]", "[MASK", "<mask>", "［MASK］", "[ MASK ]"],
)
def test_a_text_without_a_mask_is_an_error(model, tiny_tokenizer, text):
    fill = FillMask(model, tiny_tokenizer)
    for texts, index in ((text, 0), (["[MASK]", text, "good"], 1)):
        with pytest.raises(ValueError) as caught:
            fill(texts)
        assert str(caught.value) == (
            "Every text must hold the mask token '[MASK]', written just so. "
            f"Received: texts[{index}]={text!r}"
        )


@pytest.mark.parametrize(
    "texts, error, expected, received",
    [
        (["[MASK]", None], TypeError, "a string", "texts[1]=None"),
        (None, TypeError, "a sequence", "texts=None"),
        (b"[MASK]", TypeError, "a sequence", "texts=b'[MASK]'"),
        (["[MASK]", "[MASK]\ud83d"], ValueError, "surrogate", "\\ud83d'"),
    ],
)
def test_bad_texts(model, tiny_tokenizer, texts, error, expected, received):
    with pytest.raises(error) as caught:
        FillMask(model, tiny_tokenizer)(texts)
    message = str(caught.value)
    assert expected in message
    assert "Received: " in message and message.endswith(received), message


@pytest.mark.parametrize(
    "changes, error, expected, received",
    [
        ({"top_k": 0}, ValueError, "at least 1", "top_k=0"),
        ({"top_k": True}, TypeError, "an int", "top_k=True"),
        ({"top_k": 2.0}, TypeError, "an int", "top_k=2.0"),
        ({"top_k": None}, TypeError, "an int", "top_k=None"),
        ({"batch_size": 0}, ValueError, "at least 1", "batch_size=0"),
        ({"max_length": 33}, ValueError, "at most 32", "max_length=33"),
    ],
    ids=str,
)
def test_bad_options(model, tiny_tokenizer, changes, error, expected, received):
    with pytest.raises(error) as caught:
        FillMask(model, tiny_tokenizer, **changes)
    message = str(caught.value)
    assert expected in message
    assert "Received: " in message and message.endswith(received)


@pytest.mark.parametrize(
    "build",
    [
        lambda encoder: encoder,
        lambda encoder: kbert.build_classifier(encoder, 2),
        kbert.build_span_model,
        kbert.build_replaced_token_detector,
    ],
    ids=["encoder", "classifier", "span model", "detector"],
)
def test_a_model_without_the_head_is_an_error(encoder, tiny_tokenizer, build):
    with pytest.raises(ValueError, match="build_masked_lm.*Received: model="):
        FillMask(build(encoder), tiny_tokenizer)


def test_a_tokenizer_that_splits_its_mask_is_an_error(model):
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] [ ] mask".split()
    backend = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(
            {word: index for index, word in enumerate(words)},
            unk_token="[UNK]",
        )
    )
    backend.normalizer = tokenizers.normalizers.BertNormalizer()
    backend.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    with pytest.raises(ValueError) as caught:
        FillMask(model, kbert.Tokenizer(backend))
    message = str(caught.value)
    assert message.startswith("The tokenizer must keep its mask token whole")
    assert message.endswith(
        "Received: mask_token='[MASK]', tokens=['[', 'mask', ']']"
    )


# The mask is found whatever stands around it.


def test_masks_in_random_texts(models, model, tiny_tokenizer):
    rng = random.Random(0)
    parts = ["[MASK]", "[MASK]", " ", "\t", "\n ", "good", "Ä", "😀", "👩‍🚀"]
    parts += ["[", "]", "MASK", "[mask]", ".", "中", "e\u0301", "\u200b", "ﬁ"]
    texts = [
        "".join(rng.choices(parts, k=rng.randint(1, 9))) for _ in range(40)
    ]
    texts = [text + "[MASK]" for text in texts]
    fill = FillMask(model, tiny_tokenizer, top_k=22, batch_size=16)
    for result, text in zip(fill(texts), texts, strict=True):
        scores = scores_by_hand(models, tiny_tokenizer, text)
        check_result(result, text, tiny_tokenizer, scores)
