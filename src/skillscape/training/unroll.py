"""Episodes side by side in a compiled program: new ones to their end, or some steps of ones under way."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree, Shaped

from skillscape.backbones.base import Backbone
from skillscape.config import RunConfig
from skillscape.envs.base import JaxEnv
from skillscape.skills import SkillSpace
from skillscape.types import RandomKey, Rollout

FIRST_STATES = 256
"""First states that an iteration draws, for all episodes that begin in it."""


class Episodes(NamedTuple):
    """Episodes under way, side by side."""

    state: PyTree
    """States of the environment, stacked."""
    skill: Float[Array, "e z"]
    carry: PyTree
    """What the policy carries from step to step."""
    age: Int[Array, " e"]
    """Steps taken in each."""


def first_states(env: JaxEnv, key: RandomKey, number: int) -> PyTree:
    """First states of training episodes, stacked."""
    return jax.vmap(env.reset)(jax.random.split(key, number))


def collect(
    env: JaxEnv,
    backbone: Backbone[Any, Any],
    skills: SkillSpace,
    resample_every: int | None,
    agent: PyTree,
    episodes: Episodes,
    steps: int,
    key: RandomKey,
    skill: Float[Array, "e z"] | None = None,
) -> tuple[Episodes, Rollout]:
    """Continue ``episodes`` for ``steps`` environment steps each; one that ends is followed by a new one.

    New episodes begin in first states that are drawn once per call, ``FIRST_STATES`` at most: a reset of a simulated
    body costs about as much as a step, and compiled code would compute one at every step. Skills are drawn from the
    prior, per episode and every ``resample_every`` steps, unless ``skill`` is given.
    """
    number, horizon = episodes.age.shape[0], env.spec.horizon
    params = backbone.policy_params(agent)
    pool = min(number, FIRST_STATES)
    # No step has the index ``steps``, so no other draw has this key.
    firsts = first_states(env, jax.random.fold_in(key, steps), pool)

    def step(before: Episodes, key: RandomKey) -> tuple[Episodes, Rollout]:
        state, held, memory, age = before
        act_key, step_key, reset_key, skill_key = jax.random.split(key, 4)
        if skill is None and resample_every is not None:
            due = (age > 0) & (age % resample_every == 0)
            held = _where(due, skills.sample(skill_key, number), held)
        obs = jax.vmap(env.observe)(state)
        action, memory = backbone.act(params, memory, obs, held, act_key, True)
        state, timestep = jax.vmap(env.step)(state, action, jax.random.split(step_key, number))
        ended = (timestep.terminated > 0) | (age + 1 == horizon)
        row = Rollout(
            obs=obs,
            action=action,
            next_obs=timestep.obs,
            skill=held,
            reward=timestep.reward,
            discount=1 - timestep.terminated,
            last=ended.astype(jnp.float32),
        )
        anew = skills.sample(jax.random.fold_in(skill_key, 1), number) if skill is None else skill
        chosen = jax.random.randint(reset_key, (number,), 0, pool)
        fresh = Episodes(
            jax.tree.map(lambda first: first[chosen], firsts), anew, backbone.initial_carry(number), jnp.zeros_like(age)
        )
        gone_on = Episodes(state, held, memory, age + 1)
        return jax.tree.map(lambda new, old: _where(ended, new, old), fresh, gone_on), row

    begun = episodes if skill is None else episodes._replace(skill=skill)
    return jax.lax.scan(step, begun, jax.random.split(key, steps))


def collect_whole(
    env: JaxEnv,
    backbone: Backbone[Any, Any],
    skills: SkillSpace,
    resample_every: int | None,
    agent: PyTree,
    episodes: int,
    key: RandomKey,
    skill: Float[Array, "e z"] | None = None,
) -> Rollout:
    """``collect`` for one horizon with ``episodes`` new episodes, all of which end there."""
    start_key, skill_key, run_key = jax.random.split(key, 3)
    first = skills.sample(skill_key, episodes) if skill is None else skill
    begun = Episodes(
        first_states(env, start_key, episodes),
        first,
        backbone.initial_carry(episodes),
        jnp.zeros(episodes, jnp.int32),
    )
    _, rollout = collect(env, backbone, skills, resample_every, agent, begun, env.spec.horizon, run_key, skill)
    return rollout._replace(last=rollout.last.at[-1].set(1.0))


def begin_episodes(config: RunConfig, env: JaxEnv, key: RandomKey) -> PyTree:
    """The ``Episodes`` that a run starts with; () where every iteration begins new ones.

    Their ages are uniform below the horizon, so that episodes end at different times and a rollout shorter than an
    episode holds all parts of it.
    """
    backbone, skills = config.backbone, config.reward.skills
    if backbone.unroll_steps is None:
        return ()
    number = parallel_episodes(config, env)
    start_key, skill_key, age_key = jax.random.split(jax.random.fold_in(key, 0xE915), 3)
    return Episodes(
        first_states(env, start_key, number),
        skills.sample(skill_key, number),
        backbone.initial_carry(number),
        jax.random.randint(age_key, (number,), 0, env.spec.horizon),
    )


def _where(
    mask: Shaped[Array, " e"], new: Shaped[Array, "e ..."], old: Shaped[Array, "e ..."]
) -> Shaped[Array, "e ..."]:
    return jnp.where(mask.reshape(mask.shape + (1,) * (old.ndim - 1)), new, old)


def parallel_episodes(config: RunConfig, env: JaxEnv) -> int:
    """Episodes that an on-policy backbone collects side by side."""
    return config.backbone.steps_per_iteration(env.spec) // (config.backbone.unroll_steps or env.spec.horizon)


def episode_shapes(config: RunConfig) -> PyTree:
    """Shapes of ``begin_episodes``; () where every iteration begins new ones."""
    if config.backbone.unroll_steps is None:
        return ()
    env = config.make_env()
    assert isinstance(env, JaxEnv)
    return jax.eval_shape(lambda: begin_episodes(config, env, jax.random.key(0)))
