"""All twelve tasks as environments: sizes, ends, seeds, actions, the numbers of dm_control, trivial policies."""

import numpy as np
import pytest

from skillscape.envs.urlb.suite import load_task
from skillscape.envs.urlb.tasks import DOMAINS, TASKS, domain_of
from skillscape.types import EnvSpec

pytest.importorskip("dm_control")

EVERY_TASK = pytest.mark.parametrize("task", TASKS)
EVERY_DOMAIN = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)

# Mean and deviation over 20 episodes of actions that are uniform in [-1, 1], and of zero actions. One random episode
# in ten brings the arm near the brick, so 20 say little of the deviation: all corners are given that of the widest.
RETURNS = {
    "walker_flip": ((48.5, 4), (23, 10)),
    "walker_run": ((22.5, 2), (22, 9)),
    "walker_stand": ((126, 11), (131, 56)),
    "walker_walk": ((33, 4), (22, 10)),
    "quadruped_jump": ((269, 344), (296, 348)),
    "quadruped_run": ((181, 233), (204, 241)),
    "quadruped_stand": ((362, 465), (407, 482)),
    "quadruped_walk": ((182, 234), (203, 241)),
    "jaco_reach_bottom_left": ((3, 22), (0, 0)),
    "jaco_reach_bottom_right": ((0, 22), (0, 0)),
    "jaco_reach_top_left": ((11, 22), (0, 0)),
    "jaco_reach_top_right": ((3, 22), (0, 0)),
}


def actions_of(env, count, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (count, env.spec.action_dim)).astype(np.float32)


def episode(env, seed, actions):
    """Every number of an episode, as bytes."""
    first = env.reset(seed)
    steps = [env.step(action) for action in actions]
    return [first.tobytes(), *((step.obs.tobytes(), step.reward) for step in steps)]


def flat(timestep):
    return np.concatenate([np.ravel(part) for part in timestep.observation.values()]).astype(np.float32)


@EVERY_TASK
def test_steps_have_the_bits_of_dm_control(task):
    env, plain = load_task(task), load_task(task)
    inner = plain.environment
    raw = inner.action_spec()
    first = env.reset(5)
    plain.reset(5)
    assert first.dtype == np.float32
    for action in actions_of(env, 40):
        step = env.step(action)
        timestep = inner.step(raw.minimum + (raw.maximum - raw.minimum) / 2 * (action.astype(np.float64) + 1))
        assert step.obs.tobytes() == flat(timestep).tobytes()
        assert step.reward == timestep.reward
        assert type(step.reward) is float
        assert (step.terminated, step.truncated) == (False, timestep.last())


@EVERY_DOMAIN
def test_the_first_observation_is_that_of_dm_control(domain):
    for seed in range(3):
        env = load_task(domain.primal_task)
        first = env.reset(seed)
        env._task.random.seed(seed)
        assert flat(env.environment.reset()).tobytes() == first.tobytes()


@EVERY_TASK
def test_sizes(task):
    env, domain = load_task(task), domain_of(task)
    assert env.spec == EnvSpec((domain.obs_size,), domain.action_size, domain.horizon)
    obs = env.reset(0)
    assert obs.shape == env.spec.obs_shape
    assert env.environment.action_spec().shape == (domain.action_size,)


@EVERY_DOMAIN
def test_an_episode_is_truncated_at_the_horizon_and_then_needs_a_reset(domain):
    env = load_task(domain.primal_task)
    still = np.zeros(domain.action_size, np.float32)
    with pytest.raises(RuntimeError, match="reset"):
        env.step(still)
    env.reset(0)
    ends = [(step.terminated, step.truncated) for step in (env.step(still) for _ in range(domain.horizon))]
    assert ends == [(False, False)] * (domain.horizon - 1) + [(False, True)]
    # dm_control's clock agrees that the time is up.
    assert env.environment.physics.time() == pytest.approx(domain.horizon * env.environment.control_timestep())
    with pytest.raises(RuntimeError, match="reset"):
        env.step(still)
    env.reset(1)
    assert not env.step(still).truncated


@EVERY_DOMAIN
def test_actions_reach_the_bounds_of_every_actuator(domain):
    env = load_task(domain.primal_task)
    spec = env.environment.action_spec()
    env.reset(0)
    for value, bound in ((-1, spec.minimum), (1, spec.maximum), (np.float32(1 + 1e-6), spec.maximum)):
        env.step(np.full(domain.action_size, value, np.float32))
        np.testing.assert_array_equal(env.environment.physics.data.ctrl, bound)
    env.step(np.zeros(domain.action_size, np.float32))
    middle = (spec.minimum + spec.maximum) / 2
    np.testing.assert_allclose(env.environment.physics.data.ctrl, middle, atol=1e-12)


def test_the_quadruped_has_uneven_bounds():
    spec = load_task("quadruped_walk").environment.action_spec()
    np.testing.assert_allclose(spec.minimum, [-1, -1, -0.8] * 4)
    np.testing.assert_allclose(spec.maximum, [1, 1.1, 0.8] * 4)


@EVERY_DOMAIN
def test_an_episode_is_a_function_of_its_seed_and_its_actions(domain):
    env = load_task(domain.primal_task)
    actions, others = actions_of(env, 30), actions_of(env, 17, seed=1)
    first = episode(env, 11, actions)
    assert episode(env, 12, others) != first[:18]
    assert episode(env, 11, actions) == first
    env.reset(13)  # an episode that was given up at its start
    assert episode(env, 11, actions) == first
    fresh = load_task(domain.primal_task)
    assert episode(fresh, 11, actions) == first
    assert episode(load_task(domain.primal_task), 12, actions)[0] != first[0]


def test_observations_are_the_callers_to_keep():
    env = load_task("walker_walk")
    first = env.reset(0)
    kept = first.copy()
    step = env.step(np.ones(6, np.float32))
    step.obs[:] = 0
    np.testing.assert_array_equal(first, kept)
    first[:] = 7
    assert env.step(np.ones(6, np.float32)).obs.any()


def test_diverged_physics_terminate_the_episode_in_its_last_valid_state(caplog):
    env = load_task("walker_walk")
    env.reset(0)
    good = env.step(np.zeros(6, np.float32))
    env.environment.physics.data.qpos[1] = np.nan
    end = env.step(np.zeros(6, np.float32))
    assert (end.reward, end.terminated, end.truncated) == (0.0, True, False)
    np.testing.assert_array_equal(end.obs, good.obs)
    assert "diverged" in caplog.text
    with pytest.raises(RuntimeError, match="reset"):
        env.step(np.zeros(6, np.float32))
    assert np.isfinite(env.reset(0)).all()


def test_an_action_that_is_not_finite_raises_instead_of_terminating():
    env = load_task("walker_walk")
    env.reset(0)
    with pytest.raises(ValueError, match="not finite"):
        env.step(np.full(6, np.nan, np.float32))


@EVERY_DOMAIN
def test_closing(domain):
    env = load_task(domain.primal_task)
    env.reset(0)
    env.close()
    with pytest.raises(RuntimeError, match="reset"):
        env.step(np.zeros(domain.action_size, np.float32))


def check_returns(task, episodes):
    env = load_task(task)
    for (mean, std), scale in zip(RETURNS[task], (1, 0), strict=True):
        returns = []
        for seed in range(episodes):
            env.reset(seed)
            returns.append(sum(env.step(scale * action).reward for action in actions_of(env, env.spec.horizon, seed)))
        # Four deviations of the difference of two means, and the half digit that the table leaves out.
        spread = 4 * std * np.sqrt(1 / episodes + 1 / 20) + 0.5
        assert np.mean(returns) == pytest.approx(mean, abs=spread), (scale, returns)


@EVERY_TASK
def test_returns_of_trivial_policies(task):
    check_returns(task, episodes=2)


@pytest.mark.slow
@EVERY_TASK
def test_returns_of_trivial_policies_over_many_episodes(task):
    check_returns(task, episodes=20)
