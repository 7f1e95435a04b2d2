"""Compile time and start-up: `python benchmarks/compile.py [NAME …]`. Writes benchmarks/compile.json.

`programs`: processor time to trace, lower and compile each program by itself, with nothing cached, the least of some
rounds. `starts`: a whole `skillscape pretrain` from the start of the process to its first update, with an empty cache,
with what that run left in the cache, and with another seed. Processor time depends little on what else the machine
does; for compiling it is the wall time of a quiet machine, since XLA compiles nearly all of a program in one thread.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

PATH = Path(__file__).parent / "compile.json"
MAZE, WALKER, PIXELS = "maze/square_a", "walker", "walker-pixels"
PROGRAMS = {
    **{f"maze, PPO, {method}": (method, MAZE, "default", "ppo") for method in ("sd3", "diayn", "cic")},
    **{f"walker compact, DDPG, {method}": (method, WALKER, "compact", "ddpg") for method in ("sd3", "diayn")},
    "half_cheetah compact, SAC, sd3": ("sd3", "half_cheetah", "compact", "sac"),
    **{
        f"walker-pixels laptop, Dreamer, {method}": (method, PIXELS, "laptop", "dreamer") for method in ("sd3", "diayn")
    },
}
STARTS = ("maze, PPO, sd3", "walker compact, DDPG, sd3", "walker-pixels laptop, Dreamer, sd3")
"""Of the programs, those of which a whole run is started."""


def lowered(name: str) -> dict[str, Callable[[], Any]]:
    """The programs of a run, each a function that traces and lowers it: learning, and what evaluations compile."""
    import jax
    import jax.numpy as jnp
    from batches import random_batch

    from skillscape.configure import pretraining
    from skillscape.envs.mazes.maze import Maze
    from skillscape.evaluation.rollouts import _compiled as compiled_rollouts
    from skillscape.evaluation.skill_model import _compiled_measures as compiled_measures
    from skillscape.training.host_collector import compiled_update
    from skillscape.training.jit_collector import iteration
    from skillscape.training.state import init_state, state_of_key

    method, env_id, preset, backbone = PROGRAMS[name]
    config = pretraining(method, env_id, preset=preset, backbone=backbone)
    spec, key = config.spec(), jax.random.key(0)
    state = jax.eval_shape(lambda: init_state(config, spec))
    skills, seen = config.reward.skills, config.backbone.objective_spec(spec)
    obs = jnp.zeros((2_000, *seen.obs_shape))
    found: dict[str, Callable[[], Any]] = {}
    if config.backbone.on_policy:
        env: Any = config.make_env()
        found["initial state"] = lambda: jax.jit(partial(state_of_key, config, spec)).lower(key)
        found["iteration"] = lambda: jax.jit(iteration(config, env)).lower(state)
    else:
        batch, donate = random_batch(config, spec), config.backbone.schedule.update_every < 10
        found["update"] = lambda: compiled_update(config.backbone, config.reward, donate).lower(state, batch)
    if config.layout is not None and skills.count:
        rows = jnp.zeros((20 * skills.count, skills.width))
        params, maze = config.backbone.policy_params(state.agent), Maze(config.layout)
        found["rollouts"] = lambda: compiled_rollouts(maze, config.backbone, True, None).lower(params, rows, key)
    if config.reward.scores_skills and skills.count:
        skill, walks = jnp.zeros((2_000, skills.width)), obs[:400]
        model = state.objective
        found["measures of the model"] = lambda: compiled_measures(config.reward).lower(model, obs, skill, walks)
    return found


def programs(name: str, rounds: int) -> dict[str, dict[str, float]]:
    """Processor seconds to trace and lower, and to compile, each program of a run; the least of ``rounds``."""
    import jax

    found: dict[str, dict[str, float]] = {}
    for program, lower in lowered(name).items():
        best = {"trace_and_lower": float("inf"), "compile": float("inf")}
        for _ in range(rounds):
            jax.clear_caches()
            began = time.process_time()
            text = lower()
            traced = time.process_time()
            text.compile()
            seconds = {"trace_and_lower": traced - began, "compile": time.process_time() - traced}
            best = {part: min(best[part], seconds[part]) for part in best}
        found[program] = best
    return found


def started(arguments: list[str]) -> None:
    """Run `skillscape` with ``arguments`` in this process until its first update, and print what that took.

    Parts are processor seconds of Python's threads. XLA compiles in threads of its own, which the total counts alone.
    What JAX reports about itself is wall time.
    """
    began = float(os.environ["BEGAN"])
    parts: dict[str, float] = defaultdict(float)

    def timed(owner: Any, function: str, part: str) -> None:  # noqa: ANN401
        inner = getattr(owner, function)

        @wraps(inner)
        def outer(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            before = time.thread_time()
            try:
                return inner(*args, **kwargs)
            finally:
                parts[part] += time.thread_time() - before

        setattr(owner, function, outer)

    from skillscape import launch
    from skillscape.cli import main
    from skillscape.training import trainer

    parts["imports"] = time.process_time()
    from jax import monitoring

    monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: parts.__setitem__(f"wall {event}", parts[f"wall {event}"] + seconds)
    )
    timed(launch, "_checked_start", "checks, with an environment")
    timed(launch, "first_state", "initial state")
    timed(trainer, "compiled_iteration", "program of an iteration")
    timed(trainer._Loop, "_measure", "evaluation at step 0")

    def until_learned(collector: Any) -> None:  # noqa: ANN401
        advance = collector.advance

        def advanced(self: Any) -> None:  # noqa: ANN401
            before = time.thread_time()
            advance(self)
            parts["first steps"] += time.thread_time() - before
            if self.metrics:
                spent = {
                    "wall": time.time() - began,
                    "processor": time.process_time(),
                    "threads": threading.active_count(),
                }
                print("PARTS" + json.dumps({**spent, **parts}), flush=True)
                os._exit(0)

        collector.advance = advanced

    until_learned(trainer.HostCollector)
    until_learned(trainer.JitCollector)
    main(arguments)


EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "tracing",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowering",
    "/jax/core/compile/backend_compile_duration": "compiling or loading",
    "/jax/compilation_cache/cache_retrieval_time_sec": "of that, loading",
}


def start(name: str, cache: str, seed: int) -> dict[str, Any]:
    """One run up to its first update."""
    method, env, preset, backbone = PROGRAMS[name]
    with tempfile.TemporaryDirectory() as out:
        settings = ["--env", env, "--preset", preset, "--backbone", backbone, "--seed", str(seed)]
        command = [sys.executable, __file__, "--start", "pretrain", method, *settings, "--out", f"{out}/run"]
        environment = {
            **os.environ,
            "JAX_COMPILATION_CACHE_DIR": "",
            "XDG_CACHE_HOME": cache,
            "BEGAN": str(time.time()),
        }
        printed = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    parts = json.loads(next(line for line in printed.splitlines() if line.startswith("PARTS")).removeprefix("PARTS"))
    own = {part: value for part, value in parts.items() if not part.startswith("wall /")}
    return {**own, "wall, by JAX": {label: parts.get(f"wall {event}", 0.0) for event, label in EVENTS.items()}}


def starts(name: str) -> dict[str, dict[str, Any]]:
    """With an empty cache, with a full one, and with that of another seed."""
    with tempfile.TemporaryDirectory() as cache:
        return {label: start(name, cache, seed) for label, seed in {"empty": 0, "full": 0, "other seed": 1}.items()}


def main() -> None:
    """Measure, store, show."""
    if sys.argv[1:2] == ["--start"]:
        started(sys.argv[2:])
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROGRAMS)}; all if none is named")
    parser.add_argument("--rounds", type=int, default=2, help="of each program")
    parser.add_argument("--only", choices=("programs", "starts"))
    parser.add_argument("--out", type=Path, default=PATH)
    options = parser.parse_args()
    from skillscape.training.versions import versions

    report: dict[str, Any] = (
        json.loads(options.out.read_text()) if options.out.exists() else {"programs": {}, "starts": {}}
    )
    report["versions"] = versions()
    for name in options.names or PROGRAMS:
        if options.only != "starts":
            report["programs"][name] = programs(name, options.rounds)
            print(name, report["programs"][name], flush=True)
        if options.only != "programs" and name in STARTS:
            report["starts"][name] = starts(name)
            print(name, report["starts"][name], flush=True)
        options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
