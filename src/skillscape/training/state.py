"""What changes in training, and what takes it further: the state, and the contract of a collector."""

from abc import ABC, abstractmethod
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
    """All that changes in training: a checkpoint of it, with the collector's notes, resumes to the same numbers."""

    key: RandomKey
    agent: PyTree
    objective: PyTree
    step: Int[Array, ""]
    """Environment steps taken."""


def init_state(config: RunConfig, spec: EnvSpec) -> RunState:
    """The state at step 0. Not compiled: see ``nets.orthogonal``."""
    objective, backbone = config.reward, config.backbone
    key, agent_key, objective_key = jax.random.split(jax.random.key(config.seed), 3)
    agent = backbone.init(agent_key, spec, objective)
    if config.strategy.uses_controller:
        agent = backbone.with_controller(agent, jax.random.fold_in(agent_key, 1), spec, objective.skills.width)
    return RunState(key, agent, objective.init(objective_key, backbone.objective_spec(spec)), jnp.asarray(0, jnp.int32))


def first_state(config: RunConfig, spec: EnvSpec) -> RunState:
    """The state that training from nothing begins with."""
    if not config.backbone.on_policy:
        return init_state(config, spec)
    # One compiled program instead of a hundred small ones.
    state: RunState = jax.jit(lambda: init_state(config, spec))()
    return state


class Collector(ABC):
    """Takes environment steps and learns from them, from one moment at which something is due to the next."""

    state: RunState
    step: int
    """Environment steps taken."""
    skill: Float[np.ndarray, " z"] | None
    """The skill of the whole run, where there is one."""

    @abstractmethod
    def advance(self) -> None:
        """Go on to the next step at which a row, an evaluation or a snapshot is due; raises where that is impossible.

        After an error the collector is as it was before.
        """

    @abstractmethod
    def rewind(self) -> None:
        """Go back to what was before the newest ``advance``."""

    @property
    @abstractmethod
    def log_due(self) -> bool:
        """Whether a row of metrics is due at this step, whatever else is."""

    @property
    @abstractmethod
    def metrics(self) -> dict[str, float]:
        """What the newest learning step reported, by name; empty before the first one."""

    @property
    def measures(self) -> dict[str, float]:
        """What training itself tells at an evaluation, by name; always the same names."""
        return {}

    @abstractmethod
    def metadata(self) -> dict[str, Any]:
        """All that a checkpoint has to say beside ``state``."""

    @abstractmethod
    def evaluation_skill(self) -> Float[np.ndarray, " z"]:
        """The skill to evaluate: that of the run, or a draw that this step determines."""

    @abstractmethod
    def close(self) -> None:
        """Give back what is held."""


def unfit(checkpoints: Path) -> UserError:
    """What to say where the notes of the newest checkpoint in a folder are not those of a collector."""
    return UserError(
        f"The newest checkpoint in {checkpoints} does not fit this run; delete it to go on from the one before it, or "
        "start again with --force."
    )
