"""Skills as actions: what a choice does to the environment, and what an action chooses."""

import importlib.util

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from untrained import untrained_run

import skillscape
from skillscape.errors import UserError
from skillscape.skill_env import SkillEnv, skill_of
from skillscape.skills import Box, Discrete, SignedBox, Sphere

TOY = "gym/toys:Toy-v0"
"""Twenty steps, three numbers to read."""


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

    def make(method, env=TOY):
        if (method, env) not in made:
            made[method, env] = untrained_run(folder / f"{len(made)}", method, env)
        return made[method, env]

    return make


class Taller(gymnasium.ObservationWrapper):
    """Shows the goal of a task behind the entries that a pre-training knows."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (5,), np.float32)

    def observation(self, observation):
        return np.concatenate([observation, np.float32([7, 7])])


def test_a_choice_is_the_policy_acting_with_a_skill_for_some_steps(runs):
    run = runs("diayn")
    env, plain, policy = SkillEnv((TOY, TOY), run, hold=8), skillscape.make(TOY, TOY), run.policy()
    assert env.action_space == gymnasium.spaces.Discrete(16)
    shown, expected = env.reset(seed=3)[0], plain.reset(seed=3)[0]
    np.testing.assert_array_equal(shown, expected)
    for skill, steps, ends in ((3, 8, False), (11, 8, False), (5, 4, True)):
        policy.switch(skill)
        total = 0.0
        for _ in range(steps):
            expected, reward, *_ = plain.step(policy(expected))
            total += reward
        shown, reward, terminated, truncated, info = env.step(np.int64(skill))
        np.testing.assert_array_equal(shown, expected)
        assert (reward, info["steps"]) == (pytest.approx(total), steps)
        assert (terminated, truncated) == (False, ends)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)


def test_an_episode_that_terminates_ends_the_choice(runs):
    env = SkillEnv("gym/toys:Ending-v0", runs("diayn"), hold=1000)
    env.reset(seed=0)
    *_, terminated, truncated, info = env.step(0)
    assert terminated != truncated
    assert terminated == (info["steps"] < 20)


def test_the_policy_reads_what_it_was_trained_on(runs):
    run = runs("diayn")
    plain, taller = SkillEnv(TOY, run, hold=5), SkillEnv(Taller(skillscape.make(TOY)), run.folder / "skills", hold=5)
    plain.reset(seed=1)
    assert taller.reset(seed=1)[0].shape == (5,)
    np.testing.assert_array_equal(taller.step(2)[0], [*plain.step(2)[0], 7, 7])


def test_continuous_skills_are_chosen_by_a_vector(runs):
    run = runs("aps")
    env = SkillEnv(TOY, run, hold=4)
    assert env.action_space == gymnasium.spaces.Box(-1.0, 1.0, (10,), np.float32)
    direction = np.float32([0.5, *[0] * 9])
    env.reset(seed=0)
    short = env.step(direction)
    env.reset(seed=0)
    np.testing.assert_array_equal(env.step(2 * direction)[0], short[0])
    env.reset(seed=0)
    assert not np.array_equal(env.step(-direction)[0], short[0])


@pytest.mark.filterwarnings("ignore::UserWarning")  # of wrappers, and of unbounded observations
def test_gymnasiums_own_checker_has_nothing_to_say(runs):
    check_env(SkillEnv(TOY, runs("diayn"), hold=7), skip_render_check=True)


@pytest.mark.parametrize(
    ("space", "action", "skill"),
    [
        (Discrete(3), [-0.9, -0.2, -0.5], [0, 1, 0]),
        (Sphere(2), [0.3, -0.4], [0.6, -0.8]),
        (Sphere(4), [0, 0, 0, 0], [0.5, 0.5, 0.5, 0.5]),
        (Box(2), [-1, 0.5], [0, 0.75]),
        (Box(2), [-3, 3], [0, 1]),
        (SignedBox(2), [-0.9, 0.1], [-0.9, -0.1]),
        (SignedBox(2), [0.9, -0.1], [0.9, 0.1]),
    ],
)
def test_an_action_chooses_a_skill_of_the_space(space, action, skill):
    np.testing.assert_allclose(skill_of(space, jnp.asarray(action, jnp.float32)), skill, atol=1e-6)


@pytest.mark.parametrize(("hold", "said"), [(0, "at least 1"), (2.5, "2.5")])
def test_a_hold_is_a_number_of_steps(runs, hold, said):
    with pytest.raises(UserError, match=said):
        SkillEnv(TOY, runs("diayn"), hold=hold)


def test_what_has_no_skills_or_does_not_fit_is_refused_in_words(runs, tmp_path):
    with pytest.raises(UserError, match="rnd has no skills"):
        SkillEnv(TOY, runs("rnd"))
    with pytest.raises(UserError, match="give gym/toys:Toy-v0 with one of its tasks"):
        SkillEnv("maze/square_a", runs("diayn"))
    with pytest.raises(UserError, match="nowhere"):
        SkillEnv(TOY, tmp_path / "nowhere")
    (tmp_path / "several" / "seed_4").mkdir(parents=True)
    (tmp_path / "several" / "seed_4" / "config.json").write_text("{}")
    with pytest.raises(UserError, match="seed_4"):
        SkillEnv(TOY, tmp_path / "several")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("stable_baselines3") is None, reason="stable-baselines3 is not installed")
@pytest.mark.parametrize("method", ["diayn", "aps"])
def test_another_library_learns_to_choose_skills(runs, method):
    from stable_baselines3 import PPO

    env = SkillEnv(TOY, runs(method), hold=5)
    agent = PPO("MlpPolicy", env, n_steps=32, batch_size=32, device="cpu", seed=0)
    agent.learn(64)
    action, _ = agent.predict(env.reset(seed=0)[0], deterministic=True)
    assert env.action_space.contains(action.item() if method == "diayn" else action)
