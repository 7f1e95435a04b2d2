"""Pictures of finished runs: where each skill goes, and what the objective's model makes of the maze."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from skillscape.api import in_maze, layout_of, rollouts
from skillscape.envs.layouts import Layout
from skillscape.errors import UserError
from skillscape.evaluation.mazes import MazeMeasures, measure
from skillscape.objectives.sd3 import SD3
from skillscape.plots.mazes import (
    Curve,
    Extent,
    Panel,
    curves_figure,
    density_figure,
    trajectory_figure,
    visitation_maps,
)
from skillscape.training.jobs import JobRun
from skillscape.training.log import common_curve, read_metrics
from skillscape.training.runs import Run
from skillscape.training.several import each_possible

MOST_PANELS = 12
GRID_STEP = 0.1


OF_SEVERAL_SKILLS = ("distinguishability", "skill_accuracy")
"""How the measures are called that say nothing of a policy without skills, or with one."""


def caption(measures: MazeMeasures, *, skills: int) -> str:
    """The line of numbers under a panel; a single policy has no skills to tell apart."""
    told = measures._asdict()
    return line_of({name: told[name] for name in told if skills > 1 or not name.startswith(OF_SEVERAL_SKILLS)})


def line_of(measures: Mapping[str, float | None]) -> str:
    """Coverage, reach and I(S;Z), as far as they are known, on one line."""
    words = {"coverage": "coverage", "reach": "reach", "distinguishability": "I(S;Z)"}
    known = [(word, measures.get(name)) for name, word in words.items()]
    return " · ".join(f"{word} {value:.2f}" for word, value in known if value is not None)


def draw_runs(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Trajectories of every seed, visitation of the first, and the density of its model where it has one."""
    drawn = each_possible(runs[:MOST_PANELS], lambda run: (run, rollouts(run)))
    first, visited = drawn[0]
    layout, method = first.config.layout, first.config.objective.name
    folder.mkdir(parents=True, exist_ok=True)
    panels = [
        Panel(f"{method} · seed {run.config.seed}", one, caption(measure(one, layout), skills=len(one)))
        for run, one in drawn
    ]
    trajectory_figure(panels, layout, folder / "trajectories.png")

    maps, extent = visitation_maps(visited, layout)
    note = f"{method}, seed {first.config.seed}"
    density_figure(
        maps,
        extent,
        layout,
        folder / "visitation.png",
        f"Time spent by each skill ({note})",
        "fraction of time",
        shared_scale=False,
    )
    written = [folder / "trajectories.png", folder / "visitation.png"]
    try:
        maps, extent = model_density_maps(first)
    except UserError:
        return written
    density_figure(
        maps,
        extent,
        layout,
        folder / "density.png",
        f"Density of each skill according to the model ({note})",
        "density per unit area",
        shared_scale=False,
    )
    return [*written, folder / "density.png"]


def draw_jobs(runs: Sequence[JobRun], folder: Path) -> list[Path]:
    """Learning curves of a run on a host environment: evaluations, and what the learner and the objective report.

    In a maze that is seen, where every skill goes too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    job = runs[0].config
    note = f"{job.method}, {job.task or job.env}, {job.steps:,} steps, {len(runs)} seed(s)"
    written = []
    if in_maze(runs[0]):
        layout = layout_of(runs[0])
        panels = [
            Panel(f"{job.method} · seed {run.config.seed}", one, caption(measure(one, layout), skills=len(one)))
            for run, one in each_possible(runs[:MOST_PANELS], lambda run: (run, rollouts(run)))
        ]
        trajectory_figure(panels, layout, folder / "trajectories.png")
        written.append(folder / "trajectories.png")
    for log in ("evaluation", "metrics"):
        curves = _curves([read_metrics(run.folder / f"{log}.csv") for run in runs])
        if curves:
            path = folder / f"{log}.png"
            curves_figure({name: {job.method: curve} for name, curve in curves.items()}, path, note)
            written.append(path)
    return written


def _curves(logs: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, Curve]:
    """The columns that every run has logged, less those that are no curves, at the steps where all have a number."""
    curveless = ("step", "skill", *(name for name in logs[0] if name.endswith("_error")))
    names = [name for name in logs[0] if name not in curveless and all(name in log for log in logs)]
    curves = {}
    for name in names:
        steps, values = common_curve(logs, name)
        # There is no return before the first episode ends.
        known = np.isfinite(values).all(axis=0)
        if known.any():
            curves[name] = steps[known], values[:, known]
    return curves


def model_density_maps(run: Run) -> tuple[Float[np.ndarray, "k h w"], Extent]:
    """p(s|z) of the objective's own model on a grid over the maze, normalised over it; NaN outside.

    A model of p(z|s) is turned round by Bayes' rule with a uniform p(s).
    """
    grid, inside, extent = maze_grid(run.config.layout)
    scores = np.asarray(
        run.config.objective.score_skills(run.trained_state().objective, jnp.asarray(grid[inside], jnp.float32))
    )
    share = np.exp(scores - scores.max(axis=0))
    density = share / share.sum(axis=0) / GRID_STEP**2
    maps = np.full((scores.shape[1], *inside.shape), np.nan)
    maps[:, inside] = density.T
    return maps, extent


def divergence_map(run: Run, skill: int) -> tuple[Float[np.ndarray, "h w"], Extent]:
    """SD3's exploration bonus KL[Q(h|s,z) ‖ N(0,I)] of one skill on a grid over the maze; NaN outside."""
    objective = run.config.objective
    if not isinstance(objective, SD3):
        raise UserError(f"{run.folder} was trained with {objective.name}; only SD3 has a KL bonus.")
    grid, inside, extent = maze_grid(run.config.layout)
    model = run.trained_state().objective.model.params
    evidence = objective.evidence_of_all_skills(model, jnp.asarray(grid[inside], jnp.float32), jax.random.key(0))
    found = np.full(inside.shape, np.nan)
    found[inside] = np.asarray(evidence.divergence)[:, skill]
    return found, extent


def draw_bonus(young: Run, old: Run, folder: Path) -> list[Path]:
    """The bonus of the skill that goes farthest, early and late, and the density of every skill late."""
    folder.mkdir(parents=True, exist_ok=True)
    layout, seed = old.config.layout, old.config.seed
    visited = rollouts(old)
    reaches = [measure(visited[[skill, skill]], layout).reach for skill in range(len(visited))]
    skill = int(np.argmax(reaches))
    maps = [divergence_map(run, skill) for run in (young, old)]
    density_figure(
        np.stack([one for one, _ in maps]),
        maps[0][1],
        layout,
        folder / "bonus.png",
        f"KL bonus of skill {skill} (sd3, seed {seed})",
        "nats",
        titles=[f"after {run.config.steps:,} steps" for run in (young, old)],
    )
    densities, extent = model_density_maps(old)
    density_figure(
        densities,
        extent,
        layout,
        folder / "density.png",
        f"Density of each skill according to the model (sd3, seed {seed}, {old.config.steps:,} steps)",
        "density per unit area",
        shared_scale=False,
    )
    return [folder / "bonus.png", folder / "density.png"]


def maze_grid(layout: Layout) -> tuple[Float[np.ndarray, "h w 2"], Float[np.ndarray, "h w"], Extent]:
    """Points of a fine grid over the maze's bounding box, which of them are free, and the box."""
    (left, bottom), (right, top) = np.asarray(layout.bounds, float)
    columns, rows = round((right - left) / GRID_STEP), round((top - bottom) / GRID_STEP)
    x = left + GRID_STEP * (np.arange(columns) + 0.5)
    y = bottom + GRID_STEP * (np.arange(rows) + 0.5)
    grid = np.stack(np.meshgrid(x, y), axis=-1)
    return grid, layout.cell_index(grid) >= 0, (left, right, bottom, top)
