"""Saved figures as matplotlib objects."""

import pytest

from skillscape.plots import curves, mazes, routing, style


@pytest.fixture
def saved(monkeypatch):
    """The figures that were saved."""
    figures = []

    def keep(figure, path, *options, **more):
        figures.append(figure)
        style.save(figure, path, *options, **more)

    for module in (mazes, curves, routing):
        monkeypatch.setattr(module, "save", keep)
    return figures
