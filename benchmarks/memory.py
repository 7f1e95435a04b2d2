"""Memory of the programs that train, by XLA's own analysis: nothing is run. Writes benchmarks/memory.json.

`python benchmarks/memory.py [PROGRAM …]` compiles for the device of this machine, and measures all programs if none is
named. Convolutions are compiled as on a GPU. State and batch have the same size on every device; scratch space belongs
to the compiler of the device.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
from batches import random_batch

from skillscape import conv, make_train, pretraining_config
from skillscape.training.host_collector import compiled_update
from skillscape.training.state import init_state
from skillscape.training.versions import versions
from skillscape.types import EnvSpec

PATH = Path(__file__).parent / "memory.json"
SPECS = {"walker": EnvSpec((24,), 6, 1000), "walker-pixels": EnvSpec((64, 64, 3), 6, 500)}


def seeds(number: int) -> tuple[Any, Any, Any]:
    """SD3 with PPO in a maze, the whole run of several seeds: the compiled program, its state, and no batch."""
    init, train = make_train(pretraining_config("sd3", "maze/square_a"))
    states = jax.eval_shape(init, jax.random.split(jax.random.key(0), number))
    return jax.jit(jax.vmap(train), donate_argnums=0).lower(states).compile(), states, ()


def update(env: str, preset: str, method: str) -> tuple[Any, Any, Any]:
    """An update on replayed data: the compiled program, its state, and its batch."""
    config = pretraining_config(method, env, preset=preset)
    batch = random_batch(config, SPECS[env])
    state = jax.eval_shape(lambda: init_state(config, SPECS[env]))
    return compiled_update(config.backbone, config.reward, True).lower(state, batch).compile(), state, batch


PROGRAMS: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
    **{f"maze default, SD3, seeds: {number}": partial(seeds, number) for number in (1, 64)},
    **{
        f"{env} {preset}, {method.upper()}": partial(update, env, preset, method)
        for env, presets in {"walker": ("compact", "paper"), "walker-pixels": ("laptop", "paper")}.items()
        for preset in presets
        for method in ("diayn", "sd3")
    },
}


def megabytes(tree: Any) -> float:  # noqa: ANN401  any pytree of arrays
    """Size of the arrays of a tree."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree)) / 1e6


def measured(make: Callable[[], tuple[Any, Any, Any]]) -> dict[str, float]:
    """Sizes of state, batch and scratch space in megabytes."""
    compiled, state, batch = make()
    found = compiled.memory_analysis()
    return {
        "state_megabytes": round(megabytes(state), 2),
        "batch_megabytes": round(megabytes(batch), 2),
        "scratch_megabytes": round(found.temp_size_in_bytes / 1e6, 1),
        "aliased_megabytes": round(found.alias_size_in_bytes / 1e6, 2),
    }


def main() -> None:
    """Compile, store, show."""
    conv.lowering = lambda: "convolution"
    report: dict[str, Any] = json.loads(PATH.read_text()) if PATH.exists() else {"programs": {}}
    report["device"], report["versions"] = jax.devices()[0].device_kind, versions()
    for name in sys.argv[1:] or PROGRAMS:
        report["programs"][name] = row = measured(PROGRAMS[name])
        PATH.write_text(json.dumps(report, indent=1) + "\n")
        print(name, row, flush=True)


if __name__ == "__main__":
    main()
