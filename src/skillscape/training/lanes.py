"""Copies of an environment that are stepped side by side: episodes, the skills that act in them, their way to replay.

A copy keeps the episode under way to itself and hands it to the replay buffer when it is over, so that episodes in the
buffer are whole. An episode is a function of its seed and its actions: a checkpoint holds those, and plays them again.
"""

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree, Shaped

from skillscape.config import RunConfig
from skillscape.envs.base import HostEnv
from skillscape.errors import EnvFault, UserError
from skillscape.replay import Replay, Segment
from skillscape.training.policy import compiled_act


@dataclass
class _Episode:
    """An episode under way; the lists only grow."""

    number: int
    obs: list[Shaped[np.ndarray, "..."]]
    """The states so far, one more than actions."""
    action: list[Float[np.ndarray, " a"]] = field(default_factory=list)
    skill: list[Float[np.ndarray, " z"]] = field(default_factory=list)
    reward: list[float] = field(default_factory=list)
    discount: list[float] = field(default_factory=list)


class _Place(NamedTuple):
    """Where a copy is: its episode, None between two, after some steps of it."""

    episode: _Episode | None
    steps: int


class LanesMark(NamedTuple):
    """A moment that a checkpoint can describe."""

    begun: int
    """Episodes begun so far."""
    places: tuple[_Place, ...]
    skills: Float[np.ndarray, "n z"]
    carry: PyTree
    episode_return: float


class Lanes:
    """The environment's side of a run on the host."""

    def __init__(self, config: RunConfig, envs: Sequence[HostEnv], replay: Replay) -> None:
        """Nothing happens until ``advance`` or ``restored``."""
        self._config, self._envs, self._replay = config, envs, replay
        self._skills = config.reward.skills
        key = jax.random.fold_in(jax.random.key(config.seed), 0xAC7)
        self._action_key, self._skill_key = jax.random.split(key)
        self._act = compiled_act(config.backbone, True)
        self._fold = jax.jit(jax.random.fold_in)
        self._draw = jax.jit(lambda key, step: self._skills.sample(jax.random.fold_in(key, step), 1)[0])
        schedule = config.backbone.schedule
        self._random_steps, self._policy_first = schedule.random_steps, schedule.policy_first
        # A grid search acts with the policy from the first step on, each candidate in its turn.
        self._tried = config.strategy.trials(self._skills)
        self.initial_skill = config.strategy.initial(self._skills, jax.random.fold_in(self._skill_key, 2**31 - 1))
        """The skill of the whole run, where there is one from its start."""
        self.episode_return = math.nan
        """Sum of the task's rewards in the newest complete episode."""
        self._begun = 0
        self._episodes: list[_Episode | None] = [None] * len(envs)
        self._held = np.zeros((len(envs), self._skills.width), np.float32)
        self._carry: PyTree = config.backbone.initial_carry(len(envs))

    def advance(self, params: PyTree, skill: Float[np.ndarray, " z"] | None, begin: int, end: int) -> None:
        """Take the steps from ``begin`` to ``end`` with these parameters, each copy in its turn.

        ``skill``: that of the whole run, or None where skills are drawn or tried.
        """
        step, lane, copies = begin, 0, len(self._envs)
        try:
            while step < end:
                # Whose turn it is follows from the step, so that all copies come equally far wherever blocks end.
                moving = [at % copies for at in range(step, min(step + copies, end))]
                for at, lane in enumerate(moving, step):
                    if self._episodes[lane] is None:
                        self._begin_episode(lane)
                    self._held[lane] = self._chosen_skill(lane, skill, at)
                actions = self._actions(params, step, moving)
                for lane, action in zip(moving, actions, strict=True):
                    self._take_step(lane, action)
                step += len(moving)
        except EnvFault as fault:
            fault.step = step + (lane - step) % copies + 1
            raise

    def _begin_episode(self, lane: int) -> None:
        episode = _Episode(self._begun, [])
        obs = self._envs[lane].reset(self._episode_seed(episode.number))
        self._check_finite(obs, 0.0)
        episode.obs.append(obs)
        self._begun += 1
        self._episodes[lane] = episode
        fresh = self._config.backbone.initial_carry(len(self._envs))
        self._carry = fresh if len(self._envs) == 1 else _with_rows(self._carry, fresh, [lane])

    def _take_step(self, lane: int, action: Float[np.ndarray, " a"]) -> None:
        episode = self._episodes[lane]
        assert episode is not None
        result = self._envs[lane].step(action)
        self._check_finite(result.obs, result.reward)
        episode.action.append(action)
        episode.skill.append(self._held[lane].copy())
        episode.reward.append(result.reward)
        episode.discount.append(float(not result.terminated))
        episode.obs.append(result.obs)
        if result.terminated or result.truncated:
            self._store(episode)
            self.episode_return = sum(episode.reward, 0.0)
            self._episodes[lane] = None

    def _store(self, episode: _Episode) -> None:
        """Hand a complete episode to the replay buffer."""
        self._replay.begin(episode.obs[0])
        rows = zip(episode.action, episode.skill, episode.reward, episode.discount, episode.obs[1:], strict=True)
        for row in rows:
            self._replay.add(*row)
        self._replay.finish()

    def _check_finite(self, obs: Shaped[np.ndarray, "..."], reward: float) -> None:
        if not (np.all(np.isfinite(obs)) and math.isfinite(reward)):
            raise EnvFault(f"{self._config.env} gave a state or reward that is not finite")

    def _episode_seed(self, number: int) -> int:
        return int(np.random.SeedSequence([self._config.seed, number]).generate_state(1)[0] >> 1)

    def _chosen_skill(self, lane: int, skill: Float[np.ndarray, " z"] | None, step: int) -> Float[np.ndarray, " z"]:
        if skill is not None:
            return skill
        if self._tried is not None and step < self._random_steps:
            tried: Float[np.ndarray, " z"] = self._tried[step * len(self._tried) // self._random_steps]
            return tried
        episode, every = self._episodes[lane], self._config.resample_every
        taken = 0 if episode is None else len(episode.action)
        if taken == 0 or (every is not None and taken % every == 0):
            return np.asarray(self._draw(self._skill_key, step))
        held: Float[np.ndarray, " z"] = self._held[lane]
        return held

    def _actions(self, params: PyTree, step: int, moving: list[int]) -> Float[np.ndarray, "n a"]:
        if step < self._random_steps and self._tried is None and not self._policy_first:
            seeds = [[self._config.seed, 0xAC7, step + ahead] for ahead in range(len(moving))]
            size = self._envs[0].spec.action_dim
            return np.stack([np.random.default_rng(seed).uniform(-1, 1, size).astype(np.float32) for seed in seeds])
        # A copy that waits for its first episode acts on nothing, and what it would do is not done.
        blank = next(episode for episode in self._episodes if episode is not None).obs[-1]
        obs = np.stack([blank if episode is None else episode.obs[-1] for episode in self._episodes])
        action, carry = self._act(params, self._carry, obs, self._held, self._fold(self._action_key, step))
        self._carry = carry if len(moving) == len(self._envs) else _with_rows(self._carry, carry, moving)
        return np.asarray(action)[moving]

    def drawn_for_evaluation(self, step: int) -> Float[np.ndarray, " z"]:
        """A skill that this step determines."""
        return np.asarray(self._draw(jax.random.fold_in(self._skill_key, 1), step))

    def segments(self) -> list[Segment]:
        """The episodes under way, as far as they have come."""
        return [
            Segment(
                np.stack(episode.obs[:-1]),
                np.stack(episode.action),
                np.array(episode.reward, np.float32),
                np.stack(episode.skill),
            )
            for episode in self._episodes
            if episode is not None and episode.action
        ]

    def mark(self) -> LanesMark:
        """What the copies are at now; cheap."""
        places = tuple(_Place(episode, 0 if episode is None else len(episode.action)) for episode in self._episodes)
        return LanesMark(self._begun, places, self._held.copy(), self._carry, self.episode_return)

    def notes(self, mark: LanesMark) -> dict[str, Any]:
        """All that a checkpoint has to say of a moment."""
        return {
            "begun": mark.begun,
            "episode_return": None if math.isnan(mark.episode_return) else mark.episode_return,
            "skills": mark.skills.tolist(),
            # What acting remembers was made by policies that are gone: it cannot be computed again.
            "carry": [np.asarray(part).tolist() for part in jax.tree.leaves(mark.carry)],
            "episodes": [
                None
                if episode is None
                else {
                    "number": episode.number,
                    "action": [action.tolist() for action in episode.action[:steps]],
                    "skill": [skill.tolist() for skill in episode.skill[:steps]],
                    "checksum": _checksum(episode.obs[: steps + 1], episode.reward[:steps]),
                }
                for episode, steps in mark.places
            ],
        }

    def restored(self, notes: dict[str, Any]) -> Callable[[], None]:
        """Go back to ``notes``, all but the environments: what is returned plays their episodes again."""
        lanes = len(self._envs)
        self._begun = int(notes["begun"])
        self.episode_return = math.nan if notes["episode_return"] is None else float(notes["episode_return"])
        self._held = np.asarray(notes["skills"], np.float32).reshape(lanes, self._skills.width)
        like, structure = jax.tree.flatten(self._config.backbone.initial_carry(lanes))
        kept = [
            jnp.asarray(part, leaf.dtype).reshape(leaf.shape) for part, leaf in zip(notes["carry"], like, strict=True)
        ]
        self._carry = jax.tree.unflatten(structure, kept)
        widths = self._envs[0].spec.action_dim, self._skills.width
        told = [None if each is None else _Told.read(each, *widths) for each in notes["episodes"]]
        if len(told) != lanes:
            raise ValueError(f"{len(told)} episodes of {lanes} copies")
        return lambda: self._rejoin(told)

    def _rejoin(self, told: "Sequence[_Told | None]") -> None:
        for lane, one in enumerate(told):
            self._episodes[lane] = None if one is None else self._played_again(self._envs[lane], one)

    def _played_again(self, env: HostEnv, told: "_Told") -> _Episode:
        episode = _Episode(told.number, [env.reset(self._episode_seed(told.number))], skill=list(told.skill))
        ended = False
        for action in told.action:
            if ended:
                break
            result = env.step(action)
            episode.action.append(action)
            episode.reward.append(result.reward)
            episode.discount.append(1.0)
            episode.obs.append(result.obs)
            ended = result.terminated or result.truncated
        # It was under way, so it must not end.
        if ended or _checksum(episode.obs, episode.reward) != told.checksum:
            raise UserError(
                f"{self._config.env} does not repeat itself: the same seed and actions led to another state or reward, "
                "so the run cannot go on exactly; seed the environment in reset(seed=…) and train again with --force."
            )
        return episode


class _Told(NamedTuple):
    """An episode as a checkpoint tells it."""

    number: int
    action: list[Float[np.ndarray, " a"]]
    skill: list[Float[np.ndarray, " z"]]
    checksum: int

    @staticmethod
    def read(values: dict[str, Any], action_dim: int, skill_width: int) -> "_Told":
        action = [np.asarray(row, np.float32).reshape(action_dim) for row in values["action"]]
        skill = [np.asarray(row, np.float32).reshape(skill_width) for row in values["skill"]]
        if len(action) != len(skill):
            raise ValueError("as many actions as skills")
        return _Told(int(values["number"]), action, skill, int(values["checksum"]))


def _checksum(states: Sequence[Shaped[np.ndarray, "..."]], rewards: Sequence[float]) -> int:
    checksum = zlib.crc32(np.array(rewards, np.float64).tobytes())
    for obs in states:
        checksum = zlib.crc32(np.ascontiguousarray(obs).tobytes(), checksum)
    return checksum


def _with_rows(old: PyTree, new: PyTree, rows: list[int]) -> PyTree:
    """``old`` with some rows of ``new``."""
    index = np.array(rows)
    return jax.tree.map(lambda before, after: before.at[index].set(after[index]), old, new)
