"""The world model piece by piece: lowerings, shapes, gradients, divergences, and what it can foresee."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dreams import changed
from probes import quick

from skillscape.backbones.dreamer.agent import Dreamer
from skillscape.backbones.dreamer.config import BehaviourConfig, WorldConfig
from skillscape.backbones.dreamer.encoders import PatchDecoder, PatchEncoder
from skillscape.backbones.dreamer.world_model import balanced_kl
from skillscape.conv import preprocess
from skillscape.errors import UserError
from skillscape.objectives.extrinsic import Extrinsic
from skillscape.types import EnvSpec, Sequences

VECTOR = EnvSpec(obs_shape=(3,), action_dim=2, horizon=10)
IMAGE = EnvSpec(obs_shape=(64, 64, 3), action_dim=6, horizon=500)
TINY = Dreamer(
    world=WorldConfig(embedding=5, deter=6, hidden=7, stoch=2, classes=3, units=8, layers=1),
    behaviour=BehaviourConfig(units=8, layers=1),
)
KEY = jax.random.key(3)


def shapes(backbone, spec):
    return jax.eval_shape(lambda: backbone.init(KEY, spec, Extrinsic()))


def size(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


@cache
def world():
    return quick(lambda: TINY.init(jax.random.key(0), VECTOR, Extrinsic()))().world.params


def sequences(rows=3, times=5, seed=0, spec=VECTOR):
    generator = np.random.default_rng(seed)
    first = np.zeros((rows, times), np.float32)
    first[:, 0] = 1
    return Sequences(
        obs=jnp.asarray(generator.normal(size=(rows, times, *spec.obs_shape)), jnp.float32),
        action=jnp.asarray(generator.uniform(-1, 1, (rows, times, spec.action_dim)), jnp.float32),
        reward=jnp.asarray(generator.normal(size=(rows, times)), jnp.float32),
        discount=jnp.ones((rows, times)),
        skill=jnp.zeros((rows, times, 0)),
        first=jnp.asarray(first),
    )


# Shapes and sizes


def test_the_reference_sizes_have_the_parameters_of_the_reference():
    agent = shapes(Dreamer(), IMAGE)
    model = agent.world.params
    assert size(model.encoder) == pytest.approx(1.55e6, rel=0.01)
    assert size(model.dynamics) == pytest.approx(1.25e6, rel=0.02)
    assert size(model.decoder) == pytest.approx(9.89e6, rel=0.01)
    assert size(model.reward) == pytest.approx(0.97e6, rel=0.01)
    assert size(model) == pytest.approx(13.7e6, rel=0.01)
    assert size((model, agent.actor.params, agent.critic.params)) == pytest.approx(15.6e6, rel=0.01)


@pytest.mark.parametrize(
    "backbone",
    [Dreamer(world=WorldConfig(depth=2)), Dreamer(world=WorldConfig(encoder="patches", patch=16, embedding=64))],
)
def test_images_come_back_as_images(backbone):
    model = shapes(backbone, IMAGE).world.params
    embedding = jax.eval_shape(
        lambda model, obs: model.encoder(preprocess(obs)), model, jnp.zeros((64, 64, 3), jnp.uint8)
    )
    assert embedding.shape == (64,)
    image = jax.eval_shape(lambda model, feature: model.decoder(feature), model, jnp.zeros(1224))
    assert image.shape == (64, 64, 3)


def test_other_images_than_the_convolutions_are_made_for_are_refused():
    with pytest.raises(UserError, match=r"use --backbone\.world\.encoder patches"):
        shapes(Dreamer(world=WorldConfig(depth=2)), EnvSpec((32, 32, 3), 2, 10))
    with pytest.raises(UserError, match=r"patches of 8; set --backbone\.world\.patch"):
        shapes(Dreamer(world=WorldConfig(encoder="patches")), EnvSpec((20, 20, 3), 2, 10))


@cache
def inferring():
    return quick(lambda model, batch: model.infer(batch, KEY))


def test_states_have_their_shapes_and_samples_are_one_hot():
    posterior, prior = inferring()(world(), sequences())
    states = posterior.states
    assert states.deter.shape == (3, 5, 6)
    assert states.stoch.shape == states.logits.shape == prior.shape == (3, 5, 2, 3)
    assert states.feature.shape == (3, 5, 12)
    assert posterior.embedding.shape == (3, 5, 5)
    np.testing.assert_array_equal(np.sort(states.stoch, axis=-1), np.broadcast_to([0, 0, 1], (3, 5, 2, 3)))


def test_a_state_is_that_of_the_recurrence():
    model, batch = world(), sequences()
    posterior, prior = inferring()(model, batch)
    states = posterior.states
    dynamics = model.dynamics
    fresh = dynamics.transition(jnp.zeros(6), jnp.zeros((2, 3)), jnp.zeros(2))
    np.testing.assert_allclose(states.deter[1, 0], fresh, atol=1e-6)
    later = dynamics.transition(states.deter[1, 2], states.stoch[1, 2], batch.action[1, 3])
    np.testing.assert_allclose(states.deter[1, 3], later, atol=1e-6)
    np.testing.assert_allclose(prior[1, 3], dynamics.infer_prior(later), atol=1e-5)
    both = jnp.concatenate([later, posterior.embedding[1, 3]])
    logits = dynamics.posterior_logits(jax.nn.elu(dynamics.posterior(both)))
    np.testing.assert_allclose(states.logits[1, 3].reshape(-1), logits, atol=1e-5)


def test_nothing_is_remembered_across_a_beginning():
    batch = sequences()
    cut = batch._replace(first=batch.first.at[:, 2].set(1.0))
    other = sequences(seed=1)
    changed = cut._replace(
        obs=jnp.concatenate([other.obs[:, :2], cut.obs[:, 2:]], axis=1),
        # The action that led to a beginning is not of this episode.
        action=jnp.concatenate([other.action[:, :3], cut.action[:, 3:]], axis=1),
    )
    one, two = (inferring()(world(), data)[0].states for data in (cut, changed))
    assert (one.deter[:, 1] != two.deter[:, 1]).any()
    for left, right in zip(one, two, strict=True):
        np.testing.assert_array_equal(left[:, 2:], right[:, 2:])
    uncut = inferring()(world(), batch)[0].states
    assert (uncut.deter[:, 2] != one.deter[:, 2]).any()


# Losses


def softmax(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def test_the_balance_scales_the_two_gradients_of_one_divergence():
    generator = np.random.default_rng(0)
    posterior, prior = (2 * generator.normal(size=(4, 2, 3)) for _ in range(2))
    q, p = softmax(posterior), softmax(prior)
    ratio = np.log(q) - np.log(p)
    divergence = (q * ratio).sum(axis=(1, 2)).mean()
    assert divergence > 0.1

    def value(posterior, prior, free=0.1):
        return balanced_kl(posterior, prior, 0.8, free)[0]

    arguments = jnp.asarray(posterior, jnp.float32), jnp.asarray(prior, jnp.float32)
    np.testing.assert_allclose(value(*arguments), divergence, rtol=1e-4)
    for_posterior, for_prior = jax.grad(value, (0, 1))(*arguments)
    np.testing.assert_allclose(for_prior, 0.8 * (p - q) / 4, atol=1e-5)
    inner = (q * ratio).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(for_posterior, 0.2 * q * (ratio - inner) / 4, atol=1e-5)


def test_below_the_free_nats_nothing_is_pressed():
    posterior, prior = jnp.zeros((4, 2, 3)).at[:, 0, 0].set(1.0), jnp.zeros((4, 2, 3))
    value, nats = balanced_kl(posterior, prior, 0.8, 1.0)
    assert value == 1.0
    assert 0 < nats < 1
    slopes = jax.grad(lambda *both: balanced_kl(*both, 0.8, 1.0)[0], (0, 1))(posterior, prior)
    assert not any(np.any(slope) for slope in slopes)


def test_free_nats_are_of_the_mean_not_of_each_state():
    # One state far apart lifts the mean over the threshold; the others are then pressed too.
    posterior = jnp.zeros((4, 1, 3)).at[0, 0, 0].set(30.0).at[1:, 0, 0].set(0.5)
    prior = jnp.zeros((4, 1, 3)).at[0, 0, 1].set(30.0)
    slope = jax.grad(lambda prior: balanced_kl(posterior, prior, 0.8, 1.0)[0])(prior)
    assert np.abs(slope[1:]).min() > 1e-3


@cache
def descent(reward_head_gradient=False):
    """Loss, what goes with it, and gradient."""
    config = WorldConfig(reward_head_gradient=reward_head_gradient)

    def loss(model, batch):
        return model.loss(batch, KEY, unit=jnp.ones(()), config=config)

    return quick(jax.value_and_grad(loss, has_aux=True))


def each(head, features):
    return np.asarray(jax.vmap(jax.vmap(head))(features))


def test_the_loss_is_half_the_squared_error_summed_over_an_observation():
    batch = sequences()
    (value, (posterior, metrics)), _ = descent()(world(), batch)
    features = posterior.states.feature
    misses = each(world().decoder, features) - np.asarray(batch.obs)
    assert metrics["observation_loss"] == pytest.approx(0.5 * (misses**2).sum(axis=-1).mean(), rel=1e-4)
    misses = each(world().reward, features)[:, :, 0] - np.asarray(batch.reward)
    assert metrics["task_reward_loss"] == pytest.approx(0.5 * (misses**2).mean(), rel=1e-4)
    whole = metrics["observation_loss"] + metrics["task_reward_loss"] + max(1.0, metrics["world_divergence"])
    assert value == pytest.approx(float(whole), rel=1e-5)


@pytest.mark.parametrize("rows", [3, 32, 37])
def test_patches_of_some_images_at_a_time_equal_those_of_one(rows):
    # Blocks of sixteen: less than one, two, and two with a rest.
    encoder = PatchEncoder.create(jax.random.key(0), (8, 12, 3), 4, 5, 7, "elu")
    decoder = PatchDecoder.create(jax.random.key(1), 6, (8, 12, 3), 4, 5, "elu")
    generator = np.random.default_rng(0)
    images = jnp.asarray(generator.normal(size=(rows, 8, 12, 3)), jnp.float32)
    feature = jnp.asarray(generator.normal(size=(rows, 6)), jnp.float32)

    def plain(networks, feature, images):
        encoder, decoder = networks
        errors = jnp.sum((jax.vmap(decoder)(feature) - images) ** 2, axis=(1, 2, 3))
        return errors @ jnp.arange(1.0, rows + 1) + jnp.sum(jnp.sin(jax.vmap(encoder)(images))), errors

    def blocks(networks, feature, images):
        encoder, decoder = networks
        errors = decoder.squared_errors(feature, images)
        return errors @ jnp.arange(1.0, rows + 1) + jnp.sum(jnp.sin(encoder.of_each(images))), errors

    forms = (quick(jax.value_and_grad(form, (0, 1, 2), has_aux=True)) for form in (blocks, plain))
    found, expected = (jax.tree.leaves(form((encoder, decoder), feature, images)) for form in forms)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6 * np.abs(other).max())


@pytest.mark.parametrize("reaches", [False, True])
def test_the_rewards_gradient_reaches_the_states_only_where_asked(reaches):
    batch = sequences()
    slopes = [descent(reaches)(world(), batch._replace(reward=batch.reward + more))[1] for more in (0.0, 5.0)]
    moved = jax.tree.map(lambda one, other: float(np.abs(one - other).max()), *slopes)
    assert max(jax.tree.leaves(moved.reward)) > 0.1
    assert (max(jax.tree.leaves(moved.dynamics)) > 1e-4) == reaches
    assert (max(jax.tree.leaves(moved.encoder)) > 1e-5) == reaches
    assert max(jax.tree.leaves(moved.decoder)) == 0


def test_every_part_of_the_model_gets_a_gradient():
    sharp = eqx.tree_at(lambda one: one.dynamics.posterior_logits.weight, world(), replace_fn=lambda w: 20 * w)
    assert all(np.any(leaf) for leaf in jax.tree.leaves(descent()(sharp, sequences())[1]))


def test_the_continue_head_learns_where_tasks_terminate():
    assert world().continue_head is None
    np.testing.assert_array_equal(world().continue_prob(jnp.zeros((2, 3, 12))), 1)
    ending = eqx.tree_at(lambda one: one.continue_head, world(), world().reward, is_leaf=lambda leaf: leaf is None)
    batch = sequences()
    (_, (posterior, metrics)), _ = descent()(ending, batch._replace(discount=batch.discount.at[:, -1].set(0.0)))
    going_on = np.asarray(ending.continue_prob(posterior.states.feature), float)
    expected = -np.log(np.concatenate([going_on[:, :-1], 1 - going_on[:, -1:]], axis=1)).mean()
    assert metrics["continue_loss"] == pytest.approx(expected, rel=1e-4)
    assert jax.eval_shape(
        lambda: changed(TINY, world={"continue_head": True}).init(KEY, VECTOR, Extrinsic())
    ).world.params.continue_head


# Foresight

DOT = EnvSpec(obs_shape=(16, 16, 3), action_dim=1, horizon=100)
SEER = Dreamer(
    world=WorldConfig(
        encoder="patches",
        patch=4,
        patch_width=16,
        embedding=64,
        deter=64,
        hidden=64,
        stoch=8,
        classes=8,
        units=64,
        layers=1,
        activation="relu",
        learning_rate=0.001,
    ),
    behaviour=BehaviourConfig(units=64, layers=1, activation="relu"),
)


def moving_dots(rows, times, seed):
    """A white square of 4 by 4 that goes its way and bounces off the sides; one image does not show its velocity."""
    generator = np.random.default_rng(seed)
    place = generator.uniform(0, 12, (rows, 2))
    velocity = generator.choice([-1.5, -1.0, 1.0, 1.5], (rows, 2))
    obs = np.zeros((rows, times, 16, 16, 3), np.uint8)
    for time in range(times):
        for row, (y, x) in enumerate(np.rint(place).astype(int)):
            obs[row, time, y : y + 4, x : x + 4] = 255
        place = place + velocity
        outside = (place < 0) | (place > 12)
        velocity = np.where(outside, -velocity, velocity)
        place = np.clip(place, 0, 12)
    plain = sequences(rows, times, spec=DOT._replace(obs_shape=(1,)))
    return plain._replace(obs=jnp.asarray(obs), action=jnp.zeros((rows, times, 1)))


def seen_by_the_model(batch):
    return batch._replace(obs=preprocess(batch.obs))


def test_frames_are_decoded_as_seen_up_to_the_context_and_unseen_after_it():
    context, seen = 3, moving_dots(2, 6, seed=0)
    world = SEER.init(KEY, DOT, Extrinsic()).world.params
    # Fresh networks are so gentle that latents are drawn alike whatever is seen.
    bold = jax.tree.map(lambda leaf: 5 * leaf, world)
    predict = jax.jit(lambda obs: bold.predict(seen._replace(obs=obs), context, KEY))
    frames = preprocess(seen.obs)
    plain = np.asarray(predict(frames))
    assert plain.shape == (2, 6, 16, 16, 3)
    changed = [np.abs(np.asarray(predict(frames.at[:, time].multiply(-1.0))) - plain) > 1e-4 for time in range(6)]
    first = [next((now for now in range(6) if one[:, now].any()), None) for one in changed]
    assert first == [0, 1, 2, None, None, None]


@pytest.mark.slow
def test_held_out_images_are_foreseen_better_than_by_copying_the_last_one():
    model = SEER.init(jax.random.key(0), DOT, Extrinsic()).world
    improve = jax.jit(lambda model, batch, key: SEER._improve_world(model, batch, jnp.ones(()), key)[0])
    data = seen_by_the_model(moving_dots(512, 16, seed=0))
    generator = np.random.default_rng(0)
    for update in range(700):
        chosen = generator.integers(0, 512, 32)
        model = improve(model, Sequences(*(part[chosen] for part in data)), jax.random.key(update))
    held_out, context = moving_dots(64, 16, seed=1), 8
    truth = np.asarray(preprocess(held_out.obs))
    predicted = np.asarray(
        jax.jit(lambda model, batch: model.predict(batch, context, KEY))(model.params, seen_by_the_model(held_out))
    )
    assert predicted.shape == (64, 16, 16, 16, 3)
    assert ((predicted - truth)[:, :context] ** 2).mean() < 0.5 * truth[:, :context].var()
    errors = ((predicted - truth)[:, context:] ** 2).mean(axis=(0, 2, 3, 4))
    copied = ((truth[:, context - 1 : context] - truth[:, context:]) ** 2).mean(axis=(0, 2, 3, 4))
    assert (errors[:5] < copied[:5]).all(), (errors, copied)
    assert errors[:3].mean() < 0.6 * copied[:3].mean()
