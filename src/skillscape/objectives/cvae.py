"""The conditional VAE that SD3 takes its densities from: one bound on log d_z(s) for every skill z (Eq. 3)."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, Shaped

from skillscape.dists import DiagonalNormal
from skillscape.nets import Conditional, Linear, SoftModular
from skillscape.objectives.encoders import ObsEncoder, coarse_target
from skillscape.types import Metrics

PIXEL_UNIT = 1 / 32
"""Unit of the coarse target of an image, whose entries in [-½, ½] differ little from state to state."""
BLOCK_PAIRS = 512
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

    The decoder routes on (h, z): if s reached it other than through h, Eq. 3 would not be a bound. For images, Q reads
    an observation encoder and P models the coarse target.
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

        # Where a gradient is taken a block is computed again for it: to keep what it needs of all blocks takes longer.
        again = jax.checkpoint(at_one, prevent_cse=False)
        rows = _block(obs.shape[0], skills.shape[0])
        evidence: Evidence = (
            jax.vmap(again)(states) if rows == obs.shape[0] else jax.lax.map(again, states, batch_size=rows)
        )
        return evidence

    def diagnostics(
        self, obs: Shaped[Array, "..."], skill: Float[Array, " z"], noise: Float[Array, "samples h"]
    ) -> Metrics:
        """What ``evidence`` is made of, at one state and skill: the three parts of the KL, and the routing's entropy.

        The parts sum to the KL: ½ Σ μ², ½ Σ (σ² − 1) and −½ Σ log σ². The entropy, in nats, is the mean over all
        mixtures of modules; log m is a routing that mixes all m alike, 0 one that chooses. Beside ``evidence`` in one
        compiled program it costs next to nothing: both compute the same, and XLA merges that.
        """
        shared = self.shared(obs)
        posterior = self.posterior(shared, skill)
        parts: Metrics = {
            "divergence_from_mean": 0.5 * jnp.sum(posterior.mean**2),
            "divergence_from_variance": 0.5 * jnp.sum(jnp.expm1(posterior.log_variance)),
            "divergence_from_log_variance": -0.5 * jnp.sum(posterior.log_variance),
        }
        if isinstance(self.encoder, SoftModular) and isinstance(self.decoder, SoftModular):
            of_latent = self.decoder.shared(posterior.sample(noise[0]))
            for_encoder, for_decoder = self.embed_for_encoder(skill), self.embed_for_decoder(skill)
            parts["encoder_routing_entropy"] = _routing_entropy(*self.encoder.routing(shared[0], for_encoder))
            parts["decoder_routing_entropy"] = _routing_entropy(*self.decoder.routing(of_latent[0], for_decoder))
        return parts

    def routing_weights(
        self, skills: Float[Array, "k z"], noise: Float[Array, "samples h"]
    ) -> dict[str, Float[Array, "layers m k"]]:
        """How much each module sends, by network, layer and skill; the modules of a layer sum to one.

        Averaged over the receiving modules and over states that the model itself generates, from latents drawn from
        the prior. Empty without soft modules; of images the decoder alone, since it generates no image to encode.
        """
        if not isinstance(self.encoder, SoftModular) or not isinstance(self.decoder, SoftModular):
            return {}
        encoder, decoder, reads_vectors = self.encoder, self.decoder, not self.obs_encoder.layers

        def under(skill: Float[Array, " z"], latent: Float[Array, " h"]) -> dict[str, Float[Array, "layers m"]]:
            of_latent = decoder.shared(latent)[0]
            sent = {"decoder": _sent(*decoder.routing(of_latent, self.embed_for_decoder(skill)))}
            if reads_vectors:
                of_state = self.shared(self.decode(latent, skill))[0]
                sent["encoder"] = _sent(*encoder.routing(of_state, self.embed_for_encoder(skill)))
            return sent

        drawn = jax.vmap(lambda skill: jax.vmap(lambda latent: under(skill, latent))(noise))(skills)
        networks = [name for name in ("encoder", "decoder") if name in drawn]
        return {name: jnp.moveaxis(jnp.mean(drawn[name], axis=1), 0, -1) for name in networks}

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


def _routing_entropy(between: list[Float[Array, "m m"]], joining: Float[Array, " m"]) -> Float[Array, ""]:
    """The mean entropy of all mixtures of a routing, each of them a distribution over the sending modules."""
    mixtures = jnp.concatenate([*between, joining[None]])
    return -jnp.mean(jnp.sum(jax.scipy.special.xlogy(mixtures, mixtures), axis=-1))


def _sent(between: list[Float[Array, "m m"]], joining: Float[Array, " m"]) -> Float[Array, "layers m"]:
    """The share of each sending module, averaged over the receiving ones."""
    return jnp.stack([*(jnp.mean(mixing, axis=0) for mixing in between), joining])
