"""The environments that step on the host, by their names on the command line."""

import math
from functools import cache
from typing import TYPE_CHECKING

from skillscape.envs.base import HostEnv
from skillscape.envs.noise import Noisy
from skillscape.envs.urlb.tasks import DOMAINS, TASKS, domain_of
from skillscape.errors import UserError, choose

if TYPE_CHECKING:
    from skillscape.envs.urlb.camera import Look

OWN_PREFIX = "gym/"
"""What stands before the ID of an environment that Gymnasium makes."""

MAZE_PREFIX = "maze-pixels/"
"""What stands before the name of a maze that is seen from above."""

PIXEL_DOMAINS: dict[str, str] = {"walker-pixels": "walker", "quadruped-pixels": "quadruped"}
"""The domains that can be seen, by the name of the environment; their tasks are those of the domain."""

_REFERENCE = "/reference"

HOST_ENVS: tuple[tuple[str, str], ...] = (
    ("walker", "A planar walker with two legs: 24 state values, 6 actions, episodes of 1,000 steps."),
    ("quadruped", "A four-legged body on a plane: 78 state values, 12 actions, episodes of 1,000 steps."),
    ("jaco", "A robot arm with three fingers and a brick: 55 state values, 9 actions, episodes of 250 steps."),
    (
        "walker-pixels",
        "The walker in images of 64 × 64, each action held for two steps, so episodes of 500; the tasks of walker. "
        "walker-pixels/reference draws shadows, reflections and smooth edges, which takes ten times as long and more.",
    ),
    ("quadruped-pixels", "The quadruped in images, likewise; the tasks of quadruped."),
    (f"{MAZE_PREFIX}NAME", "Any maze from above in images of 64 × 64, or maze-pixels/PATH.txt for your own drawing."),
    (
        f"{OWN_PREFIX}ID",
        "Any Gymnasium environment with continuous actions, such as gym/Pendulum-v1 or gym/module:ID; images (uint8, "
        "channels last) are scaled to 64 × 64.",
    ),
)
"""Name and description of everything ``make_host`` makes, for listing."""


@cache
def is_seen(env: str) -> bool:
    """Whether an environment's observations are images; of Gymnasium's environments one is made to find out."""
    if env.startswith(OWN_PREFIX):
        made = make_host(env)
        made.close()
        return made.spec.is_image
    return env.startswith(MAZE_PREFIX) or env.removesuffix(_REFERENCE) in PIXEL_DOMAINS


def host_tasks(env: str) -> tuple[str, ...]:
    """The tasks of an environment: those of its domain, of Gymnasium's the environment itself, in mazes none."""
    if env.startswith(OWN_PREFIX):
        return (env,)
    domain = DOMAINS.get(PIXEL_DOMAINS.get(env.removesuffix(_REFERENCE), env))
    return () if domain is None else domain.tasks


def make_host(env: str, task: str | None = None, noise: float = 0.0) -> HostEnv:
    """The environment of this name, set to a task, with N(0, noise²) on its observations.

    ``env``: "walker", "quadruped", "jaco", "walker-pixels", "quadruped-pixels", "maze-pixels/NAME" or "gym/ID";
    ``task``: one of the domain's tasks, None for its primal one; an environment of Gymnasium is its own only task, and
    a maze has none. ``noise`` is in the units of the observations; in images, 1 is from black to white.
    """
    if not (math.isfinite(noise) and noise >= 0):
        raise UserError(f"--env.noise is a standard deviation: give a finite number of at least 0, not {noise}.")
    if env.startswith(OWN_PREFIX):
        made = _make_own(env, task)
    elif env.startswith(MAZE_PREFIX):
        made = _make_maze(env, task)
    else:
        made = _make_urlb(env, task)
    return Noisy(made, noise) if noise > 0 else made


def _make_own(env: str, task: str | None) -> HostEnv:
    from skillscape.envs.own import make_own

    if task is not None and task != env:
        raise UserError(
            f"{env} has one task, itself, and {task} is another: leave the task out, or give the environment it is of."
        )
    return make_own(env.removeprefix(OWN_PREFIX))


def _make_maze(env: str, task: str | None) -> HostEnv:
    from skillscape.envs.pixels import make_maze_pixels

    if task is not None:
        raise UserError(f"{env} has no tasks, only skills to discover: leave {task} out.")
    return make_maze_pixels(env.removeprefix(MAZE_PREFIX))


def _make_urlb(env: str, task: str | None) -> HostEnv:
    if env in TASKS:
        raise UserError(f"{env} is a task: give {domain_of(env).name} as the environment and {env} as its task.")
    seen = env.removesuffix(_REFERENCE)
    look: Look = "fast" if seen == env else "reference"
    if seen not in PIXEL_DOMAINS:
        seen = env  # only what is drawn has a look
    if seen not in DOMAINS and _registered(seen):
        raise UserError(f"There is no environment {env!r}: did you mean {OWN_PREFIX + env!r}?")
    choose("environment", seen, [name for name, _ in HOST_ENVS], "skillscape envs")
    domain = DOMAINS[PIXEL_DOMAINS.get(seen, seen)]
    task = domain.primal_task if task is None else task
    if task.startswith(OWN_PREFIX) or domain_of(task) != domain:
        raise UserError(f"{task} is not a task of {env}: those are {', '.join(domain.tasks)}.")
    if seen in PIXEL_DOMAINS:
        from skillscape.envs.pixels import make_control_pixels

        return make_control_pixels(task, look)
    from skillscape.envs.urlb.suite import load_task

    return load_task(task)


def _registered(env: str) -> bool:
    import gymnasium

    return env in gymnasium.registry
