"""The confusion matrix of a classifier."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kbert.data.texts import as_list, short_repr
from kbert.plots.figures import label_cells, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NORMALIZE = (None, "true", "predicted", "all")


def confusion(
    true: Sequence[Any] | np.ndarray,
    predicted: Sequence[Any] | np.ndarray,
    label_names: Sequence[str] | None = None,
    normalize: str | None = None,
) -> "Figure":
    """Draw how often each class was taken for which.

    A row for each true class, a column for each predicted one. A cell with no
    number has no texts.

    Args:
        true: N labels, whole numbers or names.
        predicted: likewise, in the same form.
        label_names: names of the classes in order, which numbers count from
            0; None for the labels that occur, sorted.
        normalize: None for counts; for percent of the texts "true" of the
            same true class (rows sum to 100), "predicted" of the same
            predicted class (columns do) or "all". A class without texts has 0.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ImportError: if matplotlib is not installed.
        TypeError: if labels are neither all whole numbers nor all strings.
        ValueError: if there are no labels or not as many of one as of the
            other, a label is none of `label_names`, or `normalize` is another.

    Example:
        >>> from kbert import plots
        >>> figure = plots.confusion([0, 1, 1], [0, 1, 0], ["no", "yes"])
        >>> figure.axes[0].images[0].get_array().tolist()
        [[1, 0], [1, 1]]
    """
    if normalize not in _NORMALIZE:
        raise ValueError(
            f"`normalize` must be one of {_NORMALIZE}. Received: "
            f"normalize={normalize!r}"
        )
    counts, names = _count(true, predicted, label_names)
    shown = counts
    if normalize is not None:
        axis = {"true": 1, "predicted": 0, "all": None}[normalize]
        totals = counts.sum(axis=axis, keepdims=True)
        shown = 100.0 * counts / np.maximum(totals, 1)
    side = min(max(0.45 * len(names), 2.5), 14.0)
    figure = new_figure(side + 2.2, side + 1.4)
    axes = figure.add_subplot()
    is_share = normalize in ("true", "predicted")  # of a class, up to all
    highest = 100.0 if is_share else float(shown.max())
    image = axes.imshow(shown, cmap="Blues", vmin=0.0, vmax=highest)
    label_cells(axes, names, names, side)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    label = {None: "texts", "all": "% of all texts"}.get(
        normalize, f"% of the {normalize} class"
    )
    figure.colorbar(image, ax=axes, shrink=0.8, label=label)
    _write_numbers(axes, shown, highest, 72.0 * side / len(names))
    return figure


def _write_numbers(
    axes: Any, shown: np.ndarray, highest: float, cell: float
) -> None:
    """Write a number in each cell but empty ones; a cell is so many points."""
    digits = len(f"{shown.max():.0f}")
    size = min(10.0, cell / (0.7 * digits + 0.4))
    for row, column in np.argwhere(shown):
        value = shown[row, column]
        axes.text(
            column,
            row,
            f"{value:.0f}",
            color="white" if value > 0.55 * highest else "#222",
            ha="center",
            va="center",
            fontsize=size,
        )


def _count(
    true: Any, predicted: Any, label_names: Sequence[str] | None
) -> tuple[np.ndarray, list[str]]:
    """Counts, int64 (C, C), and names of the C classes."""
    rows, columns = as_list(true, "true"), as_list(predicted, "predicted")
    if not rows or len(rows) != len(columns):
        raise ValueError(
            "Expected as many predictions as true labels, and at least one. "
            f"Received: {len(rows)} true, {len(columns)} predicted"
        )
    labels = rows + columns
    are_names = all(isinstance(x, str) for x in labels)
    if not are_names and not all(
        isinstance(x, (int, np.integer)) for x in labels
    ):
        raise TypeError(
            "Labels must be all whole numbers or all strings. Received: "
            f"true={short_repr(rows)}, predicted={short_repr(columns)}"
        )
    if label_names is None:
        classes = sorted(set(labels))
        names = [str(label) for label in classes]
    else:
        names = list(label_names)
        classes = names if are_names else list(range(len(names)))
        if isinstance(label_names, str) or len(set(names)) < len(names):
            raise ValueError(
                "`label_names` must be different names. Received: "
                f"label_names={short_repr(label_names)}"
            )
    numbers = {label: number for number, label in enumerate(classes)}
    unknown = sorted(set(labels) - set(numbers))
    if unknown:
        raise ValueError(
            f"Some labels are none of the {len(names)} of `label_names`. "
            f"Received: {short_repr(unknown)}"
        )
    counts = np.zeros((len(classes), len(classes)), "int64")
    np.add.at(
        counts, ([numbers[x] for x in rows], [numbers[x] for x in columns]), 1
    )
    return counts, names
