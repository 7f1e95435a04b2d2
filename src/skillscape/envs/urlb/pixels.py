"""The tasks of the Unsupervised RL Benchmark with image observations, uint8 [64, 64, 3]."""

from typing import final

import numpy as np
from jaxtyping import Float, UInt8

from skillscape.envs import IMAGE_SHAPE
from skillscape.envs.base import HostEnv, HostStep
from skillscape.envs.urlb.camera import Camera, RenderQuality
from skillscape.envs.urlb.suite import load_task
from skillscape.types import EnvSpec

ACTION_REPEAT = 2
"""Control steps per action; an environment step, also in the horizon, is one action."""

CAMERAS: dict[str, int] = {"walker": 0, "quadruped": 2}
"""Number of the model's camera by domain: the view from the side that tracks the body."""


@final
class ControlPixels(HostEnv):
    """A dm_control task from images: every action is repeated for two control steps and their rewards are summed.

    ``task``: such as "walker_walk"; ``quality``: "fast", or "reference" for dm_control's own rendering.
    """

    def __init__(self, task: str, quality: RenderQuality = "fast") -> None:
        self.inner = load_task(task)
        """The task from states, for other cameras."""
        try:
            self._camera = Camera(self.inner.environment.physics, CAMERAS[self.inner.domain.name], quality)
        except BaseException:
            self.inner.close()
            raise
        self._frame = np.zeros(IMAGE_SHAPE, np.uint8)

    @property
    def spec(self) -> EnvSpec:
        """An image, the action size of the domain, and half its horizon."""
        inner = self.inner.spec
        return EnvSpec(IMAGE_SHAPE, inner.action_dim, inner.horizon // ACTION_REPEAT)

    def reset(self, seed: int) -> UInt8[np.ndarray, "64 64 3"]:
        """Start the episode of a seed."""
        self.inner.reset(seed)
        self._frame = self._camera.frame()
        return self._frame.copy()

    def step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        """Repeat the action, then render."""
        reward = 0.0
        for _ in range(ACTION_REPEAT):
            step = self.inner.step(action)
            reward += step.reward
            if step.terminated or step.truncated:
                break
        # Diverged physics cannot be rendered: the last frame is returned, as the last state is without pixels.
        if not step.terminated:
            self._frame = self._camera.frame()
        return HostStep(self._frame.copy(), reward, step.terminated, step.truncated)

    @property
    def position(self) -> Float[np.ndarray, " p"] | None:
        """Coordinates of the body, as without images."""
        return self.inner.position

    def close(self) -> None:
        """Free the camera and the physics."""
        self._camera.close()
        self.inner.close()
