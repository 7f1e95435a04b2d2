"""How long runs take: from rates measured once and shipped, and from the runs that this folder has seen."""

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from skillscape.envs.urlb.tasks import DOMAINS
from skillscape.experiments.urlb import SCRATCH
from skillscape.presets import hosted_settings
from skillscape.sweeps.plan import PlannedRun
from skillscape.sweeps.work import bookkeeping
from skillscape.training.runs import write_json

ACTING_LIKE = "walker"
"""The domain that an environment without a measurement of its own is taken for."""


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
    return Key(run.kind, run.method, run.env, run.preset)


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
    # Fine-tuning learns with DDPG alone; the skill that it is shown costs next to nothing.
    update = _learning(run.preset, run.method if run.kind == "pretrain" else SCRATCH)
    acting = rates["acting_core_milliseconds"]
    step = acting.get(run.env, acting[ACTING_LIKE])
    horizon = DOMAINS[run.env].horizon if run.env in DOMAINS else 1000
    evaluation = chosen.evaluation_episodes * horizon / chosen.evaluate_every
    return float((1 + evaluation) * step + update / chosen.backbone.schedule.update_every) / 1e3


def _learning(preset: str, method: str) -> float:
    """Core milliseconds of a learning step; where a method was not measured, by its ratio to DDPG in other presets."""
    tables: dict[str, dict[str, float]] = shipped_rates()["learning_core_milliseconds"]
    # A preset without a measurement is taken for the one that most runs have.
    own = tables.get(preset, tables["compact"])
    if method in own:
        return own[method]
    ratios = [table[method] / table[SCRATCH] for table in tables.values() if method in table]
    return own[SCRATCH] * max(ratios, default=max(own.values()) / own[SCRATCH])


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
