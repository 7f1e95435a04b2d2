"""What is trained: columns of a table × environments × tasks × seeds, as configurations of runs and their folders."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from skillscape import backbones, configure, presets
from skillscape.config import RunConfig
from skillscape.config_io import as_json, nested, overridden, setting
from skillscape.envs.gymnasium_modules import trust
from skillscape.envs.registry import family_of
from skillscape.errors import UserError, choose
from skillscape.launch import checked_spec
from skillscape.objectives import trainable

Pairs: TypeAlias = tuple[tuple[str, Any], ...]
"""Settings and the value each of them has; those of a group by names with dots, "world.deter"."""
NOISE = "env.noise"
LONGEST_WORDS = 150
"""Characters that settings may have in the name of a folder, which has at most 255 with method and place."""
MOST_RUNS = 100_000
"""Runs of a grid; one beyond is a slip of the pen, and would only be counted for hours."""


@dataclass(frozen=True)
class Variant:
    """A column of a table: a method, how it is pre-trained, and which of its skills is fine-tuned."""

    label: str
    method: str | None
    """The method to pre-train; None is training from scratch."""
    backbone: str | None = None
    """The RL algorithm; the environment's default if None."""
    objective: Pairs = ()
    """Settings of the method in place of the preset's."""
    settings: Pairs = ()
    """Settings of the backbone in place of the preset's."""
    noise: float = 0.0
    """Standard deviation of the observation noise in pre-training."""
    steps: int | None = None
    """Steps of pre-training; the grid's if None."""
    skill: str | None = None
    """Which skill is fine-tuned; the method's own rule if None."""
    snapshot: int | None = None
    """Step of the pre-training that is fine-tuned; its last if None."""


def variant(name: str, label: str | None = None, **settings: Any) -> Variant:  # noqa: ANN401  see ``Variant``
    """The column of a method, or of training from scratch with a backbone, by the name of either."""
    choose("method", name, [*trainable(), *backbones.registry()], "skillscape methods")
    if name in trainable():
        return Variant(label or name, name, **settings)
    return Variant(label or name, None, **{**settings, "backbone": name})


@dataclass(frozen=True)
class RunSpec:
    """One run. Its folder says all that sets it apart: a run that is done, or asked for twice, is recognised by it."""

    label: str
    """The column that it belongs to."""
    config: RunConfig
    folder: str
    """Below the folder of all runs; the last part is seed_N."""
    needs: str | None = None
    """Folder of the pre-training that a fine-tuning begins with."""
    preset: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What is not as in the preset, by name."""

    @property
    def title(self) -> str:
        """The run in words."""
        return f"{Path(self.folder).parent.name} · seed {self.config.seed}"

    def of_seed(self, seed: int) -> "RunSpec":
        """The same with a seed, from a spec whose folders lack it."""
        name = f"seed_{seed}"
        needs = None if self.needs is None else f"{self.needs}/{name}"
        config = replace(self.config, seed=seed, source=None if needs is None else name)
        return replace(self, config=config, folder=f"{self.folder}/{name}", needs=needs)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that ``from_json`` reads back."""
        return {**vars(self), "config": self.config.to_json()}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "RunSpec":
        """Rebuild what ``to_json`` wrote."""
        return RunSpec(**{**values, "config": RunConfig.from_json(values["config"])})


@dataclass(frozen=True)
class Grid:
    """Every column in every environment with every seed, and each of them on every task."""

    name: str
    variants: tuple[Variant, ...]
    envs: tuple[str, ...]
    tasks: tuple[str, ...] | None = None
    """Tasks to learn; all that each environment lists if None, pre-training only if empty."""
    seeds: tuple[int, ...] = (0,)
    preset: str | None = None
    """The default of each environment's benchmark if None."""
    steps: int | None = None
    """Steps of pre-training; the preset's if None."""
    finetuning_steps: int | None = None
    """Steps of fine-tuning, and of training from scratch; the preset's if None."""
    evaluation: Pairs = ()
    """Settings of the evaluation in place of the preset's."""
    env_kwargs: Pairs = ()
    """Keyword arguments that environments are made with."""
    copies: int | None = None
    """Copies of an environment that are stepped side by side; one if None."""

    @cached_property
    def specs(self) -> tuple[RunSpec, ...]:
        """All runs of every column, each after what it needs, seed by seed; what could not be trained is refused.

        A run that columns share is there once for each of them; see ``distinct``.
        """
        self._check()
        columns = [list(_runs(self, variant, env)) for env in self.envs for variant in self.variants]
        found = [spec.of_seed(seed) for seed in self.seeds for column in columns for spec in column]
        if not found:
            raise UserError("There is no run: training from scratch needs a task; add one, or a method to pre-train.")
        distinct(found)
        return tuple(found)

    def tasks_of(self, env: str) -> tuple[str, ...]:
        """The tasks that are learned in an environment."""
        family = family_of(env)
        return family.tasks(env) if self.tasks is None else tuple(task for task in self.tasks if _has(env, task))

    def _check(self) -> None:
        if not (self.variants and self.envs and self.seeds):
            raise UserError("There is nothing to train: give at least one method, one environment and one seed.")
        for env in self.envs:
            trust(env)  # the user has named the grid, and so all that stands in it
            family_of(env)
        for task in self.tasks or ():
            if not any(_has(env, task) for env in self.envs):
                family_of(self.envs[0]).task(self.envs[0], task)  # refuses it, and says what there is
        runs = sum(max(1, len(self.tasks_of(env))) for env in self.envs)
        if len(self.variants) * len(self.seeds) * runs > MOST_RUNS:
            raise UserError(f"The grid has more than {MOST_RUNS:,} runs; try fewer values at a time.")


def distinct(specs: Iterable[RunSpec]) -> list[RunSpec]:
    """Every run once; two that differ and would share a folder are refused."""
    found: dict[str, RunSpec] = {}
    for spec in specs:
        if found.setdefault(spec.folder, spec).config != spec.config:
            raise UserError(f"Two different runs would share the folder {spec.folder}; train them apart.")
    return list(found.values())


def _has(env: str, task: str) -> bool:
    try:
        family_of(env).task(env, task)
    except UserError:
        return False
    return True


def _runs(grid: Grid, variant: Variant, env: str) -> Iterator[RunSpec]:
    """The runs of a column in one environment, without their seed."""
    kwargs, tasks = dict(grid.env_kwargs), grid.tasks_of(env)
    preset = grid.preset or presets.default_preset(family_of(env).benchmark(env, kwargs=kwargs))
    common: dict[str, Any] = {"preset": preset, "env_kwargs": kwargs, "copies": grid.copies}
    common["backbone"] = variant.backbone
    if variant.method is not None:
        budget = variant.steps or grid.steps
        usual = configure.pretraining(variant.method, env, steps=budget, noise=variant.noise, **common)
    elif tasks:
        usual = configure.from_scratch(env, tasks[0], steps=grid.finetuning_steps, **common)
    else:
        return
    base = _overridden(grid, variant, usual)
    last = _last_step(base)
    settings = _changes(grid, variant, usual, base)

    def spec(config: RunConfig, budgets: Iterable[int], rest: Iterable[str] = (), needs: str | None = None) -> RunSpec:
        return RunSpec(variant.label, config, _folder(config, preset, settings, budgets, rest), needs, preset, settings)

    if base.objective is None:
        yield from (spec(replace(base, task=task), (base.steps,)) for task in tasks)
        return
    source = spec(base, (base.steps,))
    yield source
    if not tasks:
        return
    kept = {*base.snapshots, last}
    if variant.snapshot not in (None, *kept):
        listed = ", ".join(f"{step}" for step in sorted(kept))
        raise UserError(f"snapshots cannot have {variant.snapshot}: the runs of this preset and budget keep {listed}.")
    # Methods without skills have nothing to choose.
    skill = variant.skill if base.objective.skills.width else None
    snapshot = variant.snapshot or last
    tuned = configure.finetuning(base, tasks[0], source="", snapshot=snapshot, skill=skill, steps=grid.finetuning_steps)
    _last_step(tuned)
    # The method's own rule is the same run by either name, and so is the last snapshot.
    rest = [tuned.skill] * (tuned.skill != base.objective.adaptation) + [f"from-{snapshot}"] * (snapshot != last)
    for task in tasks:
        yield spec(replace(tuned, task=task), (base.steps, tuned.steps), rest, source.folder)


def _overridden(grid: Grid, variant: Variant, config: RunConfig) -> RunConfig:
    """A configuration with the settings of a column and of the grid."""
    if config.objective is not None:
        config = replace(config, objective=overridden(config.objective, nested(variant.objective), "objective"))
    backbone = overridden(config.backbone, nested(variant.settings), "backbone")
    return replace(
        config, backbone=backbone, evaluation=overridden(config.evaluation, nested(grid.evaluation), "evaluation")
    )


def _last_step(config: RunConfig) -> int:
    """The last step; what could not be trained is refused, as far as that can be told without a simulator."""
    config.check()
    # An environment that is compiled costs nothing to make, and on-policy backbones learn in no other.
    stride = config.backbone.steps_per_iteration(checked_spec(config)) if config.backbone.on_policy else 1
    return config.steps // stride * stride


def _changes(grid: Grid, variant: Variant, usual: RunConfig, config: RunConfig) -> dict[str, Any]:
    """What is not as in the preset, by the name that it has in folders and results."""
    found: dict[str, Any] = {}
    if config.objective is not None and variant.backbone is not None:
        benchmark = config.family.benchmark(config.env, kwargs=config.env_kwargs)
        default = presets.get(None, benchmark, config.env, grid.preset).backbone.name
        found |= {} if variant.backbone == default else {"backbone": variant.backbone}
    for prefix, theirs, ours, pairs in (
        ("", usual.objective, config.objective, variant.objective),
        ("backbone.", usual.backbone, config.backbone, variant.settings),
        ("evaluation.", usual.evaluation, config.evaluation, grid.evaluation),
    ):
        names = [name for name, _ in pairs if ours is not None and setting(ours, name) != setting(theirs, name)]
        found |= {f"{prefix}{name}": as_json(setting(ours, name)) for name in names}
    found |= {f"env.kwargs.{name}": as_json(value) for name, value in grid.env_kwargs}
    found |= {"env.copies": config.copies} if config.copies > 1 else {}
    return {**found, NOISE: config.noise} if config.noise else found


def _folder(
    config: RunConfig, preset: str, settings: Mapping[str, Any], budgets: Iterable[int], rest: Iterable[str] = ()
) -> str:
    """Where the seeds of a run live: FAMILY-PRESET-STEPS[-FINETUNINGSTEPS]/METHOD[-SETTINGS]-PLACE[-SKILL][-from-STEP].

    Every run of `skillscape reproduce` and `skillscape sweep` is named here, so that they share what they train.
    """
    group = "-".join([config.family.name, preset, *(f"{steps}" for steps in budgets)])
    words = [f"noise-{value:g}" if name == NOISE else f"{name}={_word(value)}" for name, value in settings.items()]
    return f"{group}/{'-'.join([config.method, *_shortened(words), _place(config), *rest])}"


def _shortened(words: list[str]) -> list[str]:
    """The words as they are, or, where file systems would refuse so long a name, their beginning and a digest."""
    joined = "-".join(words)
    if len(joined) <= LONGEST_WORDS:
        return words
    return [f"{joined[: LONGEST_WORDS - 9]}-{hashlib.sha256(joined.encode()).hexdigest()[:8]}"]


def _place(config: RunConfig) -> str:
    """Environment and task; a task that names its environment stands for both."""
    place = config.family.folder_name(config.env)
    if config.task is None:
        return place
    if config.task == config.env:
        return f"{place}-task"
    task = re.sub(r"[^\w.-]", "-", config.task)
    return task if task.startswith(place) else f"{place}-{task}"


def _word(value: Any) -> str:  # noqa: ANN401
    """A value as it stands in the name of a folder: 256, 0.001, 64x64."""
    if isinstance(value, list):
        return "x".join(_word(entry) for entry in value)
    return f"{value:g}" if isinstance(value, float) else re.sub(r"[^\w.+-]", "-", f"{value}")
