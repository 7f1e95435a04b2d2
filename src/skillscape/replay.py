"""The replay buffer: a ring of steps on the host, in files, so that a checkpoint of it is a few numbers.

Rows are numbered for ever and live at their number modulo the size of the ring. An episode of L steps takes L + 1 rows:
one for each state, the last without an action. The ring has room for more than the newest ``capacity`` rows: rows
that a checkpoint needs are not written over before the next one, so a run that is killed finds its
buffer as it was, and writes the same rows again.
"""

import os
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

from skillscape.errors import UserError
from skillscape.types import EnvSpec, Sequences, Transitions


class Columns(NamedTuple):
    """The arrays of the ring: what is known of a step before and after its action. All: [rows, ...]."""

    obs: Shaped[np.ndarray, "rows ..."]
    action: Float[np.ndarray, "rows a"]
    skill: Float[np.ndarray, "rows z"]
    """The skill that chose the action."""
    reward: Float[np.ndarray, " rows"]
    discount: Float[np.ndarray, " rows"]
    """0 where the action ended the task, 1 elsewhere."""


class Trajectory(NamedTuple):
    """Steps of one episode in order: the state, the action taken in it, the reward of that, and the acting skill."""

    obs: Shaped[np.ndarray, "t ..."]
    action: Float[np.ndarray, "t a"]
    reward: Float[np.ndarray, " t"]
    skill: Float[np.ndarray, "t z"]


class EpisodeIndex(NamedTuple):
    """The complete episodes at one moment.

    episodes: [k, 4], for each its first row, steps, whether the task ended it, and the checksum of its rows;
    starts: [k], how many transitions can be drawn from the episodes up to and with each one.
    """

    episodes: Int[np.ndarray, "k 4"]
    starts: Int[np.ndarray, " k"]

    @property
    def drawable(self) -> int:
        """How many different transitions can be drawn."""
        return int(self.starts[-1]) if len(self.starts) else 0

    @property
    def is_all(self) -> bool:
        """Whether no episode has been given up yet."""
        return not len(self.episodes) or int(self.episodes[0, 0]) == 0

    def long_enough(self, length: int) -> Int[np.ndarray, "j 2"]:
        """Of every episode with at least ``length`` states: its first row, and how many states it has."""
        begun, states = self.episodes[:, 0], self.episodes[:, 1] + 1
        return np.stack([begun, states], axis=1)[states >= length]


class ReplaySnapshot(NamedTuple):
    """A moment to which the buffer can go back."""

    written: int
    begun: int
    episode_index: EpisodeIndex
    generator: dict[str, Any]


class Replay:
    """Complete episodes, oldest given up first, from which n-step transitions or sequences are drawn."""

    def __init__(
        self,
        spec: EnvSpec,
        skill_width: int,
        *,
        capacity: int,
        nstep: int,
        discount: float,
        seed: int,
        slack: int = 0,
        folder: Path | None = None,
    ) -> None:
        """Make or open the ring.

        ``capacity``: rows that are drawn from; ``nstep``: n of the n-step returns; ``discount``: γ; ``seed``:
        of the draws; ``slack``: rows that may be written between two checkpoints; ``folder``: where the files live,
        None for memory only.
        """
        self._capacity = capacity
        self._nstep = nstep
        self._discount = np.float32(discount)
        # The visible episodes (one at least), one under way, and what may be written before the next checkpoint.
        longest = spec.horizon + 1
        self._rows = max(capacity, longest) + longest + slack
        self._columns = _columns(spec, skill_width, self._rows, folder)
        self._generator = np.random.default_rng(np.random.SeedSequence([seed, 0x5EED]))
        self._written = 0
        self._begun = 0
        self._episode_index = self._counted(np.zeros((0, 4), np.int64))

    def begin(self, obs: Shaped[np.ndarray, "..."]) -> None:
        """The first state of an episode."""
        self._begun = self._written
        self._columns.obs[self._written % self._rows] = obs

    def add(
        self,
        action: Float[np.ndarray, " a"],
        skill: Float[np.ndarray, " z"],
        reward: float,
        discount: float,
        next_obs: Shaped[np.ndarray, "..."],
    ) -> None:
        """One step of the episode under way."""
        row, columns = self._written % self._rows, self._columns
        columns.action[row] = action
        columns.skill[row] = skill
        columns.reward[row] = reward
        columns.discount[row] = discount
        self._written += 1
        columns.obs[self._written % self._rows] = next_obs

    def finish(self) -> None:
        """The episode under way is over: from now on it can be drawn from."""
        steps = self._written - self._begun
        ended = int(self._columns.discount[(self._written - 1) % self._rows] == 0)
        self._written += 1
        entry = np.array([[self._begun, steps, ended, self._checksum(self._begun, steps)]], np.int64)
        episodes = np.concatenate([self._episode_index.episodes, entry])
        kept = self._written - episodes[:, 0] <= self._capacity
        kept[-1] = True  # however long it is
        self._begun = self._written
        self._episode_index = self._counted(episodes[kept])

    def _counted(self, episodes: Int[np.ndarray, "k 4"]) -> EpisodeIndex:
        # An episode that was cut has n steps to look ahead from all but its last n − 1 states. One that ended has no
        # value beyond its end, so there the sum may stop early.
        steps, ended = episodes[:, 1], episodes[:, 2]
        return EpisodeIndex(episodes, np.cumsum(np.where(ended > 0, steps, np.maximum(steps - self._nstep + 1, 0))))

    def trajectories(self) -> list[Trajectory]:
        """The steps of every visible episode and of the unfinished one."""
        spans = [(begun, steps) for begun, steps, _, _ in self._episode_index.episodes.tolist()]
        spans.append((self._begun, self._written - self._begun))
        rows = [np.arange(begun, begun + steps) % self._rows for begun, steps in spans]
        columns = self._columns
        return [
            Trajectory(columns.obs[row], columns.action[row], columns.reward[row], columns.skill[row]) for row in rows
        ]

    def sample(self, size: int, episode_index: EpisodeIndex) -> Transitions:
        """Draw ``size`` transitions with replacement from the episodes that were visible at some moment."""
        episodes, starts = episode_index
        drawn = self._generator.integers(episode_index.drawable, size=size)
        episode = np.searchsorted(starts, drawn, side="right")
        before = np.where(episode > 0, starts[episode - 1], 0)
        start = episodes[episode, 0] + drawn - before
        left = episodes[episode, 0] + episodes[episode, 1] - start
        return self._gather(start, left)

    def _gather(self, start: Int[np.ndarray, " n"], left: Int[np.ndarray, " n"]) -> Transitions:
        """n-step transitions from row ``start``, after which the episode has ``left`` more steps."""
        columns, rows = self._columns, self._rows
        reward = np.zeros(len(start), np.float32)
        weight = np.ones(len(start), np.float32)
        next_discount = weight
        for ahead in range(self._nstep):
            # Past the end of a task the weight is 0 already; the row is then any valid one.
            row = (start + np.minimum(ahead, left - 1)) % rows
            reward += weight * columns.reward[row]
            weight = weight * self._discount * columns.discount[row]
            next_discount = weight if ahead == 0 else next_discount
        first = start % rows
        # Host arrays where the type says device arrays: the call of the update moves them all at once.
        arrays: dict[str, Any] = {
            "obs": columns.obs[first],
            "action": columns.action[first],
            "skill": columns.skill[first],
            "reward": reward,
            "discount": weight,
            "bootstrap_obs": columns.obs[(start + np.minimum(self._nstep, left)) % rows],
            "next_obs": columns.obs[(start + 1) % rows],
            "next_discount": next_discount,
        }
        return Transitions(**arrays)

    def sample_sequences(self, count: int, length: int, episode_index: EpisodeIndex) -> Sequences:
        """Draw ``count`` stretches of ``length`` states, from the episodes that were visible at some moment.

        An episode is drawn uniformly among those that are long enough, then where in it the stretch begins.
        """
        episodes = episode_index.long_enough(length)
        if not len(episodes):
            longest = episode_index.episodes[:, 1].max(initial=0) + 1
            raise UserError(
                f"Sequences of {length} states are requested, but the longest episode so far has {longest}: "
                "shorten the sequences, or choose an environment with longer episodes."
            )
        begun, states = episodes[self._generator.integers(len(episodes), size=count)].T
        start = begun + self._generator.integers(states - length + 1)
        return self._gather_sequences(start[:, None] + np.arange(length), begun)

    def _gather_sequences(self, state: Int[np.ndarray, "b t"], begun: Int[np.ndarray, " b"]) -> Sequences:
        """The states in these rows of episodes that begin in rows ``begun``, each with the step that led to it."""
        columns, rows = self._columns, self._rows
        opening = state == begun[:, None]
        # A step is stored with the state it was taken in, one row before the one it led to.
        led = np.where(opening, state, state - 1) % rows
        reached = 1 - opening.astype(np.float32)
        first = 1 - reached
        first[:, 0] = 1
        arrays: dict[str, Any] = {
            "obs": columns.obs[state % rows],
            "action": columns.action[led] * reached[..., None],
            "reward": columns.reward[led] * reached,
            "discount": np.where(opening, np.float32(1), columns.discount[led]),
            "skill": columns.skill[led],
            "first": first,
        }
        return Sequences(**arrays)

    def snapshot(self) -> ReplaySnapshot:
        """What the buffer is now; cheap."""
        return ReplaySnapshot(
            self._written, self._begun, self._episode_index, dict(self._generator.bit_generator.state)
        )

    def metadata(self, snapshot: ReplaySnapshot) -> dict[str, Any]:
        """All that is not in the files, for a checkpoint of that moment; the files are on disk when this returns."""
        for column in self._columns:
            if isinstance(column.base, np.memmap):
                column.base.flush()
        return {
            "written": snapshot.written,
            "begun": snapshot.begun,
            "checksum": self._checksum(snapshot.begun, snapshot.written - snapshot.begun),
            "episodes": snapshot.episode_index.episodes.tolist(),
            "generator": snapshot.generator,
        }

    def restore(self, metadata: dict[str, Any]) -> None:
        """Go back to what ``metadata`` described; rows that do not match their checksums are refused."""
        self._written, self._begun = int(metadata["written"]), int(metadata["begun"])
        self._episode_index = self._counted(np.array(metadata["episodes"], np.int64).reshape(-1, 4))
        self._generator.bit_generator.state = metadata["generator"]
        under_way = [self._begun, self._written - self._begun, 0, int(metadata["checksum"])]
        for begun, steps, _, checksum in [*self._episode_index.episodes.tolist(), under_way]:
            if self._checksum(begun, steps) != checksum:
                raise UserError(
                    "The replay buffer is damaged: its rows do not match their checksums; train again with --force."
                )

    def _checksum(self, begun: int, steps: int) -> int:
        if steps == 0:
            return 0
        rows = np.arange(begun, begun + steps) % self._rows
        checksum = zlib.crc32(self._columns.obs[np.append(rows, (begun + steps) % self._rows)].tobytes())
        for column in self._columns[1:]:
            checksum = zlib.crc32(column[rows].tobytes(), checksum)
        return checksum


def _columns(spec: EnvSpec, skill_width: int, rows: int, folder: Path | None) -> Columns:
    shapes = {
        "obs": spec.obs_shape,
        "action": (spec.action_dim,),
        "skill": (skill_width,),
        "reward": (),
        "discount": (),
    }
    types = {name: np.dtype(np.uint8 if name == "obs" and spec.is_image else np.float32) for name in shapes}
    if folder is None:
        return Columns(**{name: np.zeros((rows, *shape), types[name]) for name, shape in shapes.items()})
    folder.mkdir(parents=True, exist_ok=True)
    return Columns(**{name: _on_disk(folder, name, types[name], (rows, *shape)) for name, shape in shapes.items()})


def _on_disk(folder: Path, name: str, kind: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    path = folder / f"{name}.{'u8' if kind == np.uint8 else 'f32'}"
    size = int(np.prod(shape)) * kind.itemsize
    if size == 0:
        return np.zeros(shape, kind)
    if not path.exists():
        partial = path.with_suffix(".partial")
        try:
            with partial.open("wb") as file:
                # The room is taken now: a disk that fills up later cannot stop a run by way of these files.
                os.posix_fallocate(file.fileno(), 0, size)
            partial.rename(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise UserError(
                f"The replay buffer needs {size / 1e6:,.0f} MB in {path.parent} ({error.strerror}); free disk space or "
                "lower --backbone.replay-capacity (Dreamer: --backbone.replay.capacity)."
            ) from error
    if path.stat().st_size != size:
        raise UserError(f"{path} is damaged: it does not have {size:,} bytes; restore it or train again with --force.")
    # A plain view: indexing a memmap itself builds a memmap each time, which costs more than the copy.
    return np.memmap(path, kind, "r+", shape=shape).view(np.ndarray)
