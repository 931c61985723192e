"""Heads against transformers', tiny, weights copied by hand."""

import numpy as np
import pytest
from keras import ops

torch = pytest.importorskip("torch", reason="pip install keras-kbert[parity]")
transformers = pytest.importorskip(
    "transformers", reason="pip install keras-kbert[parity]"
)

import kbert  # noqa: E402

TINY = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 28,
    "max_position_embeddings": 24,
    "layer_norm_eps": 1e-3,
    "hidden_dropout_prob": 0.3,
    "attention_probs_dropout_prob": 0.3,
}
MLM = {
    "mlm/dense": "cls.predictions.transform.dense",
    "mlm/layer_norm": "cls.predictions.transform.LayerNorm",
    "mlm_bias": "cls.predictions",
}
NAMES = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


def draw(cls, **changes):
    """One of transformers' models, every parameter random, dropout off."""
    config = transformers.BertConfig(**{**TINY, **changes})
    return randomised(cls(config))


def randomised(module):
    generator = torch.Generator().manual_seed(0)
    for name, parameter in module.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data.copy_(float("LayerNorm.weight" in name) + 0.3 * noise)
    return module.eval()


def copy_head(variables, theirs, names):
    """Assign every variable below the paths in `names`; all must be there."""
    tensors = theirs.state_dict()
    left = dict(names)
    for variable in variables:
        parent, _, last = variable.path.rpartition("/")
        if parent in names:
            value = tensors[f"{names[parent]}.{NAMES[last]}"].numpy()
            variable.assign(value.T if last == "kernel" else value)
            left.pop(parent, None)
    assert not left


def encoder_of(theirs, directory):
    theirs.save_pretrained(directory)
    return kbert.load_encoder(directory)


def draw_batch(rows=4, length=9):
    rng = np.random.default_rng(0)
    lengths = np.array([9, 5, 2, 7])
    mask = (np.arange(length) < lengths[:, None]).astype("int32")
    return {
        "token_ids": rng.integers(0, 50, (rows, length)).astype("int32"),
        "segment_ids": rng.integers(0, 2, (rows, length)).astype("int32"),
        "padding_mask": mask,
    }


def run_theirs(model, batch):
    x = {name: torch.tensor(value).long() for name, value in batch.items()}
    with torch.no_grad():
        return model(
            input_ids=x["token_ids"],
            token_type_ids=x["segment_ids"],
            attention_mask=x["padding_mask"],
        )


def assert_equal(ours, theirs, mask=None):
    ours, theirs = ops.convert_to_numpy(ours), theirs.numpy()
    assert ours.shape == theirs.shape
    if mask is not None:  # nothing reads padding, and kernels differ there
        ours, theirs = ours[mask == 1], theirs[mask == 1]
    np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
def test_masked_lm(activation, tmp_path):
    theirs = draw(transformers.BertForMaskedLM, hidden_act=activation)
    encoder = encoder_of(theirs, tmp_path)
    batch = draw_batch()
    expected = run_theirs(theirs, batch).logits
    model = kbert.build_masked_lm(encoder, all_positions=True)
    copy_head(model.weights, theirs, MLM)
    assert_equal(model(batch), expected, batch["padding_mask"])

    model = kbert.build_masked_lm(encoder)
    copy_head(model.weights, theirs, MLM)
    positions = np.array([[1, 0, 8], [4, 0, 0], [1, 1, 0], [6, 2, 3]], "int32")
    picked = expected[torch.arange(4)[:, None], torch.tensor(positions).long()]
    assert_equal(model({**batch, "mask_positions": positions}), picked)


def test_pretrainer(tmp_path):
    theirs = draw(transformers.BertForPreTraining)
    model = kbert.build_pretrainer(encoder_of(theirs, tmp_path))
    names = {**MLM, "nsp/logits": "cls.seq_relationship"}
    copy_head(model.weights, theirs, names)
    batch = draw_batch()
    everywhere = np.tile(np.arange(9, dtype="int32"), (4, 1))
    ours = model({**batch, "mask_positions": everywhere})
    expected = run_theirs(theirs, batch)
    assert_equal(ours["mlm"], expected.prediction_logits, batch["padding_mask"])
    assert_equal(ours["nsp"], expected.seq_relationship_logits)


def test_token_classifier(tmp_path):
    theirs = draw(transformers.BertForTokenClassification, num_labels=5)
    model = kbert.build_token_classifier(encoder_of(theirs, tmp_path), 5)
    copy_head(model.weights, theirs, {"token_classifier/logits": "classifier"})
    batch = draw_batch()
    expected = run_theirs(theirs, batch).logits
    assert_equal(model(batch), expected, batch["padding_mask"])


def test_span_model(tmp_path):
    theirs = draw(transformers.BertForQuestionAnswering)
    model = kbert.build_span_model(encoder_of(theirs, tmp_path))
    copy_head(model.weights, theirs, {"span/logits": "qa_outputs"})
    batch = draw_batch()
    ours, expected = model(batch), run_theirs(theirs, batch)
    mask = batch["padding_mask"]
    assert_equal(ours["start"], expected.start_logits, mask)
    assert_equal(ours["end"], expected.end_logits, mask)


def roberta_head():
    from transformers.models.roberta import modeling_roberta

    config = transformers.RobertaConfig(hidden_size=16, num_labels=3)
    return modeling_roberta.RobertaClassificationHead(config)


def electra_head():
    from transformers.models.electra import modeling_electra

    config = transformers.ElectraConfig(hidden_size=16, num_labels=3)
    return modeling_electra.ElectraClassificationHead(config)


def mpnet_head():
    from transformers.models.mpnet import modeling_mpnet

    config = transformers.MPNetConfig(hidden_size=16, num_labels=3)
    return modeling_mpnet.MPNetClassificationHead(config)


@pytest.mark.parametrize(
    ("make", "activation"),
    [(roberta_head, "tanh"), (electra_head, "gelu"), (mpnet_head, "tanh")],
)
def test_classification_heads_with_a_dense_layer(make, activation):
    theirs = randomised(make())
    head = kbert.layers.ClassificationHead(
        3, dense_size=16, dense_activation=activation, name="classifier"
    )
    states = np.random.default_rng(0).normal(size=(4, 9, 16)).astype("float32")
    head(states[:, 0])
    copy_head(
        head.weights,
        theirs,
        {"classifier/dense": "dense", "classifier/logits": "out_proj"},
    )
    with torch.no_grad():
        expected = theirs(torch.tensor(states))
    assert_equal(head(states[:, 0]), expected)


def test_distilberts_classification_head():
    config = transformers.DistilBertConfig(
        vocab_size=50, dim=16, hidden_dim=28, n_heads=4, n_layers=1
    )
    theirs = randomised(
        transformers.DistilBertForSequenceClassification(config)
    )
    head = kbert.layers.ClassificationHead(
        2,
        dense_size=16,
        dense_activation="relu",
        has_input_dropout=False,
        name="classifier",
    )
    head.build((None, 16))
    copy_head(
        head.weights,
        theirs,
        {
            "classifier/dense": "pre_classifier",
            "classifier/logits": "classifier",
        },
    )
    ids = torch.randint(0, 50, (4, 9), generator=torch.Generator())
    with torch.no_grad():
        states = theirs.distilbert(ids).last_hidden_state
        expected = theirs(ids).logits
    assert_equal(head(states[:, 0].numpy()), expected)
