"""Cost model: core seconds of runs, from rates measured in this folder of runs or else from shipped rates."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from skillscape.config import RunConfig
from skillscape.experiments.grid import RunSpec
from skillscape.experiments.worker import bookkeeping
from skillscape.training.files import write_json
from skillscape.training.policy import DRAWN_SKILLS


class Key(NamedTuple):
    """What the rate of a run depends on."""

    phase: str
    strategy: str
    """How the skill is selected: a controller evaluates all skills in each update."""
    method: str
    backbone: str
    env: str
    preset: str


def record_rate(spec: RunSpec, runs: Path, steps: int, core_seconds: float) -> None:
    """Store the measured cost of a run for later estimates on this machine."""
    if steps > 0:
        values = {**_key(spec)._asdict(), "steps": steps, "core_seconds": core_seconds}
        write_json(bookkeeping(runs, "paces", f"{spec.folder}.json"), values)


def _key(spec: RunSpec) -> Key:
    config = spec.config
    return Key(config.phase, config.strategy.kind, config.method, config.backbone.name, config.env, spec.preset)


@cache
def shipped_rates() -> dict[str, Any]:
    """The rates that come with the package; the file says how they were measured."""
    rates: dict[str, Any] = json.loads((files("skillscape.experiments") / "data" / "rates.json").read_text())
    return rates


def shipped_seconds_per_step(spec: RunSpec) -> float:
    """Core seconds of one environment step of a run, from the shipped rates."""
    rates, config = shipped_rates(), spec.config
    if config.backbone.on_policy:
        by_method = _known(_known(rates["step_core_milliseconds"], config.backbone.name), spec.preset)
        return float(by_method.get(config.method, max(by_method.values()))) / 1e3
    update = _learning(rates["learning_core_milliseconds"], spec)
    if config.strategy.kind == "controller":
        update *= rates["controller_times"]
    acting, horizon = (_known(rates[table], config.env) for table in ("acting_core_milliseconds", "steps_per_episode"))
    evaluation = _evaluation_episodes(config) * horizon / config.evaluation.every
    return float((1 + evaluation) * acting + update / config.backbone.schedule.update_every) / 1e3


def _known(table: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401  a rate, or a table of them
    """The entry of a name, or the first entry if there is none."""
    return table.get(name, next(iter(table.values())))


def _evaluation_episodes(config: RunConfig) -> int:
    """Episodes of an evaluation: in pre-training at least one for each skill."""
    if config.phase != "pretrain":
        return config.evaluation.episodes
    skills = config.reward.skills.count or DRAWN_SKILLS
    return max(skills, config.evaluation.episodes // skills * skills)


def _learning(backbones: Mapping[str, Mapping[str, Mapping[str, float]]], spec: RunSpec) -> float:
    """Core milliseconds of an update, by backbone, preset and method; under its own name, of the backbone alone.

    A method that was not measured with a preset is scaled by its ratio to the backbone alone with another preset.
    """
    name = spec.config.backbone.name
    alone = name if name in backbones else next(iter(backbones))
    tables = backbones[alone]
    own = _known(tables, spec.preset)
    # Fine-tuning costs as much as the backbone alone.
    method = spec.config.method if spec.config.phase == "pretrain" else alone
    if method in own:
        return float(own[method])
    ratios = [table[method] / table[alone] for table in tables.values() if method in table]
    largest = max(max(table.values()) / table[alone] for table in tables.values())
    return float(own[alone] * max(ratios, default=largest))


class CostModel:
    """Core seconds of runs by their ``Key``: as measured below a folder, otherwise from the shipped rates."""

    def __init__(self, runs: Path) -> None:
        """Read the rates measured below ``runs``."""
        self._runs = runs
        self._measured: dict[Key, tuple[int, float]] = {}
        for path in sorted((runs / "sweeps" / "paces").rglob("*.json")):
            self._read(path)

    def learn_from(self, spec: RunSpec) -> None:
        """Add the measured rate of a run that has ended."""
        self._read(bookkeeping(self._runs, "paces", f"{spec.folder}.json"))

    def _read(self, path: Path) -> None:
        try:
            values = json.loads(path.read_text())
            key = Key(*(values[name] for name in Key._fields))
            steps, seconds = self._measured.get(key, (0, 0.0))
            self._measured[key] = steps + values["steps"], seconds + values["core_seconds"]
        except (OSError, ValueError, KeyError, TypeError):
            return  # an estimate is worth no error

    @property
    def measured(self) -> int:
        """Number of keys with a measured rate."""
        return len(self._measured)

    def core_seconds(self, spec: RunSpec, steps: int | None = None) -> float:
        """Core seconds of a run, or of some of its steps."""
        number = spec.config.steps if steps is None else steps
        measured_steps, seconds = self._measured.get(_key(spec), (0, 0.0))
        if measured_steps:
            return number * seconds / measured_steps
        return number * shipped_seconds_per_step(spec)

    def total(self, specs: Iterable[RunSpec]) -> float:
        """Core seconds of several runs."""
        return sum(self.core_seconds(spec) for spec in specs)
