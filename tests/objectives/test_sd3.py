"""SD3: its two theorems, its identities, and what must not happen in its density model."""

import math
from dataclasses import replace
from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.dists import DiagonalNormal
from skillscape.errors import UserError
from skillscape.objectives import cvae
from skillscape.objectives.cvae import ConditionalVAE, Evidence
from skillscape.objectives.dads import DADS
from skillscape.objectives.density_deviation import continuous_deviation_reward, deviation_reward, posterior
from skillscape.objectives.history import History
from skillscape.objectives.sd3 import SD3
from skillscape.stats import Moments
from skillscape.types import Experience, Spec

SKILLS, LATENT, LAYERS, MODULES, MODULE_WIDTH, WIDTH, VARIANCE = 4, 2, 3, 3, 8, 8, 0.02
SPEC = Spec((2,), 2)
EVERY_ARCHITECTURE = pytest.mark.parametrize("architecture", ["soft-modular", "plain"])
EVERY_WEIGHT = pytest.mark.parametrize("weight", [1.0, 1.2, 1.5, 2.0, 3.0, 50.0])

tiny = partial(
    SD3,
    number_of_skills=SKILLS,
    deviation_weight=1.5,
    exploration_ratio=0.04,
    bonus_scale=1.0,
    bonus_unit="nats",
    density="elbo",
    bonus="own",
    latent_samples=0,
    floor=None,
    reward_scale=1.0,
    architecture="soft-modular",
    width=WIDTH,
    layers=LAYERS,
    modules=MODULES,
    module_width=MODULE_WIDTH,
    temperature=1.0,
    latent_dim=LATENT,
    decoder_variance=VARIANCE,
    learning_rate=1e-2,
    clip_norm=None,
    fitting_steps=1,
    history=0,
    newest_fraction=0.8,
)


def blobs(rows, seed=0):
    """States around one place per skill, on a circle, spread wider than the decoder alone can say."""
    generator = np.random.default_rng(seed)
    skill = np.arange(rows) % SKILLS
    angle = 2 * np.pi * skill / SKILLS
    states = 2 * np.stack([np.cos(angle), np.sin(angle)], axis=-1) + generator.normal(scale=0.4, size=(rows, 2))
    return experience(states, np.eye(SKILLS)[skill])


def experience(states, skill):
    states, skill = jnp.asarray(states, jnp.float32), jnp.asarray(skill, jnp.float32)
    rows = len(states)
    return Experience(jnp.zeros_like(states), jnp.zeros((rows, 2)), states, skill, jnp.zeros(rows))


@cache
def fresh(architecture="soft-modular"):
    return tiny(architecture=architecture).init(jax.random.key(0), SPEC)


@cache
def trained(architecture="soft-modular"):
    """The model after 1000 steps on the blobs."""
    objective, batch = tiny(architecture=architecture), blobs(64)

    def step(state, key):
        return objective.update(state, batch, key)

    run = jax.jit(lambda state: jax.lax.scan(step, state, jax.random.split(jax.random.key(1), 1000)))
    return run(fresh(architecture))[0].model.params


@cache
def scoring(architecture="soft-modular", **changes):
    return jax.jit(tiny(architecture=architecture, **changes).evidence_of_all_skills)


def evidence(architecture, states, model=None):
    return scoring(architecture)(model or trained(architecture), states, jax.random.key(0))


# The reward of given densities.


def random_log_densities(rows=50, scale=5.0):
    generator = np.random.default_rng(0)
    log_density = jnp.asarray(generator.normal(scale=scale, size=(rows, SKILLS)), jnp.float32)
    return log_density, jnp.eye(SKILLS)[np.arange(rows) % SKILLS]


@EVERY_WEIGHT
def test_the_reward_is_the_ratio_of_equation_1(weight):
    log_density, skill = random_log_densities(scale=1.0)
    density, own = np.exp(np.asarray(log_density, float)), np.asarray(skill, bool)
    others = np.where(own, 0, density).sum(axis=-1)
    ratio = weight * density[own] / (weight * density[own] / SKILLS + others / SKILLS)
    np.testing.assert_allclose(deviation_reward(log_density, skill, weight), np.log(ratio), rtol=1e-4, atol=1e-5)


@EVERY_WEIGHT
def test_the_reward_is_at_most_the_logarithm_of_the_number_of_skills(weight):
    reward = deviation_reward(*random_log_densities(scale=30.0), weight)
    assert jnp.max(reward) <= math.log(SKILLS) + 1e-6
    assert jnp.max(reward) > math.log(SKILLS) - 1e-3


@EVERY_WEIGHT
def test_the_reward_where_all_densities_tie(weight):
    reward = deviation_reward(jnp.full((SKILLS, SKILLS), -7.0), jnp.eye(SKILLS), weight)
    np.testing.assert_allclose(reward, math.log(weight * SKILLS / (weight + SKILLS - 1)), rtol=1e-5, atol=1e-6)


def test_the_reward_grows_with_the_weight():
    rewards = [deviation_reward(*random_log_densities(scale=1.0), weight) for weight in (0.5, 1.0, 1.5, 2.0, 3.0)]
    assert jnp.min(jnp.diff(jnp.stack(rewards), axis=0)) > 0


def test_a_constant_shared_by_all_skills_changes_nothing():
    log_density, skill = random_log_densities()
    shifted = deviation_reward(log_density + 3.0, skill, 1.5)
    np.testing.assert_allclose(shifted, deviation_reward(log_density, skill, 1.5), rtol=1e-4, atol=1e-5)


def test_weight_one_is_the_forward_mutual_information_of_dads():
    dads = DADS(number_of_skills=SKILLS, hidden=(8,), variance=0.5)
    state, batch = dads.init(jax.random.key(0), SPEC), blobs(12)
    _, expected, _ = dads.reward(state, batch, jax.random.key(0))
    log_density = dads.score_skills(state, batch.next_obs)
    np.testing.assert_allclose(deviation_reward(log_density, batch.skill, 1.0), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gap", [1e4, -1e4])
def test_gaps_of_ten_thousand_nats_stay_finite(gap):
    log_density = gap * jnp.eye(SKILLS) + jnp.arange(SKILLS, dtype=jnp.float32)[None, :]
    reward, gradient = (
        deviation_reward(log_density, jnp.eye(SKILLS), 1.5),
        jax.grad(lambda x: jnp.sum(deviation_reward(x, jnp.eye(SKILLS), 1.5)))(log_density),
    )
    expected = math.log(SKILLS) if gap > 0 else math.log(SKILLS) + math.log(1.5) + gap
    np.testing.assert_allclose(reward, np.full(SKILLS, expected), atol=5)
    assert jnp.isfinite(gradient).all()


# Theorem 1, on tables of state densities d[z, s].


def tables(count=20, states=7):
    generator = np.random.default_rng(0)
    drawn = np.concatenate([generator.dirichlet(np.full(states, a), size=(count, SKILLS)) for a in (0.05, 1.0, 20.0)])
    return (drawn + 1e-6) / (drawn + 1e-6).sum(axis=-1, keepdims=True)


def mutual_information(table):
    return np.mean(np.sum(table * np.log(table / table.mean(axis=0)), axis=-1))


def deviation_objective(table, weight):
    """I_SD3 = E[r_sd3] over skills and their states, with the library's reward."""
    log_density = jnp.asarray(np.log(np.tile(table.T, (SKILLS, 1))), jnp.float32)
    skill = jnp.asarray(np.repeat(np.eye(SKILLS), table.shape[1], axis=0), jnp.float32)
    reward = np.asarray(deviation_reward(log_density, skill, weight)).reshape(table.shape)
    return np.mean(np.sum(table * reward, axis=-1))


@EVERY_WEIGHT
def test_theorem_1_bounds_the_objective_by_the_mutual_information(weight):
    for table in tables():
        information, objective = mutual_information(table), deviation_objective(table, weight)
        assert information - 1e-5 <= objective <= information + math.log(weight) + 1e-5


def test_theorem_1_is_an_equality_at_weight_one():
    for table in tables():
        assert deviation_objective(table, 1.0) == pytest.approx(mutual_information(table), abs=1e-5)


@pytest.mark.parametrize("weight", [1.5, 3.0])
def test_theorem_1_is_strict_above_weight_one(weight):
    # The proof's remainder: I_SD3 − I = log λ − E[log(1 + (λ − 1) p(z|s))].
    for table in tables():
        posterior = table / table.sum(axis=0)
        remainder = np.mean(np.sum(table * np.log1p((weight - 1) * posterior), axis=-1))
        difference = deviation_objective(table, weight) - mutual_information(table)
        assert difference == pytest.approx(math.log(weight) - remainder, abs=1e-5)
        assert remainder > 0


# A continuum of skills.


@EVERY_WEIGHT
def test_draws_that_are_the_other_skills_give_the_discrete_reward(weight):
    log_density, skill = random_log_densities(scale=3.0)
    own, others = log_density[skill > 0], log_density[skill == 0].reshape(-1, SKILLS - 1)
    found = continuous_deviation_reward(own, others, SKILLS, weight)
    np.testing.assert_allclose(found, deviation_reward(log_density, skill, weight), rtol=1e-5, atol=1e-5)


def test_the_posterior_is_the_share_of_the_own_density():
    log_density = jax.random.normal(jax.random.key(0), (20, 5)) * 4
    skill = jnp.eye(5)[jnp.arange(20) % 5]
    shares = jnp.sum(jax.nn.softmax(log_density, axis=-1) * skill, axis=-1)
    np.testing.assert_allclose(posterior(deviation_reward(log_density, skill, 1.0), 5), shares, rtol=1e-4)
    own, others = log_density[:, 0], log_density[:, 1:]
    found = posterior(continuous_deviation_reward(own, others, 5, 1.0), 5)
    np.testing.assert_allclose(found, jax.nn.softmax(log_density, axis=-1)[:, 0], rtol=1e-4)


SPREAD, DRAWS = 0.35, 4000


def on_a_circle(number, draws, weight, rows=DRAWS):
    """E r_sd3 where skill z, an angle, visits N((cos z, sin z), SPREAD²), I(S;Z) and χ², all of the same draws."""
    generator = np.random.default_rng(0)
    point = lambda angle: np.stack([np.cos(angle), np.sin(angle)], axis=-1)  # noqa: E731
    angle = generator.uniform(0, 2 * np.pi, rows)
    states = point(angle) + generator.normal(scale=SPREAD, size=(rows, 2))

    def log_density(angles):
        return -0.5 * np.sum((states[:, None] - point(angles)) ** 2, axis=-1) / SPREAD**2

    own, grid = log_density(angle[:, None])[:, 0], log_density(np.linspace(0, 2 * np.pi, 512, endpoint=False)[None])
    ratio = np.exp(own) / np.exp(grid).mean(axis=-1)
    others = log_density(generator.uniform(0, 2 * np.pi, (rows, draws)))
    reward = continuous_deviation_reward(
        jnp.asarray(own, jnp.float32), jnp.asarray(others, jnp.float32), number, weight
    )
    return np.mean(reward), np.mean(np.log(ratio)), np.mean(ratio) - 1


@pytest.mark.parametrize(("number", "draws"), [(4, 3), (4, 64), (16, 15), (64, 63), (64, 512)])
@pytest.mark.parametrize("weight", [1.0, 1.5, 3.0])
def test_theorem_1_holds_on_a_circle_up_to_the_bias_of_the_draws(number, draws, weight):
    objective, information, spread = on_a_circle(number, draws, weight)
    noise = 0.03
    assert information - math.log1p(spread / number) - noise <= objective <= information + math.log(weight) + noise


def test_the_objective_on_a_circle_tends_to_the_mutual_information():
    gaps = [np.subtract(*on_a_circle(number, number - 1, 1.0)[1::-1]) for number in (2, 8, 32, 128)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 0.3
    assert abs(gaps[-1]) < 0.03


def test_more_draws_lower_the_reward_towards_its_limit():
    rewards = [on_a_circle(16, draws, 1.0)[0] for draws in (15, 60, 1000)]
    assert rewards == sorted(rewards, reverse=True)


def test_the_reward_of_a_continuum_is_at_most_the_logarithm_of_the_number_of_skills():
    own, others = jnp.asarray([0.0, 1e4, -1e4]), jnp.asarray([[-50.0, -60.0], [0.0, 0.0], [0.0, 0.0]])
    reward = continuous_deviation_reward(own, others, 5, 1.5)
    np.testing.assert_allclose(reward[:2], math.log(5), rtol=1e-4)
    slope = jax.grad(lambda own, others: jnp.sum(continuous_deviation_reward(own, others, 5, 1.5)), (0, 1))(own, others)
    assert all(jnp.isfinite(part).all() for part in (reward, *slope))


sphere = partial(tiny, skill_kind="sphere", skill_dim=2, skill_draws=8)


@cache
def trained_on_a_circle():
    """SD3 on skills that visit where they point, two units away."""
    objective = sphere(temperature=0.5, width=16, module_width=16, learning_rate=5e-3)
    skill = objective.skills.sample(jax.random.key(7), 256)
    batch = experience(2 * skill + 0.1 * jax.random.normal(jax.random.key(8), skill.shape), skill)
    run = jax.jit(
        lambda state: jax.lax.scan(
            lambda state, key: objective.update(state, batch, key), state, jax.random.split(jax.random.key(1), 1500)
        )
    )
    return objective, run(objective.init(jax.random.key(0), SPEC))[0]


def test_rewards_on_a_sphere_prefer_where_the_skill_points():
    objective, state = trained_on_a_circle()
    skill = objective.skills.sample(jax.random.key(3), 64)
    own, foreign = (
        objective.reward(state, experience(2 * place, skill), jax.random.key(0))[1] for place in (skill, -skill)
    )
    assert jnp.mean(own) > 0.8
    assert jnp.mean(foreign) < -1


def test_a_weighted_bonus_on_a_sphere_counts_where_the_skill_points():
    objective, state = trained_on_a_circle()
    skill = objective.skills.sample(jax.random.key(3), 64)

    def size(kind, place, state):
        batch = experience(2 * place, skill)
        return abs(replace(objective, bonus=kind).reward(state, batch, jax.random.key(0))[2]["bonus"])

    at_home, plain = size("posterior", skill, weighted(state)), abs(size("own", skill, state) - 0.7)
    assert 0 < at_home < plain
    assert size("posterior", -skill, weighted(state)) < 0.05 * at_home


def test_the_skill_for_a_goal_on_a_sphere_points_to_it():
    objective, state = trained_on_a_circle()
    goal = 2 * objective.skills.sample(jax.random.key(3), 32)
    skill = objective.skill_for_goal(state, jnp.zeros_like(goal), goal)
    np.testing.assert_allclose(jnp.linalg.norm(skill, axis=-1), 1, rtol=1e-5)
    assert jnp.median(jnp.sum(skill * goal, axis=-1) / 2) > 0.9
    assert objective.score_skills(state, goal).shape == (32, 10)


def test_the_skill_for_a_goal_is_the_densest_of_the_discrete_ones():
    objective, state = tiny(), fresh()._replace(model=fresh().model._replace(params=trained()))
    batch = blobs(16, seed=2)
    skill = objective.skill_for_goal(state, jnp.zeros_like(batch.next_obs), batch.next_obs)
    np.testing.assert_array_equal(
        jnp.argmax(skill, axis=-1), jnp.argmax(objective.score_skills(state, batch.next_obs), axis=-1)
    )


@pytest.mark.parametrize(("number", "draws"), [(10, 8), (1, 8)])
def test_a_sphere_needs_enough_draws(number, draws):
    with pytest.raises(UserError, match="skill_draws"):
        sphere(number_of_skills=number, skill_draws=draws).init(jax.random.key(0), SPEC)


# Theorem 2, in the tabular linear case: ŝ = W η(s, z) with one-hot η, W ~ N(0, I/κ), unit noise.

RIDGE, STATES, DIMENSIONS = 0.5, 5, 3


def features(pairs):
    return np.eye(STATES * SKILLS)[pairs]


def confidence(counts, pair):
    """ηᵀΛ⁻¹η with the Gram matrix Λ = Σ ηηᵀ + κI of pairs seen ``counts`` times."""
    seen = features(np.repeat(np.arange(STATES * SKILLS), counts))
    gram = seen.T @ seen + RIDGE * np.eye(STATES * SKILLS)
    return features(pair) @ np.linalg.solve(gram, features(pair))


def information_gain(counts, pair):
    """KL of the weights' posterior after one more visit from that before it, averaged over what the visit shows.

    In units of the deviation before, each of the c weights of the pair is N(0, 1) before; after, its variance is
    v = 1 / (1 + ηᵀΛ⁻¹η) and the square of its mean is 1 − v on average. The KL is linear in that square.
    """
    variance = 1 / (1 + confidence(counts, pair))
    mean, log_variance = np.sqrt(1 - variance), np.log(variance)
    return DiagonalNormal(jnp.full(DIMENSIONS, mean), jnp.full(DIMENSIONS, log_variance)).kl_to_standard().item()


COUNTS = np.random.default_rng(0).integers(0, 40, size=STATES * SKILLS)


def test_theorem_2_the_confidence_term_counts_visits():
    for pair in range(STATES * SKILLS):
        assert confidence(COUNTS, pair) == pytest.approx(1 / (COUNTS[pair] + RIDGE))


def test_theorem_2_the_divergence_is_the_information_gain():
    for pair in range(STATES * SKILLS):
        gain = DIMENSIONS / 2 * math.log1p(confidence(COUNTS, pair))
        assert information_gain(COUNTS, pair) == pytest.approx(gain, rel=1e-4)


def test_theorem_2_the_bonus_is_below_the_count():
    for pair in range(STATES * SKILLS):
        assert 0 < information_gain(COUNTS, pair) < DIMENSIONS / 2 / (COUNTS[pair] + RIDGE)


def test_theorem_2_the_bonus_tends_to_the_count():
    ratios = []
    for visits in (1, 10, 100, 1000):
        counts = np.full(STATES * SKILLS, 3)
        counts[7] = visits
        ratios.append(information_gain(counts, 7) * (visits + RIDGE) * 2 / DIMENSIONS)
    assert ratios == sorted(ratios)
    assert ratios[0] < 0.8
    assert ratios[-1] == pytest.approx(1, abs=2e-3)


# The density model.


@EVERY_ARCHITECTURE
def test_the_evidence_of_all_skills_is_that_of_each_alone(architecture):
    model, states = trained(architecture), blobs(6).next_obs

    @jax.jit
    def alone(state, skill):
        posterior = model.posterior(model.encoder.shared(state), skill)
        return posterior.mean, posterior.log_variance, model.decode(posterior.mean, skill)

    together = evidence(architecture, states)
    for row, state in enumerate(np.asarray(states, float)):
        for index, skill in enumerate(jnp.eye(SKILLS)):
            mean, log_variance, decoded = (np.asarray(x, float) for x in alone(states[row], skill))
            likelihood = -0.5 * np.sum((state - decoded) ** 2 / VARIANCE + np.log(2 * np.pi * VARIANCE))
            divergence = 0.5 * np.sum(np.exp(log_variance) + mean**2 - 1 - log_variance)
            np.testing.assert_allclose(together.log_likelihood[row, index], likelihood, rtol=1e-3)
            np.testing.assert_allclose(together.divergence[row, index], divergence, rtol=1e-3, atol=1e-5)


def plain_evidence(model, states, skills, noise):
    """The nested form that the fast one must equal: every state under every skill, each by itself."""
    return jax.vmap(lambda state: jax.vmap(lambda skill: model.evidence(state, skill, noise))(skills))(states)


@pytest.mark.parametrize("skills", [2, 16])
@pytest.mark.parametrize("layers", [1, 2, 3])
@EVERY_ARCHITECTURE
def test_scoring_all_skills_equals_the_plain_nested_form(architecture, layers, skills):
    objective = tiny(architecture=architecture, layers=layers, number_of_skills=skills, decoder_variance=0.5)
    model = objective.init(jax.random.key(0), SPEC).model.params
    states, noise = blobs(12).next_obs, jax.random.normal(jax.random.key(1), (2, LATENT))
    found = jax.jit(ConditionalVAE.evidence_of_each)(model, states, jnp.eye(skills), noise)
    expected = jax.jit(plain_evidence)(model, states, jnp.eye(skills), noise)
    for part, by_pairs in zip(found, expected, strict=True):
        assert part.shape == (12, skills)
        np.testing.assert_allclose(part, by_pairs, rtol=1e-6, atol=1e-6 * np.abs(by_pairs).max())


@pytest.mark.parametrize("rows", [12, 11])
def test_scoring_in_blocks_changes_nothing(rows, monkeypatch):
    # Twelve rows are blocks of two; eleven leave a rest.
    objective, states = tiny(decoder_variance=0.5), blobs(12).next_obs[:rows]
    model = objective.init(jax.random.key(0), SPEC).model.params

    def scored(states):
        return model.evidence_of_each(states, jnp.eye(SKILLS), jnp.zeros((1, LATENT)))

    def slope(states, form=scored):
        return jax.grad(lambda states: jnp.sum(jnp.sin(form(states).bound)))(states)

    whole, whole_slope = scored(states), slope(states)
    kept = slope(states, lambda states: plain_evidence(model, states, jnp.eye(SKILLS), jnp.zeros((1, LATENT))))
    np.testing.assert_allclose(whole_slope, kept, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(cvae, "BLOCK_PAIRS", 2 * SKILLS)
    assert "scan" in str(jax.make_jaxpr(scored)(states))
    for part, at_once in zip(scored(states), whole, strict=True):
        np.testing.assert_allclose(part, at_once, rtol=1e-6, atol=1e-6 * np.abs(at_once).max())
    np.testing.assert_allclose(slope(states), whole_slope, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("states", "skills", "rows"),
    [(2500, 10, 50), (2500, 80, 5), (256, 16, 32), (8, 16, 8), (1, 16, 1), (2049, 1, 410), (2053, 16, 32)],
)
def test_blocks_are_equal_where_a_divisor_is_near(states, skills, rows):
    assert cvae._block(states, skills) == rows


@EVERY_ARCHITECTURE
def test_the_likelihood_of_long_states_is_that_of_their_decoding(architecture):
    # More entries than the decoder's last layer reads: their squared error is computed without them.
    entries, objective = 150, tiny(architecture=architecture)
    states = jax.random.normal(jax.random.key(3), (4, entries))
    model = objective.init(jax.random.key(0), Spec((entries,), 2)).model.params
    assert entries > model.decoder.last.weight.shape[1]
    found = objective.evidence_of_all_skills(model, states, jax.random.key(1)).log_likelihood
    for row, state in enumerate(states):
        for index, skill in enumerate(jnp.eye(SKILLS)):
            error = state - model.decode(model.posterior(model.shared(state), skill).mean, skill)
            by_hand = -0.5 * jnp.sum(error**2 / VARIANCE + math.log(2 * math.pi * VARIANCE))
            np.testing.assert_allclose(found[row, index], by_hand, rtol=1e-5)


def test_draws_of_the_latent_are_averaged_and_shared():
    model, states, draws, key = trained(), blobs(6).next_obs, 3, jax.random.key(5)
    noise = jax.random.normal(key, (draws, LATENT))

    @jax.jit
    def at_draw(state, skill, one):
        posterior = model.posterior(model.encoder.shared(state), skill)
        error = state - model.decode(posterior.mean + jnp.exp(posterior.log_variance / 2) * one, skill)
        return -0.5 * jnp.sum(error**2 / VARIANCE + math.log(2 * math.pi * VARIANCE))

    found = scoring(latent_samples=draws)(model, states, key).log_likelihood
    for row, index in [(0, 0), (3, 1), (5, 3)]:
        by_hand = np.mean([at_draw(states[row], jnp.eye(SKILLS)[index], one) for one in noise])
        np.testing.assert_allclose(found[row, index], by_hand, rtol=1e-4)


@EVERY_ARCHITECTURE
def test_the_bound_is_the_weighted_squared_error_of_the_authors(architecture):
    # ‖s − ŝ‖² + β KL is β times the negative ELBO with σ² = β/2, up to a constant.
    weight, batch = 2 * VARIANCE, blobs(6)
    terms = evidence(architecture, batch.next_obs)
    squared = -2 * VARIANCE * (terms.log_likelihood + math.log(2 * math.pi * VARIANCE))
    by_error = -(squared + weight * terms.divergence) / weight - math.log(math.pi * weight)
    np.testing.assert_allclose(terms.bound, by_error, rtol=1e-4)
    assert jnp.min(squared) >= -1e-4


@EVERY_ARCHITECTURE
def test_the_bound_bounds_the_density_of_the_model(architecture):
    model, states = trained(architecture), blobs(SKILLS * 2, seed=9).next_obs
    axis = jnp.linspace(-6, 6, 121)
    grid = jnp.stack(jnp.meshgrid(axis, axis), axis=-1).reshape(-1, LATENT)

    @jax.jit
    def log_density(state, skill):
        """The integral over the latent on a grid."""
        error = state[None, :] - jax.vmap(lambda latent: model.decode(latent, skill))(grid)
        likelihood = -0.5 * jnp.sum(error**2 / VARIANCE + math.log(2 * math.pi * VARIANCE), axis=-1)
        prior = -0.5 * jnp.sum(grid**2 + math.log(2 * math.pi), axis=-1)
        return jax.nn.logsumexp(likelihood + prior) + 2 * jnp.log(axis[1] - axis[0])

    true = jax.vmap(jax.vmap(log_density, (None, 0)), (0, None))(states, jnp.eye(SKILLS))
    sampled = partial(tiny(architecture=architecture, latent_samples=8).evidence_of_all_skills, model, states)
    terms = jax.jit(jax.vmap(sampled))(jax.random.split(jax.random.key(0), 64))
    bound, likelihood = jnp.mean(terms.bound, axis=0), jnp.mean(terms.log_likelihood, axis=0)
    assert jnp.min(true - bound) > -0.1
    # Where the model was trained the bound is near, and the likelihood alone is no bound.
    own = jnp.arange(len(states)), jnp.arange(len(states)) % SKILLS
    assert jnp.median((true - bound)[own]) < 3
    assert jnp.max((likelihood - true)[own]) > 0.5


@EVERY_ARCHITECTURE
def test_a_density_does_not_depend_on_its_batch(architecture):
    states = blobs(6).next_obs
    together = evidence(architecture, states).bound
    others_changed = evidence(architecture, states.at[1:].set(37.0)).bound
    np.testing.assert_allclose(others_changed[0], together[0], rtol=1e-5)
    np.testing.assert_allclose(evidence(architecture, states[2:3]).bound[0], together[2], rtol=1e-4)
    assert np.abs(others_changed[1] - together[1]).max() > 1


@EVERY_ARCHITECTURE
def test_the_decoder_sees_the_state_only_through_the_latent(architecture):
    # With an encoder whose output ignores the state, the likelihood of a state must be a parabola around a fixed mean.
    objective, model = tiny(architecture=architecture), trained(architecture)

    def last_weight(model):
        return model.encoder.output.weight if architecture == "soft-modular" else model.encoder.rest.layers[-1].weight

    blind = eqx.tree_at(last_weight, model, replace_fn=jnp.zeros_like)

    def likelihoods(state):
        return objective.evidence_of_all_skills(blind, state[None], jax.random.key(0)).log_likelihood[0]

    curvature = jax.jit(jax.vmap(jax.hessian(lambda state: likelihoods(state)[1])))(blobs(6).next_obs)
    np.testing.assert_allclose(curvature, np.tile(-np.eye(2) / VARIANCE, (6, 1, 1)), atol=1e-3)


@EVERY_ARCHITECTURE
def test_the_decoder_tells_skills_apart_where_the_latent_is_zero(architecture):
    decoded = jax.vmap(fresh(architecture).model.params.decode, (None, 0))(jnp.zeros(LATENT), jnp.eye(SKILLS))
    apart = np.linalg.norm(np.asarray(decoded)[:, None] - np.asarray(decoded)[None], axis=-1)
    assert apart[~np.eye(SKILLS, dtype=bool)].min() > 1e-4


@EVERY_ARCHITECTURE
def test_permuted_skills_have_permuted_densities(architecture):
    order = np.asarray([2, 0, 3, 1])
    model, states = trained(architecture), blobs(6).next_obs
    permuted = eqx.tree_at(
        lambda model: (model.embed_for_encoder.weight, model.embed_for_decoder.weight),
        model,
        replace_fn=lambda weight: weight[:, order],
    )
    before, after = (evidence(architecture, states, one) for one in (model, permuted))
    np.testing.assert_allclose(after.bound, before.bound[:, order], rtol=1e-4)
    np.testing.assert_allclose(after.divergence, before.divergence[:, order], rtol=1e-4, atol=1e-6)
    assert np.abs(after.bound - before.bound).max() > 1


@cache
def after_one_update(architecture):
    objective = tiny(architecture=architecture)
    return jax.jit(objective.update)(fresh(architecture), blobs(64), jax.random.key(0))[0].model.params


@EVERY_ARCHITECTURE
def test_every_part_of_the_model_learns(architecture):
    before, after = fresh(architecture).model.params, after_one_update(architecture)
    for path, moved in jax.tree.leaves_with_path(jax.tree.map(lambda a, b: jnp.any(a != b), before, after)):
        assert moved, jax.tree_util.keystr(path)


@pytest.mark.parametrize("net", ["encoder", "decoder"])
def test_every_module_learns(net):
    before, after = (getattr(model, net) for model in (fresh().model.params, after_one_update("soft-modular")))

    def moved(old, new, axes):
        return np.any(np.asarray(old) != np.asarray(new), axis=axes)

    first = [one.first.weight.reshape(MODULES, MODULE_WIDTH, WIDTH) for one in (before, after)]
    assert moved(*first, (1, 2)).all()
    assert moved(before.weights, after.weights, (2, 3)).shape == (LAYERS - 1, MODULES)
    assert moved(before.weights, after.weights, (2, 3)).all()
    assert moved(before.biases, after.biases, 2).all()
    assert moved(before.routes, after.routes, 2).all()
    assert moved(before.gates, after.gates, (1, 2)).all()
    assert moved(before.last_route.weight, after.last_route.weight, 1).all()
    assert moved(before.output.weight, after.output.weight, 1).all()


@pytest.mark.parametrize("net", ["encoder", "decoder"])
def test_trained_routings_still_sum_to_one(net):
    chosen = getattr(trained(), net)
    inputs = 5 * jax.random.normal(jax.random.key(0), (20, 2))
    skills = jax.vmap(getattr(trained(), f"embed_for_{net}"))(jnp.eye(SKILLS)[np.arange(20) % SKILLS])
    between, joining = jax.jit(jax.vmap(lambda x, skill: chosen.routing(chosen.shared(x)[0], skill)))(inputs, skills)
    assert len(between) == LAYERS - 1
    np.testing.assert_allclose(jnp.sum(jnp.stack(between), axis=-1), np.ones((LAYERS - 1, 20, MODULES)), rtol=1e-5)
    np.testing.assert_allclose(jnp.sum(joining, axis=-1), np.ones(20), rtol=1e-5)


def test_several_fitting_steps_are_several_steps_of_the_optimiser():
    update = jax.jit(tiny(architecture="plain", fitting_steps=3).update)
    state, _ = update(fresh("plain"), blobs(16), jax.random.key(0))
    assert jax.tree.leaves(state.model.opt_state)[0] == 3


# The reward, from a table of evidence in place of a model.

LIKELIHOOD = np.asarray([[-1.0, -3.0, -2.0, -9.0], [-5.0, -4.0, -1.0, -1.5], [0.5, -7.0, -2.0, 0.0]], np.float32)
DIVERGENCE = np.asarray([[0.1, 2.0, 0.3, 4.0], [3.0, 0.2, 0.1, 1.0], [1.0, 1.1, 0.7, 6.0]], np.float32)
OWN = np.asarray([0, 3, 1])
DEVIATION_BY_HAND = {
    name: np.log(SKILLS)
    + np.log(1.5)
    + log_density[np.arange(3), OWN]
    - np.log(np.exp(log_density) @ np.ones(SKILLS) + 0.5 * np.exp(log_density[np.arange(3), OWN]))
    for name, log_density in {"elbo": LIKELIHOOD - DIVERGENCE, "reconstruction": LIKELIHOOD}.items()
}
OWN_BONUS = DIVERGENCE[np.arange(3), OWN]


@pytest.fixture
def given_evidence(monkeypatch):
    table = Evidence(jnp.asarray(LIKELIHOOD), jnp.asarray(DIVERGENCE))
    monkeypatch.setattr(SD3, "evidence_of_all_skills", lambda *_: table)


def weighted(state):
    """A state whose bonus is weighted by the posterior, after so many rewards that the mean KL, 0.7, stays."""
    return state._replace(kl_moments=Moments(jnp.asarray(0.7), jnp.asarray(1.0), jnp.asarray(1e12)))


def rewards(state=None, **changes):
    batch = experience(np.zeros((3, 2)), np.eye(SKILLS)[OWN])
    return tiny(**changes).reward(state or fresh(), batch, jax.random.key(0))


@pytest.mark.parametrize("density", ["elbo", "reconstruction"])
@pytest.mark.usefixtures("given_evidence")
def test_the_density_is_the_bound_or_the_likelihood_alone(density):
    _, reward, _ = rewards(density=density, exploration_ratio=0.0)
    np.testing.assert_allclose(reward, DEVIATION_BY_HAND[density], rtol=1e-4)


@pytest.mark.usefixtures("given_evidence")
def test_a_weighted_bonus_follows_the_mean_of_all_divergences():
    objective = tiny(bonus="posterior", architecture="plain")
    state = objective.init(jax.random.key(0), SPEC)
    batch = experience(np.zeros((3, 2)), np.eye(SKILLS)[OWN])
    for _ in range(2):
        state, _, metrics = objective.reward(state, batch, jax.random.key(0))
    assert state.kl_moments.mean == pytest.approx(OWN_BONUS.mean(), rel=1e-3)
    assert metrics["bonus"] == pytest.approx(np.mean(POSTERIOR * (OWN_BONUS - OWN_BONUS.mean())), rel=1e-3)


@pytest.mark.usefixtures("given_evidence")
def test_the_unit_is_that_of_the_divergence_however_it_is_weighted():
    for unit, size in (("running-mean", OWN_BONUS.mean()), ("running-std", OWN_BONUS.std())):
        state = weighted(fresh())._replace(bonus_moments=Moments.create())
        _, reward, _ = rewards(state, bonus="posterior", bonus_unit=unit, exploration_ratio=1.0)
        expected = DEVIATION_BY_HAND["elbo"] + POSTERIOR * (OWN_BONUS - 0.7) / size
        np.testing.assert_allclose(reward, expected, rtol=1e-3)


DENSITY = np.exp(LIKELIHOOD - DIVERGENCE)
POSTERIOR = DENSITY[np.arange(3), OWN] / DENSITY.sum(axis=-1)


@pytest.mark.parametrize(
    ("bonus", "expected"),
    [("own", OWN_BONUS), ("mean", DIVERGENCE.mean(axis=-1)), ("posterior", POSTERIOR * (OWN_BONUS - 0.7))],
)
@pytest.mark.usefixtures("given_evidence")
def test_the_bonus_is_the_divergence_of_the_own_skill_plain_or_weighted_or_that_of_all(bonus, expected):
    state = weighted(fresh()) if bonus == "posterior" else fresh()
    _, reward, _ = rewards(state, bonus=bonus, exploration_ratio=0.7)
    np.testing.assert_allclose(reward, DEVIATION_BY_HAND["elbo"] + 0.7 * expected, rtol=1e-4)


@pytest.mark.usefixtures("given_evidence")
def test_the_floor_holds_the_deviation_and_not_the_bonus():
    _, reward, metrics = rewards(floor=-1.0, exploration_ratio=0.1)
    assert (DEVIATION_BY_HAND["elbo"] < -1).any()
    np.testing.assert_allclose(reward, np.maximum(DEVIATION_BY_HAND["elbo"], -1) + 0.1 * OWN_BONUS, rtol=1e-4)
    assert metrics["density_deviation_floored"] == pytest.approx(np.mean(DEVIATION_BY_HAND["elbo"] < -1))


@pytest.mark.usefixtures("given_evidence")
def test_the_reward_is_scaled_as_a_whole():
    np.testing.assert_allclose(rewards(reward_scale=0.1)[1], 0.1 * rewards()[1], rtol=1e-5)


@pytest.mark.usefixtures("given_evidence")
def test_the_unit_of_the_bonus_multiplies_it():
    _, reward, _ = rewards(exploration_ratio=0.1, bonus_scale=5.0)
    np.testing.assert_allclose(reward, DEVIATION_BY_HAND["elbo"] + 0.5 * OWN_BONUS, rtol=1e-4)


@EVERY_ARCHITECTURE
def test_the_rewards_of_a_trained_model_prefer_the_own_region(architecture):
    objective, batch = tiny(architecture=architecture, exploration_ratio=0.0), blobs(16, seed=4)
    state = fresh(architecture)
    state = state._replace(model=state.model._replace(params=trained(architecture)))
    score = jax.jit(lambda skill: objective.reward(state, batch._replace(skill=skill), jax.random.key(0))[1])
    own, foreign = score(batch.skill), score(jnp.roll(batch.skill, 1, axis=-1))
    assert jnp.mean(own) > 1.2
    assert jnp.mean(foreign) < 0


# Instruments, and settings that are off.


def test_the_shares_of_the_reward_variance_are_one_together():
    _, _, metrics = rewards(exploration_ratio=0.7, floor=-1.0)
    assert metrics["density_deviation_share"] + metrics["bonus_share"] == pytest.approx(1, abs=1e-5)
    assert metrics["density_deviation_std"] > 0
    alone = rewards(exploration_ratio=0.0)[2]
    assert alone["bonus_share"] == 0
    assert alone["density_deviation_share"] == pytest.approx(1, abs=1e-5)


@EVERY_ARCHITECTURE
def test_the_parts_of_the_divergence_sum_to_it(architecture):
    _, metrics = jax.jit(tiny(architecture=architecture).update)(fresh(architecture), blobs(16), jax.random.key(0))
    parts = [metrics[f"divergence_from_{part}"].item() for part in ("mean", "variance", "log_variance")]
    assert sum(parts) == pytest.approx(metrics["divergence"].item(), rel=1e-4)
    assert min(abs(part) for part in parts) > 0


def test_the_entropy_of_the_routing_is_that_of_its_mixtures():
    state = fresh()
    uniform = eqx.tree_at(
        lambda model: (model.encoder.routes, model.encoder.last_route.weight, model.encoder.last_route.bias),
        state.model.params,
        replace_fn=jnp.zeros_like,
    )
    objective, batch = tiny(temperature=1.0), blobs(16)
    state = state._replace(model=state.model._replace(params=uniform))
    _, metrics = jax.jit(objective.update)(state, batch, jax.random.key(0))
    assert metrics["encoder_routing_entropy"] == pytest.approx(math.log(MODULES), rel=1e-5)
    assert 0 < metrics["decoder_routing_entropy"] < math.log(MODULES)
    assert (
        "encoder_routing_entropy"
        not in jax.jit(tiny(architecture="plain").update)(fresh("plain"), batch, jax.random.key(0))[1]
    )


def test_instruments_cost_no_dense_product():
    # They compute again what the fit computes, which the compiler merges.
    def flops(change):
        with pytest.MonkeyPatch.context() as patch:
            change(patch)
            update = jax.jit(lambda state, batch, key: tiny(layers=2).update(state, batch, key))
            start = tiny(layers=2).init(jax.random.key(0), SPEC)
            return update.lower(start, blobs(64), jax.random.key(0)).compile().cost_analysis()["flops"]

    without = flops(lambda patch: patch.setattr(ConditionalVAE, "diagnostics", lambda *_: {}))
    assert flops(lambda patch: None) < 1.05 * without


def test_routing_weights_are_shares_of_each_skill():
    weights = tiny().routing_weights(fresh())
    assert list(weights) == ["encoder", "decoder"]
    for shares in weights.values():
        assert shares.shape == (LAYERS, MODULES, SKILLS)
        np.testing.assert_allclose(jnp.sum(shares, axis=1), np.ones((LAYERS, SKILLS)), rtol=1e-5)
        assert np.abs(np.diff(shares, axis=-1)).max() > 1e-3
    assert tiny(architecture="plain").routing_weights(fresh("plain")) == {}


def test_a_standardised_density_does_not_depend_on_the_unit_of_the_states():
    objective, key = tiny(standardize=1.0), jax.random.key(0)

    def after(scale, shift):
        batch = blobs(64)
        batch = batch._replace(next_obs=scale * batch.next_obs + shift)
        state = objective.update(objective.init(key, SPEC), batch, key)[0]
        return objective.reward(state, batch, key)[1]

    np.testing.assert_allclose(after(100.0, -7.0), after(1.0, 0.0), rtol=1e-2, atol=1e-2)


def test_states_standardised_in_part_keep_that_power_of_their_scale():
    scales, states = np.array([0.5, 8.0], np.float32), np.asarray(blobs(512).next_obs)
    states = scales * (states - states.mean(axis=0)) / states.std(axis=0)
    batch = experience(states, np.eye(SKILLS)[np.arange(512) % SKILLS])
    for power in (0.25, 0.5, 1.0):
        objective = tiny(standardize=power)
        state = objective.update(objective.init(jax.random.key(0), SPEC), batch, jax.random.key(0))[0]
        inputs = np.asarray(objective.model_input(state, jnp.asarray(states + 3.0)))
        np.testing.assert_allclose(inputs.std(axis=0), scales ** (1 - power), rtol=1e-2)
        np.testing.assert_allclose(inputs.mean(axis=0), 3.0 * scales**-power, rtol=1e-2)


def test_a_background_has_the_scale_of_the_inputs():
    objective, batch = tiny(standardize=0.5, background=0.99), blobs(512)
    batch = batch._replace(next_obs=jnp.array([[0.5, 8.0]]) * batch.next_obs)
    state = objective.update(objective.init(jax.random.key(0), SPEC), batch, jax.random.key(0))[0]
    inputs = objective.model_input(state, batch.next_obs)
    nothing = Evidence(jnp.full((512, SKILLS), -1e9), jnp.zeros((512, SKILLS)))
    found = objective.log_density(state, inputs, nothing)[:, 0]
    variance = np.var(np.asarray(inputs), axis=0) + VARIANCE
    common = -0.5 * np.sum(np.asarray(inputs) ** 2 / variance + np.log(2 * np.pi * variance), axis=-1)
    np.testing.assert_allclose(found, math.log(0.99) + common, rtol=2e-2, atol=2e-2)


def test_moments_are_of_the_states_that_were_fitted_and_rewards_leave_them():
    objective, batch = tiny(standardize=1.0), blobs(64)
    state = objective.update(objective.init(jax.random.key(0), SPEC), batch, jax.random.key(0))[0]
    np.testing.assert_allclose(state.moments.mean, np.mean(batch.next_obs, axis=0), atol=1e-4)
    assert objective.reward(state, batch, jax.random.key(0))[0].moments is state.moments


def test_a_background_makes_all_skills_tie_far_from_everything():
    plain, objective = tiny(), tiny(background=0.01)
    far, near = experience(np.full((SKILLS, 2), 40.0), np.eye(SKILLS)), blobs(16)
    state = objective.init(jax.random.key(0), SPEC)
    state = state._replace(moments=state.moments.include(near.next_obs), model=state.model._replace(params=trained()))
    tie = math.log(1.5 * SKILLS / (1.5 + SKILLS - 1))
    scores = {name: one.score_skills(state, far.next_obs) for name, one in {"": plain, "background": objective}.items()}
    assert np.ptp(scores[""], axis=-1).min() > 100
    np.testing.assert_allclose(deviation_reward(scores["background"], far.skill, 1.5), tie, rtol=1e-4)
    inside = objective.log_density(state, near.next_obs, Evidence(jnp.full((16, SKILLS), 3.0), jnp.zeros((16, SKILLS))))
    np.testing.assert_allclose(inside, 3 + math.log(0.99), atol=0.02)


def test_a_background_is_the_mixture_of_its_two_densities():
    objective, states = tiny(background=0.3), blobs(16).next_obs
    state = objective.init(jax.random.key(0), SPEC)
    state = state._replace(moments=state.moments.include(states))
    given = np.random.default_rng(0).normal(size=(16, SKILLS))
    found = objective.log_density(state, states, Evidence(jnp.asarray(given, jnp.float32), jnp.zeros((16, SKILLS))))
    variance = np.asarray(state.moments.variance, float) + VARIANCE
    square = (np.asarray(states) - np.asarray(state.moments.mean)) ** 2 / variance
    common = np.exp(-0.5 * square.sum(axis=-1)) / np.sqrt(np.prod(2 * np.pi * variance))
    np.testing.assert_allclose(found, np.log(0.7 * np.exp(given) + 0.3 * common[:, None]), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("given_evidence")
def test_the_bonus_relative_to_its_running_mean_has_mean_one():
    objective = tiny(bonus_unit="running-mean", exploration_ratio=0.5)
    state, reward, metrics = rewards(
        objective.init(jax.random.key(0), SPEC), **{"bonus_unit": "running-mean", "exploration_ratio": 0.5}
    )
    expected = DEVIATION_BY_HAND["elbo"] + 0.5 * OWN_BONUS / OWN_BONUS.mean()
    np.testing.assert_allclose(reward, expected, rtol=1e-3)
    assert metrics["bonus"] == pytest.approx(OWN_BONUS.mean(), rel=1e-5)
    assert state.bonus_moments.mean == pytest.approx(OWN_BONUS.mean(), rel=1e-3)


@pytest.mark.usefixtures("given_evidence")
def test_the_bonus_relative_to_its_running_std_has_that_of_one():
    settings = {"bonus_unit": "running-std", "exploration_ratio": 0.5}
    state, reward, _ = rewards(tiny(**settings).init(jax.random.key(0), SPEC), **settings)
    expected = DEVIATION_BY_HAND["elbo"] + 0.5 * OWN_BONUS / OWN_BONUS.std()
    np.testing.assert_allclose(reward, expected, rtol=1e-3)
    assert state.bonus_moments.mean == pytest.approx(OWN_BONUS.std(), rel=1e-3)


@pytest.mark.parametrize("change", [{"standardize": 0.5}, {"background": 0.1}])
def test_images_have_no_moments(change):
    with pytest.raises(UserError, match="vectors"):
        tiny(**change).init(jax.random.key(0), Spec((16, 16, 3), 2))


def test_settings_that_are_off_leave_no_trace_in_the_state():
    state = fresh()
    assert state.moments is None
    assert state.bonus_moments is None


# The history of scored states


def numbered(*numbers):
    """States (i, i) with skill i modulo the number of skills."""
    return experience(np.asarray(numbers)[:, None].repeat(2, axis=1), np.eye(SKILLS)[np.asarray(numbers) % SKILLS])


def test_rewards_push_the_next_states_into_the_history(monkeypatch):
    table = Evidence(jnp.zeros((2, SKILLS)), jnp.zeros((2, SKILLS)))
    monkeypatch.setattr(SD3, "evidence_of_all_skills", lambda *_: table)
    state = fresh("plain")._replace(history=History.create(5, (2,), SKILLS))
    state, _, _ = tiny(architecture="plain", history=5).reward(state, numbered(1, 2), jax.random.key(0))
    np.testing.assert_array_equal(state.history.obs[:2, 0], [1, 2])
    assert state.history.filled == 2


def test_an_update_fits_the_history():
    update = jax.jit(tiny(architecture="plain", history=8, newest_fraction=0.0).update)
    history, states = History.create(8, (2,), SKILLS), blobs(8)
    state = fresh("plain")._replace(history=history.include(states.next_obs, states.skill))
    first, second = (
        update(state, batch, jax.random.key(0))[1]["model_loss"] for batch in (blobs(16), numbered(*[9] * 16))
    )
    assert first == second


# Diagnosis of the density at an evaluation


@pytest.mark.parametrize("bonus", ["own", "mean", "posterior"])
def test_a_diagnosis_is_the_mean_of_both_rewards_under_own_and_other_skills(bonus):
    objective, batch = tiny(bonus=bonus), blobs(64)
    state = fresh()._replace(model=fresh().model._replace(params=trained()))
    state = weighted(state) if bonus == "posterior" else state
    random = batch.next_obs + 3.0
    found = objective.diagnose(state, batch.next_obs, batch.skill, random)

    def mean_reward(obs, skill):
        _, _, metrics = objective.reward(state, batch._replace(next_obs=obs, skill=skill), jax.random.key(0))
        return np.array([metrics["density_deviation"], metrics["bonus"]])

    others = np.mean(
        [mean_reward(batch.next_obs, jnp.roll(batch.skill, by, axis=1)) for by in range(1, SKILLS)], axis=0
    )
    each = [jnp.broadcast_to(skill, batch.skill.shape) for skill in jnp.eye(SKILLS)]
    wanted = {
        "own_skill": mean_reward(batch.next_obs, batch.skill),
        "other_skills": others,
        "random_walks": np.mean([mean_reward(random, skill) for skill in each], axis=0),
    }
    for where, pair in wanted.items():
        got = [found[f"density_deviation_{where}"], found[f"bonus_{where}"]]
        np.testing.assert_allclose(got, pair, rtol=1e-3, atol=1e-4)
    assert found["density_deviation_own_skill"] > found["density_deviation_other_skills"]
