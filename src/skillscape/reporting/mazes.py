"""The mazes of a report: runs grouped by maze and settings, their measures, and the episodes of one seed of each."""

import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from skillscape.envs.mazes.layouts import Layout
from skillscape.errors import UserError
from skillscape.evaluation.costs import cost_of
from skillscape.evaluation.goals import MAZE_MEASURE, goals_reached
from skillscape.evaluation.summary import median_index, summarise
from skillscape.plots.curves import MEASURES
from skillscape.plots.mazes import caption, visitation_maps
from skillscape.reporting import collect
from skillscape.reporting.collect import Group, NamedRun, OnMessage, measure_of
from skillscape.reporting.figures import model_density_maps
from skillscape.reporting.model import MazePanel, MazeSection
from skillscape.training.files import damaged
from skillscape.training.run import AGAIN, Run

MAX_FRAMES = 25
"""Number of positions of the slider over training."""
EPISODES_SHOWN = 5
"""Number of plotted episodes of each skill."""

LeaveOut: TypeAlias = Callable[[Path, Exception], None]


def maze_sections(named_runs: Sequence[NamedRun], on_message: OnMessage, leave_out: LeaveOut) -> list[MazeSection]:
    """The pre-trainings in mazes: one section per environment family and layout.

    One layout read from two paths is one maze; two layouts of one name are two.
    """
    mazes: dict[tuple[str, Layout], list[NamedRun]] = {}
    for name, run in named_runs:
        layout = run.layout
        if layout is not None and run.config.task is None:
            mazes.setdefault((run.config.family.name, layout), []).append((name, run))
    names = [f"{family}/{layout.name}" for family, layout in mazes]
    sections = []
    for name, ((_, layout), runs) in zip(names, mazes.items(), strict=True):
        env = name if names.count(name) == 1 else runs[0][1].config.env
        panels = []
        for group in label_by_settings(collect.group_runs(runs, lambda _, run: collect.settings_key(run))):
            on_message(f"{env}: {group.label}")
            panel = _maze_panel(group, layout, leave_out)
            if panel is not None:
                panels.append(panel)
        if panels:
            sections.append(MazeSection(env, layout, panels))
    return sections


def label_by_settings(groups: Sequence[Group]) -> list[Group]:
    """Label groups by method; several groups of one method also by one or two settings that differ, or by folder."""

    def label(group: Group) -> str:
        name = group.config.label
        settings = [_flat(other.config.to_json()) for other in groups if other.config.method == group.config.method]
        if len(settings) == 1:
            return name
        own = _flat(group.config.to_json())
        different = [key for key in own if any(other.get(key) != own[key] for other in settings)]
        if not 1 <= len(different) <= 2 or len({repr(other) for other in settings}) < len(settings):
            return f"{name} · {group.name}"
        return f"{name} · " + ", ".join(f"{key.rpartition('.')[2].replace('_', ' ')} {own[key]}" for key in different)

    return collect.with_unique_labels(groups, label)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings by dotted name, without the maze and what identifies a single run."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if not prefix and key in ("format", "env", "definition", "seed", "source"):
            continue
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _maze_panel(group: Group, layout: Layout, leave_out: LeaveOut) -> MazePanel | None:
    """The panel of a method, leaving out runs whose episodes or model cannot be read; None if no run is left."""
    names = collect.measures_of(group.runs[0])
    order = "mutual_information" if "mutual_information" in names else "coverage"
    runs = list(group.runs)
    while runs:
        shown = runs[median_index([measure_of(run, order) for run in runs])]
        try:
            frames = _frames(shown, layout)
            density = model_density_maps(shown)
        except collect.READ_ERRORS as error:
            leave_out(shown.folder, error)
            runs.remove(shown)
            continue
        log, curves = collect.evaluation_log(shown), collect.learning_curves(runs)
        goals = goals_reached([run.folder for run in runs], MAZE_MEASURE)
        model = collect.model_measures_of(runs)
        captions = {
            int(step): caption({name: log[name][index] for name in names}) for index, step in enumerate(log["step"])
        }
        return MazePanel(
            label=group.label,
            steps=shown.end,
            seeds=[run.config.seed for run in runs],
            summaries={
                **{
                    name: summarise([measure_of(run, name) for run in runs]) if name in names else None
                    for name in MEASURES
                },
                **({} if goals is None else {"goals": summarise(goals)}),
                **{name: summarise([measure_of(run, name) for run in runs]) for name in model},
            },
            curves={name: curves[name] for name in (*names, *model)},
            shown_seed=shown.config.seed,
            frame_steps=list(frames),
            frames=np.stack([positions[:, :EPISODES_SHOWN] for positions in frames.values()]),
            captions=[captions.get(step, "") for step in frames],
            visits=visitation_maps([*frames.values()][-1], layout),
            density=density,
            cost=cost_of(run.folder for run in runs),
        )
    return None


def _frames(run: Run, layout: Layout) -> dict[int, Float[np.ndarray, "k r t 2"]]:
    """Training step → episodes, of all evaluations or ``MAX_FRAMES`` evenly spaced ones including the last."""
    paths = sorted(path for path in (run.folder / "rollouts").glob("*.npz") if path.stem.isdigit())
    if not paths:
        raise UserError(f"{run.folder} has lost its rollouts; {AGAIN}.")
    places = np.unique(np.linspace(0, len(paths) - 1, min(len(paths), MAX_FRAMES)).round().astype(int))
    frames: dict[int, Float[np.ndarray, "k r t 2"]] = {}
    for path in (paths[place] for place in places):
        try:
            with np.load(path, allow_pickle=False) as stored:
                positions = np.asarray(stored["positions"], np.float64)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise damaged(path, "it is not an archive of positions", AGAIN) from error
        fits = positions.ndim == 4 and positions.shape[-1] == 2 and 0 not in positions.shape
        inside = fits and np.isfinite(positions).all() and (layout.cell_index(positions) >= 0).all()
        if not inside or any(positions.shape != other.shape for other in frames.values()):
            raise damaged(path, "its positions are not those of episodes in this maze", AGAIN)
        frames[int(path.stem)] = positions
    return frames
