"""Any environment of the library under Gymnasium's interface, for code that is not part of it."""

from typing import Any, final

import gymnasium
import numpy as np
from jaxtyping import Float, Shaped

from skillscape.envs.base import NO_ARGUMENTS, Arguments, HostEnv
from skillscape.envs.gymnasium_modules import trust
from skillscape.envs.registry import host_env


@final
class AsGymnasium(gymnasium.Env[np.ndarray, np.ndarray]):
    """A ``HostEnv`` as a Gymnasium environment: actions in [-1, 1], observations as policies take them."""

    def __init__(self, inner: HostEnv) -> None:
        self._inner = inner
        spec = inner.spec
        low, high, kind = (0, 255, np.uint8) if spec.is_image else (-np.inf, np.inf, np.float32)
        self.observation_space = gymnasium.spaces.Box(low, high, spec.obs_shape, kind)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (spec.action_dim,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Shaped[np.ndarray, "..."], dict[str, Any]]:
        """Begin an episode; without a seed, one that the last seed leads to."""
        super().reset(seed=seed, options=options)
        return self._inner.reset(int(self.np_random.integers(2**31)) if seed is None else seed), {}

    def step(
        self, action: Float[np.ndarray, " a"]
    ) -> tuple[Shaped[np.ndarray, "..."], float, bool, bool, dict[str, Any]]:
        """Take an action in [-1, 1]."""
        return *self._inner.step(np.asarray(action, np.float32)), {}

    def close(self) -> None:
        """Give back what the environment holds."""
        self._inner.close()


def make(env_id: str, task: str | None = None, *, noise: float = 0.0, kwargs: Arguments = NO_ARGUMENTS) -> AsGymnasium:
    """The environment of an ID, such as "walker", set to a task, as a Gymnasium environment."""
    trust(env_id)
    return AsGymnasium(host_env(env_id, task, noise=noise, kwargs=kwargs))
