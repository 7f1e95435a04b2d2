"""The training state, and the contract of a collector."""

from abc import ABC, abstractmethod
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from skillscape.config import RunConfig
from skillscape.errors import UserError
from skillscape.types import EnvSpec, RandomKey


class RunState(NamedTuple):
    """The training state; a checkpoint of it, with the collector's metadata, resumes bit-exactly."""

    key: RandomKey
    agent: PyTree
    objective: PyTree
    step: Int[Array, ""]
    """Environment steps taken."""
    episodes: PyTree = ()
    """The episodes that the next iteration continues, see ``unroll.Episodes``; () where it begins new ones."""


def init_state(config: RunConfig, spec: EnvSpec) -> RunState:
    """The state at step 0. Not compiled: see ``nets.orthogonal``."""
    return state_of_key(config, spec, jax.random.key(config.seed))


def state_of_key(config: RunConfig, spec: EnvSpec, key: RandomKey) -> RunState:
    """The state at step 0, with a random key in place of the configuration's seed."""
    objective, backbone = config.reward, config.backbone
    key, agent_key, objective_key = jax.random.split(key, 3)
    agent = backbone.init(agent_key, spec, objective)
    if config.strategy.uses_controller:
        agent = backbone.with_controller(agent, jax.random.fold_in(agent_key, 1), spec, objective.skills.width)
    return RunState(key, agent, objective.init(objective_key, backbone.objective_spec(spec)), jnp.asarray(0, jnp.int32))


def first_state(config: RunConfig, spec: EnvSpec) -> RunState:
    """The initial state of training with a new agent."""
    if not config.backbone.on_policy:
        return init_state(config, spec)
    # One compiled program instead of a hundred small ones; as a constant, the key would make one for every seed.
    state: RunState = jax.jit(partial(state_of_key, config, spec))(jax.random.key(config.seed))
    return state


class Collector(ABC):
    """Collects experience and learns from it, up to the next step at which a row, evaluation or snapshot is due."""

    state: RunState
    step: int
    """Environment steps taken."""
    skill: Float[np.ndarray, " z"] | None
    """The skill of the whole run, or None if skills are resampled."""

    @abstractmethod
    def advance(self) -> None:
        """Advance to the next step at which a row, an evaluation or a snapshot is due.

        After an error the collector is as it was before.
        """

    @abstractmethod
    def rewind(self) -> None:
        """Restore the state before the newest ``advance``."""

    @property
    @abstractmethod
    def log_due(self) -> bool:
        """Whether a row of metrics is due at this step."""

    @property
    @abstractmethod
    def metrics(self) -> dict[str, float]:
        """Metrics of the newest update, by name; empty before the first update."""

    @property
    def measures(self) -> dict[str, float]:
        """What training itself tells at an evaluation, by name; always the same names."""
        return {}

    @abstractmethod
    def metadata(self) -> dict[str, Any]:
        """The metadata of a checkpoint, in addition to ``state``."""

    @abstractmethod
    def evaluation_skill(self) -> Float[np.ndarray, " z"]:
        """The skill to evaluate: that of the run, or a draw determined by the step."""

    @abstractmethod
    def close(self) -> None:
        """Release environments and threads."""


def unfit(checkpoints: Path) -> UserError:
    """The error of metadata that do not fit the collector."""
    return UserError(
        f"The newest checkpoint in {checkpoints} does not fit this run; delete it to continue from an earlier one, or "
        "start again with --force."
    )
