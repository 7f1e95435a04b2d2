"""Skills for goals: directions of a hand-made φ, scores made by hand, features, and the keys of transitions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.errors import UserError
from skillscape.objectives import registry
from skillscape.objectives.aps import APS
from skillscape.objectives.becl import BeCL
from skillscape.objectives.cic import CIC
from skillscape.objectives.csd import CSD
from skillscape.objectives.csf import CSF
from skillscape.objectives.dads import DADS
from skillscape.objectives.lsd import LSD
from skillscape.objectives.metra import METRA
from skillscape.objectives.moss import MOSS
from skillscape.types import Experience, Spec

KEY, SPEC = jax.random.key(0), Spec((2,), 2)
OBS = jnp.asarray([[1.0, 1.0], [0.0, 0.0], [-2.0, 3.0], [0.5, 0.5]])
GOAL = jnp.asarray([[4.0, 5.0], [-1.0, 0.0], [-2.0, 1.0], [0.5, 0.5]])
STEPS = np.asarray([[3.0, 4.0], [-1.0, 0.0], [0.0, -2.0], [0.0, 0.0]])
LINE = [METRA, CSD, LSD, CSF]


def with_linear_representation(objective, matrix):
    """The state in which φ(s) is a matrix times s."""
    state = objective.init(KEY, SPEC)
    (layer,) = state.representation.params.layers
    assert layer.weight.shape == matrix.shape
    network = eqx.tree_at(
        lambda net: (net.layers[0].weight, net.layers[0].bias),
        state.representation.params,
        (jnp.asarray(matrix, jnp.float32), jnp.ones(len(matrix))),
    )
    return state._replace(representation=state.representation._replace(params=network))


@pytest.mark.parametrize("kind", LINE, ids=lambda kind: kind.name)
def test_a_direction_leads_from_the_state_to_the_goal(kind):
    objective = kind(skill_kind="continuous", dimension=2, hidden=())
    turned = np.asarray([[0.0, 1.0], [-1.0, 0.0]])
    skill = objective.skill_for_goal(with_linear_representation(objective, turned), OBS, GOAL)
    # Of length one, and somewhere on the sphere where the goal is reached.
    expected = np.asarray([[0.8, -0.6], [0.0, 1.0], [-1.0, 0.0], [np.sqrt(0.5), np.sqrt(0.5)]])
    np.testing.assert_allclose(skill, expected, atol=1e-5)


@pytest.mark.parametrize("kind", LINE, ids=lambda kind: kind.name)
def test_of_discrete_skills_the_one_that_agrees_most_leads_there(kind):
    objective = kind(skill_kind="discrete", number_of_skills=3, hidden=())
    matrix = np.asarray([[1.0, 0.0], [-0.5, 1.0], [-0.5, -1.0]])
    skill = objective.skill_for_goal(with_linear_representation(objective, matrix), OBS, GOAL)
    np.testing.assert_array_equal(skill[:3], np.eye(3)[np.argmax(STEPS[:3] @ matrix.T, axis=-1)])
    # The same skill as earns most on the step to the goal.
    state = with_linear_representation(objective, matrix)
    step = Experience(OBS, jnp.zeros((4, 2)), GOAL, skill, jnp.zeros(4))
    rewards = [
        objective.reward(state, step._replace(skill=jnp.tile(each, (4, 1))), KEY)[1] for each in objective.skills.all()
    ]
    np.testing.assert_array_equal(np.argmax(rewards, axis=0)[:3], np.argmax(skill, axis=-1)[:3])


@pytest.mark.parametrize("name", ["diayn", "disdain", "smm", "dads", "cesd", "edl"])
def test_the_skill_with_the_highest_score_at_the_goal_is_taken(name):
    kind = registry()[name]
    scores = jnp.asarray([[0.1, 0.7, 0.2], [-5.0, -9.0, -4.0], [3.0, 1.0, 2.0], [0.0, 0.0, 1.0]])

    class ByHand(kind):
        def score_skills(self, state, obs):
            np.testing.assert_array_equal(obs, GOAL)
            return scores

    skill = ByHand(number_of_skills=3).skill_for_goal(None, OBS, GOAL)
    np.testing.assert_array_equal(skill, np.eye(3)[[1, 2, 0, 2]])


def test_dads_names_the_skill_whose_states_are_closest():
    objective = DADS(number_of_skills=3, hidden=())
    state = objective.init(KEY, SPEC)
    means = jnp.asarray([[4.0, 4.0], [-1.0, 1.0], [0.0, 0.0]])
    model = eqx.tree_at(
        lambda net: (net.layers[0].weight, net.layers[0].bias), state.model.params, (means.T, jnp.zeros(2))
    )
    state = state._replace(model=state.model._replace(params=model))
    np.testing.assert_array_equal(objective.skill_for_goal(state, OBS, GOAL), np.eye(3)[[0, 1, 1, 2]])


def test_aps_takes_the_features_of_the_goal():
    objective = APS(dimension=2, hidden=())
    state = objective.init(KEY, SPEC)
    features = eqx.tree_at(
        lambda net: (net.layers[0].weight, net.layers[0].bias), state.features.params, (2 * jnp.eye(2), jnp.zeros(2))
    )
    state = state._replace(features=state.features._replace(params=features))
    expected = np.asarray(GOAL) / np.linalg.norm(GOAL, axis=-1, keepdims=True)
    np.testing.assert_allclose(objective.skill_for_goal(state, OBS, GOAL), expected, rtol=1e-4)


CONTRASTS = [CIC(number_of_skills=4), CIC(skill_dim=3), MOSS(skill_dim=3)]


@pytest.mark.parametrize("objective", CONTRASTS, ids=["cic", "cic-box", "moss"])
def test_the_query_that_matches_a_step_to_the_goal_best_is_taken(objective):
    state = objective.init(KEY, SPEC)
    networks = state.networks.params
    chosen = objective.skill_for_goal(state, OBS, GOAL)
    matched = jnp.sum(networks.keys(OBS, GOAL) * networks.queries(chosen), axis=-1)
    drawn = objective.skills.sample(jax.random.key(5), 500)
    others = networks.keys(OBS, GOAL) @ networks.queries(drawn).T
    assert jnp.all(matched >= jnp.quantile(others, 0.97, axis=-1) - 1e-6)


def test_cic_learns_which_skill_moves_towards_a_goal():
    objective = CIC(number_of_skills=4, hidden=(16,), learning_rate=1e-2)
    moves, rows = np.asarray([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]), 64
    obs = np.random.default_rng(0).uniform(-2, 2, size=(rows, 2))
    index = np.arange(rows) % 4
    batch = Experience(
        jnp.asarray(obs, jnp.float32),
        jnp.zeros((rows, 2)),
        jnp.asarray(obs + moves[index], jnp.float32),
        jnp.eye(4)[index],
        jnp.zeros(rows),
    )

    def step(state, key):
        return objective.update(state, batch, key)

    state = jax.jit(lambda state: jax.lax.scan(step, state, jax.random.split(KEY, 300)))(objective.init(KEY, SPEC))[0]
    goals = jnp.asarray(moves[[3, 0, 2, 1]], jnp.float32)
    skill = objective.skill_for_goal(state, jnp.zeros((4, 2)), goals)
    np.testing.assert_array_equal(skill, np.eye(4)[[3, 0, 2, 1]])


@pytest.mark.parametrize("objective", [BeCL(), *(registry()[name]() for name in ("rnd", "apt", "icm", "protorl"))])
def test_methods_that_cannot_tell_say_so(objective):
    with pytest.raises(UserError, match=f"{objective.name} cannot tell which skill leads to a goal; choose a method"):
        objective.skill_for_goal(None, OBS, GOAL)


def test_what_is_said_of_goals_is_what_is_done():
    able = {name for name, kind in registry().items() if kind.reaches_goals}
    assert able == {
        *("sd3", "diayn", "disdain", "smm", "dads", "cesd", "edl"),
        *("metra", "csd", "lsd", "csf", "aps", "cic", "moss"),
    }
