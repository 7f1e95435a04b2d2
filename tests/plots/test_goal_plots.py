"""The figure of goals: who was reached, and where episodes ended."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from skillscape.envs.mazes.layouts import load_layout
from skillscape.plots import goals
from skillscape.plots.goals import MISSED, REACHED, GoalPanel, goals_figure

REACHED_GOALS = np.array([True, False, True])


@pytest.mark.parametrize("layout", [None, load_layout("square_a")], ids=["plane", "maze"])
@pytest.mark.parametrize("coordinates", [1, 2])
def test_goals_are_where_they_are_in_the_colour_of_their_outcome(tmp_path, monkeypatch, coordinates, layout):
    drawn: list[Figure] = []
    monkeypatch.setattr(goals, "save", lambda figure, path: drawn.append(figure))
    places = np.arange(6.0).reshape(3, 2)[:, :coordinates]
    panel = GoalPanel("A", 0 * places, places, places + 0.25, REACHED_GOALS, "67 % within 0.5")
    goals_figure([panel, panel._replace(title="B")], layout, tmp_path / "goals.png")
    first, second = drawn[0].axes
    assert (first.get_title(), second.get_title()) == ("A", "B")
    assert first.get_xlabel().endswith("67 % within 0.5")
    marks = first.collections[3]
    expected = places if coordinates == 2 else np.column_stack([np.arange(3), places])
    np.testing.assert_allclose(marks.get_offsets(), expected)
    colours = [REACHED if reached else MISSED for reached in REACHED_GOALS]
    np.testing.assert_allclose(marks.get_facecolors()[:, :3], [to_rgb(colour) for colour in colours])
    np.testing.assert_allclose(first.collections[1].get_offsets()[:, -1], places[:, -1] + 0.25)
