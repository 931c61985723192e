"""`EntityTagger` against transformers' pipeline and seqeval's entities."""

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install keras-kbert[parity]")
transformers = pytest.importorskip(
    "transformers", reason="pip install keras-kbert[parity]"
)
seqeval = pytest.importorskip(
    "seqeval.metrics.sequence_labeling",
    reason="pip install keras-kbert[parity]",
)
pytest.importorskip("sentencepiece")

from family_files import write_family  # noqa: E402

import kbert  # noqa: E402
from kbert.pipelines.tags import TagScheme  # noqa: E402

# Without signs inside of words, where transformers cuts them. Of families that
# are not of word pieces it only guesses the words.
TEXTS = [
    "the quick brown fox jumps over the lazy dog , and runs home .",
    "Playing the FILM was not a good idea : bad plots",
    "naïve café Zu\u0308rich straße 3 4",
    "dog",
    "",
]
NAMES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
STRATEGIES = {"first": "first", "mean": "average", "max": "max"}


@pytest.mark.parametrize("family", ["bert", "electra"])
@pytest.mark.parametrize("aggregation", STRATEGIES)
def test_entities_of_the_same_weights(family, aggregation, tmp_path):
    write_family(tmp_path, family)
    tokenizer = kbert.Tokenizer.from_pretrained(tmp_path)
    torch.manual_seed(0)
    config = transformers.CONFIG_MAPPING[family](
        vocab_size=tokenizer.vocab_size,
        hidden_size=16,
        embedding_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=128,
        initializer_range=0.5,
        pad_token_id=tokenizer.pad_token_id,
        id2label=dict(enumerate(NAMES)),
        label2id={name: number for number, name in enumerate(NAMES)},
    )
    model = transformers.AutoModelForTokenClassification.from_config(config)
    model.eval().save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    theirs = transformers.pipeline(
        "token-classification",
        model=model,
        tokenizer=transformers.AutoTokenizer.from_pretrained(tmp_path),
        aggregation_strategy=STRATEGIES[aggregation],
    )
    tag = kbert.pipelines.EntityTagger(
        kbert.load_token_classifier(tmp_path),
        tokenizer,
        aggregation=aggregation,
        batch_size=2,
    )
    count = 0
    for text, entities in zip(TEXTS, tag(TEXTS), strict=True):
        expected = theirs(text) if text else []
        assert [(e["label"], e["start"], e["end"]) for e in entities] == [
            (e["entity_group"], *trimmed(text, e["start"], e["end"]))
            for e in expected
        ]
        np.testing.assert_allclose(
            [e["score"] for e in entities],
            [e["score"] for e in expected],
            atol=1e-5,
        )
        count += len(entities)
    assert count > 5


def trimmed(text, start, end):
    """An entity to the end of its word: transformers' ends with its piece."""
    while start < end and text[start].isspace():
        start += 1
    while end < len(text) and text[end] == "\u0308":
        end += 1
    return start, end


def test_entities_are_seqevals():
    rng = random.Random(0)
    names = ["O", *(f"{p}-{t}" for p in "BIES" for t in ("PER", "LOC", "a-b"))]
    scheme = TagScheme(names)
    for _ in range(1000):
        tags = rng.choices(names, k=rng.randint(1, 12))
        ids = np.array([names.index(tag) for tag in tags])
        entities = [
            (scheme.types[ids[start]], start, end - 1)
            for start, end in scheme.entities(ids).tolist()
        ]
        assert entities == seqeval.get_entities(tags)
