"""A report as data: what ``collect`` and its neighbours read from runs, and what ``files`` and ``html`` write of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from skillscape.envs.mazes.layouts import Layout
from skillscape.evaluation.scoreboard import Scoreboard
from skillscape.evaluation.scores import Cell, Published, Row
from skillscape.evaluation.summary import Summary
from skillscape.plots.curves import Curve


@dataclass(frozen=True)
class MazePanel:
    """What one method did in a maze: measures over all its seeds, and the episodes of one of them."""

    label: str
    steps: int
    """Environment steps of training."""
    seeds: Sequence[int]
    summaries: Mapping[str, Summary | None]
    """Measure → mean and interval over the seeds; None where it says nothing of the method."""
    curves: Mapping[str, Curve]
    """Measure → learning curve; without those that say nothing of the method."""
    shown_seed: int
    frame_steps: Sequence[int]
    """Steps of training at which the episodes were played, ascending."""
    frames: Float[np.ndarray, "f k r t 2"]
    """Episodes at each of these steps."""
    captions: Sequence[str]
    """A line of numbers for each of these steps."""
    visits: Float[np.ndarray, "k h w"]
    """Share of its time that each skill spends in each square, row 0 at the bottom, NaN outside of the maze."""
    density: Float[np.ndarray, "k h w"] | None
    """p(s|z) by the method's own model, where it has one of positions."""


@dataclass(frozen=True)
class MazeSection:
    """All methods that were pre-trained in one maze."""

    env: str
    """The name of the environment on the page."""
    layout: Layout
    panels: Sequence[MazePanel]


class Budget(NamedTuple):
    """Environment steps without reward and with it, and the number of seeds, in words where it varies by task."""

    pretraining: int
    finetuning: int
    seeds: str

    def __str__(self) -> str:
        """The line over a column."""
        return f"{self.pretraining:,} + {self.finetuning:,} steps, {self.seeds}"


@dataclass(frozen=True)
class TaskSection:
    """All methods on tasks with a reward, at one budget of fine-tuning, from states or from images."""

    finetuning: int
    images: bool
    """Whether the agent saw images, not the state."""
    tasks: Sequence[str]
    rows: Sequence[Row]
    """Method, task, seed and the return of the last evaluation."""
    budgets: Mapping[str, Budget]
    """Method → what was spent on it; the order of the columns."""
    cells: Mapping[tuple[str, str], Cell]
    """(method, task) → ``rows`` over the seeds."""
    published: Mapping[tuple[str, str], Published]
    """(method, task) → the paper's number; methods by their plain names, however many ways they were run here."""
    published_budget: str
    published_aggregates: Mapping[str, Mapping[str, float]]
    """Method → statistic → the paper's number."""
    board: Scoreboard | None
    """Aggregates over what is complete; None where nothing is."""
    notes: Sequence[str]
    """What was left out of the aggregates, and why."""
    curves: Mapping[str, Mapping[str, Curve]]
    """Task → method → learning curve of the return."""


@dataclass(frozen=True)
class Videos:
    """The videos of one run, one per skill; none if there are none yet."""

    title: str
    run: str
    clips: Sequence[tuple[str, bytes]]
    """Name and MP4."""
    left_out: int = 0
    """Clips that would have made the page too large."""


@dataclass(frozen=True)
class Report:
    """All that is told of a set of runs."""

    title: str
    runs: Sequence[Path]
    """Folders of the finished runs that were read."""
    steps: int
    """The largest budget of one of them."""
    unfinished: Sequence[Path]
    left_out: Sequence[tuple[Path, str]]
    """Runs that could not be read, and why."""
    versions: Mapping[str, Sequence[str]]
    """What the runs were trained with: package → versions."""
    mazes: Sequence[MazeSection]
    tasks: Sequence[TaskSection]
    videos: Sequence[Videos]
