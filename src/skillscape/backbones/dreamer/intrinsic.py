"""The reward of replayed observations, imitated by a head that imagination can ask.

Observations do not exist in imagination, so what an objective says of replayed ones is learned by a network on the
model's features. It has to know the skill: a head that does not would pay all skills alike.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from skillscape.nets import MLP
from skillscape.objectives.base import Objective
from skillscape.optim import Learner, descend
from skillscape.skills import SkillSpace
from skillscape.types import Experience, Metrics, RandomKey


def head_sizes(feature: int, skills: SkillSpace) -> tuple[int, int]:
    """Inputs and outputs: one output for each skill that can be listed; otherwise the skill is an input."""
    return (feature + skills.width, 1) if skills.count is None else (feature, skills.count)


def told(
    head: MLP, feature: Float[Array, "p q f"], skill: Float[Array, "q z"], skills: SkillSpace
) -> Float[Array, "p q"]:
    """What the head says of every state under the skill of its trajectory."""
    if skills.count is None:
        repeated = jnp.broadcast_to(skill[None], (feature.shape[0], *skill.shape))
        return jax.vmap(jax.vmap(head))(jnp.concatenate([feature, repeated], axis=-1))[:, :, 0]
    outputs = jax.vmap(jax.vmap(head))(feature)
    return jnp.sum(outputs * skill[None], axis=-1) if skills.width else outputs[:, :, 0]


def teach(
    transform: optax.GradientTransformation,
    head: Learner[MLP],
    objective: Objective[Any],
    state: PyTree,
    seen: Experience,
    feature: Float[Array, "n f"],
    key: RandomKey,
) -> tuple[Learner[MLP], PyTree, Metrics]:
    """Score the replayed pairs under all skills, or fresh ones of a continuum, and fit the head to these scores.

    Where an objective cannot score a row under another skill than its own, its own it is.
    """
    reward_key, skill_key = jax.random.split(key)
    skills, rows = objective.skills, seen.reward.shape[0]
    every = objective.scores_other_skills and skills.count is not None
    asked = seen
    if objective.scores_other_skills and skills.count is None:
        asked = seen._replace(skill=skills.sample(skill_key, rows))
    after, reward, metrics = objective.reward(state, asked, reward_key)
    if every:

        def under(skill: Float[Array, " z"]) -> Float[Array, " n"]:
            # What does not depend on the skill is computed once for all of them.
            same = jnp.broadcast_to(skill[None], (rows, skill.shape[0]))
            _, scores, _ = objective.reward(state, seen._replace(skill=same), reward_key)
            return scores

        reward = jax.vmap(under)(skills.all()).T
    wanted = jax.lax.stop_gradient(reward)

    def loss(head: MLP) -> tuple[Float[Array, ""], Metrics]:
        guess = jax.vmap(head)(feature) if every else told(head, feature[None], asked.skill, skills)[0]
        error = 0.5 * jnp.mean((guess - wanted) ** 2)
        return error, {"reward_loss": error, "replayed_reward": jnp.mean(wanted)}

    head, head_metrics = descend(transform, loss, head)
    return head, after, {**metrics, **head_metrics}
