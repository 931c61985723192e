"""Labels of pieces against the recipe of transformers' documentation."""

import random

import pytest

transformers = pytest.importorskip(
    "transformers", reason="pip install keras-kbert[parity]"
)

from family_files import write_family  # noqa: E402

from kbert.data import Tokenizer, token_classification_dataset  # noqa: E402

CLASSES = {
    "distilbert": "DistilBertTokenizerFast",
    "roberta": "RobertaTokenizerFast",
    "albert": "AlbertTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
}
WORDS = (
    "the quick brown fox-jump naïve café Zürich straße 中文 日本語 한글 "
    "😀 👩\u200d🚀 don't U.S.A. 1,000 “quotes” HELLO (again) x²"
).split() + ["", "\u200b", " ", "\x07"]
NAMES = ["O", "B-X", "I-X", "B-Y", "I-Y"]


def recipe(tokenizer, words, tags, label_pieces):
    """`tokenize_and_align_labels`: -100 for what carries no label."""
    encoded = tokenizer(words, is_split_into_words=True)
    aligned = []
    for index, labels in enumerate(tags):
        previous, row = None, []
        for word in encoded.word_ids(batch_index=index):
            if word is None:
                row.append(-100)
            elif word != previous:
                row.append(labels[word])
            elif label_pieces == "first":
                row.append(-100)
            else:
                # run_ner.py, --label_all_tokens: B- goes on as I-.
                row.append(labels[word] + (labels[word] in (1, 3)))
            previous = word
        aligned.append(row)
    return encoded["input_ids"], aligned


@pytest.mark.parametrize("label_pieces", ["first", "inside"])
@pytest.mark.parametrize("family", CLASSES)
def test_labels(tmp_path, family, label_pieces):
    directory = write_family(tmp_path, family)
    is_bytes = family == "roberta"
    switch = {"add_prefix_space": True} if is_bytes else {}
    theirs = getattr(transformers, CLASSES[family]).from_pretrained(
        directory, **switch
    )
    ours = Tokenizer.from_pretrained(directory, **switch)
    rng = random.Random(0)
    words = [rng.choices(WORDS, k=rng.randint(1, 20)) for _ in range(40)]
    tags = [[rng.randrange(5) for _ in row] for row in words]
    ids, aligned = recipe(theirs, words, tags, label_pieces)
    dataset = token_classification_dataset(
        words,
        tags,
        tokenizer=ours,
        batch_size=7,
        max_length=512,
        label_names=NAMES,
        label_pieces=label_pieces,
        pad_to="batch",
    )
    rows = [
        [part.numpy() for part in (x["token_ids"][i], y[i], weight[i])]
        for x, y, weight in dataset
        for i in range(len(y))
    ]
    for (got, y, weight), wanted, labels in zip(
        rows, ids, aligned, strict=True
    ):
        size = len(wanted)
        assert got[:size].tolist() == wanted
        assert not weight[size:].any()
        assert [
            int(label) if is_counted else -100
            for label, is_counted in zip(y[:size], weight[:size], strict=True)
        ] == labels
