"""LSD (Park et al., Lipschitz-constrained Unsupervised Skill Discovery, ICLR 2022).

Move as far as possible along the skill's direction in a representation that changes no more than the state does: what
changes the state a lot is worth more than what merely tells skills apart. The bound is in the network itself: every
linear layer is divided by its largest singular value (Miyato et al., Spectral Normalization for Generative Adversarial
Networks, ICLR 2018), so that no multiplier is learned.

Departures: states are standardised by their running moments (with a standard deviation of at least 0.1), where the
authors' code has fixed ones for each environment; continuous skills are unit vectors, where the paper's are normal.
The power iteration starts with fifteen rounds, and a reward makes one round that is not kept.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.conv import Kernel, preprocess
from skillscape.nets import Linear
from skillscape.objectives.base import Scale
from skillscape.objectives.encoders import ObsEncoder, StateNet
from skillscape.objectives.latent_steps import LatentSteps, directions
from skillscape.optim import TrainState, gradient_step
from skillscape.stats import Moments
from skillscape.types import Experience, Metrics, RandomKey, Spec

FIRST_ROUNDS = 15
"""Of the power iteration at the start: a first estimate far below σ would make the first steps far too long."""

SingularVectors = tuple[Float[Array, " _"], ...]
"""Estimates u of the leading left singular vector of every layer's weight [out, in], convolutions first."""


class LSDState(NamedTuple):
    """The representation φ before normalisation, the singular vectors of its layers, and the moments of states."""

    representation: TrainState[StateNet]
    vectors: SingularVectors
    states: Moments


@dataclass(frozen=True)
class LSD(LatentSteps[LSDState]):
    """(φ(s') − φ(s))·z, where φ maximises the same and is 1-Lipschitz: ‖φ(s') − φ(s)‖ ≤ ‖s' − s‖.

    s and s' are one step apart and standardised. Of images, each convolution is divided by the largest singular value
    of its kernel as a matrix, as is usual, which bounds its norm but not by one.
    """

    name: ClassVar[str] = "lsd"
    label: ClassVar[str] = "LSD"

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """As METRA and CSD: a skill lasts an episode."""
        if scale.benchmark == "maze":
            return cls()
        return replace(cls.sized(scale), number_of_skills=scale.number_of_skills)

    def init(self, key: RandomKey, spec: Spec) -> LSDState:
        """A fresh representation with the singular vectors of its layers; no states seen."""
        network_key, vector_key = jax.random.split(key)
        network = StateNet.create(network_key, spec.obs_shape, self.hidden, self.skills.width)
        weights = _weights(network)
        keys = jax.random.split(vector_key, len(weights))
        vectors = tuple(
            _unit(jax.random.normal(vector_key, weight.shape[:1]))
            for vector_key, weight in zip(keys, weights, strict=True)
        )
        vectors = jax.lax.fori_loop(0, FIRST_ROUNDS, lambda _, vectors: spectral(network, vectors)[1], vectors)
        return LSDState(TrainState.create(self._transform, network), vectors, Moments.create(spec.obs_shape))

    def update(self, state: LSDState, batch: Experience, key: RandomKey) -> tuple[LSDState, Metrics]:
        """A step of φ on −mean Δφ·z, with one round of the power iteration; the moments take s' in before."""
        del key
        states = state.states.include(preprocess(batch.next_obs))
        now, then = (_standardised(states, obs) for obs in (batch.obs, batch.next_obs))
        direction = directions(batch.skill, self.skill_kind)

        def loss(network: StateNet) -> tuple[Float[Array, ""], tuple[SingularVectors, Metrics]]:
            normalised, vectors = spectral(network, state.vectors)
            steps = jax.vmap(normalised)(then) - jax.vmap(normalised)(now)
            value = -jnp.mean(jnp.sum(steps * direction, axis=-1))
            return value, (vectors, {"model_loss": value, "squared_length": jnp.mean(jnp.sum(steps**2, axis=-1))})

        representation, (vectors, metrics) = gradient_step(self._transform, loss, state.representation)
        return LSDState(representation, vectors, states), metrics

    def represent(self, state: LSDState, obs: Shaped[Array, "n ..."]) -> Float[Array, "n d"]:
        """φ of the standardised states, every layer divided by its largest singular value."""
        network, _ = spectral(state.representation.params, state.vectors)
        return jax.vmap(network)(_standardised(state.states, obs))


def spectral(network: StateNet, vectors: SingularVectors) -> tuple[StateNet, SingularVectors]:
    """The network with every weight W divided by its largest singular value, after one round of the power iteration.

    v = unit(Wᵀu), u = unit(W v), σ = u·W v; the gradient reaches σ through W, not through u and v.
    """
    moved, normalised = [], []
    encoder, kernels = network.obs_encoder, len(network.obs_encoder.layers)
    raw = [*(layer.weight for layer in encoder.layers), *(layer.weight for layer in network.layers)]
    for whole, weight, vector in zip(raw, _weights(network), vectors, strict=True):
        held = jax.lax.stop_gradient(weight)
        right = _unit(vector @ held)
        left = _unit(held @ right)
        moved.append(left)
        normalised.append(whole / jnp.maximum(left @ (weight @ right), 1e-8))
    convolutions = tuple(map(Kernel, normalised[:kernels], [layer.bias for layer in encoder.layers]))
    linear = tuple(map(Linear, normalised[kernels:], [layer.bias for layer in network.layers]))
    return StateNet(ObsEncoder(convolutions, encoder.width), linear), tuple(moved)


def _weights(network: StateNet) -> list[Float[Array, "out in"]]:
    """Weights as matrices; of a convolution [k, k, in, out] what a window of pixels is multiplied by."""
    convolutions = [layer.weight for layer in network.obs_encoder.layers]
    return [
        *(weight.reshape(-1, weight.shape[-1]).T for weight in convolutions),
        *(layer.weight for layer in network.layers),
    ]


def _unit(vector: Float[Array, " d"]) -> Float[Array, " d"]:
    return vector / (jnp.sqrt(jnp.sum(vector**2)) + 1e-12)


def _standardised(states: Moments, obs: Shaped[Array, "n ..."]) -> Float[Array, "n ..."]:
    return states.normalise(preprocess(obs), clip=math.inf)
