"""APS (Liu and Abbeel, APS: Active Pretraining with Successor Features, ICML 2021).

Particle entropy of learned features, plus the agreement of the features with a task vector; the critic is
Q = ψ(s, a, w)·w, so that the vector of a new task can be read off its rewards by linear regression.
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.objectives.base import AdamTrained, Adaptation, Objective, Scale, SkillSteps
from skillscape.objectives.encoders import StateNet
from skillscape.optim import TrainState, gradient_step
from skillscape.ranges import POSITIVE
from skillscape.skills import Sphere
from skillscape.stats import Moments, particle_entropy, unit_rows
from skillscape.types import Experience, Metrics, RandomKey, Spec


class APSState(NamedTuple):
    """The features φ, and the running moments of the distances between them."""

    features: TrainState[StateNet]
    distances: Moments


@dataclass(frozen=True)
class APS(AdamTrained, Objective[APSState]):
    """Successor features: r = log(1 + mean distance to the k nearest φ(s')) + w·φ̂(s'), with unit-length φ̂ and w."""

    name: ClassVar[str] = "aps"
    label: ClassVar[str] = "APS"
    own_unit: ClassVar[bool] = True
    reward_gradient: ClassVar[bool] = False
    infers_skill: ClassVar[bool] = True
    reaches_goals: ClassVar[bool] = True

    dimension: Annotated[int, POSITIVE] = 10
    """Dimension of the task vector w (the skill) and of the features φ."""
    neighbours: Annotated[int, POSITIVE] = 12
    """Number of neighbours k of the particle entropy, the state itself included."""
    distance_floor: float = 1e-4
    """Constant subtracted from the scaled neighbour distances, which are then clipped below at zero."""
    faithful_regression: bool = False
    """Infer the skill as URLB's code does, w ∝ Σ rᵢ φ̂(sᵢ), instead of by least squares."""
    resample_every: SkillSteps = None

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """Outside mazes URLB's settings: a new task vector every five steps."""
        if scale.benchmark == "maze":
            return cls()
        return replace(cls.sized(scale), resample_every=None if scale.resample_every is None else 5)

    @property
    def adaptation(self) -> Adaptation:
        """infer: the task vector w by least squares of the first rewards on the pre-trained features."""
        return "infer"

    @property
    def critic_head(self) -> Literal["scalar", "skill"]:
        """Successor features, Q = ψ(s, a, w)·w."""
        return "skill"

    @property
    def skills(self) -> Sphere:
        """Task vectors w on the unit sphere."""
        return Sphere(self.dimension)

    def init(self, key: RandomKey, spec: Spec) -> APSState:
        """Initial features and empty moments."""
        features = StateNet.create(key, spec.obs_shape, self.hidden, self.dimension)
        return APSState(TrainState.create(self._transform, features), Moments.create())

    def update(self, state: APSState, batch: Experience, key: RandomKey) -> tuple[APSState, Metrics]:
        """One step on −mean w·φ̂(s'): a von Mises–Fisher log likelihood of w, up to its scale and constant."""
        del key

        def loss(features: StateNet) -> tuple[Float[Array, ""], Metrics]:
            agreement = jnp.mean(jnp.sum(unit_rows(jax.vmap(features)(batch.next_obs)) * batch.skill, axis=-1))
            return -agreement, {"model_loss": -agreement}

        features, metrics = gradient_step(self._transform, loss, state.features)
        return APSState(features, state.distances), metrics

    def reward(
        self, state: APSState, batch: Experience, key: RandomKey
    ) -> tuple[APSState, Float[Array, " n"], Metrics]:
        """r = log(1 + mean over k of max(distance / running mean − floor, 0)) + w·φ̂(s').

        Distances are between the φ(s') of the batch, not normalised; their running mean includes this batch.
        """
        del key
        features = jax.vmap(state.features.params)(batch.next_obs)
        moments, entropy = particle_entropy(
            features, features, state.distances, self.neighbours, scale="mean", floor=self.distance_floor
        )
        agreement = jnp.sum(unit_rows(features) * batch.skill, axis=-1)
        metrics = {
            "particle_entropy": jnp.mean(entropy),
            "agreement": jnp.mean(agreement),
            "distance_mean": moments.mean,
        }
        return APSState(state.features, moments), entropy + agreement, metrics

    def infer_skill(
        self, state: APSState, obs: Shaped[Array, "n ..."], reward: Float[Array, " n"]
    ) -> Float[Array, " z"]:
        """The unit vector along argmin_w Σ (rᵢ − w·φ̂(sᵢ))², the w of minimum norm if there are several.

        If all rewards are zero, the vector with equal entries.
        """
        features = unit_rows(jax.vmap(state.features.params)(obs))
        correlation = features.T @ reward
        if self.faithful_regression:
            task = correlation
        else:
            # Conjugate gradients from zero reach the minimum-norm solution, also with few rows, and need no LAPACK.
            task, _ = jax.scipy.sparse.linalg.cg(
                lambda vector: features.T @ (features @ vector), correlation, tol=1e-6, maxiter=10 * self.dimension
            )
        length = jnp.sqrt(jnp.sum(task**2))
        return jnp.where(length > 0, task / jnp.where(length > 0, length, 1.0), 1 / math.sqrt(self.dimension))

    def skill_for_goal(
        self, state: APSState, obs: Shaped[Array, "n ..."], goal: Shaped[Array, "n ..."]
    ) -> Float[Array, "n z"]:
        """φ̂(g): the task vector that agrees best with the features of the goal, from anywhere."""
        del obs
        return unit_rows(jax.vmap(state.features.params)(goal))
