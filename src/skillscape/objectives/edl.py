"""EDL (Campos et al., Explore, Discover and Learn: Unsupervised Discovery of State-Covering Skills, ICML 2020).

Explore, then discover regions in the states that were seen, then learn one skill for each region. A skill has a region
before it has learned anything, so exploring never costs a skill its reward.

Departures: the three stages are one run. For the first ``discovery_updates`` updates, the reward is particle entropy
(the paper explores by state marginal matching, or is given uniform states), and the codes are fitted. From then on they
are fixed. A code is a point among standardised states, fitted by balanced k-means, where the paper's is a latent of a
VQ-VAE whose decoder gives the point.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from skillscape.objectives.base import DiscreteSkills, Objective, Scale
from skillscape.objectives.encoders import coarse_target, coarse_target_size
from skillscape.ranges import FRACTION, POSITIVE
from skillscape.stats import Moments, particle_entropy, sinkhorn
from skillscape.types import Experience, Metrics, RandomKey, Spec

ROUNDS = 3
"""Of balancing the assignment of states to codes."""


class EDLState(NamedTuple):
    """A code for each skill among standardised states, the moments of states and of distances, and updates so far."""

    codes: Float[Array, "k d"]
    states: Moments
    distances: Moments
    updates: Int[Array, ""]


@dataclass(frozen=True)
class EDL(DiscreteSkills, Objective[EDLState]):
    """Particle entropy of s' until the codes are fixed, then log q(s'|z) = −‖s' − c_z‖² / 2σ², constants left out."""

    name: ClassVar[str] = "edl"
    label: ClassVar[str] = "EDL"
    reaches_goals: ClassVar[bool] = True

    discovery_updates: Annotated[int, POSITIVE] = 1_000
    """Updates of the method's model in which it explores and fits its codes; codes are fixed from then on."""
    code_rate: Annotated[float, POSITIVE, FRACTION] = 0.02
    """Step size of the codes at each update, towards the mean of the states assigned to them, in [0, 1]."""
    assignment_temperature: Annotated[float, POSITIVE] = 0.1
    """Temperature of the assignment of states to codes by their squared distances, in standardised units."""
    variance: Annotated[float, POSITIVE] = 0.5
    """Variance σ² of q(s'|z), of states standardised entry by entry."""
    neighbours: Annotated[int, POSITIVE] = 12
    """k of the particle entropy that is explored by; a state is its own nearest neighbour and counts as one of them."""

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """About a quarter of the updates of each preset are for exploring and fitting the codes."""
        return cls(discovery_updates=_discovery_updates(scale)).with_skills(scale)

    def init(self, key: RandomKey, spec: Spec) -> EDLState:
        """Codes at random; nothing seen."""
        width = coarse_target_size(spec.obs_shape)
        codes = jax.random.normal(key, (self.number_of_skills, width))
        return EDLState(codes, Moments.create((width,)), Moments.create(), jnp.asarray(0, jnp.int32))

    def update(self, state: EDLState, batch: Experience, key: RandomKey) -> tuple[EDLState, Metrics]:
        """While codes are fitted: each moves towards the mean of the s' that a balanced assignment gives it."""
        del key
        is_fitted = state.updates >= self.discovery_updates
        states = state.states.include(jax.vmap(coarse_target)(batch.next_obs))
        states = jax.tree.map(lambda old, new: jnp.where(is_fitted, old, new), state.states, states)
        places = _places(states, batch.next_obs)
        squared = _squared_distances(places, state.codes)
        assignment = sinkhorn(-squared / self.assignment_temperature, ROUNDS)
        # In log space: a code that all states are far from still has states that are nearest to it.
        shares = jax.nn.softmax(jnp.log(assignment + 1e-30), axis=0)
        moved = state.codes + self.code_rate * (shares.T @ places - state.codes)
        distortion = jnp.mean(jnp.min(squared, axis=-1))
        metrics = {"model_loss": distortion, "codes_fixed": is_fitted.astype(jnp.float32)}
        codes = jnp.where(is_fitted, state.codes, moved)
        return EDLState(codes, states, state.distances, state.updates + 1), metrics

    def reward(
        self, state: EDLState, batch: Experience, key: RandomKey
    ) -> tuple[EDLState, Float[Array, " n"], Metrics]:
        """log(1 + mean distance to the k nearest s') over its running mean, or, once codes are fixed, log q(s'|z)."""
        del key
        places = _places(state.states, batch.next_obs)
        moments, entropy = particle_entropy(places, places, state.distances, self.neighbours, scale="mean")
        likelihood = jnp.sum(self.score_skills(state, batch.next_obs) * batch.skill, axis=-1)
        reward = jnp.where(state.updates >= self.discovery_updates, likelihood, entropy)
        metrics = {"particle_entropy": jnp.mean(entropy), "log_likelihood": jnp.mean(likelihood)}
        return state._replace(distances=moments), reward, metrics

    def score_skills(self, state: EDLState, obs: Shaped[Array, "n ..."]) -> Float[Array, "n k"]:
        """log q(s|z) for every skill, without the constant that all share."""
        return -_squared_distances(_places(state.states, obs), state.codes) / (2 * self.variance)


def _discovery_updates(scale: Scale) -> int:
    if scale.preset == "smoke":
        return 10
    if scale.imagined:
        return 50_000 if scale.preset == "paper" else 1_000
    if not scale.replayed:
        return 25_000 if scale.preset == "long" else 1_000
    return 250_000 if (scale.benchmark, scale.preset) == ("urlb", "paper") else 25_000


def _places(states: Moments, obs: Shaped[Array, "n ..."]) -> Float[Array, "n d"]:
    """States, of images their coarse targets, standardised by the moments."""
    return states.normalise(jax.vmap(coarse_target)(obs), clip=math.inf)


def _squared_distances(places: Float[Array, "n d"], codes: Float[Array, "k d"]) -> Float[Array, "n k"]:
    return jnp.sum((places[:, None, :] - codes[None, :, :]) ** 2, axis=-1)
