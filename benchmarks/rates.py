"""Core time of what runs are made of, for the estimates of `skillscape sweep --dry-run`.

`python benchmarks/rates.py [PART …]` writes src/skillscape/sweeps/data/rates.json. The parts are acting, compact,
paper, smoke, maze, seen-laptop and seen-paper (all if none is named), or a single one such as paper/sd3; the rest of
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
from batches import random_sequences
from timing import operations

from skillscape.api import enable_compilation_cache, pretrain
from skillscape.envs.host import PIXEL_DOMAINS, make_host
from skillscape.envs.urlb.tasks import DOMAINS
from skillscape.experiments.urlb import BENCHMARKS, SCRATCH, SEEN_SCRATCH
from skillscape.objectives import registry
from skillscape.presets import default_preset, hosted_settings
from skillscape.training.hosted import update_step
from skillscape.training.jobs import Job, init_state
from skillscape.types import EnvSpec, Transitions

PATH = Path(__file__).parents[1] / "src" / "skillscape" / "sweeps" / "data" / "rates.json"
WALKER = EnvSpec((24,), 6, 1000)
SEEN, SEEN_WALKER = "walker-pixels", EnvSpec((64, 64, 3), 6, 500)
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


def job(method: str | None, preset: str, env: str = "walker") -> Job:
    """A pre-training, or without a method learning a task."""
    chosen = hosted_settings(method, env, preset)
    return Job(
        phase="finetune" if method is None else "pretrain",
        env=env,
        task=DOMAINS[PIXEL_DOMAINS.get(env, env)].primal_task if method is None else None,
        noise=0.0,
        objective=chosen.objective,
        backbone=chosen.backbone,
        steps=100_000,
        seed=0,
        evaluate_every=chosen.evaluate_every,
        evaluation_episodes=chosen.evaluation_episodes,
    )


OPERATIONS: dict[tuple[str, str], float] = {}
"""Preset and method → floating-point operations of the products of a learning step."""


def seen_learning(preset: str, method: str) -> float:
    """A learning step of a method with Dreamer, on walker's frames; dreamer is the learner alone."""
    one = job(None if method == SEEN_SCRATCH else method, preset, SEEN)
    batch = random_sequences(one.backbone.schedule, SEEN_WALKER, one.rewarded.skills)
    update = update_step(one)
    if preset == "paper":
        # Its convolutions as products need forty gigabytes: by the operations of its products, at `laptop`'s rate.
        state = jax.eval_shape(lambda: init_state(one, SEEN_WALKER))
        laptop = seen_learning("laptop", method)
        return round(laptop * operations(update, state, batch) / OPERATIONS["laptop", method], 1)
    state = init_state(one, SEEN_WALKER)
    OPERATIONS[preset, method] = operations(update, state, batch)
    compiled = jax.jit(update)
    return round(core_milliseconds(lambda: compiled(state, batch)), 1)


def learning(preset: str, method: str) -> float:
    """A learning step of a method, on walker's sizes; ddpg is the learner alone."""
    one = job(None if method == SCRATCH else method, preset)
    size, normal = one.backbone.schedule.batch_size, np.random.default_rng(0).normal
    widths = {"obs": 24, "action": 6, "end_obs": 24, "next_obs": 24}
    arrays: dict[str, Any] = {name: normal(size=(size, width)).astype("f4") for name, width in widths.items()}
    rows = {name: normal(size=size).astype("f4") for name in ("reward", "discount", "next_discount")}
    skill = np.asarray(one.rewarded.skills.sample(jax.random.key(0), size))
    batch, state = Transitions(**arrays, **rows, skill=skill), init_state(one, WALKER)
    update = jax.jit(update_step(one))
    return round(core_milliseconds(lambda: update(state, batch)), 3)


def acting(domain: str) -> float:
    """A step of an environment with the action that a policy of the default preset chooses."""
    one, env = job(None, default_preset(domain), domain), make_host(domain)
    backbone, skill = one.backbone, np.zeros((1, 0), np.float32)
    policy = backbone.policy_params(init_state(one, env.spec).agent)
    act = jax.jit(lambda carry, obs: backbone.act(policy, carry, obs, skill, jax.random.key(0), True))

    def episode() -> None:
        obs, carry = env.reset(0), backbone.initial_carry(1)
        for _ in range(EPISODE):
            action, carry = act(carry, obs[None])
            obs = env.step(np.asarray(action[0])).obs

    spent = core_milliseconds(episode) / EPISODE
    env.close()
    return round(spent, 4)


def maze(method: str) -> float:
    """A step in the square maze, with its share of learning, after the compilation."""
    marks: list[tuple[int, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        pretrain(
            method,
            out=Path(folder) / "run",
            steps=24_000,
            on_progress=lambda _run, step, *_: marks.append((step, time.process_time())),
        )
    return round(1e3 * (marks[-1][1] - marks[0][1]) / (marks[-1][0] - marks[0][0]), 4)


METHODS = (SCRATCH, *sorted(set(registry()) - {"extrinsic"}))
LEARNING = "learning_core_milliseconds"
MEASURED: dict[str, tuple[str, Callable[[str], float], tuple[str, ...]]] = {
    "acting": ("acting_core_milliseconds", acting, (*DOMAINS, *PIXEL_DOMAINS)),
    "compact": (LEARNING, partial(learning, "compact"), METHODS),
    "paper": (LEARNING, partial(learning, "paper"), METHODS),
    # Nobody plans by the hours of these: three methods stand for all.
    "smoke": (LEARNING, partial(learning, "smoke"), ("ddpg", "diayn", "sd3")),
    "maze": ("maze_core_milliseconds_per_step", maze, ("diayn", "dads", "cic", "sd3")),
    "seen-laptop": (LEARNING, partial(seen_learning, "laptop"), BENCHMARKS["pixels"].methods),
    # The learner alone, and the rest by their ratios to it.
    "seen-paper": (LEARNING, partial(seen_learning, "paper"), (SEEN_SCRATCH,)),
}
"""Part → where it is stored, how it is measured, and for what."""


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
        key, measure, every = MEASURED[name]
        for one in [only] if only else every:
            table = rates.setdefault(key, {})
            table = table if name in ("acting", "maze") else table.setdefault(name, {})
            table[one] = measure(one)
            print(name, one, table[one], flush=True)
            PATH.write_text(json.dumps(rates, indent=1) + "\n")


if __name__ == "__main__":
    main()
