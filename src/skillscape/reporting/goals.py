"""The figure of zero-shot goal reaching."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from skillscape.evaluation.goals import GoalReaching
from skillscape.plots.goals import GoalPanel, goals_figure
from skillscape.training.files import writing_to
from skillscape.training.run import Run

MAX_SEEDS = 4


def draw_goals(by_seed: Sequence[tuple[Run, GoalReaching]], path: Path) -> None:
    """Draw both modes of every seed, up to four seeds; a goal is reached within the largest distance."""
    panels = []
    for run, each in by_seed[:MAX_SEEDS]:
        radius = max(each.within)
        for mode, reached in each.modes.items():
            hit, final = reached.measures[f"hit_{radius:g}"], reached.measures["final_distance"]
            panels.append(
                GoalPanel(
                    f"{run.config.label} · seed {run.config.seed} · {mode}",
                    np.asarray(each.starts),
                    np.asarray(each.goals),
                    np.asarray(reached.final),
                    np.asarray(reached.closest) <= radius,
                    f"{100 * hit:.0f} % within {radius:g} · final distance {final:.3g}",
                )
            )
    with writing_to(path.parent):
        goals_figure(panels, by_seed[0][0].layout, path)
