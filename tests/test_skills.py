"""Skill spaces: what is drawn, what is listed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.errors import UserError
from skillscape.skills import Box, Discrete, NoSkill, SignedBox, Sphere, skill_space

SPACES = [Discrete(4), Sphere(3), Box(3), SignedBox(3), NoSkill()]
EVERY_SPACE = pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)


@EVERY_SPACE
def test_samples_have_the_width_and_are_floats(space):
    skills = space.sample(jax.random.key(0), 7)
    assert skills.shape == (7, space.width)
    assert skills.dtype == jnp.float32


@EVERY_SPACE
def test_samples_repeat_with_their_key(space):
    draws = [space.sample(jax.random.key(seed), 50) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert space.width == 0 or np.any(np.asarray(draws[0]) != np.asarray(draws[2]))


@EVERY_SPACE
def test_all_lists_every_skill_or_says_why_not(space):
    if space.count is None:
        with pytest.raises(UserError, match="cannot be listed; sample some"):
            space.all()
    else:
        assert space.all().shape == (space.count, space.width)


@EVERY_SPACE
def test_spaces_are_values(space):
    assert hash(space) == hash(eval(repr(space)))
    assert space == eval(repr(space))


def test_discrete_skills_are_one_hot_and_uniform():
    skills = np.asarray(Discrete(4).sample(jax.random.key(0), 4000))
    np.testing.assert_array_equal(np.sort(skills, axis=-1), np.tile([0, 0, 0, 1], (4000, 1)))
    np.testing.assert_allclose(skills.mean(axis=0), 0.25, atol=0.03)


def test_discrete_skills_are_listed_in_order():
    np.testing.assert_array_equal(Discrete(3).all(), np.eye(3))


def test_sphere_skills_are_unit_vectors_without_a_preferred_direction():
    skills = np.asarray(Sphere(3).sample(jax.random.key(0), 4000))
    np.testing.assert_allclose(np.linalg.norm(skills, axis=-1), 1, rtol=1e-5)
    np.testing.assert_allclose(skills.mean(axis=0), 0, atol=0.04)
    np.testing.assert_allclose(skills.T @ skills / 4000, np.eye(3) / 3, atol=0.03)


def test_box_skills_fill_the_unit_cube():
    skills = np.asarray(Box(3).sample(jax.random.key(0), 4000))
    assert skills.min() >= 0
    assert skills.max() < 1
    np.testing.assert_allclose(skills.mean(axis=0), 0.5, atol=0.02)
    np.testing.assert_allclose(skills.var(axis=0), 1 / 12, atol=0.01)


def test_signed_box_skills_fill_two_cubes_and_one_in_three_is_negative():
    skills = np.asarray(SignedBox(3).sample(jax.random.key(0), 6000))
    negative = skills.max(axis=-1) <= 0
    assert np.all(negative | (skills.min(axis=-1) >= 0))
    assert negative.mean() == pytest.approx(1 / 3, abs=0.02)
    for cube in (-skills[negative], skills[~negative]):
        np.testing.assert_allclose(cube.mean(axis=0), 0.5, atol=0.03)
        np.testing.assert_allclose(cube.var(axis=0), 1 / 12, atol=0.01)


@EVERY_SPACE
def test_a_space_is_known_by_its_kind_and_width(space):
    assert skill_space(space.kind, space.width) == space
