"""The figures that `skillscape plot` draws of a run, in any environment."""

import jax
import numpy as np
import pytest
from fake_runs import fake_run, write_log

from skillscape.errors import UserError
from skillscape.reporting import figures
from skillscape.training.run import Run, Snapshot
from skillscape.types import Spec


@pytest.fixture(autouse=True)
def _stored_rollouts(monkeypatch):
    """These runs were never trained: rollouts are those of their last evaluation."""

    def stored(run):
        with np.load(sorted((run.folder / "rollouts").glob("*.npz"))[-1]) as values:
            return values["positions"]

    monkeypatch.setattr(figures, "rollouts", stored)


@pytest.fixture
def notes(monkeypatch):
    """The title lines of the learning curves."""
    lines = []
    curves_figure = figures.curves_figure
    monkeypatch.setattr(
        figures, "curves_figure", lambda *arguments: lines.append(arguments[-1]) or curves_figure(*arguments)
    )
    return lines


def drawn(folders, out):
    return [path.name for path in figures.draw_runs([Run(folder) for folder in folders], out)]


@pytest.mark.parametrize("env", ["maze/square_a", "maze-pixels/square_a"])
def test_a_maze_has_skills_and_curves_from_positions_and_from_images(tmp_path, notes, env):
    folders = [fake_run(tmp_path / f"seed_{seed}", env=env, seed=seed) for seed in range(2)]
    write_log(folders[0] / "metrics.csv", ["step", "reward"], [[800, 0.1], [1600, 0.2]])
    pictures = ["trajectories.png", "visitation.png", "evaluation.png", "metrics.png"]
    assert drawn(folders, tmp_path / "plots") == pictures
    assert all((tmp_path / "plots" / name).read_bytes().startswith(b"\x89PNG") for name in pictures)
    assert notes == [f"DIAYN, {env}, 2,400 steps, 2 seeds", f"DIAYN, {env}, 2,400 steps, 1 seed"]


@pytest.mark.parametrize(
    ("method", "task", "env", "place"),
    [
        ("sd3", "walker_walk", "walker", "SD3, walker · walker_walk"),
        (None, "gym/Pendulum-v1", "gym/Pendulum-v1", "DDPG, gym/Pendulum-v1"),
        (None, "reach", "maze-pixels/square_a", "Dreamer, maze-pixels/square_a · reach"),
        ("diayn", "reach:0,0", "maze/square_a", "DIAYN, maze/square_a · reach:0,0"),
    ],
)
def test_a_run_on_a_task_has_curves(tmp_path, notes, method, task, env, place):
    folder = fake_run(tmp_path / "run", method, env, task, steps=2_000)
    assert drawn([folder], tmp_path / "plots") == ["evaluation.png"]
    assert notes == [f"{place}, 2,000 steps, 1 seed"]


@pytest.mark.parametrize(("architecture", "pictures"), [("soft-modular", ["routing.png"]), ("plain", [])])
def test_sd3_has_its_routing_drawn_where_it_has_one(tmp_path, monkeypatch, architecture, pictures):
    folder = fake_run(tmp_path / "run", "sd3", "walker", objective={"architecture": architecture})
    run = Run(folder)
    state = run.config.reward.init(jax.random.key(0), Spec(run.spec.obs_shape, run.spec.action_dim))
    monkeypatch.setattr(Run, "trained_steps", 1_000)
    monkeypatch.setattr(Run, "snapshot", lambda _: Snapshot(1_000, None, state))
    assert drawn([folder], tmp_path / "plots") == ["evaluation.png", *pictures]


def test_a_run_that_has_logged_nothing_is_refused(tmp_path):
    folder = fake_run(tmp_path / "run", "sd3", "walker")
    (folder / "evaluation.csv").unlink()
    with pytest.raises(UserError, match="has logged nothing that can be drawn"):
        drawn([folder], tmp_path / "plots")
