"""Holds the imports of the package against the table of its layers.

The table is DESIGN's, restated: a module imports only from rows above its
own. Change it here and in docs/decisions.md in the same commit.
"""

import ast
import sys
from pathlib import Path

import pytest

import kbert

PACKAGE = Path(kbert.__file__).parent
STANDARD = "<standard library>"

# module or package -> what it may import: parts of kbert, and others.
MAY_IMPORT = {
    "version": (set(), set()),
    "config": (set(), set()),
    "families": ({"config"}, set()),
    "hub": (set(), {"huggingface_hub"}),
    "layers": ({"layers"}, {"keras"}),
    "losses": ({"losses"}, {"keras", "tensorflow"}),
    "metrics": ({"metrics", "losses"}, {"keras"}),
    "optimizers": (set(), {"keras", "tensorflow"}),
    "data": (
        {"data", "hub"},
        {"numpy", "tokenizers", "tensorflow", "sentencepiece", "google"}
        | {"tqdm"},
    ),
    "distribution": (set(), {"keras", "tensorflow"}),
    "models": (
        {"models", "config", "families", "layers", "losses"},
        {"keras"},
    ),
    "checkpoints": (
        {"checkpoints", "config", "hub"},
        {"keras", "ml_dtypes", "numpy", "safetensors", "tensorflow"},
    ),
    "pretrained": (
        {"models", "layers", "checkpoints", "config"},
        {"keras"},
    ),
    "model_card": ({"models", "config"}, {"keras"}),
    "saving": (
        {"models", "layers", "checkpoints", "config", "families", "data"}
        | {"model_card"},
        {"keras", "numpy", "safetensors"},
    ),
    "tf_saving": ({"models", "checkpoints", "data", "saving"}, {"keras"}),
    "kerashub": (
        {"models", "checkpoints", "config"},
        {"keras", "keras_hub", "numpy"},
    ),
    "pipelines": (
        {"pipelines", "models", "layers", "checkpoints", "config", "data"}
        | {"saving"},
        {"keras", "numpy", "tokenizers"},
    ),
}
# Importing these takes seconds or half a second, so modules reach for them
# only where they are used; `import kbert` stays quick.
LAZY = {
    "tensorflow",
    "huggingface_hub",
    "keras_hub",
    "matplotlib",
    "sentencepiece",
    "google",
}


def modules():
    return sorted(
        path
        for path in PACKAGE.rglob("*.py")
        if path != PACKAGE / "__init__.py"
    )


def part_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_names(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if node.module == "kbert":
                for alias in node.names:
                    yield f"kbert.{alias.name}", node
            else:
                yield node.module, node


@pytest.mark.parametrize("path", modules(), ids=lambda p: p.stem)
def test_imports_follow_the_table(path):
    part = part_of(path)
    assert part in MAY_IMPORT, f"no row for {part}"
    ours, others = MAY_IMPORT[part]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top_level = {id(node) for node in tree.body}
    for name, node in imported_names(tree):
        root = name.split(".")[0]
        if root == "kbert":
            assert name.split(".")[1] in ours, f"{path}: {name}"
        elif root not in sys.stdlib_module_names:
            assert root in others, f"{path}: {name}"
        if root in LAZY:
            assert id(node) not in top_level, f"{path}: {name} at the top"


def test_no_cycle_among_modules():
    edges = {}
    for path in modules():
        name = ".".join(
            ("kbert", *path.relative_to(PACKAGE).with_suffix("").parts)
        ).removesuffix(".__init__")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        edges[name] = {
            imported
            for imported, _ in imported_names(tree)
            if imported.startswith("kbert.")
        }
    done, open_now = set(), []

    def visit(name):
        assert name not in open_now, f"cycle: {open_now} -> {name}"
        if name in done or name not in edges:
            return
        open_now.append(name)
        for imported in edges[name]:
            visit(imported)
        open_now.pop()
        done.add(name)

    for name in edges:
        visit(name)


def test_public_names_exist_and_are_sorted():
    assert sorted(kbert.__all__) == list(kbert.__all__)
    for name in kbert.__all__:
        assert hasattr(kbert, name)
