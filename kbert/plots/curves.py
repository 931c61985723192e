"""Training curves."""

import csv
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras

from kbert.data.texts import short_repr
from kbert.plots.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = 3


def history(
    history: keras.callbacks.History
    | Mapping[str, Sequence[float]]
    | str
    | os.PathLike,
) -> "Figure":
    """Draw the loss and every metric by epoch, each in a panel of its own.

    A metric and the one of the validation data, `val_…`, share a panel.

    Args:
        history: what `fit` returns, its dict `history`, or the file of a
            `keras.callbacks.CSVLogger`. The file alone tells in which epochs
            there was a validation, if not in all.

    Returns:
        A matplotlib `Figure`; epochs count from 1.

    Raises:
        ImportError: if matplotlib is not installed.
        TypeError: if `history` is none of these.
        ValueError: if there is no epoch, a metric has not one number an
            epoch, or the file is no log of a `CSVLogger`.

    Example:
        >>> from kbert import plots
        >>> figure = plots.history({"loss": [0.9, 0.5], "val_loss": [0.8, 0.6],
        ...                         "accuracy": [0.6, 0.8]})
        >>> [axes.get_title() for axes in figure.axes]
        ['loss', 'accuracy']
    """
    epochs, values = _read(history)
    names = _panels(values)
    columns = min(len(names), _COLUMNS)
    rows = -(-len(names) // columns)
    figure = new_figure(4.2 * columns, 3.2 * rows)
    from matplotlib.ticker import MaxNLocator

    for place, name in enumerate(names, 1):
        axes = figure.add_subplot(rows, columns, place)
        for key, label, style in (
            (name, "training", "-"),
            ("val_" + name, "validation", "--"),
        ):
            if key in values:
                axes.plot(
                    *_known(epochs, values[key]),
                    style,
                    marker="o" if len(epochs) <= 30 else None,
                    markersize=4,
                    label=label,
                )
        axes.set_title(name, fontsize=10, parse_math=False)
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.grid(alpha=0.3)
        room = min(0.5, 0.03 * (epochs[-1] - epochs[0])) or 0.5
        axes.set_xlim(epochs[0] - room, epochs[-1] + room)
        if "val_" + name in values:
            axes.legend(fontsize=8)
    return figure


def _read(history: Any) -> tuple[list[int], dict[str, list[float]]]:
    """Numbers of the epochs, and each metric's values in them."""
    if isinstance(history, (str, os.PathLike)):
        return _read_log(history)
    epochs = None
    values: Any = history
    if isinstance(history, keras.callbacks.History):
        epochs, values = [epoch + 1 for epoch in history.epoch], history.history
    if not isinstance(values, Mapping):
        raise TypeError(
            "`history` must be what `fit` returns, a dict of lists or the "
            f"path of a CSVLogger's file. Received: history={history!r}"
        )
    values = {key: [float(x) for x in row] for key, row in values.items()}
    lengths = {key: len(row) for key, row in values.items()}
    count = max(lengths.values(), default=0) if epochs is None else len(epochs)
    if not count or set(lengths.values()) != {count}:
        raise ValueError(
            "Expected one number an epoch for each metric. A metric that has "
            "fewer, as with `validation_freq`, does not tell of which epochs "
            "they are; the file of a CSVLogger does. Received: numbers of "
            f"values {lengths}, {count} epochs"
        )
    return epochs or list(range(1, count + 1)), values


def _read_log(
    path: str | os.PathLike,
) -> tuple[list[int], dict[str, list[float]]]:
    with open(path, encoding="utf-8", newline="") as file:
        start = file.readline()
        file.seek(0)
        separator = "epoch"
        if start.startswith(separator) and len(start.strip()) > len(separator):
            rows = list(csv.DictReader(file, delimiter=start[len(separator)]))
        else:
            rows = []
    if not rows:
        raise ValueError(
            "Expected the file of a CSVLogger: a line of names that starts "
            "with `epoch`, then a line an epoch. Received: "
            f"{os.fspath(path)!r}, its first line {short_repr(start)}"
        )
    names = [name for name in rows[0] if name != "epoch"]
    try:
        epochs = [int(row["epoch"]) + 1 for row in rows]
        values = {
            # "NA": no validation in that epoch.
            name: [
                float("nan") if row[name] == "NA" else float(row[name])
                for row in rows
            ]
            for name in names
        }
    except (TypeError, ValueError) as error:
        raise ValueError(
            "Expected a number in every field of a CSVLogger's file. "
            f"Received: {os.fspath(path)!r}, {error}"
        ) from error
    return epochs, values


def _panels(values: Mapping[str, Any]) -> list[str]:
    """The metrics without those of the validation, the loss first."""
    names = dict.fromkeys(name.removeprefix("val_") for name in values)
    return sorted(names, key=lambda name: name != "loss")


def _known(
    epochs: Sequence[int], values: Sequence[float]
) -> tuple[list[int], list[float]]:
    """The points there are, so that a line goes on over those that miss."""
    pairs = [(x, y) for x, y in zip(epochs, values, strict=True) if y == y]
    return [x for x, _ in pairs], [y for _, y in pairs]
