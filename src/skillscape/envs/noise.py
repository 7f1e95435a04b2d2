"""Gaussian observation noise, to test the robustness of a method."""

from typing import final

import numpy as np
from jaxtyping import Float, Shaped, UInt8

from skillscape.envs.base import HostEnv, HostStep
from skillscape.types import EnvSpec

# Separates the noise from the random numbers that the environment itself draws from the same seed.
_STREAM = 0x6E6F6973


@final
class NoisyEnv(HostEnv):
    """Wraps an environment and adds N(0, std²) to every entry of every observation.

    In images a std of 1 spans black to white; the result is rounded and clipped to uint8. The noise is a function of
    the episode's seed and the step, so episodes stay bit-exactly reproducible. States, positions and rewards are
    unchanged.
    """

    def __init__(self, inner: HostEnv, std: float) -> None:
        self._inner = inner
        self._std = np.float32(std)
        self._random = np.random.default_rng(_STREAM)

    @property
    def spec(self) -> EnvSpec:
        """The spec of the wrapped environment."""
        return self._inner.spec

    def reset(self, seed: int) -> Shaped[np.ndarray, "..."]:
        """Start the episode of a seed."""
        self._random = np.random.default_rng((_STREAM, seed))
        return self._add_noise(self._inner.reset(seed))

    def step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        """Take one step of the wrapped environment."""
        step = self._inner.step(action)
        return step._replace(obs=self._add_noise(step.obs))

    @property
    def position(self) -> Float[np.ndarray, " p"] | None:
        """Where the wrapped environment says that the body is: without noise."""
        return self._inner.position

    def with_position(
        self, obs: Float[np.ndarray, " d"], position: Float[np.ndarray, " p"]
    ) -> Float[np.ndarray, " d"] | None:
        """As the wrapped environment has it."""
        return self._inner.with_position(obs, position)

    def close(self) -> None:
        """Close the wrapped environment."""
        self._inner.close()

    def _add_noise(self, obs: np.ndarray) -> Shaped[np.ndarray, "..."]:
        noise = self._random.standard_normal(obs.shape, dtype=np.float32)
        if obs.dtype == np.uint8:
            image: UInt8[np.ndarray, "..."] = np.clip(np.rint(obs + 255 * self._std * noise), 0, 255).astype("u1")
            return image
        return obs.astype(np.float32) + self._std * noise
