"""The tasks of dm_control from images: observations are uint8 [64, 64, 3]."""

from typing import final

import numpy as np
from jaxtyping import Float, UInt8

from skillscape.envs import IMAGE_SHAPE
from skillscape.envs.base import HostEnv, HostStep
from skillscape.envs.urlb.camera import Camera, Look
from skillscape.envs.urlb.suite import ControlEnv, load_task
from skillscape.envs.urlb.tasks import domain_of
from skillscape.types import EnvSpec

ACTION_REPEAT = 2
"""Control steps for which an action is held; the environment's own steps, and its horizon, count actions."""

CAMERAS: dict[str, int] = {"walker": 0, "quadruped": 2}
"""Which of the model's cameras looks on, by domain: from the side, moving with the body."""


@final
class ControlPixels(HostEnv):
    """A task of dm_control that is seen: every action is held for two control steps, their rewards are summed.

    ``look``: "fast", or "reference" for dm_control's own; both draw the same scene. A run keeps to one of them.
    """

    def __init__(self, inner: ControlEnv, camera: int, look: Look = "fast") -> None:
        self._inner = inner
        self._camera = Camera(inner.environment.physics, camera, look)
        self._frame = np.zeros(IMAGE_SHAPE, np.uint8)

    @property
    def inner(self) -> ControlEnv:
        """The task itself, for other cameras to look at."""
        return self._inner

    @property
    def spec(self) -> EnvSpec:
        """An image, the actions of the domain, and half its horizon."""
        inner = self._inner.spec
        return EnvSpec(IMAGE_SHAPE, inner.action_dim, inner.horizon // ACTION_REPEAT)

    def reset(self, seed: int) -> UInt8[np.ndarray, "64 64 3"]:
        """Begin the episode of this seed."""
        self._inner.reset(seed)
        self._frame = self._camera.frame()
        return self._frame.copy()

    def step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        """Hold the action, then look."""
        reward = 0.0
        for _ in range(ACTION_REPEAT):
            step = self._inner.step(action)
            reward += step.reward
            if step.terminated or step.truncated:
                break
        # Physics that diverged cannot be drawn: what was seen last stands, as the state does without pixels.
        if not step.terminated:
            self._frame = self._camera.frame()
        return HostStep(self._frame.copy(), reward, step.terminated, step.truncated)

    def close(self) -> None:
        """Free the pictures and the physics."""
        self._camera.close()
        self._inner.close()


def make_control_pixels(task: str, look: Look = "fast") -> ControlPixels:
    """The task, such as "walker_walk", seen by its domain's camera."""
    inner = load_task(task)
    try:
        return ControlPixels(inner, CAMERAS[domain_of(task).name], look)
    except BaseException:
        inner.close()
        raise
