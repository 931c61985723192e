import itertools
import logging
import random

import numpy as np
import pytest
from family_files import write_family, write_modernbert

import kbert
from kbert.data import token_classification_dataset

tf = pytest.importorskip("tensorflow")
hypothesis = pytest.importorskip(
    "hypothesis", reason="pip install keras-kbert[test]"
)

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

NAMES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
# Of one, two and three pieces, unknown, and (from "") without any.
WORDS = ["the", "playing", "filmsly", "zebra", "😀", "中文", "bad!", "a"]
NO_PIECES = ["", " ", "\t \u3000", "\x00", "\u200b", "\ufeff\x07"]
MANY = settings(max_examples=80, deadline=None)


@pytest.fixture
def dataset_of(tiny_tokenizer):
    def make(words, tags=None, **changes):
        options = {
            "tokenizer": tiny_tokenizer,
            "batch_size": 3,
            "max_length": 32,
            "pad_to": "batch",
        }
        return token_classification_dataset(words, tags, **(options | changes))

    return make


FAMILIES = ("distilbert", "roberta", "modernbert", "albert", "xlm-roberta") + (
    "mpnet",
    "deberta-v2",
)


@pytest.fixture(scope="module")
def families(tmp_path_factory):
    directories = {name: tmp_path_factory.mktemp(name) for name in FAMILIES}
    for name, directory in directories.items():
        if name == "modernbert":
            write_modernbert(directory)
        else:
            write_family(directory, name)
    load = kbert.Tokenizer.from_pretrained
    return {name: load(directory) for name, directory in directories.items()}


def rows_of(dataset):
    """Ids, labels and weights of every row, without padding."""
    for x, y, weight in dataset:
        assert y.dtype == tf.int32 and weight.dtype == tf.float32
        assert y.shape == weight.shape == x["token_ids"].shape
        arrays = (x["token_ids"], y, weight, x["padding_mask"])
        for ids, labels, weights, mask in zip(
            *(array.numpy() for array in arrays), strict=True
        ):
            size = mask.sum()
            assert not labels[size:].any() and not weights[size:].any()
            assert not labels[weights == 0].any()
            yield ids[:size], labels[:size], weights[:size]


def labelled(dataset):
    """Pairs of piece and label, of all rows in order."""
    return [
        (int(id_), int(label))
        for ids, labels, weights in rows_of(dataset)
        for id_, label, weight in zip(ids, labels, weights, strict=True)
        if weight
    ]


def pieces_alone(tokenizer, words):
    """Pieces of each word of one text, tokenised without the others.

    Right for families that look at nothing around a word but the space
    before it.
    """
    is_byte_level = tokenizer.family in ("roberta", "modernbert")
    return [
        tokenizer.encode(
            " " + word if is_byte_level and place and word else word,
            add_special_tokens=False,
        ).ids
        for place, word in enumerate(words)
    ]


def by_hand(tokenizer, words, tags, label_pieces="first"):
    """What `labelled` should give, in plain Python."""
    pairs = []
    for row, labels in zip(words, tags, strict=True):
        alone = pieces_alone(tokenizer, row)
        for pieces, label in zip(alone, labels, strict=True):
            later = label
            if label_pieces == "inside" and label in (1, 3):
                later = label + 1
            rest = [] if label_pieces == "first" else pieces[1:]
            pairs += [(piece, label) for piece in pieces[:1]]
            pairs += [(piece, later) for piece in rest]
    return pairs


def random_sentences(count, seed=0, longest=12, words=(*WORDS, *NO_PIECES)):
    rng = random.Random(seed)
    sentences = [
        rng.choices(words, k=rng.randint(0, longest)) for _ in range(count)
    ]
    return sentences, [[rng.randrange(5) for _ in row] for row in sentences]


# Alignment


@pytest.mark.parametrize("label_pieces", ["first", "all", "inside"])
def test_labels_are_on_the_pieces_of_their_words(
    dataset_of, tiny_tokenizer, label_pieces
):
    words, tags = random_sentences(40)
    dataset = dataset_of(
        words, tags, label_names=NAMES, label_pieces=label_pieces
    )
    wanted = by_hand(tiny_tokenizer, words, tags, label_pieces)
    assert labelled(dataset) == wanted


def test_one_row_by_hand(dataset_of, tiny_tokenizer):
    dataset = dataset_of([["A", "", "playing", "film"]], [[1, 4, 3, 2]])
    ((ids, labels, weights),) = rows_of(dataset)
    tokens = [tiny_tokenizer.id_to_token(id_) for id_ in ids]
    assert tokens == ["[CLS]", "a", "play", "##ing", "film", "[SEP]"]
    assert labels.tolist() == [0, 1, 3, 0, 2, 0]
    assert weights.tolist() == [0, 1, 1, 0, 1, 0]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family(families, dataset_of, family):
    tokenizer = families[family]
    words = [
        ["the", "quick", "naïve", "café", ",", "Zürich", "😀", "", "runs"],
        [],
        ["日本語", "👩\u200d🚀", "don't", "\x00", "U.S.A.", "1,000", "end"],
        ["Hello", "[MASK]", "<mask>", "</s>", "[SEP]", "World"],
    ]
    # A label for each word, so that no shift can hide.
    tags = [list(range(len(row))) for row in words]
    dataset = dataset_of(words, tags, tokenizer=tokenizer, max_length=99)
    rows = list(rows_of(dataset))
    assert len(rows) == 4
    for row, text, labels in zip(rows, words, tags, strict=True):
        alone = pieces_alone(tokenizer, text)
        ids, y, weight = row
        inner = [id_ for pieces in alone for id_ in pieces]
        assert ids[1 : len(ids) - 1].tolist() == inner
        starts = np.cumsum([1, *map(len, alone)])[:-1]
        kept = [i for i, pieces in enumerate(alone) if pieces]
        assert np.flatnonzero(weight).tolist() == starts[kept].tolist()
        assert y[starts[kept]].tolist() == [labels[i] for i in kept]


@pytest.mark.parametrize("family", ["roberta", "modernbert"])
def test_words_of_byte_level_families_follow_spaces(
    families, dataset_of, family
):
    tokenizer = families[family]
    words = "Hello the quick brown fox".split()
    x, _, _ = next(iter(dataset_of([words], [[0] * 5], tokenizer=tokenizer)))
    text = tokenizer.encode(" ".join(words))
    assert x["token_ids"].numpy()[0].tolist() == text.ids
    assert text.tokens != tokenizer.encode("".join(words)).tokens


# Windows

SENTENCES = st.lists(
    st.lists(st.sampled_from([*WORDS, *NO_PIECES]), max_size=40),
    min_size=1,
    max_size=4,
)


@MANY
@given(
    words=SENTENCES,
    max_length=st.integers(3, 32),
    overlap=st.one_of(st.none(), st.integers(0, 29)),
    label_pieces=st.sampled_from(["first", "all", "inside"]),
    seed=st.integers(0, 9),
)
def test_every_word_counts_in_one_window(
    tiny_tokenizer, words, max_length, overlap, label_pieces, seed
):
    if overlap is not None:
        overlap = min(overlap, max_length - 3)
    rng = random.Random(seed)
    tags = [[rng.randrange(5) for _ in row] for row in words]
    dataset = token_classification_dataset(
        words,
        tags,
        tokenizer=tiny_tokenizer,
        batch_size=4,
        max_length=max_length,
        overlap=overlap,
        label_names=NAMES,
        label_pieces=label_pieces,
        pad_to="batch",
    )
    wanted = by_hand(tiny_tokenizer, words, tags, label_pieces)
    assert labelled(dataset) == wanted
    for ids, _, _ in rows_of(dataset):
        assert len(ids) <= max_length


def test_long_text_keeps_its_order_and_ends_short(dataset_of, tiny_tokenizer):
    # The last window of two tokens, where windows are long.
    tokenizer = kbert.Tokenizer(tiny_tokenizer.backend, max_length=None)
    words = [["the", "playing", "zebra"] * 2000]
    tags = [list(range(6000))]
    for overlap in (0, 1, 127, 128, 300):
        dataset = dataset_of(
            words, tags, tokenizer=tokenizer, max_length=512, overlap=overlap
        )
        assert [label for _, label in labelled(dataset)] == tags[0]


def test_shuffled_buckets_hold_every_row_once(dataset_of, tiny_tokenizer):
    words, tags = random_sentences(50, longest=60)
    options = {"max_length": 16, "label_pieces": "all"}
    plain = sorted(
        (tuple(ids), tuple(y), tuple(weight))
        for ids, y, weight in rows_of(dataset_of(words, tags, **options))
    )
    options |= {"shuffle": True, "pad_to": "bucket", "seed": 3}
    dataset = dataset_of(words, tags, **options)
    epochs = [
        [(tuple(ids), tuple(y), tuple(w)) for ids, y, w in rows_of(dataset)]
        for _ in range(2)
    ]
    assert epochs[0] != epochs[1]
    assert sorted(epochs[0]) == sorted(epochs[1]) == plain


def test_for_predict(dataset_of, tiny_tokenizer):
    words, tags = random_sentences(20, longest=60)
    options = {"max_length": 16, "pad_to": "max"}
    xs = [x for (x,) in dataset_of(words, **options)]
    with_labels = [x for x, _, _ in dataset_of(words, tags, **options)]
    for x, other in zip(xs, with_labels, strict=True):
        assert set(x) == {"token_ids", "segment_ids", "padding_mask"}
        for name in x:
            assert x[name].numpy().tolist() == other[name].numpy().tolist()
    bucketed = [x for (x,) in dataset_of(words, max_length=16)]
    rows = [row for x in bucketed for row in x["padding_mask"].numpy().sum(1)]
    assert rows == [row for x in xs for row in x["padding_mask"].numpy().sum(1)]


def test_static_shapes(dataset_of):
    dataset = dataset_of(
        [["a"]] * 7, [[1]] * 7, pad_to="max", drop_remainder=True
    )
    x, y, weight = dataset.element_spec
    assert y.shape == weight.shape == x["token_ids"].shape == (3, 32)
    assert len(dataset) == 2


def test_empty_sentences(dataset_of):
    rows = list(rows_of(dataset_of([[], ["a"], [""]], [[], [2], [1]])))
    assert [len(ids) for ids, _, _ in rows] == [2, 3, 2]
    assert [weight.sum() for _, _, weight in rows] == [0, 1, 0]


def test_words_without_pieces_are_logged_once(dataset_of, caplog):
    with caplog.at_level(logging.DEBUG, logger="kbert"):
        list(dataset_of([["a", "", "bad"], ["\x00"]], [[0, 1, 2], [3]]))
        list(dataset_of([["a"]], [[0]]))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("2 of 4 words have no pieces")


# Spans of characters


def spans_by_hand(tokenizer, text, spans, label_pieces):
    """Label of each piece, by the definition, in plain Python."""
    encoding = tokenizer.encode(text, add_special_tokens=False)
    pieces = [
        (
            id_,
            (word, next((s for s in spans if s[0] < end and start < s[1]), 0)),
        )
        for id_, word, (start, end) in zip(
            encoding.ids, encoding.word_ids, encoding.offsets, strict=True
        )
    ]
    pairs, seen = [], set()
    # The pieces of one word that are in the same span, or in none.
    for (_, span), group in itertools.groupby(pieces, lambda piece: piece[1]):
        letter = "I" if span in seen else "B"
        seen.add(span)
        for place, (id_, _) in enumerate(group):
            if place and label_pieces == "first":
                continue
            if place and label_pieces == "inside":
                letter = "I"
            label = NAMES.index(f"{letter}-{span[2]}") if span else 0
            pairs.append((id_, label))
    return pairs


TEXT = "the playing, bad 😀 film filmsly (plays) 中文 was zebra!"


@pytest.mark.parametrize("label_pieces", ["first", "all", "inside"])
@pytest.mark.parametrize(
    "names",
    [
        {},
        {"the playing": "PER", "filmsly": "LOC"},
        {"playing": "PER", "bad": "PER", "中": "LOC", "文": "LOC"},
        {"zebra!": "PER", "😀 film": "LOC"},
        {TEXT: "PER"},
        # Parts of words, cut where pieces are: film ##s ##ly, play ##s.
        {"sly": "LOC", "play": "PER"},
    ],
    ids=range(6),
)
def test_spans(dataset_of, tiny_tokenizer, names, label_pieces, caplog):
    spans = []
    for name, kind in names.items():
        start = TEXT.rindex(name) if name == "play" else TEXT.index(name)
        spans.append((start, start + len(name), kind))
    options = {"label_names": NAMES, "label_pieces": label_pieces}
    wanted = spans_by_hand(tiny_tokenizer, TEXT, spans, label_pieces)
    for length in (32, 7):
        dataset = dataset_of(
            [TEXT, "a", ""],
            spans=[spans[::-1], [], []],
            max_length=length,
            **options,
        )
        assert labelled(dataset)[:-1] == wanted
    assert not caplog.records
    if label_pieces == "first":
        # Everything that is named is labelled once with B-.
        begins = [label for _, label in wanted if label in (1, 3)]
        assert len(begins) == len(spans)


def test_spans_and_words_agree(dataset_of):
    words, tags = random_sentences(30, words=("the", "playing", "filmsly"))
    tags = [[min(tag, 1) for tag in row] for row in tags]
    texts = [" ".join(row) for row in words]
    spans = []
    for row, labels in zip(words, tags, strict=True):
        ends = np.cumsum([len(word) + 1 for word in row], dtype=int)
        spans.append(
            [
                # White space at the ends does not count.
                (max(int(end) - len(word) - 2, 0), int(end) - 1, "PER")
                for word, end, tag in zip(row, ends, labels, strict=True)
                if tag
            ]
        )
    for label_pieces in ("first", "all", "inside"):
        options = {"label_names": NAMES, "label_pieces": label_pieces}
        assert labelled(dataset_of(texts, spans=spans, **options)) == labelled(
            dataset_of(words, tags, **options)
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_spans_in_every_family(families, dataset_of, family, caplog):
    tokenizer = families[family]
    text = "a naïve 😀 café (Zürich) and  Hello World 日本語"
    wanted = ["naïve 😀 café", "Zürich", "Hello World", "日本語"]
    spans = [(text.index(w), text.index(w) + len(w), "LOC") for w in wanted]
    encoding = tokenizer.encode(text)
    ((_, y, _),) = rows_of(
        dataset_of(
            [text],
            spans=[spans],
            tokenizer=tokenizer,
            label_names=NAMES,
            label_pieces="inside",
            max_length=64,
        )
    )
    found = []
    for label, (start, end) in zip(y, encoding.offsets, strict=True):
        if label == 3:
            found.append([start, end])
        elif label == 4:
            found[-1][1] = end
    assert [text[start:end].strip() for start, end in found] == wanted
    assert not caplog.records


def test_spans_inside_pieces_are_widened_and_logged(dataset_of, caplog):
    text = "film bad"
    dataset = dataset_of(
        [text, text],
        spans=[[(1, 3, "PER")], [(0, 2, "LOC"), (2, 8, "PER")]],
        label_names=NAMES,
    )
    assert [label for _, label in labelled(dataset)] == [1, 0, 3, 1]
    (record,) = caplog.records
    message = record.getMessage()
    assert message.startswith("2 of 3 spans") and "; 0 have" in message
    caplog.clear()
    dataset_of(
        [text, "a \x00"],
        spans=[[(0, 1, "LOC"), (1, 2, "PER")], [(2, 3, "PER")]],
        label_names=NAMES,
    )
    assert "1 of 3 spans" in caplog.records[0].getMessage()
    assert "; 2 have" in caplog.records[0].getMessage()


def test_raw_texts_for_predict(dataset_of, tiny_tokenizer):
    ((x,),) = list(dataset_of([TEXT]))
    ids = x["token_ids"].numpy()[0].tolist()
    assert ids == tiny_tokenizer.encode(TEXT).ids


# Errors

GIVEN = {"words": [["a", "bad"], ["film"]], "tags": [[0, 1], [2]]}
RAW = {
    "words": ["a bad", "film"],
    "tags": None,
    "spans": [[(0, 1, "PER")], []],
    "label_names": NAMES,
}


@pytest.mark.parametrize(
    "changes, error, expected, received",
    [
        ({"tags": [[0, 1]]}, ValueError, "one list", "1 tags for 2 words"),
        ({"tags": [[0, 1], []]}, ValueError, "one tag", "tags[1]=[]"),
        ({"tags": [[0], [2]]}, ValueError, "one tag", "tags[0]=[0]"),
        ({"tags": [0, 1]}, TypeError, "sequence", "tags[0]=0"),
        ({"tags": [[0, -100], [1]]}, ValueError, "[0, ", "tags[0][1]=-100"),
        (
            {"tags": [[0, 5], [1]], "label_names": NAMES},
            ValueError,
            "[0, 5)",
            "tags[0][1]=5",
        ),
        ({"tags": [[0, 1.5], [1]]}, TypeError, "names", "tags[0][1]=1.5"),
        ({"tags": [[0, None], [1]]}, TypeError, "names", "tags[0][1]=None"),
        ({"tags": [[0, True], [1]]}, TypeError, "names", "tags[0][1]=True"),
        ({"tags": [[0, "O"], [1]]}, ValueError, "tag_names", "[1]='O'"),
        (
            {"tags": [["O", "B-X"], ["O"]], "label_names": NAMES},
            ValueError,
            "among",
            "tags[0][1]='B-X'",
        ),
        ({"label_names": ["a", "a"]}, ValueError, "different", "['a', 'a']"),
        ({"label_names": "abc"}, TypeError, "strings", "label_names='abc'"),
        ({"words": [["a", 1], ["b"]]}, TypeError, "string", "words[0][1]=1"),
        ({"words": [["a", "b"], "c"]}, TypeError, "sequence", "words[1]='c'"),
        ({"words": "a bad"}, TypeError, "sequence", "words='a bad'"),
        ({"words": [], "tags": []}, ValueError, "one text", "none"),
        ({"label_pieces": "last"}, ValueError, "first", "label_pieces='last'"),
        (
            {"label_pieces": "inside"},
            ValueError,
            "needs `label_names`",
            "label_names=None",
        ),
        (
            {"label_pieces": "inside", "label_names": ["O", "B-X", "I-Y"]},
            ValueError,
            "beside every B-",
            "['B-X'] in label_names=['O', 'B-X', 'I-Y']",
        ),
        (
            {"label_pieces": "inside", "label_names": ["O", "S-X", "I-X"]},
            ValueError,
            "no E- or S-",
            "['S-X'] in label_names=['O', 'S-X', 'I-X']",
        ),
        ({"max_length": 2}, ValueError, "leave room", "max_length=2"),
        ({"max_length": 33}, ValueError, "at most 32", "max_length=33"),
        ({"overlap": 30}, ValueError, "less than", "overlap=30"),
        ({"overlap": -1}, ValueError, "from 0", "overlap=-1"),
        ({"overlap": 1.0}, TypeError, "integers", "overlap=1.0"),
        ({"spans": [[], []]}, ValueError, "strings", "spans=[[], []]"),
        (
            {"tags": None, "spans": [[], []]},
            ValueError,
            "need `tags`",
            "spans=[[], []] with lists of words",
        ),
        (RAW | {"tags": [[0], [1]]}, ValueError, "lists", "with strings"),
        (RAW | {"label_names": None}, ValueError, "need", "label_names=None"),
        (RAW | {"spans": [[]]}, ValueError, "one list", "1 spans for 2 texts"),
        (
            RAW | {"spans": [[(0, 6, "PER")], []]},
            ValueError,
            "has 5",
            "spans[0][0]=(0, 6, 'PER')",
        ),
        (
            RAW | {"spans": [[], [(1, 1, "PER")]]},
            ValueError,
            "has 4",
            "spans[1][0]=(1, 1, 'PER')",
        ),
        (
            RAW | {"spans": [[(1, 2, "PER")], []]},
            ValueError,
            "must hold characters",
            "spans[0][0]=(1, 2, 'PER')",
        ),
        (
            RAW | {"spans": [[(0, 1)], []]},
            TypeError,
            "(start, end, type)",
            "spans[0][0]=(0, 1)",
        ),
        (
            RAW | {"spans": [[(0, 3, "PER"), (2, 5, "LOC")], []]},
            ValueError,
            "not overlap",
            "spans[0] with (0, 3, 'PER') and (2, 5, 'LOC')",
        ),
        (
            RAW | {"spans": [[(0, 1, "ORG")], []]},
            ValueError,
            "['B-ORG', 'I-ORG']",
            f"label_names={NAMES!r}",
        ),
        (
            RAW | {"words": ["a", ["bad"]]},
            TypeError,
            "string",
            "words[1]=['bad']",
        ),
    ],
)
def test_errors(dataset_of, changes, error, expected, received):
    with pytest.raises(error) as caught:
        dataset_of(**(GIVEN | changes))
    message = str(caught.value)
    assert expected in message
    assert "Received: " in message and message.endswith(received), message
