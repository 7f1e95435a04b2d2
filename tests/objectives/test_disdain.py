"""DISDAIN against its formulas in NumPy, its bonus where nothing is known, and skills that choose states of a table."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.diayn import DIAYN
from skillscape.objectives.disdain import DISDAIN
from skillscape.types import Experience, Spec

SKILLS, MEMBERS, WEIGHT, KEY = 3, 4, 20.0, jax.random.key(0)
OBJECTIVE = DISDAIN(
    number_of_skills=SKILLS, ensemble_size=MEMBERS, bonus_weight=WEIGHT, hidden=(16,), learning_rate=1e-2
)
STATE = OBJECTIVE.init(KEY, Spec((2,), 2))


def blobs(rows=30, seed=0):
    generator = np.random.default_rng(seed)
    skill = np.arange(rows) % SKILLS
    middles = np.asarray([[1.0, 0.0], [-1.0, 0.5], [0.0, -1.0]])[skill]
    states = jnp.asarray(middles + generator.normal(scale=0.2, size=(rows, 2)), jnp.float32)
    elsewhere = jnp.asarray(generator.normal(size=(rows, 2)), jnp.float32)
    return Experience(elsewhere, jnp.zeros((rows, 2)), states, jnp.eye(SKILLS)[skill], jnp.zeros(rows))


def probabilities(batch):
    """qᵢ(z|s') of every discriminator, by hand: [members, n, k]."""
    first, last = STATE.ensemble.params.layers
    found = []
    for member in range(MEMBERS):
        hidden = np.maximum(
            np.asarray(batch.next_obs) @ np.asarray(first.weight[member]).T + np.asarray(first.bias[member]), 0
        )
        logits = hidden @ np.asarray(last.weight[member]).T + np.asarray(last.bias[member])
        found.append(np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True))
    return np.asarray(found)


def entropy(probability):
    return -(probability * np.log(probability)).sum(axis=-1)


def test_reward():
    each = probabilities(blobs())
    mean = each.mean(axis=0)
    own = (mean * np.asarray(blobs().skill)).sum(axis=-1)
    bonus = entropy(mean) - entropy(each).mean(axis=0)
    assert bonus.min() > 1e-4
    _, reward, _ = jax.jit(OBJECTIVE.reward)(STATE, blobs(), KEY)
    np.testing.assert_allclose(reward, np.log(own) + math.log(SKILLS) + WEIGHT * bonus, rtol=1e-3, atol=1e-4)


def test_loss():
    own = (probabilities(blobs()) * np.asarray(blobs().skill)[None]).sum(axis=-1)
    _, metrics = jax.jit(OBJECTIVE.update)(STATE, blobs(), KEY)
    np.testing.assert_allclose(metrics["model_loss"], -np.log(own).mean(), rtol=1e-4)


def test_scores_are_of_the_mean_of_the_ensemble():
    scores = OBJECTIVE.score_skills(STATE, blobs().next_obs)
    np.testing.assert_allclose(np.exp(scores), probabilities(blobs()).mean(axis=0), rtol=1e-4)


def test_one_discriminator_without_a_bonus_is_diayn():
    alone = dataclasses.replace(OBJECTIVE, ensemble_size=1, bonus_weight=0.0)
    state = alone.init(KEY, Spec((2,), 2))
    diayn = DIAYN(number_of_skills=SKILLS, hidden=(16,), learning_rate=1e-2)
    fresh = diayn.init(KEY, Spec((2,), 2))
    member = jax.tree.map(lambda leaf: leaf[0], state.ensemble.params)
    fresh = fresh._replace(discriminator=fresh.discriminator._replace(params=member))
    for _ in range(3):
        state, _ = jax.jit(alone.update)(state, blobs(), KEY)
        fresh, _ = jax.jit(diayn.update)(fresh, blobs(), KEY)
    np.testing.assert_allclose(
        alone.reward(state, blobs(), KEY)[1], diayn.reward(fresh, blobs(), KEY)[1], rtol=1e-3, atol=1e-4
    )


def learned(objective, data, steps, state):
    def step(state, key):
        return objective.update(state, data, key)

    return jax.jit(lambda state: jax.lax.scan(step, state, jax.random.split(KEY, steps)))(state)[0]


def test_learning_tells_places_apart_and_leaves_no_bonus_there():
    state = learned(OBJECTIVE, blobs(), 300, STATE)
    held_out = blobs(60, seed=1)
    assert jnp.max(OBJECTIVE.disagreement(state, held_out.next_obs)) < 0.01
    _, reward, _ = OBJECTIVE.reward(state, held_out, KEY)
    assert jnp.mean(reward) == pytest.approx(math.log(SKILLS), abs=0.2)


PLACES = 8


def table(weight):
    """One logit for every state and skill, far from zero at the start: members differ where nothing is known."""
    objective = DISDAIN(
        number_of_skills=PLACES, ensemble_size=4, bonus_weight=weight, hidden=(), learning_rate=0.1, epsilon=1e-8
    )
    state = objective.init(KEY, Spec((PLACES,), 1))
    (layer,) = state.ensemble.params.layers
    apart = eqx.tree_at(
        lambda network: (network.layers[0].weight, network.layers[0].bias),
        state.ensemble.params,
        (10 * layer.weight, 0 * layer.bias),
    )
    return objective, state._replace(ensemble=state.ensemble._replace(params=apart))


def visits(skills, places):
    states = jnp.eye(PLACES)[jnp.asarray(places)]
    rows = len(places)
    return Experience(states, jnp.zeros((rows, 1)), states, jnp.eye(PLACES)[jnp.asarray(skills)], jnp.zeros(rows))


@pytest.mark.parametrize("weight", [0.0, 20.0])
def test_in_a_table_the_bonus_leads_to_a_new_state_until_it_is_known(weight):
    objective, start = table(weight)
    # Skills 0 and 1 share a place, skill 2 has one of its own; no skill has been at 5.
    crowded, new = visits([0, 1, 2], [0, 0, 1]), visits([0], [5])
    state = learned(objective, crowded, 200, start)
    shared = objective.reward(state, visits([0], [0]), KEY)[1][0]
    assert shared == pytest.approx(math.log(PLACES / 2), abs=0.3)
    # Without the bonus the shared place pays more than the new one, which no discriminator takes for that of skill 0.
    assert (objective.reward(state, new, KEY)[1][0] > shared) == (weight > 0)
    # Once it goes there, the new state is its own, and worth more than the shared one without any bonus.
    state = learned(objective, visits([0, 1, 2], [5, 0, 1]), 200, state)
    assert objective.disagreement(state, new.next_obs)[0] < 0.02
    assert objective.reward(state, new, KEY)[1][0] == pytest.approx(math.log(PLACES), abs=0.4)
