"""Images as a world model learns them fastest: how they differ from the mean image, in units of how much they do."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.conv import preprocess
from skillscape.stats import Moments

SAMPLE_EVERY = 8
"""Steps of a sequence between two images that the moments take in: neighbours hardly differ."""


class ImageNorm(NamedTuple):
    """Running moments of every pixel of the images that were replayed. Images are floats in [-½, ½] here.

    Most of an image is the same all the time. A network that sees it as it is first learns the background, for hundreds
    of updates, and a small body hardly moves its embedding; docs/notebook/pixels.md has the measurement.
    """

    moments: Moments

    @property
    def unit(self) -> Float[Array, ""]:
        """The standard deviation of a pixel, one number for all: pixels that rarely change are not blown up."""
        return jnp.sqrt(jnp.mean(self.moments.variance) + 1e-6)

    def include(self, images: Float[Array, "b t h w c"]) -> "ImageNorm":
        """Take in some images of every sequence."""
        some = images[:, ::SAMPLE_EVERY]
        return ImageNorm(self.moments.include(some.reshape(-1, *some.shape[2:])))

    def normalize(self, images: Float[Array, "*n h w c"]) -> Float[Array, "*n h w c"]:
        """Images as the model sees them."""
        return (images - self._mean(images.ndim)) / self.unit

    def denormalize(self, images: Float[Array, "*n h w c"]) -> Float[Array, "*n h w c"]:
        """What the model predicts, as images in [-½, ½]."""
        return images * self.unit + self._mean(images.ndim)

    def _mean(self, dimensions: int) -> Float[Array, "..."]:
        return self.moments.mean.reshape((1,) * (dimensions - 3) + self.moments.mean.shape)


def normalize_obs(norm: ImageNorm | None, obs: Shaped[Array, "..."]) -> Float[Array, "..."]:
    """Observations of an environment as the world model sees them: bytes as floats, normalised where asked for."""
    images = preprocess(obs)
    return images if norm is None else norm.normalize(images)
