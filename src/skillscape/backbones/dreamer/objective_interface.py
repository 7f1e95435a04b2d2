"""What objectives see of a world model's states, what they learn from them, and how they reward imagined ones.

An objective scores either imagined states, by features of the model, or replayed observations. Observations do not
exist in imagination: their scores are learned there by a reward head on the model's features. The head has to know the
skill: one that does not would pay all skills alike.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, Shaped

from skillscape.backbones.dreamer.config import DreamerConfig
from skillscape.backbones.dreamer.imagination import Dream
from skillscape.backbones.dreamer.world_model import Latent, Posterior, WorldModel, flat
from skillscape.conv import is_image
from skillscape.dists import OneHot
from skillscape.nets import MLP
from skillscape.objectives.base import Objective
from skillscape.optim import TrainState, gradient_step
from skillscape.skills import SkillSpace
from skillscape.types import EnvSpec, Experience, Metrics, RandomKey, Sequences, Spec

# What objectives read


def objective_spec(config: DreamerConfig, env_spec: EnvSpec) -> Spec:
    """Features of the model; of replayed observations, they themselves or the embeddings of images."""
    if config.objective.reward_on == "imagined":
        world = config.world
        width = world.deter if config.objective.features == "deter" else world.feature_width
        return Spec((width,), env_spec.action_dim)
    embedded = env_spec.is_image and config.objective.reward_on == "embedded"
    return Spec((config.world.embedding_width(env_spec),) if embedded else env_spec.obs_shape, env_spec.action_dim)


def objective_features(config: DreamerConfig, states: Latent) -> Float[Array, "p q x"]:
    """What objectives see of the model's states [p, q]."""
    whole = states.deter
    if config.objective.features == "deter+stoch":
        whole = jnp.concatenate([whole, flat(OneHot(states.logits).probabilities)], axis=-1)
    return standardised(whole) if config.objective.standardize else whole


def standardised(rows: Float[Array, "p q x"]) -> Float[Array, "p q x"]:
    """Each row with mean zero and variance one over its entries: the same scale at any time of the training."""
    centred = rows - jnp.mean(rows, axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1e-5)


def replayed_states(config: DreamerConfig, posterior: Posterior, batch: Sequences) -> Shaped[Array, "b t ..."]:
    """What objectives see of replayed states, as ``objective_spec`` says. batch.obs: as the environment gave them."""
    if config.objective.reward_on == "imagined":
        return objective_features(config, posterior.states)
    if config.objective.reward_on == "embedded" and is_image(batch.obs.shape[2:]):
        return standardised(posterior.embedding) if config.objective.standardize else posterior.embedding
    return batch.obs


def pairs(
    objective_obs: Shaped[Array, "b t ..."], feature: Float[Array, "b t f"], batch: Sequences
) -> tuple[Experience, Float[Array, "n f"]]:
    """Neighbours in time as one flat batch, and the model's feature of the later one of each.

    objective_obs: what objectives see of each state, a vector or an image.
    No pair crosses the beginning of an episode: its place is taken by another pair of the batch.
    """
    rows = batch.first[:, 1:].size
    broken = batch.first[:, 1:].reshape(rows) > 0
    order = jnp.argsort(broken)
    chosen = order[jnp.arange(rows) % jnp.maximum(jnp.sum(~broken), 1)]

    def picked(part: Shaped[Array, "b t1 ..."]) -> Shaped[Array, "n ..."]:
        return part.reshape(rows, *part.shape[2:])[chosen]

    experience = Experience(
        obs=picked(objective_obs[:, :-1]),
        action=picked(batch.action[:, 1:]),
        next_obs=picked(objective_obs[:, 1:]),
        skill=picked(batch.skill[:, 1:]),
        reward=picked(batch.reward[:, 1:]),
    )
    return experience, picked(feature[:, 1:])


# Learning from replayed states


def fit_objective(
    config: DreamerConfig,
    objective: Objective[Any],
    state: PyTree,
    head: TrainState[MLP] | None,
    posterior: Posterior,
    batch: Sequences,
    keys: tuple[RandomKey, RandomKey],
) -> tuple[PyTree, TrainState[MLP] | None, Metrics]:
    """The objective's own learning steps on replayed pairs, then one of the reward head where there is one."""
    model_key, head_key = keys
    experience, feature = pairs(replayed_states(config, posterior, batch), posterior.states.feature, batch)

    def step(state: PyTree, key: RandomKey) -> tuple[PyTree, Metrics]:
        return objective.update(state, experience, key)

    state, history = jax.lax.scan(step, state, jax.random.split(model_key, objective.updates_per_step))
    metrics: Metrics = jax.tree.map(lambda values: values[-1], history)
    if head is None:
        return state, None, metrics
    head, state, head_metrics = fit_reward_head(config, head, objective, state, experience, feature, head_key)
    return state, head, {**metrics, **head_metrics}


def head_sizes(feature: int, skills: SkillSpace) -> tuple[int, int]:
    """Inputs and outputs of a reward head: an output for each skill; of a continuum the skill is an input."""
    return (feature + skills.width, 1) if skills.count is None else (feature, skills.count)


def predict_reward(
    head: MLP, feature: Float[Array, "p q f"], skill: Float[Array, "q z"], skills: SkillSpace
) -> Float[Array, "p q"]:
    """What the head says of every state under the skill of its trajectory."""
    if skills.count is None:
        repeated = jnp.broadcast_to(skill[None], (feature.shape[0], *skill.shape))
        return jax.vmap(jax.vmap(head))(jnp.concatenate([feature, repeated], axis=-1))[:, :, 0]
    outputs = jax.vmap(jax.vmap(head))(feature)
    return jnp.sum(outputs * skill[None], axis=-1) if skills.width else outputs[:, :, 0]


def fit_reward_head(
    config: DreamerConfig,
    head: TrainState[MLP],
    objective: Objective[Any],
    state: PyTree,
    experience: Experience,
    feature: Float[Array, "n f"],
    key: RandomKey,
) -> tuple[TrainState[MLP], PyTree, Metrics]:
    """Score the replayed pairs under all skills, or fresh ones of a continuum, and fit the head to these scores.

    Where an objective cannot score a row under another skill than its own, its own skill is used.
    """
    reward_key, skill_key = jax.random.split(key)
    skills, rows = objective.skills, experience.reward.shape[0]
    all_skills = objective.scores_other_skills and skills.count is not None
    asked = experience
    if objective.scores_other_skills and skills.count is None:
        asked = experience._replace(skill=skills.sample(skill_key, rows))
    after, reward, metrics = objective.reward(state, asked, reward_key)
    if all_skills:

        def under(skill: Float[Array, " z"]) -> Float[Array, " n"]:
            # What does not depend on the skill is computed once for all of them.
            same = jnp.broadcast_to(skill[None], (rows, skill.shape[0]))
            _, scores, _ = objective.reward(state, experience._replace(skill=same), reward_key)
            return scores

        reward = jax.vmap(under)(skills.all()).T
    wanted = jax.lax.stop_gradient(reward)

    def loss(head: MLP) -> tuple[Float[Array, ""], Metrics]:
        guess = jax.vmap(head)(feature) if all_skills else predict_reward(head, feature[None], asked.skill, skills)[0]
        error = 0.5 * jnp.mean((guess - wanted) ** 2)
        return error, {"reward_loss": error, "replayed_reward": jnp.mean(wanted)}

    head, head_metrics = gradient_step(config.world.optimizer, loss, head)
    return head, after, {**metrics, **head_metrics}


# Rewards of imagined states


class Starts(NamedTuple):
    """Where imagination begins: n replayed states, with what led there."""

    state: Latent
    before: Float[Array, "n x"]
    """What objectives see of the state before; of the state itself where none is known."""
    action: Float[Array, "n a"]
    skill: Float[Array, "n z"]
    known: Float[Array, " n"]
    """Whether the state before is known, and with it the reward of arriving here."""


def imagined_starts(
    config: DreamerConfig, posterior: Posterior, batch: Sequences, skills: SkillSpace, key: RandomKey
) -> Starts:
    """``imagined_starts`` replayed states, or all where that is 0, each with the skill that acted or one drawn anew."""
    start_key, skill_key = jax.random.split(key)
    objective_obs = objective_features(config, posterior.states)
    rows, number = batch.first.size, config.behaviour.imagined_starts
    chosen = jax.random.permutation(start_key, rows)[:number] if 0 < number < rows else jnp.arange(rows)

    def picked(part: Float[Array, "b t ..."]) -> Float[Array, "n ..."]:
        return part.reshape(rows, *part.shape[2:])[chosen]

    before = jnp.concatenate([objective_obs[:, :1], objective_obs[:, :-1]], axis=1)
    # The skill that acts in a state is the one that chose the action after it.
    acting = jnp.concatenate([batch.skill[:, 1:], batch.skill[:, -1:]], axis=1)
    starts = Starts(
        state=Latent(*(picked(part) for part in posterior.states)),
        before=picked(jnp.where(batch.first[:, :, None] > 0, objective_obs, before)),
        action=picked(batch.action),
        skill=picked(acting),
        known=picked(1 - batch.first),
    )
    if config.objective.imagined_skills == "replayed":
        return starts
    return starts._replace(skill=skills.sample(skill_key, starts.skill.shape[0]))


def imagined_reward(
    config: DreamerConfig,
    world: WorldModel,
    head: MLP | None,
    objective: Objective[Any],
    state: PyTree,
    starts: Starts,
    dream: Dream,
    feature: Float[Array, "h1 n f"],
    key: RandomKey,
) -> tuple[PyTree, Float[Array, "h1 n"], Metrics]:
    """The reward of arriving in every imagined state, the start included; by the head where there is one."""
    if head is not None:
        return state, predict_reward(head, feature, starts.skill, objective.skills), {}
    held = jax.lax.stop_gradient
    objective_obs = objective_features(config, dream.states)
    if not config.objective.reward_gradient:
        objective_obs = held(objective_obs)
    times = objective_obs.shape[0]
    rows = Experience(
        obs=jnp.concatenate([starts.before[None], objective_obs[:-1]]),
        action=held(jnp.concatenate([starts.action[None], dream.action])),
        next_obs=objective_obs,
        skill=jnp.broadcast_to(starts.skill[None], (times, *starts.skill.shape)),
        reward=world.expected_reward(feature),
    )
    if config.objective.reward_batch == "all":
        together = Experience(*(part.reshape(times * part.shape[1], *part.shape[2:]) for part in rows))
        state, reward, metrics = objective.reward(state, together, key)
        return state, reward.reshape(times, -1), metrics

    def step(state: PyTree, now: tuple[Experience, RandomKey]) -> tuple[PyTree, tuple[Float[Array, " n"], Metrics]]:
        state, reward, metrics = objective.reward(state, *now)
        return state, (reward, metrics)

    state, (reward, metrics) = jax.lax.scan(step, state, (rows, jax.random.split(key, times)))
    return state, reward, jax.tree.map(jnp.mean, metrics)
