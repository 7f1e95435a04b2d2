"""Speed of training from pixels: `make bench`, or `python benchmarks/pixels.py [PART …]`; writes pixels.json beside it.

Absolute rates belong to the machine and its load; what to compare are rates of one run with each other.
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

import jax
import jax.numpy as jnp
import numpy as np
from batches import random_batch
from timing import operations, seconds, side_by_side

from skillscape.backbones.dreamer.agent import Dreamer
from skillscape.backbones.dreamer.imagination import Actor, imagine
from skillscape.backbones.dreamer.networks import DreamerAgent
from skillscape.backbones.dreamer.world_model import RSSM, Latent, WorldModel, balanced_kl
from skillscape.config import RunConfig
from skillscape.configure import pretraining
from skillscape.conv import preprocess
from skillscape.envs.families.urlb import PIXEL_DOMAINS
from skillscape.envs.mazes.layouts import load_layout
from skillscape.envs.mazes.render import render_maze
from skillscape.envs.registry import host_env
from skillscape.launch import enable_compilation_cache
from skillscape.objectives.base import Objective
from skillscape.replay import Replay
from skillscape.training.versions import versions
from skillscape.types import EnvSpec, Experience, RandomKey, Sequences

WALKER = EnvSpec((64, 64, 3), 6, 500)

LOOKS = {"fast": "", "reference": "/reference"}
SEQUENCES = ((16, 32), (50, 50))


def steps_per_second(name: str, steps: int, repeats: int) -> float:
    """Actions per second of an environment, each with its image; two control steps of walker and quadruped."""
    env = host_env(name)
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, env.spec.action_dim)).astype("f4")

    def play() -> None:
        for action in actions:
            env.step(action)

    best = float("inf")
    for seed in range(repeats):
        env.reset(seed)
        best = min(best, seconds(play, 1))
    env.close()
    return steps / best


def environments() -> dict[str, float]:
    """Steps per second of every environment that is seen, and of the domains without pictures."""
    rates = {"maze-pixels/square_a": steps_per_second("maze-pixels/square_a", 50, 40)}
    for seen, domain in PIXEL_DOMAINS.items():
        # Without pictures a step is one control step, half as much.
        rates[domain] = steps_per_second(domain, 400, 5)
        for look, suffix in LOOKS.items():
            rates[f"{seen} {look}"] = steps_per_second(seen + suffix, 100 if look == "fast" else 20, 5)
    return rates


def maze_frames() -> dict[str, float]:
    """Frames per second of the compiled renderer, in batches of 512."""
    layout, positions = load_layout("square_a"), np.zeros((512, 2), "f4")
    jax.block_until_ready(render_maze(layout, positions))
    return {"frames_per_second": 512 / seconds(lambda: render_maze(layout, positions), 20)}


def replay() -> dict[str, float]:
    """Milliseconds to draw a batch of sequences of frames from files, and to write one step."""
    frame = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        spec = EnvSpec(frame.shape, 6, 500)
        buffer = Replay(spec, 16, capacity=5_010, nstep=1, discount=0.99, seed=0, folder=Path(folder))
        began = time.perf_counter()
        for _ in range(10):
            buffer.begin(frame)
            for _ in range(500):
                buffer.add(np.zeros(6, "f4"), np.zeros(16, "f4"), 0.0, 1.0, frame)
            buffer.finish()
        found["milliseconds_per_written_step"] = 1e3 * (time.perf_counter() - began) / 5_000
        episode_index = buffer.snapshot().episode_index
        for count, length in SEQUENCES:
            drawn = seconds(lambda c=count, n=length: buffer.sample_sequences(c, n, episode_index).reward, 20)  # type: ignore[misc]
            found[f"milliseconds_per_batch_{count}x{length}"] = 1e3 * drawn
    return found


def updates(preset: str, methods: tuple[str, ...], rounds: int) -> dict[str, Any]:
    """Time of a learning step with each method, its parts, and its share of a plain product's rate; timed in turns."""
    found: dict[str, Any] = {}
    product, in_product = plain_matmul()
    for method in methods:
        config = pretraining(method, "walker-pixels", preset=preset)
        backbone, objective = config.backbone, config.reward
        assert isinstance(backbone, Dreamer)
        step, arguments = learning_step(config)
        agent, state, batch, _ = arguments
        began = time.perf_counter()
        compiled = step.lower(*arguments).compile()
        compile_seconds = time.perf_counter() - began
        in_update = operations(step, *arguments)
        fit = jax.jit(jax.grad(partial(world_loss, backbone)))
        parts: dict[str, Callable[[], Any]] = {
            "matmul": product,
            "whole": partial(compiled, *arguments),
            "world_model": partial(fit, agent.world.params, batch),
            "objective": objective_alone(backbone, objective, state),
            "imagination": imagination_alone(backbone, objective, agent),
        }
        for function in parts.values():
            jax.block_until_ready(function())
        times = side_by_side(parts, rounds)
        plain = in_product / times["matmul"]
        processor = side_by_side(
            {name: parts[name] for name in ("matmul", "whole", "objective")}, rounds, time.process_time
        )
        rest = times["whole"] - times["world_model"] - times["objective"] - times["imagination"]
        found[method] = {
            "milliseconds": 1e3 * times["whole"],
            "milliseconds_world_model": 1e3 * times["world_model"],
            "milliseconds_objective": 1e3 * times["objective"],
            "milliseconds_imagination": 1e3 * times["imagination"],
            "milliseconds_the_rest_which_is_returns_actor_and_critic": 1e3 * rest,
            "share_of_objective": times["objective"] / times["whole"],
            "gflops": in_update / times["whole"] / 1e9,
            "plain_matmul_gflops": plain / 1e9,
            "share_of_plain_matmul": in_update / times["whole"] / plain,
            "processor_milliseconds": 1e3 * processor["whole"],
            "share_of_objective_in_processor_time": processor["objective"] / processor["whole"],
            "share_of_plain_matmul_in_processor_time": in_update
            / in_product
            * (processor["matmul"] / processor["whole"]),
            "compile_seconds": compile_seconds,
        }
        print(preset, method, found[method], flush=True)
    return found


def parts(rounds: int) -> dict[str, dict[str, float]]:
    """Parts of a learning step of SD3 at `laptop`, with gradients: processor time and share of a plain product's rate.

    ``milliseconds_of_products``: what the operations of the part would take at the plain product's rate.
    """
    config = pretraining("sd3", "walker-pixels", preset="laptop")
    backbone, objective = config.backbone, config.reward
    assert isinstance(backbone, Dreamer)
    _, (agent, state, batch, _) = learning_step(config)
    world, critic, optimizer = agent.world.params, agent.critic.params, backbone.world.optimizer
    sequences = jax.tree.map(jnp.asarray, batch._replace(obs=preprocess(batch.obs)))
    images = sequences.obs.reshape(-1, *WALKER.obs_shape)
    posterior, _ = jax.jit(lambda: world.infer(sequences, jax.random.key(0)))()
    feature = posterior.states.feature.reshape(images.shape[0], -1)
    starts, steps = backbone.behaviour.imagined_starts, backbone.behaviour.horizon + 1
    imagined = jnp.tile(feature[None, :starts], (steps, 1, 1))
    rows = random_experience(objective, backbone, (starts,))
    fitted = random_experience(objective, backbone, (backbone.replay.batch_size * (sequences.first.shape[1] - 1),))

    def seen(dynamics: RSSM, embedding: Any) -> Any:  # noqa: ANN401
        states, prior = dynamics.observe(embedding, sequences.action, sequences.first, jax.random.key(0))
        return balanced_kl(states.logits, prior, 0.8, 1.0)[0] + jnp.sum(states.feature)

    def rewards(rows: Experience) -> Any:  # noqa: ANN401
        return jnp.sum(objective.reward(state, rows, jax.random.key(0))[1])

    dreamt = imagination_alone(backbone, objective, agent)
    functions: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "encoder": (jax.grad(lambda encoder, obs: jnp.sum(encoder.of_each(obs))), (world.encoder, images)),
        "recurrent_model": (jax.grad(seen, (0, 1)), (world.dynamics, posterior.embedding)),
        "decoder": (
            jax.grad(lambda decoder, *both: jnp.mean(decoder.squared_errors(*both)), (0, 1)),
            (world.decoder, feature, images),
        ),
        "task_reward_head": (jax.grad(lambda head, x: jnp.sum(jax.vmap(head)(x) ** 2)), (world.reward, feature)),
        "optimizer_of_world_model": (optimizer.update, (world, agent.world.opt_state, world)),
        "fit_of_objective": (objective.update, (state, fitted, jax.random.key(0))),
        "rewards_of_one_step": (rewards, (rows,)),
        "rewards_of_one_step_with_gradient": (jax.value_and_grad(rewards), (rows,)),
        "imagination": (dreamt.func, dreamt.args),
        "critic": (
            jax.grad(lambda critic, x: jnp.sum(critic.values(x, rows.skill) ** 2), (0, 1)),
            (critic, imagined),
        ),
    }
    compiled = {name: jax.jit(function).lower(*with_).compile() for name, (function, with_) in functions.items()}
    product, in_product = plain_matmul()
    calls = {name: partial(compiled[name], *with_) for name, (_, with_) in functions.items()}
    times = side_by_side({"matmul": product, **calls}, rounds, time.process_time)
    found = {}
    for name, (function, with_) in functions.items():
        alone = operations(function, *with_) / in_product * times["matmul"]
        found[name] = {
            "milliseconds": 1e3 * times[name],
            "milliseconds_of_products": 1e3 * alone,
            "share_of_plain_matmul": alone / times[name],
        }
        print(name, found[name], flush=True)
    return found


def learning_step(config: RunConfig) -> tuple[Any, tuple[Any, ...]]:
    """A compiled learning step on walker's frames, and what to call it with: agent, objective's state, batch, key."""
    backbone, objective = config.backbone, config.reward
    batch = random_batch(config, WALKER)
    agent = backbone.init(jax.random.key(0), WALKER, objective)
    state = objective.init(jax.random.key(1), backbone.objective_spec(WALKER))
    step = jax.jit(lambda agent, state, batch, key: backbone.learn(agent, objective, state, batch, key))
    return step, (agent, state, batch, jax.random.key(2))


def what_is_scored(method: str, rounds: int) -> dict[str, float]:
    """Milliseconds of a learning step at `laptop` by what the objective is shown; timed in turns."""
    steps: dict[str, Callable[[], Any]] = {}
    for shown in ("imagined", "replayed", "embedded"):
        step, arguments = learning_step(
            pretraining(method, "walker-pixels", backbone={"objective": {"reward_on": shown}})
        )
        steps[shown] = partial(step, *arguments)
        jax.block_until_ready(steps[shown]())
    found = {shown: 1e3 * one for shown, one in side_by_side(steps, rounds).items()}
    print(method, found, flush=True)
    return found


def imagination_alone(backbone: Dreamer, objective: Objective[Any], agent: DreamerAgent) -> partial[Any]:
    """Trajectories from as many states as a learning step imagines from, and what they pass back to the actor."""
    dynamics = agent.world.params.dynamics
    starts = backbone.behaviour.imagined_starts or backbone.replay.batch_size * backbone.replay.sequence_length
    deter, stoch = dynamics.initial(starts)
    skill = objective.skills.sample(jax.random.key(0), starts)

    @jax.jit
    def pull(actor: Actor) -> Any:  # noqa: ANN401
        def dreamt(actor: Actor) -> Any:  # noqa: ANN401
            state = Latent(deter, stoch, stoch)
            dream = imagine(dynamics, actor, state, skill, backbone.behaviour.horizon, jax.random.key(1))
            return jnp.mean(dream.states.feature)

        return jax.grad(dreamt)(actor)

    return partial(pull, agent.actor.params)


def objective_alone(backbone: Dreamer, objective: Objective[Any], state: Any) -> Callable[[], Any]:  # noqa: ANN401
    """What a learning step asks of the objective: its own steps on replayed pairs, then rewards of imagined states."""
    replayed = random_experience(
        objective, backbone, (backbone.replay.batch_size * (backbone.replay.sequence_length - 1),)
    )
    starts = backbone.behaviour.imagined_starts or backbone.replay.batch_size * backbone.replay.sequence_length
    imagined = random_experience(objective, backbone, (backbone.behaviour.horizon + 1, starts))

    def update(state: Any, key: RandomKey) -> Any:  # noqa: ANN401
        return objective.update(state, replayed, key)

    def score(state: Any, now: Any) -> Any:  # noqa: ANN401
        state, reward, _ = objective.reward(state, *now)
        return state, reward

    def rewards(rows: Experience, state: Any, key: RandomKey) -> Any:  # noqa: ANN401
        if backbone.objective.reward_batch == "all":
            return jnp.sum(score(state, (jax.tree.map(lambda part: part.reshape(-1, part.shape[-1]), rows), key))[1])
        return jnp.sum(jax.lax.scan(score, state, (rows, jax.random.split(key, rows.action.shape[0])))[1])

    @jax.jit
    def everything(state: Any, key: RandomKey) -> Any:  # noqa: ANN401
        state, metrics = jax.lax.scan(update, state, jax.random.split(key, objective.updates_per_step))
        judge = jax.value_and_grad(rewards) if backbone.objective.reward_gradient else rewards
        return state, metrics, judge(imagined, state, key)

    return partial(everything, state, jax.random.key(3))


def random_experience(objective: Objective[Any], backbone: Dreamer, shape: tuple[int, ...]) -> Experience:
    """Standard-normal features with the right shapes."""
    width = backbone.objective_spec(WALKER).obs_shape[-1]
    generator = np.random.default_rng(0)
    skills = np.asarray(objective.skills.sample(jax.random.key(0), int(np.prod(shape))))
    return Experience(
        obs=jnp.asarray(generator.normal(size=(*shape, width)), "f4"),
        action=jnp.asarray(generator.uniform(-1, 1, (*shape, WALKER.action_dim)), "f4"),
        next_obs=jnp.asarray(generator.normal(size=(*shape, width)), "f4"),
        skill=jnp.asarray(skills.reshape(*shape, -1)),
        reward=jnp.zeros(shape),
    )


def world_loss(backbone: Dreamer, model: WorldModel, batch: Sequences) -> Any:  # noqa: ANN401
    """The loss of the world model alone."""
    value, _ = model.loss(
        batch._replace(obs=preprocess(batch.obs)),
        jax.random.key(0),
        unit=jnp.ones(()),
        config=backbone.world,
    )
    return value


def plain_matmul() -> tuple[Callable[[], Any], float]:
    """A product of two square matrices of side 1024, and its floating-point operations."""
    left = jax.numpy.ones((1024, 1024))
    product = jax.jit(lambda a, b: a @ b)
    jax.block_until_ready(product(left, left))
    return lambda: product(left, left), 2.0 * 1024**3


def main() -> None:
    """Measure what was asked for, or all; store it, show it."""
    enable_compilation_cache()
    path = Path(__file__).parent / "pixels.json"
    measured: dict[str, Callable[[], Any]] = {
        "environment_steps_per_second": environments,
        "maze_renderer": maze_frames,
        "replay": replay,
        "laptop": lambda: updates("laptop", ("sd3", "diayn", "apt"), 10),
        "parts_of_sd3_in_processor_time": lambda: parts(10),
        "milliseconds_by_what_sd3_is_shown": lambda: what_is_scored("sd3", 5),
    }
    report: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    report.update(cores=os.cpu_count(), machine=platform.machine(), versions=versions())
    for name in sys.argv[1:] or measured:
        report[name] = measured[name]()
        path.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
