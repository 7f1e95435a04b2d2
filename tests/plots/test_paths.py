"""Paths of bodies: a colour for each skill, and time where there is one coordinate."""

import numpy as np
import pytest
from figure_texts import assert_no_text_collides, texts

from skillscape.plots import paths, style

CAPTION = "policy coverage 31 · distance 7.25"


def walks(skills=4, episodes=2, coordinates=2):
    return np.cumsum(np.random.default_rng(0).normal(size=(skills, episodes, 9, coordinates)), axis=2)


@pytest.mark.parametrize("coordinates", [2, 3])
def test_every_path_has_the_colour_of_its_skill(coordinates):
    positions = walks(coordinates=coordinates)
    axes = style.new_figure(3, 3).subplots()
    paths.draw_paths(axes, positions)
    (lines,) = axes.collections
    assert len(lines.get_segments()) == 8
    colours = style.skill_colours(4)
    for segment, colour in zip(lines.get_segments(), lines.get_colors(), strict=True):
        skill, _ = np.argwhere((positions[:, :, -1, :2] == segment[-1]).all(axis=-1))[0]
        np.testing.assert_allclose(colour[:3], colours[skill][:3])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x", "y")


def test_one_coordinate_is_drawn_over_the_steps():
    positions = walks(coordinates=1)
    axes = style.new_figure(3, 3).subplots()
    paths.draw_paths(axes, positions)
    first = axes.collections[0].get_segments()[0]
    np.testing.assert_array_equal(first[:, 0], np.arange(9))
    np.testing.assert_array_equal(first[:, 1], positions[0, 0, :, 0])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("steps", "x")


def test_a_path_ends_where_its_episode_ended():
    positions = walks(skills=1, episodes=1)
    positions[:, :, 5:] = np.nan
    axes = style.new_figure(3, 3).subplots()
    paths.draw_paths(axes, positions)
    low, high = axes.get_xlim()
    assert np.isfinite([low, high]).all()
    assert low <= np.nanmin(positions[..., 0])
    assert high >= np.nanmax(positions[..., 0])


@pytest.mark.parametrize(("panels", "skills"), [(1, 16), (3, 4), (5, 1), (2, 48)])
def test_a_figure_of_several_seeds(tmp_path, panels, skills):
    shown = [paths.PathPanel(f"DIAYN · ant · seed {seed}", walks(skills), CAPTION) for seed in range(panels)]
    figure = paths.paths_figure(shown)
    assert_no_text_collides(figure)
    assert {f"DIAYN · ant · seed {seed}" for seed in range(panels)} <= set(texts(figure))
    assert bool(figure.legends) == (1 < skills <= 20)
    paths.save_paths(shown, tmp_path / "paths.png")
    assert (tmp_path / "paths.png").read_bytes().startswith(b"\x89PNG")
    assert paths.paths_png(shown).startswith(b"\x89PNG")
