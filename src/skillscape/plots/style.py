"""Shared style of all figures. Object interface of matplotlib only: no pyplot, no global state."""

import io
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

LineStyle: TypeAlias = Literal["-", "--", ":", "-."]

RC_PARAMS: dict[Any, Any] = {  # matplotlib types the keys as literals, differently in each version
    "font.family": "DejaVu Sans",  # shipped with matplotlib, so figures look the same on every machine
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.labelsize": 9.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "figure.constrained_layout.h_pad": 0.06,  # inches; a caption should not touch the title of the row below
}
DOTS_PER_INCH = 200
EXACT_DOTS_PER_INCH = 128
"""For images that are composed pixel by pixel: a power of two, so that pixels → inches → pixels is exact."""

# Okabe and Ito (2008): eight colours that remain distinct for the common kinds of colour blindness. Yellow is left out
# (too faint for a line on white), black goes last.
METHOD_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
METHOD_LINES: tuple[LineStyle, ...] = ("-", "--", ":", "-.")


def styled() -> AbstractContextManager[None]:
    """Applies the library's matplotlib settings inside the block and restores the caller's afterwards."""
    return mpl.rc_context(RC_PARAMS)


def new_figure(width: float, height: float, *, layout: Literal["constrained", "compressed"] = "constrained") -> Figure:
    """An empty white figure, in inches, drawn by the Agg canvas."""
    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path, dots_per_inch: int = DOTS_PER_INCH, *, colours: int | None = None) -> None:
    """Write a PNG with thin margins, creating the folder if needed; with at most ``colours``, a third of the bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {"dpi": dots_per_inch, "bbox_inches": "tight", "pad_inches": 0.06, "facecolor": "white"}
    if colours is None:
        figure.savefig(path, format="png", **options)
        return
    image = io.BytesIO()
    figure.savefig(image, format="png", **options)
    reduced = Image.open(image).convert("RGB").quantize(colours, dither=Image.Dither.NONE)
    reduced.save(path, format="png", optimize=True)


def grid_shape(count: int, columns: int) -> tuple[int, int]:
    """Rows and columns for ``count`` panels, at most ``columns`` wide, with rows as equal as possible."""
    if count < 1:
        raise ValueError("A figure needs at least one panel.")
    rows = -(-count // columns)
    return rows, -(-count // rows)


def skill_colours(skills: int) -> Float[np.ndarray, "k 4"]:
    """One RGBA colour per skill: tab10, tab20 for 11 to 20 skills, viridis beyond."""
    if skills <= 20:
        name = "tab10" if skills <= 10 else "tab20"
        return np.asarray(mpl.colormaps[name](np.arange(skills)))
    return np.asarray(mpl.colormaps["viridis"](np.linspace(0.0, 1.0, skills)))


def method_style(index: int) -> tuple[str, LineStyle]:
    """Colour and line style of the n-th method; a pair repeats only after all colours with all styles."""
    rounds, place = divmod(index, len(METHOD_COLOURS))
    return METHOD_COLOURS[place], METHOD_LINES[rounds % len(METHOD_LINES)]
