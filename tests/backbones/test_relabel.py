"""Transitions that are learned under a skill other than the one that acted: by whom they can be, and how they are."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import quick

from skillscape import presets
from skillscape.backbones import registry
from skillscape.backbones.ddpg import DDPG
from skillscape.backbones.sac import SAC
from skillscape.configure import pretraining
from skillscape.errors import UserError
from skillscape.objectives.cesd import CeSD
from skillscape.objectives.extrinsic import Extrinsic
from skillscape.types import EnvSpec, Transitions

SPEC, SKILLS, ROWS, KEY = EnvSpec(obs_shape=(3,), action_dim=2, horizon=10), 4, 6, jax.random.key(11)
SMALL = [DDPG(width=8, batch_size=ROWS), SAC(hidden=(8, 8), batch_size=ROWS)]
EVERY_BACKBONE = pytest.mark.parametrize("backbone", SMALL, ids=lambda backbone: backbone.name)


@dataclass(frozen=True)
class Moved(Extrinsic):
    """Rewards the index of the acting skill plus what the key says, and has it learned under the next one."""

    relabels = True

    def reward(self, state, batch, key):
        return state, jnp.argmax(batch.skill, axis=-1) + jax.random.uniform(key, (ROWS,)), {}

    def relabel(self, state, batch, key):
        return jnp.roll(batch.skill, 1, axis=-1)


@dataclass(frozen=True)
class Drawn(Moved):
    """Rewards what its relabelling draws, from the same key."""

    def _drawn(self, key):
        return jax.random.randint(key, (ROWS,), 0, SKILLS)

    def reward(self, state, batch, key):
        return state, self._drawn(key).astype(jnp.float32), {}

    def relabel(self, state, batch, key):
        return jax.nn.one_hot(self._drawn(key), SKILLS)


def batch(skill=None):
    generator = np.random.default_rng(0)
    obs, bootstrap_obs, next_obs = generator.normal(size=(3, ROWS, 3)).astype(np.float32)
    acting = np.eye(SKILLS, dtype=np.float32)[np.arange(ROWS) % SKILLS]
    return Transitions(
        obs=obs,
        action=generator.uniform(-1, 1, (ROWS, 2)).astype(np.float32),
        skill=acting if skill is None else np.asarray(skill),
        reward=generator.normal(size=ROWS).astype(np.float32),
        discount=np.full(ROWS, 0.97, np.float32),
        bootstrap_obs=bootstrap_obs,
        next_obs=next_obs,
        next_discount=np.full(ROWS, 0.99, np.float32),
    )


def config(backbone, objective):
    return pretraining(objective, "maze/square_a", preset="smoke", backbone=backbone)


def learned(backbone, objective, data):
    agent = backbone.init(jax.random.key(0), SPEC, objective)
    return quick(lambda agent, data: backbone.learn(agent, objective, None, data, KEY))(agent, data)


@EVERY_BACKBONE
@pytest.mark.parametrize("kind", [Moved, Drawn], ids=["rolled", "drawn"])
def test_actor_and_critic_learn_under_the_skill_of_the_relabelling_and_the_reward_sees_the_one_that_acted(
    backbone, kind
):
    objective = kind(skill_kind="discrete", skill_width=SKILLS)
    reward_key = jax.random.split(KEY, 4)[1]
    data = batch()
    _, reward, _ = objective.reward(None, data, reward_key)
    relabelled = objective.relabel(None, data, reward_key)
    agent, _, metrics = learned(backbone, objective, data)
    assert metrics["reward"] == pytest.approx(float(jnp.mean(reward)), rel=1e-5)
    # The same as if the other skill had acted and been rewarded so.
    plain = Extrinsic("discrete", SKILLS)
    as_if = batch(relabelled)._replace(reward=np.asarray(reward))
    expected, _, _ = learned(backbone, plain, as_if)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7), agent, expected)
    unmoved, _, _ = learned(backbone, plain, data._replace(reward=np.asarray(reward)))
    assert any(
        np.any(np.asarray(one) != np.asarray(other))
        for one, other in zip(jax.tree.leaves(agent), jax.tree.leaves(unmoved), strict=True)
    )


def test_backbones_say_whether_they_can():
    assert {name for name, kind in registry().items() if kind.relabels} == {"ddpg", "sac"}


@pytest.mark.parametrize("backbone", ["ppo", "dreamer"])
def test_backbones_that_cannot_refuse_methods_that_relabel(backbone):
    settings = presets.get("cesd", "maze", "maze/square_a", "smoke", backbone)
    assert settings.objective is not None
    assert not settings.objective.relabels
    with pytest.raises(
        UserError, match=r"cesd relabels transitions with other skills, which .* cannot learn from; choose the b"
    ):
        config(backbone, replace(settings.objective, relabelled=True)).check()
    config(backbone, settings.objective).check()
    config("ddpg", CeSD(relabelled=True)).check()
