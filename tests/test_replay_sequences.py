"""Sequences from the replay buffer against episodes kept as plain lists, and images in its files."""

import json
from typing import NamedTuple

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from skillscape.errors import UserError
from skillscape.replay import Replay
from skillscape.types import EnvSpec

HORIZON = 9
SPEC = EnvSpec(obs_shape=(4, 5, 3), action_dim=2, horizon=HORIZON)


class Row(NamedTuple):
    """A state as the test remembers it, with the step that led to it; ``number`` is what its image shows."""

    number: int
    action: tuple
    reward: float
    discount: float
    skill: tuple
    opens: bool


def make(capacity=1000, slack=0, folder=None, seed=0, spec=SPEC):
    return Replay(spec, 2, capacity=capacity, nstep=1, discount=0.9, seed=seed, slack=slack, folder=folder)


def image(number):
    """An image that says a number below 65,536 in its first two entries, and nothing else that repeats it."""
    picture = np.full(SPEC.obs_shape, number * 7 % 256, np.uint8)
    picture[0, 0, :2] = divmod(number, 256)
    return picture


def number_of(pictures):
    return pictures[..., 0, 0, 0].astype(int) * 256 + pictures[..., 0, 0, 1]


class EpisodeRunner:
    """Writes episodes in which every value is a function of the number of its state, and no two states share one."""

    def __init__(self, replay, number=0):
        self.replay, self.number = replay, number

    def begin(self):
        self.number += 1
        self.replay.begin(image(self.number))
        self.rows = [Row(self.number, (0, 0), 0, 1, self.skill(), True)]

    def skill(self):
        """That of the next action; it changes in the middle of episodes."""
        return (float(self.number // 3 % 2), float(self.number))

    def step(self, *, ends=False):
        action, skill, reward = (self.number / 3, -self.number), self.skill(), self.number**0.5
        self.number += 1
        arrays = np.array(action, np.float32), np.array(skill, np.float32)
        self.replay.add(*arrays, reward, float(not ends), image(self.number))
        self.rows.append(Row(self.number, action, reward, float(not ends), skill, False))

    def episode(self, steps, *, ended=False):
        self.begin()
        for index in range(steps):
            self.step(ends=ended and index == steps - 1)
        self.replay.finish()
        return self.rows


def episode_index(replay):
    return replay.snapshot().episode_index


def stretches(episodes, length):
    """Every stretch that may be drawn, by the number of its first state."""
    return {
        rows[start].number: rows[start : start + length] for rows in episodes for start in range(len(rows) - length + 1)
    }


def assert_draws(replay, episodes, length, count=4000):
    """All the stretches of these episodes are drawn and no other, each with the right values in every row."""
    expected = stretches(episodes, length)
    batch = replay.sample_sequences(count, length, episode_index(replay))
    assert batch.obs.shape == (count, length, *SPEC.obs_shape)
    assert {name: getattr(batch, name).dtype for name in batch._fields} == {
        "obs": np.uint8,
        **dict.fromkeys(("action", "reward", "discount", "skill", "first"), np.float32),
    }
    numbers = number_of(batch.obs)
    assert set(numbers[:, 0].tolist()) == expected.keys()
    found = {int(begin): index for index, begin in enumerate(numbers[:, 0])}
    for begin, rows in expected.items():
        index = found[begin]
        for time, row in enumerate(rows):
            np.testing.assert_array_equal(batch.obs[index, time], image(row.number))
            np.testing.assert_allclose(batch.action[index, time], row.action, rtol=1e-6)
            np.testing.assert_allclose(batch.reward[index, time], row.reward, rtol=1e-6)
            assert batch.discount[index, time] == row.discount
            np.testing.assert_array_equal(batch.skill[index, time], row.skill)
            assert batch.first[index, time] == float(row.opens or time == 0)


# What is drawn


@pytest.mark.parametrize("length", [1, 2, 5, HORIZON + 1])
def test_a_row_is_a_state_with_the_step_that_led_to_it(length):
    replay = make()
    player = EpisodeRunner(replay)
    episodes = [player.episode(HORIZON), player.episode(4, ended=True), player.episode(HORIZON, ended=True)]
    assert_draws(replay, [rows for rows in episodes if len(rows) >= length], length)


def test_a_known_stretch_by_hand():
    replay = make()
    replay.begin(image(10))
    for step in range(3):
        action, skill = np.full(2, step + 1, np.float32), np.full(2, 10 * step, np.float32)
        replay.add(action, skill, 0.5 * step + 1, float(step < 2), image(11 + step))
    replay.finish()
    (obs,), (action,), (reward,), (discount,), (skill,), (first,) = replay.sample_sequences(1, 4, episode_index(replay))
    assert number_of(obs).tolist() == [10, 11, 12, 13]
    assert action[:, 0].tolist() == [0, 1, 2, 3]
    assert reward.tolist() == [0, 1, 1.5, 2]
    assert discount.tolist() == [1, 1, 1, 0]
    assert skill[:, 0].tolist() == [0, 0, 10, 20]
    assert first.tolist() == [1, 0, 0, 0]


def test_an_episode_under_way_is_not_drawn_from():
    replay = make()
    player = EpisodeRunner(replay)
    complete = player.episode(5)
    player.begin()
    for _ in range(HORIZON - 1):
        player.step()
    assert_draws(replay, [complete], 3)


def test_episodes_are_drawn_uniformly_and_starts_within_them():
    replay = make()
    player = EpisodeRunner(replay)
    episodes = [player.episode(steps) for steps in (9, 3, 5, 1)]
    length = 4
    batch = replay.sample_sequences(24_000, length, episode_index(replay))
    begins = number_of(batch.obs)[:, 0]
    shares = {}
    for rows in episodes[:3]:
        places = len(rows) - length + 1
        shares |= {rows[place].number: 24_000 / 3 / places for place in range(places)}
    numbers, counts = np.unique(begins, return_counts=True)
    assert numbers.tolist() == sorted(shares)
    assert scipy.stats.chisquare(counts, [shares[number] for number in numbers]).pvalue > 1e-3


def test_episodes_that_are_all_too_short_are_told():
    replay = make()
    player = EpisodeRunner(replay)
    with pytest.raises(UserError, match="Sequences of 4 states are requested, but the longest episode so far has 1"):
        replay.sample_sequences(2, 4, episode_index(replay))
    player.episode(1)
    player.episode(2, ended=True)
    with pytest.raises(UserError, match="the longest episode so far has 3: shorten the sequences"):
        replay.sample_sequences(2, 4, episode_index(replay))
    assert_draws(replay, [player.episode(3)], 4, count=3)


def test_how_many_episodes_are_long_enough_can_be_asked_beforehand():
    replay = make()
    player = EpisodeRunner(replay)
    assert len(episode_index(replay).long_enough(1)) == 0
    for steps in (2, 7, 4):
        player.episode(steps)
    assert [len(episode_index(replay).long_enough(length)) for length in (1, 4, 5, 6, 8, 9)] == [3, 2, 2, 1, 1, 0]


def test_whether_an_episode_has_been_given_up_is_known():
    replay = make(capacity=10)
    player = EpisodeRunner(replay)
    assert episode_index(replay).is_all
    found = []
    for _ in range(4):
        player.episode(3)
        found.append(episode_index(replay).is_all)
    assert found == [True, True, False, False]


def test_skills_of_no_width_and_states_that_are_vectors():
    replay = Replay(EnvSpec((2,), 1, 5), 0, capacity=20, nstep=1, discount=0.9, seed=0)
    replay.begin(np.zeros(2, np.float32))
    for place in range(4):
        replay.add(np.ones(1, np.float32), np.zeros(0, np.float32), 1.0, 1.0, np.full(2, place + 0.5, np.float32))
    replay.finish()
    batch = replay.sample_sequences(3, 5, episode_index(replay))
    assert batch.skill.shape == (3, 5, 0)
    assert batch.obs.dtype == np.float32
    np.testing.assert_array_equal(batch.obs[0, :, 0], [0, 0.5, 1.5, 2.5, 3.5])


# The ring


@given(
    lengths=st.lists(st.tuples(st.integers(1, HORIZON), st.booleans()), min_size=1, max_size=25),
    capacity=st.integers(1, 50),
    length=st.integers(1, HORIZON + 1),
)
@settings(max_examples=60, deadline=None)
def test_whatever_the_lengths_the_newest_episodes_that_fit_are_drawn_from(lengths, capacity, length):
    replay = make(capacity=capacity)
    player = EpisodeRunner(replay)
    episodes = [player.episode(steps, ended=ended) for steps, ended in lengths]
    # A further one under way must not touch them, however long it becomes.
    player.begin()
    for _ in range(HORIZON):
        player.step()
    kept, rows = [], 0
    for episode in reversed(episodes):
        rows += len(episode)
        if rows > capacity and kept:
            break
        kept.append(episode)
    kept = [episode for episode in kept if len(episode) >= length]
    if kept:
        assert_draws(replay, kept, length)
    else:
        with pytest.raises(UserError, match="shorten the sequences"):
            replay.sample_sequences(3, length, episode_index(replay))


def test_what_was_visible_at_a_moment_is_drawn_alike_after_further_writes():
    replays = make(capacity=20, slack=2 * HORIZON + 2), make(capacity=20, slack=2 * HORIZON + 2)
    for replay in replays:
        player = EpisodeRunner(replay)
        for steps in (7, 5, 7, 2, 6):
            player.episode(steps)
    before = [episode_index(replay) for replay in replays]
    for _ in range(2):
        player.episode(HORIZON)
    for _ in range(3):
        batches = [replay.sample_sequences(50, 3, then) for replay, then in zip(replays, before, strict=True)]
        for field, other in zip(*batches, strict=True):
            np.testing.assert_array_equal(field, other)


# Going back


SLACK = 3 * (HORIZON + 1)


def draw(replay):
    """Draws of both kinds: they share one source of chance."""
    moment = episode_index(replay)
    return [*replay.sample_sequences(9, 3, moment), *replay.sample(4, moment), *replay.sample_sequences(5, 2, moment)]


@given(
    before=st.lists(st.integers(2, HORIZON), min_size=1, max_size=12),
    after=st.lists(st.integers(2, HORIZON), max_size=2),
    under_way=st.integers(0, HORIZON),
    draws=st.integers(0, 3),
)
@settings(max_examples=40, deadline=None)
def test_going_back_gives_the_same_draws_for_ever(before, after, under_way, draws):
    replays = make(capacity=25, slack=SLACK), make(capacity=25, slack=SLACK)
    players = [EpisodeRunner(replay) for replay in replays]
    for replay, player in zip(replays, players, strict=True):
        for steps in before:
            player.episode(steps)
        for _ in range(draws):
            draw(replay)
        if under_way:
            player.begin()
            for _ in range(under_way):
                player.step()
    metadata = json.loads(json.dumps(replays[0].metadata(replays[0].snapshot())))
    stray = EpisodeRunner(replays[0], number=5000)
    if under_way:
        replays[0].finish()
    for steps in after:
        stray.episode(steps)
        draw(replays[0])
    replays[0].restore(metadata)
    for replay, player in zip(replays, players, strict=True):
        if under_way:
            replay.finish()
        player.episode(4)
    for _ in range(2):
        for field, same in zip(draw(replays[0]), draw(replays[1]), strict=True):
            np.testing.assert_array_equal(field, same)


def test_images_stay_bytes_in_the_files_and_come_back_from_them(tmp_path):
    replay = make(capacity=30, folder=tmp_path)
    episode = EpisodeRunner(replay).episode(6)
    metadata = replay.metadata(replay.snapshot())
    rows = 30 + HORIZON + 1
    assert (tmp_path / "obs.u8").stat().st_size == rows * np.prod(SPEC.obs_shape)
    assert (tmp_path / "action.f32").stat().st_size == rows * 2 * 4
    again = make(capacity=30, folder=tmp_path, seed=5)
    again.restore(metadata)
    for field, same in zip(draw(again), draw(replay), strict=True):
        np.testing.assert_array_equal(field, same)
    assert_draws(again, [episode], 3)


def test_a_damaged_image_is_refused(tmp_path):
    replay = make(capacity=30, folder=tmp_path)
    EpisodeRunner(replay).episode(6)
    metadata = replay.metadata(replay.snapshot())
    pixels = np.fromfile(tmp_path / "obs.u8", np.uint8)
    pixels[3 * 60 + 17] ^= 1
    pixels.tofile(tmp_path / "obs.u8")
    with pytest.raises(UserError, match="damaged"):
        make(capacity=30, folder=tmp_path).restore(metadata)
