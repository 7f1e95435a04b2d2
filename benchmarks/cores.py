"""One run on two cores against two runs on one core each: `python benchmarks/cores.py`. Writes benchmarks/cores.json.

Whole runs, with evaluations and checkpoints, as `skillscape sweep` trains them. The rate is that of all runs together.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from skillscape.experiments.engine import Resources, execute
from skillscape.experiments.grid import Grid, variant
from skillscape.experiments.processes import ProcessExecutor, available_cores
from skillscape.training.files import read_json
from skillscape.training.versions import versions

PATH = Path(__file__).parent / "cores.json"
STEPS = 12_000
METHODS = ("ddpg", "sd3")


def rate(method: str, cores_per_run: int, workers: int, folder: Path) -> float:
    """Environment steps per second of all workers together, each with a run of its own."""
    tasks = ("walker_walk",) if method == "ddpg" else ()
    seeds = tuple(range(workers))
    grid = Grid("cores", (variant(method),), ("walker",), tasks, seeds, "compact", STEPS, finetuning_steps=STEPS)
    executor = ProcessExecutor(Resources(cpus=cores_per_run), workers, folder)
    report = execute("cores", grid.specs, folder, executor, lambda _: None)
    return sum(float(read_json(folder / run / "timing.json", advice="")["steps_per_second"]) for run in report.results)


def main() -> None:
    """Measure each arrangement, the first one twice: its first run fills the compilation cache."""
    found: dict[str, Any] = {}
    for method in METHODS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            rate(method, 2, 1, folder / "first")
            one, two = rate(method, 2, 1, folder / "one"), rate(method, 1, 2, folder / "two")
        found[method] = {"one_run_on_two_cores": one, "two_runs_on_one_core_each": two, "ratio": two / one}
        print(method, found[method], flush=True)
    report = {"cores": len(available_cores()), "steps": STEPS, "versions": versions(), "steps_per_second": found}
    PATH.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
