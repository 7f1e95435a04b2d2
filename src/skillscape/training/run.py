"""Runs on disk: folders with configuration, versions, checkpoints and results."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Shaped

from skillscape.backbones.widening import widened
from skillscape.config import RunConfig
from skillscape.envs.mazes.layouts import Layout
from skillscape.errors import UserError
from skillscape.replay import Replay, Trajectory
from skillscape.training.checkpoint import (
    checkpoint_folder,
    checkpoints,
    keep_newest,
    load_metadata,
    load_tree,
    load_tree_and_metadata,
    read_newest,
    save_tree,
)
from skillscape.training.cost import Parameters, Timing, read_parameters, read_timing, seconds_of
from skillscape.training.files import EXPORT_FILE, check_links, damaged, locked, read_json, read_results, write_json
from skillscape.training.log import read_metrics
from skillscape.training.policy import Policy, TrainedPolicy
from skillscape.training.state import RunState, first_state, init_state
from skillscape.training.unroll import episode_shapes
from skillscape.training.versions import versions
from skillscape.types import EnvSpec
from skillscape.zoo import locate

AGAIN = "restore it or train again with --force"
KEPT_CHECKPOINTS = 2


class Snapshot(NamedTuple):
    """Agent and objective at a step, without optimiser states, which are restored as zeros."""

    step: int
    agent: Any
    model: Any | None
    """The state of the objective; None of a run that was exported without it."""

    @property
    def objective(self) -> Any:  # noqa: ANN401  the objective's own type
        """The state of the objective; refused where it was left out."""
        if self.model is None:
            raise UserError(
                "The run was exported without the model of its method, which this needs; use the run that was exported."
            )
        return self.model


class Run:
    """A run in a folder, finished or not."""

    def __init__(self, folder: str | Path) -> None:
        """Open an existing run."""
        self.folder = locate(folder)
        self.config = open_config(self.folder)

    @staticmethod
    def create(folder: Path, config: RunConfig, *, force: bool = False) -> "Run":
        """Create a run folder. An existing run is deleted only with ``force``."""
        config.check()
        check_free(folder, force=force)
        if (folder / "config.json").exists():
            with locked(folder):
                shutil.rmtree(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Written first and atomically: a folder without a valid config.json can be neither resumed nor replaced.
            write_json(folder / "config.json", config.to_json())
            write_json(folder / "versions.json", versions())
        except OSError as error:
            raise UserError(f"Cannot write to {folder}: {error.strerror}; choose another --out.") from error
        return Run(folder)

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.folder / "checkpoints"

    @property
    def results(self) -> dict[str, Any] | None:
        """The results of a finished run, or None if it is unfinished."""
        return read_results(self.folder)

    @property
    def parameters(self) -> Parameters | None:
        """Numbers of trained parameters of a finished run, or None if it is unfinished or recorded none."""
        return read_parameters(self.results or {})

    @property
    def timing(self) -> Timing | None:
        """Wall-clock time of a finished run, or None if it is unfinished or recorded none."""
        return read_timing(self.folder, AGAIN)

    @property
    def seconds(self) -> float | None:
        """Seconds of training until the newest checkpoint, or None if unknown."""
        newest = read_newest(self.checkpoints, load_metadata)
        return None if newest is None else seconds_of(newest[1])

    def metrics(self) -> dict[str, list[float]]:
        """Training metrics: column → values, one per logged step."""
        return read_metrics(self.folder / "metrics.csv")

    def evaluation(self) -> dict[str, list[float]]:
        """Evaluation measures: column → values, one per evaluation."""
        return read_metrics(self.folder / "evaluation.csv")

    @cached_property
    def spec(self) -> EnvSpec:
        """Shapes of the environment."""
        return self.config.spec()

    @property
    def layout(self) -> Layout | None:
        """The layout of a maze whose states are positions; None elsewhere."""
        return self.config.layout

    @cached_property
    def _stride(self) -> int:
        # The environment is built only if the stride depends on it.
        return self.config.backbone.steps_per_iteration(self.spec) if self.config.backbone.on_policy else 1

    @property
    def end(self) -> int:
        """The last step: as many whole iterations as fit the budget."""
        return self.config.steps // self._stride * self._stride

    def due(self, step: int) -> bool:
        """Whether an evaluation is due after this step."""
        return step % self.config.evaluation.every < self._stride or step == self.end

    @cached_property
    def like(self) -> RunState:
        """Shapes of the training state."""
        spec = self.spec  # made here: an environment may compute, which a trace would record
        shapes: RunState = jax.eval_shape(lambda: init_state(self.config, spec))
        return shapes._replace(episodes=episode_shapes(self.config))

    def newest(self) -> tuple[RunState, dict[str, Any]] | None:
        """State and metadata of the newest checkpoint, if there is one."""
        newest = read_newest(self.checkpoints, lambda path: load_tree_and_metadata(path, self.like))
        return None if newest is None else newest[1]

    def save(self, state: RunState, metadata: dict[str, Any]) -> None:
        """Write a checkpoint; the two newest are kept."""
        save_tree(checkpoint_folder(self.checkpoints, int(state.step)), state, metadata=metadata)
        keep_newest(self.checkpoints, KEPT_CHECKPOINTS)

    def keep_snapshot(self, state: RunState) -> None:
        """Save a snapshot for fine-tuning: agent and objective, without optimiser states."""
        parts = {"agent": state.agent, "objective": state.objective}
        save_tree(checkpoint_folder(self.folder / "snapshots", int(state.step)), parts, without="opt_state")

    @property
    def trained_steps(self) -> int:
        """Step of the newest snapshot or checkpoint, which may be below the budget."""
        return max((*self._snapshots(), *dict(checkpoints(self.checkpoints))), default=0)

    def _snapshots(self) -> dict[int, Path]:
        return dict(checkpoints(self.folder / "snapshots"))

    def snapshot_step(self, step: int | None = None) -> int:
        """The step of a snapshot, the newest if None; unknown steps are refused. Reads no arrays."""
        kept = self._snapshots()
        if not kept:
            raise UserError(f"{self.folder} has no snapshot yet; train it further with --resume.")
        if step is not None and step not in kept:
            known = ", ".join(f"{each}" for each in sorted(kept))
            raise UserError(f"{self.folder} has no snapshot of step {step}; choose one of {known}.")
        return max(kept) if step is None else step

    def snapshot(self, step: int | None = None) -> Snapshot:
        """The snapshot of a step; if None, the newest snapshot or checkpoint."""
        kept = self._snapshots()
        newest = self.trained_steps
        if step is None and newest not in kept:
            checkpoint = self.newest()
            if checkpoint is None:
                raise UserError(f"{self.folder} has no checkpoint yet; train it further with --resume.")
            return Snapshot(newest, checkpoint[0].agent, checkpoint[0].objective)
        wanted = self.snapshot_step(step)
        like = {"agent": self.like.agent, **({"objective": self.like.objective} if self._has_model else {})}
        parts = load_tree(kept[wanted], like, without="opt_state")
        return Snapshot(wanted, parts["agent"], parts.get("objective"))

    @property
    def exported(self) -> dict[str, Any] | None:
        """What an exported run stores about itself; None of any other run."""
        path = self.folder / EXPORT_FILE
        return read_json(path, advice="export the run again") if path.exists() else None

    @property
    def _has_model(self) -> bool:
        exported = self.exported
        return exported is None or bool(exported.get("model"))

    def kept_skill(self) -> Float[np.ndarray, " z"] | None:
        """The fixed or selected skill of the run, or None if skills are resampled."""
        if self._has_policy_alone:
            return TrainedPolicy.load(self.folder / "skills").skill
        newest = read_newest(self.checkpoints, load_metadata)
        try:
            skill = None if newest is None else newest[1]["skill"]
            return None if skill is None else np.asarray(skill, np.float32)
        except (LookupError, TypeError, ValueError) as error:
            raise UserError(
                f"{self.checkpoints}: the metadata of the newest checkpoint name no skill; delete that checkpoint."
            ) from error

    def trained_policy(self) -> TrainedPolicy:
        """The newest policy; of a run that was copied without checkpoints, the one in ``skills/``."""
        if self._has_policy_alone:
            return TrainedPolicy.load(self.folder / "skills")
        step, agent, _ = self.snapshot()
        skill = self.kept_skill() if self.config.phase != "pretrain" else None
        return TrainedPolicy(self.config, self.spec, self.config.backbone.policy_params(agent), step, skill)

    @property
    def _has_policy_alone(self) -> bool:
        return (self.folder / "skills").is_dir() and not checkpoints(self.checkpoints)

    def policy(
        self, skill: int | Float[np.ndarray, "..."] | None = None, *, explore: bool = False, seed: int = 0
    ) -> Policy:
        """The newest policy, ready to act with a skill; see ``Policy``."""
        return Policy(self, skill, explore=explore, seed=seed)

    def keep_model(self, objective_state: Any) -> None:  # noqa: ANN401  the objective's own type
        """Save the pre-trained state of the objective with a fine-tuning, for methods that infer a skill."""
        if not (self.folder / "model").exists():
            save_tree(self.folder / "model", objective_state, without="opt_state")

    def replay(self, spec: EnvSpec, *, fresh: bool) -> Replay:
        """The replay buffer of the run; if ``fresh``, leftover files of a killed run are deleted."""
        config, schedule, folder = self.config, self.config.backbone.schedule, self.folder / "replay"
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        return Replay(
            spec,
            config.reward.skills.width,
            # A closing row per episode at most doubles the rows of a short run.
            capacity=min(schedule.capacity, 2 * config.steps),
            nstep=schedule.nstep,
            discount=schedule.discount,
            seed=config.seed,
            # Two intervals between checkpoints, so that both kept checkpoints can be restored, and unfinished episodes.
            slack=2 * KEPT_CHECKPOINTS * config.evaluation.every + (config.copies - 1) * (spec.horizon + 1),
            folder=folder,
        )

    def model(self) -> Any:  # noqa: ANN401
        """The objective state that ``keep_model`` saved."""
        method = self.config.objective
        if method is None:
            raise UserError(
                f"{self.folder} was trained from scratch, so it has no pre-trained objective; give a fine-tuning."
            )
        spec = self.config.backbone.objective_spec(self.spec.without_goal)
        like = jax.eval_shape(lambda: method.init(jax.random.key(0), spec))
        return load_tree(self.folder / "model", like, without="opt_state")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock this run against other processes."""
        with locked(self.folder):
            yield


def adapted_state(config: RunConfig, source: Run, spec: EnvSpec) -> RunState:
    """The initial state of a fine-tuning: the parts that the backbone keeps of the pre-trained agent, the rest new.

    Where the task's observation has a goal that pre-training did not see, its weights start at zero.
    """
    known = spec.without_goal
    if (known.obs_shape, known.action_dim) != (source.spec.obs_shape, source.spec.action_dim):
        raise UserError(
            f"{source.folder} was pre-trained on observations {source.spec.obs_shape} and {source.spec.action_dim} "
            f"actions, but {config.task} has {spec.obs_shape} and {spec.action_dim}; choose a task of the same domain."
        )
    agent = source.snapshot(config.snapshot).agent
    if spec.goal_dim:
        trained = source.config
        like = jax.eval_shape(lambda: trained.backbone.init(jax.random.key(0), spec, trained.reward))
        agent = widened(agent, like, known.obs_shape[0])
    fresh = first_state(config, spec)
    adapt_key, controller_key = jax.random.split(jax.random.fold_in(fresh.key, 1))
    keep_critic = config.objective is not None and config.objective.keeps_critic
    adapted = config.backbone.adapt(agent, adapt_key, keep_critic=keep_critic)
    if config.strategy.uses_controller:
        adapted = config.backbone.with_controller(adapted, controller_key, spec, config.reward.skills.width)
    return fresh._replace(agent=adapted)


def selected_skill(run: Run, state: RunState, trajectories: Sequence[Trajectory]) -> Float[np.ndarray, " z"]:
    """The skill selected from warm-up data; see ``Strategy.select``."""
    config = run.config

    def infer(obs: Shaped[Array, "n ..."], reward: Float[Array, " n"]) -> Float[Array, " z"]:
        method = config.reward if config.objective is None else config.objective
        known = obs[:, : obs.shape[1] - run.spec.goal_dim] if run.spec.goal_dim else obs
        return method.infer_skill(run.model(), known, reward)

    return config.strategy.select(config.backbone, state.agent, config.reward.skills, trajectories, infer)


def check_free(folder: Path, *, force: bool, resumable: bool = True) -> None:
    """Refuse a folder that is not empty, unless it holds a run and ``force`` deletes it."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / "config.json").exists():
        raise UserError(f"{folder} is not empty and not a run of skillscape; choose another --out.")
    if not force:
        resume = "--resume (resume=True) to continue it or " if resumable else ""
        raise UserError(f"{folder} exists already; add {resume}--force (force=True) to replace it.")


def run_folders(folder: Path) -> list[Path]:
    """The folder of a run, or those of its seeds in order; ``folder`` may be zoo/NAME."""
    folder = locate(folder)
    if (folder / "config.json").exists():
        return [folder]
    seeds = seed_folders(folder)
    if not seeds:
        reason = "holds no run" if folder.is_dir() else "is not a folder" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {reason}; give the folder that `skillscape pretrain --out` wrote.")
    return seeds


def seed_folders(folder: Path) -> list[Path]:
    """The folders of a run's seeds in the order of their numbers; empty for a single run, or no run."""
    by_seed = {path.parent.name.removeprefix("seed_"): path.parent for path in folder.glob("seed_*/config.json")}
    numbers = sorted((int(name), path) for name, path in by_seed.items() if name.isascii() and name.isdigit())
    return [path for _, path in numbers]


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration of a run as JSON values."""
    check_links(folder)
    return read_json(folder / "config.json", advice=AGAIN)


def open_config(folder: Path) -> RunConfig:
    """The configuration of a run; invalid settings are refused."""
    path, values = folder / "config.json", read_config(folder)
    config = _parsed(folder, path, values)
    try:
        config.check()
        _ = config.layout  # a damaged layout is refused now
    except UserError as error:
        raise damaged(path, str(error).rstrip("."), AGAIN) from error
    return config


def _parsed(folder: Path, path: Path, values: Mapping[str, Any]) -> RunConfig:
    try:
        return RunConfig.from_json(values)
    except UserError as error:
        raise UserError(f"{folder}: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise damaged(path, "a value is missing or of the wrong type", AGAIN) from error
