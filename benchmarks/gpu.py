"""One row for the table of docs/gpu.md: how fast the device of this machine trains.

`python benchmarks/gpu.py` works on a CPU too. `--seeds 64` sets how many seeds one program trains. `--paper` adds the
sizes of the papers, for a GPU: on a CPU they take minutes, and images forty gigabytes. Nothing is written. Compile
times are left out.
"""

import argparse
import os
import time
from functools import partial
from typing import Any

import jax
from batches import random_batch
from timing import seconds

from skillscape import make_train, pretraining_config
from skillscape.training.host_collector import compiled_update, copied
from skillscape.training.state import init_state
from skillscape.types import EnvSpec

SPECS = {"walker": EnvSpec((24,), 6, 1000), "walker-pixels": EnvSpec((64, 64, 3), 6, 500)}
STEPS, ROUNDS, UPDATES = 10_000, 3, 10


def maze_rate(seeds: int) -> str:
    """Environment steps per second of SD3 with PPO in a maze, all seeds together."""
    init, train = make_train(pretraining_config("sd3", "maze/square_a", steps=STEPS))
    states = init(jax.random.split(jax.random.key(0), seeds))
    trained = jax.jit(jax.vmap(train))
    jax.block_until_ready(trained(states))
    return f"{seeds * STEPS / seconds(partial(trained, states), ROUNDS):,.0f}"


def update_milliseconds(env: str, preset: str) -> str:
    """Time of an update of SD3, as training calls it: the batch comes from the host, the state is overwritten."""
    config = pretraining_config("sd3", env, preset=preset)
    batch, state = random_batch(config, SPECS[env]), copied(init_state(config, SPECS[env]))
    update = compiled_update(config.backbone, config.reward, True)
    state, _ = update(state, batch)
    best = float("inf")
    for _ in range(ROUNDS):
        jax.block_until_ready(state)
        began = time.perf_counter()
        for _ in range(UPDATES):
            state, _ = update(state, batch)
        jax.block_until_ready(state)
        best = min(best, (time.perf_counter() - began) / UPDATES)
    return f"{1e3 * best:,.1f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=16, help="seeds that one program trains")
    parser.add_argument("--paper", action="store_true", help="also measure the sizes of the papers; for a GPU")
    given = parser.parse_args()
    device = jax.devices()[0]
    columns: dict[str, Any] = {
        "device": f"CPU, {os.cpu_count()} cores" if device.platform == "cpu" else device.device_kind,
        "JAX": jax.__version__,
        "maze, steps/s": partial(maze_rate, 1),
        f"{given.seeds} seeds, steps/s": partial(maze_rate, given.seeds),
        "DDPG `compact`, ms": partial(update_milliseconds, "walker", "compact"),
        "Dreamer `laptop`, ms": partial(update_milliseconds, "walker-pixels", "laptop"),
    }
    for name, env in {"DDPG": "walker", "Dreamer": "walker-pixels"}.items():
        columns[f"{name} `paper`, ms"] = partial(update_milliseconds, env, "paper") if given.paper else "–"
    print("|", " | ".join(columns), "|")
    print("|" + "---|" * len(columns))
    print("|", " | ".join(value if isinstance(value, str) else value() for value in columns.values()), "|", flush=True)


if __name__ == "__main__":
    main()
