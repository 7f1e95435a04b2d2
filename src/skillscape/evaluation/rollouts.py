"""Compiled episodes of a trained agent in a JAX environment, for measures and figures."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from skillscape.backbones.base import Backbone
from skillscape.envs.base import JaxEnv
from skillscape.evaluation.returns import Recorded
from skillscape.skills import SkillSpace
from skillscape.training.policy import listed_skills
from skillscape.types import RandomKey

Render: TypeAlias = Callable[[Shaped[Array, "n ..."]], Shaped[Array, "n ..."]]
"""Maps observations to the policy's inputs. Compiled once per equal object, so do not pass a fresh lambda each time."""

SAMPLED_SKILLS = 10
"""Number of skills sampled from a continuous skill space."""


class SkillRollouts(NamedTuple):
    """Episodes of every skill: the environment's observations, the first included, and the actions between them."""

    obs: Float[np.ndarray, "k r t d"]
    action: Float[np.ndarray, "k r s a"]


@cache
def _compiled(env: JaxEnv, backbone: Backbone[Any, Any], explore: bool, render: Render | None) -> Any:  # noqa: ANN401
    def run_episodes(
        params: PyTree, skill: Float[Array, "n z"], key: RandomKey
    ) -> tuple[Shaped[Array, "n t ..."], Float[Array, "n s a"]]:
        """Observations and actions of n episodes from the evaluation start, one skill each."""
        rows = skill.shape[0]
        start_key, run_key = jax.random.split(key)
        state = jax.vmap(env.reset_for_evaluation)(jax.random.split(start_key, rows))

        def step(
            state_carry: tuple[Any, PyTree], key: RandomKey
        ) -> tuple[tuple[Any, PyTree], tuple[Shaped[Array, "n ..."], Float[Array, "n a"]]]:
            state, carry = state_carry
            act_key, step_key = jax.random.split(key)
            obs = jax.vmap(env.observe)(state)
            action, carry = backbone.act(params, carry, obs if render is None else render(obs), skill, act_key, explore)
            state, timestep = jax.vmap(env.step)(state, action, jax.random.split(step_key, rows))
            return (state, carry), (timestep.obs, action)

        first = jax.vmap(env.observe)(state)
        keys = jax.random.split(run_key, env.spec.horizon)
        _, (obs, action) = jax.lax.scan(step, (state, backbone.initial_carry(rows)), keys)
        return jnp.concatenate([first[None], obs]).swapaxes(0, 1), action.swapaxes(0, 1)

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
) -> SkillRollouts:
    """``per_skill`` episodes of every skill, or of ``SAMPLED_SKILLS`` fixed samples of a continuum.

    params: see ``Backbone.policy_params``. ``explore``: sample actions instead of taking the mode. ``render`` changes
    the policy's inputs only; the environment's own observations are returned.
    """
    vectors = listed_skills(skills, SAMPLED_SKILLS)
    rows = np.repeat(vectors, per_skill, axis=0)
    episodes = _compiled(env, backbone, explore, render)(params, rows, jax.random.key(seed))
    return SkillRollouts(*(np.asarray(each).reshape(len(vectors), per_skill, *each.shape[1:]) for each in episodes))


@cache
def _compiled_walks(env: JaxEnv, number: int) -> Any:  # noqa: ANN401
    def walk(key: RandomKey) -> tuple[Shaped[Array, "t ..."], Float[Array, "s a"]]:
        start_key, action_key, run_key = jax.random.split(key, 3)
        state = env.reset_for_evaluation(start_key)
        actions = jax.random.uniform(action_key, (env.spec.horizon, env.spec.action_dim), minval=-1.0)

        def step(state: PyTree, inputs: tuple[Float[Array, " a"], RandomKey]) -> tuple[PyTree, Shaped[Array, "..."]]:
            state, timestep = env.step(state, *inputs)
            return state, timestep.obs

        _, obs = jax.lax.scan(step, state, (actions, jax.random.split(run_key, env.spec.horizon)))
        return jnp.concatenate([env.observe(state)[None], obs]), actions

    return jax.jit(lambda key: jax.vmap(walk)(jax.random.split(key, number)))


def random_walks(env: JaxEnv, number: int, *, seed: int = 0) -> list[Recorded]:
    """Episodes with uniformly random actions from the evaluation start."""
    obs, action = map(np.asarray, _compiled_walks(env, number)(jax.random.key(seed)))
    return [Recorded(*episode) for episode in zip(obs, action, strict=True)]
