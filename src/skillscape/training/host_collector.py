"""Environments in ordinary Python on one core while the backbone learns from a replay buffer on the other.

Time goes by in short blocks. During a block the environments act with the policy as it was at the block's start, and
the learner draws from the episodes that were complete by then; at its end the two meet. So what is computed does not
depend on which of them was faster, and a checkpoint taken between two blocks is the whole state of the run.
"""

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import cache
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from skillscape.backbones.base import Backbone
from skillscape.config import RunConfig, flag_at_most
from skillscape.errors import UserError
from skillscape.objectives.base import Objective
from skillscape.replay import Mark, Replay, Visible
from skillscape.training.lanes import Lanes
from skillscape.training.run import KEPT_CHECKPOINTS, Run, judged_skill
from skillscape.training.state import Collector, TrainState, unfit
from skillscape.types import EnvSpec, Metrics

BLOCK = 10
"""Environment steps of a block, or a few more with several copies: how far the acting policy may lag behind."""
LOG_EVERY = 1_000
ENOUGH_EPISODES = 20
"""Complete episodes after which it is no accident that none of them can be learned from."""


def update_step(config: RunConfig) -> Any:  # noqa: ANN401  (state, batch) -> (state, metrics)
    """One learning step as a pure function."""
    return _update_step(config.backbone, config.reward)


def _update_step(backbone: Backbone[Any, Any], objective: Objective[Any]) -> Any:  # noqa: ANN401
    def update(state: TrainState, batch: Any) -> tuple[TrainState, Metrics]:  # noqa: ANN401  the backbone's own type
        key, learn_key = jax.random.split(state.key)
        agent, objective_state, metrics = backbone.learn(state.agent, objective, state.objective, batch, learn_key)
        return TrainState(key, agent, objective_state, state.step), metrics

    return update


@cache
def compiled_update(backbone: Backbone[Any, Any], objective: Objective[Any]) -> Any:  # noqa: ANN401
    """The learning step of all runs of equal settings, whatever their seeds, compiled once."""
    return jax.jit(_update_step(backbone, objective))


class _Before(NamedTuple):
    """The run before its newest block."""

    state: TrainState
    metrics: Metrics
    lanes: Any
    replay: Mark
    step: int
    skill: Float[np.ndarray, " z"] | None


@final
class HostCollector(Collector):
    """Advances by blocks: the environments in this thread, the learner in its own."""

    def __init__(self, run: Run, state: TrainState, notes: dict[str, Any] | None) -> None:
        """Begin at ``state``; ``notes`` are those of its checkpoint, if it has one."""
        self._run, self._config = run, run.config
        with ExitStack() as stack:
            envs = [stack.enter_context(closing(self._config.host_env())) for _ in range(self._config.copies)]
            self._replay = _replay(run, envs[0].spec, fresh=notes is None)
            self._lanes = Lanes(self._config, envs, self._replay)
            self._pool = stack.enter_context(ThreadPoolExecutor(1))
            self._update = compiled_update(self._config.backbone, self._config.reward)
            self.state = state
            self.step = 0
            self.skill = self._lanes.initial_skill
            self._metrics: Metrics = {}
            if notes is not None:
                self._restore(notes)
            self._before = self._now()
            self._stack = stack.pop_all()

    def _restore(self, notes: dict[str, Any]) -> None:
        try:
            self._replay.restore(notes["replay"])
            self.step = int(notes["step"])
            width = self._config.reward.skills.width
            self.skill = None if notes["skill"] is None else np.asarray(notes["skill"], np.float32).reshape(width)
            self._metrics = {name: jnp.asarray(value, jnp.float32) for name, value in notes["metrics"].items()}
            rejoin = self._lanes.restored(notes["lanes"])
        except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
            raise unfit(self._run.checkpoints) from error
        rejoin()

    def _now(self) -> _Before:
        return _Before(self.state, self._metrics, self._lanes.mark(), self._replay.mark(), self.step, self.skill)

    def advance(self) -> None:
        """One block."""
        self._before = before = self._now()
        end = self._next_boundary()
        params = self._config.backbone.policy_params(self.state.agent)
        visible = before.replay.visible
        learned = self._pool.submit(self._learn, self.state, self._updates(self.step, end), visible)
        try:
            try:
                self._lanes.advance(params, self.skill, self.step, end)
            finally:
                self.state, self._metrics = learned.result()
        except UserError:
            self.rewind()
            raise
        self.step = end
        self.state = self.state._replace(step=jnp.asarray(end, jnp.int32))
        if end == self._config.backbone.schedule.random_steps and self._config.strategy.judges:
            segments = [*self._replay.segments(), *self._lanes.segments()]
            self.skill = judged_skill(self._run, self.state, segments)

    def rewind(self) -> None:
        """Go back to before the newest block, as far as a checkpoint shows it: the environments do not go back."""
        self.state, self._metrics, _, _, self.step, self.skill = self._before

    def _next_boundary(self) -> int:
        """Blocks end where something is due, so that it happens at its exact step."""
        step, config = self.step, self._config
        # A whole number of turns of all copies, so that the policy acts on all of them at once.
        block = -(-BLOCK // config.copies) * config.copies
        multiples = [(step // size + 1) * size for size in (block, LOG_EVERY, config.evaluation.every)]
        fixed = [at for at in (*config.snapshots, config.backbone.schedule.random_steps, config.steps) if at > step]
        return min(*multiples, *fixed)

    def _updates(self, begin: int, end: int) -> int:
        """Learning steps that are due at the environment steps of a block."""
        schedule = self._config.backbone.schedule
        first = max(begin, schedule.random_steps)
        return max(0, -(-end // schedule.update_every) - -(-first // schedule.update_every))

    def _learn(self, state: TrainState, updates: int, visible: Visible) -> tuple[TrainState, Metrics]:
        metrics, config = self._metrics, self._config
        chosen = self.skill if config.strategy.judges else None
        for _ in range(updates):
            batch = config.backbone.sample(self._replay, visible, config.reward.updates_per_step, chosen)
            if batch is None:
                self._check_lengths(visible)
                break
            # Dispatch is asynchronous: the next batch is drawn while this one is learned from.
            state, metrics = self._update(state, batch)
        jax.block_until_ready(state.key)
        return state, metrics

    def _check_lengths(self, visible: Visible) -> None:
        """Refuse to go on where every episode so far was too short to learn from.

        What is saved stays as it is. A run that has given up old episodes may have learned from them, and goes on.
        """
        if len(visible.episodes) < ENOUGH_EPISODES or not visible.is_all:
            return
        longest = int(visible.episodes[:, 1].max())
        short = self._config.backbone.too_short(longest)
        if short is not None:
            raise UserError(
                f"The longest of the first {len(visible.episodes)} episodes of {self._config.env} has {longest} steps, "
                f"but {short.needed} are learned from; train again with --force and set {flag_at_most(short)}."
            )

    @property
    def log_due(self) -> bool:
        """Every thousand steps."""
        return self.step % LOG_EVERY == 0

    @property
    def metrics(self) -> dict[str, float]:
        """The newest learning step's, and the return of the newest complete episode."""
        metrics = {name: float(value) for name, value in sorted(self._metrics.items())}
        return {**metrics, "episode_return": self._lanes.episode_return} if metrics else {}

    def notes(self) -> dict[str, Any]:
        """Both sides of the run, and the metrics that a row before the next update shows."""
        rewound = self.step == self._before.step
        lanes, mark = (
            (self._before.lanes, self._before.replay) if rewound else (self._lanes.mark(), self._replay.mark())
        )
        return {
            "step": self.step,
            "skill": None if self.skill is None else self.skill.tolist(),
            "lanes": self._lanes.notes(lanes),
            "replay": self._replay.notes(mark),
            "metrics": {name: float(value) for name, value in self._metrics.items()},
        }

    def evaluation_skill(self) -> Float[np.ndarray, " z"]:
        """That of the run, or a draw that this step determines."""
        return self._lanes.drawn_for_evaluation(self.step) if self.skill is None else self.skill

    def close(self) -> None:
        """Close the environments and end the learner's thread."""
        self._stack.close()


def _replay(run: Run, spec: EnvSpec, *, fresh: bool) -> Replay:
    """The run's buffer; files that no checkpoint speaks of are left over from a start that was killed."""
    config = run.config
    schedule = config.backbone.schedule
    folder = run.folder / "replay"
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    return Replay(
        spec,
        config.reward.skills.width,
        # A closing row per episode at most doubles the rows of a short run.
        capacity=min(schedule.capacity, 2 * config.steps),
        steps_ahead=schedule.steps_ahead,
        discount=schedule.discount,
        seed=config.seed,
        # Two intervals between checkpoints, so that the last two can both be gone back to, and what is under way then.
        slack=2 * KEPT_CHECKPOINTS * config.evaluation.every + (config.copies - 1) * (spec.horizon + 1),
        folder=folder,
    )
