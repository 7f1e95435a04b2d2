"""How the cost of SD3 grows with its sizes: `python benchmarks/growth.py`. Writes benchmarks/growth.json and a figure.

Each curve changes one size: skills, modules, widths and batch of a learning step of SD3 with DDPG at `compact` on the
walker's sizes, and parallel episodes of an iteration with PPO in a maze. All sizes of a curve are timed in turns, on
one core and in processor time; the figures are medians relative to the smallest size. The exponent p of cost ∝ size^p
is the slope of a line fitted to all points of a curve on logarithmic axes; the last exponent is the slope between its
two largest sizes.
"""

import json
import platform
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

# First: it limits the process to one core before JAX is loaded.
from sd3 import ENV, WALKER, in_turns

# isort: split
import jax
import numpy as np
from batches import random_batch

from skillscape.config import RunConfig
from skillscape.configure import Overrides, pretraining
from skillscape.plots.style import METHOD_COLOURS, new_figure, save, styled
from skillscape.training.host_collector import update_step
from skillscape.training.jit_collector import iteration
from skillscape.training.state import init_state
from skillscape.training.versions import versions

PATH = Path(__file__).parent / "growth.json"
ROUNDS = 12


def walker(objective: Overrides | None = None, backbone: Overrides | None = None) -> RunConfig:
    """SD3 on the walker at compact, with other sizes."""
    return pretraining("sd3", "walker", preset="compact", objective=objective, backbone=backbone)


def learning_step(config: RunConfig) -> Callable[[], Any]:
    """A compiled learning step."""
    batch, state = random_batch(config, WALKER), init_state(config, WALKER)
    compiled = jax.jit(update_step(config.backbone, config.reward)).lower(state, batch).compile()
    return lambda: compiled(state, batch)


def maze_iteration(episodes: int) -> Callable[[], Any]:
    """A compiled iteration of PPO with SD3 in the square maze."""
    config = pretraining("sd3", ENV, backbone={"episodes": episodes})
    env: Any = config.make_env()
    state = jax.jit(lambda: init_state(config, env.spec))()
    compiled = jax.jit(iteration(config, env)).lower(state).compile()
    return lambda: compiled(state)


CURVES: dict[str, tuple[tuple[int, ...], Callable[[int], Callable[[], Any]]]] = {
    "skills n": ((4, 8, 16, 32, 64), lambda size: learning_step(walker({"number_of_skills": size}))),
    "modules m": ((1, 2, 4, 8), lambda size: learning_step(walker({"modules": size}))),
    "widths d and w (d = 2w)": (
        (32, 64, 128, 256),
        lambda size: learning_step(walker({"width": size, "module_width": size // 2})),
    ),
    "batch": ((64, 128, 256, 512, 1024), lambda size: learning_step(walker(backbone={"batch_size": size}))),
    "parallel episodes (maze)": ((10, 20, 50, 100, 200), maze_iteration),
}


def curve(sizes: tuple[int, ...], make: Callable[[int], Callable[[], Any]]) -> dict[str, Any]:
    """Costs of the sizes relative to that of the smallest, and the fitted exponents."""
    times = in_turns({str(size): make(size) for size in sizes}, ROUNDS)
    seconds = [statistics.median(times[str(size)]) for size in sizes]
    logs = np.log(sizes), np.log(seconds)
    return {
        "sizes": list(sizes),
        "milliseconds": [1e3 * each for each in seconds],
        "relative": [each / seconds[0] for each in seconds],
        "exponent": float(np.polyfit(*logs, 1)[0]),
        "last_exponent": float((logs[1][-1] - logs[1][-2]) / (logs[0][-1] - logs[0][-2])),
    }


def draw(curves: dict[str, Any], path: Path) -> None:
    """The curves on logarithmic axes."""
    with styled():
        figure = new_figure(6.4, 4.2)
        axes = figure.add_subplot()
        for colour, (name, values) in zip(METHOD_COLOURS, curves.items(), strict=False):
            label = f"{name}: exponent {values['exponent']:.2f}, last {values['last_exponent']:.2f}"
            sizes = np.divide(values["sizes"], values["sizes"][0])
            axes.plot(sizes, values["relative"], marker="o", color=colour, label=label)
        axes.set(xscale="log", yscale="log", xlabel="size, relative to the smallest")
        axes.set_ylabel("processor time, relative to the smallest")
        axes.legend()
        save(figure, path, colours=32)


def main() -> None:
    """Measure, store, draw, show."""
    report: dict[str, Any] = {"machine": platform.machine(), "versions": versions(), "rounds": ROUNDS, "curves": {}}
    for name, (sizes, make) in CURVES.items():
        report["curves"][name] = curve(sizes, make)
        print(name, report["curves"][name], flush=True)
    PATH.write_text(json.dumps(report, indent=1) + "\n")
    draw(report["curves"], PATH.with_suffix(".png"))


if __name__ == "__main__":
    main()
