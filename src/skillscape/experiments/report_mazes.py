"""The mazes of a report: runs grouped by maze and settings, their measures, and the episodes of one seed of each."""

import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from skillscape.envs.layouts import Layout
from skillscape.errors import UserError
from skillscape.evaluation.summary import summarise
from skillscape.experiments.pictures import line_of, model_density_maps
from skillscape.experiments.report_runs import (
    UNREADABLE,
    Group,
    curve_of,
    damaged,
    grouped,
    label_of,
    log_of,
    measure_of,
    measures_of,
    settings_key,
    uniquely_labelled,
)
from skillscape.plots.mazes import visitation_maps
from skillscape.plots.page import MEASURES, MazePanel, MazeSection
from skillscape.training.runs import Run

MOST_FRAMES = 25
"""Stops of the slider over training."""
EPISODES_SHOWN = 5
"""Episodes of each skill that are drawn."""

Tell = Callable[[str], None]
LeaveOut = Callable[[Path, Exception], None]
Frame: TypeAlias = tuple[int, Float[np.ndarray, "k r t 2"]]
"""A step of training, and the episodes played after it."""


def maze_sections(found: Sequence[tuple[str, Run]], tell: Tell, leave_out: LeaveOut) -> list[MazeSection]:
    """One section per maze, whatever path it was read from. Two mazes of one name are two mazes."""
    mazes: dict[Layout, list[tuple[str, Run]]] = {}
    for name, run in found:
        mazes.setdefault(run.config.layout, []).append((name, run))
    names = [layout.name for layout in mazes]
    sections = []
    for layout, runs in mazes.items():
        env = f"maze/{layout.name}" if names.count(layout.name) == 1 else runs[0][1].config.env
        panels = []
        for group in _labelled_by_settings(grouped(runs, lambda _, run: settings_key(run))):
            tell(f"{env}: {group.label}")
            panel = _maze_panel(group, leave_out)
            if panel is not None:
                panels.append(panel)
        if panels:
            sections.append(MazeSection(env, layout, panels))
    return sections


def _labelled_by_settings(groups: Sequence[Group[Run]]) -> list[Group[Run]]:
    """The method's name; several groups of one method are told apart by the settings that differ, or by folder."""

    def label(group: Group[Run]) -> str:
        name = label_of(group.method)
        rivals = [other for other in groups if other.method == group.method]
        if len(rivals) == 1:
            return name
        settings = [_flat(other.runs[0].config.to_json()) for other in rivals]
        own = _flat(group.runs[0].config.to_json())
        different = [key for key in own if any(other.get(key) != own[key] for other in settings)]
        if not 1 <= len(different) <= 2 or len({tuple(map(repr, one.values())) for one in settings}) < len(rivals):
            return f"{name} · {group.name}"
        return f"{name} · " + ", ".join(f"{key.rpartition('.')[2].replace('_', ' ')} {own[key]}" for key in different)

    return uniquely_labelled(groups, label)


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under dotted names, without what every run has of its own."""
    parts = {key: value if isinstance(value, dict) else {"": value} for key, value in config.items()}
    return {
        f"{part}.{key}".strip("."): value
        for part, values in parts.items()
        if part not in ("seed", "layout", "format", "env")
        for key, value in values.items()
    }


def _maze_panel(group: Group[Run], leave_out: LeaveOut) -> MazePanel | None:
    """The panel of a method, without the runs whose episodes or model cannot be read; None where none is left."""
    names = measures_of(group.runs[0])
    runs = list(group.runs)
    while runs:
        middle = [
            measure_of(run, "distinguishability" if "distinguishability" in names else "coverage") for run in runs
        ]
        # The seed drawn is the one in the middle, not the prettiest.
        shown = runs[int(np.argsort(middle)[(len(runs) - 1) // 2])]
        try:
            frames, visits, density = _drawn(shown)
        except UNREADABLE as error:
            leave_out(shown.folder, error)
            runs.remove(shown)
            continue
        log = log_of(shown)
        captions = {
            int(step): line_of({name: log[name][index] for name in names}) for index, step in enumerate(log["step"])
        }
        return MazePanel(
            label=group.label,
            steps=shown.end,
            seeds=[run.config.seed for run in runs],
            summaries={
                name: summarise([measure_of(run, name) for run in runs]) if name in names else None for name in MEASURES
            },
            curves={name: curve_of(runs, name) for name in names},
            shown_seed=shown.config.seed,
            frame_steps=[step for step, _ in frames],
            frames=np.stack([positions[:, :EPISODES_SHOWN] for _, positions in frames]),
            captions=[captions.get(step, "") for step, _ in frames],
            visits=visits,
            density=density,
        )
    return None


def _drawn(run: Run) -> tuple[list[Frame], Float[np.ndarray, "k h w"], Float[np.ndarray, "k h w"] | None]:
    """What is drawn of a run: episodes, where they spend their time, and the density by its model."""
    frames = _frames(run)
    try:
        visits, _ = visitation_maps(frames[-1][1], run.config.layout)
    except ValueError as error:
        raise damaged(run.folder / "rollouts") from error
    return frames, visits, _model_density(run)


def _frames(run: Run) -> list[Frame]:
    """Step and episodes of the evaluations that are shown: all, or as many as fit, evenly spread, the last included."""
    paths = sorted(path for path in (run.folder / "rollouts").glob("*.npz") if path.stem.isdigit())
    if not paths:
        raise UserError(f"{run.folder} has lost its rollouts; restore them, or train that run again with --force.")
    places = np.unique(np.linspace(0, len(paths) - 1, min(len(paths), MOST_FRAMES)).round().astype(int))
    frames: list[Frame] = []
    for path in (paths[place] for place in places):
        try:
            with np.load(path, allow_pickle=False) as stored:
                positions = np.asarray(stored["positions"], np.float64)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise damaged(path) from error
        fits = positions.ndim == 4 and positions.shape[-1] == 2 and 0 not in positions.shape
        if not fits or not np.isfinite(positions).all() or (frames and positions.shape != frames[0][1].shape):
            raise damaged(path)
        frames.append((int(path.stem), positions))
    return frames


def _model_density(run: Run) -> Float[np.ndarray, "k h w"] | None:
    """Density of each skill by the method's own model, where there is a checkpoint and the method has such a model."""
    if run.newest_state() is None:  # a damaged checkpoint is told, not passed over
        return None
    try:
        return model_density_maps(run)[0]
    except UserError:
        return None
