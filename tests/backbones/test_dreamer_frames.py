"""Frames as deviations from the mean frame: the numbers, and every way by which the model is shown frames."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dreams import changed
from probes import quick

from skillscape.backbones.dreamer.agent import Dreamer
from skillscape.backbones.dreamer.config import BehaviourConfig, WorldConfig
from skillscape.backbones.dreamer.image_norm import SAMPLE_EVERY, ImageNorm, normalize_obs
from skillscape.conv import preprocess
from skillscape.objectives.extrinsic import Extrinsic
from skillscape.stats import Moments
from skillscape.types import EnvSpec, Sequences

SHAPE = (4, 4, 3)
SPEC = EnvSpec(SHAPE, 2, 10)
KEY = jax.random.key(5)
PLAIN = Dreamer(
    world=WorldConfig(
        encoder="patches",
        patch=2,
        patch_width=3,
        embedding=5,
        deter=6,
        hidden=7,
        stoch=2,
        classes=3,
        units=8,
        layers=1,
    ),
    behaviour=BehaviourConfig(units=8, layers=1, horizon=3, imagined_starts=6),
)
NORMALIZED = changed(PLAIN, world={"normalize_images": True})
SKILLED = Extrinsic(skill_kind="discrete", skill_width=4)


def sequences(rows=3, times=9, seed=0):
    """A bright background with one darker pixel that moves."""
    generator = np.random.default_rng(seed)
    obs = np.full((rows, times, *SHAPE), 220, np.uint8)
    for row in range(rows):
        for time in range(times):
            obs[row, time, *generator.integers(0, 4, 2)] = generator.integers(0, 100)
    first = np.zeros((rows, times), np.float32)
    first[:, 0] = 1
    return Sequences(
        obs=jnp.asarray(obs),
        action=jnp.asarray(generator.uniform(-1, 1, (rows, times, 2)), jnp.float32),
        reward=jnp.zeros((rows, times)),
        discount=jnp.ones((rows, times)),
        skill=jnp.tile(jnp.eye(4)[0], (rows, times, 1)),
        first=jnp.asarray(first),
    )


@pytest.fixture(scope="module")
def after():
    """An agent of each kind after an update."""
    found = {}
    for backbone in (PLAIN, NORMALIZED):
        agent = quick(lambda one=backbone: one.init(KEY, SPEC, SKILLED))()
        state = SKILLED.init(KEY, backbone.objective_spec(SPEC))
        learn = quick(lambda a, s, b, one=backbone: one.learn(a, SKILLED, s, b, KEY))
        found[backbone] = learn(agent, state, sequences())
    return found


def test_moments_are_those_of_the_frames_looked_at():
    batch = sequences()
    frames = ImageNorm(Moments.create(SHAPE)).include(preprocess(batch.obs))
    taken = np.asarray(preprocess(batch.obs))[:, ::SAMPLE_EVERY].reshape(-1, *SHAPE)
    np.testing.assert_allclose(frames.moments.mean, taken.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(frames.unit**2, taken.var(axis=0, ddof=1).mean(), rtol=1e-2)


def test_what_is_shown_is_centred_and_of_size_one_and_can_be_taken_back():
    batch = sequences(rows=40, times=1)
    frames = ImageNorm(Moments.create(SHAPE)).include(preprocess(batch.obs))
    seen = normalize_obs(frames, batch.obs)
    np.testing.assert_allclose(np.mean(seen, axis=(0, 1)), 0, atol=1e-3)
    assert np.sqrt(np.mean(np.asarray(seen) ** 2)) == pytest.approx(1, abs=0.05)
    np.testing.assert_allclose(frames.denormalize(seen), preprocess(batch.obs), atol=1e-5)
    np.testing.assert_array_equal(normalize_obs(None, batch.obs), preprocess(batch.obs))


def test_frames_that_never_change_stay_finite():
    still = jnp.full((3, 2, *SHAPE), 90, jnp.uint8)
    frames = ImageNorm(Moments.create(SHAPE)).include(preprocess(still))
    assert np.isfinite(normalize_obs(frames, still)).all()
    assert np.abs(normalize_obs(frames, still)).max() < 1


def test_vectors_have_no_frames():
    shapes = jax.eval_shape(lambda: NORMALIZED.init(KEY, EnvSpec((3,), 2, 10), SKILLED))
    assert shapes.image_norm is None


def test_the_loss_is_in_pixels_whichever_way_frames_are_shown():
    """A model that always says nothing misses the mean frame by as much as the frames vary."""
    batch = sequences(rows=6)
    frames = ImageNorm(Moments.create(SHAPE)).include(preprocess(batch.obs))
    images = preprocess(batch.obs)
    batch = batch._replace(obs=frames.normalize(images))
    world = jax.tree.map(jnp.zeros_like, quick(lambda: NORMALIZED.init(KEY, SPEC, SKILLED))().world)
    _, (_, metrics) = quick(lambda world: NORMALIZED._improve_world(world, batch, frames.unit, KEY))(world)
    misses = np.asarray(images) - np.asarray(frames.moments.mean)
    assert metrics["observation_loss"] == pytest.approx(0.5 * (misses**2).sum() / batch.first.size, rel=1e-4)


def test_learning_takes_frames_in_and_fine_tuning_keeps_them(after):
    agent, _, metrics = after[NORMALIZED]
    taken = sequences().obs[:, ::SAMPLE_EVERY]
    assert float(agent.image_norm.moments.count) == pytest.approx(taken.shape[0] * taken.shape[1], abs=0.01)
    assert all(np.isfinite(value) for value in metrics.values())
    adapted = quick(lambda agent: NORMALIZED.adapt(agent, KEY))(agent)
    np.testing.assert_array_equal(adapted.image_norm.moments.mean, agent.image_norm.moments.mean)
    assert after[PLAIN][0].image_norm is None


@pytest.mark.parametrize("asked", ["act", "log_prob", "shown", "predict"])
def test_every_way_to_the_model_shows_it_normalised_images(after, asked):
    """As if the images had been normalised before and the agent knew of no moments."""
    agent = after[NORMALIZED][0]
    # Fresh networks are so gentle that latents are drawn alike whatever is seen.
    bold = jax.tree.map(lambda leaf: 5 * leaf, agent.world.params)
    agent = agent._replace(world=agent.world._replace(params=bold))
    batch = sequences(rows=1, seed=1)
    obs, action, skill = batch.obs[0], batch.action[0], batch.skill[0]

    def answer(agent, obs, batch):
        if asked == "act":
            carry = NORMALIZED.initial_carry(obs.shape[0])
            return NORMALIZED.act(NORMALIZED.policy_params(agent), carry, obs, skill, KEY, False)[0]
        if asked == "log_prob":
            return NORMALIZED.log_prob(agent, obs, skill, action)
        if asked == "shown":
            return NORMALIZED.objective_obs(agent, obs, action)
        return NORMALIZED.predict(agent, batch, 3)

    ready = agent.image_norm.normalize(preprocess(batch.obs))
    asking = quick(answer)
    direct = np.asarray(asking(agent._replace(image_norm=None), ready[0], batch._replace(obs=ready)))
    if asked == "predict":
        direct = np.asarray(agent.image_norm.denormalize(jnp.asarray(direct)))
    found = np.asarray(asking(agent, obs, batch))
    np.testing.assert_allclose(found, direct, rtol=1e-4, atol=1e-5)
    raw = np.asarray(asking(agent._replace(image_norm=None), obs, batch))
    assert np.abs(found - raw).max() > 1e-4
