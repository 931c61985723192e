"""Every family and head: transformers → kbert → transformers, live."""

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install keras-kbert[parity]")
pytest.importorskip("transformers", reason="pip install keras-kbert[parity]")

import kbert  # noqa: E402

sys.path.append(str(Path(__file__).parents[1] / "golden"))

from family_losses import make_labels, our_loss, their_loss  # noqa: E402
from family_models import (  # noqa: E402
    MODELS,
    cases,
    largest_difference,
    load,
    make_inputs,
    make_model,
    our_outputs,
    their_outputs,
)


def check_loss(ours, theirs, head, inputs):
    if head == "ForQuestionAnswering":
        # transformers' loss reads logits at padding, which mean nothing.
        mask = inputs["padding_mask"]
        inputs = inputs | {
            "token_ids": np.where(mask, inputs["token_ids"], 7),
            "padding_mask": np.ones_like(mask),
        }
    labels, y, weights = make_labels(head, inputs)
    loss = our_loss(our_outputs(ours, inputs), y, weights)
    expected = their_loss(theirs, inputs, labels)
    assert loss == pytest.approx(expected, abs=1e-5)
    theirs.config.problem_type = None  # which it has just guessed


@pytest.mark.parametrize(("name", "head"), cases())
def test_there_and_back(name, head, tmp_path):
    theirs = make_model(name, head, seed=1)
    inputs = make_inputs(theirs)
    mask = inputs["padding_mask"]
    expected = their_outputs(theirs, inputs)
    theirs.save_pretrained(tmp_path / "theirs")
    ours, report = load(name, head, tmp_path / "theirs")
    assert report.unused == report.missing == report.ignored_config_keys == ()
    outputs = our_outputs(ours, inputs)
    assert largest_difference(outputs, expected, mask) < 1e-5
    # The discriminator's loss: test_replaced_token_parity.py.
    if head != "Model" and (head != "ForPreTraining" or "mlm" in expected):
        check_loss(ours, theirs, head, inputs)

    kbert.save_pretrained(ours, tmp_path / "ours")
    again, info = type(theirs).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not info["missing_keys"] and not info["unexpected_keys"]
    result = their_outputs(again.eval(), inputs)
    assert largest_difference(result, expected, mask) < 1e-6
    before, after = (m.config.to_dict() for m in (theirs, again))
    ignored = ["_name_or_path", "position_embedding_type"]
    # A dropout of its own that is the encoder's need not be said, and a model
    # without that head does not keep it.
    ignored.append("classifier_dropout")
    if head != "ForSequenceClassification":
        ignored += ["classifier_dropout_prob", "seq_classif_dropout"]
        ignored += ["classifier_pooling", "cls_dropout"]
    for config in (before, after):
        for key in ignored:
            config.pop(key, None)
    assert after == before


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("mpnet", {"max_position_embeddings": 302}),
        ("modernbert", {"max_position_embeddings": 300}),
        ("deberta_v3", {"max_position_embeddings": 300}),
        (
            "deberta_v3",
            {"max_position_embeddings": 300, "position_buckets": 16},
        ),
    ],
)
def test_long_inputs(name, changes, tmp_path):
    """Distances past the last bucket, and attention by blocks."""
    theirs = make_model(name, "Model", **changes)
    rng = np.random.default_rng(0)
    mask = (np.arange(300) < np.array([300, 170])[:, None]).astype("int32")
    ids = np.where(mask, rng.integers(5, 50, mask.shape), 1).astype("int32")
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": mask}
    theirs.save_pretrained(tmp_path)
    ours = kbert.load_encoder(tmp_path)
    expected = their_outputs(theirs, inputs)
    called = our_outputs(ours, inputs)
    assert largest_difference(called, expected, mask) < 1e-5
    # A traced function that does not know the length.
    given = {key: inputs[key] for key in ours.input}
    predicted = ours.predict(given, verbose=0)
    assert largest_difference(predicted, expected, mask) < 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_a_head_that_is_absent_is_an_error_or_fresh(name, tmp_path):
    make_model(name, "Model").save_pretrained(tmp_path)
    for loader in (
        kbert.load_classifier,
        kbert.load_token_classifier,
        kbert.load_span_model,
        kbert.load_masked_lm,
        kbert.load_pretrainer,
        kbert.load_replaced_token_detector,
    ):
        with pytest.raises(ValueError, match=r"(?s)has no .* head.*Received"):
            loader(tmp_path)
    model, report = kbert.load_classifier(
        tmp_path, fresh_head=True, num_classes=3, report=True
    )
    fresh = {path.split("/")[0] for path in report.missing}
    assert "classifier" in fresh and fresh <= {
        "classifier",
        "pooler",
        "transform",
    }
    kbert.save_pretrained(model, tmp_path / "out")
    again = kbert.load_classifier(tmp_path / "out")
    assert len(again.weights) == len(model.weights)


@pytest.mark.parametrize("legacy", [True, False])
def test_both_names_of_debertas_masked_language_head(legacy, tmp_path):
    """Microsoft's files say `lm_predictions`, and keep another head too."""
    theirs = make_model("deberta_v3", "ForMaskedLM", legacy=legacy)
    inputs = make_inputs(theirs)
    expected = their_outputs(theirs, inputs)
    state = dict(theirs.state_dict())
    state["mask_predictions.dense.weight"] = torch.ones(8, 8)
    theirs.save_pretrained(tmp_path, state_dict=state)
    ours, report = kbert.load_masked_lm(
        tmp_path, all_positions=True, report=True
    )
    assert report.unused == ()
    ours = our_outputs(ours, inputs)
    assert largest_difference(ours, expected, inputs["padding_mask"]) < 1e-5


@pytest.mark.parametrize("num_buckets, max_distance", [(32, 128), (8, 64)])
def test_every_bucket_of_mpnet(num_buckets, max_distance):
    from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

    from kbert.layers.relative import bias_bucket

    distances = torch.arange(-max_distance - 50, max_distance + 51)
    theirs = MPNetEncoder.relative_position_bucket(
        -distances, num_buckets=num_buckets, max_distance=max_distance
    )
    ours = [bias_bucket(int(d), num_buckets, max_distance) for d in distances]
    assert ours == theirs.tolist()


@pytest.mark.parametrize(
    "num_buckets, max_distance", [(256, 512), (8, 64), (256, 1024), (4, 20)]
)
def test_every_bucket_of_deberta(num_buckets, max_distance):
    from transformers.models.deberta_v2 import modeling_deberta_v2

    from kbert.layers.relative import disentangled_bucket

    distances = torch.arange(-max_distance - 50, max_distance + 51)
    theirs = modeling_deberta_v2.make_log_bucket_position(
        distances, num_buckets, max_distance
    )
    theirs = (theirs.long() + num_buckets).clamp(0, 2 * num_buckets - 1)
    ours = [
        disentangled_bucket(int(d), num_buckets, max_distance)
        for d in distances
    ]
    assert ours == theirs.tolist()


def test_an_untied_decoder_is_refused(tmp_path):
    theirs = make_model("bert", "ForMaskedLM", tie_word_embeddings=False)
    theirs.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"ties .* differs from .*Received"):
        kbert.load_masked_lm(tmp_path)
