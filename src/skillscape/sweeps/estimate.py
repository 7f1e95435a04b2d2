"""How long runs take: from rates measured once and shipped, and from the runs that this folder has seen."""

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from skillscape.api import DRAWN_SKILLS
from skillscape.envs.host import PIXEL_DOMAINS, is_seen
from skillscape.envs.pixels import ACTION_REPEAT
from skillscape.envs.urlb.tasks import DOMAINS
from skillscape.experiments.urlb import LEARNERS, SCRATCH, SEEN_SCRATCH
from skillscape.presets import hosted_settings
from skillscape.sweeps.plan import PlannedRun
from skillscape.sweeps.work import bookkeeping
from skillscape.training.files import write_json

ACTING_LIKE = "walker"
"""The domain that an environment without a measurement of its own is taken for."""
CONTROLLER = "controller"
"""The strategy that has a pace of its own."""
SEEN = "seen-"
"""In front of the names of presets of images: `paper` is another one there."""


class Key(NamedTuple):
    """What decides the pace of a run."""

    kind: str
    method: str
    env: str
    preset: str


class Pace(NamedTuple):
    """Core seconds that some steps took."""

    steps: int
    core_seconds: float


def note_pace(run: PlannedRun, runs: Path, steps: int, core_seconds: float) -> None:
    """Keep what a worker has spent, so that the next estimate knows this machine."""
    if steps > 0:
        values = {**_key(run)._asdict(), "steps": steps, "core_seconds": core_seconds}
        write_json(bookkeeping(runs, "paces", f"{run.folder}.json"), values)


def _key(run: PlannedRun) -> Key:
    # A controller looks at every skill in every update, which no other fine-tuning does.
    kind = CONTROLLER if run.skill == CONTROLLER else run.kind
    return Key(kind, run.method, run.env, run.preset)


@cache
def shipped_rates() -> dict[str, Any]:
    """The rates that come with the package; the file says how they were measured."""
    found: dict[str, Any] = json.loads((files("skillscape.sweeps") / "data" / "rates.json").read_text())
    return found


def shipped_seconds_per_step(run: PlannedRun) -> float:
    """Core seconds of one environment step of a run, from the shipped rates."""
    rates = shipped_rates()
    if run.env.startswith("maze/"):
        by_method = rates["maze_core_milliseconds_per_step"]
        return float(by_method.get(run.method, max(by_method.values()))) / 1e3
    chosen = hosted_settings(None, run.env, run.preset)
    # Fine-tuning is the learner alone; one skill that it is shown costs next to nothing.
    update = _learning(run.preset, run.method if run.kind == "pretrain" else None, seen=is_seen(run.env))
    if run.skill == CONTROLLER:
        update *= rates["controller_times"]
    acting = rates["acting_core_milliseconds"]
    step = acting.get(run.env, acting[ACTING_LIKE])
    domain = PIXEL_DOMAINS.get(run.env, run.env)
    horizon = DOMAINS[domain].horizon if domain in DOMAINS else 1000
    if run.env in PIXEL_DOMAINS:
        horizon //= ACTION_REPEAT
    evaluation = _evaluation_episodes(run) * horizon / chosen.evaluate_every
    return float((1 + evaluation) * step + update / chosen.backbone.schedule.update_every) / 1e3


def _evaluation_episodes(run: PlannedRun) -> int:
    """Episodes of an evaluation: a pre-training plays every skill at least once."""
    chosen = hosted_settings(run.method if run.kind == "pretrain" else None, run.env, run.preset)
    if run.kind != "pretrain" or chosen.objective is None:
        return chosen.evaluation_episodes
    skills = dict(run.objective).get("number_of_skills", chosen.objective.skills.count or DRAWN_SKILLS)
    return max(int(skills), chosen.evaluation_episodes // int(skills) * int(skills))


def _learning(preset: str, method: str | None, *, seen: bool) -> float:
    """Core milliseconds of a learning step; where a method was not measured, by its ratio to the learner elsewhere.

    method: None is the learner alone; seen: from images, with Dreamer.
    """
    alone = SEEN_SCRATCH if seen else SCRATCH
    every: dict[str, dict[str, float]] = shipped_rates()["learning_core_milliseconds"]
    tables = {name: table for name, table in every.items() if name.startswith(SEEN) == seen}
    # A preset without a measurement is taken for the one that most runs have.
    own = tables.get(f"{SEEN}{preset}" if seen else preset, tables[f"{SEEN}laptop" if seen else "compact"])
    wanted = alone if method in (None, *LEARNERS) else str(method)
    if wanted in own:
        return own[wanted]
    ratios = [table[wanted] / table[alone] for table in tables.values() if wanted in table]
    dearest = max(max(table.values()) / table[alone] for table in tables.values())
    return own[alone] * max(ratios, default=dearest)


class Estimate:
    """Core seconds of runs: what this folder measured of their kind, else the shipped rates made to fit it."""

    def __init__(self, runs: Path) -> None:
        """Read what was measured below ``runs``."""
        self._runs = runs
        self._measured: dict[Key, Pace] = {}
        for path in sorted((runs / "sweeps" / "paces").rglob("*.json")):
            self._read(path)

    def learn_from(self, run: PlannedRun) -> None:
        """Count a run that has ended since."""
        self._read(bookkeeping(self._runs, "paces", f"{run.folder}.json"))

    def _read(self, path: Path) -> None:
        try:
            values = json.loads(path.read_text())
            key = Key(*(values[name] for name in Key._fields))
            steps, seconds = self._measured.get(key, Pace(0, 0.0))
            self._measured[key] = Pace(steps + values["steps"], seconds + values["core_seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            return  # an estimate is worth no error

    @property
    def measured(self) -> int:
        """How many kinds of runs were measured here."""
        return len(self._measured)

    def core_seconds(self, run: PlannedRun, steps: int | None = None) -> float:
        """Of a whole run, or of some of its steps."""
        taken = run.steps if steps is None else steps
        pace = self._measured.get(_key(run))
        if pace is not None and pace.steps:
            return taken * pace.core_seconds / pace.steps
        return taken * shipped_seconds_per_step(run)

    def total(self, runs: Iterable[PlannedRun]) -> float:
        """Core seconds of several runs."""
        return sum(self.core_seconds(run) for run in runs)
