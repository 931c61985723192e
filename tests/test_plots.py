"""Pictures: the data that is drawn, the text that is written, what is refused.

How they look was looked at; see the pictures of docs/plots.md.
"""

import html.parser
import io
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import kbert
from kbert import plots


def png(figure):
    """Draws it, so that what is wrong with it is an error."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=40)
    assert file.getvalue().startswith(b"\x89PNG")


def panels(figure):
    return [axes for axes in figure.axes if axes.get_title()]


def names(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


# Attention


@pytest.fixture(scope="module")
def encoder(tiny_config):
    model = kbert.build_encoder(tiny_config)
    rng = np.random.default_rng(0)
    for weight in model.weights:
        centre = "gamma" in weight.path
        weight.assign(rng.normal(centre, 0.4, tuple(weight.shape)))
    return model


def test_maps_are_the_weights_of_the_text(encoder, tiny_tokenizer):
    maps = plots.attention_maps(encoder, tiny_tokenizer, "a good", "bad film")
    assert maps.tokens == "[CLS] a good [SEP] bad film [SEP]".split()
    encoding = tiny_tokenizer.encode("a good", "bad film")
    inputs = {
        "token_ids": np.array([encoding.ids]),
        "segment_ids": np.array([encoding.type_ids]),
        "padding_mask": np.ones((1, 7)),
    }
    expected = kbert.attention_weights(encoder, inputs)[0]
    np.testing.assert_array_equal(maps.weights, expected)
    assert inputs["segment_ids"].sum() == 3  # the second text counts


def test_packed_models_and_long_texts(encoder, tiny_tokenizer, caplog):
    packed = plots.attention_maps(
        kbert.build_packed(encoder), tiny_tokenizer, "a good film"
    )
    plain = plots.attention_maps(encoder, tiny_tokenizer, "a good film")
    np.testing.assert_allclose(packed.weights, plain.weights, atol=1e-6)
    assert not caplog.records
    maps = plots.attention_maps(encoder, tiny_tokenizer, "good " * 40)
    assert len(maps.tokens) == 32
    assert "were truncated" in caplog.text


def test_tokens_of_byte_level_vocabularies_read_as_text():
    tokenizer = kbert.Tokenizer.train(
        ["the café\n $1$ the café\n $1$"] * 5, vocab_size=400, model="bpe"
    )
    config = kbert.EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=8,
        num_layers=1,
        num_heads=1,
        intermediate_size=8,
        num_segments=1,
    )
    maps = plots.attention_maps(
        kbert.build_encoder(config), tokenizer, "the café\n$1"
    )
    text = "".join(maps.tokens[1:-1])
    assert maps.tokens[0] == "<s>" and maps.tokens[-1] == "</s>"
    assert text == "the▁café\\n$1"


def test_every_panel_has_its_layer_and_head(encoder, tiny_tokenizer):
    text = "the film was not good"
    maps = plots.attention_maps(encoder, tiny_tokenizer, text)
    figure = plots.attention(encoder, tiny_tokenizer, text)
    png(figure)
    found = panels(figure)
    assert len(found) == 4
    for axes in found:
        layer, head = map(int, re.findall(r"\d+", axes.get_title()))
        shown = axes.images[0].get_array()
        np.testing.assert_array_equal(shown, maps.weights[layer, head])
        assert axes.images[0].get_clim() == (0.0, 1.0)
    # Names to the left and below, of all tokens, and nowhere else.
    assert [names(axes.yaxis) for axes in found] == [maps.tokens, []] * 2
    assert [names(axes.xaxis) for axes in found] == [[]] * 2 + [maps.tokens] * 2


def test_one_layer_fills_rows_and_one_head_is_large(tiny_config):
    config = kbert.EncoderConfig(
        vocab_size=tiny_config.vocab_size,
        hidden_size=10,
        num_layers=1,
        num_heads=5,
        intermediate_size=8,
        max_positions=600,
    )
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "$x$"]
    tokenizer = kbert.Tokenizer.from_vocab(words)
    model = kbert.build_encoder(config)
    figure = plots.attention(model, tokenizer, "[MASK] [UNK]", layers=0)
    found = panels(figure)
    places = [axes.get_subplotspec().get_geometry() for axes in found]
    assert places == [(2, 3, i, i) for i in range(5)]
    assert [bool(names(axes.xaxis)) for axes in found] == [0, 0, 1, 1, 1]

    figure = plots.attention(
        model, tokenizer, "[MASK] " * 400, layers=[0], heads=np.array([3])
    )
    (axes,) = panels(figure)
    assert axes.get_title() == "layer 0, head 3"
    shown = axes.yaxis.get_ticklabels()
    height = axes.get_figure().get_figheight() * 72
    # So many of 402 names that they do not touch.
    assert 50 < len(shown) and len(shown) * shown[0].get_fontsize() < height
    assert shown[0].get_fontsize() >= 5


@pytest.mark.parametrize("chosen", [[], 2, -1, [0, 2], 0.5, "1", True])
def test_no_such_layer_or_head(encoder, tiny_tokenizer, chosen):
    for name in ("layers", "heads"):
        with pytest.raises(ValueError, match=rf"{name}.*Received: {name}="):
            plots.attention(encoder, tiny_tokenizer, "a", **{name: chosen})


def test_text_that_is_no_text(encoder, tiny_tokenizer):
    with pytest.raises(TypeError, match="Received: text="):
        plots.attention_maps(encoder, tiny_tokenizer, ["a"])


# HTML


class Reader(html.parser.HTMLParser):
    """Splits a fragment into the text, its marks and what is written in."""

    def __init__(self, markup):
        super().__init__(convert_charrefs=True)
        self.text, self.marks, self.labels, self.tags = "", [], [], []
        self.feed(markup)
        self.close()
        assert not self.tags

    def handle_starttag(self, tag, attrs):
        assert tag in ("div", "mark", "span")
        assert {name for name, _ in attrs} <= {
            "dir",
            "style",
            "title",
            "data-label",
        }
        inside = self.tags and self.tags[-1][1]
        is_label = inside or "data-label" in dict(attrs)
        self.tags.append((tag, is_label))
        if tag == "mark":
            self.marks.append("")
            self.labels.append("")

    def handle_endtag(self, tag):
        assert self.tags.pop()[0] == tag

    def handle_data(self, data):
        tag, is_label = self.tags[-1]
        if is_label:
            if self.labels:
                self.labels[-1] += data
            return
        self.text += data
        if tag == "mark":
            self.marks[-1] += data


PIECES = st.sampled_from(
    ["<script>alert(1)</script>", "&amp;", "&#13;", "'", '"', "\n", "\r\n"]
    + ["\t", "😀", "👩‍👩‍👧", "e\u0301", "東京", "</mark>", "<!--", "]]>", " "]
)
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=8).map("".join)


def draw_entities(data, text):
    cuts = st.integers(0, len(text))
    places = sorted(data.draw(st.sets(cuts, max_size=8)))
    pairs = zip(places[::2], places[1::2], strict=False)
    return [
        {
            "start": start,
            "end": end,
            "text": text[start:end],
            "label": data.draw(TEXTS.filter(bool)),
            "score": 0.5,
        }
        for start, end in pairs
    ]


@settings(max_examples=200, deadline=None)
@given(text=TEXTS, data=st.data())
def test_all_of_the_text_is_there_and_nothing_else(text, data):
    found = draw_entities(data, text)
    read = Reader(plots.entities(text, found))
    assert read.text == text
    assert read.marks == [entity["text"] for entity in found]
    assert read.labels == [entity["label"] for entity in found]


@settings(max_examples=100, deadline=None)
@given(text=TEXTS, data=st.data())
def test_the_answer_is_marked_in_its_context(text, data):
    assume(text)
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    answer = {"start": start, "end": end, "score": 0.25}
    read = Reader(plots.answer(text, answer))
    assert (read.text, read.marks) == (text, [text[start:end]])


@pytest.mark.parametrize(
    "answer",
    [
        {"text": "", "start": 0, "end": 0, "score": 0.25},
        {"text": "", "start": None, "end": None, "score": 0.25},
    ],
)
def test_no_answer_is_said(answer):
    page = plots.answer("<b>", answer)
    assert "no answer 0.250" in page
    read = Reader(page)
    assert (read.text, read.marks) == ("<b>", [])


def contrast(color):
    """Contrast ratio with #111 text, after WCAG 2."""

    def luminance(code):
        parts = [int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [
            x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4
            for x in parts
        ]
        return np.dot(linear, [0.2126, 0.7152, 0.0722])

    return (luminance(color) + 0.05) / (luminance("#111111") + 0.05)


def test_colors_are_the_labels_and_legible():
    def colors(labels):
        text = "x" * len(labels)
        found = [
            {"start": i, "end": i + 1, "label": label}
            for i, label in enumerate(labels)
        ]
        page = plots.entities(text, found)
        return re.findall(r"background:(#\w+)", page)

    labels = ["PER", "LOC", "ORG", "MISC", "DATE", "MONEY", "LAW", "WORK"]
    first = colors(labels + labels)
    assert first[:8] == first[8:]
    assert len(set(first)) == 8
    assert colors(labels[::-1]) == first[:8][::-1]
    assert len(set(colors([f"label {i}" for i in range(25)]))) == 10
    assert min(contrast(color) for color in first) > 7


@pytest.mark.parametrize(
    "change, message",
    [
        ({"start": 4, "end": 3}, "0 <= start < end <= 6"),
        ({"end": 7}, "0 <= start < end <= 6"),
        ({"start": -1}, "0 <= start < end <= 6"),
        ({"start": None}, "whole numbers"),
        ({"start": 1, "end": 4}, "in order and not overlap"),
        ({"text": "xx"}, "Another text is at this place, 'de'"),
    ],
)
def test_entities_that_cannot_be_marked(change, message):
    found = [
        {"start": 0, "end": 2, "label": "A"},
        {"start": 3, "end": 5, "label": "B", **change},
    ]
    with pytest.raises(ValueError, match=message + r".*Received: entities\[1"):
        plots.entities("abcdef", found)
    if "overlap" not in message:
        with pytest.raises(ValueError, match=message + ".*Received: answer="):
            plots.answer("abcdef", found[1])


def test_text_and_labels_must_be_strings():
    with pytest.raises(TypeError, match="Received: text=3"):
        plots.entities(3, [])
    with pytest.raises(TypeError, match=r"Received: entities\[0\]\['label'\]="):
        plots.entities("abc", [{"start": 0, "end": 1}])


def test_html_is_shown_by_notebooks_and_saved(tmp_path):
    page = plots.entities("Zoë\r\n", [{"start": 0, "end": 3, "label": "PER"}])
    assert page._repr_html_() == page
    page.save(tmp_path / "page.html")
    saved = (tmp_path / "page.html").read_bytes().decode("utf-8")
    assert page in saved and '<meta charset="utf-8">' in saved


# Curves

CURVES = {
    "loss": [0.9, 0.5, 0.4],
    "mlm_accuracy": [0.1, 0.3, 0.2],
    "val_loss": [0.8, 0.7, 0.9],
    "learning_rate": [3e-5, 2e-5, 1e-5],
}


def curves(figure):
    return {
        axes.get_title(): [
            (line.get_label(), *map(list, line.get_data()))
            for line in axes.get_lines()
        ]
        for axes in figure.axes
    }


def test_curves_of_a_dict():
    figure = plots.history(dict(reversed(CURVES.items())))
    png(figure)
    drawn = curves(figure)
    assert list(drawn)[0] == "loss" and len(drawn) == 3
    assert drawn["loss"] == [
        ("training", [1, 2, 3], CURVES["loss"]),
        ("validation", [1, 2, 3], CURVES["val_loss"]),
    ]
    assert drawn["mlm_accuracy"][0][1:] == ([1, 2, 3], CURVES["mlm_accuracy"])
    legends = [axes.get_legend() is not None for axes in figure.axes]
    assert legends == [True, False, False]
    assert figure.axes[0].get_xlim()[0] > 0  # there is no epoch 0


def fit(path, **options):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", loss="mse", metrics=["mae"])
    x = np.ones((4, 1), "float32")
    logger = keras.callbacks.CSVLogger(path, separator=";")
    return model.fit(x, x, verbose=0, callbacks=[logger], **options)


def test_curves_of_fit_and_of_its_log_are_the_same(tmp_path):
    x = np.ones((2, 1), "float32")
    history = fit(
        tmp_path / "log.csv", epochs=5, initial_epoch=2, validation_data=(x, x)
    )
    drawn = curves(plots.history(history))
    assert set(drawn) == {"loss", "mae"}
    assert drawn["mae"][1][1] == [3, 4, 5]
    logged = curves(plots.history(tmp_path / "log.csv"))
    for name, lines in drawn.items():
        for line, other in zip(lines, logged[name], strict=True):
            assert line[:2] == other[:2]
            np.testing.assert_allclose(line[2], other[2], rtol=1e-6)


def test_epochs_without_validation(tmp_path):
    x = np.ones((2, 1), "float32")
    history = fit(
        tmp_path / "log.csv",
        epochs=5,
        validation_data=(x, x),
        validation_freq=2,
    )
    with pytest.raises(ValueError, match="file of a CSVLogger does. Received:"):
        plots.history(history)
    drawn = curves(plots.history(tmp_path / "log.csv"))
    assert drawn["loss"][1][:2] == ("validation", [2, 4])
    np.testing.assert_allclose(
        drawn["loss"][1][2], history.history["val_loss"], rtol=1e-6
    )


@pytest.mark.parametrize(
    "history, error",
    [
        ({}, ValueError),
        ({"loss": []}, ValueError),
        ({"loss": [1.0], "mae": [1.0, 2.0]}, ValueError),
        ([1.0, 2.0], TypeError),
        (None, TypeError),
    ],
)
def test_no_history(history, error):
    with pytest.raises(error, match="Received: "):
        plots.history(history)


@pytest.mark.parametrize(
    "content", ["", "epoch\n", "loss,epoch\n1,2\n", "epoch,loss\n"]
)
def test_no_log(tmp_path, content):
    path = tmp_path / "log.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match="CSVLogger.*Received: .*log.csv"):
        plots.history(path)


@pytest.mark.parametrize("row", ["0,x", "0,", "0", "0.5,1"])
def test_a_broken_log(tmp_path, row):
    path = tmp_path / "log.csv"
    path.write_text(f"epoch,loss\n{row}\n")
    with pytest.raises(ValueError, match="a number in every field.*Received"):
        plots.history(str(path))


# Confusion

TRUE = [0, 0, 0, 1, 1, 2]
PREDICTED = [0, 1, 1, 1, 1, 0]
COUNTS = [[1, 2, 0, 0], [0, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
CLASSES = ["no", "maybe", "$x$", "yes"]


@pytest.mark.parametrize(
    "normalize, shares",
    [
        (None, COUNTS),
        ("true", [[100 / 3, 200 / 3], [0, 100], [100, 0]]),
        ("predicted", [[50, 50], [0, 50], [50, 0]]),
        ("all", [[100 / 6, 200 / 6], [0, 200 / 6], [100 / 6, 0]]),
    ],
)
def test_confusion(normalize, shares):
    figure = plots.confusion(TRUE, np.array(PREDICTED), CLASSES, normalize)
    png(figure)
    axes = figure.axes[0]
    shown = axes.images[0].get_array()
    expected = np.zeros((4, 4))
    expected[: len(shares), : len(shares[0])] = shares
    np.testing.assert_allclose(shown, expected)
    assert names(axes.yaxis) == names(axes.xaxis) == CLASSES
    written = {text.get_position()[::-1]: text for text in axes.texts}
    assert {place: x.get_text() for place, x in written.items()} == {
        place: f"{value:.0f}"
        for place, value in np.ndenumerate(expected)
        if value
    }
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("true", "predicted")


def test_confusion_of_names_and_of_bare_numbers():
    words = [[CLASSES[i] for i in row] for row in (TRUE, PREDICTED)]
    named = plots.confusion(*words, label_names=CLASSES).axes[0]
    np.testing.assert_array_equal(named.images[0].get_array(), COUNTS)
    bare = plots.confusion([7, -1, 7], [7, 7, 7]).axes[0]
    assert names(bare.yaxis) == ["-1", "7"]
    assert bare.images[0].get_array().tolist() == [[0, 1], [0, 2]]
    sorted_names = plots.confusion(["b", "a"], ["b", "b"]).axes[0]
    assert names(sorted_names.xaxis) == ["a", "b"]


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (([], []), ValueError, "at least one"),
        (([0, 1], [0]), ValueError, "as many"),
        (([0, "a"], [0, 1]), TypeError, "all whole numbers or all strings"),
        (([0.0], [0.5]), TypeError, "all whole numbers or all strings"),
        (([0], [2], ["a", "b"]), ValueError, "none of the 2"),
        (([-1], [0], ["a", "b"]), ValueError, "none of the 2"),
        ((["c"], ["a"], ["a", "b"]), ValueError, "none of the 2"),
        (([0], [0], ["a", "a"]), ValueError, "different names"),
        (([0], [0], "ab"), ValueError, "different names"),
        (([0], [0], None, "rows"), ValueError, "normalize"),
        (("01", "01"), TypeError, "sequence"),
    ],
)
def test_labels_without_confusion(arguments, error, message):
    with pytest.raises(error, match=message + r"[\s\S]*Received: "):
        plots.confusion(*arguments)


# Embeddings


def scattered(figure):
    """Name → points, of each group."""
    return {
        group.get_label(): np.asarray(group.get_offsets())
        for group in figure.axes[0].collections
    }


def test_components_are_those_of_the_covariance():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 6)) * [5, 3, 1, 1, 1, 0.1] + 10
    figure = plots.embeddings(x.astype("float32"))
    png(figure)
    (points,) = scattered(figure).values()
    values, directions = np.linalg.eigh(np.cov(x.T))
    expected = (x - x.mean(axis=0)) @ directions[:, [-1, -2]]
    expected *= np.sign((expected * points).sum(axis=0))
    np.testing.assert_allclose(points, expected, atol=1e-4)
    # Neither direction is turned round by chance.
    assert (points[np.abs(points).argmax(axis=0), [0, 1]] > 0).all()
    axes = figure.axes[0]
    shares = 100 * values[[-1, -2]] / values.sum()
    texts = axes.get_xlabel(), axes.get_ylabel()
    found = [int(re.findall(r"\d+", text)[0]) for text in texts]
    np.testing.assert_allclose(found, shares, atol=0.51)
    # A centimetre is as much to the right as upwards.
    assert axes.get_aspect() == 1.0
    assert not figure.legends


@pytest.mark.parametrize("kind", [list, np.array])
@pytest.mark.parametrize("labels", [["b", "$a$", "b"], [10, 2, 10]])
def test_a_colour_for_each_label(labels, kind):
    x = np.array([[-1.0, 0], [-2, 0], [3, 0]])
    figure = plots.embeddings(x, kind(labels))
    png(figure)
    found = scattered(figure)
    few, many = str(labels[1]), str(labels[0])
    assert list(found) == [few, many]  # numbers are sorted as numbers
    np.testing.assert_allclose(found[few], [[-2, 0]], atol=1e-12)
    np.testing.assert_allclose(found[many], [[-1, 0], [3, 0]], atol=1e-12)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [few, many]


def test_twenty_labels_look_different():
    x = np.random.default_rng(0).normal(size=(20, 4))
    figure = plots.embeddings(x, range(20))
    looks = {
        (group.get_facecolor().tobytes(), len(group.get_paths()[0].vertices))
        for group in figure.axes[0].collections
    }
    assert len(looks) == 20


@pytest.mark.parametrize(
    "x", [[[1.0], [3.0]], [[2.0, 2.0]] * 3, np.eye(2, dtype="int8")]
)
def test_vectors_with_less_than_two_directions(x):
    figure = plots.embeddings(np.array(x))
    png(figure)
    (points,) = scattered(figure).values()
    gaps = points[:, None] - points[None]
    x = np.array(x, "float64")
    expected = np.linalg.norm(x[:, None] - x[None], axis=-1)
    np.testing.assert_allclose(
        np.linalg.norm(gaps, axis=-1), expected, atol=1e-12
    )


def test_neighbours_stay_together():
    pytest.importorskip("sklearn")
    centres = np.repeat(np.eye(3, 8), 15, axis=0)
    x = centres + np.random.default_rng(0).normal(size=(45, 8)) * 0.01
    labels = np.repeat(["a", "b", "c"], 15)
    found = scattered(plots.embeddings(x, labels, "tsne"))
    again = scattered(plots.embeddings(x, labels, "tsne"))
    for name, points in found.items():
        np.testing.assert_array_equal(points, again[name])
        radius = np.linalg.norm(points - points.mean(axis=0), axis=1).max()
        others = np.concatenate([found[x] for x in found if x != name])
        gaps = np.linalg.norm(others[:, None] - points[None], axis=-1)
        assert gaps.min() > radius
    png(plots.embeddings(x[:2], method="tsne"))


def test_tsne_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    with pytest.raises(ImportError, match="install scikit-learn. Received: "):
        plots.embeddings(np.eye(3), method="tsne")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.zeros(3),), ValueError, r"vectors \(N, D\).*float64 \(3,\)"),
        ((np.zeros((1, 3)),), ValueError, r"two or more.*\(1, 3\)"),
        ((np.zeros((3, 0)),), ValueError, r"\(3, 0\)"),
        ((np.array([["a"], ["b"]]),), ValueError, "U1"),
        (([[0, np.nan], [1, 2]],), ValueError, "finite.*Received: 1 with"),
        ((np.eye(3), ["a", "b"]), ValueError, "of 3 vectors.*2 labels"),
        ((np.eye(2), ["a", 1]), TypeError, "Received: labels="),
        ((np.eye(2), "ab"), TypeError, "Received: labels="),
        ((np.eye(21), range(21)), ValueError, "at most 20.*21 different"),
        ((np.eye(2), None, "umap"), ValueError, "Received: method='umap'"),
    ],
)
def test_vectors_that_cannot_be_drawn(arguments, error, message):
    with pytest.raises(error, match=message):
        plots.embeddings(*arguments)


# matplotlib


def test_pyplot_keeps_nothing():
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    plots.history(CURVES)
    plots.confusion([0], [0])
    plots.embeddings(np.eye(2))
    assert pyplot.get_fignums() == before


def test_without_matplotlib():
    """All else works, and a figure says what to install."""
    code = """
import sys
sys.modules["matplotlib"] = None
from kbert import plots
assert "x" in plots.entities("x", [])
try:
    plots.confusion([0], [0])
except ImportError as error:
    assert "pip install 'keras-kbert[plots]'" in str(error)
    assert "Received: " in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
