"""Compiled episodes of a trained agent in a JAX environment, for measures and figures."""

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

Render: TypeAlias = Callable[[Shaped[Array, "n ..."]], Shaped[Array, "n ..."]]
"""Maps observations to the policy's inputs. Compiled once per equal object, so do not pass a fresh lambda each time."""

SAMPLED_SKILLS = 10
"""Number of skills sampled from a continuous skill space."""


@cache
def _compiled(env: JaxEnv, backbone: Backbone[Any, Any], explore: bool, render: Render | None) -> Any:  # noqa: ANN401
    def run_episodes(params: PyTree, skill: Float[Array, "n z"], key: RandomKey) -> Shaped[Array, "n t ..."]:
        """Observations of n episodes from the evaluation start, one skill each, the first observation included."""
        rows = skill.shape[0]
        start_key, run_key = jax.random.split(key)
        state = jax.vmap(env.reset_for_evaluation)(jax.random.split(start_key, rows))

        def step(state_carry: tuple[Any, PyTree], key: RandomKey) -> tuple[tuple[Any, PyTree], Shaped[Array, "n ..."]]:
            state, carry = state_carry
            act_key, step_key = jax.random.split(key)
            obs = jax.vmap(env.observe)(state)
            action, carry = backbone.act(params, carry, obs if render is None else render(obs), skill, act_key, explore)
            state, timestep = jax.vmap(env.step)(state, action, jax.random.split(step_key, rows))
            return (state, carry), timestep.obs

        first = jax.vmap(env.observe)(state)
        _, obs = jax.lax.scan(step, (state, backbone.initial_carry(rows)), jax.random.split(run_key, env.spec.horizon))
        return jnp.concatenate([first[None], obs]).swapaxes(0, 1)

    return jax.jit(run_episodes)


def skill_rollouts(
    env: JaxEnv,
    backbone: Backbone[Any, Any],
    skills: SkillSpace,
    params: PyTree,
    *,
    per_skill: int = 20,
    seed: int = 0,
    explore: bool = True,
    render: Render | None = None,
) -> Float[np.ndarray, "k r t d"]:
    """Observations of ``per_skill`` episodes of every skill, or of ``SAMPLED_SKILLS`` fixed samples of a continuum.

    params: see ``Backbone.policy_params``. ``explore``: sample actions instead of taking the mode. ``render`` changes
    the policy's inputs only; the environment's own observations are returned.
    """
    vectors = listed_skills(skills, SAMPLED_SKILLS)
    rows = np.repeat(vectors, per_skill, axis=0)
    obs = _compiled(env, backbone, explore, render)(params, rows, jax.random.key(seed))
    return np.asarray(obs).reshape(len(vectors), per_skill, *obs.shape[1:])
