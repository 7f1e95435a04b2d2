"""The few distributions the backbones and objectives need, each a record of arrays with pure methods."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, gammaln
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
        # As ``jax.random.beta`` draws, to the bit, but with one program for both gammas: a second of compiling less.
        gamma = jax.vmap(jax.random.loggamma)(jax.random.split(key), jnp.stack([self.alpha, self.beta]))
        scaled = jnp.exp(gamma - jnp.max(gamma, axis=0, keepdims=True))
        unit = scaled[0] / (scaled[0] + scaled[1])
        return 2 * jnp.clip(unit, 1e-6, 1 - 1e-6) - 1

    def mode(self) -> Float[Array, "*n a"]:
        """The most likely value; needs α, β > 1."""
        return 2 * (self.alpha - 1) / (self.alpha + self.beta - 2) - 1

    def log_prob(self, value: Float[Array, "*n a"]) -> Float[Array, "*n"]:
        """Log density of a point of [-1, 1], summed over dimensions."""
        unit = (value + 1) / 2
        log_density = (self.alpha - 1) * jnp.log(unit) + (self.beta - 1) * jnp.log1p(-unit)
        return jnp.sum(log_density - self._log_normaliser(), axis=-1)

    def _log_normaliser(self) -> Float[Array, "*n a"]:
        """log B(α, β)."""
        parts: Float[Array, "3 *n a"] = gammaln(jnp.stack([self.alpha, self.beta, self.alpha + self.beta]))
        return parts[0] + parts[1] - parts[2]

    def entropy(self) -> Float[Array, "*n a"]:
        """Differential entropy of each dimension."""
        total = self.alpha + self.beta
        # One call for all three: each would be compiled by itself, with its derivative.
        slopes: Float[Array, "3 *n a"] = digamma(jnp.stack([self.alpha, self.beta, total]))
        return (
            self._log_normaliser()
            - (self.alpha - 1) * slopes[0]
            - (self.beta - 1) * slopes[1]
            + (total - 2) * slopes[2]
        )


class DiagonalNormal(NamedTuple):
    """A normal distribution with a diagonal covariance. mean, log_variance: [..., d]."""

    mean: Float[Array, "*n d"]
    log_variance: Float[Array, "*n d"]

    def sample(self, noise: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """The reparameterised sample of standard-normal ``noise``."""
        return self.mean + jnp.exp(0.5 * self.log_variance) * noise

    def kl_to_standard(self) -> Float[Array, "*n"]:
        """KL[N(μ, σ²) ‖ N(0, I)] = ½ Σ (σ² + μ² − 1 − log σ²)."""
        # expm1(x) − x keeps its digits where the posterior has collapsed onto the prior.
        excess = jnp.expm1(self.log_variance) - self.log_variance
        return 0.5 * jnp.sum(excess + self.mean**2, axis=-1)


class TruncatedNormal(NamedTuple):
    """A normal around ``mean`` whose draws are clipped to (-1, 1). mean: [..., a]; std: a number, or [..., a].

    The clamp passes gradients through as if it were not there, so that a draw at the border still moves its mean.
    Density and entropy are those of the unclamped normal.
    """

    mean: Float[Array, "*n a"]
    std: float | Float[Array, "*n a"]

    def sample(self, noise: Float[Array, "*n a"], clip: float | None = None) -> Float[Array, "*n a"]:
        """The reparameterised sample of standard-normal ``noise``; ``clip`` bounds its distance from the mean."""
        step = self.std * noise
        drawn = self.mean + (step if clip is None else jnp.clip(step, -clip, clip))
        clamped = jnp.clip(drawn, -1 + 1e-6, 1 - 1e-6)
        return drawn + jax.lax.stop_gradient(clamped - drawn)

    def mode(self) -> Float[Array, "*n a"]:
        """The mean."""
        return self.mean

    def log_prob(self, value: Float[Array, "*n a"]) -> Float[Array, "*n"]:
        """Log density, summed over dimensions."""
        scaled = (value - self.mean) / self.std
        return -0.5 * jnp.sum(scaled**2 + self._log_spread(), axis=-1)

    def entropy(self) -> Float[Array, "*n"]:
        """½ Σ (1 + log 2πσ²)."""
        return 0.5 * jnp.sum(1 + self._log_spread() + jnp.zeros_like(self.mean), axis=-1)

    def _log_spread(self) -> float | Float[Array, "*n a"]:
        if isinstance(self.std, float):
            return math.log(2 * math.pi * self.std**2)
        return math.log(2 * math.pi) + 2 * jnp.log(self.std)


class SquashedNormal(NamedTuple):
    """tanh of a diagonal normal, in (-1, 1). mean, log_std: [..., a], before the tanh."""

    mean: Float[Array, "*n a"]
    log_std: Float[Array, "*n a"]

    def sample(self, noise: Float[Array, "*n a"]) -> Float[Array, "*n a"]:
        """The reparameterised sample of standard-normal ``noise``."""
        return jnp.tanh(self.mean + jnp.exp(self.log_std) * noise)

    def mode(self) -> Float[Array, "*n a"]:
        """The tanh of the mean."""
        return jnp.tanh(self.mean)

    def log_prob_of_noise(self, noise: Float[Array, "*n a"]) -> Float[Array, "*n"]:
        """Log density of ``sample(noise)``, summed over dimensions; exact however far out the tanh is."""
        latent = self.mean + jnp.exp(self.log_std) * noise
        return jnp.sum(self._log_normal(noise) - _log_tanh_slope(latent), axis=-1)

    def log_prob(self, value: Float[Array, "*n a"]) -> Float[Array, "*n"]:
        """Log density of a point of [-1, 1], summed over dimensions; points at the ends are moved inside."""
        latent = jnp.arctanh(jnp.clip(value, -1 + 1e-6, 1 - 1e-6))
        noise = (latent - self.mean) * jnp.exp(-self.log_std)
        return jnp.sum(self._log_normal(noise) - _log_tanh_slope(latent), axis=-1)

    def _log_normal(self, noise: Float[Array, "*n a"]) -> Float[Array, "*n a"]:
        return -0.5 * noise**2 - self.log_std - 0.5 * math.log(2 * math.pi)


def _log_tanh_slope(latent: Float[Array, "*n a"]) -> Float[Array, "*n a"]:
    """log (1 − tanh² x) = 2 (log 2 − x − softplus(−2 x)), which does not underflow."""
    return 2 * (math.log(2.0) - latent - jax.nn.softplus(-2 * latent))


class OneHot(NamedTuple):
    """Independent categorical variables as one-hot rows, a group of s with c classes each. logits: [..., s, c]."""

    logits: Float[Array, "*n s c"]

    @staticmethod
    def mixed(logits: Float[Array, "*n s c"], uniform: float) -> "OneHot":
        """The mixture (1 − ``uniform``) softmax + ``uniform`` / c, so that no probability vanishes."""
        if uniform == 0:
            return OneHot(logits)
        probabilities = (1 - uniform) * jax.nn.softmax(logits) + uniform / logits.shape[-1]
        return OneHot(jnp.log(probabilities))

    @property
    def probabilities(self) -> Float[Array, "*n s c"]:
        """Probabilities of the classes, which sum to 1 over the last axis."""
        return jax.nn.softmax(self.logits)

    def sample(self, uniform: Float[Array, "*n s"]) -> Float[Array, "*n s c"]:
        """The sample given by ``uniform`` numbers in [0, 1), with straight-through gradients.

        Inverts the cumulative distribution, which takes one random number per variable, not one per class.
        """
        probabilities = self.probabilities
        classes = probabilities.shape[-1]
        # A product with a triangle: XLA's cumulative sum is quadratic on a CPU.
        cumulative = jnp.matmul(probabilities, jnp.triu(jnp.ones((classes, classes))), precision="highest")
        index = jnp.sum((cumulative <= uniform[..., None]).astype(jnp.int32), axis=-1)
        drawn = jax.nn.one_hot(jnp.minimum(index, classes - 1), classes)
        return drawn + (probabilities - jax.lax.stop_gradient(probabilities))

    def kl(self, other: "OneHot") -> Float[Array, "*n"]:
        """KL[self ‖ other], summed over the group."""
        own, others = jax.nn.log_softmax(self.logits), jax.nn.log_softmax(other.logits)
        return jnp.sum(jnp.exp(own) * (own - others), axis=(-2, -1))


class TwoHot(NamedTuple):
    """A number as probabilities of bins that are spaced evenly in symlog: fine around zero, wide far out.

    logits: [..., bins], an odd number of bins from −symexp(20) to symexp(20).

    Reference: Hafner et al., Mastering Diverse Domains through World Models, 2023.
    """

    logits: Float[Array, "*n bins"]

    @staticmethod
    def bins(number: int) -> Float[Array, " bins"]:
        """Their centres, symexp(−20) … 0 … symexp(20)."""
        half = jnp.expm1(jnp.linspace(0.0, 20.0, number // 2 + 1))
        return jnp.concatenate([-half[:0:-1], half])

    def mean(self) -> Float[Array, "*n"]:
        """Σ p · bin; bins of opposite sign are paired first, or their sum would drown what is left."""
        number = self.logits.shape[-1]
        probabilities = jax.nn.softmax(self.logits)
        above, below = probabilities[..., number // 2 + 1 :], probabilities[..., : number // 2][..., ::-1]
        return jnp.matmul(above - below, self.bins(number)[number // 2 + 1 :], precision="highest")

    def cross_entropy(self, value: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """Against the two bins around ``value``, weighted so that their mean is the value."""
        bins = self.bins(self.logits.shape[-1])
        value = jnp.clip(value, bins[0], bins[-1])
        below = jnp.clip(jnp.searchsorted(bins, value, side="right") - 1, 0, bins.shape[0] - 2)
        share = (value - bins[below]) / (bins[below + 1] - bins[below])
        log_probability = jax.nn.log_softmax(self.logits)
        low = jnp.take_along_axis(log_probability, below[..., None], axis=-1)[..., 0]
        high = jnp.take_along_axis(log_probability, below[..., None] + 1, axis=-1)[..., 0]
        return -((1 - share) * low + share * high)
