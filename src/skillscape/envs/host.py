"""The environments that step on the host, by their names on the command line."""

import math

from skillscape.envs.base import HostEnv
from skillscape.envs.noise import Noisy
from skillscape.envs.urlb.tasks import DOMAINS, TASKS, domain_of
from skillscape.errors import UserError, choose

OWN_PREFIX = "gym/"
"""What stands before the ID of an environment that Gymnasium makes."""

HOST_ENVS: tuple[tuple[str, str], ...] = (
    ("walker", "A planar walker with two legs: 24 state values, 6 actions, episodes of 1,000 steps."),
    ("quadruped", "A four-legged body on a plane: 78 state values, 12 actions, episodes of 1,000 steps."),
    ("jaco", "A robot arm with three fingers and a brick: 55 state values, 9 actions, episodes of 250 steps."),
    (f"{OWN_PREFIX}ID", "Any Gymnasium environment with continuous actions, such as gym/Pendulum-v1 or gym/module:ID."),
)
"""Name and description of everything ``make_host`` makes, for listing."""


def make_host(env: str, task: str | None = None, noise: float = 0.0) -> HostEnv:
    """The environment of this name, set to a task, with N(0, noise²) on its observations.

    ``env``: "walker", "quadruped", "jaco" or "gym/ID"; ``task``: one of the domain's tasks, None for its primal one;
    an environment of Gymnasium is its own only task.
    """
    if not (math.isfinite(noise) and noise >= 0):
        raise UserError(f"--env.noise is a standard deviation: give a finite number of at least 0, not {noise}.")
    made = _make_own(env, task) if env.startswith(OWN_PREFIX) else _make_urlb(env, task)
    return Noisy(made, noise) if noise > 0 else made


def _make_own(env: str, task: str | None) -> HostEnv:
    from skillscape.envs.own import make_own

    if task is not None and task != env:
        raise UserError(
            f"{env} has one task, itself, and {task} is another: leave the task out, or give the environment it is of."
        )
    return make_own(env.removeprefix(OWN_PREFIX))


def _make_urlb(env: str, task: str | None) -> HostEnv:
    if env in TASKS:
        raise UserError(f"{env} is a task: give {domain_of(env).name} as the environment and {env} as its task.")
    if env not in DOMAINS and _registered(env):
        raise UserError(f"There is no environment {env!r}: did you mean {OWN_PREFIX + env!r}?")
    choose("environment", env, [name for name, _ in HOST_ENVS], "skillscape envs")
    domain = DOMAINS[env]
    task = domain.primal_task if task is None else task
    if task.startswith(OWN_PREFIX) or domain_of(task) != domain:
        raise UserError(f"{task} is not a task of {env}: those are {', '.join(domain.tasks)}.")
    from skillscape.envs.urlb.suite import load_task

    return load_task(task)


def _registered(env: str) -> bool:
    import gymnasium

    return env in gymnasium.registry
