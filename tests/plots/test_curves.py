"""Learning curves: contents, no overlapping text, and the caller's settings are restored."""

import matplotlib
import numpy as np
from figure_texts import assert_no_text_collides, size_of, texts

from skillscape.plots.curves import curves_figure


def curves(methods=("SD3", "DIAYN"), seeds=4):
    generator = np.random.default_rng(0)
    steps = np.arange(1, 6) * 50_000
    return {
        measure: {method: (steps, generator.uniform(0.2, 0.9, size=(seeds, 5))) for method in methods}
        for measure in ("coverage", "mutual_information", "return per episode")
    }


def test_curves_show_mean_band_and_names(saved, tmp_path):
    lines_of = curves()
    path = tmp_path / "curves.png"
    curves_figure(lines_of, path, note="250K environment steps, 4 seeds")
    (figure,) = saved
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "coverage (fraction of quarter-cells)",
        "I(S;Z) (nats)",
        "return per episode",
    ]
    for axes, lines in zip(figure.axes, lines_of.values(), strict=True):
        for line, band, (steps, values) in zip(axes.lines, axes.collections, lines.values(), strict=True):
            np.testing.assert_array_equal(line.get_xdata(), steps)
            np.testing.assert_allclose(line.get_ydata(), values.mean(axis=0))
            low, high = band.get_paths()[0].vertices[:, 1].min(), band.get_paths()[0].vertices[:, 1].max()
            assert values.min() <= low < values.mean(axis=0).min()
            assert values.max() >= high > values.mean(axis=0).max()
    shown = texts(figure)
    assert "250K environment steps, 4 seeds" in shown
    assert shown.count("SD3") == shown.count("DIAYN") == 1
    assert_no_text_collides(figure)
    width, height = size_of(path)
    assert 1200 < width < 3000
    assert 400 < height < 1500


def test_one_seed_is_a_line_without_a_band(saved, tmp_path):
    curves_figure({"reach": {"SD3": (np.array([1, 2]), np.array([[0.1, 0.2]]))}}, tmp_path / "curves.png")
    (axes,) = saved[0].axes
    assert (len(axes.lines), len(axes.collections)) == (1, 0)


def test_a_curve_of_one_point_is_a_dot_with_a_vertical_error_bar(saved, tmp_path):
    point, line = (np.array([1000]), np.array([[1.0], [3.0]])), (np.array([0, 9]), np.array([[1.0, 2.0]]))
    curves_figure({"return": {"DIAYN": point}, "loss": {"DIAYN": line}}, tmp_path / "curves.png")
    first, second = saved[0].axes
    (dot,) = first.lines
    assert (dot.get_marker(), dot.get_xdata().tolist(), dot.get_ydata().tolist()) == ("o", [1000], [2.0])
    assert len(first.collections) == 2
    assert second.lines[0].get_marker() == "None"
    assert len(second.collections) == 0


def test_methods_keep_their_style_when_one_is_missing(saved, tmp_path):
    lines_of = curves(("SD3", "DIAYN", "CIC"))
    del lines_of["mutual_information"]["SD3"]
    curves_figure(lines_of, tmp_path / "curves.png")
    first, second, _ = saved[0].axes
    colours = [line.get_color() for line in first.lines]
    assert len(set(colours)) == 3
    assert [line.get_color() for line in second.lines] == colours[1:]


def test_settings_of_the_caller_are_restored(tmp_path):
    with matplotlib.rc_context({"font.size": 17.0, "axes.spines.top": True}):
        before = dict(matplotlib.rcParams)
        curves_figure(curves(), tmp_path / "curves.png")
        assert dict(matplotlib.rcParams) == before


def test_twenty_methods_leave_the_axes_their_height(saved, tmp_path):
    for methods in (("SD3", "DIAYN"), tuple(f"Method {index}" for index in range(20))):
        lines_of = {**curves(methods), "reach": curves(methods)["coverage"]}
        curves_figure({name: lines_of[name] for name in ("coverage", "reach")}, tmp_path / "curves.png", "a title " * 6)
    few, many = saved
    assert_no_text_collides(many)
    heights = [figure.axes[0].get_window_extent().height / figure.dpi for figure in (few, many)]
    assert heights[1] > 0.95 * heights[0]
