"""Figures of runs: learning curves, routing weights; trajectories, visitation and densities in mazes, else paths."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from skillscape.api import rollouts
from skillscape.envs.mazes.layouts import Layout
from skillscape.errors import UserError
from skillscape.evaluation.mazes import measure
from skillscape.formatting import counted
from skillscape.plots.curves import POSITION_MEASURES, curves_figure
from skillscape.plots.mazes import Panel, caption, density_figure, trajectory_figure, visitation_maps
from skillscape.plots.paths import PathPanel, save_paths
from skillscape.plots.routing import routing_figure
from skillscape.reporting.collect import learning_curves, stored_paths
from skillscape.training.files import writing_to
from skillscape.training.run import Run
from skillscape.training.several import each_possible

MAX_PANELS = 12
GRID_STEP = 0.1


def draw_runs(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Draw the seeds of a run: where its skills go, learning curves, and routing weights of the first seed."""
    layout = runs[0].layout
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        paths = [] if layout is None or runs[0].config.task is not None else _draw_skills(runs, layout, folder)
        paths += _draw_paths(runs, folder)
        paths += _draw_curves(runs, folder) + _draw_routing(runs, folder / "routing.png")
    if not paths:
        raise UserError(f"{runs[0].folder} has logged nothing that can be drawn; train it further with --resume.")
    return paths


def _draw_skills(runs: Sequence[Run], layout: Layout, folder: Path) -> list[Path]:
    """Trajectories of every seed; visitation of the first, and the density of its model if it has one."""
    positions_of = each_possible(runs[:MAX_PANELS], lambda run: (run, rollouts(run)))
    panels = [
        Panel(f"{run.config.label} · seed {run.config.seed}", positions, caption(measure(positions, layout)._asdict()))
        for run, positions in positions_of
    ]
    paths = [folder / "trajectories.png", folder / "visitation.png"]
    trajectory_figure(panels, layout, paths[0])
    first, positions = positions_of[0]
    note = f"{first.config.label}, seed {first.config.seed}"
    maps, title = visitation_maps(positions, layout), f"Visitation of each skill ({note})"
    density_figure(maps, layout, paths[1], title, "fraction of time", shared_scale=False)
    return paths + draw_model_density(first, folder / "density.png", note)


def draw_model_density(run: Run, path: Path, note: str) -> list[Path]:
    """Draw ``model_density_maps`` if there are any; returns the paths written."""
    layout, maps = run.layout, model_density_maps(run)
    if layout is None or maps is None:
        return []
    title = f"Model density of each skill ({note})"
    density_figure(maps, layout, path, title, "density per unit area", shared_scale=False)
    return [path]


def _draw_paths(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Paths of the newest evaluation of every seed, where positions were measured."""
    measured = [
        run for run in runs[:MAX_PANELS] if run.config.measures_positions and (run.folder / "rollouts").is_dir()
    ]
    if not measured:
        return []
    stored = each_possible(measured, lambda run: (run, stored_paths(run)))
    panels = [
        PathPanel(f"{run.config.label} · {run.config.env} · seed {run.config.seed}", positions, _path_caption(run))
        for run, positions in stored
    ]
    save_paths(panels, folder / "paths.png")
    return [folder / "paths.png"]


def _path_caption(run: Run) -> str:
    """Coverage and distance at the newest evaluation."""
    log = run.evaluation()
    shown = [name for name in ("policy_coverage", "distance") if log.get(name)]
    return " · ".join(f"{POSITION_MEASURES[name].column} {log[name][-1]:.3g}" for name in shown)


def _draw_curves(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Evaluations, and the metrics of backbone and objective; runs without a log are skipped."""
    config, paths = runs[0].config, []
    for log in ("evaluation", "metrics"):
        logged = [run for run in runs if (run.folder / f"{log}.csv").exists()]
        curves = {
            name: {config.label: curve}
            for name, curve in (learning_curves(logged, log) if logged else {}).items()
            if name != "skill" and not name.endswith("_error")
        }
        if curves:
            place = " · ".join(dict.fromkeys((config.env, config.task or config.env)))
            note = f"{config.label}, {place}, {config.steps:,} steps, {counted(len(logged), 'seed')}"
            curves_figure(curves, folder / f"{log}.png", note)
            paths.append(folder / f"{log}.png")
    return paths


def _draw_routing(runs: Sequence[Run], path: Path) -> list[Path]:
    """The routing weights of each skill, for methods with modules, of the first seed with a readable snapshot."""
    for run in runs:
        objective = run.config.objective
        if objective is None or run.config.task is not None or not run.trained_steps:
            continue
        # A damaged snapshot does not stop the figures that need none.
        with suppress(UserError):
            weights = objective.routing_weights(run.snapshot().objective)
            if weights:
                title = f"Routing weights of each skill ({run.config.label}, seed {run.config.seed})"
                routing_figure({name: np.asarray(values) for name, values in weights.items()}, path, title)
            return [path] if weights else []
    return []


def model_density_maps(run: Run) -> Float[np.ndarray, "k h w"] | None:
    """p(s|z) of the objective's own model on a grid over the maze, normalised over the maze; NaN outside.

    A model of p(z|s) is inverted by Bayes' rule with a uniform p(s). None without a maze, a snapshot, or a model of
    positions (images and world-model features are not positions, and an export may have left the model out); a damaged
    snapshot is an error.
    """
    layout, objective = run.layout, run.config.objective
    if layout is None or objective is None or not run.trained_steps:
        return None
    if run.spec.is_image or run.config.backbone.objective_spec(run.spec).obs_shape != run.spec.obs_shape:
        return None
    snapshot = run.snapshot()
    agent, state = snapshot.agent, snapshot.model
    if state is None:
        return None
    grid, inside = maze_grid(layout)
    points = jnp.asarray(grid[inside], jnp.float32)
    objective_obs = run.config.backbone.objective_obs(agent, points, jnp.zeros((len(points), 0)))
    try:
        scores = np.asarray(objective.score_skills(state, objective_obs))
    except UserError:  # this method has no such model
        return None
    density = np.exp(scores - scores.max(axis=0))
    maps = np.full((scores.shape[1], *inside.shape), np.nan)
    maps[:, inside] = (density / density.sum(axis=0) / GRID_STEP**2).T
    return maps


def maze_grid(layout: Layout) -> tuple[Float[np.ndarray, "h w 2"], Bool[np.ndarray, "h w"]]:
    """Points of a fine grid over the maze's bounding rectangle, and whether each is inside the maze."""
    (left, bottom), (right, top) = np.asarray(layout.bounds, float)
    columns, rows = round((right - left) / GRID_STEP), round((top - bottom) / GRID_STEP)
    x = left + GRID_STEP * (np.arange(columns) + 0.5)
    y = bottom + GRID_STEP * (np.arange(rows) + 0.5)
    grid = np.stack(np.meshgrid(x, y), axis=-1)
    return grid, layout.cell_index(grid) >= 0
