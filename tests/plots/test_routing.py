"""The heat maps of a routing."""

import numpy as np
import pytest
from figure_texts import assert_no_text_collides

from skillscape.plots import routing


def test_there_is_a_map_for_each_network_and_layer(saved, tmp_path):
    weights = {
        name: np.random.default_rng(seed).dirichlet(np.ones(4), size=(2, 10)).swapaxes(1, 2)
        for seed, name in enumerate(("encoder", "decoder"))
    }
    routing.routing_figure(weights, tmp_path / "routing.png", "Routing")
    assert (tmp_path / "routing.png").read_bytes().startswith(b"\x89PNG")
    (figure,) = saved
    assert_no_text_collides(figure)
    panels = [axes for axes in figure.axes if axes.get_xlabel() == "skill"]
    assert [axes.get_title() for axes in panels] == [
        f"{name}, layer {layer}" for name in ("encoder", "decoder") for layer in (1, 2)
    ]
    np.testing.assert_allclose(panels[3].images[0].get_array(), weights["decoder"][1])
    assert panels[0].images[0].get_clim() == (0, pytest.approx(max(one.max() for one in weights.values())))
