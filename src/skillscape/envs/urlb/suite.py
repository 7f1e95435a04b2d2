"""The tasks of the Unsupervised RL Benchmark as ``HostEnv``s with state observations."""

import logging
from typing import Any, final

import numpy as np
from jaxtyping import Float, Float32

from skillscape.envs.base import HostEnv, HostStep
from skillscape.envs.urlb import jaco, quadruped, walker
from skillscape.envs.urlb.control import ControlTask, load_module
from skillscape.envs.urlb.tasks import Domain, domain_of
from skillscape.types import EnvSpec

_BUILDERS = {"walker": walker.build, "quadruped": quadruped.build, "jaco": jaco.build}


@final
class ControlEnv(HostEnv):
    """A dm_control task with flat float32 states and actions scaled from [-1, 1] to the range of each actuator.

    Episodes are truncated at the horizon and terminate only if the physics diverges: the last valid state is then
    returned with reward 0, as dm_control does with raise_exception_on_physics_error=False. A step bypasses
    dm_control's own ``step``; states and rewards have the same bits.
    """

    def __init__(self, domain: Domain, task: ControlTask) -> None:
        self.domain = domain
        self.environment: Any = task.environment
        """The dm_control environment, whose ``physics`` a camera can render."""
        self._task = task
        self._physics_error: type[Exception] = load_module("dm_control.rl.control").PhysicsError
        spec = self.environment.action_spec()
        self._low, self._high = np.asarray(spec.minimum, np.float64), np.asarray(spec.maximum, np.float64)
        self._scale = (self._high - self._low) / 2
        self._obs = np.zeros(domain.obs_size, np.float32)
        self._position = None if task.position is None else task.position()
        self._steps_left = 0

    @property
    def spec(self) -> EnvSpec:
        """Observation size, action size and horizon of the domain."""
        return EnvSpec((self.domain.obs_size,), self.domain.action_size, self.domain.horizon)

    def reset(self, seed: int) -> Float32[np.ndarray, " o"]:
        """Start the episode of a seed."""
        # Reseeds the only source of randomness and clears MuJoCo's data, so nothing of earlier episodes remains.
        self._task.random.seed(seed)
        self.environment.reset()
        self._steps_left = self.domain.horizon
        self._obs, _ = self._task.observe()
        self._locate()
        return self._obs.copy()

    def step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        """Hold the action for one control step."""
        if self._steps_left == 0:
            raise RuntimeError("The episode is over; call reset() first.")
        self._steps_left -= 1
        physics = self.environment.physics
        # Rounding must not carry an action out of the range.
        raw = np.minimum(np.maximum(self._low + self._scale * (action + np.float64(1)), self._low), self._high)
        physics.set_control(raw)
        try:
            physics.step(self._task.substeps)
        except self._physics_error as error:
            if not np.isfinite(action).all():
                raise ValueError(f"The action {action} is not finite.") from error
            logging.getLogger(__name__).warning("The episode terminates because its physics diverged: %s", error)
            self._steps_left = 0
            return HostStep(self._obs.copy(), 0.0, terminated=True, truncated=False)
        self._obs, reward = self._task.observe()
        self._locate()
        return HostStep(self._obs.copy(), reward, terminated=False, truncated=self._steps_left == 0)

    def _locate(self) -> None:
        # Kept from step to step, as the observation is: diverged physics have no position.
        if self._task.position is not None:
            self._position = self._task.position()

    @property
    def position(self) -> Float[np.ndarray, " p"] | None:
        """Coordinates of the torso in metres: x of the walker, x and y of the quadruped. The arm tells none."""
        return None if self._position is None else self._position.copy()

    def close(self) -> None:
        """Free the physics."""
        self._steps_left = 0
        self.environment.close()


def load_task(task: str) -> ControlEnv:
    """The environment of a task, such as "walker_walk"; imports dm_control."""
    domain = domain_of(task)
    return ControlEnv(domain, _BUILDERS[domain.name](task.removeprefix(f"{domain.name}_")))
