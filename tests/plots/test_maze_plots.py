"""The maze figures: contents, no overlapping text, and no import of jax."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from figure_texts import assert_no_text_collides, size_of, texts
from matplotlib.collections import LineCollection
from PIL import Image

from skillscape.envs.mazes.layouts import load_layout
from skillscape.plots import mazes, style

SQUARE = load_layout("square_a")
TREE = load_layout("square_tree")
CAPTION = "coverage 0.87 · reach 1.00 · I(S;Z) 1.83"


def scattered(layout, skills, rollouts=3, steps=6):
    generator = np.random.default_rng(0)
    shape = (skills, rollouts, steps + 1)
    middles = np.asarray(layout.cells)[generator.integers(len(layout.cells), size=shape)]
    positions = middles + generator.uniform(-0.45, 0.45, size=(*shape, 2))
    positions[:, :, 0] = layout.evaluation_start
    return positions


@pytest.mark.parametrize("skills", [3, 10, 11, 20, 35])
def test_every_skill_has_its_own_colour(skills):
    colours = style.skill_colours(skills)
    assert colours.shape == (skills, 4)
    apart = np.abs(colours[:, None] - colours[None]).max(axis=-1)
    assert apart[~np.eye(skills, dtype=bool)].min() > 0.01


def test_trajectories_keep_the_colour_of_their_skill():
    positions = scattered(SQUARE, skills=20)
    axes = style.new_figure(3, 3).subplots()
    mazes.plot_trajectories(axes, positions, SQUARE, "title")
    paths, walls = (part for part in axes.collections if isinstance(part, LineCollection))
    colours = style.skill_colours(20)
    colour_of = {
        tuple(line.ravel()): colour[:3] for line, colour in zip(paths.get_segments(), paths.get_colors(), strict=True)
    }
    for skill, rollout in itertools.product(range(20), range(3)):
        np.testing.assert_allclose(colour_of[tuple(positions[skill, rollout].ravel())], colours[skill, :3])
    assert len(walls.get_segments()) == len(SQUARE.walls)

    ends, start = (part for part in axes.collections if not isinstance(part, LineCollection))
    for place, colour in zip(ends.get_offsets(), ends.get_facecolors(), strict=True):
        skill = np.argmin(np.abs(colours[:, :3] - colour[:3]).sum(axis=1))
        assert np.abs(positions[skill, :, -1] - place).sum(axis=1).min() < 1e-9
    np.testing.assert_allclose(start.get_offsets(), [SQUARE.evaluation_start])
    np.testing.assert_allclose(start.get_facecolors(), [(0, 0, 0, 1)])
    assert axes.get_aspect() == 1.0
    assert len(axes.get_xticks()) == len(axes.get_yticks()) == 0


@pytest.mark.parametrize(("skills", "shown"), [(1, False), (4, True), (20, True), (21, False)])
def test_legend_up_to_twenty_skills(skills, shown):
    axes = style.new_figure(3, 3).subplots()
    mazes.plot_trajectories(axes, scattered(SQUARE, skills), SQUARE, "title")
    legend = axes.get_legend()
    assert (legend is not None) == shown
    if legend is not None:
        assert [text.get_text() for text in legend.get_texts()] == [str(skill) for skill in range(skills)]


@pytest.mark.parametrize(
    ("layout", "skills", "count"), [(SQUARE, 10, 4), (SQUARE, 20, 2), (TREE, 20, 3), (SQUARE, 10, 6)]
)
def test_panels_side_by_side(saved, tmp_path, layout, skills, count):
    names = ["SD3", "DIAYN", "DADS", "CIC", "BeCL", "APT"][:count]
    panels = [mazes.Panel(name, scattered(layout, skills), CAPTION) for name in names]
    path = tmp_path / "new" / "folder" / "trajectories.png"
    mazes.trajectory_figure(panels, layout, path)
    (figure,) = saved
    shown = texts(figure)
    assert all(shown.count(name) == 1 for name in names)
    assert shown.count(CAPTION) == count
    assert [str(skill) for skill in range(skills)] == sorted((text for text in shown if text.isdigit()), key=int)
    assert len(figure.axes) == count
    assert_no_text_collides(figure)
    width, height = size_of(path)
    assert 800 < width < 3000
    assert 300 < height < 2000


def test_panels_with_different_skills_have_their_own_legends(saved, tmp_path):
    panels = [mazes.Panel("a", scattered(TREE, 20)), mazes.Panel("b", scattered(TREE, 5))]
    mazes.trajectory_figure(panels, TREE, tmp_path / "mixed.png")
    (figure,) = saved
    assert [len(axes.get_legend().get_texts()) for axes in figure.axes] == [20, 5]
    assert_no_text_collides(figure)


def test_twenty_methods_share_a_legend_though_some_have_fewer_skills(saved, tmp_path):
    counts = [*[10] * 14, 4, *[1] * 5]
    panels = [mazes.Panel(f"M{index}", scattered(SQUARE, skills), CAPTION) for index, skills in enumerate(counts)]
    mazes.trajectory_figure(panels, SQUARE, tmp_path / "all.png")
    (figure,) = saved
    assert [axes.get_legend() for axes in figure.axes] == [None] * 20
    assert sorted(text for text in texts(figure) if text.isdigit()) == [str(skill) for skill in range(10)]
    assert_no_text_collides(figure)


def test_a_single_policy_has_no_legend(saved, tmp_path):
    panels = [mazes.Panel(name, scattered(SQUARE, skills)) for name, skills in (("SD3", 10), ("APT", 1), ("CIC", 10))]
    mazes.trajectory_figure(panels, SQUARE, tmp_path / "mixed.png")
    mazes.trajectory_figure(panels[1:2], SQUARE, tmp_path / "none.png")
    mixed, none = saved
    assert [axes.get_legend() for axes in mixed.axes] == [None] * 3
    assert sorted(text for text in texts(mixed) if text.isdigit()) == [str(skill) for skill in range(10)]
    assert not [text for text in texts(none) if text.isdigit()]


def test_a_long_caption_breaks_between_its_items(saved, tmp_path):
    panel = mazes.Panel("SD3", scattered(SQUARE, 3), f"{CAPTION} · accuracy 0.77")
    mazes.trajectory_figure([panel, panel], SQUARE, tmp_path / "long.png")
    assert texts(saved[0]).count(f"{CAPTION}\naccuracy 0.77") == 2
    assert_no_text_collides(saved[0])


@pytest.mark.parametrize("shared_scale", [True, False])
def test_density_maps_share_a_scale_or_not(saved, tmp_path, shared_scale):
    maps = mazes.visitation_maps(scattered(SQUARE, 7), SQUARE)
    maps = maps * np.arange(1, 8)[:, None, None]
    path = tmp_path / "density.png"
    mazes.density_figure(maps, SQUARE, path, "Time", "fraction of time", shared_scale=shared_scale)
    (figure,) = saved
    panels = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title() for axes in panels] == [f"skill {skill}" for skill in range(7)]
    tops = [axes.images[0].norm.vmax for axes in panels]
    expected = np.nanmax(maps) if shared_scale else np.nanmax(maps, axis=(1, 2))
    np.testing.assert_allclose(tops, np.broadcast_to(expected, 7))
    assert {"Time", "fraction of time"} <= set(texts(figure))
    assert len(figure.axes) == 8  # seven panels and one colour bar
    assert_no_text_collides(figure)
    width, height = size_of(path)
    assert 800 < width < 3000
    assert 300 < height < 2000
    # A picture shows the map the right way up: outside of the maze is masked, and its lower row is drawn at the bottom.
    assert panels[0].images[0].origin == "lower"
    assert panels[0].images[0].get_array().mask.sum() == 16 * 8


def test_panels_fill_rows_evenly():
    assert [style.grid_shape(count, 4) for count in (1, 4, 5, 6, 9)] == [(1, 1), (1, 4), (2, 3), (2, 3), (3, 3)]
    with pytest.raises(ValueError, match="at least one panel"):
        style.grid_shape(0, 4)


def test_thirteen_methods_have_different_styles():
    assert len({style.method_style(place) for place in range(13)}) == 13


def test_visitation_maps_of_known_positions():
    positions = np.zeros((2, 1, 4, 2))
    positions[0, 0] = [(0, -0.5), (-0.5, -4.5), (-0.4, -4.4), (4.5, 0.5)]
    maps = mazes.visitation_maps(positions, SQUARE)
    assert maps.shape == (2, 20, 20)
    assert maps[0, 0, 0] == pytest.approx(0.5)
    assert maps[0, -1, -1] == pytest.approx(0.25)
    assert maps[1, 18, 2] == pytest.approx(1.0)
    np.testing.assert_allclose(np.nansum(maps, axis=(1, 2)), 1.0)


def test_maps_agree_with_the_quarter_cells_of_the_measures():
    positions = scattered(TREE, 5)
    maps = mazes.visitation_maps(positions, TREE)
    for skill in range(5):
        _, counts = np.unique(TREE.quarter_index(positions[skill]), return_counts=True)
        np.testing.assert_allclose(np.sort(maps[skill][maps[skill] > 0]), np.sort(counts) / (3 * 7))
    assert np.isfinite(maps).sum() == 5 * 16 * len(TREE.cells)
    coarse = mazes.visitation_maps(positions, TREE, resolution=1)
    assert coarse.shape == (5, 7, 13)
    np.testing.assert_allclose(coarse[0], maps[0].reshape(7, 4, 13, 4).sum(axis=(1, 3)))


def test_maps_refuse_positions_outside_the_maze():
    with pytest.raises(ValueError, match="1 positions lie outside of square_a"):
        mazes.visitation_maps(np.array([[[(0.0, 0.0), (1.0, -1.0)]]]), SQUARE)


def test_figures_need_neither_jax_nor_pyplot(tmp_path):
    script = f"""
import sys
from pathlib import Path
import numpy as np
from skillscape.envs.mazes.layouts import load_layout
from skillscape.plots.mazes import Panel, trajectory_figure
layout = load_layout("square_a")
trajectory_figure([Panel("SD3", np.zeros((2, 2, 3, 2)), "caption")], layout, Path({str(tmp_path / "one.png")!r}))
loaded = {{"jax", "jaxlib", "matplotlib.pyplot"}} & set(sys.modules)
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert size_of(tmp_path / "one.png")[0] > 400


def test_a_caption_leaves_out_undefined_measures():
    measures = {"coverage": 0.5, "reach": 0.25, "mutual_information": 1.0, "skill_accuracy": 0.75}
    assert mazes.caption(measures) == "coverage 0.50 · reach 0.25 · I(S;Z) 1.00"
    assert mazes.caption({**measures, "mutual_information": None}) == "coverage 0.50 · reach 0.25"


def test_an_overview_has_half_the_resolution_and_figures_few_colours(tmp_path):
    positions = np.random.default_rng(0).normal(size=(3, 4, 20, 2))
    sizes = []
    for count in (4, 12):
        path = tmp_path / f"{count}.png"
        mazes.trajectory_figure([mazes.Panel("a", positions)] * count, load_layout("square_a"), path)
        with Image.open(path) as image:
            assert image.mode == "P"
            sizes.append(image.size[0])
    assert sizes[1] < 0.6 * sizes[0]
