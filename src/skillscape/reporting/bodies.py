"""Bodies of a report: pre-trainings outside mazes whose positions were measured, and the paths of one seed of each."""

from collections.abc import Sequence

from skillscape.evaluation.costs import cost_of
from skillscape.evaluation.summary import median_index, summarise
from skillscape.plots.curves import POSITION_MEASURES
from skillscape.reporting import collect
from skillscape.reporting.collect import Group, NamedRun, OnMessage, measure_of
from skillscape.reporting.mazes import LeaveOut, label_by_settings
from skillscape.reporting.model import BodyPanel, BodySection

ORDER = "policy_coverage"
"""The measure that every run with positions has; it decides which seed is shown."""


def body_sections(named_runs: Sequence[NamedRun], on_message: OnMessage, leave_out: LeaveOut) -> list[BodySection]:
    """One section per environment in which positions were measured."""
    envs: dict[str, list[NamedRun]] = {}
    for name, run in named_runs:
        if run.config.measures_positions and ORDER in (run.results or {"measures": ()})["measures"]:
            envs.setdefault(run.config.env, []).append((name, run))
    sections = []
    for env, runs in envs.items():
        panels = []
        for group in label_by_settings(collect.group_runs(runs, lambda _, run: collect.settings_key(run))):
            on_message(f"{env}: {group.label}")
            panel = _panel(group, leave_out)
            if panel is not None:
                panels.append(panel)
        if panels:
            sections.append(BodySection(env, panels))
    return sections


def _panel(group: Group, leave_out: LeaveOut) -> BodyPanel | None:
    """The panel of a method, leaving out runs whose episodes cannot be read; None if no run is left."""
    runs = list(group.runs)
    while runs:
        shown = runs[median_index([measure_of(run, ORDER) for run in runs])]
        try:
            paths = collect.stored_paths(shown)
        except collect.READ_ERRORS as error:
            leave_out(shown.folder, error)
            runs.remove(shown)
            continue
        measured = (shown.results or {"measures": ()})["measures"]
        model = collect.model_measures_of(runs)
        names = [*(name for name in POSITION_MEASURES if name in measured), *model]
        curves = collect.learning_curves(runs)
        return BodyPanel(
            label=group.label,
            steps=shown.end,
            seeds=[run.config.seed for run in runs],
            summaries={
                name: summarise([measure_of(run, name) for run in runs]) if name in names else None
                for name in (*POSITION_MEASURES, *model)
            },
            curves={name: curves[name] for name in names if name in curves},
            shown_seed=shown.config.seed,
            paths=paths,
            cost=cost_of(run.folder for run in runs),
        )
    return None
