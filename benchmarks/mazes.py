"""Speed of the maze half, as ratios within one run: `make bench`. Writes benchmarks/mazes.json.

Absolute rates belong to the machine and its load; the ratios are what to compare.
"""

import json
import os
import platform
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from timing import seconds

from skillscape.config import RunConfig
from skillscape.configure import pretraining
from skillscape.training.jit_collector import iteration
from skillscape.training.state import init_state
from skillscape.training.versions import versions
from skillscape.types import Experience, Spec

ENV = "maze/square_a"
METHODS = ("diayn", "dads", "cic", "sd3")
ITERATIONS = 12


class Program:
    """The compiled iteration of a run, and how long compiling took, the faster of two times."""

    def __init__(self, config: RunConfig) -> None:
        """Compile."""
        env: Any = config.make_env()
        self.steps = config.backbone.steps_per_iteration(env.spec)
        self.init = jax.jit(lambda seed: init_state(replace(config, seed=seed), env.spec))
        self.compile_seconds = float("inf")
        for _ in range(2):
            jax.clear_caches()
            began = time.perf_counter()
            program = jax.jit(iteration(config, env))
            self.advance = program.lower(jax.eval_shape(self.init, 0)).compile()
            self.compile_seconds = min(self.compile_seconds, time.perf_counter() - began)

    def run(self, seed: int, iterations: int) -> Any:  # noqa: ANN401
        """A short training."""
        state = self.init(seed)
        for _ in range(iterations):
            state, _ = self.advance(state)
        return jax.block_until_ready(state)


def per_method() -> dict[str, dict[str, float]]:
    """Steps per second and compile time of every method, interleaved so that all see the same load."""
    programs = {name: Program(pretraining(name, ENV)) for name in METHODS}
    states = {name: program.run(0, 1) for name, program in programs.items()}
    best = dict.fromkeys(METHODS, float("inf"))
    for _ in range(ITERATIONS):
        for name, program in programs.items():
            best[name] = min(best[name], seconds(lambda p=program, s=states[name]: p.advance(s), 1))
    return {
        name: {
            "seconds_per_iteration": best[name],
            "steps_per_second": programs[name].steps / best[name],
            "relative_to_diayn": best[name] / best["diayn"],
            "compile_seconds": programs[name].compile_seconds,
        }
        for name in METHODS
    }


def by_number_of_skills() -> dict[str, dict[str, float]]:
    """Time of SD3's fit and all-skill reward of one batch as the number of skills grows."""
    found: dict[str, dict[str, float]] = {}
    key = jax.random.key(0)
    for number in (10, 20, 40, 80):
        one = pretraining("sd3", ENV, objective={"number_of_skills": number}).reward
        state = jax.jit(lambda key, one=one: one.init(key, Spec((2,), 2)))(key)
        obs = jax.random.normal(key, (2500, 2))
        batch = Experience(obs, obs, obs, one.skills.sample(key, 2500), jnp.zeros(2500))
        part = jax.tree.map(lambda field: field[:250], batch)
        update, reward = jax.jit(one.update), jax.jit(one.reward)
        jax.block_until_ready((update(state, part, key), reward(state, batch, key)))
        fit = seconds(lambda u=update, s=state, p=part: u(s, p, key), 20)
        score = seconds(lambda r=reward, s=state, b=batch: r(s, b, key), 8)
        found[str(number)] = {"fit_seconds": 40 * fit, "reward_seconds": score, "total_seconds": 40 * fit + score}
    for entry in found.values():
        entry["relative_to_10"] = entry["total_seconds"] / found["10"]["total_seconds"]
    return found


def by_number_of_seeds() -> dict[str, dict[str, float]]:
    """Seeds per second in one process against one after the other, and batched with vmap."""
    config = pretraining("sd3", ENV)
    program = Program(config)
    program.run(0, 1)
    workers = os.cpu_count() or 1
    found = {}
    for number in (1, 4, 10):
        alone = seconds(lambda n=number: [program.run(seed, 4) for seed in range(n)], 1)
        with ThreadPoolExecutor(workers) as pool:
            together = seconds(lambda n=number, p=pool: list(p.map(lambda seed: program.run(seed, 4), range(n))), 1)
        found[str(number)] = {
            "one_after_the_other_seconds": alone,
            "threads_seconds": together,
            "speed_up": alone / together,
        }
    batched = jax.jit(jax.vmap(iteration(config, config.make_env())))
    states = jax.vmap(program.init)(jnp.arange(4))
    jax.block_until_ready(batched(states))
    vmapped = seconds(lambda: batched(states), 2)
    single = program.run(0, 1)
    found["vmap of 4"] = {
        "relative_to_one_after_the_other": vmapped / (4 * seconds(lambda: program.advance(single), 4))
    }
    return found


def main() -> None:
    """Measure, store, show."""
    report = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "versions": versions(),
        "methods": per_method(),
        "skills": by_number_of_skills(),
        "seeds": by_number_of_seeds(),
    }
    path = Path(__file__).parent / "mazes.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({name: report[name] for name in ("methods", "skills", "seeds")}, indent=1))


if __name__ == "__main__":
    main()
