"""The README.md of a saved model: what is known, and headings for the rest."""

from pathlib import Path
from typing import NamedTuple

import keras

from kbert.config import EncoderConfig
from kbert.models import encoder_config


class _Task(NamedTuple):
    """What a card says of a task: the hub's tag, words, kbert's loader."""

    pipeline_tag: str
    words: str
    loader: str


# The name of the head, "pretrainer", or "" for none → its task. The tags are
# those of https://huggingface.co/tasks
_TASKS = {
    "": _Task("feature-extraction", "encodes text", "load_encoder"),
    "classifier": _Task(
        "text-classification", "classifies texts", "load_classifier"
    ),
    "token_classifier": _Task(
        "token-classification", "classifies tokens", "load_token_classifier"
    ),
    "span": _Task(
        "question-answering", "finds answers in a text", "load_span_model"
    ),
    "mlm": _Task("fill-mask", "predicts masked words", "load_masked_lm"),
    "pretrainer": _Task(
        "fill-mask",
        "predicts masked words and how two sentences follow each other",
        "load_pretrainer",
    ),
    "sentence": _Task(
        "sentence-similarity",
        "makes vectors of texts",
        "load_sentence_encoder",
    ),
    "replaced_token": _Task(
        "feature-extraction",
        "tells replaced tokens from original ones",
        "load_replaced_token_detector",
    ),
}

_UNFILLED = {
    "Training data": "what text and labels the model saw, and their licences",
    "Evaluation": "on which data it was measured, how, and with what result",
    "Limits": "what it should not be used for, and where it is known to fail",
}


def write_model_card(
    directory: Path, model: keras.Model, task: str, architecture: str
) -> None:
    """Write README.md, unless there is one.

    Args:
        directory: of the saved model.
        model: a model of kbert's builders.
        task: name of its head, "pretrainer", "sentence", or "" for none.
        architecture: transformers' class name.
    """
    text = model_card(model, task, architecture)
    try:
        with open(directory / "README.md", "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        pass  # the author has one


def model_card(model: keras.Model, task: str, architecture: str) -> str:
    """Return the text of a model card.

    Args:
        model: a model of kbert's builders.
        task: name of its head, "pretrainer", "sentence", or "" for none.
        architecture: transformers' class name.

    Returns:
        Markdown with a YAML head, as the Hugging Face hub reads it.

    References:
        https://huggingface.co/docs/hub/model-cards
    """
    config = encoder_config(model)
    pipeline_tag, words, loader = _TASKS[task]
    library, other = "transformers", f"{architecture}.from_pretrained"
    if task == "sentence":
        library, other = "sentence-transformers", "SentenceTransformer"
    parts = [
        # The files are in transformers' layout: "keras" would make the hub
        # offer `keras.saving.load_model`, which reads other ones.
        "---",
        f"library_name: {library}",
        f"pipeline_tag: {pipeline_tag}",
        "tags:",
        *(f"- {tag}" for tag in ("kbert", "keras", config.family)),
        "---",
        "",
        f"# {architecture}",
        "",
        f"A model of the family {config.family} that {words}. This page was "
        "written by kbert when the model was saved.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in _sizes(model, config)),
        *_labels(model),
        "",
        "## How to load it",
        "",
        "`source` is this directory or, once uploaded, the hub id.",
        "",
        "```python",
        "import kbert",
        "",
        f"model = kbert.{loader}(source)",
        "```",
        "",
        "```python",
        f"from {library.replace('-', '_')} import {other.split('.')[0]}",
        "",
        f"model = {other}(source)",
        "```",
    ]
    for heading, what in _UNFILLED.items():
        parts += ["", f"## {heading}", "", f"Not filled in yet: {what}."]
    return "\n".join(parts) + "\n"


def _sizes(model: keras.Model, config: EncoderConfig) -> list[tuple[str, str]]:
    """Rows of the table of sizes."""
    order = config.block_order()
    layers = str(len(order))
    if config.num_blocks < len(order):
        layers += f", with the weights of {config.num_blocks}"
    return [
        ("layers", layers),
        ("hidden size", str(config.hidden_size)),
        ("attention heads", str(config.num_heads)),
        ("vocabulary", f"{config.vocab_size:,}"),
        ("longest sequence", f"{config.max_positions:,} tokens"),
        ("parameters", f"{model.count_params():,}"),
    ]


def _labels(model: keras.Model) -> list[str]:
    """The list of label names, in code spans that no name can end."""
    names = [
        name
        for layer in model.layers
        for name in getattr(layer, "label_names", None) or ()
    ]
    if not names:
        return []
    lines = ["", "## Labels", ""]
    for index, name in enumerate(names):
        fence = "`"
        while fence in name:
            fence += "`"
        shown = " ".join(name.split())
        lines.append(f"- {index}: {fence} {shown} {fence}")
    return lines
