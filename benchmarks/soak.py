"""Memory of long runs: `python benchmarks/soak.py [--minutes M] [LOOP …]`. Writes benchmarks/soak.json and a figure.

Trains with each loop for a while, as `skillscape pretrain` does, and samples the resident memory of the process every
ten seconds. The replay buffer lives in files that are mapped into memory: its pages are counted apart, since the system
takes them back when memory is short. Slopes leave out the first quarter of the samples, in which caches fill.
"""

import argparse
import csv
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from skillscape.plots.style import METHOD_COLOURS, new_figure, save, styled
from skillscape.training.versions import versions

PATH = Path(__file__).parent / "soak.json"
EVERY = 10.0
POINTS = 200
LOOPS = {
    "maze, PPO": ("--env", "maze/square_a", "--steps", "500_000_000"),
    "walker compact, DDPG": ("--env", "walker", "--preset", "compact", "--steps", "2_000_000"),
    "maze-pixels laptop, Dreamer": ("--env", "maze-pixels/square_a", "--preset", "laptop", "--steps", "2_000_000"),
}
"""Arguments of `skillscape pretrain sd3`, by loop."""


class Sample(NamedTuple):
    """One look at a run. Memory in MB."""

    minutes: float
    steps: int
    resident: float
    replay: float
    """Pages of the replay files, a part of ``resident``."""


def steps_of(folder: Path) -> int:
    """The step of the newest row of metrics; 0 before the first one."""
    path = folder / "metrics.csv"
    rows = list(csv.reader(path.read_text().splitlines()[-1:])) if path.exists() else []
    return int(rows[0][0]) if rows and rows[0][0].isdigit() else 0


def memory_of(process: int, folder: Path) -> tuple[float, float]:
    """Resident memory, and that of mapped replay files, in MB."""
    resident = replay = 0
    mapped = ""
    for line in Path(f"/proc/{process}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            mapped = line
        elif line.startswith("Rss:"):
            size = int(line.split()[1])
            resident += size
            replay += size if str(folder / "replay") in mapped else 0
    return resident / 1024, replay / 1024


def watched(arguments: tuple[str, ...], minutes: float, folder: Path) -> list[Sample]:
    """Samples of a training, which is stopped after ``minutes``."""
    command = [sys.executable, "-m", "skillscape", "pretrain", "sd3", *arguments, "--out", str(folder)]
    began = time.monotonic()
    samples: list[Sample] = []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as training:
        try:
            while (passed := time.monotonic() - began) < 60 * minutes:
                if training.poll() is not None:
                    raise RuntimeError(f"{' '.join(command)} ended after {passed:.0f} seconds")
                samples.append(Sample(passed / 60, steps_of(folder), *memory_of(training.pid, folder)))
                time.sleep(EVERY)
        finally:
            training.send_signal(signal.SIGINT)
    return samples


def thinned(samples: list[Sample], points: int = POINTS) -> list[Sample]:
    """At most ``points`` samples, evenly chosen, the first and the last among them."""
    if len(samples) <= points:
        return samples
    return [samples[round(index)] for index in np.linspace(0, len(samples) - 1, points)]


def slope(steps: list[int], megabytes: list[float]) -> float:
    """Megabytes per 100,000 steps, by least squares."""
    return 1e5 * float(np.polyfit(steps, megabytes, 1)[0]) if len(set(steps)) > 1 else 0.0


def summary(samples: list[Sample]) -> dict[str, float]:
    """Medians of the first and last quarter, and slopes after the first, with and without replay."""
    quarter = max(1, len(samples) // 4)
    later = samples[quarter:]
    steps = [each.steps for each in later]
    own = [each.resident - each.replay for each in samples]
    return {
        "minutes": samples[-1].minutes,
        "steps": samples[-1].steps,
        "first_quarter": statistics.median(each.resident for each in samples[:quarter]),
        "last_quarter": statistics.median(each.resident for each in samples[-quarter:]),
        "first_quarter_without_replay": statistics.median(own[:quarter]),
        "last_quarter_without_replay": statistics.median(own[-quarter:]),
        "replay_at_the_end": samples[-1].replay,
        "per_100_000_steps": slope(steps, [each.resident for each in later]),
        "per_100_000_steps_without_replay": slope(steps, own[quarter:]),
    }


def draw(loops: dict[str, Any], path: Path) -> None:
    """Resident memory over time, with and without replay."""
    with styled():
        figure = new_figure(6.4, 3.6)
        axes = figure.add_subplot()
        for colour, (name, values) in zip(METHOD_COLOURS, loops.items(), strict=False):
            samples = [Sample(*each) for each in values["samples"]]
            minutes = [each.minutes for each in samples]
            axes.plot(minutes, [each.resident for each in samples], color=colour, label=name)
            if any(each.replay for each in samples):
                own = [each.resident - each.replay for each in samples]
                axes.plot(minutes, own, color=colour, linestyle=":", label=f"{name}, without replay")
        axes.set(xlabel="minutes", ylabel="resident memory, MB", ylim=(0, None))
        axes.legend()
        save(figure, path, colours=32)


def main() -> None:
    """Train, sample, store, draw, show."""
    parser = argparse.ArgumentParser()
    parser.add_argument("loops", nargs="*", metavar="LOOP", help=f"of {', '.join(LOOPS)}; all if none is named")
    parser.add_argument("--minutes", type=float, default=60.0, help="of each loop")
    parser.add_argument("--out", type=Path, default=PATH, help="the JSON file; the figure is written beside it")
    parser.add_argument("--draw", action="store_true", help="only draw the stored samples again")
    options = parser.parse_args()
    for name in () if options.draw else options.loops or LOOPS:
        with tempfile.TemporaryDirectory() as folder:
            samples = watched(LOOPS[name], options.minutes, Path(folder).resolve() / "run")
        report = json.loads(options.out.read_text()) if options.out.exists() else {"loops": {}}
        found = {"niceness": os.nice(0), **summary(samples)}
        rounded = [[round(value, 2) for value in each] for each in thinned(samples)]
        report["versions"] = versions()
        report["loops"][name] = {**found, "samples": rounded}
        options.out.write_text(json.dumps(report) + "\n")
        print(name, found, flush=True)
    draw(json.loads(options.out.read_text())["loops"], options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
