"""Runs the code of README, docs and docstrings as it stands there.

The hub cannot be reached from a test, so its cache is: the id that the pages
name leads, through huggingface_hub's own lookup, to a tiny model.
"""

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import keras
import pytest

import kbert

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# What a page needs of an extra that the tests do not.
EXTRAS = {"search.md": "ir_measures"}
MODULES = sorted(
    module.name for module in pkgutil.walk_packages(kbert.__path__, "kbert.")
)


def python_blocks(page):
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)


@pytest.fixture(scope="module")
def hub_cache(tmp_path_factory, tiny_config, tiny_tokenizer):
    """A huggingface_hub cache that holds google-bert/bert-base-uncased."""
    home = tmp_path_factory.mktemp("hub_home")
    repository = home / "hub" / "models--google-bert--bert-base-uncased"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0" * 40)
    # As many positions as the pages ask for.
    config = kbert.EncoderConfig(
        vocab_size=tiny_config.vocab_size,
        hidden_size=16,
        num_layers=2,
        num_heads=2,
        intermediate_size=32,
    )
    tokenizer = kbert.Tokenizer(tiny_tokenizer.backend, max_length=512)
    kbert.save_pretrained(
        kbert.build_pretrainer(kbert.build_encoder(config)),
        repository / "snapshots" / ("0" * 40),
        tokenizer=tokenizer,
    )
    return home


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_of_a_page(page, hub_cache, tmp_path):
    blocks = python_blocks(page)
    if not blocks:
        pytest.skip("no Python on this page")
    if page.name in EXTRAS:
        pytest.importorskip(EXTRAS[page.name])
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env={**os.environ, "HF_HOME": str(hub_cache), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="shapes print otherwise"
)
@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(
        importlib.import_module(name),
        optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE,
    )
    assert result.failed == 0


PUBLIC = [
    pytest.param(getattr(owner, name), id=name)
    for owner in (kbert, kbert.layers, kbert.losses, kbert.metrics, kbert.data)
    + (kbert.pipelines, kbert.plots)
    for name in owner.__all__
    if callable(getattr(owner, name))
]


@pytest.mark.parametrize("thing", PUBLIC)
def test_public_docstrings_have_an_example_that_runs(thing):
    text = thing.__doc__
    assert ">>> " in text
    assert "Args:" in text
