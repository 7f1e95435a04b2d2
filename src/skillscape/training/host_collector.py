"""Environments step on one core while the backbone learns from a replay buffer on the other.

Training advances in short blocks. During a block the environments act with the policy as of the block's start, and the
backbone samples from the episodes that were complete by then; at its end the two meet. So the result does not depend on
which of them was faster, and a checkpoint taken between two blocks is the whole state of the run.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import cache
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree, Shaped

from skillscape.backbones.base import Backbone
from skillscape.config import RunConfig, flag_at_most
from skillscape.envs.base import HostEnv
from skillscape.errors import EnvFault, UserError
from skillscape.objectives.base import Objective
from skillscape.replay import EpisodeIndex, Replay, ReplaySnapshot, Trajectory
from skillscape.training.episodes import Episode, EpisodeRecord, RunnerSnapshot, with_rows
from skillscape.training.policy import compiled_act
from skillscape.training.positions import Visited
from skillscape.training.run import Run, selected_skill
from skillscape.training.state import Collector, RunState, unfit
from skillscape.types import Metrics

BLOCK = 10
"""Environment steps of a block, or a few more with several copies: the maximum lag of the acting policy."""
LOG_EVERY = 1_000
ENOUGH_EPISODES = 20
"""Number of complete episodes after which it is an error that none is long enough to learn from."""


class EnvRunner:
    """Steps copies of an environment in parallel and adds complete episodes to the replay buffer."""

    def __init__(self, config: RunConfig, envs: Sequence[HostEnv], replay: Replay) -> None:
        """No episode starts before ``advance`` or ``restored``."""
        self._config, self._envs, self._replay = config, envs, replay
        self._skills = config.reward.skills
        key = jax.random.fold_in(jax.random.key(config.seed), 0xAC7)
        self._action_key, self._skill_key = jax.random.split(key)
        self._act = compiled_act(config.backbone, True)
        self._fold = jax.jit(jax.random.fold_in)
        self._sample = jax.jit(lambda key, step: self._skills.sample(jax.random.fold_in(key, step), 1)[0])
        schedule = config.backbone.schedule
        self._warmup_steps, self._warmup_policy = schedule.warmup_steps, schedule.warmup_policy
        # A grid search acts with the policy from the first step on, each candidate in turn.
        self._trials = config.strategy.trials(self._skills)
        self.initial_skill = config.strategy.initial(self._skills, jax.random.fold_in(self._skill_key, 2**31 - 1))
        """The skill of the whole run, if it is fixed from its start."""
        self.episode_return = math.nan
        """Task return of the newest complete episode."""
        self.tracked = config.measures_positions and envs[0].position is not None
        """Whether positions of the body are recorded."""
        self.visited = Visited()
        self._begun = 0
        self._episodes: list[Episode | None] = [None] * len(envs)
        self._skill = np.zeros((len(envs), self._skills.width), np.float32)
        self._carry: PyTree = config.backbone.initial_carry(len(envs))

    def advance(self, params: PyTree, skill: Float[np.ndarray, " z"] | None, begin: int, end: int) -> None:
        """Take the steps from ``begin`` to ``end`` with these policy parameters, each copy in its turn.

        ``skill``: that of the whole run, or None where skills are sampled or tried.
        """
        step, copy, copies = begin, 0, len(self._envs)
        try:
            while step < end:
                # Whose turn it is follows from the step, so that all copies come equally far wherever blocks end.
                moving = [at % copies for at in range(step, min(step + copies, end))]
                for at, copy in enumerate(moving, step):
                    if self._episodes[copy] is None:
                        self._begin_episode(copy)
                    self._skill[copy] = self._next_skill(copy, skill, at)
                actions = self._actions(params, step, moving)
                for copy, action in zip(moving, actions, strict=True):
                    self._take_step(copy, action)
                step += len(moving)
        except EnvFault as fault:
            fault.step = step + (copy - step) % copies + 1
            raise

    def _begin_episode(self, copy: int) -> None:
        episode = Episode(self._begun, [])
        obs = self._envs[copy].reset(self._episode_seed(episode.number))
        self._check_finite(obs, 0.0)
        episode.obs.append(obs)
        episode.locate(self._envs[copy], self.tracked)
        self._begun += 1
        self._episodes[copy] = episode
        fresh = self._config.backbone.initial_carry(len(self._envs))
        self._carry = fresh if len(self._envs) == 1 else with_rows(self._carry, fresh, [copy])

    def _take_step(self, copy: int, action: Float[np.ndarray, " a"]) -> None:
        episode = self._episodes[copy]
        assert episode is not None
        result = self._envs[copy].step(action)
        self._check_finite(result.obs, result.reward)
        episode.action.append(action)
        episode.skill.append(self._skill[copy].copy())
        episode.reward.append(result.reward)
        episode.discount.append(float(not result.terminated))
        episode.obs.append(result.obs)
        episode.locate(self._envs[copy], self.tracked)
        if result.terminated or result.truncated:
            self._replay.begin(episode.obs[0])
            for row in episode.rows():
                self._replay.add(*row)
            self._replay.finish()
            self.episode_return = sum(episode.reward, 0.0)
            if self.tracked:
                self.visited = self.visited.after(np.stack(episode.position), self._envs[copy].spec.horizon)
            self._episodes[copy] = None

    def _check_finite(self, obs: Shaped[np.ndarray, "..."], reward: float) -> None:
        if not (np.all(np.isfinite(obs)) and math.isfinite(reward)):
            raise EnvFault(f"{self._config.env} gave a state or reward that is not finite")

    def _episode_seed(self, number: int) -> int:
        return int(np.random.SeedSequence([self._config.seed, number]).generate_state(1)[0] >> 1)

    def _next_skill(self, copy: int, skill: Float[np.ndarray, " z"] | None, step: int) -> Float[np.ndarray, " z"]:
        if skill is not None:
            return skill
        if self._trials is not None and step < self._warmup_steps:
            tried: Float[np.ndarray, " z"] = self._trials[step * len(self._trials) // self._warmup_steps]
            return tried
        episode, period = self._episodes[copy], self._config.resample_every
        taken = 0 if episode is None else len(episode.action)
        if taken == 0 or (period is not None and taken % period == 0):
            return np.asarray(self._sample(self._skill_key, step))
        held: Float[np.ndarray, " z"] = self._skill[copy]
        return held

    def _actions(self, params: PyTree, step: int, moving: list[int]) -> Float[np.ndarray, "n a"]:
        if step < self._warmup_steps and self._trials is None and not self._warmup_policy:
            seeds = [[self._config.seed, 0xAC7, step + ahead] for ahead in range(len(moving))]
            size = self._envs[0].spec.action_dim
            return np.array([np.random.default_rng(seed).uniform(-1, 1, size) for seed in seeds], np.float32)
        # A copy before its first episode gets a placeholder observation, and its action is ignored.
        placeholder = next(episode for episode in self._episodes if episode is not None).obs[-1]
        obs = np.stack([placeholder if episode is None else episode.obs[-1] for episode in self._episodes])
        action, carry = self._act(params, self._carry, obs, self._skill, self._fold(self._action_key, step))
        self._carry = carry if len(moving) == len(self._envs) else with_rows(self._carry, carry, moving)
        return np.asarray(action)[moving]

    def evaluation_skill(self, step: int) -> Float[np.ndarray, " z"]:
        """A skill drawn from the prior, determined by the step."""
        return np.asarray(self._sample(jax.random.fold_in(self._skill_key, 1), step))

    def trajectories(self) -> list[Trajectory]:
        """The steps so far of the unfinished episodes."""
        return [episode.trajectory() for episode in self._episodes if episode is not None and episode.action]

    def snapshot(self) -> RunnerSnapshot:
        """A cheap snapshot of the present state."""
        episodes = tuple((episode, 0 if episode is None else len(episode.action)) for episode in self._episodes)
        return RunnerSnapshot(self._begun, episodes, self._skill.copy(), self._carry, self.episode_return, self.visited)

    def metadata(self, snapshot: RunnerSnapshot) -> dict[str, Any]:
        """A snapshot as JSON, for a checkpoint."""
        return {
            "begun": snapshot.begun,
            "episode_return": None if math.isnan(snapshot.episode_return) else snapshot.episode_return,
            "visited": snapshot.visited.to_json(),
            "skills": snapshot.skills.tolist(),
            # The carry comes from earlier policies, so it cannot be recomputed.
            "carry": [np.asarray(part).tolist() for part in jax.tree.leaves(snapshot.carry)],
            "episodes": [None if episode is None else episode.record(steps) for episode, steps in snapshot.episodes],
        }

    def restored(self, metadata: dict[str, Any]) -> Callable[[], None]:
        """Restore ``metadata``, except the environments; the returned function replays their episodes."""
        copies = len(self._envs)
        self._begun, self.visited = int(metadata["begun"]), Visited.from_json(metadata["visited"])
        self.episode_return = math.nan if metadata["episode_return"] is None else float(metadata["episode_return"])
        self._skill = np.asarray(metadata["skills"], np.float32).reshape(copies, self._skills.width)
        leaves, structure = jax.tree.flatten(self._config.backbone.initial_carry(copies))
        stored = zip(metadata["carry"], leaves, strict=True)
        carry = [jnp.asarray(part, leaf.dtype).reshape(leaf.shape) for part, leaf in stored]
        self._carry = jax.tree.unflatten(structure, carry)
        widths = self._envs[0].spec.action_dim, self._skills.width
        records = [None if values is None else EpisodeRecord.read(values, *widths) for values in metadata["episodes"]]
        if len(records) != copies:
            raise ValueError(f"{len(records)} episodes of {copies} copies")

        def replay_episodes() -> None:
            for copy, record in enumerate(records):
                if record is not None:
                    env, seed = self._envs[copy], self._episode_seed(record.number)
                    self._episodes[copy] = record.replayed(env, seed, self._config.env, tracked=self.tracked)

        return replay_episodes


class _Before(NamedTuple):
    """The run before its newest block."""

    state: RunState
    metrics: Metrics
    runner: RunnerSnapshot
    replay: ReplaySnapshot
    step: int
    skill: Float[np.ndarray, " z"] | None


@final
class HostCollector(Collector):
    """Advances by blocks: environments in this thread, updates in another."""

    def __init__(self, run: Run, state: RunState, metadata: dict[str, Any] | None) -> None:
        """Start at ``state``; ``metadata``: that of its checkpoint, or None."""
        self._run, self._config = run, run.config
        with ExitStack() as stack:
            envs = [stack.enter_context(closing(self._config.host_env())) for _ in range(self._config.copies)]
            self._replay = run.replay(envs[0].spec, fresh=metadata is None)
            self._runner = EnvRunner(self._config, envs, self._replay)
            self._pool = stack.enter_context(ThreadPoolExecutor(1))
            self.state = state
            self.step = 0
            self.skill = self._runner.initial_skill
            self._metrics: Metrics = {}
            if metadata is not None:
                self._restore(metadata)
            self._before = self._now()
            self._stack = stack.pop_all()

    def _restore(self, metadata: dict[str, Any]) -> None:
        try:
            self._replay.restore(metadata["replay"])
            self.step = int(metadata["step"])
            width = self._config.reward.skills.width
            self.skill = None if metadata["skill"] is None else np.asarray(metadata["skill"], np.float32).reshape(width)
            self._metrics = {name: jnp.asarray(value, jnp.float32) for name, value in metadata["metrics"].items()}
            rejoin = self._runner.restored(metadata["envs"])
        except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
            raise unfit(self._run.checkpoints) from error
        rejoin()

    def _now(self) -> _Before:
        return _Before(
            self.state, self._metrics, self._runner.snapshot(), self._replay.snapshot(), self.step, self.skill
        )

    def advance(self) -> None:
        """Collect a block of steps, and run its updates in parallel."""
        self._before = before = self._now()
        end = self._next_boundary()
        params = self._config.backbone.policy_params(self.state.agent)
        episode_index = before.replay.episode_index
        learned = self._pool.submit(self._learn, self.state, self._updates(self.step, end), episode_index)
        try:
            try:
                self._runner.advance(params, self.skill, self.step, end)
            finally:
                self.state, self._metrics = learned.result()
        except UserError:
            self.rewind()
            raise
        self.step = end
        self.state = self.state._replace(step=jnp.asarray(end, jnp.int32))
        if end == self._config.backbone.schedule.warmup_steps and self._config.strategy.needs_warmup_data:
            trajectories = [*self._replay.trajectories(), *self._runner.trajectories()]
            self.skill = selected_skill(self._run, self.state, trajectories)

    def rewind(self) -> None:
        """Restore the state before the newest block for a checkpoint; the environments are not restored."""
        self.state, self._metrics, _, _, self.step, self.skill = self._before

    def _next_boundary(self) -> int:
        """The end of the next block: the next step at which something is due, at most."""
        step, config = self.step, self._config
        # A multiple of the number of copies, so that the policy acts on all of them at once.
        block = -(-BLOCK // config.copies) * config.copies
        multiples = [(step // size + 1) * size for size in (block, LOG_EVERY, config.evaluation.every)]
        fixed = [at for at in (*config.snapshots, config.backbone.schedule.warmup_steps, config.steps) if at > step]
        return min(*multiples, *fixed)

    def _updates(self, begin: int, end: int) -> int:
        """The updates that are due in a block."""
        schedule = self._config.backbone.schedule
        first = max(begin, schedule.warmup_steps)
        return max(0, -(-end // schedule.update_every) - -(-first // schedule.update_every))

    def _learn(self, state: RunState, updates: int, episode_index: EpisodeIndex) -> tuple[RunState, Metrics]:
        metrics, config = self._metrics, self._config
        fixed_skill = self.skill if config.strategy.needs_warmup_data else None
        # Several updates overwrite a copy: the state of the block's start still acts, and ``rewind`` restores it.
        donate = updates > 1
        state = copied(state) if donate else state
        update = compiled_update(config.backbone, config.reward, donate)
        for _ in range(updates):
            batch = config.backbone.sample(self._replay, episode_index, config.reward.updates_per_step, fixed_skill)
            if batch is None:
                self._check_lengths(episode_index)
                break
            # Dispatch is asynchronous: the next batch is sampled during this update.
            state, metrics = update(state, batch)
        jax.block_until_ready(state.key)
        return state, metrics

    def _check_lengths(self, episode_index: EpisodeIndex) -> None:
        """Raise an error if every episode so far was too short to learn from.

        A run that has dropped old episodes from the buffer may have learned from them, and continues.
        """
        if len(episode_index.episodes) < ENOUGH_EPISODES or not episode_index.is_all:
            return
        longest = int(episode_index.episodes[:, 1].max())
        short = self._config.backbone.too_short(longest)
        if short is not None:
            raise UserError(
                f"The longest of the first {len(episode_index.episodes)} episodes of {self._config.env} has {longest} "
                f"steps, but {short.needed} are learned from; train again with --force and set {flag_at_most(short)}."
            )

    @property
    def log_due(self) -> bool:
        """A row every ``LOG_EVERY`` steps."""
        return self.step % LOG_EVERY == 0

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the newest update, and the return of the newest complete episode."""
        metrics = {name: float(value) for name, value in sorted(self._metrics.items())}
        return {**metrics, "episode_return": self._runner.episode_return} if metrics else {}

    @property
    def measures(self) -> dict[str, float]:
        """Coverage of the training positions so far, where they are tracked."""
        return self._runner.visited.measures if self._runner.tracked else {}

    def metadata(self) -> dict[str, Any]:
        """Snapshots of environments and replay buffer, the skill, and the newest metrics."""
        rewound = self.step == self._before.step
        runner, replay = (
            (self._before.runner, self._before.replay)
            if rewound
            else (self._runner.snapshot(), self._replay.snapshot())
        )
        return {
            "step": self.step,
            "skill": None if self.skill is None else self.skill.tolist(),
            "envs": self._runner.metadata(runner),
            "replay": self._replay.metadata(replay),
            "metrics": {name: float(value) for name, value in self._metrics.items()},
        }

    def evaluation_skill(self) -> Float[np.ndarray, " z"]:
        """The skill of the run, or a draw determined by the step."""
        return self._runner.evaluation_skill(self.step) if self.skill is None else self.skill

    def close(self) -> None:
        """Close the environments and end the update thread."""
        self._stack.close()


def update_step(backbone: Backbone[Any, Any], objective: Objective[Any]) -> Any:  # noqa: ANN401
    """One update as a pure function: (state, batch) → (state, metrics)."""

    def update(state: RunState, batch: Any) -> tuple[RunState, Metrics]:  # noqa: ANN401  the backbone's own type
        key, learn_key = jax.random.split(state.key)
        agent, objective_state, metrics = backbone.learn(state.agent, objective, state.objective, batch, learn_key)
        return RunState(key, agent, objective_state, state.step), metrics

    return update


@cache
def compiled_update(backbone: Backbone[Any, Any], objective: Objective[Any], donate: bool) -> Any:  # noqa: ANN401
    """The compiled update, shared by runs of equal settings.

    With ``donate`` it overwrites the state that it is given, which cannot be read afterwards.
    """
    return jax.jit(update_step(backbone, objective), donate_argnums=0 if donate else ())


@jax.jit
def copied(state: RunState) -> RunState:
    """The state in buffers of its own, no two leaves sharing one."""
    copy: RunState = jax.tree.map(jnp.copy, state)
    return copy
