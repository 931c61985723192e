"""Vectors of texts in two dimensions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kbert.data.texts import as_list, short_repr
from kbert.plots.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METHODS = ("pca", "tsne")
# Labels with a colour of their own; there are ten colours, and two markers.
_MOST_LABELS = 20
_MARKERS = "o^"


def embeddings(
    vectors: np.ndarray,
    labels: Sequence[Any] | np.ndarray | None = None,
    method: str = "pca",
    *,
    seed: int = 0,
) -> "Figure":
    """Draw vectors of texts as points, those that are alike near each other.

    Args:
        vectors: float (N, D), N at least 2, such as `pipelines.Embedder`
            returns.
        labels: N labels, strings or whole numbers, at most 20 different ones:
            a colour and an entry of the legend each. None for one colour.
        method: how to get two numbers of D:

            - "pca": the two directions in which the vectors differ most. The
              axes tell what share of the variance they show; far points are
              far apart, but near ones may differ in what is not shown.
            - "tsne": keeps neighbours together; distances between groups and
              their sizes mean nothing. Needs scikit-learn.
        seed: of "tsne"; the same one gives the same picture.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ImportError: if matplotlib, or what `method` needs, is not installed.
        TypeError: if labels are neither all whole numbers nor all strings.
        ValueError: if the vectors' shape is another or a number is not
            finite, there is not one label for each, there are too many
            different ones, or `method` is unknown.

    Example:
        >>> import numpy as np
        >>> from kbert import plots
        >>> vectors = np.array([[1.0, 0, 0], [-1, 0, 0], [0, 0.5, 0]])
        >>> figure = plots.embeddings(vectors, ["a", "a", "b"])
        >>> figure.axes[0].get_xlabel()
        'first component: 92 % of the variance'

    References:
        van der Maaten & Hinton, 2008,
        https://jmlr.org/papers/v9/vandermaaten08a.html
    """
    x = np.asarray(vectors)
    if x.ndim != 2 or len(x) < 2 or not x.shape[1] or x.dtype.kind in "OSUV":
        raise ValueError(
            "Expected two or more vectors (N, D). Received: "
            f"{x.dtype} {x.shape}"
        )
    x = x.astype("float64")
    if not np.isfinite(x).all():
        raise ValueError(
            "Expected vectors of finite numbers. Received: "
            f"{np.count_nonzero(~np.isfinite(x).all(1))} with others"
        )
    if method not in _METHODS:
        raise ValueError(
            f"`method` must be one of {_METHODS}. Received: method={method!r}"
        )
    groups = _groups(labels, len(x))
    figure = new_figure(6.4 if len(groups) < 2 else 8.0, 6.0)
    axes = figure.add_subplot()
    if method == "pca":
        points, shares = _pca(x)
        for axis, name, share in (
            (axes.xaxis, "first", shares[0]),
            (axes.yaxis, "second", shares[1]),
        ):
            axis.set_label_text(
                f"{name} component: {100 * share:.0f} % of the variance"
            )
        axes.set_aspect("equal", adjustable="datalim")
    else:
        points = _tsne(x, seed)
        axes.set_xticks([])
        axes.set_yticks([])
    size = float(np.clip(4000 / len(x), 6, 40))
    for number, (name, rows) in enumerate(groups.items()):
        axes.scatter(
            *points[rows].T,
            s=size,
            color=f"C{number % 10}",
            marker=_MARKERS[number // 10],
            alpha=0.8,
            linewidths=0,
            label=name,
        )
    if labels is not None:
        legend = figure.legend(loc="outside right upper", fontsize=8)
        for text in legend.get_texts():
            text.set_parse_math(False)
    return figure


def _pca(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points (N, 2) on the main axes, and shares of the variance (2,)."""
    centred = x - x.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    # A direction and its opposite are one: as in scikit-learn, the largest
    # component of each is positive.
    rows = np.abs(left).argmax(axis=0)
    left = left * np.sign(left[rows, np.arange(left.shape[1])])
    points, shares = np.zeros((len(x), 2)), np.zeros(2)
    count = min(2, len(sizes))
    points[:, :count] = left[:, :count] * sizes[:count]
    total = (sizes**2).sum()
    if total > 0:
        shares[:count] = sizes[:count] ** 2 / total
    return points, shares


def _tsne(x: np.ndarray, seed: int) -> np.ndarray:
    """Points (N, 2)."""
    try:
        from sklearn.manifold import TSNE
    except ImportError as error:
        raise ImportError(
            'method="tsne" needs scikit-learn: pip install scikit-learn. '
            f"Received: {error}"
        ) from error
    # About so many neighbours, which must be fewer than the others are.
    perplexity = min(30.0, (len(x) - 1) / 3)
    model = TSNE(perplexity=perplexity, init="random", random_state=seed)
    return model.fit_transform(x.astype("float32"))


def _groups(labels: Any, count: int) -> dict[str | None, np.ndarray]:
    """Name → which vectors have it, in the order of the labels."""
    if labels is None:
        return {None: np.arange(count)}
    items = as_list(labels, "labels")
    if len(items) != count:
        raise ValueError(
            f"Expected a label for each of {count} vectors. Received: "
            f"{len(items)} labels"
        )
    are_names = all(isinstance(x, str) for x in items)
    if not are_names and not all(
        isinstance(x, (int, np.integer)) for x in items
    ):
        raise TypeError(
            "Labels must be all whole numbers or all strings. Received: "
            f"labels={short_repr(items)}"
        )
    found: dict[Any, list[int]] = {}
    for row, label in enumerate(items):
        found.setdefault(label, []).append(row)
    if len(found) > _MOST_LABELS:
        raise ValueError(
            f"Colours tell at most {_MOST_LABELS} labels apart. Received: "
            f"{len(found)} different labels"
        )
    return {str(label): np.array(found[label]) for label in sorted(found)}
