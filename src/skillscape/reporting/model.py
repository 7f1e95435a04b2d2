"""A report as data: written by ``collect``, ``mazes``, ``bodies`` and ``tasks``, read by ``files`` and ``html``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from skillscape.envs.mazes.layouts import Layout
from skillscape.evaluation.costs import Cost
from skillscape.evaluation.scoreboard import Scoreboard
from skillscape.evaluation.scores import PublishedTable, ScoreRow, TaskScore
from skillscape.evaluation.summary import Summary
from skillscape.plots.curves import Curve


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Results of one method in an environment: measures over all its seeds, and what they cost."""

    label: str
    steps: int
    """Environment steps of training."""
    seeds: Sequence[int]
    summaries: Mapping[str, Summary | None]
    """Measure → mean and interval over seeds; None where a measure is undefined or was not taken."""
    curves: Mapping[str, Curve]
    """Measure → learning curve; such measures are left out."""
    shown_seed: int
    """The seed whose episodes are shown."""
    cost: Cost


@dataclass(frozen=True)
class MazePanel(Panel):
    """Results of one method in a maze: measures over all its seeds, and the episodes of one of them."""

    frame_steps: Sequence[int]
    """Training steps of the evaluations, ascending."""
    frames: Float[np.ndarray, "f k r t 2"]
    """Episodes of each evaluation."""
    captions: Sequence[str]
    """Measures of each evaluation on one line."""
    visits: Float[np.ndarray, "k h w"]
    """Fraction of time that each skill spends in each square, row 0 at the bottom, NaN outside of the maze."""
    density: Float[np.ndarray, "k h w"] | None
    """p(s|z) by the method's own model, if it has one of positions."""


@dataclass(frozen=True)
class MazeSection:
    """All methods that were pre-trained in one maze."""

    env: str
    """Name of the environment on the page."""
    layout: Layout
    panels: Sequence[MazePanel]


@dataclass(frozen=True)
class BodyPanel(Panel):
    """Results of one method with a body whose position is told: measures over its seeds, and the paths of one."""

    paths: Float[np.ndarray, "k r t p"]
    """Positions of the newest evaluation, NaN after the end of an episode."""


@dataclass(frozen=True)
class BodySection:
    """All methods that were pre-trained in one environment outside mazes."""

    env: str
    panels: Sequence[BodyPanel]


class Budget(NamedTuple):
    """Pre-training and fine-tuning steps, and the number of seeds as text, since it may vary by task."""

    pretraining: int
    finetuning: int
    seeds: str

    def __str__(self) -> str:
        """The line in the head of a column."""
        return f"{self.pretraining:,} + {self.finetuning:,} steps, {self.seeds}"


@dataclass(frozen=True)
class TaskSection:
    """All methods on tasks with a reward, at one fine-tuning budget, from states or from images."""

    finetuning: int
    images: bool
    """Whether observations are images."""
    tasks: Sequence[str]
    rows: Sequence[ScoreRow]
    """Method, task, seed and the return of the last evaluation."""
    budgets: Mapping[str, Budget]
    """Method → its budget, in the order of the columns."""
    cells: Mapping[tuple[str, str], TaskScore]
    """(method, task) → summary of ``rows`` over seeds."""
    costs: Mapping[str, Cost]
    """Method → what its runs cost, over all tasks and seeds."""
    published: Sequence[PublishedTable]
    """Published tables, the paper's first; methods by their plain names, without the variants of this report."""
    published_aggregates: Mapping[str, Mapping[str, float]]
    """Method → statistic → the paper's number."""
    board: Scoreboard | None
    """Aggregates over the complete rows; None if there are none."""
    notes: Sequence[str]
    """Scores that are missing from the aggregates, and why."""
    curves: Mapping[str, Mapping[str, Curve]]
    """Task → method → learning curve of the return."""


@dataclass(frozen=True)
class Videos:
    """The videos of one run, one per skill; empty if none were recorded."""

    title: str
    run: str
    clips: Sequence[tuple[str, bytes]]
    """Name and MP4 of each video."""
    left_out: int = 0
    """Number of videos that would have made the page too large."""


@dataclass(frozen=True)
class Report:
    """The contents of a report on a set of runs."""

    title: str
    runs: Sequence[Path]
    """Folders of the finished runs that were read."""
    steps: int
    """Largest number of training steps of a run."""
    unfinished: Sequence[Path]
    left_out: Sequence[tuple[Path, str]]
    """Folder of each run that could not be read, and the reason."""
    versions: Mapping[str, Sequence[str]]
    """Package → versions that the runs were trained with."""
    mazes: Sequence[MazeSection]
    bodies: Sequence[BodySection]
    tasks: Sequence[TaskSection]
    videos: Sequence[Videos]

    @property
    def skills(self) -> Sequence[MazeSection | BodySection]:
        """Every section about pre-trained skills."""
        return [*self.mazes, *self.bodies]
