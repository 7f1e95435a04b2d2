"""Environments by their names: every family there is, and what each makes of a name."""

import math
from collections.abc import Mapping
from typing import Any

from skillscape.envs.base import NO_ARGUMENTS, Arguments, EnvFamily, HostEnv, JaxEnv
from skillscape.envs.hosted import HostedJaxEnv
from skillscape.envs.noise import Noisy
from skillscape.errors import UserError, choose
from skillscape.registry import Registry

_registry: Registry[EnvFamily] = Registry("skillscape.envs.families", EnvFamily, "skillscape.env_families")  # type: ignore[type-abstract]


def families() -> dict[str, EnvFamily]:
    """Every family by name: those of the package, of installed plug-ins, and what ``register_family`` was given."""
    return {name: kind() for name, kind in _registry().items()}


def register_family(family: type[EnvFamily]) -> type[EnvFamily]:
    """Make the environments of another family known; its class takes no arguments. Works as a decorator."""
    return _registry.register(family)


def family_of(env_id: str) -> EnvFamily:
    """The family that owns a name; a name that none owns is refused with what was probably meant."""
    known = families().values()
    for family in known:
        if family.owns(env_id):
            return family
    for family in known:
        if (hint := family.hint(env_id)) is not None:
            raise UserError(hint)
    choose("environment", env_id, [name for family in known for name, _ in family.describe()], "skillscape envs")
    raise UserError(f"{env_id} is a pattern of names: give one of them; `skillscape envs` lists them.")


def make_env(
    env_id: str,
    task: str | None = None,
    *,
    noise: float = 0.0,
    kwargs: Arguments = NO_ARGUMENTS,
    definition: Mapping[str, Any] | None = None,
) -> JaxEnv | HostEnv:
    """The environment of this name, set to a task; the arguments are those of ``EnvFamily.make``.

    ``noise``: standard deviation of Gaussian noise on observations, in their units; in images, 1 is from black to
    white. An environment that is compiled into the training loop has none.
    """
    env = _make(env_id, task, noise, kwargs, definition)
    if noise and isinstance(env, JaxEnv):
        raise UserError(f"--env.noise is for walker, quadruped, jaco, gym/ID and images; {env_id} has none.")
    return _noisy(env, noise) if isinstance(env, HostEnv) else env


def host_env(
    env_id: str,
    task: str | None = None,
    *,
    noise: float = 0.0,
    kwargs: Arguments = NO_ARGUMENTS,
    definition: Mapping[str, Any] | None = None,
) -> HostEnv:
    """The same, to be stepped in ordinary Python whatever it is; noise is possible everywhere."""
    env = _make(env_id, task, noise, kwargs, definition)
    return _noisy(HostedJaxEnv(env) if isinstance(env, JaxEnv) else env, noise)


def _make(
    env_id: str, task: str | None, noise: float, kwargs: Arguments, definition: Mapping[str, Any] | None
) -> JaxEnv | HostEnv:
    if not (math.isfinite(noise) and noise >= 0):
        raise UserError(f"--env.noise is a standard deviation: give a finite number of at least 0, not {noise}.")
    return family_of(env_id).make(env_id, task, kwargs=kwargs, definition=definition)


def _noisy(env: HostEnv, noise: float) -> HostEnv:
    return Noisy(env, noise) if noise else env
