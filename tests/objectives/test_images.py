"""Objectives that look at images learn what the images show: dots whose side is that of the skill."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

from skillscape.objectives.density_deviation import deviation_reward
from skillscape.objectives.diayn import DIAYN
from skillscape.objectives.rnd import RND
from skillscape.objectives.sd3 import SD3
from skillscape.types import Experience, Spec

SIDE, ROWS = 16, 32
SPEC = Spec((SIDE, SIDE, 3), 2)


def dots_at(places):
    """Images of a white square of 4 by 4, its corner at (y, x)."""
    images = np.zeros((len(places), SIDE, SIDE, 3), np.uint8)
    for image, (y, x) in zip(images, places, strict=True):
        image[y : y + 4, x : x + 4] = 255
    return jnp.asarray(images)


def dots(sides, seed=0):
    """Dots somewhere in the left half (0) or in the right one (1)."""
    generator = np.random.default_rng(seed)
    return dots_at([(generator.integers(0, 13), generator.integers(0, 5) + 8 * side) for side in sides])


def experience(images, sides):
    rows = len(sides)
    return Experience(images, jnp.zeros((rows, 2)), images, jnp.eye(2)[np.asarray(sides)], jnp.zeros(rows))


def moving(seed=0, rows=ROWS):
    """Skill 0 keeps its dot on the left, skill 1 on the right."""
    sides = np.arange(rows) % 2
    return experience(dots(sides, seed), sides), sides


def learned(objective, batches, steps):
    """After so many updates, each on one of the batches."""
    state = objective.init(jax.random.key(0), SPEC)
    several = jax.tree.map(lambda *parts: jnp.stack(parts), *batches)

    def step(state, now):
        key, index = now
        return objective.update(state, jax.tree.map(lambda part: part[index], several), key)

    keys, indices = jax.random.split(jax.random.key(1), steps), jnp.arange(steps) % len(batches)
    return jax.jit(lambda state: jax.lax.scan(step, state, (keys, indices)))(state)[0]


def test_diayn_tells_on_which_side_an_unseen_dot_is():
    objective = DIAYN(2, hidden=(16,))
    state = learned(objective, [moving(seed)[0] for seed in range(4)], 100)
    held_out, sides = moving(seed=9, rows=100)
    scores = jax.jit(objective.score_skills)(state, held_out.next_obs)
    assert np.mean(np.argmax(scores, axis=-1) == sides) > 0.9


def test_sd3_pays_a_skill_for_its_own_side():
    objective = SD3(2, width=16, modules=2, module_width=8, latent_dim=4, decoder_variance=20.0, history=0)
    state = learned(objective, [moving(seed)[0] for seed in range(4)], 200)
    held_out, sides = moving(seed=9, rows=100)
    log_density = jax.jit(objective.score_skills)(state, held_out.next_obs)
    own, other = (deviation_reward(log_density, jnp.eye(2)[skill], 1.5) for skill in (sides, 1 - sides))
    assert np.mean(np.asarray(own) > np.asarray(other)) > 0.9
    assert np.mean(own) > np.mean(other) + 0.5


def test_sd3_tells_a_small_dot_apart_at_the_settings_of_world_models():
    # A dot in one of 8 x 8 cells hardly moves the mean colours: at their own scale this variance sees a tie.
    objective = SD3(
        number_of_skills=2, history=0, width=16, module_width=16, decoder_variance=4.0, learning_rate=3e-3, modules=2
    )
    state = learned(objective, [moving(seed)[0] for seed in range(4)], 200)
    held_out, sides = moving(seed=9, rows=100)
    scores = np.asarray(jax.jit(objective.score_skills)(state, held_out.next_obs))
    assert np.mean(scores.argmax(axis=1) == sides) > 0.95
    assert np.mean(np.abs(scores[:, 0] - scores[:, 1])) > 1


def test_sd3_remembers_images_as_they_were():
    objective = SD3(2, width=8, modules=2, module_width=4, latent_dim=2, history=2 * ROWS)
    state = objective.init(jax.random.key(0), SPEC)
    batch, _ = moving()
    state, _, _ = jax.jit(objective.reward)(state, batch, jax.random.key(0))
    assert state.history.obs.dtype == jnp.uint8
    np.testing.assert_array_equal(state.history.obs[:ROWS], batch.next_obs)
    assert state.history.filled == ROWS


def test_rnd_finds_places_where_no_dot_was_newer():
    objective, seen = RND(hidden=(16,), feature_dim=16), list(product((0, 4, 8, 12), repeat=2))
    # Between the places that were seen: the same pixels, so that their moments do not tell.
    places = seen + list(product((2, 6, 10), repeat=2))
    start = objective.init(jax.random.key(0), SPEC)
    state = learned(objective, [experience(dots_at(seen), [0] * len(seen))], 200)
    both = experience(dots_at(places), [0] * len(places))
    before, after = (jax.jit(objective.reward)(one, both, jax.random.key(0))[1] for one in (start, state))
    assert np.mean(before[: len(seen)]) > 0.6 * np.mean(before[len(seen) :])
    assert np.mean(after[: len(seen)]) < 0.4 * np.mean(after[len(seen) :])
