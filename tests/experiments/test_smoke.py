"""Every experiment of the paper as a user would run it, at the size that means nothing."""

import json

import pytest

from skillscape.cli import main
from skillscape.experiments.benchmark import Benchmark
from skillscape.experiments.comparison import Comparison
from skillscape.experiments.paper import registry

pytestmark = pytest.mark.slow
SMALL = {"pixels": ["--domains", "walker-pixels", "--methods", "dreamer", "sd3"]}
WALKER = ["--domains", "walker", "--methods", "sd3"]


@pytest.mark.parametrize("name", [name for name, kind in registry().items() if issubclass(kind, Comparison)])
def test_maze_experiments(name, tmp_path):
    folders = ["--out", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    main(["reproduce", name, "--preset", "smoke", "--seeds", "2", *folders])
    for folder in (tmp_path / "results").iterdir():
        raw = json.loads((folder / "raw.json").read_text())
        assert raw["steps"] == (1500 if name == "maze-pixels" else 2000)
        assert all(len(arm["measures"]["coverage"]["per_seed"]) == 2 for arm in raw["arms"])
        assert all(len(arm["versions"]["jax"]) == 1 for arm in raw["arms"])
        assert {path.name for path in folder.iterdir()} >= {"table.md", "trajectories.png", "curves.png"}


@pytest.mark.parametrize("name", [name for name, kind in registry().items() if issubclass(kind, Benchmark)])
def test_benchmarks(name, tmp_path):
    folders = ["--out", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    main(["reproduce", name, "--preset", "smoke", "--seeds", "1", *SMALL.get(name, WALKER), *folders])
    (folder,) = (tmp_path / "results").iterdir()
    raw = json.loads((folder / "raw.json").read_text())
    assert {score["task"] for score in raw["scores"]} == {f"walker_{task}" for task in ("stand", "walk", "run", "flip")}
    assert {path.name for path in folder.iterdir()} >= {"table.md", "curves.png", "aggregates.png"}


def test_maps(tmp_path):
    folders = ["--out", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    main(["reproduce", "maps", "--early", "2500", "--steps", "5000", *folders])
    assert list((tmp_path / "results" / "maps-2500-5000-seed-0").glob("*.png"))
