"""What a comparison measures and draws of skills that move a body: where it goes, and how distinct that is."""

from collections.abc import Sequence
from pathlib import Path

from skillscape.evaluation.goals import BODY_MEASURE
from skillscape.experiments.comparison import Arm, Subject
from skillscape.plots.curves import POSITION_MEASURES, MeasureLabel
from skillscape.plots.paths import PathPanel, save_paths
from skillscape.reporting.collect import stored_paths

COLUMNS = ("policy_coverage", "total_coverage", "distance", "speed", "skill_accuracy")
GOALS = {
    "goals": MeasureLabel(
        "goals reached",
        "goals reached zero-shot (fraction)",
        "goals reached: fraction of 50 random goals that the skill chosen for each passes within a distance of 3, "
        "without further training.",
    )
}


def draw_paths(arms: Sequence[Arm], folder: Path) -> list[str]:
    """paths.png: every episode of the median seed, a colour for each skill."""
    panels = [PathPanel(arm.label, arm.positions, f"{_caption(arm)} · seed {arm.shown_seed}") for arm in arms]
    save_paths(panels, folder / "paths.png")
    return ["paths.png"]


def _caption(arm: Arm) -> str:
    shown = {name: POSITION_MEASURES[name].column for name in ("policy_coverage", "distance") if name in arm.measures}
    return " · ".join(f"{column} {arm.measures[name]:.3g}" for name, column in shown.items())


BODIES = Subject(
    {name: POSITION_MEASURES[name] for name in COLUMNS},
    GOALS,
    ("policy_coverage", "distance", "speed"),
    ("policy_coverage",),
    BODY_MEASURE,
    stored_paths,
    draw_paths,
)
