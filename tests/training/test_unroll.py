"""Unrolls of episodes under way: they carry over, whatever the unroll length, and begin in a few first states."""

from dataclasses import dataclass, replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from counting import contents, maze_config, saved_steps, train_runs
from probes import Actor, CountingEnv, quick

import skillscape
from skillscape.backbones.ppo import PPO
from skillscape.config import RunConfig
from skillscape.errors import Interrupted, UserError
from skillscape.objectives.diayn import DIAYN
from skillscape.training import unroll
from skillscape.training.jit_collector import iteration
from skillscape.training.run import Run
from skillscape.training.unroll import begin_episodes, collect
from skillscape.types import EnvSpec

pytestmark = pytest.mark.usefixtures("_counting", "_quick_compilation")
EPISODES, HORIZON, STEPS = 12, 7, 24
MANY_SKILLS = 10_000


@dataclass(frozen=True)
class Unrolled(Actor):
    """The actor in unrolls of ``steps`` steps."""

    steps: int = 1

    @property
    def unroll_steps(self):
        return self.steps

    def steps_per_iteration(self, env_spec):
        return EPISODES * self.steps


@cache
def unrolled(steps, short=99, long=99, resample_every=None, skill=None):
    """The rollouts of ``STEPS`` steps of the counting environment in unrolls of ``steps``, put together again."""
    objective = DIAYN(number_of_skills=MANY_SKILLS, resample_every=resample_every)
    env, backbone = CountingEnv(HORIZON, short, long), Unrolled(steps)
    config = RunConfig("pretrain", "maze/square_a", None, objective=objective, backbone=backbone, steps=STEPS)
    chosen = None if skill is None else jax.nn.one_hot(jnp.full(EPISODES, skill), MANY_SKILLS)

    def run(key):
        # The same episodes at first, whatever the unroll length.
        episodes, rollouts = begin_episodes(config, env, jax.random.key(8)), []
        for each in jax.random.split(key, STEPS // steps):
            episodes, rollout = collect(
                env, backbone, objective.skills, resample_every, jnp.zeros(()), episodes, steps, each, chosen
            )
            rollouts.append(rollout)
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), *rollouts)

    return jax.tree.map(np.asarray, quick(run)(jax.random.key(0)))


def new_skill(rollout):
    """Whether each step after the first has another skill than the one before."""
    return np.diff(rollout.skill.argmax(axis=-1), axis=0) != 0


def ages(rollout):
    """Steps since the episode began, by its ends; negative before the first of them."""
    age = np.full(rollout.last.shape, -STEPS)
    for time in range(1, STEPS):
        age[time] = np.where(rollout.last[time - 1] > 0, 0, age[time - 1] + 1)
    return age


@pytest.mark.parametrize("steps", [1, 3, 8])
@pytest.mark.parametrize("length", [99, 4])
def test_when_episodes_end_does_not_depend_on_the_unroll_length(steps, length):
    ours, whole = unrolled(steps, length, length), unrolled(STEPS, length, length)
    np.testing.assert_array_equal(ours.last, whole.last)
    np.testing.assert_array_equal(ours.discount, whole.discount)
    np.testing.assert_array_equal(ours.obs[..., 1], whole.obs[..., 1])
    np.testing.assert_array_equal(new_skill(ours), new_skill(whole))


@pytest.mark.parametrize("steps", [1, 3, 8])
def test_episodes_go_on_where_the_last_unroll_left_them(steps):
    rollout = unrolled(steps)
    went_on = (rollout.next_obs[:-1] == rollout.obs[1:]).all(axis=-1)
    np.testing.assert_array_equal(went_on, rollout.last[:-1] == 0)
    # The policy's memory too: its action is the number of steps that it remembers.
    np.testing.assert_allclose(rollout.action[..., 0] * 100, rollout.obs[..., 1], atol=1e-4)


def test_the_time_limit_counts_over_unrolls_and_is_no_end_of_the_task():
    rollout = unrolled(3)
    begun = ages(rollout) >= 0
    np.testing.assert_array_equal(rollout.last[begun] == 1, ages(rollout)[begun] == HORIZON - 1)
    assert rollout.last[begun].sum() > EPISODES
    assert (rollout.discount == 1).all()


def test_a_task_that_ends_starts_the_clock_anew():
    rollout = unrolled(3, 4, 99)
    ends = (rollout.obs[..., 0] > 0) & (rollout.obs[..., 1] == 3)
    np.testing.assert_array_equal(rollout.discount, 1.0 - ends)
    begun = ages(rollout) >= 0
    np.testing.assert_array_equal((rollout.last == 1)[begun], (ends | (ages(rollout) == HORIZON - 1))[begun])
    assert ends.any()


def test_episodes_end_at_different_times():
    assert ((unrolled(3).last[:HORIZON] > 0).any(axis=1)).sum() > HORIZON / 2


def test_a_skill_lasts_until_its_episode_ends():
    rollout = unrolled(3)
    np.testing.assert_array_equal(new_skill(rollout), rollout.last[:-1] == 1)


def test_or_until_it_is_drawn_again():
    rollout = unrolled(3, resample_every=4)
    known = (ages(rollout) >= 0)[1:]
    np.testing.assert_array_equal(new_skill(rollout)[known], np.isin(ages(rollout)[1:], (0, 4))[known])


def test_a_chosen_skill_acts_from_the_first_step_on():
    assert (unrolled(3, skill=5).skill.argmax(axis=-1) == 5).all()


# First states


def test_new_episodes_begin_in_a_few_first_states(monkeypatch):
    monkeypatch.setattr(unroll, "FIRST_STATES", 2)
    rollout = unrolled.__wrapped__(STEPS)
    starts = rollout.obs[1:, :, 0][rollout.last[:-1] == 1]
    assert len(starts) > EPISODES
    assert len(np.unique(starts)) == 2


def test_they_are_new_in_every_unroll():
    rollout = unrolled(8)
    starts = [
        np.unique(rollout.obs[1:, :, 0][first : first + 7][rollout.last[first : first + 7] == 1]) for first in (0, 8)
    ]
    assert not np.isin(*starts).any()


def test_no_step_computes_a_reset():
    calls = []

    class Watched(CountingEnv):
        def reset(self, key):
            calls.append(key)
            return super().reset(key)

    env, skills = Watched(HORIZON, 99, 99), DIAYN(number_of_skills=3).skills
    config = RunConfig("pretrain", "maze/square_a", None, objective=DIAYN(3), backbone=Unrolled(5), steps=STEPS)
    episodes = begin_episodes(config, env, jax.random.key(0))
    calls.clear()
    program = jax.make_jaxpr(
        lambda episodes, key: collect(env, Actor(), skills, None, jnp.zeros(()), episodes, 5, key)
    )(episodes, jax.random.key(0))
    assert len(calls) == 1
    (scan,) = [equation for equation in program.eqns if equation.primitive.name == "scan"]
    assert "uniform" in str(program)
    assert "uniform" not in str(scan.params["jaxpr"])


# In a run

SMALL = PPO(episodes=8, unroll=15, hidden=(4,), epochs=1, minibatches=1, model_epochs=1)
"""Iterations of 120 steps in mazes of 50."""


def unrolled_config(**changes):
    return maze_config(
        **{"backbone": SMALL, "steps": 800, "evaluation": replace(maze_config().evaluation, every=240)} | changes
    )


def nothing(*_):
    return {"return": 0.0}


@pytest.mark.parametrize("stop_at", [120, 480])
def test_a_run_that_is_stopped_goes_on_to_the_same_numbers(tmp_path, stopping, stop_at):
    whole, run = (Run.create(tmp_path / name, unrolled_config()) for name in ("whole", "stopped"))
    train_runs([whole], nothing)
    with pytest.raises(Interrupted):
        train_runs([run], nothing, [stopping(stop_at)])
    assert saved_steps(run.folder)[-1] == stop_at
    state, _ = run.newest()
    assert state.episodes.age.shape == (8,)
    train_runs([run], nothing)
    assert run.end == 720
    assert contents(run.folder) == contents(whole.folder)


def test_a_skill_is_judged_over_as_many_steps_as_an_episode_has(tmp_path):
    config = unrolled_config(phase="finetune", task="reach", skill="grid")
    assert config.trial_steps(EnvSpec((2,), 2, 50)) == 4 * 120
    run = Run.create(tmp_path / "run", config)
    train_runs([run], nothing)
    assert run.metrics()["step"] == [600, 720]
    assert run.kept_skill().sum() == 1


def test_the_pure_function_learns_what_the_trainer_does(tmp_path):
    config = unrolled_config(seed=3, steps=360)
    init, train = skillscape.make_train(config)
    state, metrics = jax.jit(train)(init(jax.random.key(3)))
    run = Run.create(tmp_path / "run", config)
    train_runs([run], nothing)
    for ours, theirs in zip(jax.tree.leaves(state), jax.tree.leaves(run.newest()[0]), strict=True):
        if not jnp.issubdtype(ours.dtype, jax.dtypes.prng_key):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    assert metrics["reward"].shape == (3,)


def test_an_iteration_keeps_the_shapes_of_its_state(tmp_path):
    run = Run.create(tmp_path / "run", unrolled_config())
    env = run.config.make_env()
    state = run.like
    assert state.episodes.state.shape == (8, 2)
    after, _ = jax.eval_shape(iteration(run.config, env), state)
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), after) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), state
    )


def test_too_few_steps_for_an_iteration_are_refused():
    config = unrolled_config(steps=100)
    with pytest.raises(UserError, match=r"one iteration takes 120 \(8 episodes of 15\); set --steps to at least 120"):
        config.check_env(EnvSpec((2,), 2, 50))
    many = unrolled_config(backbone=replace(SMALL, minibatches=121))
    with pytest.raises(UserError, match=r"set --backbone\.minibatches to at most 120"):
        many.check_env(EnvSpec((2,), 2, 50))
