"""The command line: the only module that parses or prints."""

import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import tyro

from skillscape.errors import Interrupted, UserError, choose

ObjectiveOptions = TypeVar("ObjectiveOptions")
BackboneOptions = TypeVar("BackboneOptions")

USAGE = """usage: skillscape COMMAND …

Unsupervised skill discovery: train an agent without reward, look at the skills it found.

  methods             what can be trained, one line each
  envs                where it can be trained, one line each
  doctor              what works on this machine, and what to install where something does not
  pretrain METHOD     train without reward             skillscape pretrain sd3 --env maze/square_a --out runs/sd3
  finetune RUN        learn a task with the skills     skillscape finetune runs/sd3-walker --task walker_walk
  evaluate RUN        measure a run                    skillscape evaluate runs/sd3 --json
  plot RUN            pictures of a run                skillscape plot runs/sd3
  reproduce NAME      a figure of the paper            skillscape reproduce maze --seeds 10

`skillscape COMMAND --help` explains a command; `skillscape pretrain METHOD --help` lists every setting.
"""


@dataclass(frozen=True)
class PretrainOptions(Generic[ObjectiveOptions, BackboneOptions]):
    """Train a method without reward. Ctrl-C saves; --resume goes on to the same numbers."""

    objective: ObjectiveOptions
    """Settings of the method."""
    backbone: BackboneOptions
    """Settings of the learner."""
    env: str = "maze/square_a"
    """maze/NAME, or maze/PATH.txt for your own drawing (# solid, . free, S start); see `skillscape envs`."""
    steps: int = 250_000
    """Environment steps to take, counted as taken."""
    seed: int = 0
    """Random seed, the first one if there are several."""
    seeds: int = 1
    """How many seeds to train in this process, each in a sub-folder of its own."""
    out: Path | None = None
    """Run folder; runs/METHOD-ENV if not given."""
    preset: str = "default"
    """default, paper (literal settings of the papers), long (6.25 million steps) or smoke (seconds)."""
    workers: int | None = None
    """Seeds trained at the same time; as many as there are cores if not given."""
    resume: bool = False
    """Go on with a run that was stopped or killed."""
    force: bool = False
    """Replace a run that stands in the folder."""


@dataclass(frozen=True)
class HostedPretrainOptions(Generic[ObjectiveOptions, BackboneOptions]):
    """Train a method without reward. Ctrl-C saves; --resume goes on to the same numbers."""

    objective: ObjectiveOptions
    """Settings of the method."""
    backbone: BackboneOptions
    """Settings of the learner."""
    env: str
    """walker, quadruped, jaco, or gym/ID for any Gymnasium environment with continuous actions."""
    noise: Annotated[float, tyro.conf.arg(name="env.noise")] = 0.0
    """Deviation of Gaussian noise on the observations."""
    steps: int = 200_000
    """Environment steps to take, counted as taken."""
    seed: int = 0
    """Random seed, the first one if there are several."""
    seeds: int = 1
    """How many seeds to train, one after the other, each in a sub-folder of its own."""
    out: Path | None = None
    """Run folder; runs/METHOD-ENV if not given."""
    preset: str = "compact"
    """compact (for a laptop), paper (URLB's sizes and 2 million steps) or smoke (seconds)."""
    resume: bool = False
    """Go on with a run that was stopped or killed."""
    force: bool = False
    """Replace a run that stands in the folder."""


@dataclass(frozen=True)
class FinetuneOptions:
    """Learn a task with its reward, from a pre-trained run or from scratch. Ctrl-C saves; --resume goes on."""

    run: tyro.conf.Positional[Path | None] = None
    """Run folder that `skillscape pretrain` wrote, of one seed or of several."""
    task: str = ""
    """Task of the run's domain, such as walker_walk; for gym/ID the environment itself."""
    skill: str | None = None
    """prior (drawn as in pre-training), random (one that stays), constant, regress, grid, infer, controller, or the
    number of a skill; the method's own rule if not given. See docs/urlb.md."""
    snapshot: int | None = None
    """Step of the pre-training to begin with; its last if not given."""
    steps: int | None = None
    """Environment steps to take; 100,000 if not given."""
    seed: int | None = None
    """Random seed; the run's own if not given."""
    out: Path | None = None
    """Run folder; runs/METHOD-TASK if not given."""
    from_scratch: bool = False
    """Begin with a fresh agent: the row that pre-training is compared with. Needs --env instead of a run."""
    env: str | None = None
    """Environment, with --from-scratch."""
    preset: str = "compact"
    """Sizes of the learner, with --from-scratch: compact, paper or smoke."""
    resume: bool = False
    """Go on with a run that was stopped or killed."""
    force: bool = False
    """Replace a run that stands in the folder."""


@dataclass(frozen=True)
class EvaluateOptions:
    """Measure a run. In mazes: coverage, reach, I(S;Z) in nats, skill accuracy; elsewhere the return of each skill."""

    run: tyro.conf.Positional[Path]
    """Run folder, of one seed or of several."""
    json: bool = False
    """Print one JSON object: {"coverage": {"mean", "interval", "per_seed"}, …}."""
    rollouts: int | None = None
    """Episodes per skill; as in training if not given."""


@dataclass(frozen=True)
class PlotOptions:
    """Draw a run: trajectories per skill over the walls, and density maps of each skill."""

    run: tyro.conf.Positional[Path]
    """Run folder, of one seed or of several."""
    out: Path | None = None
    """Folder for the pictures; RUN/plots if not given."""


@dataclass(frozen=True)
class ReproduceOptions:
    """Train, measure and draw a whole figure of the paper. Stopped, it goes on where it was."""

    seeds: int = 10
    """Seeds per row."""
    steps: int | None = None
    """Environment steps per run; the preset's if not given."""
    preset: str = "default"
    """default, paper (literal settings of the papers), long (6.25 million steps) or smoke (seconds)."""
    methods: tuple[str, ...] = ("sd3", "diayn", "dads", "cic")
    """Methods to compare, where the experiment compares methods."""
    entropy: float | None = None
    """PPO's entropy weight for every method; the preset's if not given."""
    out: Path = Path("results")
    """Folder for the raw numbers, tables and pictures, in a sub-folder each."""
    runs: Path = Path("runs/reproduce")
    """Folder for the runs themselves."""


@dataclass(frozen=True)
class MapsOptions:
    """Train SD3 in the square maze for a short and a long time and draw what its model has learned."""

    early: int = 25_000
    """Environment steps of the young model."""
    steps: int = 250_000
    """Environment steps of the old one, with the same seed: it has been the young one."""
    seed: int = 0
    out: Path = Path("results")
    """Folder for the pictures, in a sub-folder."""
    runs: Path = Path("runs/reproduce")
    """Folder for the runs themselves."""


@dataclass(frozen=True)
class BenchmarkOptions:
    """Pre-train, fine-tune and compare on URLB. Stopped, it goes on where it was; finished runs are skipped."""

    methods: tuple[str, ...] = ()
    """Methods to compare, the experiment's own if not given; ddpg is training from scratch."""
    domains: tuple[str, ...] = ("walker", "quadruped", "jaco")
    """Domains, each with all its four tasks."""
    seeds: int = 10
    """Seeds per method and task."""
    preset: str = "compact"
    """compact (for a laptop), paper (URLB's sizes and 2 million steps) or smoke (seconds)."""
    steps: int | None = None
    """Environment steps of pre-training; the preset's if not given."""
    finetuning_steps: int | None = None
    """Environment steps of fine-tuning and of training from scratch; the preset's if not given."""
    out: Path = Path("results")
    """Folder for the raw numbers, tables and pictures, in a sub-folder each."""
    runs: Path = Path("runs/reproduce")
    """Folder for the runs themselves."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a user's mistake is one sentence on standard error and exit code 2."""
    try:
        _dispatch(list(sys.argv[1:] if arguments is None else arguments))
    except UserError as error:
        print(f"skillscape: {error}", file=sys.stderr)
        sys.exit(2)
    except Interrupted:
        print("\nskillscape: stopped and saved; run the same command with --resume to go on.", file=sys.stderr)
        sys.exit(130)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader (head, less) has seen enough; point stdout elsewhere so that Python's own flush stays quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        print(f"skillscape: {error.filename or 'a file'}: {error.strerror or error}.", file=sys.stderr)
        sys.exit(2)


def _dispatch(arguments: list[str]) -> None:
    commands = {
        "methods": _methods,
        "envs": _envs,
        "doctor": _doctor,
        "pretrain": _pretrain,
        "finetune": _finetune,
        "evaluate": _evaluate,
        "plot": _plot,
        "reproduce": _reproduce,
    }
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, end="")
        return
    if arguments[0] == "--version":
        from skillscape import __version__

        print(f"skillscape {__version__}")
        return
    choose("command", arguments[0], commands, "skillscape --help")
    commands[arguments[0]](arguments[1:])


def _methods(arguments: list[str]) -> None:
    """List the methods, one line each."""
    from skillscape.objectives import registry

    tyro.cli(_methods_options, args=arguments, prog="skillscape methods")
    _table([(name, _first_sentence(kind.__doc__)) for name, kind in registry().items()])


def _methods_options() -> None:
    """List the methods that can be trained, one line each."""


def _envs(arguments: list[str]) -> None:
    from skillscape.envs.host import HOST_ENVS
    from skillscape.envs.layouts import builtin_layouts, load_layout
    from skillscape.envs.urlb.tasks import DOMAINS

    tyro.cli(_envs_options, args=arguments, prog="skillscape envs")
    rows = []
    for name in builtin_layouts():
        layout = load_layout(name)
        size = f"{len(layout.cells)} cells, farthest {layout.farthest_distance} moves away"
        rows.append((f"maze/{name}", f"{layout.note} ({size})"))
    rows.append(("maze/PATH.txt", "your own maze, drawn in characters: # solid cell, . free cell, S start"))
    for name, text in HOST_ENVS:
        tasks = f" Tasks: {', '.join(DOMAINS[name].tasks)}." if name in DOMAINS else ""
        rows.append((name, f"{text}{tasks}"))
    _table(rows)


def _envs_options() -> None:
    """List the environments, one line each."""


def _pretrain(arguments: list[str]) -> None:
    from skillscape.api import is_host, pretrain
    from skillscape.objectives import registry

    trainable = {name: kind for name, kind in registry().items() if name != "extrinsic"}
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: skillscape pretrain METHOD [--env ENV] [--steps N] [--seed S] [--seeds K] [--out DIR] …\n")
        _table([(name, _first_sentence(kind.__doc__)) for name, kind in trainable.items()])
        print("\n`skillscape pretrain METHOD --help` lists every setting of a method.")
        if not arguments:
            raise UserError("Say which method to train, for example `skillscape pretrain sd3`.")
        return
    method, *rest = arguments
    choose("method", method, trainable, "skillscape methods")
    env = _value_of(rest, "--env", "maze/square_a")
    options: Any = _hosted_options(method, env, rest) if is_host(env) else _maze_options(method, rest)
    out = options.out or Path("runs") / f"{method}-{_folder_name(options.env)}"
    display = Display(out, options.seeds)
    more = {"noise": options.noise} if is_host(env) else {"workers": options.workers}
    runs = pretrain(
        method,
        options.env,
        out=out,
        preset=options.preset,
        steps=options.steps,
        seed=options.seed,
        seeds=options.seeds,
        objective=options.objective,
        backbone=options.backbone,
        resume=options.resume,
        force=options.force,
        on_start=display.announce,
        on_progress=display.show,
        **more,
    )
    display.finish(f"trained {len(runs)} seed{'s' if len(runs) > 1 else ''}; see `skillscape evaluate {out}`")


def _maze_options(method: str, arguments: list[str]) -> Any:  # noqa: ANN401  the type is known only now
    from skillscape.presets import settings

    chosen = settings(method, _value_of(arguments, "--preset", "default"))
    generic: Any = PretrainOptions
    return tyro.cli(
        generic[type(chosen.objective), type(chosen.backbone)],
        args=arguments,
        prog=f"skillscape pretrain {method}",
        default=PretrainOptions(objective=chosen.objective, backbone=chosen.backbone, steps=chosen.steps),
    )


def _hosted_options(method: str, env: str, arguments: list[str]) -> Any:  # noqa: ANN401  the type is known only now
    from skillscape.presets import hosted_settings

    chosen = hosted_settings(method, env, _value_of(arguments, "--preset", "compact"))
    generic: Any = HostedPretrainOptions
    return tyro.cli(
        generic[type(chosen.objective), type(chosen.backbone)],
        args=arguments,
        prog=f"skillscape pretrain {method}",
        default=HostedPretrainOptions(
            objective=chosen.objective, backbone=chosen.backbone, env=env, steps=chosen.steps
        ),
    )


def _folder_name(env: str) -> str:
    """What stands for an environment in the name of a run: square_a, walker, Pendulum-v1."""
    return Path(env.partition("/")[2] or env).stem.replace(":", "-")


def _finetune(arguments: list[str]) -> None:
    from skillscape.api import finetune, train_from_scratch
    from skillscape.training.jobs import JobRun
    from skillscape.training.runs import run_folders

    options = tyro.cli(FinetuneOptions, args=arguments, prog="skillscape finetune")
    if not options.task:
        raise UserError("Say which task to learn, for example --task walker_walk; `skillscape envs` lists them.")
    if options.from_scratch:
        if options.run is not None or options.env is None:
            raise UserError("--from-scratch takes --env and no run: skillscape finetune --from-scratch --env walker …")
        out = options.out or Path("runs") / f"ddpg-{_folder_name(options.task)}"
        display = Display(out, 1)
        train_from_scratch(
            options.env,
            options.task,
            out=out,
            preset=options.preset,
            steps=options.steps,
            seed=options.seed or 0,
            resume=options.resume,
            force=options.force,
            on_start=display.announce,
            on_progress=display.show,
        )
    else:
        if options.run is None:
            raise UserError("Say which run to fine-tune, or begin without one with --from-scratch --env ENV.")
        if options.env is not None:
            raise UserError("--env goes with --from-scratch; a run knows its own environment.")
        sources = [JobRun(folder) for folder in run_folders(options.run)]
        objective = sources[0].config.objective
        method = "ddpg" if objective is None else objective.name
        out = options.out or Path("runs") / f"{method}-{_folder_name(options.task)}"
        display = Display(out, len(sources))
        finetune(
            options.run,
            options.task,
            out=out,
            skill=options.skill,
            snapshot=options.snapshot,
            steps=100_000 if options.steps is None else options.steps,
            seed=options.seed,
            resume=options.resume,
            force=options.force,
            on_start=display.announce,
            on_progress=display.show,
        )
    display.finish(f"fine-tuned on {options.task}; see `skillscape plot {out}`")


def _doctor(arguments: list[str]) -> None:
    from skillscape.doctor import examine

    tyro.cli(_doctor_options, args=arguments, prog="skillscape doctor")
    failed = 0
    for check in examine():
        failed += not check.ok
        mark = "ok  " if check.ok and not check.advice else ("note" if check.ok else "FAIL")
        print(
            f"{mark}  {check.name}: {check.detail}" + (f"\n      → {check.advice}" if check.advice else ""), flush=True
        )
    if failed:
        raise UserError(f"{failed} check{'s' if failed > 1 else ''} failed; the arrows say what to do.")


def _doctor_options() -> None:
    """Load, reset and step every environment, check versions and rendering, and say what to install."""


def _value_of(arguments: list[str], flag: str, default: str) -> str:
    """The value of a flag that decides the defaults of all others, so it is looked for before they are parsed."""
    for index, argument in enumerate(arguments):
        if argument.startswith(f"{flag}="):
            return argument.partition("=")[2]
        if argument == flag and index + 1 < len(arguments):
            return arguments[index + 1]
    return default


def _without(arguments: list[str], flags: tuple[str, ...]) -> list[str]:
    """The arguments less some flags and their values: where results go does not belong to how they are made."""
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if skip or argument.partition("=")[0] in flags:
            skip = not skip and "=" not in argument
            continue
        kept.append(argument)
    return kept


def _evaluate(arguments: list[str]) -> None:
    from skillscape.api import is_job, load, skill_returns, summarise_runs

    options = tyro.cli(EvaluateOptions, args=arguments, prog="skillscape evaluate")
    if options.rollouts is not None and options.rollouts < 2:
        raise UserError(
            f"--rollouts must be at least 2, not {options.rollouts}: accuracy is measured on held-out ones."
        )
    if is_job(options.run):
        _print_returns(skill_returns(options.run, episodes=options.rollouts), options.json)
        return
    runs = load(options.run)
    summaries = summarise_runs(runs, per_skill=options.rollouts)
    if options.json:
        print(json.dumps({name: summary.to_json() for name, summary in summaries.items()}))
        return
    config = runs[0].config
    print(f"{config.objective.name} in {config.env}, {config.steps:,} steps, {len(runs)} seed(s)")
    units = {"distinguishability": " nats"}
    for name, summary in summaries.items():
        low, high = summary.interval
        spread = f"  95 % interval {low:.3f} to {high:.3f}" if len(runs) > 1 else ""
        print(f"  {name:<20}{summary.mean:.3f}{units.get(name, '')}{spread}")


def _print_returns(found: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """Returns of every skill of every seed."""
    if as_json:
        print(json.dumps(found))
        return
    for run in found:
        print(
            f"{run['method']} in {run['task']}, {run['steps']:,} steps, seed {run['seed']}, mean return of each skill"
        )
        for skill, returns in run["returns"].items():
            mean = sum(returns) / len(returns)
            print(f"  {skill:<12}{mean:9.1f}   episodes {min(returns):.1f} to {max(returns):.1f}")


def _plot(arguments: list[str]) -> None:
    from skillscape.api import is_job, load, load_jobs
    from skillscape.experiments.pictures import draw_jobs, draw_runs

    options = tyro.cli(PlotOptions, args=arguments, prog="skillscape plot")
    folder = options.out or options.run / "plots"
    try:
        written = (
            draw_jobs(load_jobs(options.run), folder) if is_job(options.run) else draw_runs(load(options.run), folder)
        )
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror}; choose another --out.") from error
    for path in written:
        print(path)


def _reproduce(arguments: list[str]) -> None:
    from skillscape.experiments.comparison import compare, table, write
    from skillscape.experiments.mazes import EXPERIMENTS, Request, plan
    from skillscape.experiments.urlb import BENCHMARKS

    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: skillscape reproduce NAME [--seeds K] [--preset PRESET] [--out DIR] …\n")
        mazes = [(name, _first_sentence(make.__doc__)) for name, make in EXPERIMENTS.items()]
        maps = ("maps", "SD3's density of each skill, and its KL bonus early and late, in the square maze.")
        benchmarks = [(name, f"URLB. {_first_sentence(make.__doc__)}") for name, (make, _) in BENCHMARKS.items()]
        _table([*mazes, maps, *benchmarks])
        print("\n`skillscape reproduce NAME --help` lists every option.")
        if not arguments:
            raise UserError("Say what to reproduce, for example `skillscape reproduce maze`.")
        return
    name, *rest = arguments
    choose("experiment", name, [*EXPERIMENTS, "maps", *BENCHMARKS], "skillscape reproduce --help")
    if name == "maps":
        _reproduce_maps(rest)
        return
    if name in BENCHMARKS:
        _reproduce_benchmark(name, rest)
        return
    options = tyro.cli(ReproduceOptions, args=rest, prog=f"skillscape reproduce {name}")
    command = " ".join(["skillscape", "reproduce", name, *_without(rest, ("--out", "--runs"))])
    request = Request(command, options.preset, options.methods, options.seeds, options.steps, options.entropy)
    for comparison in plan(name, request):
        display = Display(options.runs / comparison.name, comparison.seeds)
        display.announce()
        try:
            results = compare(comparison, options.runs / comparison.name, display.show, display.begin)
            written = write(comparison, results, options.out / comparison.name)
        except OSError as error:
            raise UserError(f"Cannot write to {options.out}: {error.strerror}; choose another --out.") from error
        display.finish(f"{comparison.name} is complete")
        print(table(comparison, results))
        for path in written:
            print(path)


def _reproduce_maps(arguments: list[str]) -> None:
    from skillscape.api import pretrain
    from skillscape.experiments.pictures import draw_bonus

    options = tyro.cli(MapsOptions, args=arguments, prog="skillscape reproduce maps")
    display = Display(options.runs / "maps", 1)
    display.announce()
    runs = []
    for steps in (options.early, options.steps):
        display.begin(f"SD3 for {steps:,} steps")
        out = options.runs / "maps" / f"{steps}"
        runs += pretrain(
            "sd3", "maze/square_a", out=out, steps=steps, seed=options.seed, resume=True, on_progress=display.show
        )
    written = draw_bonus(runs[0], runs[1], options.out / "maps")
    display.finish("the maps are drawn")
    for path in written:
        print(path)


def _reproduce_benchmark(name: str, arguments: list[str]) -> None:
    from skillscape.experiments.urlb import (
        BENCHMARKS,
        Benchmark,
        budget_of,
        run_benchmark,
        score_table,
        write_benchmark,
    )

    options = tyro.cli(BenchmarkOptions, args=arguments, prog=f"skillscape reproduce {name}")
    compared, methods = BENCHMARKS[name]
    benchmark = Benchmark(
        name=name if len(options.domains) > 1 else f"{name}-{options.domains[0]}",
        variants=compared(options.methods or methods),
        domains=options.domains,
        seeds=options.seeds,
        preset=options.preset,
        steps=options.steps,
        finetuning_steps=options.finetuning_steps,
        command=" ".join(["skillscape", "reproduce", name, *_without(arguments, ("--out", "--runs"))]),
    )
    benchmark.check()
    # Experiments at the same budget share what they pre-train.
    runs = options.runs / "-".join(["urlb", options.preset, *(f"{steps}" for steps in budget_of(benchmark))])
    display = Display(runs, 1)
    display.announce()
    scores = run_benchmark(benchmark, runs, display.show, display.begin)
    written = write_benchmark(benchmark, scores, options.out / benchmark.name)
    display.finish(f"{benchmark.name} is complete")
    print(score_table(benchmark, scores))
    for path in written:
        print(path)


class Display:
    """Progress: one line that rewrites itself on a terminal, a plain line at every evaluation elsewhere."""

    def __init__(self, out: Path, seeds: int) -> None:
        """Begin to count the time."""
        self._out = out
        self._terminal = sys.stderr.isatty()
        self._seeds = seeds
        self._lock = threading.Lock()
        self._began = time.perf_counter()
        self._done: set[int] = set()

    def announce(self) -> None:
        """Say where the run goes and that compiling comes first."""
        print(f"training in {self._out}; compiling first, which takes a few seconds", file=sys.stderr)

    def begin(self, label: str) -> None:
        """Say which row of an experiment comes next."""
        with self._lock:
            self._done = set()
        print(f"{chr(10) if self._terminal else ''}{label}", file=sys.stderr)

    def show(self, run: Any, step: int, pace: str, metrics: Mapping[str, float]) -> None:  # noqa: ANN401
        """Tell about one iteration of one seed."""
        config = run.config
        end, evaluated = run.end, run.due(step)
        names = ("reward", "coverage", "reach", "distinguishability", "return")
        numbers = " · ".join(f"{name} {metrics[name]:.2f}" for name in names if name in metrics)
        seed = f"seed {config.seed} · " if self._seeds > 1 else ""
        with self._lock:
            if step == end:
                self._done.add(config.seed)
            count = f"{len(self._done)}/{self._seeds} seeds done · " if self._seeds > 1 else ""
            line = f"{count}{seed}{pace} · {numbers}"
            if self._terminal:
                width = os.get_terminal_size(sys.stderr.fileno()).columns
                print(f"\r\033[K{line[: width - 1]}", end="", file=sys.stderr, flush=True)
            elif evaluated:
                print(line, file=sys.stderr, flush=True)

    def finish(self, sentence: str) -> None:
        """The last line."""
        seconds = time.perf_counter() - self._began
        print(f"{chr(10) if self._terminal else ''}{sentence} ({seconds:.0f} s)", file=sys.stderr)


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


def _table(rows: Sequence[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        print(f"{name:<{width}}  {text}")


if __name__ == "__main__":
    main()
