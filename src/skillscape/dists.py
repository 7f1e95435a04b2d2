"""The few distributions the backbones and objectives need, each a record of arrays with pure methods."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import betaln, digamma
from jaxtyping import Array, Float

from skillscape.types import RandomKey


class Beta(NamedTuple):
    """Independent Beta(α, β) per dimension, stretched from [0, 1] to [-1, 1]. alpha, beta: [..., a].

    Densities and entropies are those of the unstretched variable on [0, 1]: they differ by a constant.
    """

    alpha: Float[Array, "*n a"]
    beta: Float[Array, "*n a"]

    def sample(self, key: RandomKey) -> Float[Array, "*n a"]:
        """One draw, kept off the ends, where the density of a sharp Beta vanishes."""
        unit = jax.random.beta(key, self.alpha, self.beta)
        return 2 * jnp.clip(unit, 1e-6, 1 - 1e-6) - 1

    def mode(self) -> Float[Array, "*n a"]:
        """The most likely value; needs α, β > 1."""
        return 2 * (self.alpha - 1) / (self.alpha + self.beta - 2) - 1

    def log_prob(self, value: Float[Array, "*n a"]) -> Float[Array, "*n"]:
        """Log density of a point of [-1, 1], summed over dimensions."""
        unit = (value + 1) / 2
        log_density = (self.alpha - 1) * jnp.log(unit) + (self.beta - 1) * jnp.log1p(-unit)
        return jnp.sum(log_density - betaln(self.alpha, self.beta), axis=-1)

    def entropy(self) -> Float[Array, "*n a"]:
        """Differential entropy of each dimension."""
        total = self.alpha + self.beta
        return (
            betaln(self.alpha, self.beta)
            - (self.alpha - 1) * digamma(self.alpha)
            - (self.beta - 1) * digamma(self.beta)
            + (total - 2) * digamma(total)
        )


class DiagonalNormal(NamedTuple):
    """A normal distribution with a diagonal covariance. mean, log_variance: [..., d]."""

    mean: Float[Array, "*n d"]
    log_variance: Float[Array, "*n d"]

    def sample(self, noise: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """The draw that standard-normal ``noise`` stands for (reparameterised)."""
        return self.mean + jnp.exp(0.5 * self.log_variance) * noise

    def kl_to_standard(self) -> Float[Array, "*n"]:
        """KL[N(μ, σ²) ‖ N(0, I)] = ½ Σ (σ² + μ² − 1 − log σ²)."""
        # expm1(x) − x keeps its digits where the posterior has collapsed onto the prior.
        excess = jnp.expm1(self.log_variance) - self.log_variance
        return 0.5 * jnp.sum(excess + self.mean**2, axis=-1)


class TruncatedNormal(NamedTuple):
    """A normal around ``mean`` whose draws are clamped into (-1, 1). mean: [..., a]; deviation: [].

    The clamp passes gradients through as if it were not there, so that a draw at the border still moves its mean.
    """

    mean: Float[Array, "*n a"]
    deviation: float

    def sample(self, noise: Float[Array, "*n a"], clip: float | None = None) -> Float[Array, "*n a"]:
        """The draw that standard-normal ``noise`` stands for; ``clip`` bounds how far it may be from the mean."""
        step = self.deviation * noise
        drawn = self.mean + (step if clip is None else jnp.clip(step, -clip, clip))
        clamped = jnp.clip(drawn, -1 + 1e-6, 1 - 1e-6)
        return drawn + jax.lax.stop_gradient(clamped - drawn)

    def log_prob(self, value: Float[Array, "*n a"]) -> Float[Array, "*n"]:
        """Log density of the unclamped normal, summed over dimensions."""
        scaled = (value - self.mean) / self.deviation
        return -0.5 * jnp.sum(scaled**2 + math.log(2 * math.pi * self.deviation**2), axis=-1)
