"""What holds for every objective, on vectors and on images, tested for each file in the folder once it exists."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import ClosedJaxpr

from skillscape.conv import preprocess
from skillscape.errors import UserError
from skillscape.objectives import registry
from skillscape.objectives.base import Objective, Scale
from skillscape.skills import Discrete, Sphere
from skillscape.types import Experience, Spec

ROWS, ACTION_DIM = 12, 2
DRAWN = 10
"""Skills of a continuum that stand for all."""
VECTORS, IMAGES = (2,), (16, 16, 3)
SMALL = Scale(
    benchmark="urlb",
    preset="smoke",
    width=32,
    density_width=8,
    module_width=4,
    number_of_skills=3,
    resample_every=50,
    learning_rate=1e-3,
    epsilon=1e-3,
)
METHODS = {name: method.at(SMALL) for name, method in registry().items()}
# As in the paper: its settings for bodies take vectors only.
METHODS["sd3"] = registry()["sd3"].at(dataclasses.replace(SMALL, preset="paper"))
# What these methods have in mazes, and skills of the other kind.
OTHERS = [
    dataclasses.replace(METHODS["sd3"], history=20),
    dataclasses.replace(
        METHODS["sd3"], skill_kind="sphere", skill_draws=5, bonus_unit="running-mean", bonus="posterior"
    ),
    dataclasses.replace(METHODS["cic"], skill_dim=0, number_of_skills=3),
    dataclasses.replace(METHODS["cesd"], relabelled=False, number_of_skills=4),
    dataclasses.replace(METHODS["csf"], skill_kind="discrete"),
    dataclasses.replace(METHODS["lsd"], skill_kind="continuous", dimension=2),
    dataclasses.replace(METHODS["extrinsic"], skill_kind="discrete", skill_width=3),
]
OBJECTIVES = [*METHODS.values(), *OTHERS]
EVERY_OBJECTIVE = pytest.mark.parametrize(
    "objective", OBJECTIVES, ids=lambda objective: f"{objective.name}-{objective.skills.width}"
)
EVERY_SHAPE = pytest.mark.parametrize("shape", [VECTORS, IMAGES], ids=["vectors", "images"])


def random_batch(objective, shape=VECTORS, seed=0, scale=1.0):
    """Normal vectors, or images of blocks of random colours."""
    keys = jax.random.split(jax.random.key(seed), 5)

    def states(key):
        if shape == IMAGES:
            blocks = jax.random.bits(key, (ROWS, 4, 4, 3), jnp.uint8)
            return jnp.repeat(jnp.repeat(blocks, 4, axis=1), 4, axis=2)
        return scale * jax.random.normal(key, (ROWS, *shape))

    return Experience(
        obs=states(keys[0]),
        action=jax.random.uniform(keys[1], (ROWS, ACTION_DIM), minval=-1, maxval=1),
        next_obs=states(keys[2]),
        skill=objective.skills.sample(keys[3], ROWS),
        reward=jax.random.normal(keys[4], (ROWS,)),
    )


def identical(objective, state):
    states = jnp.broadcast_to(state[None], (ROWS, *state.shape))
    return random_batch(objective, state.shape)._replace(obs=states, next_obs=states)


def image(value):
    return jnp.full(IMAGES, value, jnp.uint8)


BATCHES = {
    (VECTORS, "random"): random_batch,
    (VECTORS, "identical"): lambda objective: identical(objective, jnp.full(VECTORS, 0.3)),
    (VECTORS, "zero"): lambda objective: identical(objective, jnp.zeros(VECTORS)),
    (VECTORS, "far"): lambda objective: random_batch(objective, scale=1e3),
    (VECTORS, "far and identical"): lambda objective: identical(objective, jnp.full(VECTORS, -1e3)),
    (IMAGES, "random"): lambda objective: random_batch(objective, IMAGES),
    (IMAGES, "identical"): lambda objective: identical(objective, random_batch(objective, IMAGES).obs[0]),
    (IMAGES, "black"): lambda objective: identical(objective, image(0)),
    (IMAGES, "white"): lambda objective: identical(objective, image(255)),
}
EVERY_BATCH = pytest.mark.parametrize(
    ("shape", "kind"), BATCHES, ids=lambda part: {VECTORS: "vectors", IMAGES: "images"}.get(part, part)
)


@cache
def starts(objective, shape=VECTORS):
    """Three starts, from the keys 0, 1 and 0 again."""
    # Not compiled as a whole: random draws are what takes longest to compile.
    return [objective.init(jax.random.key(seed), Spec(shape, ACTION_DIM)) for seed in (0, 1, 0)]


def start(objective, shape=VECTORS, index=0):
    return starts(objective, shape)[index]


def side_by_side(trees):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@cache
def updating(objective):
    return jax.jit(objective.update)


@cache
def rewarding(objective):
    return jax.jit(objective.reward)


@cache
def differentiated(objective):
    def total(states, state, batch):
        return jnp.sum(objective.reward(state, batch._replace(obs=states[0], next_obs=states[1]), jax.random.key(0))[1])

    return jax.jit(jax.grad(total))


def kinds(tree):
    """The structure of a tree, and shape, dtype and weakness of every leaf: all that a scan compares."""
    avals = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.weak_type), tree)
    return jax.tree.structure(tree), jax.tree.leaves(avals, is_leaf=lambda node: isinstance(node, tuple))


def assert_same(actual, expected, tolerance=0.0):
    actual_leaves, actual_structure = jax.tree.flatten(actual)
    expected_leaves, expected_structure = jax.tree.flatten(expected)
    assert actual_structure == expected_structure
    for one, other in zip(actual_leaves, expected_leaves, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def assert_improvement(metrics):
    """Of the loss over 200 updates on one batch."""
    if "model_loss" not in metrics:
        assert not metrics, "an objective that learns reports its model_loss"
        return
    losses = metrics["model_loss"]
    # A constraint that is broken for a step, with a large multiplier on it, makes a peak: so not the mean at the end.
    assert jnp.median(losses[-20:]) < jnp.mean(losses[:5]) - 0.01


def copied(tree):
    return jax.tree.map(np.array, tree)


@EVERY_OBJECTIVE
def test_objectives_are_frozen_values(objective):
    assert dataclasses.replace(objective) == objective
    assert hash(dataclasses.replace(objective)) == hash(objective)
    with pytest.raises(dataclasses.FrozenInstanceError):
        objective.number_of_skills = 5


@EVERY_OBJECTIVE
def test_what_backbones_read_is_legal(objective):
    assert objective.resample_every is None or objective.resample_every > 0
    assert isinstance(objective.updates_per_step, int)
    assert objective.updates_per_step >= 1
    assert objective.critic_head in ("scalar", "skill")


@EVERY_OBJECTIVE
@EVERY_SHAPE
def test_the_start_depends_on_its_key_alone(objective, shape):
    first, other, again = (jax.tree.leaves(start(objective, shape, index)) for index in range(3))
    assert_same(first, again)
    assert not first or any(np.any(np.asarray(a) != np.asarray(b)) for a, b in zip(first, other, strict=True))


@EVERY_OBJECTIVE
@pytest.mark.parametrize("function", ["update", "reward"])
def test_functions_are_pure(objective, function):
    arguments = (start(objective), random_batch(objective))
    before = copied(arguments)
    # Traced anew each time: whatever it drew or remembered outside its arguments would show.
    first, second = (jax.jit(getattr(objective, function))(*arguments, jax.random.key(0)) for _ in range(2))
    assert_same(first, second)
    assert_same(arguments, before)


@EVERY_OBJECTIVE
@pytest.mark.parametrize("function", ["update", "reward"])
def test_functions_of_images_are_the_same_program_each_time(objective, function):
    # What vectors are compiled twice for: of images the program is compared and not run.
    arguments = (start(objective, IMAGES), random_batch(objective, IMAGES), jax.random.key(0))
    first, second = (str(jax.make_jaxpr(getattr(objective, function))(*arguments)) for _ in range(2))
    assert first == second


@EVERY_OBJECTIVE
@EVERY_SHAPE
def test_state_keeps_its_kind(objective, shape):
    state, batch = start(objective, shape), random_batch(objective, shape)
    updated, metrics = updating(objective)(state, batch, jax.random.key(0))
    rewarded, _, more_metrics = rewarding(objective)(updated, batch, jax.random.key(1))
    assert kinds(updated) == kinds(state)
    assert kinds(rewarded) == kinds(state)
    assert all(value.shape == () and value.dtype == jnp.float32 for value in (metrics | more_metrics).values())


@EVERY_OBJECTIVE
@EVERY_BATCH
def test_reward_is_a_finite_number_per_row(objective, shape, kind):
    _, reward, metrics = rewarding(objective)(
        start(objective, shape), BATCHES[shape, kind](objective), jax.random.key(0)
    )
    assert reward.shape == (ROWS,)
    assert reward.dtype == jnp.float32
    assert jnp.isfinite(reward).all()
    assert all(jnp.isfinite(value) for value in metrics.values())


@EVERY_OBJECTIVE
@EVERY_SHAPE
def test_the_reward_of_one_row_is_finite(objective, shape):
    one = jax.tree.map(lambda field: field[:1], random_batch(objective, shape))
    state, reward, _ = jax.jit(objective.reward)(start(objective, shape), one, jax.random.key(0))
    assert reward.shape == (1,)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves((state, reward)))


@EVERY_OBJECTIVE
@EVERY_BATCH
def test_the_gradient_of_the_reward_is_finite(objective, shape, kind):
    batch = BATCHES[shape, kind](objective)
    gradients = differentiated(objective)(
        (preprocess(batch.obs), preprocess(batch.next_obs)), start(objective, shape), batch
    )
    assert all(jnp.isfinite(gradient).all() for gradient in gradients)


@EVERY_OBJECTIVE
@EVERY_BATCH
def test_an_update_leaves_the_state_finite(objective, shape, kind):
    state, metrics = updating(objective)(start(objective, shape), BATCHES[shape, kind](objective), jax.random.key(0))
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves((state, metrics)))


@EVERY_OBJECTIVE
@EVERY_SHAPE
def test_rewards_need_no_promotion_of_dtypes(objective, shape):
    with jax.numpy_dtype_promotion("strict"):
        jax.eval_shape(objective.reward, start(objective, shape), random_batch(objective, shape), jax.random.key(0))


@EVERY_OBJECTIVE
def test_a_scan_is_the_same_as_single_steps(objective):
    batch, keys = random_batch(objective), jax.random.split(jax.random.key(0), 2)

    def step(state, key):
        state, metrics = objective.update(state, batch, key)
        state, reward, _ = objective.reward(state, batch, key)
        return state, (reward, metrics)

    scanned, (rewards, _) = jax.jit(lambda state: jax.lax.scan(step, state, keys))(start(objective))
    state = start(objective)
    for key in keys:
        state, _ = updating(objective)(state, batch, key)
        state, reward, _ = rewarding(objective)(state, batch, key)
    assert_same((scanned, rewards[-1]), (state, reward), 1e-4)


@EVERY_OBJECTIVE
@EVERY_SHAPE
def test_the_start_can_be_traced_for_many_seeds(objective, shape):
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = jax.eval_shape(jax.vmap(lambda key: objective.init(key, Spec(shape, ACTION_DIM))), keys)
    assert kinds(shapes) == kinds(side_by_side(starts(objective, shape)))


@EVERY_OBJECTIVE
def test_seeds_side_by_side_are_seeds_alone(objective):
    keys = jax.random.split(jax.random.key(0), 3)
    batches = [random_batch(objective, seed=seed) for seed in range(3)]

    def run(state, batch, key):
        state, metrics = objective.update(state, batch, key)
        return metrics, objective.reward(state, batch, key)

    together = jax.jit(jax.vmap(run))(side_by_side(starts(objective)), side_by_side(batches), keys)
    for index in range(3):
        state, metrics = updating(objective)(start(objective, index=index), batches[index], keys[index])
        alone = metrics, rewarding(objective)(state, batches[index], keys[index])
        assert_same(jax.tree.map(lambda leaf, index=index: leaf[index], together), alone, 1e-4)


@EVERY_OBJECTIVE
def test_learning_on_a_fixed_batch_improves_its_own_loss(objective):
    batch = random_batch(objective)

    def step(state, key):
        return objective.update(state, batch, key)

    keys = jax.random.split(jax.random.key(0), 200)
    _, metrics = jax.jit(lambda state: jax.lax.scan(step, state, keys))(start(objective))
    assert_improvement(metrics)


@EVERY_OBJECTIVE
def test_on_images_a_scan_is_the_same_as_single_steps_and_improves_the_loss(objective):
    # Both laws from one program: compiling it takes longer than all of its steps.
    batch, keys = random_batch(objective, IMAGES), jax.random.split(jax.random.key(0), 200)

    def step(state, key):
        state, metrics = objective.update(state, batch, key)
        state, reward, _ = objective.reward(state, batch, key)
        return state, (reward, metrics)

    _, scanned = jax.jit(lambda state: jax.lax.scan(step, state, keys))(start(objective, IMAGES))
    state = start(objective, IMAGES)
    for index in range(2):
        state, metrics = updating(objective)(state, batch, keys[index])
        state, reward, _ = rewarding(objective)(state, batch, keys[index])
        assert_same(jax.tree.map(lambda leaf, index=index: leaf[index], scanned), (reward, metrics), 1e-3)
    assert_improvement(scanned[1])


@EVERY_OBJECTIVE
@EVERY_SHAPE
def test_scores_of_skills_are_finite_or_refused(objective, shape):
    batch = random_batch(objective, shape)
    if type(objective).score_skills is Objective.score_skills:
        with pytest.raises(UserError, match=f"{objective.name} has no density or discriminator"):
            objective.score_skills(start(objective, shape), batch.next_obs)
    else:
        scores = jax.jit(objective.score_skills)(start(objective, shape), batch.next_obs)
        assert scores.shape == (ROWS, objective.skills.count or DRAWN)
        assert jnp.isfinite(scores).all()


@EVERY_OBJECTIVE
@EVERY_SHAPE
def test_a_skill_is_inferred_or_the_request_refused(objective, shape):
    batch = random_batch(objective, shape)
    if type(objective).infer_skill is Objective.infer_skill:
        with pytest.raises(UserError, match=f"{objective.name} cannot infer a skill"):
            objective.infer_skill(start(objective, shape), batch.obs, batch.reward)
    else:
        skill = objective.infer_skill(start(objective, shape), batch.obs, batch.reward)
        assert skill.shape == (objective.skills.width,)


@EVERY_OBJECTIVE
@EVERY_SHAPE
def test_a_goal_has_a_skill_of_the_space_or_the_request_is_refused(objective, shape):
    batch, state = random_batch(objective, shape), start(objective, shape)
    if not objective.reaches_goals:
        with pytest.raises(UserError, match=f"{objective.name} cannot tell which skill leads to a goal"):
            objective.skill_for_goal(state, batch.obs, batch.next_obs)
        return
    skill = jax.jit(objective.skill_for_goal)(state, batch.obs, batch.next_obs)
    assert skill.shape == batch.skill.shape
    assert skill.dtype == jnp.float32
    if isinstance(objective.skills, Discrete):
        np.testing.assert_array_equal(jnp.sort(skill, axis=-1), jnp.sort(batch.skill, axis=-1))
    elif isinstance(objective.skills, Sphere):
        np.testing.assert_allclose(jnp.linalg.norm(skill, axis=-1), 1, rtol=1e-4)
    else:
        assert jnp.max(jnp.abs(skill)) <= 1
    # The row of a batch has its own skill, whatever the others are.
    alone = objective.skill_for_goal(state, batch.obs[:1], batch.next_obs[:1])
    np.testing.assert_allclose(alone, skill[:1], rtol=1e-3, atol=1e-5)


@EVERY_OBJECTIVE
@EVERY_SHAPE
def test_rows_are_learned_under_their_own_skill_or_another_of_the_space(objective, shape):
    batch = random_batch(objective, shape)
    skill = objective.relabel(start(objective, shape), batch, jax.random.key(0))
    if objective.relabels:
        assert isinstance(objective.skills, Discrete)
        np.testing.assert_array_equal(jnp.sort(skill, axis=-1), jnp.sort(batch.skill, axis=-1))
    else:
        # The same array: nothing is computed.
        assert skill is batch.skill


def largest(jaxpr):
    """Entries of the largest array that a program computes, programs inside it included."""
    inner = [
        part.jaxpr for equation in jaxpr.eqns for part in equation.params.values() if isinstance(part, ClosedJaxpr)
    ]
    sizes = [variable.aval.size for equation in jaxpr.eqns for variable in equation.outvars]
    return max([0, *sizes, *map(largest, inner)])


@pytest.mark.parametrize(
    "objective",
    [one for one in OBJECTIVES if one.scores_other_skills and one.name != "extrinsic" and (one.skills.count or 0) > 1],
    ids=lambda objective: objective.name,
)
def test_images_are_looked_at_once_for_all_skills(objective):
    state, batch, skills = start(objective, IMAGES), random_batch(objective, IMAGES), objective.skills.all()

    def under(skill):
        same = jnp.broadcast_to(skill[None], (ROWS, skill.shape[0]))
        return objective.reward(state, batch._replace(skill=same), jax.random.key(0))[1]

    # Convolving is what takes most room: for every skill anew it would take so many times as much.
    alone = jax.make_jaxpr(under)(skills[0])
    assert largest(jax.make_jaxpr(jax.vmap(under))(skills).jaxpr) == largest(alone.jaxpr)


def test_skills_of_width_zero_pass_through():
    extrinsic = registry()["extrinsic"]()
    batch = random_batch(extrinsic)
    assert batch.skill.shape == (ROWS, 0)
    np.testing.assert_array_equal(rewarding(extrinsic)(None, batch, jax.random.key(0))[1], batch.reward)
