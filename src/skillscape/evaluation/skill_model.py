"""Whether a method's own model identifies skills: SD3's density, DIAYN's discriminator, on states of the evaluation.

A reward is only as good as the model it is computed from. ``skill_accuracy`` and ``mutual_information`` measure the
skills by classifiers of their own; the measures here are those of the model itself.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, Shaped

from skillscape.backbones.base import Backbone
from skillscape.config import RunConfig
from skillscape.evaluation.returns import Recorded
from skillscape.evaluation.rollouts import Render
from skillscape.objectives.base import Objective
from skillscape.types import EnvSpec, Metrics

Measure: TypeAlias = Callable[..., tuple[Float[Array, ""], Float[Array, ""], Metrics]]

SCORED_STATES = 2_000
"""States that the model scores at an evaluation, split equally among skills and their episodes."""
RECORDED_EPISODES = 4
"""Episodes of each skill that they are taken from, at most."""
RECORDED_IMAGES = 5_000
"""Images that are read for that, at most, as far as one episode of each skill allows."""
RANDOM_WALKS = 4
"""Episodes with uniformly random actions, for methods that ``diagnose``."""
RANDOM_STATES = 400
"""States of them that the model scores."""


def has_model_measures(config: RunConfig) -> bool:
    """Whether a run has ``model_measures``: a pre-training of two or more discrete skills with ``score_skills``."""
    method, count = config.reward, config.reward.skills.count
    return config.phase == "pretrain" and config.task is None and method.scores_skills and (count or 1) > 1


def recorded_episodes(config: RunConfig, spec: EnvSpec, number: int) -> int:
    """How many of ``number`` episodes of each skill the model scores; 0 without ``model_measures``."""
    if not has_model_measures(config):
        return 0
    allowed = RECORDED_IMAGES // ((config.reward.skills.count or 1) * spec.horizon) if spec.is_image else number
    return max(1, min(number, allowed, RECORDED_EPISODES))


def model_measures(
    config: RunConfig,
    spec: EnvSpec,
    agent: PyTree,
    state: PyTree,
    episodes: Sequence[Sequence[Recorded]],
    walks: Sequence[Recorded],
    render: Render | None = None,
) -> dict[str, float]:
    """Measures of the objective's model in ``state``; every skill and every episode has the same weight.

    ``model_accuracy``: fraction of states whose own skill has the highest score; 1/n by chance.
    ``model_information``: log n + E log p(z|s) in nats, with p(z|s) the softmax of the scores. It is a lower bound on
    I(S;Z) (Barber and Agakov, 2003), at most log n, and negative if the model is overconfident.
    Then the method's own, see ``Objective.diagnose``.

    episodes: skill → episode, without the first states, which all skills share; walks: episodes with random actions;
    ``render``: from observations to what the backbone reads.
    """
    objective = config.reward
    features = _compiled_features(config.backbone, render)

    def scored(recorded: Sequence[Recorded], states: int) -> Shaped[Array, "n ..."]:
        each = max(1, states // len(recorded))
        return jnp.concatenate([features(agent, *_padded(episode, spec.horizon, each)) for episode in recorded])

    listed = [episode for own in episodes for episode in own]
    obs = scored(listed, SCORED_STATES)
    skill = np.repeat(np.asarray(objective.skills.all()), len(obs) // len(episodes), axis=0)
    random = scored(walks, RANDOM_STATES) if walks else obs[:0]
    accuracy, information, diagnosis = _compiled_measures(objective)(state, obs, skill, random)
    measures = {"model_accuracy": accuracy, "model_information": information, **diagnosis}
    return {name: float(value) for name, value in measures.items()}


def _padded(
    episode: Recorded, horizon: int, states: int
) -> tuple[Shaped[np.ndarray, "t ..."], Float[np.ndarray, "t a"], Int[np.ndarray, " n"]]:
    """An episode in the shape of the longest, so that it compiles once, and the times of the states to score."""
    steps = len(episode.action)
    missing = horizon - steps
    obs = np.concatenate([episode.obs, np.repeat(episode.obs[-1:], missing, axis=0)])
    # No action is taken in the last state.
    action = np.concatenate([episode.action, np.zeros((missing + 1, episode.action.shape[1]), np.float32)])
    return obs, action, np.linspace(1, steps, states).round().astype(np.int32)


@cache
def _compiled_features(backbone: Backbone[Any, Any], render: Render | None) -> Callable[..., Shaped[Array, "n ..."]]:
    """What objectives see of the states of an episode at some times."""

    def features(
        agent: PyTree, obs: Shaped[Array, "t ..."], action: Float[Array, "t a"], times: Int[Array, " n"]
    ) -> Shaped[Array, "n ..."]:
        return backbone.objective_obs(agent, obs if render is None else render(obs), action)[times]

    compiled: Callable[..., Shaped[Array, "n ..."]] = jax.jit(features)
    return compiled


@cache
def _compiled_measures(objective: Objective[Any]) -> Measure:
    """Accuracy, information and the method's diagnosis as a function of (model, states, skills, random walks)."""

    def measures(
        state: PyTree, obs: Shaped[Array, "n ..."], skill: Float[Array, "n k"], random: Shaped[Array, "m ..."]
    ) -> tuple[Float[Array, ""], Float[Array, ""], Metrics]:
        scores = objective.score_skills(state, obs)
        own = jnp.sum(jax.nn.log_softmax(scores, axis=-1) * skill, axis=-1)
        accuracy = jnp.mean(jnp.argmax(scores, axis=-1) == jnp.argmax(skill, axis=-1))
        information = math.log(scores.shape[-1]) + jnp.mean(own)
        return accuracy, information, objective.diagnose(state, obs, skill, random)

    compiled: Measure = jax.jit(measures)
    return compiled
