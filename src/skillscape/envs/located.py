"""The position of a body, read from the observation of an environment that does not tell it otherwise."""

from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Float, Shaped

from skillscape.envs.base import HostEnv, HostStep
from skillscape.errors import UserError
from skillscape.types import EnvSpec


@final
class LocatedEnv(HostEnv):
    """Wraps an environment and takes some entries of its observation, counted from 0, as the position of the body."""

    def __init__(self, env_id: str, inner: HostEnv, entries: Sequence[int]) -> None:
        spec = inner.spec
        if spec.is_image:
            raise UserError(f"--env.position names entries of a vector, but {env_id} shows images: leave it out.")
        (width,) = spec.obs_shape
        wrong = [entry for entry in entries if not 0 <= entry < width]
        if wrong or len(set(entries)) < len(entries):
            fault = f"entry {wrong[0]}" if wrong else "an entry twice"
            raise UserError(
                f"--env.position names {fault}, but the observation of {env_id} has the entries 0 to {width - 1}: give "
                "those that are coordinates of the body, each once."
            )
        self._inner = inner
        self._entries = list(entries)
        self._position: Float[np.ndarray, " p"] = np.zeros(len(entries), np.float32)

    @property
    def spec(self) -> EnvSpec:
        """The spec of the wrapped environment."""
        return self._inner.spec

    def reset(self, seed: int) -> Shaped[np.ndarray, "..."]:
        """Start the episode of a seed."""
        obs = self._inner.reset(seed)
        self._position = obs[self._entries]
        return obs

    def step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        """Take one step of the wrapped environment."""
        step = self._inner.step(action)
        self._position = step.obs[self._entries]
        return step

    @property
    def position(self) -> Float[np.ndarray, " p"]:
        """The named entries of the newest observation; zeros before the first reset."""
        return self._position.copy()

    def with_position(self, obs: Float[np.ndarray, " d"], position: Float[np.ndarray, " p"]) -> Float[np.ndarray, " d"]:
        """An observation with other values of the named entries."""
        moved = obs.copy()
        moved[self._entries] = position
        return moved

    def close(self) -> None:
        """Close the wrapped environment."""
        self._inner.close()
