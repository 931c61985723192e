"""Pictures of attention."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import keras
import numpy as np
from tokenizers import models

from kbert.data.classification import report_truncated
from kbert.data.encoding import flatten
from kbert.data.texts import check_text
from kbert.data.tokenizer import Tokenizer
from kbert.models import attention_weights
from kbert.pipelines.pieces import piece_text
from kbert.pipelines.prediction import check_options
from kbert.plots.figures import label_cells, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Inches: of a token in a panel, of a panel, and of all panels in a row.
_TOKEN = 0.13
_SMALLEST, _LARGEST = 1.2, 12.0
_WIDEST = 30.0
# Of the scale of weights, whose lower half is for those under 1/4.
_TICKS = [0, 0.05, 0.2, 0.5, 1]


@dataclass(frozen=True)
class AttentionMaps:
    """Attention of one text, as `attention_maps` computes it.

    Args:
        tokens: S strings, special tokens included. "##ing" goes on with a
            word in a WordPiece vocabulary; in the others "▁the" begins one.
        weights: float32 (L, N, S, S); [l, n, i, j] is the share of token j in
            what head n of layer l gives token i.

    Example:
        >>> import numpy as np
        >>> from kbert import plots
        >>> weights = np.array([[[[0.9, 0.1], [0.5, 0.5]]]], "float32")
        >>> maps = plots.AttentionMaps(["[CLS]", "[SEP]"], weights)
        >>> maps.tokens[maps.weights[0, 0, 0].argmax()]
        '[CLS]'
    """

    tokens: list[str]
    weights: np.ndarray


def attention_maps(
    model: keras.Model,
    tokenizer: Tokenizer,
    text: str,
    pair: str | None = None,
    *,
    max_length: int | None = None,
) -> AttentionMaps:
    """Compute the attention weights of one text or pair.

    Args:
        model: an encoder or task model of kbert.
        tokenizer: the tokenizer it was trained with.
        text: the text.
        pair: a second text, or None.
        max_length: most tokens; None for the most that both model and
            tokenizer take. A longer text is truncated, with a log line.

    Returns:
        `AttentionMaps`, its `tokens` and `weights`.

    Raises:
        TypeError: if a text is no string, or `tokenizer` no
            `kbert.Tokenizer`.
        ValueError: if the model has no kbert encoder in it, or the tokenizer
            is another model's.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> tokenizer = kbert.Tokenizer.from_vocab(
        ...     ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"])
        >>> maps = kbert.plots.attention_maps(encoder, tokenizer, "good")
        >>> maps.tokens, maps.weights.shape
        (['[CLS]', 'good', '[SEP]'], (2, 2, 3, 3))
    """
    max_length = check_options(model, tokenizer, 1, max_length)
    check_text(text, "text")
    encodings = tokenizer.encode_batch(
        [text], None if pair is None else [pair], max_length=max_length
    )
    encoded = flatten(encodings)
    report_truncated(encoded, max_length)
    ids, kinds = encoded.ids[None], encoded.type_ids[None]
    ones = np.ones_like(ids)
    inputs = {"token_ids": ids, "segment_ids": kinds}
    inputs |= {"padding_mask": ones, "sequence_ids": ones}
    return AttentionMaps(
        tokens=[
            _shown(tokenizer, i, token)
            for i, token in zip(
                encodings[0].ids, encodings[0].tokens, strict=True
            )
        ],
        weights=attention_weights(model, inputs)[0],
    )


def attention(
    model: keras.Model,
    tokenizer: Tokenizer,
    text: str,
    layers: int | Sequence[int] | None = None,
    heads: int | Sequence[int] | None = None,
    pair: str | None = None,
    *,
    max_length: int | None = None,
) -> "Figure":
    """Draw the attention of one text, a panel for each layer and head.

    A row of panels is a layer, and a column a head; the panels of only one
    layer or head fill rows and columns in turn. Each panel has a row for each
    token that looks and a column for each that is looked at. Darker is more,
    on one scale for all panels, which spreads small weights out.

    Args:
        model: an encoder or task model of kbert.
        tokenizer: the tokenizer it was trained with.
        text: the text.
        layers: which, counted from 0: one, several or, if None, all.
        heads: likewise. One head of one layer makes one large panel.
        pair: a second text, or None.
        max_length: see `attention_maps`.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ImportError: if matplotlib is not installed.
        TypeError: as `attention_maps`.
        ValueError: as `attention_maps`, or if there is no such layer or head.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> tokenizer = kbert.Tokenizer.from_vocab(
        ...     ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"])
        >>> figure = kbert.plots.attention(encoder, tokenizer, "good", layers=1)
        >>> [axes.get_title() for axes in figure.axes[:2]]
        ['layer 1, head 0', 'layer 1, head 1']
    """
    maps = attention_maps(model, tokenizer, text, pair, max_length=max_length)
    num_layers, num_heads = maps.weights.shape[:2]
    chosen_heads = _chosen(heads, num_heads, "heads")
    panels = [
        (layer, head)
        for layer in _chosen(layers, num_layers, "layers")
        for head in chosen_heads
    ]
    columns = len(chosen_heads)
    if columns in (1, len(panels)):
        columns = math.ceil(math.sqrt(len(panels)))
    rows = math.ceil(len(panels) / columns)
    side = _side(len(maps.tokens), max(rows, columns))
    figure = new_figure(side * columns + 1.8, (side + 0.25) * rows + 0.8)
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import PowerNorm

    norm = PowerNorm(0.5, vmin=0.0, vmax=1.0)
    for place, (layer, head) in enumerate(panels):
        axes = figure.add_subplot(rows, columns, place + 1)
        axes.imshow(
            maps.weights[layer, head],
            cmap="Blues",
            norm=norm,
            interpolation="nearest",
        )
        axes.set_title(f"layer {layer}, head {head}", fontsize=8, pad=3)
        label_cells(
            axes,
            maps.tokens if place % columns == 0 else None,
            maps.tokens if place + columns >= len(panels) else None,
            side,
        )
    figure.supylabel("token", fontsize=9)
    figure.supxlabel("attends to", fontsize=9)
    bar = {"label": "weight", "shrink": 0.8, "pad": 0.01, "aspect": 30}
    scale = ScalarMappable(norm, cmap="Blues")
    figure.colorbar(scale, ax=figure.axes, ticks=_TICKS, **bar)
    return figure


def _shown(tokenizer: Tokenizer, token_id: int, token: str) -> str:
    """A token as a reader knows it."""
    is_plain = isinstance(tokenizer.backend.model, models.WordPiece)
    if is_plain or token_id in tokenizer.special_token_ids:
        return token
    piece = piece_text(tokenizer, token).replace(" ", "▁")
    return "".join(x if x.isprintable() else repr(x)[1:-1] for x in piece)


def _chosen(
    given: int | Sequence[int] | None, count: int, name: str
) -> list[int]:
    if given is None:
        return list(range(count))
    chosen = np.atleast_1d(given)
    if chosen.dtype.kind not in "iu" or not (
        chosen.size and 0 <= chosen.min() and chosen.max() < count
    ):
        raise ValueError(
            f"`{name}` must be in [0, {count}). Received: {name}={given!r}"
        )
    return chosen.tolist()


def _side(num_tokens: int, num_panels: int) -> float:
    """Side of a panel, in inches, of so many in a row."""
    most = min(_WIDEST / num_panels, _LARGEST)
    return max(_SMALLEST, min(_TOKEN * num_tokens, most))
