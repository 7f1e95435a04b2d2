"""Methods that a world model asks: what is paid is arriving in a state, or the action that leads there."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape import presets
from skillscape.objectives import registry
from skillscape.objectives.apt import APT
from skillscape.objectives.rnd import RND
from skillscape.objectives.smm import SMM
from skillscape.types import Experience, Spec

ROWS, SPEC = 12, Spec((5,), 2)
METHODS = sorted(set(registry()) - {"extrinsic"})


def random_batch(skills, seed=0):
    keys = jax.random.split(jax.random.key(seed), 4)
    obs, next_obs = jax.random.normal(keys[0], (2, ROWS, *SPEC.obs_shape))
    action = jax.random.uniform(keys[1], (ROWS, SPEC.action_dim), minval=-1, maxval=1)
    return Experience(obs, action, next_obs, skills.sample(keys[2], ROWS), jnp.zeros(ROWS))


@pytest.mark.parametrize("method", METHODS)
def test_an_imagined_step_is_paid_for_where_it_leads(method):
    objective = presets.get(method, "urlb-pixels", "walker-pixels", "smoke").objective
    state = objective.init(jax.random.key(0), SPEC)
    batch = random_batch(objective.skills)
    other = random_batch(objective.skills, seed=1)
    led_elsewhere = batch._replace(
        next_obs=batch.next_obs.at[0].set(other.next_obs[0]), action=batch.action.at[0].set(other.action[0])
    )
    pay = jax.jit(lambda rows: objective.reward(state, rows, jax.random.key(1))[1])
    assert pay(batch)[0] != pay(led_elsewhere)[0]


@pytest.mark.parametrize("objective", [APT(neighbours=3), RND(), SMM()], ids=lambda objective: objective.name)
def test_the_state_that_is_paid_for_is_chosen(objective):
    arriving = replace(objective, reward_state="next_obs")
    state, batch = objective.init(jax.random.key(0), SPEC), random_batch(objective.skills)
    reached = batch._replace(obs=batch.next_obs)
    key = jax.random.key(1)
    np.testing.assert_allclose(
        arriving.reward(state, batch, key)[1], objective.reward(state, reached, key)[1], rtol=1e-5
    )
    assert not np.allclose(objective.reward(state, batch, key)[1], objective.reward(state, reached, key)[1])
