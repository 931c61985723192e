"""Every family and head: transformers → kbert → transformers, live."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="pip install keras-kbert[parity]")
pytest.importorskip("transformers", reason="pip install keras-kbert[parity]")

import kbert  # noqa: E402

sys.path.append(str(Path(__file__).parents[1] / "golden"))

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

pytestmark = pytest.mark.filterwarnings(
    # Keras' own `Variable.__array__` lags behind numpy 2 on PyTorch.
    "ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"
)


@pytest.mark.parametrize(("name", "head"), cases())
def test_there_and_back(name, head, tmp_path):
    theirs = make_model(name, head, seed=1)
    inputs = make_inputs(theirs)
    mask = inputs["padding_mask"]
    expected = their_outputs(theirs, inputs)
    theirs.save_pretrained(tmp_path / "theirs")
    ours, report = load(name, head, tmp_path / "theirs")
    assert report.unused == report.missing == report.ignored_config_keys == ()
    assert largest_difference(our_outputs(ours, inputs), expected, mask) < 1e-5

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
    for config in (before, after):
        for key in ignored:
            config.pop(key, None)
    assert after == before


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
    assert "classifier" in fresh and fresh <= {"classifier", "pooler"}
    kbert.save_pretrained(model, tmp_path / "out")
    again = kbert.load_classifier(tmp_path / "out")
    assert len(again.weights) == len(model.weights)


def test_an_untied_decoder_is_refused(tmp_path):
    theirs = make_model("bert", "ForMaskedLM", tie_word_embeddings=False)
    theirs.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"ties .* differs from .*Received"):
        kbert.load_masked_lm(tmp_path)
