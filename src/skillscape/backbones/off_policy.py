"""What DDPG and SAC have in common: batches of transitions, rewards for them, and twin critics."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from skillscape.objectives.base import Objective
from skillscape.optim import Learner, gradient_step
from skillscape.replay import Replay, Visible
from skillscape.types import Experience, Metrics, RandomKey, Transitions

Critic = TypeVar("Critic", bound=Callable[..., Any])
"""Maps one state, skill and action to two values."""


def value_width(objective: Objective[Any]) -> int:
    """Outputs of a critic: one value, or successor features as long as a skill."""
    return objective.skills.width if objective.critic_head == "skill" else 1


def sample_transitions(replay: Replay, visible: Visible, rows: int) -> Transitions | None:
    """``rows`` transitions, or None while no visible episode has any."""
    return replay.sample(rows, visible) if visible.drawable else None


class Rewarded(NamedTuple):
    """The part of a batch that the agent learns from, with its rewards, and the objective's state after them."""

    batch: Transitions
    reward: Float[Array, " n"]
    state: PyTree
    metrics: Metrics


def rewarded(
    objective: Objective[Any],
    state: PyTree,
    batch: Transitions,
    experience: Callable[[Transitions], Experience],
    model_key: RandomKey,
    reward_key: RandomKey,
) -> Rewarded:
    """Fit the objective's model, then reward the batch; ``experience``: what objectives see of transitions.

    An objective of several updates per step gets a batch of as many equal parts, one for each; the last part is what
    the agent learns from.
    """
    parts = batch.split(objective.updates_per_step)
    metrics: Metrics = {}
    for part, update_key in zip(parts, jax.random.split(model_key, len(parts)), strict=True):
        state, metrics = objective.update(state, experience(part), update_key)
    last = parts[-1]
    state, reward, reward_metrics = objective.reward(state, experience(last), reward_key)
    reward = jax.lax.stop_gradient(reward)
    return Rewarded(last, reward, state, {**metrics, **reward_metrics, "reward": jnp.mean(reward)})


def lower_value(
    critic: Callable[..., Any], obs: Float[Array, "n d"], skill: Float[Array, "n z"], action: Float[Array, "n a"]
) -> Float[Array, " n"]:
    """min(Q₁, Q₂) of each row (Fujimoto et al., 2018)."""
    values: Float[Array, "n 2"] = jax.vmap(critic)(obs, skill, action)
    return jnp.min(values, axis=-1)


def improve_critic(
    transform: optax.GradientTransformation,
    critic: Learner[Critic],
    batch: Transitions,
    value_target: Float[Array, " n"],
) -> tuple[Learner[Critic], Metrics]:
    """One step down the sum of both critics' mean squared errors."""

    def loss(critic: Critic) -> tuple[Float[Array, ""], Metrics]:
        values: Float[Array, "n 2"] = jax.vmap(critic)(batch.obs, batch.skill, batch.action)
        error = jnp.sum(jnp.mean((values - value_target[:, None]) ** 2, axis=0))
        return error, {"critic_loss": error, "value": jnp.mean(values)}

    return gradient_step(transform, loss, critic)
