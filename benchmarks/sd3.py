"""What scoring all skills costs SD3, beside the plain form of the same arithmetic: `python benchmarks/sd3.py [PART …]`.

Writes benchmarks/sd3.json; the parts are compact, paper, maze and skills (all if none is named). The plain form scores
pairs of state and skill as rows of one batch, and shares only what no skill enters. All forms are timed in turns within
one process, on one core and in processor time, so that other work on the machine hardly matters; the figures are
medians of the ratios of one round. ``operations`` are those of dense products, counted rather than timed.
"""

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Both are read when JAX is loaded.
os.environ["NPROC"] = os.environ["OMP_NUM_THREADS"] = "1"
if platform.system() == "Linux":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax
import jax.numpy as jnp
from batches import random_batch
from timing import operations
from urlb import WALKER, configuration

from skillscape.configure import pretraining
from skillscape.objectives.cvae import ConditionalVAE, Evidence
from skillscape.training.host_collector import update_step
from skillscape.training.jit_collector import iteration
from skillscape.training.state import init_state
from skillscape.training.versions import versions
from skillscape.types import Experience, Spec

PATH = Path(__file__).parent / "sd3.json"
ENV = "maze/square_a"
PAUSE = 0.1
"""Seconds between two calls."""
FITS = 40
"""Fits of an iteration in a maze, for one reward."""


def plain(model: ConditionalVAE, obs: Any, skills: Any, noise: Any) -> Evidence:  # noqa: ANN401
    """Every state under every skill, [n, k], as rows of one batch; what does not depend on the skill once per state."""
    target, shared = jax.tree.map(
        lambda part: jnp.repeat(part, skills.shape[0], axis=0),
        (jax.vmap(model.target)(obs), jax.vmap(model.shared)(obs)),
    )

    def of_pair(target: Any, shared: Any, skill: Any) -> Evidence:  # noqa: ANN401
        return model._evidence(target, model.posterior(shared, skill), model.embed_for_decoder(skill), noise)

    pairs = jax.vmap(of_pair)(target, shared, jnp.tile(skills, (obs.shape[0], 1)))
    return Evidence(*(part.reshape(obs.shape[0], -1) for part in pairs))


@contextmanager
def scoring_pairs() -> Iterator[None]:
    """Inside the block SD3 is traced with the plain form."""
    factored = ConditionalVAE.evidence_of_each
    ConditionalVAE.evidence_of_each = plain  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        ConditionalVAE.evidence_of_each = factored  # type: ignore[method-assign]


def in_turns(functions: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Processor seconds of each call, one of each in every round, after one that does not count."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for counted in range(rounds + 1):
        for name, function in functions.items():
            # Memory of the call before is given back by another thread, whose time would count here.
            time.sleep(PAUSE)
            began = time.process_time()
            jax.block_until_ready(function())
            if counted:
                times[name].append(time.process_time() - began)
    return times


def relative(times: dict[str, list[float]], name: str, base: str) -> float:
    """The median over rounds of one time by another."""
    return statistics.median(mine / other for mine, other in zip(times[name], times[base], strict=True))


def learning_step(method: str | None, preset: str) -> tuple[Callable[[], Any], float]:
    """A compiled learning step on walker's sizes, and the operations of its products."""
    config = configuration(method, preset)
    batch, state = random_batch(config, WALKER), init_state(config, WALKER)
    step = update_step(config.backbone, config.reward)
    compiled = jax.jit(step).lower(state, batch).compile()
    return lambda: compiled(state, batch), operations(step, state, batch)


def with_ddpg(preset: str, rounds: int) -> dict[str, float]:
    """A learning step of SD3 relative to one of DDPG alone."""
    alone, counted_alone = learning_step(None, preset)
    factored, counted = learning_step("sd3", preset)
    with scoring_pairs():
        pairs, counted_pairs = learning_step("sd3", preset)
    times = in_turns({"ddpg": alone, "plain": pairs, "factored": factored}, rounds)
    return {
        "plain_relative_to_ddpg": relative(times, "plain", "ddpg"),
        "relative_to_ddpg": relative(times, "factored", "ddpg"),
        "plain_operations_relative_to_ddpg": counted_pairs / counted_alone,
        "operations_relative_to_ddpg": counted / counted_alone,
    }


def maze_iteration(method: str) -> Callable[[], Any]:
    """A compiled iteration of PPO in the square maze."""
    config = pretraining(method, ENV)
    env: Any = config.make_env()
    state = jax.jit(lambda: init_state(config, env.spec))()
    compiled = jax.jit(iteration(config, env)).lower(state).compile()
    return lambda: compiled(state)


def in_maze(rounds: int) -> dict[str, float]:
    """An iteration with SD3 relative to one with DIAYN."""
    programs = {"diayn": maze_iteration("diayn"), "factored": maze_iteration("sd3")}
    with scoring_pairs():
        programs["plain"] = maze_iteration("sd3")
    times = in_turns(programs, rounds)
    return {
        "plain_relative_to_diayn": relative(times, "plain", "diayn"),
        "relative_to_diayn": relative(times, "factored", "diayn"),
    }


def fit_and_reward(number: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A fit of SD3 on 250 states of the maze, and the reward of 2,500."""
    objective, key = pretraining("sd3", ENV, objective={"number_of_skills": number}).reward, jax.random.key(0)
    state = jax.jit(lambda key: objective.init(key, Spec((2,), 2)))(key)
    obs = jax.random.normal(key, (2500, 2))
    batch = Experience(obs, obs, obs, objective.skills.sample(key, 2500), jnp.zeros(2500))
    part = jax.tree.map(lambda field: field[:250], batch)
    update = jax.jit(objective.update).lower(state, part, key).compile()
    reward = jax.jit(objective.reward).lower(state, batch, key).compile()
    return lambda: update(state, part, key), lambda: reward(state, batch, key)


def by_number_of_skills(rounds: int) -> dict[str, float]:
    """Fits and reward of an iteration with 80 skills relative to 10."""
    programs = {}
    for number in (10, 80):
        programs[f"fit {number}"], programs[f"factored {number}"] = fit_and_reward(number)
        with scoring_pairs():
            programs[f"plain {number}"] = fit_and_reward(number)[1]
    times = in_turns(programs, rounds)

    def total(form: str, number: int) -> float:
        return FITS * statistics.median(times[f"fit {number}"]) + statistics.median(times[f"{form} {number}"])

    return {
        "plain_80_relative_to_10": total("plain", 80) / total("plain", 10),
        "80_relative_to_10": total("factored", 80) / total("factored", 10),
        "reward_of_10_relative_to_plain": relative(times, "factored 10", "plain 10"),
        "reward_of_80_relative_to_plain": relative(times, "factored 80", "plain 80"),
    }


PARTS: dict[str, Callable[[], dict[str, float]]] = {
    "compact": lambda: with_ddpg("compact", 30),
    "maze": lambda: in_maze(10),
    "skills": lambda: by_number_of_skills(8),
    "paper": lambda: with_ddpg("paper", 2),
}


def main() -> None:
    """Measure what was asked for, store it, show it."""
    report: dict[str, Any] = json.loads(PATH.read_text()) if PATH.exists() else {}
    report.update(machine=platform.machine(), versions=versions())
    for part in sys.argv[1:] or PARTS:
        report[part] = PARTS[part]()
        PATH.write_text(json.dumps(report, indent=1) + "\n")
        print(part, report[part], flush=True)


if __name__ == "__main__":
    main()
