"""Moments against NumPy on all the data, neighbours against all distances, assignments against plain Sinkhorn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.stats import Moments, nearest_distances, particle_entropy, safe_sqrt, sinkhorn, unit_rows

BATCHES = [np.random.default_rng(seed).normal(seed, 1 + seed, size=(50 * seed, 3)) for seed in (1, 2, 3)]


def moments(batches):
    running = Moments.create((3,))
    for batch in batches:
        running = running.include(jnp.asarray(batch, jnp.float32))
    return running


def brute_force(queries, references, neighbours):
    distances = np.linalg.norm(np.asarray(queries, float)[:, None] - np.asarray(references, float)[None], axis=-1)
    return np.sort(distances, axis=-1)[:, :neighbours]


def test_rows_are_scaled_to_length_one_and_zeros_stay():
    rows = jnp.asarray([[3.0, 4.0], [0.0, 0.0], [0.0, -2.0]])
    np.testing.assert_allclose(unit_rows(rows), [[0.6, 0.8], [0, 0], [0, -1]], rtol=1e-6)
    assert jnp.isfinite(jax.grad(lambda rows: jnp.sum(unit_rows(rows)))(rows)).all()


def test_moments_are_those_of_all_the_data():
    running, everything = moments(BATCHES), np.concatenate(BATCHES)
    np.testing.assert_allclose(running.mean, everything.mean(axis=0), rtol=1e-4)
    # Within a batch the variance is unbiased, so the whole is larger by about one part in its size.
    np.testing.assert_allclose(running.variance, everything.var(axis=0), rtol=0.02)
    np.testing.assert_allclose(running.count, len(everything), rtol=1e-5)


def test_variance_is_that_within_batches_and_that_between_them():
    everything = np.concatenate(BATCHES)
    within = sum(len(batch) * batch.var(axis=0, ddof=1) for batch in BATCHES)
    between = sum(len(batch) * (batch.mean(axis=0) - everything.mean(axis=0)) ** 2 for batch in BATCHES)
    np.testing.assert_allclose(moments(BATCHES).variance, (within + between) / len(everything), rtol=1e-4)


def test_fresh_moments_change_nothing():
    values = jnp.asarray([[0.5, -1.0, 2.0]])
    np.testing.assert_array_equal(Moments.create((3,)).normalise(values), values)


def test_one_row_is_enough_for_moments():
    running = Moments.create((2,)).include(jnp.asarray([[3.0, -1.0]]))
    np.testing.assert_allclose(running.mean, [3.0, -1.0], rtol=1e-3)
    assert jnp.isfinite(running.variance).all()


def test_normalised_data_are_standard():
    values = BATCHES[2][:, None, :]  # with a middle axis, as rollouts have
    normalised = moments(BATCHES[2:]).normalise(jnp.asarray(values, jnp.float32))
    np.testing.assert_allclose(np.mean(normalised, axis=(0, 1)), np.zeros(3), atol=1e-3)
    np.testing.assert_allclose(np.std(normalised, axis=(0, 1)), np.ones(3), rtol=0.01)


def test_normalise_clips_and_floors_the_variance():
    still = Moments(jnp.zeros(2), jnp.asarray([0.0, 1.0]), jnp.asarray(10.0))
    np.testing.assert_allclose(still.normalise(jnp.asarray([[0.1, 9.0], [-8.0, 0.5]])), [[1.0, 5.0], [-5.0, 0.5]])
    np.testing.assert_allclose(still.normalise(jnp.asarray([[0.0, 9.0]]), clip=2.0), [[0.0, 2.0]])


def test_safe_root_is_the_root_with_a_flat_zero():
    np.testing.assert_allclose(safe_sqrt(jnp.asarray([0.0, 4.0])), [0.0, 2.0])
    np.testing.assert_allclose(jax.grad(lambda x: jnp.sum(safe_sqrt(x)))(jnp.asarray([0.0, 4.0])), [0.0, 0.25])


@pytest.mark.parametrize("chunk", [1, 7, 8, 20, 100])
def test_nearest_distances_are_the_smallest_of_all(chunk):
    generator = np.random.default_rng(0)
    queries, references = (jnp.asarray(generator.normal(size=(n, 3)), jnp.float32) for n in (20, 31))
    found = nearest_distances(queries, references, 5, chunk)
    np.testing.assert_allclose(found, brute_force(queries, references, 5), rtol=1e-5)


def test_as_many_neighbours_as_references():
    points = jnp.asarray(np.random.default_rng(0).normal(size=(6, 2)), jnp.float32)
    np.testing.assert_allclose(
        nearest_distances(points, points, 6), brute_force(points, points, 6), rtol=1e-5, atol=1e-7
    )


def test_too_many_neighbours_are_refused():
    with pytest.raises(ValueError, match="4 neighbours asked of 3 references"):
        nearest_distances(jnp.zeros((5, 2)), jnp.zeros((3, 2)), 4)


def test_identical_points_are_at_distance_zero_with_a_finite_gradient():
    points = jnp.full((6, 2), 0.3)

    def total(points):
        return jnp.sum(nearest_distances(points, points, 3))

    value, gradient = jax.value_and_grad(total)(points)
    assert value == 0
    np.testing.assert_array_equal(gradient, 0)


def test_near_points_keep_their_digits():
    # Pairs 1e-4 apart: the square of that is lost when |x|² − 2xy + |y|² is taken in float32.
    queries = jnp.asarray(np.random.default_rng(0).uniform(1, 2, size=(10, 2)), jnp.float32)
    references = queries + jnp.asarray([[1e-4, 0.0]])
    np.testing.assert_allclose(
        nearest_distances(queries, references, 1), brute_force(queries, references, 1), rtol=1e-6
    )


def test_a_common_offset_does_not_change_the_neighbours():
    points = jnp.asarray(np.random.default_rng(0).normal(size=(40, 2)) + 1e3, jnp.float32)
    found = nearest_distances(points, points, 4)
    np.testing.assert_allclose(found, brute_force(points, points, 4), rtol=1e-4, atol=1e-4)


def test_the_gradient_pulls_towards_the_neighbour():
    queries, references = jnp.asarray([[0.0, 0.0]]), jnp.asarray([[3.0, 4.0], [30.0, 40.0]])
    gradient = jax.grad(lambda x: nearest_distances(x, references, 1)[0, 0])(queries)
    np.testing.assert_allclose(gradient, [[-0.6, -0.8]], rtol=1e-6)


def points(rows=15, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(rows, 3)), jnp.float32)


def test_particle_entropy_counts_the_point_itself():
    distances = brute_force(points(), points(), 4)
    np.testing.assert_allclose(distances[:, 0], 0)
    _, entropy = particle_entropy(points(), points(), Moments.create(), 4)
    np.testing.assert_allclose(entropy, np.log1p(distances[:, 1:].sum(axis=-1) / 4), rtol=1e-5)


@pytest.mark.parametrize("scale", ["none", "mean", "variance"])
def test_particle_entropy_is_scaled_by_all_distances_and_floored(scale):
    batches = [(points(), points(20, seed=1)), (3 * points(seed=2), 3 * points(20, seed=3))]
    distances = [brute_force(*batch, 4) for batch in batches]
    running = Moments.create()
    for batch in batches:
        running, entropy = particle_entropy(*batch, running, 4, scale=scale, floor=0.3)
    everything = np.concatenate(distances)
    np.testing.assert_allclose(running.mean, everything.mean(), rtol=1e-4)
    unit = {"none": 1.0, "mean": everything.mean(), "variance": float(running.variance)}[scale]
    np.testing.assert_allclose(
        entropy, np.log1p(np.maximum(distances[1] / unit - 0.3, 0).mean(axis=-1)), rtol=1e-4, atol=1e-6
    )


def test_particle_entropy_of_few_points_takes_all():
    _, entropy = particle_entropy(points(2), points(2), Moments.create(), 4)
    np.testing.assert_allclose(entropy, np.log1p(brute_force(points(2), points(2), 2).mean(axis=-1)), rtol=1e-5)


@pytest.mark.parametrize("scale", ["none", "mean", "variance"])
def test_particle_entropy_of_one_place_is_zero_with_a_finite_gradient(scale):
    never = Moments(jnp.zeros(()), jnp.zeros(()), jnp.asarray(1e6))

    def total(points):
        return jnp.sum(particle_entropy(points, points, never, 3, scale=scale)[1])

    value, gradient = jax.value_and_grad(total)(jnp.full((6, 2), 0.3))
    assert value == 0
    np.testing.assert_array_equal(gradient, 0)


def sinkhorn_by_hand(scores, iterations):
    """On the transport plan itself, with its uniform marginals."""
    plan = np.exp(np.asarray(scores, float) - np.max(scores))
    plan /= plan.sum()
    rows, columns = plan.shape
    for _ in range(iterations):
        plan *= (1 / columns) / plan.sum(axis=0, keepdims=True)
        plan *= (1 / rows) / plan.sum(axis=1, keepdims=True)
    return plan / plan.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("iterations", [0, 1, 3])
def test_sinkhorn_is_the_rescaled_plan(iterations):
    scores = 5 * points(15)
    np.testing.assert_allclose(sinkhorn(scores, iterations), sinkhorn_by_hand(scores, iterations), rtol=1e-4)


def test_sinkhorn_fills_columns_evenly_where_a_softmax_would_not():
    # Every row prefers the first column.
    scores = points(60) + jnp.asarray([[4.0, 0.0, 0.0]])
    assignment = sinkhorn(scores, 10)
    np.testing.assert_allclose(assignment.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(assignment.sum(axis=0), 20, rtol=1e-2)
    assert jax.nn.softmax(scores).sum(axis=0)[0] > 50


def test_sinkhorn_survives_scores_that_would_underflow():
    scores = jnp.asarray([[0.0, -500.0], [0.0, -500.0], [-10.0, -520.0], [0.0, -490.0]])
    np.testing.assert_allclose(sinkhorn(scores, 50).sum(axis=0), [2, 2], rtol=1e-2)


@pytest.mark.parametrize("chunk", [4, 100])
def test_neighbours_of_a_group_are_the_nearest_of_that_group_alone(chunk):
    generator = np.random.default_rng(0)
    queries, references = (generator.normal(size=(rows, 3)).astype(np.float32) for rows in (9, 20))
    query_groups, reference_groups = generator.integers(0, 3, 9), np.arange(20) % 4 // 2
    groups = jnp.asarray(query_groups, jnp.int32), jnp.asarray(reference_groups, jnp.int32)
    found = nearest_distances(jnp.asarray(queries), jnp.asarray(references), 12, chunk, groups)
    for query, group, distances in zip(queries, query_groups, np.asarray(found), strict=True):
        # Ten references each in two groups, none in the third.
        inside = np.sort(np.linalg.norm(references[reference_groups == group] - query, axis=-1))
        np.testing.assert_allclose(distances[: len(inside)], inside, rtol=1e-4)
        assert np.isinf(distances[len(inside) :]).all()


def test_the_gradient_of_infinite_distances_is_zero():
    groups = jnp.asarray([0, 0, 1]), jnp.asarray([0, 0, 1])

    def total(points):
        distances = nearest_distances(points, points, 2, groups=groups)
        return jnp.sum(jnp.where(jnp.isfinite(distances), distances, 0.0))

    gradient = jax.grad(total)(jnp.asarray([[0.0], [1.0], [5.0]]))
    np.testing.assert_allclose(gradient, [[-2.0], [2.0], [0.0]])


def test_moments_of_what_is_marked_are_those_of_it_alone():
    values = jnp.asarray(np.random.default_rng(0).normal(size=(6, 4)), jnp.float32)
    where = values > 0.1
    values = jnp.where(where, values, jnp.inf)
    before = Moments.create().include(jnp.arange(5.0))
    marked, alone = before.include_where(values, where), before.include(values[where])
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5), marked, alone)
    jax.tree.map(np.testing.assert_array_equal, before.include_where(values, jnp.zeros_like(where)), before)


def test_centred_particle_entropy_counts_what_is_beyond_the_mean_distance():
    points = jnp.asarray(np.random.default_rng(0).normal(size=(8, 2)), jnp.float32)
    distances = brute_force(points, points, 4)
    _, entropy = particle_entropy(points, points, Moments.create(), 4, scale="variance", floor=0.1, centred=True)
    expected = np.log1p(np.maximum((distances - distances.mean()) / distances.var(ddof=1) - 0.1, 0).mean(axis=-1))
    np.testing.assert_allclose(entropy, expected, rtol=2e-3, atol=1e-4)
