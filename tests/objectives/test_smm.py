"""SMM against its formulas in NumPy, its two signs, and what it pays for: rare states, telling skills."""

import dataclasses
import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.smm import SMM
from skillscape.types import Experience, Spec

SKILLS, ROWS, LATENT, WEIGHT = 3, 12, 5, 0.5
OBJECTIVE = SMM(number_of_skills=SKILLS, hidden=(16,), density_hidden=(14,), latent_dim=LATENT)
FAITHFUL = dataclasses.replace(OBJECTIVE, faithful_sign=True)
STATE = OBJECTIVE.init(jax.random.key(0), Spec((2,), 2))
KEY = jax.random.key(7)


@cache
def compiled(objective, function):
    return jax.jit(getattr(objective, function))


def experience(states, skill):
    rows = len(skill)
    # SMM scores s; s' is elsewhere, so that reading it would show.
    return Experience(
        obs=jnp.asarray(states, jnp.float32),
        action=jnp.zeros((rows, 2)),
        next_obs=jnp.asarray(np.random.default_rng(9).normal(size=(rows, 2)), jnp.float32),
        skill=jnp.eye(SKILLS)[np.asarray(skill)],
        reward=jnp.zeros(rows),
    )


def batch(seed=0):
    return experience(np.random.default_rng(seed).normal(size=(ROWS, 2)), np.arange(ROWS) % SKILLS)


def network(mlp, rows):
    """A network with one hidden layer, by hand."""
    first, last = mlp.layers
    hidden = np.maximum(rows @ np.asarray(first.weight).T + np.asarray(first.bias), 0)
    return hidden @ np.asarray(last.weight).T + np.asarray(last.bias)


def evidence_by_hand(state, data, key):
    """Squared errors over s *and* z, entry by entry, and KLs."""
    pairs = np.concatenate([np.asarray(data.obs), np.asarray(data.skill)], axis=-1)
    code = network(state.density.params.encoder, pairs)
    mean, log_variance = code[:, :LATENT], code[:, LATENT:]
    noise = np.asarray(jax.random.normal(key, mean.shape))
    decoded = network(state.density.params.decoder, mean + np.exp(log_variance / 2) * noise)
    divergence = 0.5 * (np.exp(log_variance) + mean**2 - 1 - log_variance).sum(axis=-1)
    return (pairs - decoded) ** 2, divergence


def log_probability(state, data):
    """log q(z|s) of the own skill, by hand."""
    logits = network(state.discriminator.params, np.asarray(data.obs))
    return (logits * np.asarray(data.skill)).sum(axis=-1) - np.log(np.exp(logits).sum(axis=-1))


@pytest.mark.parametrize(("objective", "sign"), [(OBJECTIVE, 1), (FAITHFUL, -1)], ids=["theory", "code"])
def test_reward(objective, sign):
    squared, _ = evidence_by_hand(STATE, batch(), KEY)
    expected = squared.sum(axis=-1) + sign * log_probability(STATE, batch()) + math.log(SKILLS)
    _, reward, _ = compiled(objective, "reward")(STATE, batch(), KEY)
    np.testing.assert_allclose(reward, expected, rtol=1e-4, atol=1e-5)


def test_losses():
    squared, divergence = evidence_by_hand(STATE, batch(), KEY)
    density = squared.mean() + WEIGHT * divergence.mean()
    discriminator = -log_probability(STATE, batch()).mean()
    _, metrics = compiled(OBJECTIVE, "update")(STATE, batch(), KEY)
    np.testing.assert_allclose(metrics["density_loss"], density, rtol=1e-4)
    np.testing.assert_allclose(metrics["discriminator_loss"], discriminator, rtol=1e-4)
    np.testing.assert_allclose(metrics["model_loss"], density + discriminator, rtol=1e-4)


def test_each_model_has_its_own_learning_rate():
    # Adam's first step has the length of its learning rate where the gradient is far above ε.
    learned, _ = jax.jit(dataclasses.replace(OBJECTIVE, epsilon=1e-8).update)(STATE, batch(), KEY)
    for name, rate in (("density", 1e-2), ("discriminator", 1e-3)):
        before, after = (jax.tree.leaves(getattr(state, name).params) for state in (STATE, learned))
        longest = max(float(jnp.max(jnp.abs(new - old))) for old, new in zip(before, after, strict=True))
        assert longest == pytest.approx(rate, rel=0.01)


def test_the_reward_is_of_the_model_after_the_update():
    learned, _ = compiled(OBJECTIVE, "update")(STATE, batch(), jax.random.key(3))
    squared, _ = evidence_by_hand(learned, batch(), KEY)
    expected = squared.sum(axis=-1) + log_probability(learned, batch()) + math.log(SKILLS)
    state, reward, _ = compiled(OBJECTIVE, "reward")(learned, batch(), KEY)
    np.testing.assert_allclose(reward, expected, rtol=1e-4, atol=1e-5)
    assert jax.tree.all(jax.tree.map(lambda old, new: jnp.all(old == new), learned, state))


def test_scores_are_log_probabilities():
    scores = OBJECTIVE.score_skills(STATE, batch().obs)
    np.testing.assert_allclose(np.exp(scores).sum(axis=-1), 1, rtol=1e-5)


def places(rows=60, seed=0):
    """Skills at places of their own, one state in ten of each far from all others."""
    generator = np.random.default_rng(seed)
    skill = np.arange(rows) % SKILLS
    middles = np.asarray([[1.0, 0.0], [-1.0, 0.5], [0.0, -1.0]])[skill]
    is_rare = np.arange(rows) // SKILLS % 10 == 0
    states = middles * np.where(is_rare, 3.0, 1.0)[:, None] + generator.normal(scale=0.1, size=(rows, 2))
    return experience(states, skill), is_rare


@cache
def learned():
    data, _ = places()

    def step(state, key):
        return OBJECTIVE.update(state, data, key)

    return jax.jit(lambda state: jax.lax.scan(step, state, jax.random.split(jax.random.key(0), 600)))(STATE)[0]


def test_rare_states_earn_more():
    data, is_rare = places(seed=1)
    _, reward, _ = compiled(OBJECTIVE, "reward")(learned(), data, KEY)
    assert np.asarray(reward)[is_rare].min() > np.asarray(reward)[~is_rare].mean() + 1


def test_telling_states_earn_more_and_less_with_the_sign_of_the_code():
    data, is_rare = places(seed=1)
    skill = np.argmax(data.skill, axis=-1)
    # The next skill is never at this one's place: that is rarer, but it does not tell the skill.
    mistaken = data._replace(skill=jnp.eye(SKILLS)[(skill + 1) % SKILLS])
    for objective, sign in ((OBJECTIVE, 1), (FAITHFUL, -1)):
        _, own, own_metrics = compiled(objective, "reward")(learned(), data, KEY)
        _, other, other_metrics = compiled(objective, "reward")(learned(), mistaken, KEY)
        difference = np.asarray(own - other)[~is_rare].mean()
        assert sign * difference > 0.5
        assert own_metrics["log_discriminator"] > other_metrics["log_discriminator"] + 1
