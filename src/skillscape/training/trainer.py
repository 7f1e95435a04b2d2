"""The trainer: one loop around either collector. Rows, evaluations, snapshots, checkpoints and interruptions."""

import math
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from skillscape.envs.base import JaxEnv
from skillscape.errors import EnvFault, Interrupted, Unwritable, UserError
from skillscape.training.callbacks import Callback, Callbacks, calling
from skillscape.training.cost import Stopwatch
from skillscape.training.host_collector import HostCollector
from skillscape.training.jit_collector import Iteration, JitCollector, compiled_iteration
from skillscape.training.log import CsvLog, Pace
from skillscape.training.run import Run
from skillscape.training.state import Collector, RunState

Evaluate = Callable[[Run, RunState, Any, int], Mapping[str, float]]
"""Evaluates a state with a skill [z] at a step; returns the measures to log."""
FirstState = Callable[[Run], RunState]
"""The initial state of a run."""


def train(
    runs: Sequence[Run],
    first_state: FirstState,
    evaluators: Sequence[Evaluate],
    callbacks: Sequence[Callback],
    *,
    workers: int,
    on_end: Callable[[Run], None],
) -> None:
    """Train runs that differ in their seed alone to the end, each from its newest checkpoint. Ctrl-C saves.

    Compiled iterations run in threads, ``workers`` at a time: XLA:CPU leaves cores idle on matmuls this small, and
    batching the seeds with ``vmap`` gains nothing (docs/performance.md). The results of a seed do not depend on the
    others. Host runs already use one core for the environment and one for updates, so they are trained sequentially.
    """
    with stop_requested() as stop:
        if not runs[0].config.backbone.on_policy:
            for run, evaluate in zip(runs, evaluators, strict=True):
                _train(run, None, first_state, evaluate, callbacks, stop, on_end)
            return
        env = runs[0].config.make_env()
        if not isinstance(env, JaxEnv):
            raise UserError(
                f"{runs[0].config.backbone.label} needs an environment in JAX, and {runs[0].config.env} is not; "
                "choose another --backbone."
            )
        # Compiled once here, since each thread would compile it otherwise.
        compiled = env, compiled_iteration(runs[0], env)
        with ThreadPoolExecutor(workers) as pool:
            futures = [
                pool.submit(_train, run, compiled, first_state, evaluate, callbacks, stop, on_end)
                for run, evaluate in zip(runs, evaluators, strict=True)
            ]
            _await(futures, stop)


def _await(futures: "list[Future[None]]", stop: threading.Event) -> None:
    """Wait for all; after an error or a request to stop, running ones save and the rest do not start."""
    try:
        wait(futures, return_when=FIRST_EXCEPTION)
    except KeyboardInterrupt:
        pass
    finally:
        stop.set()
        for future in futures:
            future.cancel()
    failures = [error for future in futures if not future.cancelled() and (error := future.exception())]
    for error in sorted(failures, key=lambda error: isinstance(error, Interrupted)):
        raise error
    if any(future.cancelled() for future in futures):
        raise Interrupted


def _train(
    run: Run,
    compiled: tuple[JaxEnv, Iteration] | None,
    first_state: FirstState,
    evaluate: Evaluate,
    callbacks: Sequence[Callback],
    stop: threading.Event,
    on_end: Callable[[Run], None],
) -> None:
    """Train one run to its end, where ``on_end`` is called while the run is locked."""
    with ExitStack() as stack:
        stack.enter_context(run.locked())
        checkpoint = run.newest()
        if checkpoint is not None and int(checkpoint[0].step) == run.end:
            _share(run)
            on_end(run)
            return
        state, metadata = (first_state(run), None) if checkpoint is None else checkpoint
        collector: Collector = (
            HostCollector(run, state, metadata) if compiled is None else JitCollector(run, *compiled, state, metadata)
        )
        stack.callback(collector.close)
        called = stack.enter_context(calling(callbacks, run, collector.step))
        _Loop(run, collector, evaluate, called, Stopwatch(metadata)).to_the_end(
            stop, fresh=checkpoint is None, stack=stack
        )
        _share(run)
        on_end(run)


def _share(run: Run) -> None:
    """Write the policy, without optimisers or replay, to ``skills/``."""
    run.trained_policy().save(run.folder / "skills")


class _Loop:
    """The training loop of one run."""

    def __init__(
        self, run: Run, collector: Collector, evaluate: Evaluate, callbacks: Callbacks, stopwatch: Stopwatch
    ) -> None:
        self._run, self._collector, self._evaluate, self._callbacks = run, collector, evaluate, callbacks
        self._stopwatch = stopwatch
        self._pace = Pace(collector.step, run.end)
        self._row: dict[str, float] = {}
        self._measures: dict[str, float] = {}

    def to_the_end(self, stop: threading.Event, *, fresh: bool, stack: ExitStack) -> None:
        run, collector, end = self._run, self._collector, self._run.end
        # −1: a new run keeps no rows, not even that of step 0.
        resume_at = -1 if fresh else collector.step
        self._metrics_log = stack.enter_context(CsvLog(run.folder / "metrics.csv", resume_at))
        self._evaluation_log = stack.enter_context(CsvLog(run.folder / "evaluation.csv", resume_at))
        if fresh:
            self._measure()
        while collector.step < end:
            if stop.is_set():
                self._save()
                raise Interrupted
            self._advance()
            step = collector.step
            evaluated = run.due(step)
            logged = collector.log_due or step == end
            try:
                if logged:
                    self._log()
                if evaluated:
                    self._measure()
            except Unwritable:
                # Save the state before the missing row, so that resuming writes it. Without room for this
                # either, the newest checkpoint remains.
                with suppress(UserError):
                    collector.rewind()
                    self._save()
                raise
            if logged:
                self._callbacks.progress(step, self._pace.describe(step), {**self._row, **self._measures})
            if step in run.config.snapshots or step == end:
                run.keep_snapshot(collector.state)
            if evaluated:
                self._save()

    def _advance(self) -> None:
        try:
            self._collector.advance()
        except EnvFault as fault:
            self._save()
            raise self._broken(fault, f"at step {fault.step:,}") from fault.__cause__

    def _broken(self, fault: EnvFault, where: str) -> UserError:
        """The error of an environment that broke: where, and up to which step the run is saved."""
        step = self._collector.step
        saved = f"the run is saved up to step {step:,}" if step else "nothing is lost"
        return UserError(f"{fault.what} {where}; {saved}: {fault.advice} and --resume.")

    def _save(self) -> None:
        self._run.save(self._collector.state, {**self._collector.metadata(), **self._stopwatch.metadata()})

    def _log(self) -> None:
        step, metrics = self._collector.step, self._collector.metrics
        # There is no return before the first episode ends; all other metrics must be finite.
        broken = [name for name, value in metrics.items() if not math.isfinite(value) and name != "episode_return"]
        if broken:
            raise UserError(
                f"{self._run.folder} stopped at step {step:,} because {broken[0]} is not finite; lower the learning "
                "rates and train again."
            )
        self._row = metrics
        if metrics:
            self._metrics_log.write(step, metrics)
            self._callbacks.log("metrics", step, {**metrics, "steps_per_second": self._pace.rate(step)})

    def _measure(self) -> None:
        collector = self._collector
        try:
            measures = self._evaluate(self._run, collector.state, collector.evaluation_skill(), collector.step)
        except EnvFault as fault:
            where = f"in the evaluation at step {collector.step:,}"
            if collector.step:
                collector.rewind()
                self._save()
            raise self._broken(fault, where) from fault.__cause__
        self._measures = {**measures, **collector.measures}
        self._evaluation_log.write(collector.step, self._measures)
        self._callbacks.log("evaluation", collector.step, self._measures)


@contextmanager
def stop_requested() -> Iterator[threading.Event]:
    """An event set by SIGINT (Ctrl-C) or SIGTERM; a second signal has its default effect."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in signals}

    def ask(number: int, frame: Any) -> None:  # noqa: ANN401, ARG001
        stop.set()
        for each in signals:
            signal.signal(each, before[each])

    for number in signals:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number in signals:
            signal.signal(number, before[number])
