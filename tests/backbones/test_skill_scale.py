"""The factor on the skill at the inputs of actor and critic, of the backbones that learn from replayed vectors."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.backbones.ddpg import DDPG
from skillscape.backbones.sac import SAC
from skillscape.objectives.extrinsic import Extrinsic
from skillscape.types import EnvSpec

SPEC = EnvSpec(obs_shape=(3,), action_dim=2, horizon=10)
SKILLED = Extrinsic(skill_kind="discrete", skill_width=4)
FEATURES = Extrinsic(skill_kind="sphere", skill_width=4, successor_features=True)
BACKBONES = {"ddpg": DDPG(width=8, batch_size=6), "sac": SAC(hidden=(8, 8), batch_size=6)}
KEY = jax.random.key(3)
OBS, ACTION = jnp.asarray([0.3, -1.0, 2.0]), jnp.asarray([0.5, -0.25])
SKILL = jnp.asarray([0.0, 0.0, 1.0, 0.0])


def agents(name, objective=SKILLED):
    """Two agents with the same weights, whose skills enter once and three times as large."""
    backbone = BACKBONES[name]
    return [replace(backbone, skill_scale=scale).init(KEY, SPEC, objective) for scale in (1.0, 3.0)]


@pytest.mark.parametrize("name", BACKBONES)
def test_a_scaled_skill_acts_as_a_larger_one(name):
    plain, scaled = agents(name)
    for one, other in zip(jax.tree.leaves(plain), jax.tree.leaves(scaled), strict=True):
        np.testing.assert_array_equal(one, other)
    actor, larger = plain.actor.params, scaled.actor.params
    np.testing.assert_allclose(larger(OBS, SKILL), actor(OBS, 3 * SKILL), rtol=1e-6)
    assert (np.abs(larger(OBS, SKILL) - actor(OBS, SKILL)) > 1e-4).all()
    np.testing.assert_allclose(
        scaled.critic.params(OBS, SKILL, ACTION), plain.critic.params(OBS, 3 * SKILL, ACTION), rtol=1e-6
    )


@pytest.mark.parametrize("name", BACKBONES)
def test_successor_features_are_multiplied_by_the_skill_itself(name):
    plain, scaled = agents(name, FEATURES)
    # With the larger input the plain critic has the same features, and multiplies them by the larger skill.
    np.testing.assert_allclose(
        3 * scaled.critic.params(OBS, SKILL, ACTION), plain.critic.params(OBS, 3 * SKILL, ACTION), rtol=1e-5
    )


@pytest.mark.parametrize("name", BACKBONES)
def test_fine_tuning_and_a_controller_keep_the_scale(name):
    backbone = replace(BACKBONES[name], skill_scale=3.0)
    agent = backbone.init(KEY, SPEC, SKILLED)
    adapted = backbone.adapt(agent, KEY)
    assert adapted.actor.params.skill_scale == adapted.critic.params.skill_scale == adapted.target.skill_scale == 3.0
    mixed = backbone.with_controller(agent, KEY, SPEC, 4).actor.params(OBS, SKILL)
    each = [agent.actor.params(OBS, skill) for skill in jnp.eye(4)]
    np.testing.assert_allclose(mixed, np.mean(each, axis=0), rtol=1e-4, atol=1e-6)
