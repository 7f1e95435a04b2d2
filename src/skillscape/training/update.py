"""The update of a backbone that learns from replay, as one compiled program."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from skillscape.backbones.base import Backbone
from skillscape.objectives.base import Objective
from skillscape.training.state import RunState
from skillscape.types import Metrics


def update_step(backbone: Backbone[Any, Any], objective: Objective[Any]) -> Any:  # noqa: ANN401
    """One update as a pure function: (state, batch) → (state, metrics)."""

    def update(state: RunState, batch: Any) -> tuple[RunState, Metrics]:  # noqa: ANN401  the backbone's own type
        key, learn_key = jax.random.split(state.key)
        agent, objective_state, metrics = backbone.learn(state.agent, objective, state.objective, batch, learn_key)
        return RunState(key, agent, objective_state, state.step), metrics

    return update


@cache
def compiled_update(backbone: Backbone[Any, Any], objective: Objective[Any], donate: bool) -> Any:  # noqa: ANN401
    """The compiled update, shared by runs of equal settings.

    With ``donate`` it overwrites the state that it is given, which cannot be read afterwards.
    """
    return jax.jit(update_step(backbone, objective), donate_argnums=0 if donate else ())


@jax.jit
def copied(state: RunState) -> RunState:
    """The state in buffers of its own, no two leaves sharing one."""
    copy: RunState = jax.tree.map(jnp.copy, state)
    return copy
