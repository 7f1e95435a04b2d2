"""SD3's exploration bonus over the square maze, early and late in training, and the density of every skill."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from typing_extensions import Doc

from skillscape.api import rollouts
from skillscape.errors import UserError
from skillscape.evaluation.mazes import measure
from skillscape.experiments.base import Experiment
from skillscape.experiments.grid import Grid, Variant
from skillscape.experiments.results import Results
from skillscape.objectives.sd3 import SD3
from skillscape.plots.mazes import density_figure
from skillscape.reporting.figures import draw_model_density, maze_grid
from skillscape.training.run import Run


@final
@dataclass(frozen=True)
class Maps(Experiment):
    """SD3's density of each skill, and its KL bonus early and late, in the square maze."""

    name = "maps"
    early: Annotated[int, Doc("Environment steps of the early model.")] = 25_000
    steps: Annotated[int, Doc("Environment steps of the late model, with the same seed.")] = 250_000
    seed: Annotated[int, Doc("Random seed of both runs.")] = 0

    def grids(self) -> list[Grid]:
        """One method for two budgets; the late run is that of the maze experiment."""
        name = self.name if self == Maps() else f"maps-{self.early}-{self.steps}-seed-{self.seed}"
        columns = [Variant(f"after {steps:,} steps", "sd3", steps=steps) for steps in (self.early, self.steps)]
        return [Grid(name, tuple(columns), ("maze/square_a",), (), (self.seed,))]

    def identity(self, grid: Grid) -> dict[str, Any]:
        """Empty: the name of the grid is unique."""
        del grid
        return {}

    def analyse(self, grid: Grid, results: Results, folder: Path, command: str) -> list[Path]:
        """The bonus of the skill that goes farthest, early and late, and the density of every skill late."""
        del command
        early, late = (Run(results.runs / spec.folder) for spec in grid.specs)
        layout = late.config.layout
        if layout is None:
            raise UserError(f"{late.folder} was not trained in a maze: delete it and reproduce again.")
        folder.mkdir(parents=True, exist_ok=True)
        positions, path = rollouts(late), folder / "bonus.png"
        skill = int(np.argmax([measure(positions[[index, index]], layout).reach for index in range(len(positions))]))
        maps = np.stack([divergence_map(run, skill) for run in (early, late)])
        title = f"KL bonus of skill {skill} (sd3, seed {self.seed})"
        titles = [variant.label for variant in grid.variants]
        density_figure(maps, layout, path, title, "nats", titles=titles)
        note = f"sd3, seed {self.seed}, {self.steps:,} steps"
        return [path, *draw_model_density(late, folder / "density.png", note)]


def divergence_map(run: Run, skill: int) -> Float[np.ndarray, "h w"]:
    """SD3's exploration bonus KL[Q(h|s,z) ‖ N(0,I)] of one skill on a grid over the maze; NaN outside."""
    objective, layout = run.config.objective, run.config.layout
    if not isinstance(objective, SD3) or layout is None:
        raise UserError(f"{run.folder} was not trained with SD3 in a maze, so it has no KL bonus to draw.")
    grid, inside = maze_grid(layout)
    state = run.snapshot().objective
    points = objective.model_input(state, jnp.asarray(grid[inside], jnp.float32))
    evidence = objective.evidence_of_all_skills(state.model.params, points, jax.random.key(0))
    bonus = np.full(inside.shape, np.nan)
    bonus[inside] = np.asarray(evidence.divergence)[:, skill]
    return bonus
