"""What an objective is shown of a dream and what it pays for, and the losses of actor and critic by a slow loop."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dreams import KEY, ROWS, SKILLED, SKILLS, TIMES, TINY, begun, changed, filled, sequences
from probes import quick

from skillscape.backbones.dreamer.imagination import imagine
from skillscape.backbones.dreamer.objective_interface import imagined_reward, imagined_starts
from skillscape.objectives.base import Objective
from skillscape.types import Experience

PLAIN = changed(
    TINY,
    behaviour={"imagined_starts": 0, "discount": 0.8, "entropy": 0.3, "actor_output_l2": 0.2},
    objective={"standardize": False},
)
"""Imagines from every state, shows recurrent states as they are, and keeps no term of the losses small."""
STARTS, STATES = ROWS * TIMES, TINY.behaviour.horizon + 1
PRICES = {
    "obs": np.array([1.0, -2.0, 3.0, 1.0, 2.0, -1.0]),
    "action": np.array([5.0, -3.0]),
    "next_obs": np.array([-1.0, 4.0, 1.0, -2.0, 1.0, 3.0]),
    "skill": np.array([1.0, 2.0, 4.0, 7.0]),
}


def worth(rows):
    """A price on every number that an objective may look at."""
    return sum(getattr(rows, part) @ price for part, price in PRICES.items())


class Notes(NamedTuple):
    """What was shown so far, in order: [n, ...] for n rows, and how they came."""

    calls: jax.Array
    written: jax.Array
    rows: Experience


@final
@dataclass(frozen=True)
class Ledger(Objective[Any]):
    """Notes all that it is asked to reward, pays what it is worth, and learns nothing."""

    name = "ledger"

    capacity: int = STATES * STARTS

    @property
    def skills(self):
        return SKILLED.skills

    @property
    def resample_every(self):
        return None

    def init(self, key, spec):
        widths = (spec.obs_shape, (spec.action_dim,), spec.obs_shape, (SKILLS,), ())
        blank = Experience(*(jnp.zeros((self.capacity, *width)) for width in widths))
        return Notes(jnp.asarray(0, jnp.int32), jnp.asarray(0, jnp.int32), blank)

    def update(self, state, batch, key):
        return state, {}

    def reward(self, state, batch, key):
        written = state.written
        rows = [
            jax.lax.dynamic_update_slice_in_dim(old, new, written, 0)
            for old, new in zip(state.rows, batch, strict=True)
        ]
        notes = Notes(state.calls + 1, written + batch.reward.shape[0], Experience(*rows))
        return notes, worth(batch), {"worth": jnp.mean(worth(batch))}


LEDGER = Ledger()


@cache
def batch():
    """Sequences, one of which another episode cuts in two."""
    whole = sequences()
    return whole._replace(first=whole.first.at[1, 2].set(1.0))


@cache
def starts():
    """Every state of the batch, with a skill of its own."""
    world = begun(PLAIN, LEDGER)[0].world.params
    posterior, _ = quick(lambda world, batch: world.infer(batch, KEY))(world, batch())
    return imagined_starts(PLAIN, posterior, batch(), LEDGER.skills, KEY)


@cache
def dreaming():
    return quick(imagine, static_argnums=4)


@cache
def dreamed(backbone=PLAIN):
    """What the agent imagines from there where behaviour is learned with ``KEY``."""
    agent, _ = begun(backbone, LEDGER)
    dynamics, actor = agent.world.params.dynamics, agent.actor.params
    dream_key, _ = jax.random.split(KEY)
    return dreaming()(dynamics, actor, starts().state, starts().skill, backbone.behaviour.horizon, dream_key)


def said(network, *inputs):
    """The outputs of a network for rows [p, q, ...] side by side, in double precision."""
    return np.asarray(jax.vmap(jax.vmap(network))(jnp.concatenate(inputs, axis=-1)), np.float64)


def arrivals(dream):
    """Every arrival [h + 1, n] of a dream with what led there: where it starts, that is what was replayed before."""
    memory = np.asarray(dream.states.deter, np.float64)
    return Experience(
        obs=np.stack([starts().before, *memory[:-1]]),
        action=np.stack([starts().action, *dream.action]),
        next_obs=memory,
        skill=np.stack([starts().skill] * STATES),
        reward=said(begun(PLAIN, LEDGER)[0].world.params.reward, dream.states.feature)[:, :, 0],
    )


def reward_of(backbone, agent, notes, dream):
    head = agent.reward_head and agent.reward_head.params
    feature = dream.states.feature
    return imagined_reward(backbone, agent.world.params, head, LEDGER, notes, starts(), dream, feature, KEY)


@cache
def rewarded(scored):
    """What the objective noted of a dream, by time and trajectory; the number of calls; rewards; metrics."""
    backbone = changed(PLAIN, objective={"reward_batch": scored})
    agent, notes = begun(backbone, LEDGER)
    notes, reward, metrics = quick(lambda *shown: reward_of(backbone, agent, *shown))(notes, dreamed())
    assert notes.written == STATES * STARTS
    rows = Experience(*(np.asarray(part).reshape(STATES, STARTS, *part.shape[1:]) for part in notes.rows))
    return rows, int(notes.calls), np.asarray(reward), metrics


# Rewards

EITHER_WAY = pytest.mark.parametrize("scored", ["per_step", "all"])


def test_a_start_comes_with_the_action_that_led_there():
    np.testing.assert_array_equal(starts().action, batch().action.reshape(STARTS, 2))
    np.testing.assert_array_equal(starts().known, 1 - batch().first.reshape(STARTS))
    assert 0 < starts().known.sum() < STARTS
    assert len({tuple(skill) for skill in np.asarray(starts().skill)}) > 1


@EITHER_WAY
def test_an_objective_is_shown_every_arrival_with_what_led_there(scored):
    rows, calls, _, _ = rewarded(scored)
    for found, expected in zip(rows, arrivals(dreamed()), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert calls == {"per_step": STATES, "all": 1}[scored]


def test_the_action_shown_is_the_one_by_which_the_model_arrived():
    rows, _, _, _ = rewarded("per_step")
    dynamics = begun(PLAIN, LEDGER)[0].world.params.dynamics
    arrived = jax.vmap(jax.vmap(dynamics.transition))(rows.obs[1:], dreamed().states.stoch[:-1], rows.action[1:])
    np.testing.assert_allclose(arrived, rows.next_obs[1:], atol=1e-5)


@EITHER_WAY
def test_a_reward_is_that_of_arriving_in_its_own_state(scored):
    _, _, reward, metrics = rewarded(scored)
    np.testing.assert_allclose(reward, worth(arrivals(dreamed())), rtol=1e-4, atol=1e-4)
    assert metrics["worth"] == pytest.approx(reward.mean(), rel=1e-4)


@pytest.mark.parametrize("climbed", [True, False])
def test_rewards_pass_their_gradient_to_states_where_it_is_climbed_and_never_to_actions(climbed):
    backbone = changed(PLAIN, objective={"reward_gradient": climbed})
    agent, notes = begun(backbone, LEDGER)

    def total(dream):
        _, reward, _ = reward_of(backbone, agent, notes, dream)
        return jnp.sum(reward)

    slope = quick(jax.grad(total))(dreamed())
    # A state is arrived in once, and left once unless it is the last.
    expected = np.broadcast_to(PRICES["next_obs"], (STATES, STARTS, TINY.world.deter)).copy()
    expected[:-1] += PRICES["obs"]
    np.testing.assert_allclose(slope.states.deter, expected * climbed, rtol=1e-5)
    assert not np.any(slope.action)


def test_a_head_is_asked_of_each_state_under_the_skill_of_its_start():
    backbone = changed(PLAIN, objective={"reward_on": "replayed"})
    agent, notes = begun(backbone, LEDGER)
    feature = dreamed().states.feature
    after, reward, _ = reward_of(backbone, agent, notes, dreamed())
    chosen = np.argmax(starts().skill, axis=1)
    scores = said(agent.reward_head.params, feature)
    np.testing.assert_allclose(reward, scores[:, np.arange(STARTS), chosen], rtol=1e-4, atol=1e-5)
    assert after.calls == 0


# Losses


def looped(config, mean, scale, reward, value, fitted, entropy, output_l2, discount, known):
    """Losses of actor and critic, number by number, and the scale after them. known: [n]; the rest: [h + 1, n].

    Gₜ = rₜ + γₜ [(1 − λ) vₜ₊₁ + λ Gₜ₊₁] begun with the last value, and wₜ = Π_{k<t} γₖ. The actor: −wₜ (Gₜ₊₁ + η Hₜ −
    ρ Xₜ), ρ the weight of Xₜ = ½ |xₜ|² of its outputs, for all but the last two states; the critic: ½ wₜ (Vₜ − Gₜ)² for
    all but the last, and where nothing is known of what came before a start, not for the start.
    """
    last, trajectories = config.horizon, range(len(known))
    if config.normalize == "rewards":
        # The start was arrived in before the dream.
        sizes = [abs(reward[time, row]) for time in range(1, last + 1) for row in trajectories]
        scale = config.reward_norm_momentum * scale + (1 - config.reward_norm_momentum) * np.mean(sizes)
        reward = (reward - mean) / (scale + 1e-8)
    else:
        reward = reward - mean
    returns = np.zeros((last, len(known)))
    for row in trajectories:
        later = value[last, row]
        for time in reversed(range(last)):
            mixed = (1 - config.discount_lambda) * value[time + 1, row] + config.discount_lambda * later
            later = returns[time, row] = reward[time, row] + discount[time, row] * mixed
    unit = 1.0
    if config.normalize == "returns":
        low, high = np.quantile(returns, [0.05, 0.95])
        scale = (1 - config.return_norm_rate) * scale + config.return_norm_rate * (high - low)
        unit = max(scale, 1.0)
    of_actor, of_critic = [], []
    for row in trajectories:
        weight = 1.0
        for time in range(last):
            if time < last - 1:
                gain = returns[time + 1, row] / unit + config.entropy * entropy[time, row]
                gain -= config.actor_output_l2 * output_l2[time, row]
                of_actor.append(-weight * gain)
            counted = known[row] if time == 0 else 1.0
            of_critic.append(counted * weight * 0.5 * (fitted[time, row] - returns[time, row]) ** 2)
            weight *= discount[time, row]
    return np.mean(of_actor), np.mean(of_critic), scale


@cache
def improving(backbone):
    return quick(lambda agent, notes: backbone._improve_behaviour(agent, LEDGER, notes, starts(), KEY))


@pytest.mark.parametrize(
    ("normalize", "ends", "scale", "centered"),
    [
        ("rewards", False, 2.5, False),
        ("rewards", False, 2.5, True),
        ("returns", True, 2.5, False),
        ("returns", True, 0.1, False),
        ("none", True, 2.5, False),
        ("none", False, 2.5, True),
        ("none", True, 2.5, True),
    ],
)
def test_losses_are_those_of_a_slow_loop(normalize, ends, scale, centered):
    backbone = changed(
        PLAIN,
        world={"continue_head": ends},
        behaviour={"normalize": normalize, "center_rewards": centered, "center_momentum": 0.9},
    )
    agent, notes = begun(backbone, LEDGER)
    # A target unlike the critic: returns are made of its values, and the critic is fitted to them.
    agent = agent._replace(target=filled(agent.target, 9), scale=jnp.asarray(scale))
    agent = agent._replace(reward_mean=jnp.asarray(0.7), updates=jnp.asarray(40, jnp.int32))
    dream = dreamed(backbone)
    reward = worth(arrivals(dream))
    # Where a task ends, rewards are worth what they are: without their mean, ending would be worth something else.
    mean = 0.9 * 0.7 + 0.1 * reward[1:].mean() if centered and not ends else 0.0
    feature, skills = dream.states.feature, jnp.stack([starts().skill] * STATES)
    std = np.asarray(jax.vmap(jax.vmap(agent.actor.params))(feature, skills).std, np.float64)
    ending = said(agent.world.params.continue_head, feature)[:, :, 0] if ends else np.full((STATES, STARTS), -np.inf)
    actor_loss, critic_loss, tracked = looped(
        backbone.behaviour,
        mean,
        scale,
        reward=reward,
        value=said(agent.target.network, feature, skills)[:, :, 0],
        fitted=said(agent.critic.params.network, feature, skills)[:, :, 0],
        entropy=0.5 * np.sum(np.log(2 * math.pi * math.e * std**2), axis=-1),
        output_l2=0.5 * np.sum(said(agent.actor.params.network, feature, skills) ** 2, axis=-1),
        discount=backbone.behaviour.discount / (1 + np.exp(ending)),
        known=np.asarray(starts().known),
    )
    after, _, metrics = improving(backbone)(agent, notes)
    assert metrics["actor_loss"] == pytest.approx(actor_loss, rel=1e-4)
    assert metrics["critic_loss"] == pytest.approx(critic_loss, rel=1e-4)
    assert after.scale == pytest.approx(tracked, rel=1e-4)
    assert after.reward_mean == pytest.approx(mean or 0.7, rel=1e-4)


@pytest.mark.parametrize("weight", [0.0, 0.01])
def test_an_actor_comes_back_from_where_its_tanh_is_flat_only_if_its_outputs_are_penalised(weight):
    backbone = changed(PLAIN, behaviour={"entropy": 0.0, "actor_output_l2": weight})
    agent, notes = begun(backbone, LEDGER)
    far = jnp.asarray([20.0, -20.0, 0.0, 0.0])
    actor = eqx.tree_at(lambda one: one.network.layers[-1].bias, agent.actor.params, far)
    agent = agent._replace(actor=agent.actor._replace(params=actor))
    after, _, metrics = improving(backbone)(agent, notes)
    moved = np.asarray(after.actor.params.network.layers[-1].bias - far)[:2] * [-1, 1]
    # What every parameter loses by decay alone.
    lost = 20 * backbone.behaviour.weight_decay
    assert metrics["actor_output_l2"] > 300
    assert np.all(moved > 2 * lost) == (weight > 0), moved
    assert np.all(moved >= 0)
