"""Speed of the host half, as ratios within one run: `make bench`. Writes benchmarks/urlb.json.

Absolute rates belong to the machine and its load; the ratios are what to compare. What is compared is timed in turns.
"""

import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from batches import random_batch
from timing import Marks, seconds, side_by_side

from skillscape.api import pretrain
from skillscape.config import RunConfig
from skillscape.configure import from_scratch, pretraining
from skillscape.envs.registry import host_env
from skillscape.envs.urlb.tasks import DOMAINS
from skillscape.objectives import trainable
from skillscape.replay import Replay
from skillscape.training.host_collector import update_step
from skillscape.training.state import init_state
from skillscape.training.versions import versions
from skillscape.types import EnvSpec

WALKER = EnvSpec((24,), 6, 1000)


def configuration(method: str | None, preset: str) -> RunConfig:
    """Pre-training on walker with a method, or learning its task from scratch."""
    if method is None:
        return from_scratch("walker", "walker_stand", preset=preset)
    return pretraining(method, "walker", preset=preset)


class Update:
    """The compiled learning step of a run, and the arithmetic that XLA counts in it."""

    def __init__(self, config: RunConfig) -> None:
        """Compile, with a random batch to learn from."""
        self.batch = random_batch(config, WALKER)
        self.state = init_state(config, WALKER)
        began = time.perf_counter()
        self.compiled = jax.jit(update_step(config.backbone, config.reward)).lower(self.state, self.batch).compile()
        self.compile_seconds = time.perf_counter() - began
        jax.block_until_ready(self())
        self.flops = float(self.compiled.cost_analysis()["flops"])

    def __call__(self) -> Any:  # noqa: ANN401
        """One learning step."""
        return self.compiled(self.state, self.batch)


def plain_matmul(size: int, width: int) -> tuple[Callable[[], Any], float]:
    """A plain product [size, width] × [width, width], often enough to be timed, and its floating-point operations."""
    left, right = jnp.ones((size, width)), jnp.ones((width, width))
    repeats = max(1, int(2e8 / (2 * size * width * width)))

    @jax.jit
    def products(left: Any, right: Any) -> Any:  # noqa: ANN401
        # Each product needs the one before: none is left out, none runs beside another.
        return jax.lax.fori_loop(0, repeats, lambda _, left: left @ right, left)

    right = right / width
    jax.block_until_ready(products(left, right))
    return lambda: products(left, right), 2.0 * repeats * size * width * width


def updates(preset: str, rounds: int, methods: Iterable[str]) -> dict[str, Any]:
    """Time of a learning step with each objective relative to DDPG alone, and its share of a plain product's rate."""
    scratch = configuration(None, preset)
    product, operations = plain_matmul(scratch.backbone.schedule.batch_size, vars(scratch.backbone)["width"])
    alone = Update(scratch)
    found: dict[str, Any] = {}
    for method in [None, *methods]:
        one = alone if method is None else Update(configuration(method, preset))
        times = side_by_side({"method": one, "ddpg": alone, "matmul": product}, rounds)
        plain = operations / times["matmul"]
        found[method or "ddpg"] = {
            "milliseconds": 1e3 * times["method"],
            "relative_to_ddpg": times["method"] / times["ddpg"],
            "gflops": one.flops / times["method"] / 1e9,
            "plain_matmul_gflops": plain / 1e9,
            "share_of_plain_matmul": one.flops / times["method"] / plain,
            "compile_seconds": one.compile_seconds,
        }
        print(preset, method or "ddpg", found[method or "ddpg"], flush=True)
    return found


def environments() -> dict[str, Any]:
    """Steps per second of each domain with random actions, one core."""
    found = {}
    for domain in DOMAINS:
        env = host_env(domain)
        actions = np.random.default_rng(0).uniform(-1, 1, (400, env.spec.action_dim)).astype("f4")

        def play(env: Any = env, actions: Any = actions) -> None:  # noqa: ANN401
            env.reset(0)
            for action in actions[: min(len(actions), env.spec.horizon)]:
                env.step(action)

        found[domain] = min(len(actions), env.spec.horizon) / seconds(play, 5)
        env.close()
    return found


def typical_seconds(update: Update, rounds: int = 100) -> float:
    """The median time of a learning step: the loop it is compared with has no fastest round either."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        jax.block_until_ready(update())
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def end_to_end(method: str, env_rate: float, steps: int) -> dict[str, float]:
    """Steps per second of the whole loop against the slower of its two sides, after the random steps.

    The learning step is timed before and after the loop, since the machine's pace drifts by more than what is measured.
    """
    config = configuration(method, "compact")
    schedule, update, marks = config.backbone.schedule, Update(config), Marks(time.perf_counter)
    before = typical_seconds(update)
    with tempfile.TemporaryDirectory() as folder:
        budget = schedule.warmup_steps + steps
        pretrain(method, "walker", out=Path(folder) / "run", steps=budget, callbacks=[marks], progress=False)
    # The first thousand steps of learning hold the compilation; evaluations fall on later multiples of 10,000.
    chosen = [mark for mark in marks.found if schedule.warmup_steps < mark[0] < 10_000]
    rate = (chosen[-1][0] - chosen[0][0]) / (chosen[-1][1] - chosen[0][1])
    update_seconds = (before + typical_seconds(update)) / 2
    slower = min(env_rate, schedule.update_every / update_seconds)
    return {"steps_per_second": rate, "slower_side_steps_per_second": slower, "times_the_slower_side": slower / rate}


def replay_megabytes() -> dict[str, float]:
    """What the files of a buffer of a million transitions with 16 skills take, by domain."""
    found = {}
    for name, domain in DOMAINS.items():
        with tempfile.TemporaryDirectory() as folder:
            spec = EnvSpec((domain.obs_size,), domain.action_size, 1000)
            Replay(spec, 16, capacity=1_000_000, nstep=3, discount=0.99, seed=0, slack=0, folder=Path(folder))
            found[name] = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
    return found


def main() -> None:
    """Measure, store, show."""
    # Without the compilation cache: compile times are measured too.
    compact, paper = updates("compact", 40, trainable()), updates("paper", 5, trainable())
    rates = environments()
    report = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "versions": versions(),
        "environment_steps_per_second": rates,
        "compact": compact,
        "end_to_end": {method: end_to_end(method, rates["walker"], 5_900) for method in ("diayn", "sd3")},
        "paper": paper,
        "replay_megabytes": replay_megabytes(),
    }
    path = Path(__file__).parent / "urlb.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
