"""Memory of the programs that train, and peak resident memory of short runs. Writes benchmarks/memory.json.

`python benchmarks/memory.py [NAME …]` measures all programs and runs if none is named. Programs are compiled for the
device of this machine and analysed by XLA, not run. Convolutions are compiled as on a GPU. State and batch have the
same size on every device; scratch space belongs to the compiler of the device. Runs start with an empty compilation
cache, in processes of their own.
"""

import json
import os
import subprocess
import sys
import tempfile
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
RUNS = {
    "maze default, PPO, SD3": ("--env", "maze/square_a", "--steps", "25000"),
    "walker compact, DDPG, SD3": ("--env", "walker", "--preset", "compact", "--steps", "5000"),
    "half_cheetah compact, SAC, SD3": ("--env", "half_cheetah", "--preset", "compact", "--steps", "5000"),
    "walker-pixels laptop, Dreamer, SD3": ("--env", "walker-pixels", "--preset", "laptop", "--steps", "3000"),
}
"""Arguments of `skillscape pretrain sd3` for at least a hundred updates, with an evaluation before and after them."""


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


def peak(arguments: tuple[str, ...]) -> float:
    """Peak resident memory of a run in megabytes, mapped replay files included."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "skillscape", "pretrain", "sd3", *arguments, "--out", f"{folder}/run"]
        environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": "", "XDG_CACHE_HOME": f"{folder}/cache"}
        training = subprocess.Popen(command, env=environment)
        _, status, usage = os.wait4(training.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)} failed")
    return usage.ru_maxrss / 1024


def main() -> None:
    """Compile, run, store, show."""
    conv.lowering = lambda: "convolution"
    report: dict[str, Any] = json.loads(PATH.read_text()) if PATH.exists() else {"programs": {}}
    report["device"], report["versions"] = jax.devices()[0].device_kind, versions()
    for name in sys.argv[1:] or [*PROGRAMS, *RUNS]:
        if name in RUNS:
            report.setdefault("peak_resident_megabytes", {})[name] = round(peak(RUNS[name]))
        else:
            report["programs"][name] = measured(PROGRAMS[name])
        PATH.write_text(json.dumps(report, indent=1) + "\n")
        print(name, report["programs"].get(name, report.get("peak_resident_megabytes", {}).get(name)), flush=True)


if __name__ == "__main__":
    main()
