"""How a network of soft modules divides its work between skills."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float

from skillscape.plots.style import new_figure, save, styled


def routing_figure(weights: Mapping[str, Float[np.ndarray, "layers m k"]], path: Path, title: str) -> None:
    """Save a heat map of module × skill for every layer, a row of maps for each network.

    weights: by network, how much each module of each layer sends under each skill; the m modules of a layer sum to one,
    so that 1/m everywhere is a network that treats all skills alike.
    """
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in weights.items()}
    layers, modules, skills = next(iter(arrays.values())).shape
    highest = max(values.max() for values in arrays.values())
    with styled():
        figure = new_figure(0.9 + layers * (0.16 * skills + 0.9), 0.6 + len(arrays) * (0.2 * modules + 0.75))
        grid = figure.subplots(len(arrays), layers, squeeze=False)
        for row, (name, values) in zip(grid, arrays.items(), strict=True):
            for layer, axes in enumerate(row):
                image = axes.imshow(values[layer], vmin=0.0, vmax=highest, cmap="magma_r", aspect="auto")
                axes.set_title(f"{name}, layer {layer + 1}", fontsize=8.5, pad=2)
                axes.set_yticks(range(modules))
                axes.set_xticks(range(0, skills, max(1, skills // 8)))
                axes.set_xlabel("skill")
                axes.set_ylabel("module")
        bar = figure.colorbar(image, ax=list(figure.axes), label="weight", aspect=28, pad=0.02)
        bar.outline.set_visible(False)
        figure.suptitle(title, fontsize=10.5)
        save(figure, path)
