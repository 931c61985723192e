"""The losses of tags and of answers against transformers' and torch's."""

import numpy as np
import pytest
from loss_reference import gradient

torch = pytest.importorskip("torch", reason="pip install keras-kbert[parity]")
transformers = pytest.importorskip(
    "transformers", reason="pip install keras-kbert[parity]"
)

from kbert.losses import SpanLoss, TokenClassificationLoss  # noqa: E402

ROWS, LENGTH, CLASSES = 4, 9, 5
CONFIG = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 28,
    "max_position_embeddings": 24,
    "initializer_range": 0.3,
}


def draw():
    rng = np.random.default_rng(0)
    mask = np.arange(LENGTH) < np.array([9, 5, 8, 6])[:, None]
    ids = torch.tensor(rng.integers(1, 50, (ROWS, LENGTH)))
    return rng, mask, {"input_ids": ids, "attention_mask": torch.tensor(mask)}


def test_token_classification_is_transformers():
    torch.manual_seed(0)
    config = transformers.BertConfig(**CONFIG, num_labels=CLASSES)
    theirs = transformers.BertForTokenClassification(config).eval()
    rng, mask, inputs = draw()
    weights = mask * rng.integers(0, 2, (ROWS, LENGTH))
    labels = rng.integers(0, CLASSES, (ROWS, LENGTH))
    labels = np.where(weights > 0, labels, -100)
    output = theirs(**inputs, labels=torch.tensor(labels))
    output.logits.retain_grad()
    output.loss.backward()
    logits = output.logits.detach().numpy()
    loss = TokenClassificationLoss()
    value = float(loss(labels, logits, weights))
    assert value == pytest.approx(output.loss.item(), abs=1e-6)
    found = gradient(lambda z: loss(labels, z, weights), logits)
    np.testing.assert_allclose(found, output.logits.grad.numpy(), atol=1e-6)


def test_span_is_transformers():
    """Half the sum, and without weights padding's logits are in both."""
    torch.manual_seed(0)
    config = transformers.BertConfig(**CONFIG)
    theirs = transformers.BertForQuestionAnswering(config).eval()
    rng, _, inputs = draw()
    y = rng.integers(0, LENGTH, (2, ROWS))
    output = theirs(
        **inputs,
        start_positions=torch.tensor(y[0]),
        end_positions=torch.tensor(y[1]),
    )
    both = output.start_logits, output.end_logits
    for logits in both:
        logits.retain_grad()
    output.loss.backward()
    loss = SpanLoss()
    total = 0.0
    for labels, logits in zip(y, both, strict=True):
        values = logits.detach().numpy()
        total += float(loss(labels, values))
        found = gradient(lambda z, y=labels: loss(y, z), values)
        expected = 2.0 * logits.grad.numpy()
        np.testing.assert_allclose(found, expected, atol=1e-6)
    assert total / 2 == pytest.approx(output.loss.item(), abs=1e-6)


def test_span_in_its_context_is_torch_cross_entropy():
    """Position weights are a logit of minus infinity."""
    rng, mask, _ = draw()
    logits = rng.normal(size=(ROWS, LENGTH)).astype("float32")
    labels = rng.integers(0, 5, ROWS)
    z = torch.tensor(logits).masked_fill(~torch.tensor(mask), -torch.inf)
    expected = torch.nn.functional.cross_entropy(z, torch.tensor(labels))
    value = float(SpanLoss()(labels, logits, mask.astype("float32")))
    assert value == pytest.approx(expected.item(), abs=1e-6)
