"""Windows and answer positions against transformers' way to SQuAD features."""

import pathlib

import numpy as np
import pytest

transformers = pytest.importorskip(
    "transformers", reason="pip install keras-kbert[parity]"
)

from family_files import LINES, write_family  # noqa: E402

from kbert.data.answer_spans import (  # noqa: E402
    answer_spans,
    context_ranges,
)
from kbert.data.question_windows import encode_questions  # noqa: E402
from kbert.data.span_example import SpanExample  # noqa: E402
from kbert.data.squad import read_squad  # noqa: E402
from kbert.data.tokenizer import Tokenizer  # noqa: E402

DATA = pathlib.Path(__file__).parents[3] / "shared" / "data"


def reference_features(tokenizer, examples, max_length, overlap):
    """What transformers' question answering example trains on."""
    features = tokenizer(
        [e.question for e in examples],
        [e.context for e in examples],
        truncation="only_second",
        max_length=max_length,
        stride=overlap,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    spans = []
    for index, sample in enumerate(features["overflow_to_sample_mapping"]):
        example = examples[sample]
        offsets = features["offset_mapping"][index]
        context = [
            place
            for place, of in enumerate(features.sequence_ids(index))
            if of == 1
        ]
        if not (example.answers and context):
            spans.append((0, 0))
            continue
        low = example.answer_starts[0]
        high = low + len(example.answers[0])
        first, last = context[0], context[-1]
        if offsets[first][0] > low or offsets[last][1] < high:
            spans.append((0, 0))
            continue
        while first <= context[-1] and offsets[first][0] <= low:
            first += 1
        while offsets[last][1] >= high:
            last -= 1
        spans.append((first - 1, last + 1))
    return features, np.array(spans).T


def assert_same_features(
    ours, theirs, examples, max_length, overlap, is_sentencepiece=False
):
    features, spans = reference_features(theirs, examples, max_length, overlap)
    windows = encode_questions(
        ours,
        [e.question for e in examples],
        [e.context for e in examples],
        max_length=max_length,
        overlap=overlap,
        max_question_length=max_length - 16,
    )
    assert [e.ids for e in windows.encodings] == features["input_ids"]
    assert windows.texts.tolist() == features["overflow_to_sample_mapping"]
    assert [e.offsets for e in windows.encodings] == features["offset_mapping"]
    if "token_type_ids" in features:
        types = [e.type_ids for e in windows.encodings]
        assert types == features["token_type_ids"]
    contexts = context_ranges(windows)
    found = answer_spans(examples, windows, contexts)
    # Several pieces can share a character: the start of a word that is a
    # piece of its own, and the parts of a "½". An answer takes all of them
    # here, and the last there.
    for index, (mine, reference) in enumerate(
        zip(found.T, spans.T, strict=True)
    ):
        offsets = windows.encodings[index].offsets
        if is_sentencepiece and mine[0]:
            assert mine[0] <= reference[0]
            assert offsets[mine[0]][0] == offsets[reference[0]][0]
            example = examples[windows.texts[index]]
            stop = example.answer_starts[0] + len(example.answers[0])
            if offsets[reference[1]][0] >= stop:
                # No piece has the answer's last character; theirs is the
                # next one, which has nothing of the answer.
                assert mine[1] < reference[1]
                continue
            assert mine[1] >= reference[1]
            assert offsets[mine[1]][1] == offsets[reference[1]][1]
        elif is_sentencepiece and reference[0]:
            # The first or last piece has another of its character's pieces
            # beyond the window's edge.
            first, stop = contexts[:, index]
            assert reference[0] == first or reference[1] == stop - 1
        else:
            assert mine.tolist() == reference.tolist()
    return found


def made_up_examples():
    """Answers of one to three words anywhere in contexts of many scripts."""
    rng = np.random.default_rng(0)
    examples = []
    for number in range(60):
        order = rng.permutation(5)[: number % 5 + 1]
        context = "  ".join(LINES[i] for i in order)
        words = context.split()
        first = int(rng.integers(len(words) - 3))
        # The n-th word's place, counted where it stands.
        start = 0
        for word in words[:first]:
            start = context.index(word, start) + len(word)
        start = context.index(words[first], start)
        stop = start
        for word in words[first : first + 1 + number % 3]:
            stop = context.index(word, stop) + len(word)
        answers, starts = [context[start:stop]], [start]
        if number % 4 == 0:
            answers, starts = [], []
        examples.append(
            SpanExample(
                str(number), "is the fox lazy?", context, "", answers, starts
            )
        )
    return examples


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("bert", "BertTokenizer"),
        ("roberta", "RobertaTokenizer"),
        ("albert", "AlbertTokenizer"),
        ("xlm-roberta", "XLMRobertaTokenizer"),
    ],
)
@pytest.mark.parametrize(("max_length", "overlap"), [(64, 24), (512, 128)])
def test_families(family, name, max_length, overlap, tmp_path):
    directory = write_family(
        tmp_path, "electra" if family == "bert" else family
    )
    ours = Tokenizer.from_pretrained(directory)
    theirs = getattr(transformers, name).from_pretrained(directory)
    found = assert_same_features(
        ours,
        theirs,
        made_up_examples(),
        max_length,
        overlap,
        is_sentencepiece=family in ("albert", "xlm-roberta"),
    )
    assert (found[0] > 0).sum() >= 40


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data at {DATA}")
@pytest.mark.slow
@pytest.mark.parametrize(("max_length", "overlap"), [(384, 128), (128, 40)])
def test_real_questions(max_length, overlap):
    examples = read_squad(DATA / "squad2" / "dev-v2.0.half.json")[::3]
    vocab = DATA / "vocabs" / "bert-base-uncased" / "vocab.txt"
    theirs = transformers.BertTokenizer(str(vocab))
    ours = Tokenizer.from_vocab(vocab)
    found = assert_same_features(ours, theirs, examples, max_length, overlap)
    assert (found[0] > 0).sum() > 900
