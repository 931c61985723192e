"""What the figures share: how one is made, text on it, fonts."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# For what matplotlib's own font lacks; whichever of them are installed.
_FALLBACK_FONTS = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Hiragino Sans",
    "PingFang SC",
    "Microsoft YaHei",
    "WenQuanYi Zen Hei",
    "Noto Sans Devanagari",
    "Noto Emoji",
    "Segoe UI Emoji",
)


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure of a size in inches.

    Not of pyplot, which keeps every figure and may open windows.

    Raises:
        ImportError: if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Figures need matplotlib: pip install 'keras-kbert[plots]'. "
            f"Received: {error}"
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def _fonts(names: list[str]) -> list[str]:
    """Families of fonts for names: matplotlib's own, then what may help."""
    from matplotlib import font_manager, rcParams

    families = list(rcParams["font.family"])
    if not all(name.isascii() for name in names):
        installed = {entry.name for entry in font_manager.fontManager.ttflist}
        families += [name for name in _FALLBACK_FONTS if name in installed]
    return families


def label_cells(
    axes: "Axes",
    rows: list[str] | None,
    columns: list[str] | None,
    side: float,
    size: float = 9.0,
    smallest: float = 5.0,
) -> None:
    """Write names at the rows and columns of an image.

    Args:
        axes: that show a square image.
        rows: a name for each; None for no names there.
        columns: likewise.
        side: of the image, in inches.
        size: of the type, in points; smaller where names would touch.
        smallest: size from which on names are left out, every second or more.
    """
    for axis, names in ((axes.yaxis, rows), (axes.xaxis, columns)):
        if names is None:
            axis.set_ticks([])
            continue
        room = 72.0 * side / len(names) / 1.2  # points for a line
        step = 1 if room >= smallest else int(smallest / room) + 1
        places = range(0, len(names), step)
        options: dict[str, Any] = {
            "fontsize": min(size, max(room * step, smallest)),
            "fontfamily": _fonts(names),
            "parse_math": False,  # a "$" begins no formula
        }
        longest = max(len(name) for name in names) * options["fontsize"]
        if axis is axes.xaxis and 0.7 * longest > 1.2 * room:
            options["rotation"] = 90
        axis.set_ticks(list(places), [names[i] for i in places], **options)
        axis.set_tick_params(length=2, pad=2)
