"""Core time of what runs are made of, for the estimates of `skillscape sweep --dry-run`.

`python benchmarks/rates.py [PART …]` writes src/skillscape/experiments/data/rates.json. The parts are acting, maze, and
ddpg-PRESET and dreamer-PRESET for learning (all if none is named), or a single rate such as ddpg-paper/sd3; the rest of
the file stays as it is.
What counts is the processor time of one core, not the time that goes by: other work on the machine hardly matters.
"""

import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

# Both are read when JAX is loaded.
os.environ["NPROC"] = os.environ["OMP_NUM_THREADS"] = "1"
if platform.system() == "Linux":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax
import numpy as np
from batches import random_batch
from timing import operations

from skillscape import pretrain
from skillscape.config import RunConfig
from skillscape.configure import from_scratch, pretraining
from skillscape.envs.registry import family_of, host_env
from skillscape.experiments.benchmark import IMAGES, STATES
from skillscape.experiments.paper.pixels import Pixels
from skillscape.launch import enable_compilation_cache
from skillscape.objectives import trainable
from skillscape.training.callbacks import Callback
from skillscape.training.host_collector import update_step
from skillscape.training.state import init_state
from skillscape.types import EnvSpec, Transitions

PATH = Path(__file__).parents[1] / "src" / "skillscape" / "experiments" / "data" / "rates.json"
WALKER = EnvSpec((24,), 6, 1000)
IMAGES_OF_WALKER = EnvSpec((64, 64, 3), 6, 500)
EPISODE = 250
SECONDS = 1.0
"""Of processor time, for each measurement."""


def core_milliseconds(function: Callable[[], Any]) -> float:
    """Processor time of a call, the mean of as many as fit, after one that does not count."""
    jax.block_until_ready(function())
    began, calls = time.process_time(), 0
    while calls == 0 or time.process_time() - began < SECONDS:
        jax.block_until_ready(function())
        calls += 1
    return 1e3 * (time.process_time() - began) / calls


def config(method: str, preset: str | None = None, env: str = "walker") -> RunConfig:
    """A pre-training; the name of the backbone is learning a task from scratch."""
    if method in trainable():
        return pretraining(method, env, preset=preset)
    return from_scratch(env, family_of(env).tasks(env)[0], preset=preset)


OPERATIONS: dict[tuple[str, str], float] = {}
"""Preset and method → floating-point operations of the products of a learning step."""


def learning_from_images(preset: str, method: str) -> float:
    """A learning step of a method with Dreamer, on walker's frames; dreamer is the backbone alone."""
    run = config(method, preset, "walker-pixels")
    batch = random_batch(run, IMAGES_OF_WALKER)
    update = update_step(run.backbone, run.reward)
    if preset == "paper":
        # Its convolutions as products need forty gigabytes: by the operations of its products, at `laptop`'s rate.
        state = jax.eval_shape(lambda: init_state(run, IMAGES_OF_WALKER))
        laptop = learning_from_images("laptop", method)
        return round(laptop * operations(update, state, batch) / OPERATIONS["laptop", method], 1)
    state = init_state(run, IMAGES_OF_WALKER)
    OPERATIONS[preset, method] = operations(update, state, batch)
    compiled = jax.jit(update)
    return round(core_milliseconds(lambda: compiled(state, batch)), 1)


def learning(preset: str, method: str) -> float:
    """A learning step of a method, on walker's sizes; ddpg is the backbone alone."""
    run = config(method, preset)
    size, normal = run.backbone.schedule.batch_size, np.random.default_rng(0).normal
    widths = {"obs": 24, "action": 6, "bootstrap_obs": 24, "next_obs": 24}
    arrays: dict[str, Any] = {name: normal(size=(size, width)).astype("f4") for name, width in widths.items()}
    rows = {name: normal(size=size).astype("f4") for name in ("reward", "discount", "next_discount")}
    skill = np.asarray(run.reward.skills.sample(jax.random.key(0), size))
    batch, state = Transitions(**arrays, **rows, skill=skill), init_state(run, WALKER)
    update = jax.jit(update_step(run.backbone, run.reward))
    return round(core_milliseconds(lambda: update(state, batch)), 3)


def acting(domain: str) -> float:
    """A step of an environment with the action that a policy of the default preset chooses."""
    run, env = config("from scratch", env=domain), host_env(domain)
    backbone, skill = run.backbone, np.zeros((1, 0), np.float32)
    policy = backbone.policy_params(init_state(run, env.spec).agent)
    act = jax.jit(lambda carry, obs: backbone.act(policy, carry, obs, skill, jax.random.key(0), True))

    def episode() -> None:
        obs, carry = env.reset(0), backbone.initial_carry(1)
        for _ in range(EPISODE):
            action, carry = act(carry, obs[None])
            obs = env.step(np.asarray(action[0])).obs

    spent = core_milliseconds(episode) / EPISODE
    env.close()
    return round(spent, 4)


class Marks(Callback):
    """The processor time of every row of metrics."""

    def __init__(self) -> None:
        self.times: list[tuple[int, float]] = []

    def on_log(self, run: Any, log: str, step: int, row: Any) -> None:  # noqa: ANN401
        """One mark."""
        del run, row
        if log == "metrics":
            self.times.append((step, time.process_time()))


def maze(method: str) -> float:
    """A step in the square maze, with its share of learning, after the compilation."""
    marks = Marks()
    with tempfile.TemporaryDirectory() as folder:
        pretrain(method, out=Path(folder) / "run", steps=24_000, callbacks=[marks], progress=False)
    (first, began), (last, ended) = marks.times[0], marks.times[-1]
    return round(1e3 * (ended - began) / (last - first), 4)


METHODS = ("ddpg", *sorted(trainable()))
MEASURED: dict[str, tuple[tuple[str, ...], Callable[[str], float], tuple[str, ...]]] = {
    "acting": (("acting_core_milliseconds",), acting, (*STATES, *IMAGES)),
    "maze": (("step_core_milliseconds", "ppo", "default"), maze, ("diayn", "dads", "cic", "sd3")),
}
"""Part → where it is stored, how it is measured, and for what."""
for _preset, _methods in {"compact": METHODS, "paper": METHODS, "smoke": ("ddpg", "diayn", "sd3")}.items():
    _place = ("learning_core_milliseconds", "ddpg", _preset)
    MEASURED[f"ddpg-{_preset}"] = (_place, partial(learning, _preset), _methods)
# Of the paper's sizes the backbone alone, and the rest by their ratios to it.
for _preset, _methods in {"laptop": Pixels.paper_methods, "paper": ("dreamer",)}.items():
    _place = ("learning_core_milliseconds", "dreamer", _preset)
    MEASURED[f"dreamer-{_preset}"] = (_place, partial(learning_from_images, _preset), _methods)


def processor() -> str:
    """The name of the processor, where the system tells."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def main() -> None:
    """Measure what was asked for and store it."""
    enable_compilation_cache()
    parts = sys.argv[1:] or [*MEASURED]
    rates: dict[str, Any] = json.loads(PATH.read_text()) if PATH.exists() else {}
    rates["how"] = (
        "processor time of single calls on one core, by benchmarks/rates.py; a step of a run is taken to cost its "
        "acting, that of its evaluations, and its share of a learning step"
    )
    rates.setdefault("note", "")
    rates["machine"] = f"one core of {processor()}"
    for part in parts:
        name, _, only = part.partition("/")
        place, measure, every = MEASURED[name]
        table = rates
        for key in place:
            table = table.setdefault(key, {})
        for method in [only] if only else every:
            table[method] = measure(method)
            print(name, method, table[method], flush=True)
            PATH.write_text(json.dumps(rates, indent=1) + "\n")


if __name__ == "__main__":
    main()
