"""The host side of the fused loop: logs, checkpoints, evaluations and interruptions around the compiled iteration."""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from threading import Event
from typing import Any

import jax

from skillscape.errors import Interrupted, Unwritable, UserError
from skillscape.training.checkpoint import checkpoint_folder, keep_newest, save_tree
from skillscape.training.fused import TrainState, iteration
from skillscape.training.log import MetricsLog, Pace
from skillscape.training.runs import Run

Evaluate = Callable[[Run, TrainState], Mapping[str, float]]
"""Measures a state of a run; what it returns is logged."""
OnProgress = Callable[[Run, int, str, Mapping[str, float]], None]
"""Told after every iteration: run, step, pace in words, the newest metrics and measures."""

KEPT_CHECKPOINTS = 2


def train_all(runs: Sequence[Run], evaluate: Evaluate, on_progress: OnProgress, *, workers: int) -> None:
    """Train runs that differ in nothing but their seed, ``workers`` at a time, each resuming where it stands.

    Seeds share one compiled program and run in threads: XLA:CPU leaves cores idle on products this small, and batching
    the seeds with ``vmap`` gains nothing (docs/performance.md). A seed's numbers do not
    depend on its company. Ctrl-C saves every seed and raises ``Interrupted``.
    """
    stop = Event()
    config = runs[0].config
    step = jax.jit(iteration(config.maze, config.backbone, config.objective, config.backbone.episodes))
    # Compiled here once: threads that meet an uncompiled function would each compile it.
    compiled = step.lower(jax.eval_shape(runs[0].fresh_state)).compile()
    with ThreadPoolExecutor(workers) as pool:
        futures: list[Future[None]] = [pool.submit(train, run, compiled, evaluate, on_progress, stop) for run in runs]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        except KeyboardInterrupt:
            pass
        finally:
            stop.set()
            # On an error or Ctrl-C the seeds under way save themselves and the rest never begin.
            for future in futures:
                future.cancel()
    failures = [error for future in futures if not future.cancelled() and (error := future.exception())]
    for error in sorted(failures, key=lambda error: isinstance(error, Interrupted)):
        raise error
    if any(future.cancelled() for future in futures):
        raise Interrupted


def train(run: Run, compiled: Any, evaluate: Evaluate, on_progress: OnProgress, stop: Event) -> None:  # noqa: ANN401
    """Bring one run to the end of its budget; ``compiled`` maps a state to (state, metrics)."""
    with ExitStack() as stack:
        stack.enter_context(run.locked())
        state = run.newest_state() or run.fresh_state()
        end = run.end
        step = int(state.step)
        metrics_log = stack.enter_context(MetricsLog(run.folder, "metrics", step))
        evaluation_log = stack.enter_context(MetricsLog(run.folder, "evaluation", step))
        pace = Pace(step, end)
        measures: dict[str, float] = {}
        while step < end:
            if stop.is_set():
                _save(run, state, step)
                raise Interrupted
            before, (state, raw) = state, compiled(state)
            step = int(state.step)
            metrics = {name: float(value) for name, value in sorted(raw.items())}
            _check_finite(run, metrics, step)
            try:
                metrics_log.write(step, metrics, {"steps_per_second": pace.rate(step)})
                if run.due(step):
                    measures = dict(evaluate(run, state))
                    evaluation_log.write(step, measures)
            except Unwritable:
                # The state before the row that is missing, so that going on writes it. What lacks room for a row may
                # lack room for this too; then the newest checkpoint stands.
                with suppress(UserError):
                    _save(run, before, int(before.step))
                raise
            if run.due(step):
                _save(run, state, step)
            on_progress(run, step, pace.describe(step), {**metrics, **measures})
        run.share(state)


def _save(run: Run, state: TrainState, step: int) -> None:
    save_tree(checkpoint_folder(run.checkpoints, step), state)
    keep_newest(run.checkpoints, KEPT_CHECKPOINTS)


def _check_finite(run: Run, metrics: Mapping[str, float], step: int) -> None:
    broken = [name for name, value in metrics.items() if not math.isfinite(value)]
    if broken:
        raise UserError(
            f"{run.folder} stopped at step {step:,} because {broken[0]} is not finite; "
            "the last checkpoint is kept: lower the learning rates and train again."
        )
