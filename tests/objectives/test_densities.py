"""The density of SD3 alone, without a policy: does the bound know which of several known regions a state is from?"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.sd3 import SD3
from skillscape.types import Experience, Spec

EVERY_ARCHITECTURE = pytest.mark.parametrize("architecture", ["soft-modular", "plain"])


def regions(skills, rows, seed):
    """Rows of states, each skill a normal blob on a square grid of unit cells; and the skill of each row."""
    generator = np.random.default_rng(seed)
    side = int(np.ceil(np.sqrt(skills)))
    skill = np.arange(rows) % skills
    middles = np.stack([skill // side, skill % side], axis=-1) - (side - 1) / 2
    return jnp.asarray(middles + generator.normal(scale=0.2, size=(rows, 2)), jnp.float32), skill


def fitted(objective, rows, steps):
    states, skill = regions(objective.number_of_skills, rows, seed=0)
    skills = jax.nn.one_hot(skill, objective.number_of_skills)
    batch = Experience(states, jnp.zeros((rows, 2)), states, skills, jnp.zeros(rows))

    def step(state, key):
        return objective.update(state, batch, key)

    start = objective.init(jax.random.key(0), Spec((2,), 2))
    keys = jax.random.split(jax.random.key(1), steps)
    return jax.jit(lambda state: jax.lax.scan(step, state, keys)[0])(start)


def accuracy(objective, state):
    """How often the bound ranks the right skill first, on states it was not fitted on."""
    states, skill = regions(objective.number_of_skills, 300, seed=1)
    scores = jax.jit(objective.score_skills)(state, states)
    return np.mean(np.argmax(scores, axis=-1) == skill)


def small(architecture, **changes):
    settings = {
        "number_of_skills": 4,
        "width": 32,
        "layers": 2,
        "modules": 4,
        "module_width": 16,
        "latent_dim": 4,
        "decoder_variance": 0.1,
        "learning_rate": 3e-3,
        "clip_norm": None,
        "fitting_steps": 1,
        "history": 0,
        "latent_samples": 0,
        "density": "elbo",
    }
    return SD3(architecture=architecture, **(settings | changes))


@EVERY_ARCHITECTURE
def test_four_regions_are_told_apart(architecture):
    objective = small(architecture)
    assert accuracy(objective, fitted(objective, rows=64, steps=300)) > 0.95


@EVERY_ARCHITECTURE
def test_regions_are_not_told_apart_before_fitting(architecture):
    objective = small(architecture)
    assert accuracy(objective, objective.init(jax.random.key(0), Spec((2,), 2))) < 0.6


@pytest.mark.slow
@EVERY_ARCHITECTURE
def test_sixteen_regions_are_told_apart(architecture):
    objective = small(architecture, number_of_skills=16, width=128, module_width=64, latent_dim=8, learning_rate=1e-3)
    assert accuracy(objective, fitted(objective, rows=512, steps=2000)) > 0.95
