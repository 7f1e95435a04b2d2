"""Rendering speed of walker and quadruped, as ratios within one run: `make bench`. Writes benchmarks/rendering.json.

Absolute rates depend on the machine, its graphics and its load, so compare the ratios. On a busy machine the ratio of
processor times is the more stable one.
"""

import json
import os
import platform
import time
from pathlib import Path

import numpy as np

from skillscape.envs.urlb.camera import Camera, RenderQuality, rendering_backend
from skillscape.envs.urlb.pixels import CAMERAS
from skillscape.envs.urlb.suite import load_task
from skillscape.training.versions import versions

TASKS = ("walker_stand", "quadruped_walk")
SIZES = ((64, 64), (320, 240))
ROUNDS, FRAMES = 5, 8


class TimedCamera:
    """A moving environment and a timed camera on it."""

    def __init__(self, task: str, width: int, height: int, quality: RenderQuality) -> None:
        self._env = load_task(task)
        self._env.reset(0)
        physics, camera = self._env.environment.physics, CAMERAS[self._env.domain.name]
        self._camera = Camera(physics, camera, quality, width=width, height=height)
        self._random = np.random.default_rng(0)
        self.best = float("inf")
        """Seconds of the fastest frame: other processes only ever add to it."""
        self.work = float("inf")
        """Processor seconds per frame, all threads together, in the cheapest round."""
        self._render()

    def _render(self) -> tuple[float, float]:
        action = self._random.uniform(-1, 1, self._env.spec.action_dim).astype(np.float32)
        self._env.step(action)
        clock, work = time.perf_counter(), time.process_time()
        self._camera.frame()
        return time.perf_counter() - clock, time.process_time() - work

    def round(self) -> None:
        """Render a few frames; the steps between them are not timed."""
        times = [self._render() for _ in range(FRAMES)]
        self.best = min(self.best, *(clock for clock, _ in times))
        self.work = min(self.work, sum(work for _, work in times) / FRAMES)


def measure(task: str, width: int, height: int) -> dict[str, float]:
    """Frames per second and processor time per frame, with shadows, reflections and antialiasing, and without."""
    with_shadows, without = (TimedCamera(task, width, height, quality) for quality in ("reference", "fast"))
    for _ in range(ROUNDS):
        # Alternating, so that other load affects both alike.
        with_shadows.round()
        without.round()
    return {
        "with_shadows_per_second": 1 / with_shadows.best,
        "without_per_second": 1 / without.best,
        "times_faster_without": with_shadows.best / without.best,
        "with_shadows_processor_milliseconds": 1e3 * with_shadows.work,
        "without_processor_milliseconds": 1e3 * without.work,
        "times_less_work_without": with_shadows.work / without.work,
    }


def main() -> None:
    """Measure, write the JSON file, and print it."""
    report = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "drawn_with": rendering_backend(),
        "versions": versions(),
        "pictures": {
            task: {f"{width}x{height}": measure(task, width, height) for width, height in SIZES} for task in TASKS
        },
    }
    path = Path(__file__).parent / "rendering.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
