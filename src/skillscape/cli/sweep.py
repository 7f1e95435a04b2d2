"""``skillscape sweep``: a grid of runs from a specification."""

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from skillscape.cli.naming import allow
from skillscape.errors import Interrupted, UserError

if TYPE_CHECKING:
    from skillscape.sweeps.conduct import Executor, Progress
    from skillscape.sweeps.estimate import Estimate
    from skillscape.sweeps.plan import PlannedRun
    from skillscape.sweeps.spec import Sweep

TELL_EVERY = 300.0
"""Seconds after which a sweep that is not on a terminal says how it stands though no run has ended."""


@dataclass(frozen=True)
class SweepOptions:
    """Train a grid of runs, each after what it needs. Stopped or killed, it goes on where it was."""

    spec: tyro.conf.Positional[Path]
    """The grid, a TOML file; see docs/sweeps.md and the folder sweeps/."""
    on: Literal["local", "ray"] = "local"
    """Processes of this machine, or tasks of Ray."""
    address: str | None = None
    """Ray cluster to use, such as auto or HOST:6379; a new one on this machine if not given."""
    workers: int | None = None
    """Runs at the same time; as many as the cores allow if not given."""
    dry_run: bool = False
    """Only print how many runs there are, the graph, and the estimated core hours."""
    runs: Path = Path("runs/reproduce")
    """Folder for the runs, shared with `skillscape reproduce`; with Ray every node must see it."""


def sweep_command(arguments: list[str]) -> None:
    """Plan, then train what is not trained yet and gather the results."""
    from skillscape.sweeps.conduct import Conductor, log_file, results_folder
    from skillscape.sweeps.plan import plan
    from skillscape.sweeps.spec import read_sweep

    options = tyro.cli(SweepOptions, args=arguments, prog="skillscape sweep")
    if options.on == "local" and options.address is not None:
        raise UserError("--address is for --on ray; leave it out, or add --on ray.")
    if options.workers is not None and options.workers < 1:
        raise UserError(f"--workers must be at least 1, not {options.workers}.")
    sweep = read_sweep(options.spec)
    for env in sweep.envs:
        allow(env)
    try:
        planned = plan(sweep)
    except UserError as error:
        raise UserError(f"{options.spec}: {error}") from error
    if options.dry_run:
        _print_plan(sweep, planned, options.runs)
        return
    runs = options.runs.resolve()
    try:
        runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot write to {options.runs}: {error.strerror}; choose other --runs.") from error
    display = Lines(sweep.name)
    try:
        with _polite_kill():
            executor = _executor(options, sweep, runs)
            report = Conductor(sweep, planned, runs, executor).conduct(display.show)
    except Interrupted:
        display.end()
        print("skillscape: stopped and saved; the same command goes on where it was.", file=sys.stderr)
        sys.exit(130)
    display.end()
    print(f"{len(report.results)} of {len(planned)} runs are finished.")
    for name in ("results.json", "results.csv"):
        print(results_folder(options.runs, sweep) / name)
    if report.failures:
        for folder, reason in report.failures.items():
            print(f"{folder} failed: {reason}; see {log_file(options.runs, sweep, folder)}", file=sys.stderr)
        raise UserError(
            f"{len(report.failures)} of {len(planned)} runs failed; repair what the lines above say and run the same "
            "command again: only what is left is trained."
        )


@contextmanager
def _polite_kill() -> Iterator[None]:
    """Let a polite kill do what Ctrl-C does; a batch system sends one before it takes the machine away."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _executor(options: SweepOptions, sweep: "Sweep", runs: Path) -> "Executor":
    if options.on == "ray":
        from skillscape.sweeps.cluster import RayExecutor

        return RayExecutor(sweep.resources, options.workers, options.address, runs)
    from skillscape.sweeps.local import LocalExecutor

    return LocalExecutor(sweep.resources, options.workers)


class Lines:
    """Progress: one line that rewrites itself on a terminal; elsewhere a plain one when a run ends and now and then."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._terminal = sys.stderr.isatty()
        self._began = self._told = time.monotonic()

    def show(self, progress: "Progress") -> None:
        """Tell how the sweep stands."""
        left = progress.total - progress.done - progress.failed
        failed = f" · {progress.failed} failed" if progress.failed else ""
        line = (
            f"{self._name}: {progress.done} of {progress.total} runs done · {progress.running} running · {left} left"
            f"{failed} · about {_duration(progress.seconds_left)} left"
        )
        if self._terminal:
            width = os.get_terminal_size(sys.stderr.fileno()).columns
            news = f"{progress.news}\n" if progress.news else ""
            print(f"\r\033[K{news}{line[: width - 1]}", end="", file=sys.stderr, flush=True)
        elif progress.news or time.monotonic() - self._told > TELL_EVERY:
            self._told = time.monotonic()
            print(f"{progress.news} ({line})" if progress.news else line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line that rewrites itself."""
        print(f"{chr(10) if self._terminal else ''}{_duration(time.monotonic() - self._began)} passed", file=sys.stderr)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.1f} h" if seconds < 172_800 else f"{seconds / 86_400:,.1f} days"


def _print_plan(sweep: "Sweep", planned: "Sequence[PlannedRun]", runs: Path) -> None:
    from skillscape.sweeps.estimate import Estimate, shipped_rates
    from skillscape.sweeps.plan import counts
    from skillscape.sweeps.work import finished

    estimate = Estimate(runs)
    number = counts(planned)
    left: list[PlannedRun] = []
    damaged = []
    for run in planned:
        try:
            if finished(runs, run.folder) is None:
                left.append(run)
        except UserError as error:
            damaged.append(str(error))
    done = len(planned) - len(left) - len(damaged)
    print(
        f"{sweep.name}: {len(planned):,} runs = {number['pretrain']:,} pre-trainings + {number['finetune']:,} "
        f"fine-tunings + {number['scratch']:,} from scratch; {done:,} are finished in {runs}"
    )
    print()
    _print_graph(planned, estimate)
    print(f"\n{_core_time(estimate.total(planned))} in all, {_core_time(estimate.total(left))} of them left.")
    print(f"Rates: {estimate.measured} kinds of runs measured in {runs}; for the rest {shipped_rates()['machine']}.")
    for sentence in damaged:
        print(f"skillscape: {sentence}", file=sys.stderr)
    if damaged:
        raise UserError(f"{len(damaged)} of {len(planned)} runs are damaged; repair what the lines above say.")


def _core_time(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} core hours" if seconds >= 3600 else f"{seconds / 60:,.1f} core minutes"


def _print_graph(planned: "Sequence[PlannedRun]", estimate: "Estimate") -> None:
    """One line per environment, and one per pre-training in it: how many runs, and what begins with it."""
    groups: dict[str, dict[str, list[PlannedRun]]] = {}
    for run in planned:
        source = Path(run.needs or run.folder).parent.name if run.kind != "scratch" else run.method
        groups.setdefault(run.env, {}).setdefault(source, []).append(run)
    width = max(len(source) for sources in groups.values() for source in sources)
    for env, sources in groups.items():
        tasks = dict.fromkeys(run.task for runs in sources.values() for run in runs if run.task is not None)
        print(f"{env}{': ' if tasks else ''}{', '.join(tasks)}")
        for source, runs in sources.items():
            number = {kind: sum(run.kind == kind for run in runs) for kind in ("pretrain", "finetune", "scratch")}
            what = f"{number['scratch']} from scratch" if number["scratch"] else f"{number['pretrain']} pre-trainings"
            then = f" → {number['finetune']} fine-tunings" if number["finetune"] else ""
            print(f"  {source:<{width}}  {what + then:<40}{_core_time(estimate.total(runs)):>24}")
