"""``skillscape reproduce``: a table or figure of the paper in one command."""

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from skillscape.cli.display import Display, first_sentence, print_table, without
from skillscape.cli.numbers import Count
from skillscape.errors import UserError, choose


@dataclass(frozen=True)
class ReproduceOptions:
    """Train, measure and draw a whole figure of the paper. Stopped, it goes on where it was."""

    seeds: int = 10
    """Seeds per row."""
    steps: Count | None = None
    """Environment steps per run; the preset's if not given."""
    preset: str = "default"
    """default, paper (literal settings of the papers), long (6.25 million steps, not on images) or smoke (seconds)."""
    methods: tuple[str, ...] = ()
    """Methods to compare, where the experiment compares methods, or all; the experiment's own if not given."""
    entropy: float | None = None
    """PPO's entropy weight for every method; the preset's if not given."""
    out: Path = Path("results")
    """Folder for the raw numbers, tables and pictures, in a sub-folder each; results of other settings that stand there
    are never replaced: the sub-folder then gets a longer name."""
    runs: Path = Path("runs/reproduce")
    """Folder for the runs themselves."""


@dataclass(frozen=True)
class MapsOptions:
    """Train SD3 in the square maze for a short and a long time and draw what its model has learned."""

    early: Count = 25_000
    """Environment steps of the young model."""
    steps: Count = 250_000
    """Environment steps of the old one, with the same seed: it has been the young one."""
    seed: int = 0
    """Random seed."""
    out: Path = Path("results")
    """Folder for the pictures, in a sub-folder that is named after other steps and seeds than the default ones."""
    runs: Path = Path("runs/reproduce")
    """Folder for the runs themselves."""


@dataclass(frozen=True)
class BenchmarkOptions:
    """Pre-train, fine-tune and compare on URLB. Stopped, it goes on where it was; finished runs are skipped."""

    methods: tuple[str, ...] = ()
    """Methods to compare, the experiment's own if not given; ddpg (dreamer on images) is training from scratch."""
    domains: tuple[str, ...] = ()
    """Domains, each with all its four tasks; the experiment's own, or those of --tasks, if not given."""
    tasks: tuple[str, ...] = ()
    """Tasks to fine-tune on; all of the domains' if not given."""
    seeds: int = 10
    """Seeds per method and task."""
    preset: str | None = None
    """compact, or laptop on images (for a laptop, the default), paper (URLB's sizes and budget) or smoke (seconds)."""
    steps: Count | None = None
    """Environment steps of pre-training; the preset's if not given."""
    finetuning_steps: Count | None = None
    """Environment steps of fine-tuning and of training from scratch; the preset's if not given."""
    out: Path = Path("results")
    """Folder for the raw numbers, tables and pictures, in a sub-folder each; results of other settings that stand there
    are never replaced: the sub-folder then gets a longer name."""
    runs: Path = Path("runs/reproduce")
    """Folder for the runs themselves."""


def reproduce_command(arguments: list[str]) -> None:
    """Plan, train, measure and draw a named experiment."""
    from skillscape.experiments.comparison import compare, table, write
    from skillscape.experiments.folders import comparison_folder
    from skillscape.experiments.mazes import EXPERIMENTS, Request, plan
    from skillscape.experiments.urlb import BENCHMARKS

    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: skillscape reproduce NAME [--seeds K] [--preset PRESET] [--out DIR] …\n")
        mazes = [(name, first_sentence(make.__doc__)) for name, make in EXPERIMENTS.items()]
        maps = ("maps", "SD3's density of each skill, and its KL bonus early and late, in the square maze.")
        benchmarks = [
            (name, f"URLB from {kind.shown}. {first_sentence(kind.compare.__doc__)}")
            for name, kind in BENCHMARKS.items()
        ]
        print_table([*mazes, maps, *benchmarks])
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
    command = " ".join(["skillscape", "reproduce", name, *without(rest, ("--out", "--runs"))])
    request = Request(command, options.preset, options.methods, options.seeds, options.steps, options.entropy)
    for comparison in plan(name, request):
        folder = comparison_folder(comparison, options.out)
        _tell_folder(folder, comparison.name)
        display = Display(options.runs / comparison.name, comparison.seeds)
        display.announce()
        try:
            results = compare(comparison, options.runs / comparison.name, display.show, display.begin)
            written = write(comparison, results, folder)
        except OSError as error:
            raise UserError(f"Cannot write to {options.out}: {error.strerror}; choose another --out.") from error
        display.finish(f"{comparison.name} is complete")
        print(table(comparison, results))
        for path in written:
            print(path)


def _tell_folder(folder: Path, name: str) -> None:
    """Say so where results do not go to the folder of the experiment's name."""
    if folder.name != name:
        print(f"{folder.parent / name} holds results of other settings; these go to {folder}", file=sys.stderr)


def _reproduce_maps(arguments: list[str]) -> None:
    from skillscape.api import pretrain
    from skillscape.experiments.pictures import draw_bonus

    options = tyro.cli(MapsOptions, args=arguments, prog="skillscape reproduce maps")
    default = MapsOptions()
    asked, usual = ((one.early, one.steps, one.seed) for one in (options, default))
    name = "maps" if asked == usual else "maps-{}-{}-seed-{}".format(*asked)
    display = Display(options.runs / name, 1)
    display.announce()
    runs = []
    for steps in (options.early, options.steps):
        display.begin(f"SD3 for {steps:,} steps")
        out = options.runs / name / f"{steps}"
        runs += pretrain(
            "sd3",
            "maze/square_a",
            out=out,
            preset="default",
            steps=steps,
            seed=options.seed,
            resume=True,
            on_progress=display.show,
        )
    written = draw_bonus(runs[0], runs[1], options.out / name)
    display.finish("the maps are drawn")
    for path in written:
        print(path)


def _reproduce_benchmark(name: str, arguments: list[str]) -> None:
    from skillscape.envs.host import is_seen
    from skillscape.experiments.folders import benchmark_folder
    from skillscape.experiments.urlb import (
        BENCHMARKS,
        Benchmark,
        budget_of,
        run_benchmark,
        score_table,
        shared_folder,
        tasks_in,
        write_benchmark,
    )
    from skillscape.presets import default_preset

    options = tyro.cli(BenchmarkOptions, args=arguments, prog=f"skillscape reproduce {name}")
    kind = BENCHMARKS[name]
    wanted = set(options.tasks)
    having_them = tuple(domain for domain in kind.domains if wanted & set(tasks_in(domain)))
    domains = options.domains or having_them or kind.domains
    usual = default_preset(domains[0])
    preset = options.preset or usual
    places = options.tasks or (() if domains == kind.domains else domains)
    benchmark = Benchmark(
        name="-".join([name, *places, *([] if preset == usual else [preset])]),
        variants=kind.compare(options.methods or kind.methods),
        domains=domains,
        seeds=options.seeds,
        preset=preset,
        steps=options.steps,
        finetuning_steps=options.finetuning_steps,
        command=" ".join(["skillscape", "reproduce", name, *without(arguments, ("--out", "--runs"))]),
        tasks=options.tasks,
    )
    benchmark.check()
    folder = benchmark_folder(benchmark, options.out)
    _tell_folder(folder, benchmark.name)
    # Experiments at the same budget share what they pre-train.
    family = "pixels" if is_seen(domains[0]) else "urlb"
    runs = options.runs / shared_folder(preset, budget_of(benchmark), family)
    display = Display(runs, 1)
    display.announce()
    scores = run_benchmark(benchmark, runs, display.show, display.begin)
    written = write_benchmark(benchmark, scores, runs, folder)
    display.finish(f"{benchmark.name} is complete")
    print(score_table(benchmark, scores))
    for path in written:
        print(path)
