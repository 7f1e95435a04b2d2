"""The fused loop: environment, policy and learning in one compiled function, for pure JAX environments."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree, Shaped

from skillscape.backbones.base import Backbone
from skillscape.envs.base import JaxEnv
from skillscape.objectives.base import Objective
from skillscape.types import Metrics, RandomKey, Rollout


class TrainState(NamedTuple):
    """All that changes in training: a checkpoint of it resumes to the same numbers."""

    key: RandomKey
    agent: PyTree
    objective: PyTree
    step: Int[Array, ""]
    """Environment steps taken."""


def init_state(seed: int, env: JaxEnv, backbone: Backbone[Any, Rollout], objective: Objective[Any]) -> TrainState:
    """The state that training with this seed begins in."""
    key, agent_key, objective_key = jax.random.split(jax.random.key(seed), 3)
    agent = backbone.init(agent_key, env.spec, objective)
    return TrainState(
        key, agent, objective.init(objective_key, backbone.objective_spec(env.spec)), jnp.asarray(0, jnp.int32)
    )


def collect(
    env: JaxEnv,
    backbone: Backbone[Any, Rollout],
    objective: Objective[Any],
    agent: PyTree,
    episodes: int,
    key: RandomKey,
) -> Rollout:
    """Run ``episodes`` fresh episodes side by side for one horizon; where a task ends early, a new one begins."""
    start_key, skill_key, run_key = jax.random.split(key, 3)
    state = jax.vmap(env.reset)(jax.random.split(start_key, episodes))
    skill = objective.skills.sample(skill_key, episodes)
    horizon = env.spec.horizon
    policy = backbone.policy_params(agent)

    def step(carry: tuple[Any, ...], at: tuple[Int[Array, ""], RandomKey]) -> tuple[tuple[Any, ...], Rollout]:
        state, skill, memory = carry
        time, key = at
        act_key, step_key, reset_key, skill_key = jax.random.split(key, 4)
        if objective.resample_every is not None:
            due = (time > 0) & (time % objective.resample_every == 0)
            skill = jnp.where(due, objective.skills.sample(skill_key, episodes), skill)
        obs = jax.vmap(env.observe)(state)
        action, memory = backbone.act(policy, memory, obs, skill, act_key, True)
        state, timestep = jax.vmap(env.step)(state, action, jax.random.split(step_key, episodes))
        row = Rollout(
            obs=obs,
            action=action,
            next_obs=timestep.obs,
            skill=skill,
            reward=timestep.reward,
            discount=1 - timestep.terminated,
            last=jnp.maximum(timestep.terminated, jnp.full((episodes,), time == horizon - 1, jnp.float32)),
        )
        ended = timestep.terminated > 0
        first_skill = objective.skills.sample(jax.random.fold_in(skill_key, 1), episodes)
        fresh = (
            jax.vmap(env.reset)(jax.random.split(reset_key, episodes)),
            first_skill,
            backbone.initial_carry(episodes),
        )
        return jax.tree.map(lambda new, old: _where(ended, new, old), fresh, (state, skill, memory)), row

    times = jnp.arange(horizon)
    carry = (state, skill, backbone.initial_carry(episodes))
    return jax.lax.scan(step, carry, (times, jax.random.split(run_key, horizon)))[1]


def _where(
    mask: Shaped[Array, " e"], new: Shaped[Array, "e ..."], old: Shaped[Array, "e ..."]
) -> Shaped[Array, "e ..."]:
    return jnp.where(mask.reshape(mask.shape + (1,) * (old.ndim - 1)), new, old)


def iteration(
    env: JaxEnv, backbone: Backbone[Any, Rollout], objective: Objective[Any], episodes: int
) -> Callable[[TrainState], tuple[TrainState, Metrics]]:
    """One iteration as a pure function: collect, fit, reward, improve."""

    def advance(state: TrainState) -> tuple[TrainState, Metrics]:
        key, collect_key, learn_key = jax.random.split(state.key, 3)
        rollout = collect(env, backbone, objective, state.agent, episodes, collect_key)
        agent, objective_state, metrics = backbone.learn(state.agent, objective, state.objective, rollout, learn_key)
        return TrainState(key, agent, objective_state, state.step + episodes * env.spec.horizon), metrics

    return advance
