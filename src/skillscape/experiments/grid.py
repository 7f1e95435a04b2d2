"""Grids of runs: columns of a table × environments × tasks × seeds, as run configurations with their folders."""

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
"""Names of settings with their values; settings of a group have dotted names, such as "world.deter"."""
NOISE = "env.noise"
LONGEST_WORDS = 150
"""Characters that settings may have in the name of a folder, which has at most 255 with method and place."""
MOST_RUNS = 100_000
"""Largest number of runs in a grid; a larger grid is a typing error that would take hours to enumerate."""


@dataclass(frozen=True)
class Variant:
    """A column of a table: a method, how it is pre-trained, and which of its skills is fine-tuned."""

    label: str
    method: str | None
    """The method to pre-train; None for training from scratch."""
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
    """How the fine-tuned skill is selected; the method's own rule if None."""
    snapshot: int | None = None
    """Step of the snapshot that is fine-tuned; the last if None."""


def variant(name: str, label: str | None = None, **settings: Any) -> Variant:  # noqa: ANN401  see ``Variant``
    """The column of a method, or of training from scratch with a backbone, by the name of either."""
    choose("method", name, [*trainable(), *backbones.registry()], "skillscape methods")
    if name in trainable():
        return Variant(label or name, name, **settings)
    return Variant(label or name, None, **{**settings, "backbone": name})


@dataclass(frozen=True)
class RunSpec:
    """One run, identified by its folder, whose name encodes every setting that distinguishes the run."""

    label: str
    """Label of the column."""
    config: RunConfig
    folder: str
    """Path below the folder of all runs, ending in seed_N."""
    needs: str | None = None
    """Folder of the pre-training that a fine-tuning starts from."""
    preset: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Name → value of the settings that differ from the preset."""

    @property
    def title(self) -> str:
        """Name of the run in progress lines."""
        return f"{Path(self.folder).parent.name} · seed {self.config.seed}"

    def of_seed(self, seed: int) -> "RunSpec":
        """The spec of one seed, made from a spec whose folders have no seed yet."""
        name = f"seed_{seed}"
        needs = None if self.needs is None else f"{self.needs}/{name}"
        config = replace(self.config, seed=seed, source=None if needs is None else name)
        return replace(self, config=config, folder=f"{self.folder}/{name}", needs=needs)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that ``from_json`` reads back."""
        return {**vars(self), "config": self.config.to_json()}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "RunSpec":
        """The inverse of ``to_json``."""
        return RunSpec(**{**values, "config": RunConfig.from_json(values["config"])})


@dataclass(frozen=True)
class Grid:
    """All columns in all environments with all seeds, fine-tuned on all tasks."""

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
        """The runs of all columns, each after the run that it needs; settings that cannot be trained are refused.

        A run that several columns share is listed once for each of them; see ``distinct``.
        """
        self._check()
        columns = [list(_runs(self, variant, env)) for env in self.envs for variant in self.variants]
        specs = tuple(spec.of_seed(seed) for seed in self.seeds for column in columns for spec in column)
        if not specs:
            raise UserError("There is no run: training from scratch needs a task; add one, or a method to pre-train.")
        distinct(specs)
        return specs

    def tasks_of(self, env: str) -> tuple[str, ...]:
        """The tasks of the grid in an environment."""
        family = family_of(env)
        return family.tasks(env) if self.tasks is None else tuple(task for task in self.tasks if _has(env, task))

    def _check(self) -> None:
        if not (self.variants and self.envs and self.seeds):
            raise UserError("There is nothing to train: give at least one method, one environment and one seed.")
        for env in self.envs:
            trust(env)  # the user wrote the grid, and so named its environments
            family_of(env)
        for task in self.tasks or ():
            if not any(_has(env, task) for env in self.envs):
                family_of(self.envs[0]).task(self.envs[0], task)  # refuses it and lists the known tasks
        runs = sum(max(1, len(self.tasks_of(env))) for env in self.envs)
        if len(self.variants) * len(self.seeds) * runs > MOST_RUNS:
            raise UserError(f"The grid has more than {MOST_RUNS:,} runs; try fewer values at a time.")


def distinct(specs: Iterable[RunSpec]) -> list[RunSpec]:
    """Each run once; two different runs with the same folder are refused."""
    by_folder: dict[str, RunSpec] = {}
    for spec in specs:
        if by_folder.setdefault(spec.folder, spec).config != spec.config:
            raise UserError(f"Two different runs would share the folder {spec.folder}; train them apart.")
    return list(by_folder.values())


def _has(env: str, task: str) -> bool:
    try:
        family_of(env).task(env, task)
    except UserError:
        return False
    return True


def _runs(grid: Grid, variant: Variant, env: str) -> Iterator[RunSpec]:
    """The runs of a column in one environment, without their seeds."""
    kwargs, tasks = dict(grid.env_kwargs), grid.tasks_of(env)
    preset = grid.preset or presets.default_preset(family_of(env).benchmark(env, kwargs=kwargs))
    common: dict[str, Any] = {"preset": preset, "env_kwargs": kwargs, "copies": grid.copies}
    common["backbone"] = variant.backbone
    if variant.method is not None:
        budget = variant.steps or grid.steps
        default = configure.pretraining(variant.method, env, steps=budget, noise=variant.noise, **common)
    elif tasks:
        default = configure.from_scratch(env, tasks[0], steps=grid.finetuning_steps, **common)
    else:
        return
    base = _overridden(grid, variant, default)
    last = _last_step(base)
    settings = _changes(grid, variant, default, base)

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
    # Methods without skills have none to select.
    skill = variant.skill if base.objective.skills.width else None
    snapshot = variant.snapshot or last
    tuned = configure.finetuning(base, tasks[0], source="", snapshot=snapshot, skill=skill, steps=grid.finetuning_steps)
    _last_step(tuned)
    # Naming the default rule or the last snapshot explicitly gives the same run.
    rest = [tuned.skill] * (tuned.skill != base.adaptation) + [f"from-{snapshot}"] * (snapshot != last)
    for task in tasks:
        yield spec(replace(tuned, task=task), (base.steps, tuned.steps), rest, source.folder)


def _overridden(grid: Grid, variant: Variant, config: RunConfig) -> RunConfig:
    """A configuration with the settings of the column and of the grid."""
    if config.objective is not None:
        config = replace(config, objective=overridden(config.objective, nested(variant.objective), "objective"))
    backbone = overridden(config.backbone, nested(variant.settings), "backbone")
    return replace(
        config, backbone=backbone, evaluation=overridden(config.evaluation, nested(grid.evaluation), "evaluation")
    )


def _last_step(config: RunConfig) -> int:
    """The last step; refuses settings that cannot be trained, as far as this is known without a simulator."""
    config.check()
    # On-policy backbones train in compiled environments only, which cost nothing to make.
    stride = config.backbone.steps_per_iteration(checked_spec(config)) if config.backbone.on_policy else 1
    return config.steps // stride * stride


def _changes(grid: Grid, variant: Variant, preset: RunConfig, config: RunConfig) -> dict[str, Any]:
    """Settings that differ from the preset, by their names in folders and results."""
    changes: dict[str, Any] = {}
    if config.objective is not None and variant.backbone is not None:
        benchmark = config.family.benchmark(config.env, kwargs=config.env_kwargs)
        default = presets.get(None, benchmark, config.env, grid.preset).backbone.name
        changes |= {} if variant.backbone == default else {"backbone": variant.backbone}
    for prefix, theirs, ours, pairs in (
        ("", preset.objective, config.objective, variant.objective),
        ("backbone.", preset.backbone, config.backbone, variant.settings),
        ("evaluation.", preset.evaluation, config.evaluation, grid.evaluation),
    ):
        names = [name for name, _ in pairs if ours is not None and setting(ours, name) != setting(theirs, name)]
        changes |= {f"{prefix}{name}": as_json(setting(ours, name)) for name in names}
    changes |= {f"env.kwargs.{name}": as_json(value) for name, value in grid.env_kwargs}
    changes |= {"env.copies": config.copies} if config.copies > 1 else {}
    return {**changes, NOISE: config.noise} if config.noise else changes


def _folder(
    config: RunConfig, preset: str, settings: Mapping[str, Any], budgets: Iterable[int], rest: Iterable[str] = ()
) -> str:
    """Folder of a run's seeds: FAMILY-PRESET-STEPS[-FINETUNINGSTEPS]/METHOD[-SETTINGS]-PLACE[-SKILL][-from-STEP].

    All runs of `skillscape reproduce` and `skillscape sweep` are named here, so that they share runs.
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
    """Environment and task; a task whose name begins with the environment stands for both."""
    place = config.family.folder_name(config.env)
    if config.task is None:
        return place
    if config.task == config.env:
        return f"{place}-task"
    task = re.sub(r"[^\w.-]", "-", config.task)
    return task if task.startswith(place) else f"{place}-{task}"


def _word(value: Any) -> str:  # noqa: ANN401
    """A value in the name of a folder: 256, 0.001, 64x64."""
    if isinstance(value, list):
        return "x".join(_word(entry) for entry in value)
    return f"{value:g}" if isinstance(value, float) else re.sub(r"[^\w.+-]", "-", f"{value}")
