"""Episodes of a trained agent, for measuring and drawing."""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from skillscape.backbones.base import Backbone
from skillscape.envs.base import JaxEnv
from skillscape.skills import SkillSpace
from skillscape.training.policy import listed_skills
from skillscape.types import RandomKey

See: TypeAlias = Callable[[Shaped[Array, "n ..."]], Shaped[Array, "n ..."]]
"""Turns observations into what a policy is shown. Equal ones are compiled once, so not a fresh lambda each time."""

SHOWN = 10
"""Skills that stand for a continuum."""


def number_shown(skills: SkillSpace) -> int:
    """How many skills are played of a space: all of them, or ``SHOWN`` of a continuum."""
    return SHOWN if skills.count is None else skills.count


def rollouts(
    env: JaxEnv,
    backbone: Backbone[Any, Any],
    policy: PyTree,
    skill: Float[Array, "n z"],
    key: RandomKey,
    explore: bool,
    see: See | None,
) -> Shaped[Array, "n t ..."]:
    """Observations of n episodes from the evaluation start, one skill each, the first observation included.

    policy: see ``Backbone.policy_params``.
    """
    rows = skill.shape[0]
    start_key, run_key = jax.random.split(key)
    state = jax.vmap(env.reset_for_evaluation)(jax.random.split(start_key, rows))

    def step(carry: tuple[Any, PyTree], key: RandomKey) -> tuple[tuple[Any, PyTree], Shaped[Array, "n ..."]]:
        state, memory = carry
        act_key, step_key = jax.random.split(key)
        obs = jax.vmap(env.observe)(state)
        action, memory = backbone.act(policy, memory, obs if see is None else see(obs), skill, act_key, explore)
        state, timestep = jax.vmap(env.step)(state, action, jax.random.split(step_key, rows))
        return (state, memory), timestep.obs

    first = jax.vmap(env.observe)(state)
    _, obs = jax.lax.scan(step, (state, backbone.initial_carry(rows)), jax.random.split(run_key, env.spec.horizon))
    return jnp.concatenate([first[None], obs]).swapaxes(0, 1)


@cache
def _compiled(env: JaxEnv, backbone: Backbone[Any, Any], explore: bool, see: See | None) -> Any:  # noqa: ANN401
    return jax.jit(lambda policy, skill, key: rollouts(env, backbone, policy, skill, key, explore, see))


def skill_rollouts(
    env: JaxEnv,
    backbone: Backbone[Any, Any],
    skills: SkillSpace,
    policy: PyTree,
    *,
    per_skill: int = 20,
    seed: int = 0,
    explore: bool = True,
    see: See | None = None,
) -> Float[np.ndarray, "k r t d"]:
    """``per_skill`` episodes of every skill, by default drawn from the stochastic policy.

    ``see``: what the policy is shown instead of the observations; what is returned are the observations themselves.

    Of a continuum of skills, ``SHOWN`` are drawn, always the same ones.
    """
    every = listed_skills(skills, SHOWN)
    rows = np.repeat(every, per_skill, axis=0)
    obs = _compiled(env, backbone, explore, see)(policy, rows, jax.random.key(seed))
    return np.asarray(obs).reshape(every.shape[0], per_skill, *obs.shape[1:])
