"""Runs in this process, one after the other; seeds that share a compiled program run together."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import final

from skillscape.envs.gymnasium_modules import trust
from skillscape.errors import UserError
from skillscape.experiments.cost import record_rate
from skillscape.experiments.engine import Executor, Load
from skillscape.experiments.grid import RunSpec
from skillscape.experiments.worker import Outcome, trained_steps
from skillscape.formatting import counted
from skillscape.launch import launch
from skillscape.training.callbacks import Callback, TensorBoard
from skillscape.training.files import read_results
from skillscape.training.progress import SHOWN, Progress
from skillscape.training.run import Run


def train(
    specs: Sequence[RunSpec],
    runs: Path,
    callbacks: Sequence[Callback],
    on_start: Callable[[], None] | None = None,
) -> None:
    """Train runs that differ in their seed alone to their end, and store their measured rate."""
    first = specs[0]
    trust(first.config.env)
    starts, began = [trained_steps(runs, spec.folder) for spec in specs], time.process_time()
    launch(
        [spec.config for spec in specs],
        (runs / first.folder).parent,
        several=True,
        sources=None if first.needs is None else [Run(runs / str(spec.needs)) for spec in specs],
        resume=True,
        callbacks=[TensorBoard(), *callbacks],
        on_start=on_start,
    )
    steps = [spec.config.steps - start for spec, start in zip(specs, starts, strict=True)]
    seconds_per_step = (time.process_time() - began) / max(sum(steps), 1)
    for spec, number in zip(specs, steps, strict=True):
        record_rate(spec, runs, number, number * seconds_per_step)


@final
class ProgressForwarder(Callback):
    """Passes on a line of progress at each evaluation."""

    def __init__(self, on_message: Callable[[str], None]) -> None:
        """``on_message``: called with each line."""
        self._on_message = on_message

    def on_progress(self, run: Run, step: int, pace: str, row: Mapping[str, float]) -> None:
        """Rate of training and measures."""
        if run.due(step):
            self._on_message(" · ".join([pace, *(f"{name} {row[name]:.2f}" for name in SHOWN if name in row)]))


@final
class InlineExecutor(Executor):
    """Trains in this process: one run at a time, or all seeds of an on-policy run, whose loop is compiled."""

    def __init__(self, runs: Path) -> None:
        """``runs``: folder of all runs."""
        self._runs = runs
        self._waiting: list[RunSpec] = []

    @property
    def load(self) -> Load:
        """Room for all runs, so that seeds are submitted together; none runs while this process is free to report."""
        # An environment and a learner, or at least two seeds, run in parallel.
        return Load(sys.maxsize, 0, min(2, os.cpu_count() or 1))

    def submit(self, spec: RunSpec, log: Path) -> None:
        """Put a run in the queue."""
        del log
        self._waiting.append(spec)

    def wait(self, seconds: float) -> list[tuple[RunSpec, Outcome]]:
        """Train the next run, with its other seeds if they share a program; fine-tunings come first."""
        del seconds
        first = next((spec for spec in self._waiting if spec.needs is not None), self._waiting[0])
        place = Path(first.folder).parent
        together = first.config.backbone.on_policy
        batch = [spec for spec in self._waiting if spec is first or (together and Path(spec.folder).parent == place)]
        self._waiting = [spec for spec in self._waiting if spec not in batch]
        return self._trained(batch)

    def _trained(self, batch: list[RunSpec]) -> list[tuple[RunSpec, Outcome]]:
        place = (self._runs / batch[0].folder).parent
        progress = Progress(place, len(batch))
        title = f"{place.name} · {counted(len(batch), 'seed')}" if len(batch) > 1 else batch[0].title
        try:
            train(batch, self._runs, [progress], lambda: progress.begin(f"training {title}"))
        except UserError as error:
            if len(batch) > 1:
                # One seed has stopped the others, which can continue one by one.
                return [outcome for spec in batch for outcome in self._trained([spec])]
            return [(batch[0], Outcome(None, str(error)))]
        return [(spec, Outcome(read_results(self._runs / spec.folder), "it ended without results")) for spec in batch]

    def stop(self) -> None:
        """Clear the queue; nothing is running."""
        self._waiting = []
