"""Runs on disk: a folder that says what was trained, with which versions, and can be resumed, loaded and shared."""

import importlib.metadata
import platform
import shutil
import subprocess
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import jax

from skillscape.backbones.base import Backbone
from skillscape.backbones.ppo import PPO
from skillscape.envs.layouts import Layout
from skillscape.envs.mazes import Maze
from skillscape.errors import UserError
from skillscape.objectives import registry
from skillscape.objectives.base import Objective
from skillscape.training.checkpoint import load_newest, load_tree, save_tree
from skillscape.training.files import check_links, damaged, locked, read_json, read_results, write_json
from skillscape.training.fused import TrainState, init_state

FORMAT = "skillscape-run-1"
Config = TypeVar("Config")
VERSIONED = ("skillscape", "jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium", "mujoco", "dm_control")


@dataclass(frozen=True)
class Pretraining:
    """All that decides what a pre-training run computes. ``layout`` holds the maze itself, since a drawing may move."""

    env: str
    layout: Layout
    objective: Objective[Any]
    backbone: PPO
    steps: int
    seed: int
    evaluate_every: int
    """Environment steps between two evaluations."""
    rollouts_per_skill: int

    @property
    def maze(self) -> Maze:
        """The environment."""
        return Maze(self.layout)

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of one batch."""
        return self.backbone.episodes * self.layout.horizon

    @property
    def iterations(self) -> int:
        """Whole batches within the budget."""
        return self.steps // self.steps_per_iteration

    def check(self) -> None:
        """Refuse what cannot be trained."""
        check_ranges(self.objective)
        check_ranges(self.backbone)
        if not 2 <= self.rollouts_per_skill <= MOST_ROLLOUTS:
            raise UserError(
                f"An evaluation takes 2 to {MOST_ROLLOUTS:,} episodes of each skill, not {self.rollouts_per_skill}."
            )
        if self.iterations < 1:
            raise UserError(
                f"--steps {self.steps} is below one batch of {self.steps_per_iteration:,} steps "
                f"({self.backbone.episodes} episodes of {self.layout.horizon}); ask for at least that many."
            )
        check_counts(self.steps, self.evaluate_every)
        if not 0 <= self.seed < 2**31:
            raise UserError(f"--seed must be between 0 and {2**31 - 1}, not {self.seed}.")
        if self.backbone.minibatches > self.steps_per_iteration:
            raise UserError(
                f"--backbone.minibatches {self.backbone.minibatches} is more than the {self.steps_per_iteration:,} "
                "steps of a batch; ask for fewer."
            )

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that ``from_json`` reads back."""
        return {
            "format": FORMAT,
            "env": self.env,
            "steps": self.steps,
            "seed": self.seed,
            "evaluate_every": self.evaluate_every,
            "rollouts_per_skill": self.rollouts_per_skill,
            "objective": {"name": self.objective.name, **asdict(self.objective)},
            "backbone": {"name": "ppo", **asdict(self.backbone)},
            "layout": self.layout.to_json(),
        }

    @staticmethod
    def from_json(values: dict[str, Any]) -> "Pretraining":
        """Rebuild a configuration, or say why it is not one of ours."""
        if values.get("format") != FORMAT:
            raise UserError("config.json was not written by this version of skillscape.")
        objective, backbone = dict(values["objective"]), dict(values["backbone"])
        name = objective.pop("name")
        if name not in registry():
            raise UserError(f"config.json names the method {name!r}, which this version of skillscape does not have.")
        if backbone.pop("name") != "ppo":
            raise UserError("config.json names a backbone that this version of skillscape does not have.")
        numbers = {field: values[field] for field in ("steps", "seed", "evaluate_every", "rollouts_per_skill")}
        if not isinstance(values["env"], str) or not all(_fits(number, int) for number in numbers.values()):
            raise UserError("config.json is damaged: env, steps, seed or another number is of the wrong type.")
        return Pretraining(
            env=values["env"],
            layout=Layout.from_json(values["layout"]),
            objective=from_fields(registry()[name], objective),
            backbone=from_fields(PPO, backbone),
            **numbers,
        )


def from_fields(kind: Any, values: dict[str, Any]) -> Any:  # noqa: ANN401  any dataclass
    """Build a dataclass from JSON values: lists become tuples again; a wrong field or type is a user's error."""
    hints = typing.get_type_hints(kind)
    known = {field.name for field in fields(kind)}
    if wrong := sorted(set(values) - known):
        raise UserError(f"{kind.__name__} has no field {wrong[0]!r}.")
    built = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    for name, value in built.items():
        if not _fits(value, hints[name]):
            raise UserError(f"{kind.__name__}.{name} cannot be {value!r}.")
    return kind(**built)


def _fits(value: Any, hint: Any) -> bool:  # noqa: ANN401
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return value in arguments
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, option) for option in arguments)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(entry, arguments[0]) for entry in value)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


# Fields that a count or a rate of zero or less makes meaningless; the sentence names the flag.
POSITIVE = {
    *("number_of_skills", "deviation_weight", "width", "layers", "modules", "module_width", "latent_dim", "variance"),
    *("decoder_variance", "learning_rate", "clip_norm", "fitting_steps", "resample_every", "temperature", "neighbours"),
    *("batch_size", "steps_ahead", "update_every", "replay_capacity", "noise_clip", "target_rate", "action_deviation"),
    *("dimension", "ensemble_size", "number_of_prototypes", "queue_size", "sinkhorn_iterations", "initial_multiplier"),
    *("density_hidden", "projection_hidden", "density_learning_rate", "discriminator_learning_rate"),
    *("depth", "patch", "patch_width", "embedding", "memory", "groups", "classes", "units", "target_every"),
    *(
        "model_learning_rate",
        "multiplier_learning_rate",
        "slack",
        "feature_dim",
        "episodes",
        "epochs",
        "minibatches",
        "model_epochs",
        "hidden",
        "clip",
        "epsilon",
        "skill_scale",
    ),
}


# Lengths of which one is too short, and why.
ABOVE_ONE = {
    "sequence_length": "objectives learn from pairs of neighbouring states",
    "horizon": "an action is judged by the return from the state it leads to, which takes one more step",
}


FRACTIONS = {
    *("discount", "trace_decay", "newest_fraction", "target_rate"),
    *("uniform_mix", "balance", "reward_rate", "range_rate", "centre_rate", "decay"),
}


# Nothing at zero, or everything; below it they would mean nothing.
NOT_NEGATIVE = {"entropy", "restraint", "divergence_scale", "free_nats", "imagined_starts", "history"}


LARGEST_INTEGER = 2**31 - 1
"""Steps are counted in 32 bits, and no size comes near it."""
MOST_LAYERS = 100
MOST_ROLLOUTS = 10_000


def check_counts(*counts: int) -> None:
    """Refuse numbers of steps that cannot be counted."""
    for count in counts:
        if not 1 <= count <= LARGEST_INTEGER:
            raise UserError(f"--steps and the steps between evaluations must be 1 to {LARGEST_INTEGER}, not {count}.")


def check_ranges(part: Any) -> None:  # noqa: ANN401  any dataclass
    """Refuse settings that are not finite, or not as large as they must be."""
    for field in fields(part):
        value = getattr(part, field.name)
        flag = f"--{'backbone' if isinstance(part, Backbone) else 'objective'}.{field.name.replace('_', '-')}"
        for entry in value if isinstance(value, tuple) else (value,):
            if isinstance(entry, float) and not abs(entry) < float("inf"):
                raise UserError(f"{flag} must be a finite number, not {entry}.")
            if isinstance(entry, int) and abs(entry) > LARGEST_INTEGER:
                raise UserError(f"{flag} must be at most {LARGEST_INTEGER}, not {entry}.")
            if field.name == "layers" and entry > MOST_LAYERS:
                raise UserError(f"{flag} must be at most {MOST_LAYERS}, not {entry}.")
            if field.name in FRACTIONS and not 0 <= entry <= 1:
                raise UserError(f"{flag} must be between 0 and 1, not {entry}.")
            if field.name in POSITIVE and entry is not None and not isinstance(entry, str) and entry <= 0:
                raise UserError(f"{flag} must be above zero, not {entry}.")
            if field.name in NOT_NEGATIVE and entry < 0:
                raise UserError(f"{flag} must be zero or more, not {entry}.")
            if field.name in ABOVE_ONE and entry < 2:
                raise UserError(f"{flag} must be at least 2, not {entry}: {ABOVE_ONE[field.name]}.")


class Run:
    """One trained, or half-trained, seed in a folder."""

    def __init__(self, folder: Path) -> None:
        """Open an existing run."""
        self.folder = folder
        self.config = open_config(folder, Pretraining.from_json, Pretraining.check)

    @staticmethod
    def create(folder: Path, config: Pretraining, *, force: bool = False) -> "Run":
        """Lay out a new run folder. An existing one is replaced only with ``force``."""
        config.check()
        create_folder(folder, config.to_json(), force=force)
        return Run(folder)

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.folder / "checkpoints"

    @property
    def results(self) -> dict[str, Any] | None:
        """What the finished run measured, or None while it is not finished."""
        return read_results(self.folder)

    @property
    def end(self) -> int:
        """The last step."""
        return self.config.iterations * self.config.steps_per_iteration

    def due(self, step: int) -> bool:
        """Whether an evaluation is due after this step."""
        return step % self.config.evaluate_every < self.config.steps_per_iteration or step == self.end

    def fresh_state(self) -> TrainState:
        """The state at step 0."""
        config = self.config
        # One compiled program instead of a hundred small ones.
        initialise = jax.jit(lambda: init_state(config.seed, config.maze, config.backbone, config.objective))
        state: TrainState = initialise()
        return state

    @cached_property
    def _like(self) -> TrainState:
        config = self.config
        shapes: TrainState = jax.eval_shape(
            lambda: init_state(config.seed, config.maze, config.backbone, config.objective)
        )
        return shapes

    def newest_state(self) -> TrainState | None:
        """The state of the newest checkpoint, if there is one."""
        found = load_newest(self.checkpoints, self._like)
        return None if found is None else found[1]

    def trained_state(self) -> TrainState:
        """The newest state, or an error that says how to get one."""
        state = self.newest_state()
        if state is None:
            raise UserError(f"{self.folder} holds no checkpoint yet; train it with `skillscape pretrain … --resume`.")
        return state

    def share(self, state: TrainState) -> None:
        """Write the policy that acts, without optimisers or replay, to ``skills/``."""
        save_tree(self.folder / "skills", state.agent, without="opt_state")

    def agent(self) -> Any:  # noqa: ANN401  the backbone's own type
        """The policy that acts; where it is the shared one, optimiser state comes back as zeros: acting reads none."""
        if not self._acts_shared:
            return self.trained_state().agent
        return load_tree(self.folder / "skills", self._like.agent, without="opt_state")

    @property
    def trained_steps(self) -> int:
        """Steps that the policy that acts was trained for, which may still be fewer than the budget."""
        return self.end if self._acts_shared else int(self.trained_state().step)

    @property
    def _acts_shared(self) -> bool:
        """Whether the shared policy is the newest: not where a finished run has been given more steps since."""
        finished = (self.folder / "results.json").exists() or not self.checkpoints.exists()
        return finished and (self.folder / "skills").exists()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes off this run."""
        with locked(self.folder):
            yield


def create_folder(folder: Path, config: dict[str, Any], *, force: bool) -> None:
    """Lay out a run folder with its configuration and versions; with ``force`` in place of a run that stands there."""
    check_free(folder, force=force)
    if (folder / "config.json").exists():
        with locked(folder):
            shutil.rmtree(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # First and at once: a folder without a whole config.json could be neither resumed nor replaced.
        write_json(folder / "config.json", config)
        write_json(folder / "versions.json", versions())
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror}; choose another --out.") from error


def check_free(folder: Path, *, force: bool) -> None:
    """Refuse a folder that a new run cannot have: with a run, unless ``force`` replaces it, or with anything else."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / "config.json").exists():
        raise UserError(f"{folder} is not empty and not a run of skillscape; choose another --out.")
    if not force:
        raise UserError(
            f"{folder} exists already; add --resume (resume=True) to go on with it or --force (force=True) to replace "
            "it."
        )


def run_folders(folder: Path) -> list[Path]:
    """The folder of a run, or those of its seeds in order."""
    if (folder / "config.json").exists():
        return [folder]
    found = {path.parent.name.removeprefix("seed_"): path.parent for path in folder.glob("seed_*/config.json")}
    seeds = sorted((int(number), path) for number, path in found.items() if number.isdigit())
    if not seeds:
        reason = "holds no run" if folder.is_dir() else "does not exist"
        raise UserError(f"{folder} {reason}; give the folder that `skillscape pretrain --out` wrote.")
    return [path for _, path in seeds]


AGAIN = "restore it or train again with --force"


def read_config(folder: Path) -> dict[str, Any]:
    """The raw configuration of a run."""
    check_links(folder)
    return read_json(folder / "config.json", advice=AGAIN)


def open_config(folder: Path, read: Callable[[dict[str, Any]], Config], check: Callable[[Config], None]) -> Config:
    """The configuration of a run, built by ``read``; what ``check`` would not train is not opened either."""
    path, values = folder / "config.json", read_config(folder)
    try:
        config = read(values)
    except UserError as error:
        raise UserError(f"{folder}: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise damaged(path, "a value is missing or of the wrong type", AGAIN) from error
    try:
        check(config)
    except UserError as error:
        raise damaged(path, str(error).rstrip("."), AGAIN) from error
    return config


def versions() -> dict[str, str]:
    """Versions of all that can change a number: Python, libraries, and the commit of a source checkout."""
    found = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    try:
        here = Path(__file__).parent
        commit = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        )
        found["git"] = commit.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        pass
    return found


def versions_of(folders: Iterable[Path]) -> dict[str, list[str]]:
    """Every version that the runs in these folders were made with; a folder that does not say is passed over."""
    found: dict[str, set[str]] = {}
    for folder in folders:
        path = folder / "versions.json"
        told = read_json(path, advice="restore it or train that run again with --force") if path.exists() else {}
        for name, version in told.items():
            found.setdefault(name, set()).add(str(version))
    return {name: sorted(each) for name, each in found.items()}
