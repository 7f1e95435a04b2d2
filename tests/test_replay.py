"""The replay buffer against a plain list of episodes: what can be drawn, what is given up, and what a kill leaves."""

import errno
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

HORIZON = 7
SPEC = EnvSpec(obs_shape=(2,), action_dim=1, horizon=HORIZON)
GAMMA = 0.9
AHEAD = 3


class Step(NamedTuple):
    """A step as a test remembers it; ``place`` is the number that its state shows."""

    place: int
    action: float
    skill: tuple
    reward: float
    discount: float
    next_place: int


def make(capacity=1000, slack=0, folder=None, ahead=AHEAD, seed=0, spec=SPEC):
    return Replay(spec, 2, capacity=capacity, nstep=ahead, discount=GAMMA, seed=seed, slack=slack, folder=folder)


def state(place):
    return np.array([place, -place], np.float32)


class EpisodeRunner:
    """Writes numbered steps, every value of which is a function of the step's number."""

    def __init__(self, replay, place=0):
        self.replay, self.place = replay, place

    def begin(self):
        self.place += 1
        self.replay.begin(state(self.place))

    def step(self, *, ends=False):
        place = self.place
        self.place += 1
        taken = Step(place, place / 7, (place % 2, 1 - place % 2), place**0.5, float(not ends), self.place)
        action, skill = np.array([taken.action], np.float32), np.array(taken.skill, np.float32)
        self.replay.add(action, skill, taken.reward, taken.discount, state(self.place))
        return taken

    def episode(self, length, *, ended=False):
        self.begin()
        steps = [self.step(ends=ended and index == length - 1) for index in range(length)]
        self.replay.finish()
        return steps


def episode_index(replay):
    return replay.snapshot().episode_index


def transitions(steps, ahead=AHEAD):
    """Every transition of an episode, by its first state: all that ``Transitions`` holds, summed in plain Python."""
    found = {}
    for start in range(len(steps)):
        total, weight, row = 0.0, 1.0, start
        for row in range(start, min(start + ahead, len(steps))):
            total += weight * steps[row].reward
            weight *= GAMMA * steps[row].discount
        if row - start + 1 < ahead and weight > 0:
            continue  # the episode was cut before the window was full
        first = steps[start]
        found[first.place] = (
            *(first.action, *first.skill, total, weight, steps[row].next_place),
            *(first.next_place, GAMMA * first.discount),
        )
    return found


def drawn(batch):
    """The same of a batch that was drawn; a transition that comes twice has to be the same twice."""
    np.testing.assert_array_equal(batch.obs[:, 1], -batch.obs[:, 0])
    np.testing.assert_array_equal(batch.bootstrap_obs[:, 1], -batch.bootstrap_obs[:, 0])
    columns = (batch.action, batch.skill, batch.reward, batch.discount, batch.bootstrap_obs[:, 0], batch.next_obs[:, 0])
    rows = np.column_stack([*columns, batch.next_discount])
    found = {}
    for place, row in zip(batch.obs[:, 0].tolist(), rows, strict=True):
        assert np.array_equal(found.setdefault(int(place), row), row)
    return found


def assert_draws(replay, episodes, size=3000):
    """Every transition of these episodes is drawn, none else, and each with the right numbers."""
    expected = {place: row for steps in episodes for place, row in transitions(steps).items()}
    found = drawn(replay.sample(size, episode_index(replay)))
    assert found.keys() == expected.keys()
    assert episode_index(replay).drawable == len(expected)
    for place, row in found.items():
        np.testing.assert_allclose(row, expected[place], rtol=1e-5)


# What is drawn


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("length", [1, 2, 3, 4, HORIZON])
def test_windows_never_look_past_a_cut_and_stop_at_an_end(length, ended):
    replay = make()
    player = EpisodeRunner(replay)
    # Before and after it stand steps that a window over the border would mix in.
    assert_draws(replay, [player.episode(5), player.episode(length, ended=ended), player.episode(4, ended=True)])


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_returns_sum_as_many_steps_as_asked(ahead):
    replay = make(ahead=ahead)
    player = EpisodeRunner(replay)
    episodes = [player.episode(6), player.episode(3, ended=True)]
    expected = {place: row for steps in episodes for place, row in transitions(steps, ahead).items()}
    found = drawn(replay.sample(500, episode_index(replay)))
    assert found.keys() == expected.keys()
    for place, row in found.items():
        np.testing.assert_allclose(row, expected[place], rtol=1e-5)


def test_a_known_window_by_hand():
    replay = make()
    replay.begin(state(0))
    for place, reward in enumerate([1.0, 10.0, 100.0]):
        replay.add(np.zeros(1, np.float32), np.zeros(2, np.float32), reward, 1.0, state(place + 1))
    replay.finish()
    batch = replay.sample(1, episode_index(replay))
    assert batch.reward[0] == pytest.approx(1 + 0.9 * 10 + 0.81 * 100)
    assert batch.discount[0] == pytest.approx(0.729)
    assert batch.bootstrap_obs[0, 0] == 3
    assert batch.next_obs[0, 0] == 1
    assert batch.next_discount[0] == pytest.approx(0.9)


def test_a_value_behind_an_end_counts_nothing():
    replay = make()
    EpisodeRunner(replay).episode(2, ended=True)
    batch = replay.sample(50, episode_index(replay))
    assert (batch.discount == 0).all()
    np.testing.assert_allclose(batch.next_discount, np.where(batch.obs[:, 0] == 1, np.float32(0.9), 0))


def test_draws_are_uniform_over_transitions_not_over_episodes():
    replay = make()
    player = EpisodeRunner(replay)
    for length, ended in ((7, False), (1, True), (4, True)):
        player.episode(length, ended=ended)
    batch = replay.sample(20_000, episode_index(replay))
    _, counts = np.unique(batch.obs[:, 0], return_counts=True)
    assert len(counts) == 5 + 1 + 4
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_the_seed_decides_the_draws():
    batches = []
    for seed in (0, 0, 1):
        replay = make(seed=seed)
        EpisodeRunner(replay).episode(7)
        batches.append(replay.sample(64, episode_index(replay)).obs)
    np.testing.assert_array_equal(batches[0], batches[1])
    assert (batches[0] != batches[2]).any()


def test_an_episode_under_way_is_not_drawn_from():
    replay = make()
    player = EpisodeRunner(replay)
    assert episode_index(replay).drawable == 0
    player.begin()
    begun = [player.step() for _ in range(6)]
    assert episode_index(replay).drawable == 0
    replay.finish()
    complete = player.episode(4)
    player.begin()
    player.step()
    assert_draws(replay, [begun, complete])


def test_segments_pair_a_state_with_the_action_taken_in_it_and_its_reward():
    replay = make()
    player = EpisodeRunner(replay)
    complete = player.episode(3)
    player.begin()
    under_way = [player.step() for _ in range(2)]
    trajectories = replay.trajectories()
    assert [len(trajectory.reward) for trajectory in trajectories] == [3, 2]
    for trajectory, steps in zip(trajectories, (complete, under_way), strict=True):
        np.testing.assert_array_equal(trajectory.obs[:, 0], [step.place for step in steps])
        np.testing.assert_allclose(trajectory.action[:, 0], [step.action for step in steps], rtol=1e-6)
        np.testing.assert_allclose(trajectory.reward, [step.reward for step in steps], rtol=1e-6)


# The ring


@given(
    lengths=st.lists(st.tuples(st.integers(1, HORIZON), st.booleans()), min_size=1, max_size=25),
    capacity=st.integers(1, 40),
)
@settings(max_examples=60, deadline=None)
def test_the_newest_episodes_that_fit_are_kept_whatever_their_lengths(lengths, capacity):
    replay = make(capacity=capacity)
    player = EpisodeRunner(replay)
    episodes = [player.episode(length, ended=ended) for length, ended in lengths]
    # A further one under way must not touch them, however long it becomes.
    player.begin()
    for _ in range(HORIZON):
        player.step()
    kept, rows = [], 0
    for steps in reversed(episodes):
        rows += len(steps) + 1
        if rows > capacity and kept:
            break
        kept.append(steps)
    if any(transitions(steps) for steps in kept):
        assert_draws(replay, kept, size=2000)
    assert len(episode_index(replay).episodes) == len(kept)


@pytest.mark.parametrize("capacity", [1, HORIZON])
def test_an_episode_longer_than_the_capacity_is_kept_whole(capacity):
    replay = make(capacity=capacity)
    player = EpisodeRunner(replay)
    for _ in range(5):
        player.episode(HORIZON)
    newest = player.episode(HORIZON)
    player.begin()
    for _ in range(HORIZON):
        player.step()
    assert_draws(replay, [newest])


def test_what_was_visible_at_a_moment_is_drawn_alike_after_further_writes():
    slack = 16
    replays = make(capacity=20, slack=slack), make(capacity=20, slack=slack)
    for replay in replays:
        player = EpisodeRunner(replay)
        for length in (7, 5, 7, 2, 6):
            player.episode(length)
    before = [episode_index(replay) for replay in replays]
    for _ in range(2):
        player.episode(HORIZON)
    for _ in range(3):
        batches = [replay.sample(200, then) for replay, then in zip(replays, before, strict=True)]
        for field, other in zip(*batches, strict=True):
            np.testing.assert_array_equal(field, other)
    assert not np.isin(replays[1].sample(500, episode_index(replays[1])).obs, batches[0].obs).all()


# Going back


SLACK = 2 * (HORIZON + 1)


def batches_of(replay, number=3):
    return [replay.sample(64, episode_index(replay)) for _ in range(number)]


def assert_same_batches(found, expected):
    for one, other in zip(found, expected, strict=True):
        for field, same in zip(one, other, strict=True):
            np.testing.assert_array_equal(field, same)


@pytest.mark.parametrize("under_way", [0, 3])
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_buffer_that_went_on_goes_back_to_the_same_content_and_the_same_draws(tmp_path, on_disk, under_way):
    folder = tmp_path / "replay" if on_disk else None
    replay = make(capacity=20, slack=SLACK, folder=folder)
    player = EpisodeRunner(replay)
    for length in (7, 5, 7, 2, 6, 7):
        player.episode(length)
        replay.sample(5, episode_index(replay))
    if under_way:
        player.begin()
        for _ in range(under_way):
            player.step()
    snapshot = replay.snapshot()
    expected = batches_of(replay)
    trajectories = replay.trajectories()
    metadata = json.loads(json.dumps(replay.metadata(snapshot)))
    # As many rows as may be written before the next checkpoint, drawing all the while.
    other = EpisodeRunner(replay, place=500)
    if under_way:
        other.step()
        replay.finish()
    for _ in range((SLACK - 2) // (HORIZON + 1)):
        other.episode(HORIZON)
        replay.sample(9, episode_index(replay))
    back = make(capacity=20, slack=SLACK, folder=folder, seed=3) if on_disk else replay
    back.restore(metadata)
    assert_same_batches(batches_of(back), expected)
    for one, same in zip(back.trajectories(), trajectories, strict=True):
        for field, expected_field in zip(one, same, strict=True):
            np.testing.assert_array_equal(field, expected_field)


def test_going_back_and_writing_again_is_as_if_nothing_had_happened():
    replays = make(capacity=20, slack=SLACK), make(capacity=20, slack=SLACK)
    players = [EpisodeRunner(replay) for replay in replays]
    for player in players:
        player.episode(7)
        player.episode(4)
    metadata = replays[0].metadata(replays[0].snapshot())
    EpisodeRunner(replays[0], place=500).episode(6, ended=True)
    replays[0].restore(metadata)
    for player in players:
        for length in (3, 7, 5):
            player.episode(length)
    assert_same_batches(batches_of(replays[0]), batches_of(replays[1]))


def test_the_files_hold_what_the_notes_speak_of(tmp_path):
    replay = make(capacity=20, folder=tmp_path)
    EpisodeRunner(replay).episode(7)
    metadata = replay.metadata(replay.snapshot())
    expected = batches_of(replay)
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in tmp_path.glob("*.f32"):
        (copy / path.name).write_bytes(path.read_bytes())
    again = make(capacity=20, folder=copy)
    again.restore(metadata)
    assert_same_batches(batches_of(again), expected)


@pytest.mark.parametrize("column", ["obs", "action", "skill", "reward", "discount"])
@pytest.mark.parametrize("row", [1, 9])
def test_a_damaged_row_is_refused(tmp_path, column, row):
    replay = make(capacity=20, folder=tmp_path)
    player = EpisodeRunner(replay)
    player.episode(7)
    player.begin()
    for _ in range(3):
        player.step()
    metadata = replay.metadata(replay.snapshot())
    path = tmp_path / f"{column}.f32"
    values = np.fromfile(path, np.float32).reshape(20 + HORIZON + 1, -1)
    values[row] += 1
    values.tofile(path)
    with pytest.raises(UserError, match="damaged"):
        make(capacity=20, folder=tmp_path).restore(metadata)


@pytest.mark.parametrize("size", [0, 10])
def test_a_file_cut_short_is_refused(tmp_path, size):
    make(capacity=20, folder=tmp_path)
    with (tmp_path / "reward.f32").open("r+b") as file:
        file.truncate(size)
    with pytest.raises(UserError, match=r"reward\.f32 is damaged"):
        make(capacity=20, folder=tmp_path)


def test_a_full_disk_is_said_at_once_and_leaves_nothing_half_made(tmp_path, monkeypatch):
    def full(_descriptor, _offset, _length):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("skillscape.replay.os.posix_fallocate", full)
    with pytest.raises(UserError, match=r"The replay buffer needs.*No space left.*replay-capacity"):
        make(folder=tmp_path / "replay")
    assert not [path for path in (tmp_path / "replay").rglob("*") if path.is_file()]


def test_the_room_is_taken_when_the_files_are_made(tmp_path):
    make(capacity=5000, folder=tmp_path)
    for path in tmp_path.iterdir():
        assert path.stat().st_blocks * 512 >= path.stat().st_size


def test_skills_of_no_width_need_no_file(tmp_path):
    replay = Replay(SPEC, 0, capacity=20, nstep=1, discount=GAMMA, seed=0, folder=tmp_path)
    replay.begin(state(0))
    replay.add(np.zeros(1, np.float32), np.zeros(0, np.float32), 1.0, 1.0, state(1))
    replay.finish()
    assert replay.sample(4, episode_index(replay)).skill.shape == (4, 0)
    assert not (tmp_path / "skill.f32").exists()
