"""A report on any set of runs: found in folders, grouped by what was trained, and measured."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from skillscape.errors import UserError
from skillscape.evaluation.scores import Expert
from skillscape.reporting.collect import UNREADABLE, Found, check_run, find_runs
from skillscape.reporting.mazes import OnMessage, maze_sections
from skillscape.reporting.model import Report, Videos
from skillscape.reporting.tasks import task_name, task_sections
from skillscape.training.run import Run
from skillscape.training.versions import versions_of
from skillscape.words import counted

LARGEST_VIDEOS = 30_000_000
"""Bytes of video that a page may hold."""


def gather(
    folders: Sequence[Path],
    *,
    title: str = "Skills",
    experts: Mapping[str, Expert] | None = None,
    on_message: OnMessage = lambda _: None,
) -> Report:
    """Read every finished run in or below the folders. A run that cannot be read is left out, and told.

    ``experts``: scores that join those of URLB, by task; see ``scores.Expert``.
    """
    folders_found = find_runs(folders)
    number = len(folders_found)
    on_message(f"reading {counted(number, 'run')}")
    left_out: dict[Path, str] = {}

    def leave_out(folder: Path, error: Exception) -> None:
        left_out[folder] = str(error) if isinstance(error, UserError) else f"{folder} is damaged: {error!r}."
        on_message(f"left out: {left_out[folder]}")

    found: list[Found] = []
    unfinished = []
    for name, folder in folders_found:
        try:
            run = Run(folder)
            if run.results is None:
                unfinished.append(folder)
                continue
            check_run(run)
        except UNREADABLE as error:
            leave_out(folder, error)
        else:
            found.append((name, run))
    mazes = maze_sections(found, on_message, leave_out)
    tasks = task_sections(found, experts or {}, on_message)
    finished = [run for _, run in found if run.folder not in left_out]
    if not finished and left_out:
        raise UserError(f"None of the {number} runs can be reported: {next(iter(left_out.values()))}")
    if not finished:
        raise UserError(f"None of the {number} runs is finished; go on with --resume, then report.")
    return Report(
        title=title,
        runs=[run.folder for run in finished],
        steps=max(run.config.steps for run in finished),
        unfinished=unfinished,
        left_out=list(left_out.items()),
        versions=versions_of(run.folder for run in finished),
        mazes=mazes,
        tasks=tasks,
        videos=_videos(found),
    )


def _videos(found: Sequence[Found]) -> list[Videos]:
    """The videos of one run of each name: the first seed that has some, else a word on how to make them.

    In mazes, skills are drawn already; elsewhere, one word per pre-training is enough where there are any.
    """
    families: dict[str, list[Run]] = {}
    for name, run in found:
        families.setdefault(name, []).append(run)
    pretrained = any(run.config.task is None and run.layout is None for _, run in found)
    shown, left = [], LARGEST_VIDEOS
    for name, runs in families.items():
        filmed = [run for run in runs if any((run.folder / "videos").glob("*.mp4"))]
        run = (filmed or runs)[0]
        if not filmed and (run.layout is not None or (pretrained and run.config.task is not None)):
            continue
        clips, left_out = [], 0
        for path in sorted((run.folder / "videos").glob("*.mp4")):
            if path.stat().st_size > left:
                left_out += 1
                continue
            left -= path.stat().st_size
            clips.append((re.sub(r"_0*(\d+)$", r" \1", path.stem), path.read_bytes()))
        place = run.config.env if run.config.task is None else task_name(run.config)
        title = f"{run.config.label} · {place} · seed {run.config.seed} ({name})"
        shown.append(Videos(title, str(run.folder), clips, left_out))
    return shown
