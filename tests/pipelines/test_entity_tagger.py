import keras
import numpy as np
import pytest
from hypothesis import given, settings
from told_models import (
    FAMILIES,
    TEXTS,
    make_encoder,
    read_tokenizer,
    say,
    token_table,
)

import kbert
from kbert.pipelines import EntityTagger

pytest.importorskip("sentencepiece")

NAMES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
PIECES = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] "
    "john smith new york in ' . , ##ville ##son o u s"
).split()


@pytest.fixture(scope="module")
def tokenizer():
    return kbert.Tokenizer.from_vocab(PIECES)


def tagger_of(tokenizer, logits, names=NAMES, max_positions=32, **options):
    """A tagger whose model says logits (V, C) of token ids."""
    model = kbert.build_token_classifier(
        make_encoder(tokenizer, max_positions), len(names), label_names=names
    )
    say(model, lambda inputs: logits[inputs["token_ids"]])
    return EntityTagger(model, tokenizer, **options)


def planted(**tags):
    """Logits (V, C) in which pieces have the tags given, and others "O"."""
    logits = np.zeros((len(PIECES), len(NAMES)), "float32")
    for number, piece in enumerate(PIECES):
        name = tags.get(piece.replace("##", "_"), "O")
        logits[number, NAMES.index(name)] = 5.0
    return logits


# What softmax makes of one 5 and four 0.
SURE = float(np.exp(5) / (np.exp(5) + 4))
TAGS = {
    "john": "B-PER",
    "smith": "I-PER",
    "new": "B-LOC",
    "york": "I-LOC",
    "_ville": "I-LOC",
    "_son": "I-PER",
}


# Entities


def test_entities_of_a_text(tokenizer):
    tag = tagger_of(tokenizer, planted(**TAGS))
    text = " John  Smith, in\tNew York.\n"
    john, york = tag(text)
    assert john == {
        "text": "John  Smith",
        "label": "PER",
        "score": pytest.approx(SURE),
        "start": 1,
        "end": 12,
    }
    assert list(john) == ["text", "label", "score", "start", "end"]
    assert type(john["score"]) is float and type(john["start"]) is int
    assert (york["text"], york["label"]) == ("New York", "LOC")
    assert (york["start"], york["end"]) == (17, 25)
    assert tag([text, "", "in", "John John"]) == [
        [john, york],
        [],
        [],
        tag("John John"),
    ]
    assert [e["text"] for e in tag("John John")] == ["John", "John"]
    assert tag([]) == []
    assert tag("") == tag(" \n") == []


def test_a_word_is_never_two_entities(tokenizer):
    # Its pieces disagree, and BERT cuts the name at its apostrophe.
    tags = {**TAGS, "o": "B-PER", "_ville": "B-LOC", "smith": "B-LOC"}
    tag = tagger_of(tokenizer, planted(**tags))
    assert [(e["text"], e["label"]) for e in tag("Johnville O'Smith's")] == [
        ("Johnville", "PER"),
        ("O'Smith", "PER"),
    ]


@pytest.mark.parametrize(
    ("aggregation", "label", "score"),
    [("first", "PER", 0.6), ("mean", "LOC", 0.6), ("max", "LOC", 0.8)],
)
def test_pieces_vote(tokenizer, aggregation, label, score):
    # Probabilities of the pieces: PER .6 and .2 and .2, LOC .4 and .8 and .6.
    logits = np.full((len(PIECES), len(NAMES)), -20.0, "float32")
    for piece, (per, loc) in {
        "john": (0.6, 0.4),
        "##son": (0.2, 0.8),
        "##ville": (0.4, 0.6),
    }.items():
        logits[PIECES.index(piece), 1] = np.log(per)
        logits[PIECES.index(piece), 3] = np.log(loc)
    tag = tagger_of(tokenizer, logits, aggregation=aggregation)
    [entity] = tag("Johnsonville")
    assert entity["text"] == "Johnsonville"
    assert entity["label"] == label
    assert entity["score"] == pytest.approx(score, abs=1e-6)
    assert tag.tag_words(["johnsonville"]) == [f"B-{label}"]


def test_score_is_the_mean_over_words(tokenizer):
    logits = planted(**TAGS)
    logits[PIECES.index("smith")] = [0, 0, 1, 0, 0]
    [entity] = tagger_of(tokenizer, logits)("john smith")
    unsure = np.e / (np.e + 4)
    assert entity["score"] == pytest.approx((SURE + unsure) / 2)


def test_names_without_prefixes(tokenizer):
    tag = tagger_of(tokenizer, planted(**TAGS), list("OPQLM"))
    assert [(e["text"], e["label"]) for e in tag("john john smith in")] == [
        ("john john", "P"),
        ("smith", "Q"),
    ]
    speech = tagger_of(tokenizer, planted(**TAGS), ["X", "N", "V", "A", "P"])
    assert [(e["text"], e["label"]) for e in speech("John john, new")] == [
        ("John", "N"),
        ("john", "N"),
        (",", "X"),
        ("new", "A"),
    ]


def test_names_of_the_classes(tokenizer):
    encoder = make_encoder(tokenizer)
    model = kbert.build_token_classifier(encoder, 2)
    assert EntityTagger(model, tokenizer).label_names == ["LABEL_0", "LABEL_1"]
    own = EntityTagger(model, tokenizer, label_names=("O", "I-X"))
    assert own.label_names == ["O", "I-X"]
    model = kbert.build_token_classifier(encoder, 2, label_names=["a", "b"])
    assert EntityTagger(model, tokenizer).label_names == ["a", "b"]


def test_scores_are_the_models(tokenizer):
    """A real model, in batches, against one text at a time."""
    keras.utils.set_random_seed(0)
    encoder = make_encoder(tokenizer)
    model = kbert.build_token_classifier(encoder, 3, label_names=list("abc"))
    texts = ["new york", "john", "in new york , john smith . " * 2, "", "u s"]
    tag = EntityTagger(model, tokenizer, batch_size=2)
    for text, items in zip(texts, tag(texts), strict=True):
        ids = np.array([tokenizer.encode(text).ids], "int32")
        inputs = {
            "token_ids": ids,
            "segment_ids": np.zeros_like(ids),
            "padding_mask": np.ones_like(ids),
        }
        logits = keras.ops.convert_to_numpy(model(inputs, training=False))[0]
        scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        rows = scores[1:-1]
        assert [item["text"] for item in items] == text.split()
        assert [item["label"] for item in items] == [
            "abc"[best] for best in rows.argmax(axis=1)
        ]
        np.testing.assert_allclose(
            [item["score"] for item in items], rows.max(axis=1), atol=1e-6
        )


# Windows


@pytest.mark.parametrize("aggregation", ["first", "mean", "max"])
@pytest.mark.parametrize(
    ("max_length", "overlap"), [(5, 0), (8, 3), (16, None)]
)
def test_windows_merge_to_what_one_gives(
    tokenizer, max_length, overlap, aggregation
):
    rng = np.random.default_rng(0)
    words = [w for w in PIECES[5:] if "##" not in w] + ["newville", "johnson"]
    texts = [
        " ".join(rng.choice(words, size)) for size in (0, 1, 6, 14, 15, 200)
    ]
    logits = token_table(tokenizer, 5)
    options = {"max_positions": 512, "aggregation": aggregation}
    whole = tagger_of(tokenizer, logits, **options)(texts)
    cut = tagger_of(
        tokenizer,
        logits,
        **options,
        max_length=max_length,
        overlap=overlap,
        batch_size=3,
    )(texts)
    assert sum(map(len, whole)) > 100
    for ours, theirs in zip(cut, whole, strict=True):
        assert [{**e, "score": 0} for e in ours] == [
            {**e, "score": 0} for e in theirs
        ]
        assert [e["score"] for e in ours] == pytest.approx(
            [e["score"] for e in theirs]
        )


def test_tokens_are_judged_where_most_is_around_them(tokenizer):
    model = kbert.build_token_classifier(
        make_encoder(tokenizer), 2, label_names=["in", "edge"]
    )

    def edges(inputs):
        """Say "edge" of the first and the last token of a window's text."""
        lengths = inputs["padding_mask"].sum(axis=1)
        logits = np.zeros((*inputs["token_ids"].shape, 2), "float32")
        logits[:, 1, 1] = 9
        logits[np.arange(len(lengths)), lengths - 2, 1] = 9
        return logits

    say(model, edges)
    tag = EntityTagger(model, tokenizer, max_length=10, overlap=2)
    words = ["john"] * 50
    expected = ["edge", *["in"] * 48, "edge"]
    assert tag.tag_words(words) == expected
    assert [item["label"] for item in tag(" ".join(words))] == expected


def test_ten_thousand_words(tokenizer):
    tag = tagger_of(tokenizer, planted(**TAGS), max_positions=512)
    words = ["John", "Smith", "Newville", ",", "U.S."] * 2000
    text = " ".join(words)
    entities = tag(text)
    assert [e["text"] for e in entities] == ["John Smith", "Newville"] * 2000
    assert all(text[e["start"] : e["end"]] == e["text"] for e in entities)
    tags = ["B-PER", "I-PER", "B-LOC", "O", "O"] * 2000
    assert tag.tag_words(words) == tags


# All texts and families


@pytest.fixture(scope="module", params=FAMILIES)
def any_tagger(request, tmp_path_factory):
    tokenizer = read_tokenizer(request.param, tmp_path_factory.mktemp("files"))
    logits = token_table(tokenizer, 5)
    return tagger_of(tokenizer, logits, max_length=8, overlap=2)


def check_places(text, items):
    last = 0
    for item in items:
        assert last <= item["start"] < item["end"] <= len(text)
        last = item["end"]
        assert text[item["start"] : item["end"]] == item["text"]
        assert item["text"] == item["text"].strip()


@given(TEXTS)
@settings(max_examples=60, deadline=None)
def test_offsets_are_of_the_text(any_tagger, text):
    check_places(text, any_tagger(text))


HARD = "  Zürich\tZu\u0308rich\n\n😀 O'Neil 日 naïve"


def test_words_of_every_family(any_tagger):
    """Every word has a label, so that words can be read off as items."""
    names = ["a", "b", "c", "d", "e"]
    tag = EntityTagger(
        any_tagger.model,
        any_tagger.tokenizer,
        label_names=names,
        max_length=8,
        overlap=2,
    )
    items = tag(HARD)
    check_places(HARD, items)
    assert [item["text"] for item in items] == HARD.split()
    # Byte pairs may join what are two words elsewhere.
    parts = [item["text"] for item in tag("日本")]
    assert parts in (["日", "本"], ["日本"])


@given(TEXTS.map(lambda text: text.split(" ")))
@settings(max_examples=40, deadline=None)
def test_every_word_gets_a_tag(any_tagger, words):
    tags = any_tagger.tag_words(words)
    assert len(tags) == len(words)
    assert set(tags) <= set(NAMES)


def test_tags_are_of_first_pieces(any_tagger):
    tokenizer = any_tagger.tokenizer
    table = token_table(tokenizer, 5)
    words = ["the", "O'Neil", "", "日本", "\u200b", "was", "\x00", "U.S."] * 5

    def encode(words):
        return tokenizer.encode_batch(
            [words], is_split_into_words=True, add_special_tokens=False
        )[0]

    pieces = set(encode(words).word_ids)
    unknown = tokenizer.special_tokens["unk_token"]
    read = [w if i in pieces else unknown for i, w in enumerate(words)]
    assert read != words
    if tokenizer.family == "roberta":
        read[1:] = [f" {word}" for word in read[1:]]
    encoding = encode(read)
    first = {}
    for token_id, word in zip(encoding.ids, encoding.word_ids, strict=True):
        first.setdefault(word, token_id)
    expected = [
        NAMES[table[first[place]].argmax()] for place in range(len(words))
    ]
    assert any_tagger.tag_words(words) == expected
    assert any_tagger.tag_words([words, [], words[:3]]) == [
        expected,
        [],
        expected[:3],
    ]
    assert any_tagger.tag_words([]) == []


# Bad input


def test_wrong_models_and_options(tokenizer, tiny_tokenizer):
    encoder = make_encoder(tokenizer)
    model = kbert.build_token_classifier(encoder, 2)
    classifier = kbert.build_classifier(encoder, 2)
    with pytest.raises(ValueError, match="build_token_classifier.*Received"):
        EntityTagger(classifier, tokenizer)
    with pytest.raises(TypeError, match=r"kbert\.Tokenizer.*Received"):
        EntityTagger(model, tokenizer.backend)
    for options, message in (
        ({"aggregation": "average"}, "'first', 'mean', 'max'.*Received"),
        ({"label_names": ["a"]}, "2 different names.*Received"),
        ({"label_names": ["a", "a"]}, "2 different names.*Received"),
        ({"max_length": 33}, "at most 32 tokens.*Received"),
        ({"max_length": 8, "overlap": 6}, "less than the 6.*Received"),
        ({"overlap": -1}, "from 0.*Received"),
        ({"batch_size": 0}, "Received"),
    ):
        with pytest.raises(ValueError, match=message):
            EntityTagger(model, tokenizer, **options)
    with pytest.raises(TypeError, match="Received"):
        EntityTagger(model, tokenizer, overlap=1.5)
    tag = EntityTagger(model, tokenizer)
    for texts in (None, [None], {"a": 1}, ["a", 1]):
        with pytest.raises(TypeError, match="Received"):
            tag(texts)
    for words in ("new york", [["new"], "york"], [1], None):
        with pytest.raises(TypeError, match="Received"):
            tag.tag_words(words)
