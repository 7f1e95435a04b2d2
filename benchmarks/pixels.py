"""Speed of training from pixels: `make bench`. Writes benchmarks/pixels.json.

Absolute rates belong to the machine and its load; what to compare are rates of one run with each other.
"""

import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from skillscape.envs.host import PIXEL_DOMAINS, make_host
from skillscape.envs.layouts import load_layout
from skillscape.envs.maze_frames import render_maze
from skillscape.replay import Replay
from skillscape.training.runs import versions
from skillscape.types import EnvSpec

LOOKS = {"fast": "", "reference": "/reference"}
SEQUENCES = ((16, 32), (50, 50))


def seconds(function: Callable[[], Any], repeats: int) -> float:
    """The fastest of ``repeats`` calls: noise from other processes only ever adds."""
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(function())
        best = min(best, time.perf_counter() - began)
    return best


def steps_per_second(name: str, steps: int, repeats: int) -> float:
    """Actions per second of an environment, each with its image; two control steps of walker and quadruped."""
    env = make_host(name)
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, env.spec.action_dim)).astype("f4")

    def play() -> None:
        for action in actions:
            env.step(action)

    best = float("inf")
    for seed in range(repeats):
        env.reset(seed)
        best = min(best, seconds(play, 1))
    env.close()
    return steps / best


def environments() -> dict[str, float]:
    """Steps per second of every environment that is seen, and of the domains without pictures."""
    rates = {"maze-pixels/square_a": steps_per_second("maze-pixels/square_a", 50, 40)}
    for seen, domain in PIXEL_DOMAINS.items():
        # Without pictures a step is one control step, half as much.
        rates[domain] = steps_per_second(domain, 400, 5)
        for look, suffix in LOOKS.items():
            rates[f"{seen} {look}"] = steps_per_second(seen + suffix, 100 if look == "fast" else 20, 5)
    return rates


def maze_frames() -> dict[str, float]:
    """Frames per second of the compiled renderer, in batches of 512."""
    layout, positions = load_layout("square_a"), np.zeros((512, 2), "f4")
    jax.block_until_ready(render_maze(layout, positions))
    return {"frames_per_second": 512 / seconds(lambda: render_maze(layout, positions), 20)}


def replay() -> dict[str, float]:
    """Milliseconds to draw a batch of sequences of frames from files, and to write one step."""
    frame = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        spec = EnvSpec(frame.shape, 6, 500)
        buffer = Replay(spec, 16, capacity=5_010, steps_ahead=1, discount=0.99, seed=0, folder=Path(folder))
        began = time.perf_counter()
        for _ in range(10):
            buffer.begin(frame)
            for _ in range(500):
                buffer.add(np.zeros(6, "f4"), np.zeros(16, "f4"), 0.0, 1.0, frame)
            buffer.finish()
        found["milliseconds_per_written_step"] = 1e3 * (time.perf_counter() - began) / 5_000
        visible = buffer.mark().visible
        for count, length in SEQUENCES:
            drawn = seconds(lambda c=count, n=length: buffer.sample_sequences(c, n, visible).reward, 20)  # type: ignore[misc]
            found[f"milliseconds_per_batch_{count}x{length}"] = 1e3 * drawn
    return found


def main() -> None:
    """Measure, store, show."""
    report = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "versions": versions(),
        "environment_steps_per_second": environments(),
        "maze_renderer": maze_frames(),
        "replay": replay(),
    }
    path = Path(__file__).parent / "pixels.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
