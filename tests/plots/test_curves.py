"""Learning curves: what they show, that text does not collide, and that the caller's settings survive."""

import matplotlib
import numpy as np
from figure_texts import assert_no_text_collides, size_of, texts

from skillscape.plots.curves import curves_figure


def curves(methods=("SD3", "DIAYN"), seeds=4):
    generator = np.random.default_rng(0)
    steps = np.arange(1, 6) * 50_000
    return {
        measure: {method: (steps, generator.uniform(0.2, 0.9, size=(seeds, 5))) for method in methods}
        for measure in ("coverage", "distinguishability", "return per episode")
    }


def test_curves_show_mean_band_and_names(saved, tmp_path):
    given = curves()
    path = tmp_path / "curves.png"
    curves_figure(given, path, note="250K environment steps, 4 seeds")
    (figure,) = saved
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "coverage (fraction of quarter-cells)",
        "I(S;Z) (nats)",
        "return per episode",
    ]
    for axes, lines in zip(figure.axes, given.values(), strict=True):
        for drawn, band, (steps, values) in zip(axes.lines, axes.collections, lines.values(), strict=True):
            np.testing.assert_array_equal(drawn.get_xdata(), steps)
            np.testing.assert_allclose(drawn.get_ydata(), values.mean(axis=0))
            low, high = band.get_paths()[0].vertices[:, 1].min(), band.get_paths()[0].vertices[:, 1].max()
            assert values.min() <= low < values.mean(axis=0).min()
            assert values.max() >= high > values.mean(axis=0).max()
    told = texts(figure)
    assert "250K environment steps, 4 seeds" in told
    assert told.count("SD3") == told.count("DIAYN") == 1
    assert_no_text_collides(figure)
    width, height = size_of(path)
    assert 1200 < width < 3000
    assert 400 < height < 1500


def test_one_seed_is_a_line_without_a_band(saved, tmp_path):
    curves_figure({"reach": {"SD3": (np.array([1, 2]), np.array([[0.1, 0.2]]))}}, tmp_path / "curves.png")
    (axes,) = saved[0].axes
    assert (len(axes.lines), len(axes.collections)) == (1, 0)


def test_a_curve_of_one_point_is_a_dot_and_its_band_an_upright_line(saved, tmp_path):
    one, two = (np.array([1000]), np.array([[1.0], [3.0]])), (np.array([0, 9]), np.array([[1.0, 2.0]]))
    curves_figure({"return": {"DIAYN": one}, "loss": {"DIAYN": two}}, tmp_path / "curves.png")
    first, second = saved[0].axes
    (dot,) = first.lines
    assert (dot.get_marker(), dot.get_xdata().tolist(), dot.get_ydata().tolist()) == ("o", [1000], [2.0])
    assert len(first.collections) == 2
    assert second.lines[0].get_marker() == "None"
    assert len(second.collections) == 0


def test_methods_keep_their_look_when_one_is_missing(saved, tmp_path):
    given = curves(("SD3", "DIAYN", "CIC"))
    del given["distinguishability"]["SD3"]
    curves_figure(given, tmp_path / "curves.png")
    first, second, _ = saved[0].axes
    colours = [line.get_color() for line in first.lines]
    assert len(set(colours)) == 3
    assert [line.get_color() for line in second.lines] == colours[1:]


def test_settings_of_the_caller_survive(tmp_path):
    with matplotlib.rc_context({"font.size": 17.0, "axes.spines.top": True}):
        before = dict(matplotlib.rcParams)
        curves_figure(curves(), tmp_path / "curves.png")
        assert dict(matplotlib.rcParams) == before
