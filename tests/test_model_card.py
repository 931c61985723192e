"""The README.md that save_pretrained writes."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest

import kbert

sys.path.append(str(Path(__file__).parent / "golden"))

from family_models import FOLDER, cases, load  # noqa: E402

# transformers' suffix of the class name → the hub's pipeline tag.
PIPELINES = {
    "Model": "feature-extraction",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForMaskedLM": "fill-mask",
    "ForPreTraining": "fill-mask",
}
CONFIG = kbert.EncoderConfig(
    vocab_size=1200,
    hidden_size=8,
    num_layers=3,
    num_heads=2,
    intermediate_size=12,
    max_positions=10,
)


def python_blocks(text):
    return re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)


@pytest.mark.parametrize(("name", "head"), cases())
def test_card_of_every_family_and_head(name, head, tmp_path):
    model, _ = load(name, head, FOLDER / f"{name}-{head}")
    kbert.save_pretrained(model, tmp_path)
    card = huggingface_hub.ModelCard.load(tmp_path / "README.md")
    data = card.data.to_dict()
    family = kbert.encoder_config(model).family
    assert data["library_name"] == "transformers"
    tag = PIPELINES[head]
    if family == "electra" and head == "ForPreTraining":
        tag = "feature-extraction"  # the hub has no task of its kind
    assert data["pipeline_tag"] == tag
    method = tag.replace("-", "_")  # a task that the hub knows
    assert hasattr(huggingface_hub.InferenceClient, method)
    assert data["tags"] == ["kbert", "keras", family]
    assert set(data) == {"library_name", "pipeline_tag", "tags"}
    # kbert's way of loading it, run as it stands there.
    with_kbert, with_transformers = python_blocks(card.text)
    scope = {"source": str(tmp_path)}
    exec(with_kbert, scope)
    loaded = scope["model"]
    assert [v.path for v in loaded.weights] == [v.path for v in model.weights]
    assert f"{head}.from_pretrained(source)" in with_transformers
    # Heads of the author's own, which say that they are not filled in.
    for heading in ("Training data", "Evaluation", "Limits"):
        assert f"## {heading}\n\nNot filled in yet: " in card.text


def test_sizes(tmp_path):
    encoder = kbert.build_encoder(CONFIG)
    kbert.save_pretrained(encoder, tmp_path)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    embedding = (1200 + 10 + 2 + 2) * 8
    block = 4 * (8 * 8 + 8) + (8 * 12 + 12) + (12 * 8 + 8) + 4 * 8
    count = embedding + 3 * block + (8 * 8 + 8)
    rows = dict(re.findall(r"^\| (.+) \| (.+) \|$", text, re.M))
    assert rows == {
        "layers": "3",
        "hidden size": "8",
        "attention heads": "2",
        "vocabulary": "1,200",
        "longest sequence": "10 tokens",
        "parameters": f"{count:,}",
    }


def test_layers_that_share_weights(tmp_path):
    config = replace(
        CONFIG,
        num_layers=6,
        shared_layers=True,
        num_layer_groups=2,
        embedding_size=4,
        family="albert",
    )
    kbert.save_pretrained(kbert.build_encoder(config), tmp_path)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "| layers | 6, with the weights of 2 |" in text


LABELS = ["neg`ative", "`` ``", "<b>*bold*</b>", "a\n# heading\n---\nb", "é|"]


@pytest.mark.parametrize(
    "build", [kbert.build_classifier, kbert.build_token_classifier]
)
def test_label_names(build, tmp_path):
    model = build(kbert.build_encoder(CONFIG), 5, label_names=LABELS)
    kbert.save_pretrained(model, tmp_path)
    card = huggingface_hub.ModelCard.load(tmp_path / "README.md")
    labels = card.text.split("## Labels\n\n")[1].split("\n\n")[0].split("\n")
    assert labels == [
        "- 0: `` neg`ative ``",
        "- 1: ``` `` `` ```",
        "- 2: ` <b>*bold*</b> `",
        "- 3: ` a # heading --- b `",
        "- 4: ` é| `",
    ]
    assert card.data.pipeline_tag in PIPELINES.values()


def test_no_labels_where_they_have_no_names(tmp_path):
    model = kbert.build_classifier(kbert.build_encoder(CONFIG), 2)
    kbert.save_pretrained(model, tmp_path)
    assert "Labels" not in (tmp_path / "README.md").read_text()


def test_the_authors_page_stays(tmp_path):
    encoder = kbert.build_encoder(CONFIG)
    for text in ("mine", ""):
        (tmp_path / "README.md").write_text(text)
        kbert.save_pretrained(encoder, tmp_path)
        assert (tmp_path / "README.md").read_text() == text
    # Not even through a link that leads nowhere.
    (tmp_path / "README.md").unlink()
    (tmp_path / "README.md").symlink_to(tmp_path / "elsewhere.md")
    kbert.save_pretrained(encoder, tmp_path)
    assert not (tmp_path / "elsewhere.md").exists()


def test_card_changes_nothing_else(tmp_path):
    model = kbert.build_encoder(CONFIG)
    kbert.save_pretrained(model, tmp_path)
    again = kbert.load_encoder(tmp_path)
    for ours, theirs in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(np.array(ours), np.array(theirs))
