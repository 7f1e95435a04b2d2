"""CeSD against its formulas in NumPy, with and without relabelling, and on states in clumps."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.base import Scale
from skillscape.objectives.cesd import CeSD
from skillscape.types import Experience, Spec

SKILLS, ROWS, NEIGHBOURS, FLOOR, BETA, T, CLUSTER_T, ITERATIONS = 3, 24, 3, 0.05, 0.7, 0.5, 0.1, 5
OBJECTIVE = CeSD(
    number_of_skills=SKILLS,
    relabelled=True,
    constraint_weight=BETA,
    hidden=(16,),
    feature_dim=6,
    temperature=T,
    cluster_temperature=CLUSTER_T,
    sinkhorn_iterations=ITERATIONS,
    neighbours=NEIGHBOURS,
    distance_floor=FLOOR,
    learning_rate=1e-2,
)
ACTING = dataclasses.replace(OBJECTIVE, relabelled=False)
KEY = jax.random.key(0)
# A start at which the clusters are of different sizes, and none of them empty.
STATE = OBJECTIVE.init(jax.random.key(2), Spec((2,), 2))
BOTH = pytest.mark.parametrize("objective", [OBJECTIVE, ACTING], ids=["relabelled", "acting"])


def batch(seed=0, scale=3.0):
    generator = np.random.default_rng(seed)
    obs, next_obs = (jnp.asarray(one, jnp.float32) for one in scale * generator.normal(size=(2, ROWS, 2)))
    return Experience(obs, jnp.zeros((ROWS, 2)), next_obs, jnp.eye(SKILLS)[np.arange(ROWS) % SKILLS], jnp.zeros(ROWS))


def network(name, rows):
    first, last = getattr(STATE.networks.params.contrast, name).layers
    hidden = np.maximum(np.asarray(rows) @ np.asarray(first.weight).T + np.asarray(first.bias), 0)
    return hidden @ np.asarray(last.weight).T + np.asarray(last.bias)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def logits(states):
    return unit(network("state", states)) @ np.asarray(STATE.networks.params.prototypes).T / CLUSTER_T


def softmax(values):
    weights = np.exp(values - values.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def clusters(data, key=KEY):
    return np.asarray(jax.random.categorical(key, jnp.log(softmax(logits(data.next_obs)))))


def reward_by_hand(objective, data, variance):
    """Row by row, for the running variance of the distances."""
    features, found = network("state", data.next_obs), clusters(data)
    acting, share = np.argmax(data.skill, axis=-1), softmax(logits(data.next_obs))
    rewards, seen = [], []
    for row in range(ROWS):
        cluster = found[row] if objective.relabelled else acting[row]
        inside = found == cluster
        distances = np.sort(np.linalg.norm(features[inside] - features[row], axis=-1))[:NEIGHBOURS]
        seen.extend(distances)
        spread = np.maximum(distances / variance - FLOOR, 0).mean() if len(distances) else 0.0
        value = np.log1p(spread) + BETA / (1 + (inside & (acting != cluster)).sum())
        if inside.sum() < objective.smallest_cluster:
            value = 0.0
        rewards.append(value if objective.relabelled else share[row, cluster] * value)
    return np.asarray(rewards), np.asarray(seen)


@BOTH
def test_reward(objective):
    sizes = np.bincount(clusters(batch()), minlength=SKILLS)
    assert sizes.min() > 0
    state, reward, _ = jax.jit(objective.reward)(STATE, batch(), KEY)
    expected, distances = reward_by_hand(objective, batch(), np.asarray(state.distances.variance))
    np.testing.assert_allclose(reward, expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(state.distances.mean, distances.mean(), rtol=1e-3)
    np.testing.assert_allclose(state.distances.variance, distances.var(ddof=1), rtol=1e-2)


@BOTH
def test_small_clusters_earn_nothing_where_asked(objective):
    sizes = np.bincount(clusters(batch()), minlength=SKILLS)
    strict = dataclasses.replace(objective, smallest_cluster=int(sizes.min()) + 1)
    state, reward, _ = strict.reward(STATE, batch(), KEY)
    expected, _ = reward_by_hand(strict, batch(), np.asarray(state.distances.variance))
    assert 0 < (expected == 0).sum() < ROWS
    np.testing.assert_allclose(reward, expected, rtol=1e-3, atol=1e-5)


def test_rows_are_relabelled_to_the_clusters_that_were_scored():
    for seed in range(3):
        key = jax.random.key(seed)
        relabelled = OBJECTIVE.relabel(STATE, batch(), key)
        np.testing.assert_array_equal(relabelled, np.eye(SKILLS)[clusters(batch(), key)])
    assert np.any(np.asarray(relabelled) != np.asarray(batch().skill))
    assert (OBJECTIVE.relabels, ACTING.relabels) == (True, False)


def test_a_state_pays_less_the_more_other_skills_share_its_cluster():
    # All rows in one place: the spread is zero, and what is left is the constraint.
    data = batch()
    together = data._replace(next_obs=jnp.broadcast_to(data.next_obs[:1], data.next_obs.shape))
    (cluster,) = set(clusters(together).tolist())
    for strangers in (0, 5, ROWS):
        acting = np.where(np.arange(ROWS) < strangers, (cluster + 1) % SKILLS, cluster)
        _, reward, _ = OBJECTIVE.reward(STATE, together._replace(skill=jnp.eye(SKILLS)[acting]), KEY)
        np.testing.assert_allclose(reward, BETA / (1 + strangers), rtol=1e-4)


def test_loss():
    data = batch()
    pairs = np.concatenate([network("state", data.obs), network("state", data.next_obs)], axis=-1)
    similarity = unit(network("skill", data.skill)) @ unit(network("predictor", pairs)).T / T
    contrast = -np.diag(np.log(softmax(similarity))).mean()
    assignment = np.exp(logits(data.next_obs))
    for _ in range(ITERATIONS):
        assignment /= assignment.sum(axis=0, keepdims=True)
        assignment /= assignment.sum(axis=1, keepdims=True)
    clustering = -(assignment * np.log(softmax(logits(data.obs)))).sum(axis=-1).mean()
    _, metrics = jax.jit(OBJECTIVE.update)(STATE, data, KEY)
    np.testing.assert_allclose(metrics["contrast_loss"], contrast, rtol=1e-3)
    np.testing.assert_allclose(metrics["cluster_loss"], clustering, rtol=1e-3)
    np.testing.assert_allclose(metrics["model_loss"], contrast + clustering, rtol=1e-3)


def test_prototypes_learn_without_moving_the_features():
    networks = STATE.networks.params
    gradients = jax.grad(lambda network: jnp.sum(network.similarity(batch().obs)[:, 0]))(networks)
    assert jnp.any(gradients.prototypes != 0)
    assert not any(jnp.any(leaf != 0) for leaf in jax.tree.leaves(gradients.contrast))


def clumps(rows=60, seed=0):
    """Three places, each of a skill; s' near s."""
    generator = np.random.default_rng(seed)
    skill = np.arange(rows) % SKILLS
    middles = np.asarray([[3.0, 0.0], [-3.0, 1.5], [0.0, -3.0]])[skill]
    obs, next_obs = (jnp.asarray(middles + generator.normal(scale=0.2, size=(rows, 2)), jnp.float32) for _ in range(2))
    return Experience(obs, jnp.zeros((rows, 2)), next_obs, jnp.eye(SKILLS)[skill], jnp.zeros(rows))


def test_learning_gives_each_clump_a_cluster():
    def step(state, key):
        return OBJECTIVE.update(state, clumps(), key)

    state, _ = jax.jit(lambda state: jax.lax.scan(step, state, jax.random.split(KEY, 300)))(STATE)
    held_out = clumps(seed=1)
    found = np.argmax(OBJECTIVE.score_skills(state, held_out.next_obs), axis=-1)
    places = np.argmax(held_out.skill, axis=-1)
    names = [np.bincount(found[places == place], minlength=SKILLS) for place in range(SKILLS)]
    # One cluster each, in whatever order.
    assert sorted(int(count.argmax()) for count in names) == [0, 1, 2]
    assert min(count.max() for count in names) > 0.9 * len(found) / SKILLS


def test_settings_of_the_bodies_and_where_rows_are_relabelled():
    scale = Scale("urlb", "paper", 1024, 1024, 1024, 16, 50, 1e-4, 1e-8)
    at = {body: CeSD.at(dataclasses.replace(scale, env_id=body)) for body in ("walker", "quadruped", "jaco")}
    assert [one.sinkhorn_iterations for one in at.values()] == [6, 5, 4]
    assert [one.constraint_weight for one in at.values()] == [1.0, 1.0, 0.1]
    assert all(one.relabelled for one in at.values())
    assert not CeSD.at(dataclasses.replace(scale, benchmark="urlb-pixels")).relabelled
    assert CeSD.at(dataclasses.replace(scale, benchmark="maze", replayed=True)).relabelled
    assert not CeSD.at(dataclasses.replace(scale, benchmark="maze", replayed=False)).relabelled
