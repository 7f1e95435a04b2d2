"""Environments by ID: finds the family that owns an ID and makes its environment, noisy or on the host as asked."""

import math
from collections.abc import Sequence

from skillscape.envs.base import NO_KWARGS, Definition, EnvFamily, HostEnv, JaxEnv, Kwargs
from skillscape.envs.host_adapter import HostJaxEnv
from skillscape.envs.located import LocatedEnv
from skillscape.envs.noise import NoisyEnv
from skillscape.errors import UserError, choose
from skillscape.registry import Registry

_registry: Registry[EnvFamily] = Registry("skillscape.envs.families", EnvFamily, "skillscape.env_families")  # type: ignore[type-abstract]


def families() -> dict[str, EnvFamily]:
    """Every family by name: those of the package, of installed plug-ins, and those given to ``register_family``."""
    return {name: family() for name, family in _registry().items()}


def register_family(family: type[EnvFamily]) -> type[EnvFamily]:
    """Register a family, a class whose constructor takes no arguments. Works as a decorator."""
    return _registry.register(family)


def family_of(env_id: str) -> EnvFamily:
    """The family that owns an ID; an ID without an owner is refused with the nearest known one."""
    known = families().values()
    for family in known:
        if family.owns(env_id):
            return family
    for family in known:
        if (hint := family.hint(env_id)) is not None:
            raise UserError(hint)
    choose("environment", env_id, [name for family in known for name, _ in family.describe()], "skillscape envs")
    raise UserError(f"{env_id} is a pattern of IDs: give one that matches it; `skillscape envs` lists them.")


def make_env(
    env_id: str,
    task: str | None = None,
    *,
    noise: float = 0,
    position: Sequence[int] = (),
    kwargs: Kwargs = NO_KWARGS,
    definition: Definition = None,
) -> JaxEnv | HostEnv:
    """The environment of an ID with the reward of a task; see ``EnvFamily.make`` for the other arguments.

    ``noise``: standard deviation of Gaussian observation noise in the observation's units, where 1 spans black to
    white in images. ``position``: entries of the observation that are the position of the body, see ``LocatedEnv``.
    A ``JaxEnv``, which is compiled into the training loop, supports neither.
    """
    env = _make(env_id, task, noise, kwargs, definition)
    if isinstance(env, HostEnv):
        return _wrapped(env_id, env, noise, position)
    for flag, given in (("--env.noise", noise), ("--env.position", position)):
        if given:
            raise UserError(
                f"{flag} is for walker, quadruped, jaco, ant, half_cheetah, gym/ID and images, not for {env_id}: "
                "leave it out."
            )
    return env


def host_env(
    env_id: str,
    task: str | None = None,
    *,
    noise: float = 0,
    position: Sequence[int] = (),
    kwargs: Kwargs = NO_KWARGS,
    definition: Definition = None,
) -> HostEnv:
    """``make_env`` as a ``HostEnv`` in every case, which also supports noise and positions in every case."""
    env = _make(env_id, task, noise, kwargs, definition)
    return _wrapped(env_id, HostJaxEnv(env) if isinstance(env, JaxEnv) else env, noise, position)


def _make(env_id: str, task: str | None, noise: float, kwargs: Kwargs, definition: Definition) -> JaxEnv | HostEnv:
    if not (math.isfinite(noise) and noise >= 0):
        raise UserError(f"--env.noise is a standard deviation: give a finite number of at least 0, not {noise}.")
    return family_of(env_id).make(env_id, task, kwargs=kwargs, definition=definition)


def _wrapped(env_id: str, env: HostEnv, noise: float, position: Sequence[int]) -> HostEnv:
    """The environment with what was asked for; a position is read before noise is added."""
    if position:
        try:
            env = LocatedEnv(env_id, env, position)
        except UserError:
            env.close()
            raise
    return NoisyEnv(env, noise) if noise else env
