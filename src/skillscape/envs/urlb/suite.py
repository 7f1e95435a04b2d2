"""The tasks of the Unsupervised RL Benchmark as environments of this library."""

import logging
from typing import Any, final

import numpy as np
from jaxtyping import Float, Float32

from skillscape.envs.base import HostEnv, HostStep
from skillscape.envs.urlb import jaco, quadruped, walker
from skillscape.envs.urlb.control import Simulation, load_module
from skillscape.envs.urlb.tasks import Domain, domain_of
from skillscape.types import EnvSpec

_BUILDERS = {"walker": walker.build, "quadruped": quadruped.build, "jaco": jaco.build}


@final
class ControlEnv(HostEnv):
    """One task of dm_control: flat float32 states, actions stretched from [-1, 1] to the range of each actuator.

    Episodes are cut at the horizon and never end before, unless the physics diverge: then the last good state comes
    back with a reward of 0 and ``terminated``, as dm_control does where it is told not to raise.
    A step leaves out dm_control's own ``step`` but not its numbers: states and rewards are the same bits.
    """

    def __init__(self, domain: Domain, simulation: Simulation) -> None:
        self._domain = domain
        self._simulation = simulation
        self._physics_error: type[Exception] = load_module("dm_control.rl.control").PhysicsError
        spec = simulation.environment.action_spec()
        self._low, self._high = np.asarray(spec.minimum, np.float64), np.asarray(spec.maximum, np.float64)
        self._scale = (self._high - self._low) / 2
        self._obs = np.zeros(domain.obs_size, np.float32)
        self._left = 0

    @property
    def spec(self) -> EnvSpec:
        """Sizes of the domain."""
        return EnvSpec((self._domain.obs_size,), self._domain.action_size, self._domain.horizon)

    @property
    def domain(self) -> Domain:
        """What body it is."""
        return self._domain

    @property
    def environment(self) -> Any:  # noqa: ANN401  (dm_control is untyped)
        """The dm_control environment inside, whose ``physics`` can be drawn."""
        return self._simulation.environment

    def reset(self, seed: int) -> Float32[np.ndarray, " o"]:
        """Begin the episode of this seed."""
        # The one source of chance is set anew and MuJoCo's data cleared, so nothing of earlier episodes remains.
        self._simulation.random.seed(seed)
        self._simulation.environment.reset()
        self._left = self._domain.horizon
        self._obs, _ = self._simulation.read()
        return self._obs.copy()

    def step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        """Hold the action for one control step."""
        if self._left == 0:
            raise RuntimeError("The episode is over; call reset() first.")
        self._left -= 1
        physics = self._simulation.environment.physics
        # Rounding must not carry a full action out of the range.
        raw = np.minimum(np.maximum(self._low + self._scale * (action + np.float64(1)), self._low), self._high)
        physics.set_control(raw)
        try:
            physics.step(self._simulation.substeps)
        except self._physics_error as error:
            if not np.isfinite(action).all():
                raise ValueError(f"The action {action} is not finite.") from error
            logging.getLogger(__name__).warning("The episode ends, its physics diverged: %s", error)
            self._left = 0
            return HostStep(self._obs.copy(), 0.0, terminated=True, truncated=False)
        self._obs, reward = self._simulation.read()
        return HostStep(self._obs.copy(), reward, terminated=False, truncated=self._left == 0)

    def close(self) -> None:
        """Free the physics."""
        self._left = 0
        self._simulation.environment.close()


def load_task(task: str) -> ControlEnv:
    """The environment of a task, such as "walker_walk"; dm_control is imported with the first one."""
    domain = domain_of(task)
    return ControlEnv(domain, _BUILDERS[domain.name](task.removeprefix(f"{domain.name}_")))
