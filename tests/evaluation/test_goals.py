"""Zero-shot goal reaching: which goals, which skill when, and what counts as reached."""

import json
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from untrained import untrained_run

import skillscape
from skillscape.backbones.ppo import PPO
from skillscape.cli import main
from skillscape.envs.base import HostEnv, HostStep
from skillscape.envs.mazes.layouts import load_layout
from skillscape.errors import UserError
from skillscape.evaluation import goals
from skillscape.evaluation.goals import goals_reached, measure_goals, reach_goals
from skillscape.objectives.extrinsic import Extrinsic
from skillscape.objectives.latent_steps import LatentSteps
from skillscape.stats import Moments
from skillscape.types import EnvSpec

TOY = "gym/toys:Toy-v0"
"""A point that a step moves by a tenth of the action, 20 steps in an episode; its position is entries 0 and 1."""


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation():
    """These policies act a few times; compiling them well would take longer."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Makes a run of a method, once."""
    folder, made = tmp_path_factory.mktemp("runs"), {}

    def make(method, env="maze/square_a", **asked):
        key = f"{method} {env} {asked}"
        if key not in made:
            made[key] = untrained_run(folder / f"{len(made)}", method, env, **asked)
        return made[key]

    return make


@pytest.fixture
def direct(runs, monkeypatch):
    """METRA with φ(s) = the position of the toy, and a policy whose action is its skill."""
    # Compiled anew: another test may have compiled the same method with a φ of its own.
    monkeypatch.setattr(goals, "_compiled_choice", cache(goals._compiled_choice.__wrapped__))
    monkeypatch.setattr(LatentSteps, "represent", lambda self, state, obs: jnp.asarray(obs)[:, :2])
    monkeypatch.setattr("skillscape.objectives.metra.METRA.represent", LatentSteps.represent)
    monkeypatch.setattr(goals, "compiled_act", lambda backbone, explore: lambda p, carry, o, skill, k: (skill, carry))
    return runs("metra", TOY, env_position=(0, 1), objective={"skill_kind": "continuous", "dimension": 2})


def test_a_direction_that_is_chosen_anew_stays_at_the_goal_and_one_that_is_kept_goes_past_it(direct):
    found = reach_goals(direct, number=30, goal_range=1.0, within=(0.11,))
    goal, start = np.asarray(found.goals), np.asarray(found.starts)
    away = np.linalg.norm(goal - start, axis=1)
    assert np.abs(goal - start).max() < 1
    assert np.abs(goal - start).max(axis=0).min() > 0.8  # they fill the square
    adaptive, single = found.modes["adaptive"], found.modes["single"]
    assert adaptive.measures["hit_0.11"] == adaptive.measures["end_0.11"] == 1.0
    assert adaptive.measures["final_distance"] < 0.11
    # Two metres straight on, whatever the goal.
    assert single.measures["hit_0.11"] == 1.0
    assert single.measures["end_0.11"] == 0.0
    np.testing.assert_allclose(np.linalg.norm(np.asarray(single.final) - goal, axis=1), 2 - away, atol=1e-3)
    assert single.measures["final_distance"] == pytest.approx((2 - away).mean(), abs=1e-3)
    # All but the first steps on the way there.
    expected = np.mean([1 - np.ceil((distance - 0.11) / 0.1).clip(0) / 21 for distance in away])
    assert adaptive.measures["time_0.11"] == pytest.approx(expected, abs=0.03)
    assert set(found.measures) == {f"{mode}_{name}" for mode in found.modes for name in adaptive.measures}


class Difference:
    """Its skill is the way to the goal."""

    def skill_for_goal(self, state, obs, goal):
        return goal - obs


@pytest.mark.parametrize("standardised", [False, True])
def test_a_skill_is_chosen_by_states_as_the_method_saw_them_in_training(standardised):
    backbone = PPO(hidden=(4,), normalize_objective_obs=standardised)
    agent = backbone.init(jax.random.key(0), EnvSpec((2,), 2, 50), Extrinsic())
    agent = agent._replace(moments=Moments(jnp.ones(2), jnp.array([4.0, 0.25]), jnp.asarray(9.0)))
    choose = goals._compiled_choice(backbone, Difference())
    skill = choose(agent, (), np.zeros((3, 2), np.float32), np.ones((3, 2), np.float32))
    np.testing.assert_allclose(skill, 3 * [[0.5, 2.0] if standardised else [1.0, 1.0]], rtol=1e-6)


def test_goals_and_episodes_follow_from_the_seed(direct):
    first, again, other = (reach_goals(direct, number=5, goal_range=1.0, seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert first.goals != other.goals
    assert first.within == (3.0, 1.0)
    twice = reach_goals(direct, number=5, goal_range=1.0, seed=3, episodes=2)
    assert twice.goals == first.goals * 2
    assert twice.starts[:5] == first.starts
    assert twice.starts[5:] != first.starts


def test_in_a_maze_every_cell_is_a_goal(runs):
    run, layout = runs("sd3"), load_layout("square_a")
    found = skillscape.goals(run)
    assert np.array_equal(found.goals, layout.cells)
    np.testing.assert_allclose(found.starts, [layout.evaluation_start] * len(layout.cells), atol=1e-6)
    assert found.within == (0.5,)
    assert found.step == 2_000
    measures = found.modes["adaptive"].measures
    # The cell of the start at least.
    assert measures["hit_cell"] >= 1 / len(layout.cells)
    assert measures["hit_cell"] >= measures["end_cell"]
    some = reach_goals(run, number=40)
    assert (layout.cell_index(np.asarray(some.goals)) >= 0).all()
    assert len(some.goals) == 40


def test_the_skill_is_the_one_of_the_highest_density_at_the_goal(runs, monkeypatch):
    run, chosen = runs("sd3"), []
    original = goals.compiled_act

    def watched(backbone, explore):
        act = original(backbone, explore)

        def run_act(params, carry, obs, skill, key):
            chosen.append(np.argmax(np.asarray(skill), axis=1))
            return act(params, carry, obs, skill, key)

        return run_act

    monkeypatch.setattr(goals, "compiled_act", watched)
    found = reach_goals(run)
    objective, state = run.config.objective, run.snapshot().objective
    best = np.argmax(objective.score_skills(state, jnp.asarray(found.goals, jnp.float32)), axis=1)
    assert len(chosen) == 2 * 50
    assert all(np.array_equal(each, best) for each in chosen)


def test_the_best_skill_in_hindsight_is_chosen_for_each_goal_alone():
    target = np.array([[1.0, 0.0], [5.0, 0.0], [1.0, 0.0], [5.0, 0.0]])  # two goals, two episodes of each

    def path(*places):
        return np.array([[x, 0.0] for x in places])

    attempts = [
        [path(0, 1, 9), path(0, 1), path(0, 1, 9), path(0, 1)],  # reaches the first goal, and leaves it again
        [path(0, 1), path(0, 5), path(0, 1), path(0, 3)],  # reaches and keeps it, and the second goal once
        [path(0, 1), path(0, 4), path(0, 3), path(0, 4)],  # the first goal once, and the second never
    ]
    best = goals._best(attempts, target, 0.5, 2)
    assert [each.tolist() for each in best] == [attempts[1][row].tolist() for row in range(4)]
    best = goals._best([attempts[0], attempts[2]], target, 0.5, 2)
    expected = [attempts[0][0], attempts[2][1], attempts[0][2], attempts[2][3]]
    assert [each.tolist() for each in best] == [each.tolist() for each in expected]


def test_no_choice_of_one_skill_for_each_goal_beats_hindsight(runs):
    run = runs("sd3")
    found = reach_goals(run, hindsight=True, episodes=2, explore=True)
    single, best = (found.modes[mode].measures["hit_0.5"] for mode in ("single", "hindsight"))
    assert best >= single
    assert found.measures["hindsight_hit_0.5"] == best
    assert list(reach_goals(run).modes) == ["adaptive", "single"]


def test_the_command_prints_and_writes_numbers_and_a_figure(runs, capsys):
    run = runs("sd3")
    main(["goals", str(run.folder), "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["measures"]["single_hit_0.5"]["mean"] == printed["runs"][0]["modes"]["single"]["measures"]["hit_0.5"]
    stored = json.loads((run.folder / "goals.json").read_text())
    assert {"seed": 3, **stored} == printed["runs"][0]
    assert (run.folder / "plots" / "goals.png").stat().st_size > 10_000
    main(["goals", str(run.folder)])
    text = capsys.readouterr().out
    assert "sd3 in maze/square_a, 2,000 steps, 1 seed, 17 goals" in text
    assert "final_distance" in text


class Lost(HostEnv):
    """Knows where the body is, and does not show it."""

    spec = EnvSpec((3,), 1, 10)
    position = np.zeros(2, np.float32)

    def reset(self, seed):
        return np.zeros(3, np.float32)

    def step(self, action):
        return HostStep(np.zeros(3, np.float32), 0.0, False, False)

    def close(self):
        pass


@pytest.mark.parametrize(
    ("method", "env", "made", "asked", "said"),
    [
        ("rnd", "maze/square_a", {}, {}, "rnd does not say which skill leads to a goal"),
        ("sd3", "maze/square_a", {}, {"goal_range": 3.0}, "--range does not apply to maze/square_a"),
        ("sd3", "maze/square_a", {}, {"within": (0.0,)}, "--within takes distances above zero, not 0"),
        ("sd3", "maze/square_a", {}, {"number": 0}, "--goals must be at least 1"),
        ("csf", "maze/square_a", {}, {"hindsight": True}, "--hindsight tries every skill, and csf has a continuum"),
        ("sd3", "maze/square_a", {}, {"episodes": 0}, "--episodes must be at least 1"),
        ("diayn", TOY, {}, {"goal_range": 1.0}, "does not give the position of the body"),
        ("diayn", TOY, {"env_position": (0, 1)}, {}, "give --range R"),
        ("diayn", TOY, {"env_position": (0, 1)}, {"goal_range": -1.0}, "--range must be above zero, not -1"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(runs, method, env, made, asked, said):
    with pytest.raises(UserError, match=said):
        reach_goals(runs(method, env, **made), **asked)


def test_a_body_that_cannot_see_where_it_is_has_no_goals(runs, monkeypatch):
    run = runs("diayn", TOY)
    monkeypatch.setattr("skillscape.config.host_env", lambda *_arguments, **_options: Lost())
    with pytest.raises(UserError, match="observation of gym/toys:Toy-v0 does not hold the position"):
        reach_goals(run, goal_range=1.0)


def test_goals_of_a_table_are_those_of_mean_actions_in_every_run(runs, tmp_path):
    run = runs("sd3")
    measure_goals(run, "hit_0.5")
    share = json.loads((run.folder / "goals.json").read_text())["modes"]["adaptive"]["measures"]["hit_0.5"]
    assert goals_reached([run.folder], "hit_0.5") == [share]
    assert goals_reached([run.folder, tmp_path], "hit_0.5") is None
    (tmp_path / "goals.json").write_text(json.dumps({"explore": True, "modes": {}}))
    assert goals_reached([tmp_path], "hit_0.5") is None
    (tmp_path / "goals.json").write_text(json.dumps({"explore": False, "modes": []}))
    with pytest.raises(UserError, match=r"goals\.json is damaged: it holds no measures; run `skillscape goals` again"):
        goals_reached([tmp_path], "hit_0.5")
