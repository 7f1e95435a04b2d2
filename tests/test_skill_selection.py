"""Which skill is fine-tuned: what can be asked for, and the choice that rewards point to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.dists import TruncatedNormal
from skillscape.errors import UserError
from skillscape.replay import Trajectory
from skillscape.skill_selection import STRATEGY_KINDS, WINDOW, Strategy, best_tried, candidates, parse_strategy, regress
from skillscape.skills import Box, Discrete, NoSkill, SignedBox, Sphere

SKILLS = Discrete(4)

# Asking


@pytest.mark.parametrize("kind", ["prior", "random", "regress", "controller"])
def test_a_strategy_is_asked_for_by_its_name(kind):
    assert parse_strategy(kind, SKILLS) == Strategy(kind)


@pytest.mark.parametrize("index", [0, 3])
def test_a_number_is_the_skill_with_this_index(index):
    assert parse_strategy(str(index), SKILLS) == Strategy("fixed", index)


@pytest.mark.parametrize("text", ["prior", "7", "regress", "whatever"])
def test_without_skills_there_is_nothing_to_choose(text):
    assert parse_strategy(text, NoSkill()) == Strategy("prior")


@pytest.mark.parametrize(
    ("text", "skills", "answer"),
    [
        ("4", SKILLS, "no skill 4; choose one from 0 to 3"),
        ("0", Box(4), "are continuous"),
        ("regress", Sphere(4), "needs discrete skills"),
        ("controller", Box(4), "needs discrete skills"),
        ("-1", SKILLS, "cannot be '-1'"),
        ("1.0", SKILLS, "cannot be '1.0'"),
        ("²", SKILLS, "cannot be '²'"),
        ("", SKILLS, "cannot be ''"),
        ("Random", SKILLS, "choose prior, random, constant, controller, regress, grid, infer"),
    ],
)
def test_what_the_skills_cannot_do_is_refused(text, skills, answer):
    with pytest.raises(UserError, match=answer):
        parse_strategy(text, skills)


# Skills that stay


def test_a_fixed_skill_is_the_one_asked_for():
    np.testing.assert_array_equal(Strategy("fixed", 2).initial(SKILLS, jax.random.key(0)), [0, 0, 1, 0])


def test_a_random_skill_is_one_draw_that_the_key_decides():
    draws = [Strategy("random").initial(SKILLS, jax.random.key(seed)) for seed in (*range(20), 0)]
    np.testing.assert_array_equal(draws[0], draws[-1])
    assert {tuple(draw) for draw in draws} == {tuple(row) for row in np.eye(4)}


def test_a_random_skill_of_a_continuum_comes_from_its_prior():
    assert np.linalg.norm(Strategy("random").initial(Sphere(5), jax.random.key(0))) == pytest.approx(1)


def test_a_controller_is_shown_the_mean_of_all_skills():
    np.testing.assert_allclose(Strategy("controller").initial(SKILLS, jax.random.key(0)), np.full(4, 0.25))


@pytest.mark.parametrize("kind", ["prior", "regress"])
def test_where_skills_change_none_lasts(kind):
    assert Strategy(kind).initial(SKILLS, jax.random.key(0)) is None


# The skill that explains the rewards


class Circling:
    """A policy whose skills turn apart: skill k goes a quarter of a circle further than skill k − 1, from the state."""

    @staticmethod
    def mean(obs, skill):
        angle = obs[:, 0] + skill @ (jnp.arange(4) * jnp.pi / 2)
        return 0.6 * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)

    def log_prob(self, agent, obs, skill, action):
        return TruncatedNormal(self.mean(obs, skill), 0.2).log_prob(action)


def means(obs, skill):
    return np.asarray(Circling.mean(obs, np.broadcast_to(np.eye(4, dtype=np.float32)[skill], (len(obs), 4))))


def played(planted, seed=0, episodes=6, length=2 * WINDOW):
    """Random episodes in which an action earns the more, the nearer it is to what the planted skill would do."""
    generator = np.random.default_rng(seed)
    trajectories = []
    for _ in range(episodes):
        obs = generator.normal(size=(length, 3)).astype(np.float32)
        action = generator.uniform(-1, 1, (length, 2)).astype(np.float32)
        reward = -((action - means(obs, planted)) ** 2).sum(axis=1)
        trajectories.append(Trajectory(obs, action, reward.astype(np.float32), np.zeros((len(obs), 4), np.float32)))
    return trajectories


def chosen(trajectories):
    return int(np.argmax(regress(Circling(), None, SKILLS, trajectories)))


@pytest.mark.parametrize("planted", range(4))
def test_the_skill_whose_actions_earn_most_is_chosen(planted):
    assert chosen(played(planted)) == planted


@pytest.mark.parametrize("planted", range(4))
def test_a_skill_of_small_actions_is_found_among_larger_ones(planted):
    sizes = np.float32([0.2, 0.9, 0.4, 0.7])

    class Uneven(Circling):
        def log_prob(self, agent, obs, skill, action):
            return TruncatedNormal((skill @ sizes)[:, None] * self.mean(obs, skill), 0.2).log_prob(action)

    trajectories = [
        one._replace(reward=-((one.action - sizes[planted] * means(one.obs, planted)) ** 2).sum(axis=1))
        for one in played(planted)
    ]
    assert int(np.argmax(regress(Uneven(), None, SKILLS, trajectories))) == planted


def test_an_action_is_paired_with_the_state_it_was_taken_in():
    choices = []
    for planted in range(4):
        shifted = [one._replace(action=np.roll(one.action, 1, axis=0)) for one in played(planted)]
        choices.append(chosen(shifted))
    assert choices != list(range(4))


def test_a_skill_that_is_merely_likely_is_not_chosen():
    # Every action is close to what skill 0 does, so that it is by far the likeliest; the rewards speak for another one.
    generator = np.random.default_rng(0)
    trajectories = []
    for _ in range(12):
        obs = generator.normal(size=(2 * WINDOW, 3)).astype(np.float32)
        action = np.clip(means(obs, 0) + generator.normal(0, 0.1, (2 * WINDOW, 2)), -1, 1).astype(np.float32)
        reward = 10 - ((action - means(obs, 2)) ** 2).sum(axis=1)
        trajectories.append(Trajectory(obs, action, reward.astype(np.float32), np.zeros((len(obs), 4), np.float32)))
    likelihood = [sum(-((one.action - means(one.obs, skill)) ** 2).sum() for one in trajectories) for skill in range(4)]
    assert np.argmax(likelihood) == 0
    assert chosen(trajectories) == 2


def test_the_level_of_the_rewards_does_not_matter():
    for shift in (-100.0, 100.0):
        assert chosen([one._replace(reward=one.reward + np.float32(shift)) for one in played(1)]) == 1


def test_windows_stay_inside_an_episode_and_leave_its_short_rest_out():
    trajectories = played(3, length=2 * WINDOW)
    # What follows the last whole window speaks for another skill, and loudly.
    generator = np.random.default_rng(5)
    obs = generator.normal(size=(WINDOW - 1, 3)).astype(np.float32)
    rest = Trajectory(obs, means(obs, 0), np.full(WINDOW - 1, 1e6, np.float32), np.zeros((len(obs), 4), np.float32))
    joined = [Trajectory(*(np.concatenate(pair) for pair in zip(one, rest, strict=True))) for one in trajectories]
    assert chosen([*joined, rest]) == 3


@pytest.mark.parametrize("planted", range(4))
@pytest.mark.parametrize("length", [WINDOW - 1, 7])
def test_where_all_episodes_are_short_a_window_is_as_long_as_the_longest(planted, length):
    trajectories = played(planted, episodes=60, length=length)
    # Those that are shorter still are left out, and speak for another skill, loudly.
    rest = [one._replace(reward=one.reward + np.float32(1e6)) for one in played((planted + 1) % 4, 9, 3, length - 1)]
    assert chosen([*rest, *trajectories]) == planted


@pytest.mark.parametrize("lengths", [(), (0,), (0, 0)])
def test_without_a_step_nothing_can_be_chosen(lengths):
    trajectories = [one for length in lengths for one in played(0, episodes=1, length=length)]
    with pytest.raises(UserError, match="regress needs warm-up data"):
        regress(Circling(), None, SKILLS, trajectories)


# A strategy as one object


def test_a_strategy_judges_by_regression():
    found = Strategy("regress").select(Circling(), None, SKILLS, played(2))
    np.testing.assert_array_equal(found, np.eye(4)[2])


def test_a_strategy_judges_by_what_was_tried():
    trajectories = [
        one._replace(skill=np.tile(np.eye(4, dtype=np.float32)[index], (len(one.reward), 1)), reward=one.reward + index)
        for index, one in enumerate(played(0, episodes=4))
    ]
    np.testing.assert_array_equal(Strategy("grid").select(Circling(), None, SKILLS, trajectories), np.eye(4)[3])
    np.testing.assert_array_equal(Strategy("grid").trials(SKILLS), candidates(SKILLS))
    assert Strategy("regress").trials(SKILLS) is None


def test_a_strategy_infers_from_what_objectives_see():
    class Doubling:
        def objective_obs(self, agent, obs, action):
            return agent * obs + action[:, :1]

    trajectories = played(1, episodes=3, length=4)
    empty = Trajectory(*(field[:0] for field in trajectories[0]))
    told = []

    def infer(obs, reward):
        told.append((obs, reward))
        return jnp.full(4, 0.5)

    found = Strategy("infer").select(Doubling(), 2.0, SKILLS, [*trajectories, empty], infer)
    np.testing.assert_array_equal(found, np.full(4, 0.5))
    ((obs, reward),) = told
    np.testing.assert_allclose(
        obs, np.concatenate([2 * one.obs + one.action[:, :1] for one in trajectories]), rtol=1e-6
    )
    np.testing.assert_array_equal(reward, np.concatenate([one.reward for one in trajectories]))


@pytest.mark.parametrize("kind", ["infer", "prior", "random", "controller"])
def test_a_strategy_that_cannot_judge_says_so(kind):
    with pytest.raises(UserError, match="does not select a skill from warm-up data"):
        Strategy(kind).select(Circling(), None, SKILLS, played(0))


def test_a_strategy_says_what_it_needs():
    def asking(trait):
        return {kind for kind in STRATEGY_KINDS if getattr(Strategy(kind), trait)}

    assert asking("needs_warmup_data") == {"regress", "grid", "infer"}
    assert asking("infers") == {"infer"}
    assert asking("uses_controller") == {"controller"}


# The skill that earned most when tried


@pytest.mark.parametrize("best", range(4))
def test_the_skill_with_the_highest_reward_per_step_is_chosen(best):
    generator = np.random.default_rng(best)
    trajectories = []
    for steps, skill in [(30, best), (300, 0), (40, 1), (50, 2), (20, 3), (10, best)]:
        reward = generator.normal(1.0 if skill == best else 0.5, 0.1, steps).astype(np.float32)
        rows = np.tile(np.eye(4, dtype=np.float32)[skill], (steps, 1))
        trajectories.append(
            Trajectory(np.zeros((steps, 3), np.float32), np.zeros((steps, 2), np.float32), reward, rows)
        )
    np.testing.assert_array_equal(best_tried(trajectories), np.eye(4)[best])


def test_the_grid_of_a_box_is_eleven_constant_vectors():
    grid = candidates(Box(64))
    assert grid.shape == (11, 64)
    np.testing.assert_allclose(grid[:, 0], np.arange(11) / 10, atol=1e-6)
    assert (grid == grid[:, :1]).all()


def test_the_grid_of_a_signed_box_goes_through_both_signs():
    np.testing.assert_allclose(candidates(SignedBox(64)), np.tile(np.arange(-10, 11)[:, None] / 10, 64), atol=1e-6)


def test_the_grid_of_listed_skills_is_all_of_them():
    np.testing.assert_array_equal(candidates(SKILLS), np.eye(4))


@pytest.mark.parametrize("space", [Box(5), SignedBox(5)])
def test_a_constant_skill_is_the_middle_of_the_box(space):
    assert parse_strategy("constant", space) == Strategy("constant")
    np.testing.assert_array_equal(Strategy("constant").initial(space, jax.random.key(0)), np.full(5, 0.5))


@pytest.mark.parametrize(
    ("text", "skills", "said"),
    [
        ("grid", Sphere(3), "discrete skills or skills from a box"),
        ("constant", SKILLS, "from a box"),
        ("constant", Sphere(3), "from a box"),
        ("regress", Box(3), "needs discrete skills"),
        ("controller", Box(3), "needs discrete skills"),
        ("fixed", SKILLS, "cannot be 'fixed'"),
    ],
)
def test_a_strategy_that_the_skills_do_not_allow_is_refused(text, skills, said):
    with pytest.raises(UserError, match=said):
        parse_strategy(text, skills)
