"""Episodes of a trained agent, for measuring and drawing."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from skillscape.backbones.base import Backbone
from skillscape.envs.base import JaxEnv
from skillscape.skills import SkillSpace
from skillscape.types import RandomKey

SHOWN = 10
"""Skills that stand for a continuum, or for a policy that has none."""


def rollouts(
    env: JaxEnv,
    backbone: Backbone[Any, Any],
    agent: PyTree,
    skill: Float[Array, "n z"],
    key: RandomKey,
    explore: bool,
) -> Shaped[Array, "n t ..."]:
    """Observations of n episodes from the evaluation start, one skill each, the first observation included."""
    rows = skill.shape[0]
    policy = backbone.acting(agent)
    start_key, run_key = jax.random.split(key)
    state = jax.vmap(env.reset_for_evaluation)(jax.random.split(start_key, rows))

    def step(carry: tuple[Any, PyTree], key: RandomKey) -> tuple[tuple[Any, PyTree], Shaped[Array, "n ..."]]:
        state, memory = carry
        act_key, step_key = jax.random.split(key)
        action, memory = backbone.act(policy, memory, jax.vmap(env.observe)(state), skill, act_key, explore)
        state, timestep = jax.vmap(env.step)(state, action, jax.random.split(step_key, rows))
        return (state, memory), timestep.obs

    first = jax.vmap(env.observe)(state)
    _, obs = jax.lax.scan(step, (state, backbone.start(rows)), jax.random.split(run_key, env.spec.horizon))
    return jnp.concatenate([first[None], obs]).swapaxes(0, 1)


@cache
def _compiled(env: JaxEnv, backbone: Backbone[Any, Any], explore: bool) -> Any:  # noqa: ANN401  jax has no public type
    return jax.jit(lambda agent, skill, key: rollouts(env, backbone, agent, skill, key, explore))


def skill_rollouts(
    env: JaxEnv,
    backbone: Backbone[Any, Any],
    skills: SkillSpace,
    agent: PyTree,
    *,
    per_skill: int = 20,
    seed: int = 0,
    explore: bool = True,
) -> Float[np.ndarray, "k r t d"]:
    """``per_skill`` episodes of every skill, by default drawn from the stochastic policy.

    Of a continuum of skills, ``SHOWN`` are drawn, always the same ones. A policy without skills plays as many episodes
    as that many skills would.
    """
    every = skills.all() if skills.count is not None else skills.sample(jax.random.key(0), SHOWN)
    per_skill = per_skill if every.shape[0] > 1 else SHOWN * per_skill
    rows = jnp.repeat(every, per_skill, axis=0)
    obs = _compiled(env, backbone, explore)(agent, rows, jax.random.key(seed))
    return np.asarray(obs).reshape(every.shape[0], per_skill, *obs.shape[1:])
