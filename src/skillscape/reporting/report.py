"""A report on any set of runs: find, check, group and summarise them."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from skillscape.errors import UserError
from skillscape.evaluation.scores import Expert
from skillscape.formatting import counted
from skillscape.reporting.bodies import body_sections
from skillscape.reporting.collect import READ_ERRORS, NamedRun, OnMessage, check_run, find_runs
from skillscape.reporting.mazes import maze_sections
from skillscape.reporting.model import Report, Videos
from skillscape.reporting.tasks import task_name, task_sections
from skillscape.training.run import Run
from skillscape.training.versions import versions_of

MAX_VIDEO_BYTES = 30_000_000
"""Bytes of video that a page may hold."""


def gather(
    folders: Sequence[Path],
    *,
    title: str = "Skills",
    experts: Mapping[str, Expert] | None = None,
    on_message: OnMessage = lambda _: None,
) -> Report:
    """Read every finished run in or below the folders. Unreadable runs are left out and reported by ``on_message``.

    ``experts``: task → ``scores.Expert``, in addition to those of URLB.
    """
    folders_found = find_runs(folders)
    number = len(folders_found)
    on_message(f"reading {counted(number, 'run')}")
    left_out: dict[Path, str] = {}

    def leave_out(folder: Path, error: Exception) -> None:
        left_out[folder] = str(error) if isinstance(error, UserError) else f"{folder} is damaged: {error!r}."
        on_message(f"left out: {left_out[folder]}")

    named_runs: list[NamedRun] = []
    unfinished = []
    for name, folder in folders_found:
        try:
            run = Run(folder)
            if run.results is None:
                unfinished.append(folder)
                continue
            check_run(run)
        except READ_ERRORS as error:
            leave_out(folder, error)
        else:
            named_runs.append((name, run))
    mazes = maze_sections(named_runs, on_message, leave_out)
    bodies = body_sections(named_runs, on_message, leave_out)
    tasks = task_sections(named_runs, experts or {}, on_message)
    finished = [run for _, run in named_runs if run.folder not in left_out]
    if not finished and left_out:
        raise UserError(f"None of the {number} runs can be read: {next(iter(left_out.values()))}")
    if not finished:
        raise UserError(f"None of the {number} runs is finished; finish them with --resume, then report.")
    return Report(
        title=title,
        runs=[run.folder for run in finished],
        steps=max(run.config.steps for run in finished),
        unfinished=unfinished,
        left_out=list(left_out.items()),
        versions=versions_of(run.folder for run in finished),
        mazes=mazes,
        bodies=bodies,
        tasks=tasks,
        videos=_videos(named_runs),
    )


def _videos(named_runs: Sequence[NamedRun]) -> list[Videos]:
    """The videos of one run of each name: the first seed that has some, otherwise a hint how to record them.

    There is no hint for runs in mazes, whose skills are plotted anyway, nor for tasks beside pre-trainings.
    """
    by_name: dict[str, list[Run]] = {}
    for name, run in named_runs:
        by_name.setdefault(name, []).append(run)
    pretrained = any(run.config.task is None and run.layout is None for _, run in named_runs)
    videos, bytes_left = [], MAX_VIDEO_BYTES
    for name, runs in by_name.items():
        recorded = [run for run in runs if any((run.folder / "videos").glob("*.mp4"))]
        run = (recorded or runs)[0]
        if not recorded and (run.layout is not None or (pretrained and run.config.task is not None)):
            continue
        clips, left_out = [], 0
        for path in sorted((run.folder / "videos").glob("*.mp4")):
            if path.stat().st_size > bytes_left:
                left_out += 1
                continue
            bytes_left -= path.stat().st_size
            clips.append((re.sub(r"_0*(\d+)$", r" \1", path.stem), path.read_bytes()))
        place = run.config.env if run.config.task is None else task_name(run.config)
        title = f"{run.config.label} · {place} · seed {run.config.seed} ({name})"
        videos.append(Videos(title, str(run.folder), clips, left_out))
    return videos
