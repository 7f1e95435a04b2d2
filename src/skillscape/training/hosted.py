"""The hosted loop: an environment in ordinary Python on one core while the learner runs on the other.

Time goes by in short blocks. During a block the environment acts with the policy as it was at the block's start, and
the learner draws from the episodes that were complete by then; at its end the two meet. So what is computed does not
depend on which of them was faster, and a checkpoint taken between two blocks is the whole state of the run.
"""

import math
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree, Shaped

from skillscape.adaptation import best_tried, candidates, lasting_skill, regress
from skillscape.envs.base import HostEnv
from skillscape.errors import EnvFault, Interrupted, Unwritable, UserError
from skillscape.replay import Mark, Replay, Visible
from skillscape.training.checkpoint import keep_newest
from skillscape.training.fused import TrainState
from skillscape.training.jobs import Job, JobRun
from skillscape.training.log import MetricsLog, Pace
from skillscape.types import Metrics, Sequences, Transitions

BLOCK = 10
"""Environment steps of a block: how far the acting policy may lag behind the learner."""
LOG_EVERY = 1_000
KEPT_CHECKPOINTS = 2
ENOUGH_EPISODES = 20
"""Complete episodes after which it is no accident that none of them can be learned from."""

Evaluate = Callable[[JobRun, PyTree, Float[np.ndarray, " z"], int], Mapping[str, float]]
"""Measures an acting policy under a skill at a step; what it returns is logged."""
OnProgress = Callable[[JobRun, int, str, Mapping[str, float]], None]
"""Told at every logged row: run, step, pace in words, the newest metrics and measures."""


def update_step(job: Job) -> Callable[[TrainState, Transitions | Sequences], tuple[TrainState, Metrics]]:
    """One learning step as a pure function."""
    objective = job.rewarded

    def update(state: TrainState, batch: Transitions | Sequences) -> tuple[TrainState, Metrics]:
        key, learn_key = jax.random.split(state.key)
        agent, objective_state, metrics = job.backbone.learn(state.agent, objective, state.objective, batch, learn_key)
        return TrainState(key, agent, objective_state, state.step), metrics

    return update


class Collector:
    """The environment's side: episodes, the skill that acts, and the steps put into the replay buffer."""

    def __init__(self, job: Job, env: HostEnv, replay: Replay) -> None:
        """Nothing happens until ``advance`` or ``restore``."""
        self._job, self._env, self._replay = job, env, replay
        self._skills = job.rewarded.skills
        key = jax.random.fold_in(jax.random.key(job.seed), 0xAC7)
        self._action_key, self._skill_key = jax.random.split(key)
        backbone = job.backbone

        def act(policy: PyTree, carry: PyTree, obs: Any, skill: Any, key: Any, step: Any) -> Any:  # noqa: ANN401
            action, carry = backbone.act(policy, carry, obs[None], skill[None], jax.random.fold_in(key, step), True)
            return action[0], carry

        self._act = jax.jit(act)
        self._draw = jax.jit(lambda key, step: self._skills.sample(jax.random.fold_in(key, step), 1)[0])
        self._random_steps = job.backbone.schedule.random_steps
        self._policy_first = job.backbone.schedule.policy_first
        # A grid search acts with the policy from the first step on, each candidate in its turn.
        self._tried = candidates(self._skills) if job.strategy.kind == "grid" else None
        self.step = 0
        """Environment steps taken."""
        self.lasting = lasting_skill(job.strategy, self._skills, jax.random.fold_in(self._skill_key, 2**31 - 1))
        """The skill of the whole run, where there is one."""
        self.episode_return = math.nan
        """Sum of the task's rewards in the newest complete episode."""
        self._episode = 0
        self._in_episode = 0
        self._return = 0.0
        self._obs: Shaped[np.ndarray, "..."] | None = None
        self._skill = np.zeros(self._skills.width, np.float32)
        self._carry: PyTree = ()

    def advance(self, policy: PyTree, steps: int) -> None:
        """Take ``steps`` steps with this policy."""
        for _ in range(steps):
            self._take_step(policy)

    def _take_step(self, policy: PyTree) -> None:
        obs = self._begin_episode() if self._obs is None else self._obs
        self._choose_skill()
        action = self._choose_action(policy, obs)
        result = self._env.step(action)
        self._check_finite(result.obs, result.reward)
        self._replay.add(action, self._skill, result.reward, float(not result.terminated), result.obs)
        self.step += 1
        self._in_episode += 1
        self._return += result.reward
        self._obs = result.obs
        if result.terminated or result.truncated:
            self._replay.finish()
            self.episode_return = self._return
            self._obs = None
            self._episode += 1

    def _begin_episode(self) -> Shaped[np.ndarray, "..."]:
        self._in_episode, self._return = 0, 0.0
        self._carry = self._job.backbone.initial_carry(1)
        obs = self._env.reset(self._episode_seed())
        self._check_finite(obs, 0.0)
        self._replay.begin(obs)
        return obs

    def _check_finite(self, obs: Shaped[np.ndarray, "..."], reward: float) -> None:
        if not (np.all(np.isfinite(obs)) and math.isfinite(reward)):
            raise EnvFault(f"{self._job.env} gave a state or reward that is not finite")

    def _episode_seed(self) -> int:
        return int(np.random.SeedSequence([self._job.seed, self._episode]).generate_state(1)[0] >> 1)

    def _choose_skill(self) -> None:
        if self.lasting is not None:
            self._skill = self.lasting
            return
        if self._tried is not None and self.step < self._random_steps:
            self._skill = self._tried[self.step * len(self._tried) // self._random_steps]
            return
        every = self._job.resample_every
        if self._in_episode == 0 or (every is not None and self._in_episode % every == 0):
            self._skill = np.asarray(self._draw(self._skill_key, self.step))

    def _choose_action(self, policy: PyTree, obs: Shaped[np.ndarray, "..."]) -> Float[np.ndarray, " a"]:
        if self.step < self._random_steps and self._tried is None and not self._policy_first:
            generator = np.random.default_rng([self._job.seed, 0xAC7, self.step])
            return generator.uniform(-1, 1, self._env.spec.action_dim).astype(np.float32)
        action, self._carry = self._act(policy, self._carry, obs, self._skill, self._action_key, self.step)
        return np.asarray(action)

    def skill_for_evaluation(self) -> Float[np.ndarray, " z"]:
        """The run's skill, or a draw that this step determines."""
        if self.lasting is not None:
            return self.lasting
        return np.asarray(self._draw(jax.random.fold_in(self._skill_key, 1), self.step))

    def notes(self) -> dict[str, Any]:
        """All that a checkpoint has to say of this side."""
        return {
            "step": self.step,
            "episode": self._episode,
            "in_episode": self._in_episode,
            "under_way": self._obs is not None,
            "return": self._return,
            "episode_return": None if math.isnan(self.episode_return) else self.episode_return,
            "skill": self._skill.tolist(),
            "lasting": None if self.lasting is None else self.lasting.tolist(),
            # What acting remembers was made by policies that are gone: it cannot be computed again.
            "carry": [np.asarray(part).tolist() for part in jax.tree.leaves(self._carry)],
        }

    def restore(self, notes: dict[str, Any]) -> None:
        """Go back to ``notes``, all but the environment: see ``rejoin``."""
        self.step, self._episode, self._in_episode = (int(notes[name]) for name in ("step", "episode", "in_episode"))
        self._return = float(notes["return"])
        self.episode_return = math.nan if notes["episode_return"] is None else float(notes["episode_return"])
        self._skill = np.asarray(notes["skill"], np.float32).reshape(self._skills.width)
        self.lasting = None if notes["lasting"] is None else np.asarray(notes["lasting"], np.float32)
        self._obs = None
        if notes["under_way"]:
            self._obs, _ = self._replay.current()
            like, structure = jax.tree.flatten(self._job.backbone.initial_carry(1))
            kept = [np.asarray(part, one.dtype) for part, one in zip(notes["carry"], like, strict=True)]
            self._carry = jax.tree.unflatten(structure, kept)

    def rejoin(self) -> None:
        """Play the episode under way again from its seed and the actions in the buffer."""
        if self._obs is None:
            return
        obs = self._env.reset(self._episode_seed())
        for action in self._replay.current()[1]:
            obs = self._env.step(action).obs
        if not np.array_equal(obs, self._obs):
            raise UserError(
                f"{self._job.env} does not repeat itself: the same seed and actions led to another state, so the "
                "run cannot go on exactly; seed the environment in reset(seed=…) and train again with --force."
            )


def train_job(run: JobRun, start: TrainState, evaluate: Evaluate, on_progress: OnProgress) -> None:
    """Bring one run to the end of its budget, from its newest checkpoint or from ``start``. Ctrl-C saves."""
    with ExitStack() as stack:
        stack.enter_context(run.locked())
        found = run.newest()
        if found is not None and int(found[0].step) == run.end:
            return
        loop = _Loop(run, start, found, evaluate, on_progress, stack)
        loop.to_the_end(stack.enter_context(_asked_to_stop()))


class _Loop:
    """What one run needs while it is trained."""

    def __init__(
        self,
        run: JobRun,
        start: TrainState,
        found: tuple[TrainState, dict[str, Any]] | None,
        evaluate: Evaluate,
        on_progress: OnProgress,
        stack: ExitStack,
    ) -> None:
        self._run, self._job = run, run.config
        self._evaluate, self._on_progress = evaluate, on_progress
        env = self._job.make_env()
        stack.callback(env.close)
        self._replay = _replay(run, env, fresh=found is None)
        self._collector = Collector(self._job, env, self._replay)
        self._state = start if found is None else found[0]
        self._metrics: Metrics = {}
        if found is not None:
            self._restore(found[1])
        step = self._collector.step
        self._fresh = found is None
        # −1: a run that begins has no rows to keep, not even one of step 0.
        resume_at = -1 if self._fresh else step
        self._metrics_log = stack.enter_context(MetricsLog(run.folder, "metrics", resume_at))
        self._evaluation_log = stack.enter_context(MetricsLog(run.folder, "evaluation", resume_at))
        self._pool = stack.enter_context(ThreadPoolExecutor(1))
        self._update = jax.jit(update_step(self._job))
        self._pace = Pace(step, self._job.steps)
        self._row: dict[str, float] = {}
        self._measures: dict[str, float] = {}
        # The run as it was before the newest block: what is kept of it where the environment breaks.
        self._before: tuple[TrainState, Metrics, dict[str, Any], Mark] | None = None

    def _restore(self, notes: dict[str, Any]) -> None:
        try:
            self._replay.restore(notes["replay"])
            self._collector.restore(notes["collector"])
            self._metrics = {name: jnp.asarray(value, jnp.float32) for name, value in notes["metrics"].items()}
        except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
            raise UserError(
                f"The newest checkpoint in {self._run.checkpoints} does not fit this run; delete it to go on from "
                "the one before it, or start again with --force."
            ) from error
        self._collector.rejoin()

    def to_the_end(self, stop: threading.Event) -> None:
        collector, job = self._collector, self._job
        if self._fresh:
            self._measure()
        while collector.step < job.steps:
            if stop.is_set():
                self._save(self._notes())
                raise Interrupted
            self._block()
            step = collector.step
            evaluated = self._run.due(step)
            logged = step % LOG_EVERY == 0 or step == job.steps
            try:
                if logged:
                    self._log()
                if step == job.backbone.schedule.random_steps and job.strategy.judges:
                    collector.lasting = self._judged_skill()
                if evaluated:
                    self._measure()
            except Unwritable:
                # As the run was before the row that is missing, so that going on writes it. What lacks room for a row
                # may lack room for this too; then the newest checkpoint stands.
                with suppress(UserError):
                    self._rewind()
                raise
            if logged:
                self._tell()
            if step in job.snapshots or step == job.steps:
                self._run.keep_snapshot(self._stepped(step))
            if evaluated:
                self._save(self._notes())

    def _block(self) -> None:
        """One block: the environment in this thread, the learner in its own."""
        collector = self._collector
        begin, end = collector.step, self._next_boundary()
        policy = self._job.backbone.policy_params(self._state.agent)
        mark = self._replay.mark()
        self._before = self._state, self._metrics, collector.notes(), mark
        updates = self._updates(begin, end)
        if updates and not self._drawable(mark.visible):
            self._check_lengths(mark.visible)
            updates = 0
        learned = self._pool.submit(self._learn, self._state, updates, mark.visible)
        try:
            collector.advance(policy, end - begin)
        except UserError as error:
            learned.result()
            raise self._broken(error, f"at step {collector.step + 1:,}") from error.__cause__
        self._state, self._metrics = learned.result()

    def _broken(self, error: UserError, where: str) -> UserError:
        """Save the run as it was before the newest block, and say where the environment broke."""
        step = self._rewind()
        saved = "nothing is lost" if step is None else f"the run is saved up to step {step:,}"
        if not isinstance(error, EnvFault):
            return error
        return UserError(f"{error.what} {where}; {saved}: {error.advice} and --resume.")

    def _rewind(self) -> int | None:
        """Save the run as it was before the newest block; its step, or None where there was no block yet."""
        if self._before is None:
            return None
        self._state, self._metrics, notes, mark = self._before
        self._save({"collector": notes, "replay": self._replay.notes(mark)})
        return int(notes["step"])

    def _judged_skill(self) -> Float[np.ndarray, " z"]:
        """The skill that the steps so far speak for."""
        job, segments = self._job, self._replay.segments()
        if job.strategy.kind == "grid":
            return best_tried(segments)
        if job.strategy.kind == "infer" and job.objective is not None:
            show = jax.jit(job.backbone.objective_obs)
            states = [show(self._state.agent, one.obs, one.action) for one in segments if len(one.reward)]
            rewards = jnp.concatenate([segment.reward for segment in segments])
            return np.asarray(job.objective.infer_skill(self._run.lent_model(), jnp.concatenate(states), rewards))
        return regress(job.backbone, self._state.agent, job.rewarded.skills, segments)

    def _next_boundary(self) -> int:
        """Blocks end where something is due, so that it happens at its exact step."""
        step, job = self._collector.step, self._job
        multiples = [(step // size + 1) * size for size in (BLOCK, LOG_EVERY, job.evaluate_every)]
        fixed = [one for one in (*job.snapshots, job.backbone.schedule.random_steps, job.steps) if one > step]
        return min(*multiples, *fixed)

    def _updates(self, begin: int, end: int) -> int:
        """Learning steps that are due at the environment steps of a block."""
        schedule = self._job.backbone.schedule
        first = max(begin, schedule.random_steps)
        return max(0, -(-end // schedule.update_every) - -(-first // schedule.update_every))

    def _learn(self, state: TrainState, updates: int, visible: Visible) -> tuple[TrainState, Metrics]:
        metrics = self._metrics
        for _ in range(updates):
            # Dispatch is asynchronous: the next batch is drawn while this one is learned from.
            state, metrics = self._update(state, self._draw(visible))
        jax.block_until_ready(state.key)
        return state, metrics

    def _drawable(self, visible: Visible) -> bool:
        """Whether there is anything to learn from yet."""
        if self._job.backbone.view == "sequences":
            return len(visible.long_enough(self._job.backbone.schedule.sequence_length)) > 0
        return visible.drawable > 0

    def _check_lengths(self, visible: Visible) -> None:
        """Refuse to go on where every episode so far was too short to learn from.

        What is saved stays as it is. A run that has given up old episodes may have learned from them, and goes on.
        """
        if len(visible.episodes) < ENOUGH_EPISODES or not visible.is_all:
            return
        job, steps = self._job, int(visible.episodes[:, 1].max())
        schedule = job.backbone.schedule
        needed, setting, most = f"returns over {schedule.steps_ahead} steps", "steps_ahead", steps
        if job.backbone.view == "sequences":
            needed, setting, most = f"sequences of {schedule.sequence_length} states", "sequence_length", steps + 1
        raise UserError(
            f"The longest of the first {len(visible.episodes)} episodes of {job.env} has {steps} steps, but {needed} "
            f"are learned from; {job.advice(setting, most, first='train again with --force and')}."
        )

    def _draw(self, visible: Visible) -> Transitions | Sequences:
        schedule = self._job.backbone.schedule
        if self._job.backbone.view == "sequences":
            drawn = self._replay.sample_sequences(schedule.batch_size, schedule.sequence_length, visible)
            chosen = self._collector.lasting if self._job.strategy.judges else None
            # What is imagined goes on under the skill that was chosen, also from states that others led to.
            return drawn if chosen is None else drawn._replace(skill=jnp.broadcast_to(chosen, drawn.skill.shape))
        return self._replay.sample(schedule.batch_size * self._job.rewarded.updates_per_step, visible)

    def _notes(self) -> dict[str, Any]:
        return {"collector": self._collector.notes(), "replay": self._replay.notes(self._replay.mark())}

    def _stepped(self, step: int) -> TrainState:
        return self._state._replace(step=jnp.asarray(step, jnp.int32))

    def _save(self, notes: dict[str, Any]) -> None:
        # A row that is logged before the next update shows these.
        metrics = {name: float(value) for name, value in self._metrics.items()}
        self._run.save(self._stepped(notes["collector"]["step"]), {**notes, "metrics": metrics})
        keep_newest(self._run.checkpoints, KEPT_CHECKPOINTS)

    def _log(self) -> None:
        step, collector = self._collector.step, self._collector
        metrics = {name: float(value) for name, value in sorted(self._metrics.items())}
        broken = [name for name, value in metrics.items() if not math.isfinite(value)]
        if broken:
            raise UserError(
                f"{self._run.folder} stopped at step {step:,} because {broken[0]} is not finite; "
                "the last checkpoint is kept: lower the learning rates and train again."
            )
        self._row = {**metrics, "episode_return": collector.episode_return}
        if metrics:
            self._metrics_log.write(step, self._row, {"steps_per_second": self._pace.rate(step)})

    def _tell(self) -> None:
        step = self._collector.step
        self._on_progress(self._run, step, self._pace.describe(step), {**self._row, **self._measures})

    def _measure(self) -> None:
        collector = self._collector
        policy = self._job.backbone.policy_params(self._state.agent)
        try:
            self._measures = dict(self._evaluate(self._run, policy, collector.skill_for_evaluation(), collector.step))
        except EnvFault as fault:
            raise self._broken(fault, f"in the evaluation at step {collector.step:,}") from fault.__cause__
        self._evaluation_log.write(collector.step, self._measures)


def _replay(run: JobRun, env: HostEnv, *, fresh: bool) -> Replay:
    """The run's buffer; files that no checkpoint speaks of are left over from a start that was killed."""
    job = run.config
    schedule = job.backbone.schedule
    folder = run.folder / "replay"
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    return Replay(
        env.spec,
        job.rewarded.skills.width,
        # A closing row per episode at most doubles the rows of a short run.
        capacity=min(schedule.capacity, 2 * job.steps),
        steps_ahead=schedule.steps_ahead,
        discount=schedule.discount,
        seed=job.seed,
        # Two intervals between checkpoints, so that the last two can both be gone back to.
        slack=2 * KEPT_CHECKPOINTS * job.evaluate_every,
        folder=folder,
    )


@contextmanager
def _asked_to_stop() -> Iterator[threading.Event]:
    """An event that Ctrl-C or a polite kill sets; the second time they act as usual."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in signals}

    def ask(number: int, frame: Any) -> None:  # noqa: ANN401, ARG001
        stop.set()
        for one in signals:
            signal.signal(one, before[one])

    for number in signals:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number in signals:
            signal.signal(number, before[number])
