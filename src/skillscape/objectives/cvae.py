"""The conditional VAE that SD3 takes its densities from: one bound on log d_z(s) for every skill z (Eq. 3)."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, Shaped

from skillscape.dists import DiagonalNormal
from skillscape.nets import Conditional, Linear
from skillscape.objectives.encoders import ObsEncoder, coarse_target

PIXEL_UNIT = 1 / 32
"""Unit of an image's outline: its cells are in [-½, ½], and differ by a small part of that from place to place."""
BLOCK_PAIRS = 2048
"""Pairs of state and skill that are scored at a time: what they need then stays in a processor's cache."""


class Evidence(NamedTuple):
    """The two terms of the bound: log P(s|h,z) at the latents used, and KL[Q(h|s,z) ‖ N(0,I)]."""

    log_likelihood: Float[Array, "*n"]
    divergence: Float[Array, "*n"]

    @property
    def bound(self) -> Float[Array, "*n"]:
        """ELBO, Eq. 3."""
        return self.log_likelihood - self.divergence


class ConditionalVAE(eqx.Module):
    """Encoder Q(h|s,z), decoder mean of P(s|h,z), and the embeddings f₂ of the skill for each of them.

    The decoder routes on (h, z): were s to reach it by any other way than h, the bound would bound nothing. Images are
    encoded through an eye, and P is of their outline: the bound is of its density.
    """

    obs_encoder: ObsEncoder
    encoder: Conditional
    decoder: Conditional
    embed_for_encoder: Linear
    embed_for_decoder: Linear
    variance: float = eqx.field(static=True)
    """σ² of P(s|h,z)."""
    unit: float = eqx.field(static=True, default=1.0)
    """What the entries of a state are measured in where errors are."""

    def shared(self, obs: Shaped[Array, "..."]) -> PyTree:
        """All of the encoder that does not depend on the skill, at one state."""
        return self.encoder.shared(self.obs_encoder(obs))

    def posterior(self, shared: PyTree, skill: Float[Array, " z"]) -> DiagonalNormal:
        """Q(h|s,z) from ``shared(s)``."""
        return _normal(self.encoder.conditioned(shared, self.embed_for_encoder(skill)))

    def decode(self, latent: Float[Array, " h"], skill: Float[Array, " z"]) -> Float[Array, " d"]:
        """The mean of P(s|h,z)."""
        return self.decoder.conditioned(self.decoder.shared(latent), self.embed_for_decoder(skill))

    def target(self, obs: Shaped[Array, "..."]) -> Float[Array, " t"]:
        """All of the likelihood that does not depend on the skill, at one state."""
        return self.decoder.last.target(coarse_target(obs))

    def evidence(
        self, obs: Shaped[Array, "..."], skill: Float[Array, " z"], noise: Float[Array, "samples h"]
    ) -> Evidence:
        """The bound's terms at one state and skill; ``noise`` rows are the latents' standard-normal draws."""
        posterior = self.posterior(self.shared(obs), skill)
        return self._evidence(self.target(obs), posterior, self.embed_for_decoder(skill), noise)

    def evidence_of_each(
        self, obs: Shaped[Array, "n ..."], skills: Float[Array, "k z"], noise: Float[Array, "samples h"]
    ) -> Evidence:
        """The bound's terms of n states under each of k skills, [n, k]; skill-free parts once per state.

        All pairs see the same noise: what is left of it cancels in the ratio of two densities.
        """
        for_encoder, for_decoder = jax.vmap(self.embed_for_encoder)(skills), jax.vmap(self.embed_for_decoder)(skills)
        states = jax.vmap(self.target)(obs), jax.vmap(self.shared)(obs)

        def at_one(state: tuple[Float[Array, " t"], PyTree]) -> Evidence:
            target, shared = state
            posteriors = _normal(self.encoder.conditioned_on_each(shared, for_encoder))
            return jax.vmap(lambda posterior, skill: self._evidence(target, posterior, skill, noise))(
                posteriors, for_decoder
            )

        rows = _block(obs.shape[0], skills.shape[0])
        return jax.vmap(at_one)(states) if rows == obs.shape[0] else jax.lax.map(at_one, states, batch_size=rows)

    def _evidence(
        self,
        target: Float[Array, " t"],
        posterior: DiagonalNormal,
        skill: Float[Array, " d"],
        noise: Float[Array, "samples h"],
    ) -> Evidence:
        """The bound's terms from a state's target and posterior; skill: embedded for the decoder."""
        likelihoods = [
            self._log_likelihood(target, posterior.sample(noise[sample]), skill) for sample in range(noise.shape[0])
        ]
        return Evidence(sum(likelihoods[1:], likelihoods[0]) / len(likelihoods), posterior.kl_to_standard())

    def _log_likelihood(
        self, target: Float[Array, " t"], latent: Float[Array, " h"], skill: Float[Array, " d"]
    ) -> Float[Array, ""]:
        """log P(s|h,z), the error |s − ``decode(h, z)``| being in units."""
        hidden = self.decoder.hidden(self.decoder.shared(latent), skill)
        error = self.decoder.last.squared_error(hidden, target) / self.unit**2
        constant = self.decoder.last.bias.shape[0] * math.log(2 * math.pi * self.variance)
        return -0.5 * (error / self.variance + constant)


def _normal(output: Float[Array, "*n twice"]) -> DiagonalNormal:
    """The posterior that an encoder's output stands for; the log variance is kept within [-10, 4]."""
    mean, log_variance = jnp.split(output, 2, axis=-1)
    return DiagonalNormal(mean, jnp.clip(log_variance, -10.0, 4.0))


def _block(states: int, skills: int) -> int:
    """How many states to score at a time: equal blocks of at most ``BLOCK_PAIRS`` pairs, or nearly equal ones.

    A rest would be compiled as a program of its own, so a number of blocks that leaves none is preferred if near.
    """
    fewest = -(-states * skills // BLOCK_PAIRS)
    for blocks in range(fewest, 2 * fewest):
        if states % blocks == 0:
            return states // blocks
    return -(-states // fewest)
