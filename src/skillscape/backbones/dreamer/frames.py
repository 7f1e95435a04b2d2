"""Frames as a world model learns them fastest: how they differ from the mean frame, in units of how much they do."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.stats import Moments
from skillscape.vision import prepared

LOOK_AT_EVERY = 8
"""Steps of a sequence between two frames that the moments take in: neighbours hardly differ."""


class Frames(NamedTuple):
    """Running moments of every pixel of the frames that were replayed.

    Most of a frame is the same all the time. A network that sees it as it is first learns the background, for hundreds
    of updates, and a small body hardly moves its embedding; docs/pixels.md has the measurement.
    """

    moments: Moments

    @property
    def unit(self) -> Float[Array, ""]:
        """The deviation of a pixel, one number for all of them: pixels that rarely change are not blown up."""
        return jnp.sqrt(jnp.mean(self.moments.variance) + 1e-6)

    def include(self, obs: Shaped[Array, "b t h w c"]) -> "Frames":
        """Take in some frames of every sequence."""
        some = obs[:, ::LOOK_AT_EVERY]
        return Frames(self.moments.include(prepared(some.reshape(-1, *some.shape[2:]))))

    def standardised(self, obs: Shaped[Array, "*n h w c"]) -> Float[Array, "*n h w c"]:
        """Frames as the model sees them."""
        return (prepared(obs) - self._mean(obs.ndim)) / self.unit

    def restored(self, frames: Float[Array, "*n h w c"]) -> Float[Array, "*n h w c"]:
        """What the model says, as prepared frames."""
        return frames * self.unit + self._mean(frames.ndim)

    def _mean(self, dimensions: int) -> Float[Array, "..."]:
        return self.moments.mean.reshape((1,) * (dimensions - 3) + self.moments.mean.shape)


def shown(frames: Frames | None, obs: Shaped[Array, "..."]) -> Float[Array, "..."]:
    """Observations as the world model sees them: standardised where that is asked for, otherwise prepared."""
    return prepared(obs) if frames is None else frames.standardised(obs)
