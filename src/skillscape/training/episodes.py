"""Unfinished episodes on the host, and their records in a checkpoint.

An episode is a function of its seed and its actions: a checkpoint holds those, and resuming replays them.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PyTree, Shaped

from skillscape.envs.base import HostEnv
from skillscape.errors import UserError
from skillscape.replay import Trajectory
from skillscape.training.positions import Visited


@dataclass
class Episode:
    """An unfinished episode; its lists only grow."""

    number: int
    obs: list[Shaped[np.ndarray, "..."]]
    """Observations so far, one more than actions."""
    action: list[Float[np.ndarray, " a"]] = field(default_factory=list)
    skill: list[Float[np.ndarray, " z"]] = field(default_factory=list)
    reward: list[float] = field(default_factory=list)
    discount: list[float] = field(default_factory=list)
    position: list[Float[np.ndarray, " p"]] = field(default_factory=list)
    """Where the body was in each of the states, where that is tracked."""

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The arguments of ``Replay.add`` for each step."""
        return zip(self.action, self.skill, self.reward, self.discount, self.obs[1:], strict=True)

    def locate(self, env: HostEnv, tracked: bool) -> None:
        """Add where the body is now, where that is tracked."""
        if tracked and (position := env.position) is not None:
            self.position.append(position)

    def trajectory(self) -> Trajectory:
        """The steps taken so far, at least one."""
        reward = np.array(self.reward, np.float32)
        return Trajectory(np.stack(self.obs[:-1]), np.stack(self.action), reward, np.stack(self.skill))

    def record(self, steps: int) -> dict[str, Any]:
        """The first ``steps`` steps as JSON."""
        return {
            "number": self.number,
            "action": [action.tolist() for action in self.action[:steps]],
            "skill": [skill.tolist() for skill in self.skill[:steps]],
            "checksum": _checksum(self.obs[: steps + 1], self.reward[:steps]),
        }


class EpisodeRecord(NamedTuple):
    """An episode as a checkpoint stores it."""

    number: int
    action: list[Float[np.ndarray, " a"]]
    skill: list[Float[np.ndarray, " z"]]
    checksum: int

    @staticmethod
    def read(values: dict[str, Any], action_dim: int, skill_width: int) -> "EpisodeRecord":
        """From JSON; raises ValueError where widths or lengths do not fit."""
        action = [np.asarray(row, np.float32).reshape(action_dim) for row in values["action"]]
        skill = [np.asarray(row, np.float32).reshape(skill_width) for row in values["skill"]]
        if len(action) != len(skill):
            raise ValueError("as many actions as skills")
        return EpisodeRecord(int(values["number"]), action, skill, int(values["checksum"]))

    def replayed(self, env: HostEnv, seed: int, env_name: str, *, tracked: bool = False) -> Episode:
        """The episode replayed from its seed and actions; an environment that gives another result is refused.

        ``tracked``: whether to record the positions of the body too.
        """
        episode = Episode(self.number, [env.reset(seed)], skill=list(self.skill))
        episode.locate(env, tracked)
        ended = False
        for action in self.action:
            if ended:
                break
            result = env.step(action)
            episode.action.append(action)
            episode.reward.append(result.reward)
            episode.discount.append(1.0)
            episode.obs.append(result.obs)
            episode.locate(env, tracked)
            ended = result.terminated or result.truncated
        # The recorded episode was unfinished, so the replay must not end.
        if ended or _checksum(episode.obs, episode.reward) != self.checksum:
            raise UserError(
                f"{env_name} is not deterministic: replaying the same seed and actions gave a different state or "
                "reward, so the run cannot be resumed exactly; seed the environment in reset(seed=…) and train again "
                "with --force."
            )
        return episode


class RunnerSnapshot(NamedTuple):
    """State of the environments at a step, for a checkpoint."""

    begun: int
    """Episodes begun so far."""
    episodes: tuple[tuple[Episode | None, int], ...]
    """The episode of each copy (None between episodes) and its number of steps."""
    skills: Float[np.ndarray, "n z"]
    carry: PyTree
    episode_return: float
    visited: Visited


def with_rows(old: PyTree, new: PyTree, rows: list[int]) -> PyTree:
    """``old`` with some rows of ``new``."""
    index = np.array(rows)
    return jax.tree.map(lambda before, after: before.at[index].set(after[index]), old, new)


def _checksum(states: Sequence[Shaped[np.ndarray, "..."]], rewards: Sequence[float]) -> int:
    checksum = zlib.crc32(np.array(rewards, np.float64).tobytes())
    for obs in states:
        checksum = zlib.crc32(np.ascontiguousarray(obs).tobytes(), checksum)
    return checksum
