"""A pre-trained agent that is shown a goal acts as before, whatever the goal is, and can learn to read it."""

import dreams
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.backbones.ddpg import DDPG
from skillscape.backbones.sac import SAC
from skillscape.backbones.widening import widened
from skillscape.objectives.extrinsic import Extrinsic
from skillscape.types import EnvSpec

NARROW, WIDE = EnvSpec((3,), 2, 10), EnvSpec((5,), 2, 10, 2)
SKILLED = Extrinsic("discrete", 4)
BACKBONES = {"ddpg": DDPG(width=8), "sac": SAC(hidden=(8, 8)), "dreamer": dreams.TINY}


@pytest.mark.parametrize("name", BACKBONES)
def test_it_acts_as_before_whatever_the_goal(name):
    backbone = BACKBONES[name]
    agent = backbone.init(jax.random.key(0), NARROW, SKILLED)
    like = jax.eval_shape(lambda: backbone.init(jax.random.key(0), WIDE, SKILLED))
    wide = widened(agent, like, 3)
    assert jax.tree.map(jnp.shape, wide) == jax.tree.map(lambda leaf: leaf.shape, like)
    random = np.random.default_rng(0)
    obs, skill = random.normal(size=(6, 3)).astype(np.float32), jnp.eye(4)[jnp.array([0, 1, 2, 3, 0, 1])]
    goals = 50 * random.normal(size=(6, 2)).astype(np.float32)

    def act(agent, obs):
        carry = backbone.initial_carry(6)
        return backbone.act(backbone.policy_params(agent), carry, jnp.asarray(obs), skill, jax.random.key(1), False)[0]

    np.testing.assert_allclose(act(wide, np.concatenate([obs, goals], axis=1)), act(agent, obs), atol=1e-5)


def test_the_new_weights_have_a_gradient():
    backbone = BACKBONES["sac"]
    agent = backbone.init(jax.random.key(0), NARROW, SKILLED)
    like = jax.eval_shape(lambda: backbone.init(jax.random.key(0), WIDE, SKILLED))
    actor = widened(agent, like, 3).actor.params
    gradient = jax.grad(lambda net: net(jnp.ones(5), jnp.eye(4)[0]).sum())(actor)
    weight = gradient.network.layers[0].weight
    assert weight.shape == (8, 9)
    assert jnp.abs(weight[:, 3:5]).max() > 0
    np.testing.assert_array_equal(actor.network.layers[0].weight[:, 3:5], 0)
    np.testing.assert_array_equal(
        actor.network.layers[0].weight[:, 5:], agent.actor.params.network.layers[0].weight[:, 3:]
    )
