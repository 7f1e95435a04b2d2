"""The texts of a figure, and whether they overlap."""

import itertools

import matplotlib.image
from matplotlib.text import Text


def texts(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_text() and text.get_visible()]


def undrawn_labels(figure):
    """Labels of ticks outside of the view, which exist as objects but are not drawn."""
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        yield from (tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high)


def assert_no_text_collides(figure):
    figure.draw_without_rendering()
    undrawn = set(undrawn_labels(figure))
    shown = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible() and text not in undrawn]
    assert len(shown) > 2
    for text, other in itertools.combinations(shown, 2):
        overlap = text.get_window_extent().overlaps(other.get_window_extent())
        assert not overlap, f"{text.get_text()!r} overlaps {other.get_text()!r}"


def size_of(path):
    height, width = matplotlib.image.imread(path).shape[:2]
    return width, height
