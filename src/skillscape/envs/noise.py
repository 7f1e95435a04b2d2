"""Observations with noise on them, to see how much of it a method bears."""

from typing import final

import numpy as np
from jaxtyping import Float, Shaped, UInt8

from skillscape.envs.base import HostEnv, HostStep
from skillscape.types import EnvSpec

# Keeps the noise apart from whatever the environment itself draws from the same seed.
_STREAM = 0x6E6F6973


@final
class Noisy(HostEnv):
    """Another environment, with N(0, std²) added to every entry of every observation.

    In images a std of 1 is the way from black to white; the result is rounded and cut to what an image can hold.
    The noise is a function of the episode's seed and of the step, so episodes can still be repeated to the last bit;
    the environment itself goes on as it would without. Rewards stay those of the true state.
    """

    def __init__(self, inner: HostEnv, std: float) -> None:
        self._inner = inner
        self._std = np.float32(std)
        self._random = np.random.default_rng(_STREAM)

    @property
    def spec(self) -> EnvSpec:
        """That of the environment inside."""
        return self._inner.spec

    def reset(self, seed: int) -> Shaped[np.ndarray, "..."]:
        """Begin the episode of this seed."""
        self._random = np.random.default_rng((_STREAM, seed))
        return self._disturb(self._inner.reset(seed))

    def step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        """Take one step of the environment inside."""
        step = self._inner.step(action)
        return step._replace(obs=self._disturb(step.obs))

    def close(self) -> None:
        """Close the environment inside."""
        self._inner.close()

    def _disturb(self, obs: np.ndarray) -> Shaped[np.ndarray, "..."]:
        noise = self._random.standard_normal(obs.shape, dtype=np.float32)
        if obs.dtype == np.uint8:
            image: UInt8[np.ndarray, "..."] = np.clip(np.rint(obs + 255 * self._std * noise), 0, 255).astype("u1")
            return image
        return obs.astype(np.float32) + self._std * noise
