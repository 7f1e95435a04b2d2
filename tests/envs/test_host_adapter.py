"""Compiled environments stepped on the host, against the same ones stepped by hand."""

from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.envs.base import JaxEnv, Timestep
from skillscape.envs.host_adapter import HostJaxEnv, compile_env
from skillscape.envs.mazes.maze import make_maze
from skillscape.envs.registry import host_env
from skillscape.types import EnvSpec

NOTHING = np.zeros(1, np.float32)


@final
@dataclass(frozen=True)
class Counter(JaxEnv):
    """Counts its steps in an image, samples its rewards, and terminates after ``end`` steps."""

    end: int = 100

    @property
    def spec(self):
        return EnvSpec((2, 2, 1), 1, 5)

    def reset(self, key):
        return {"count": jnp.int32(0), "reward": jax.random.uniform(key)}

    def reset_for_evaluation(self, key):
        return {"count": jnp.int32(7), "reward": jax.random.uniform(key)}

    def observe(self, state):
        return jnp.full((2, 2, 1), state["count"], jnp.uint8)

    def step(self, state, action, key):
        state = {"count": state["count"] + 1, "reward": jax.random.uniform(key)}
        ended = (state["count"] == self.end).astype(jnp.float32)
        return state, Timestep(self.observe(state), state["reward"], ended)


def test_an_episode_is_the_same_as_by_hand():
    env, key = HostJaxEnv(Counter()), jax.random.key(4)
    assert env.spec == EnvSpec((2, 2, 1), 1, 5)
    obs = env.reset(4)
    assert (obs.dtype, obs.shape, obs.max()) == (np.uint8, (2, 2, 1), 0)
    assert env.state["reward"] == jax.random.uniform(key)
    for count in range(1, 6):
        step = env.step(NOTHING)
        assert (step.obs == count).all()
        assert step.reward == float(jax.random.uniform(jax.random.fold_in(key, count)))
        assert (step.terminated, step.truncated) == (False, count == 5)
        assert [type(value) for value in step[1:]] == [float, bool, bool]


@pytest.mark.parametrize("end", [3, 5])
def test_termination_at_the_horizon_is_not_truncation(end):
    env = HostJaxEnv(Counter(end))
    for _ in range(2):
        env.reset(0)
        ends = [env.step(NOTHING)[2:] for _ in range(end)]
        assert ends == [(False, False)] * (end - 1) + [(True, False)]
        with pytest.raises(RuntimeError, match="reset"):
            env.step(NOTHING)


def test_it_has_to_be_reset_first_and_after_it_was_closed():
    env = HostJaxEnv(Counter())
    with pytest.raises(RuntimeError, match="reset"):
        env.step(NOTHING)
    env.reset(0)
    env.close()
    with pytest.raises(RuntimeError, match="reset"):
        env.step(NOTHING)


def test_an_episode_can_start_in_a_given_state():
    env = HostJaxEnv(Counter())
    assert (env.reset_to({"count": jnp.int32(3), "reward": jnp.float32(0)}, seed=1) == 3).all()
    assert env.step(NOTHING).reward == float(jax.random.uniform(jax.random.fold_in(jax.random.key(1), 1)))


def test_equal_environments_share_their_compiled_functions():
    assert compile_env(Counter()) is compile_env(Counter())
    assert compile_env(Counter()) is not compile_env(Counter(3))
    step = compile_env(make_maze("square_b")).step
    for _ in range(2):
        env = HostJaxEnv(make_maze("square_b"))
        env.reset(0)
        for _ in range(3):
            env.step(np.zeros(2, np.float32))
    assert step._cache_size() == 1


def test_observations_are_the_callers_to_keep():
    env = HostJaxEnv(make_maze("square_a"))
    first = env.reset(0)
    kept = first.copy()
    second = env.step(np.array([0, -1], np.float32)).obs
    first += 5
    second += 5
    np.testing.assert_array_equal(env.reset(0), kept)


def test_a_maze_rewards_its_goal_on_the_host():
    env = host_env("maze/square_a", "reach:4,0")
    env.reset(0)
    rewards = [env.step(np.array([0, -1], np.float32)).reward for _ in range(10)]
    assert rewards == sorted(rewards)
    assert {*rewards} == {0.0, 1.0}
