"""A trained policy that acts: any backbone, one observation or many, from a run or from its skills/ alone."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import gymnasium
import jax
import numpy as np
import pytest
from laid_out import configuration

import skillscape
from skillscape.errors import UserError
from skillscape.training.policy import DRAWN_SKILLS, Policy, TrainedPolicy, compiled_act, listed_skills
from skillscape.training.run import Run
from skillscape.training.state import init_state

CASES = {
    "ppo": ("maze/square_a", {}),
    "ddpg": ("gym/toys:Long-v0", {}),
    "sac": ("gym/toys:Long-v0", {}),
    "dreamer": ("gym/toys:Pictured-v0", {}),
}


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation():
    """These policies act a few times; compiling them well would take longer."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Makes a run with a fresh agent that counts as trained, once for each backbone and method."""
    folder = tmp_path_factory.mktemp("runs")

    def make(backbone, method="diayn"):
        path = folder / f"{backbone}-{method}"
        if path.exists():
            return Run(path)
        run = Run.create(path, configuration(method, CASES[backbone][0], backbone=backbone))
        state = init_state(run.config, run.spec)._replace(step=jax.numpy.int32(1200))
        run.save(state, {"skill": None})
        run.trained_policy().save(path / "skills")
        return run

    return make


@pytest.fixture(params=CASES)
def run(request, runs):
    return runs(request.param)


def some(policy, rows=None, seed=0):
    """Observations that policies of its environment may be shown."""
    generator = np.random.default_rng(seed)
    shape = policy.spec.obs_shape if rows is None else (rows, *policy.spec.obs_shape)
    if policy.spec.is_image:
        return generator.integers(0, 256, shape, dtype=np.uint8)
    return generator.uniform(-0.4, 0.4, shape).astype(np.float32)


# Observations


def test_one_observation_gives_one_action_and_a_batch_as_many(run):
    policy = run.policy(skill=1)
    action = policy(some(policy))
    assert action.shape == (policy.spec.action_dim,)
    assert isinstance(action, np.ndarray)
    assert np.abs(action).max() <= 1
    for rows in (1, 3):
        policy.reset()
        assert policy(some(policy, rows)).shape == (rows, policy.spec.action_dim)


@pytest.mark.parametrize("backbone", ["ppo", "ddpg", "sac"])  # the latent states of a world model are drawn by row
def test_rows_of_a_batch_act_as_they_would_alone(runs, backbone):
    policy = runs(backbone).policy(skill=2)
    batch = some(policy, 3)
    together = policy(batch)
    alone = []
    for obs in batch:
        policy.reset()
        alone.append(policy(obs))
    np.testing.assert_allclose(together, alone, atol=1e-5)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2, 2), (5, 3), (0,)])
def test_an_observation_of_another_shape_is_a_users_error(runs, shape):
    policy = runs("ppo").policy()
    with pytest.raises(UserError) as caught:
        policy(np.zeros(shape))
    assert str(caught.value) == f"obs has the wrong shape: {shape}; give (2,), or a batch of them."


def test_lists_and_numbers_of_another_type_are_observations_too(runs):
    policy = runs("ddpg").policy()
    wanted = policy(np.array([0.5, -0.25, 1.0], np.float32))
    for obs in ([0.5, -0.25, 1.0], np.array([0.5, -0.25, 1.0])):
        np.testing.assert_array_equal(policy(obs), wanted)


def test_what_is_no_observation_at_all_is_a_users_error(runs):
    policy = runs("ddpg").policy()
    for obs in ("text", None, {"obs": [1.0]}, [[1.0], [1.0, 2.0]]):
        with pytest.raises(UserError, match="obs has the wrong shape"):
            policy(obs)


@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_an_image_of_another_type_is_not_cast_in_silence(runs, kind):
    policy = runs("dreamer").policy()
    with pytest.raises(UserError, match="give images as uint8"):
        policy(np.zeros((64, 64, 3), kind))
    with pytest.raises(UserError, match=r"give \(64, 64, 3\)"):
        policy(np.zeros((64, 64), np.uint8))


# Skills


def test_skills_are_switched_in_the_middle_of_an_episode(run):
    policy = run.policy(skill=0)
    obs = some(policy)
    first = policy(obs)
    policy.switch(5)
    np.testing.assert_array_equal(policy.skill, listed_skills(run.config.reward.skills)[5])
    other = policy(obs)
    assert (first != other).any()
    policy.switch(0)
    policy.reset()
    np.testing.assert_array_equal(policy(obs), first)


def test_a_skill_may_be_a_vector(run):
    by_index, by_vector = run.policy(skill=3), run.policy(skill=np.eye(run.config.reward.skills.width)[3])
    np.testing.assert_array_equal(by_index.skill, by_vector.skill)
    np.testing.assert_array_equal(by_index(some(by_index)), by_vector(some(by_vector)))


@pytest.mark.parametrize("skill", [-1, 10, 99])
def test_an_unknown_skill_is_a_users_error(runs, skill):
    with pytest.raises(UserError, match=f"There is no skill {skill}; choose one from 0 to 9"):
        runs("ppo").policy(skill)
    policy = runs("ppo").policy(4)
    with pytest.raises(UserError, match="choose one from 0 to 9"):
        policy.switch(skill)
    np.testing.assert_array_equal(policy.skill, np.eye(10)[4])


@pytest.mark.parametrize("skill", [[1.0], np.full(10, np.nan), np.zeros((2, 10)), "random"])
def test_a_vector_that_is_no_skill_is_a_users_error(runs, skill):
    with pytest.raises(UserError, match="give an index or a vector of 10 finite numbers"):
        runs("ppo").policy(skill)


def test_of_a_continuum_the_same_few_skills_have_numbers(runs):
    run = runs("ddpg", "cic")
    policy = run.policy()
    assert policy.number_of_skills is None
    np.testing.assert_array_equal(policy.skill, listed_skills(run.config.reward.skills)[0])
    with pytest.raises(UserError, match=f"choose one from 0 to {DRAWN_SKILLS - 1}"):
        run.policy(DRAWN_SKILLS)
    middle = run.policy(np.full(64, 0.5))
    assert (middle(some(middle)) != policy(some(policy))).any()


def test_a_method_without_skills_has_one_policy(runs):
    policy = runs("ddpg", "rnd").policy()
    assert policy.number_of_skills == 1
    assert policy.skill.shape == (0,)
    assert policy(some(policy)).shape == (2,)
    with pytest.raises(UserError, match="choose one from 0 to 0"):
        policy.switch(1)


def test_what_a_policy_tells_of_its_skill_is_a_copy(runs):
    policy = runs("ppo").policy(4)
    policy.skill[:] = 7
    np.testing.assert_array_equal(policy.skill, np.eye(10)[4])


# Episodes


def test_a_recurrent_policy_remembers_until_it_is_reset(runs):
    policy = runs("dreamer").policy(skill=1)
    obs = [some(policy, seed=seed) for seed in range(3)]
    first = [policy(each) for each in obs]
    later = [policy(each) for each in obs]
    assert (first[0] != later[0]).any()
    policy.reset()
    np.testing.assert_array_equal([policy(each) for each in obs], first)


def test_another_number_of_rows_begins_new_episodes(runs):
    policy = runs("dreamer").policy(skill=1)
    obs = some(policy)
    fresh = policy(obs)
    policy(obs)
    policy(np.stack([obs, obs]))
    np.testing.assert_array_equal(policy(obs), fresh)


@pytest.mark.parametrize("backbone", ["ppo", "ddpg", "sac"])
def test_other_policies_remember_nothing(runs, backbone):
    policy = runs(backbone).policy(skill=1)
    first = policy(some(policy))
    policy(some(policy, seed=5))
    np.testing.assert_array_equal(policy(some(policy)), first)


def test_a_policy_walks_through_a_gymnasium_maze(runs):
    env = gymnasium.make("skillscape/square_a-v0")
    policy = skillscape.Policy(skillscape.load(runs("ppo").folder), skill=3, explore=True)
    obs, _ = env.reset(seed=0)
    path, truncated = [obs], False
    while not truncated:
        action = policy(obs)
        assert env.action_space.contains(action)
        obs, reward, terminated, truncated, _ = env.step(action)
        path.append(obs)
    assert (reward, terminated, len(path)) == (0.0, False, 51)
    assert len(np.unique(path, axis=0)) > 40


# Exploring


def test_a_policy_that_explores_draws_anew_at_each_call_and_repeats_with_its_seed(run):
    first, again, other = (run.policy(3, explore=True, seed=seed) for seed in (0, 0, 1))
    obs = some(first)
    draws = [first(obs), first(obs)]
    assert (draws[0] != draws[1]).any()
    np.testing.assert_array_equal([again(obs), again(obs)], draws)
    assert (other(obs) != draws[0]).any()


def test_a_policy_without_exploring_is_a_function_of_state_and_skill(run):
    still, other = (run.policy(3, seed=seed) for seed in (0, 1))
    obs = some(still)
    np.testing.assert_array_equal(still(obs), other(obs))
    other.reset()
    assert (still(some(still, seed=1)) != other(obs)).any()


def test_rows_of_a_batch_draw_their_own_actions(runs):
    policy = runs("sac").policy(3, explore=True)
    obs = some(policy)
    one, two = policy(np.stack([obs, obs]))
    assert (one != two).any()


# Sharing


def test_skills_that_were_copied_elsewhere_act_alone(run, tmp_path):
    shutil.copytree(run.folder / "skills", tmp_path / "elsewhere")
    wanted, alone = run.policy(skill=2), Policy.load(tmp_path / "elsewhere", skill=2)
    obs = some(wanted)
    np.testing.assert_array_equal(alone(obs), wanted(obs))
    assert alone.config == run.config
    assert alone.spec == run.spec
    assert alone.number_of_skills == run.config.reward.skills.count
    explored = Policy.load(tmp_path / "elsewhere", 2, explore=True, seed=4)
    np.testing.assert_array_equal(explored(obs), run.policy(2, explore=True, seed=4)(obs))


def test_the_folder_of_a_run_may_be_given_for_its_skills(runs):
    run = runs("ppo")
    np.testing.assert_array_equal(Policy.load(run.folder, 2)(np.zeros(2)), run.policy(2)(np.zeros(2)))


def test_a_run_that_has_no_skills_yet_says_when_it_will(tmp_path):
    Run.create(tmp_path / "run", configuration())
    with pytest.raises(UserError, match="has no skills/ yet, which is written at the end of a run; train it further"):
        Policy.load(tmp_path / "run")


def test_a_folder_that_holds_no_policy_is_refused(tmp_path):
    for folder in (tmp_path / "missing", tmp_path):
        with pytest.raises(UserError, match="is not a checkpoint"):
            Policy.load(folder)


ALONE = """
import sys
import numpy as np
import skillscape
policy = skillscape.Policy.load(sys.argv[1], skill=2)
assert "toys" not in sys.modules, "a folder may not import anything"
print(policy(np.zeros(3)).tolist())
"""


def test_skills_need_neither_their_environment_nor_its_module(runs, tmp_path):
    run = runs("ddpg")
    shutil.copytree(run.folder / "skills", tmp_path / "skills")
    done = subprocess.run([sys.executable, "-c", ALONE, str(tmp_path / "skills")], capture_output=True, text=True)
    assert done.stderr == ""
    np.testing.assert_allclose(json.loads(done.stdout), run.policy(2)(np.zeros(3)), atol=1e-6)


def test_the_skill_that_a_fine_tuning_kept_is_shared_with_it(runs, tmp_path):
    trained = runs("ddpg").trained_policy()
    kept = np.eye(16, dtype=np.float32)[9]
    tuned = replace(trained, config=replace(trained.config, phase="finetune", task=CASES["ddpg"][0]), skill=kept)
    tuned.save(tmp_path / "skills")
    np.testing.assert_array_equal(Policy.load(tmp_path / "skills").skill, kept)
    np.testing.assert_array_equal(Policy.load(tmp_path / "skills", 1).skill, np.eye(16)[1])
    assert TrainedPolicy.load(tmp_path / "skills").step == 1200


@pytest.mark.parametrize(
    ("name", "value", "answer"),
    [
        ("config", None, "its metadata are incomplete"),
        ("config", {}, "config.json has the format"),
        ("config", {"format": "skillscape-run-1"}, "earlier version of skillscape"),
        ("obs_shape", [4], "belongs to another configuration"),
        ("obs_shape", [-4], "its metadata are incomplete"),
        ("obs_shape", "wide", "its metadata are incomplete"),
        ("obs_shape", [64, 64, 3], "shows images"),
        ("action_dim", None, "its metadata are incomplete"),
        ("horizon", "long", "its metadata are incomplete"),
        ("step", None, "its metadata are incomplete"),
        ("skill", "three", "its metadata are incomplete"),
        ("skill", [1.0, 2.0], "its metadata are incomplete"),
    ],
)
def test_notes_that_tell_nonsense_are_refused_in_one_sentence(runs, tmp_path, monkeypatch, name, value, answer):
    shutil.copytree(runs("ddpg").folder / "skills", tmp_path / "skills")
    description = json.loads((tmp_path / "skills" / "arrays.json").read_text())
    description["metadata"][name] = value
    (tmp_path / "skills" / "arrays.json").write_text(json.dumps(description))
    # As if somebody had made the checksum fit.
    monkeypatch.setattr("skillscape.training.checkpoint._checksum", lambda *_: description["sha256"])
    with pytest.raises(UserError, match=answer) as caught:
        Policy.load(tmp_path / "skills")
    assert str(caught.value).startswith(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_changed_note_is_damage(runs, tmp_path):
    shutil.copytree(runs("ddpg").folder / "skills", tmp_path / "skills")
    path = tmp_path / "skills" / "arrays.json"
    path.write_text(path.read_text().replace('"action_dim": 2', '"action_dim": 3'))
    with pytest.raises(UserError, match="is damaged: its contents do not match their checksum"):
        Policy.load(tmp_path / "skills")


# Compiling


def test_all_skills_runs_and_policies_of_equal_settings_share_one_compiled_program(runs, monkeypatch):
    run = runs("ddpg")
    kind, traces = type(run.config.backbone), []
    act = kind.act
    monkeypatch.setattr(kind, "act", lambda *arguments: (traces.append(1), act(*arguments))[1])
    compiled_act.cache_clear()
    obs = np.zeros(3)
    for skill in range(16):
        run.policy(skill)(obs)
    policy = run.policy(0)
    for skill in range(16):
        policy.switch(skill)
        policy.reset()
        policy(obs)
    Policy.load(run.folder / "skills", 3)(obs)
    assert len(traces) == 1
    policy(np.zeros((4, 3)))
    assert len(traces) == 2  # another shape
    run.policy(0, explore=True)(obs)
    assert len(traces) == 3
    compiled_act.cache_clear()
