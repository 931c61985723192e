"""The pretraining losses against transformers' and torch's, same batch."""

import keras
import numpy as np
import pytest
from loss_reference import gradient

torch = pytest.importorskip("torch", reason="pip install keras-kbert[parity]")
transformers = pytest.importorskip(
    "transformers", reason="pip install keras-kbert[parity]"
)

import kbert  # noqa: E402

ROWS, LENGTH, SLOTS, VOCAB = 4, 9, 3, 50


def draw_batch():
    rng = np.random.default_rng(0)
    lengths = np.array([9, 5, 8, 6])
    padding_mask = (np.arange(LENGTH) < lengths[:, None]).astype("int32")
    positions = np.stack(
        [rng.permutation(length)[:SLOTS] for length in lengths]
    )
    weights = np.array([[1, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 0]])
    x = {
        "token_ids": rng.integers(1, VOCAB, (ROWS, LENGTH)),
        "segment_ids": np.arange(LENGTH)[None] // 4 % 2 * padding_mask,
        "padding_mask": padding_mask,
        "mask_positions": positions * weights,
    }
    y = {
        "mlm": rng.integers(0, VOCAB, (ROWS, SLOTS)),
        "nsp": np.array([0, 1, 1, 0]),
    }
    x = {name: values.astype("int32") for name, values in x.items()}
    y = {name: values.astype("int32") for name, values in y.items()}
    return x, y, weights.astype("float32")


def their_labels(x, y, weights):
    """A label for every token, -100 where none is masked."""
    labels = np.full((ROWS, LENGTH), -100)
    row, slot = np.nonzero(weights)
    labels[row, x["mask_positions"][row, slot]] = y["mlm"][row, slot]
    return torch.tensor(labels)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """transformers' model, its output with gradients, and ours."""
    config = transformers.BertConfig(
        vocab_size=VOCAB,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=28,
        max_position_embeddings=24,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.3,
    )
    torch.manual_seed(0)
    theirs = transformers.BertForPreTraining(config)
    directory = tmp_path_factory.mktemp("pretraining")
    theirs.save_pretrained(directory)
    x, y, weights = draw_batch()
    tensors = {name: torch.tensor(values).long() for name, values in x.items()}
    output = theirs(
        tensors["token_ids"],
        attention_mask=tensors["padding_mask"],
        token_type_ids=tensors["segment_ids"],
        labels=their_labels(x, y, weights),
        next_sentence_label=torch.tensor(y["nsp"]).long(),
    )
    output.prediction_logits.retain_grad()
    output.seq_relationship_logits.retain_grad()
    output.loss.backward()
    return output, kbert.load_pretrainer(directory)


def test_the_pretraining_loss_is_transformers(pair):
    output, ours = pair
    x, y, weights = draw_batch()
    ours.compile(
        "sgd",
        loss={
            "mlm": kbert.losses.MaskedLMLoss(),
            "nsp": kbert.losses.NextSentenceLoss(),
        },
        jit_compile=False,
    )
    pairs = np.ones(ROWS, "float32")
    shown = ours.evaluate(
        x,
        y,
        sample_weight={"mlm": weights, "nsp": pairs},
        verbose=0,
        return_dict=True,
    )
    expected = output.loss.item()
    assert shown["loss"] == pytest.approx(expected, abs=1e-5)


def test_gradients_by_logits_are_transformers(pair):
    output, _ = pair
    x, y, weights = draw_batch()
    rows = np.arange(ROWS)[:, None]
    at = rows, x["mask_positions"]
    mlm = output.prediction_logits
    found = gradient(
        lambda z: kbert.losses.MaskedLMLoss()(y["mlm"], z, weights),
        mlm.detach().numpy()[at],
    )
    theirs = mlm.grad.numpy()
    expected = theirs[at] * weights[..., None]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    # No other position has a gradient on their side.
    assert np.abs(theirs).sum() == pytest.approx(
        np.abs(expected).sum(), rel=1e-6
    )
    nsp = output.seq_relationship_logits
    found = gradient(
        lambda z: kbert.losses.NextSentenceLoss()(y["nsp"], z),
        nsp.detach().numpy(),
    )
    np.testing.assert_allclose(found, nsp.grad.numpy(), atol=1e-6)


def test_the_replaced_token_loss_is_transformers():
    """ElectraForPreTraining ignores padding by the attention mask."""
    config = transformers.ElectraConfig(
        vocab_size=VOCAB,
        embedding_size=8,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=28,
        max_position_embeddings=24,
        initializer_range=0.3,
    )
    torch.manual_seed(0)
    theirs = transformers.ElectraForPreTraining(config).eval()
    x, _, _ = draw_batch()
    labels = np.random.default_rng(1).integers(0, 2, (ROWS, LENGTH))
    output = theirs(
        torch.tensor(x["token_ids"]).long(),
        attention_mask=torch.tensor(x["padding_mask"]).long(),
        labels=torch.tensor(labels),
    )
    output.logits.retain_grad()
    output.loss.backward()
    logits = output.logits.detach().numpy()
    loss = kbert.losses.ReplacedTokenLoss()
    value = loss(labels, logits, x["padding_mask"])
    assert float(value) == pytest.approx(output.loss.item(), abs=1e-5)
    found = gradient(lambda z: loss(labels, z, x["padding_mask"]), logits)
    np.testing.assert_allclose(found, output.logits.grad.numpy(), atol=1e-6)


def test_keras_cross_entropy_is_another_number(pair):
    """What the losses are for: Keras counts the unused slots."""
    output, _ = pair
    x, y, weights = draw_batch()
    at = np.arange(ROWS)[:, None], x["mask_positions"]
    logits = output.prediction_logits.detach().numpy()[at]
    keras_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    ours = float(kbert.losses.MaskedLMLoss()(y["mlm"], logits, weights))
    theirs = float(keras_loss(y["mlm"], logits, weights))
    assert theirs == pytest.approx(ours * weights.mean(), rel=1e-5)
