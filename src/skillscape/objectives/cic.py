"""CIC (Laskin et al., Contrastive Intrinsic Control, NeurIPS 2022): particle entropy in a space learned by contrast."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from skillscape.nets import MLP
from skillscape.objectives.base import Adaptation, Objective
from skillscape.optim import Learner, adam, descend, learner
from skillscape.skills import Box, Discrete, SkillSpace
from skillscape.stats import Moments, nearest_distances
from skillscape.types import Experience, Metrics, RandomKey, Spec
from skillscape.vision import StateNet


class CICNetworks(eqx.Module):
    """State net g, transition predictor p on (g(s), g(s')), skill net h."""

    state: StateNet
    predictor: MLP
    skill: MLP


class CICState(NamedTuple):
    """Networks, and the running moments of the distances."""

    networks: Learner[CICNetworks]
    distances: Moments


@dataclass(frozen=True)
class CIC(Objective[CICState]):
    """Spread out in a representation trained to tell which transition belongs to which skill (InfoNCE)."""

    name: ClassVar[str] = "cic"
    label: ClassVar[str] = "CIC"
    reward_gradient: ClassVar[bool] = False

    number_of_skills: int = 10
    """Of one-hot skills."""
    skill_dim: int = 0
    """Entries of skills uniform in [0, 1]^d, as in the paper (64); 0 for one-hot skills, as in mazes."""
    sources: Literal["obs", "next_obs"] = "obs"
    """States whose distance to the nearest s' of the batch is rewarded: s, or s' itself, which is its own nearest."""
    hidden: tuple[int, ...] = (128, 128)
    feature_dim: int = 10
    temperature: float = 0.5
    neighbours: int = 16
    """k of the particle entropy."""
    distance_floor: float = 5e-4
    """Subtracted from the scaled distances, which are then floored at zero."""
    learning_rate: float = 1e-3
    epsilon: float = 1e-3
    """Adam's ε."""
    resample_every: int | None = None
    """Environment steps between two draws of a skill; None keeps it for the whole episode."""

    @property
    def adaptation(self) -> Adaptation:
        """The middle of the cube, as the authors' code; the paper's search is ``--skill grid``."""
        return "constant" if self.skill_dim else "random"

    @property
    def skills(self) -> SkillSpace:
        """n one-hot skills, or a cube of them."""
        return Box(self.skill_dim) if self.skill_dim else Discrete(self.number_of_skills)

    @property
    def _transform(self) -> optax.GradientTransformation:
        return adam(self.learning_rate, epsilon=self.epsilon)

    def init(self, key: RandomKey, spec: Spec) -> CICState:
        """Fresh networks; no distances seen."""
        state_key, predictor_key, skill_key = jax.random.split(key, 3)
        networks = CICNetworks(
            state=StateNet.create(state_key, spec.obs_shape, self.hidden, self.feature_dim),
            predictor=MLP.create(predictor_key, 2 * self.feature_dim, self.hidden, self.feature_dim),
            skill=MLP.create(skill_key, self.skills.width, self.hidden, self.feature_dim),
        )
        return CICState(learner(self._transform, networks), Moments.create())

    def update(self, state: CICState, batch: Experience, key: RandomKey) -> tuple[CICState, Metrics]:
        """One InfoNCE step: row i's skill h(zᵢ) is to pick row i's transition p(g(s), g(s')) out of the batch."""
        del key

        def loss(networks: CICNetworks) -> tuple[Float[Array, ""], Metrics]:
            features = jax.vmap(networks.state)(batch.obs), jax.vmap(networks.state)(batch.next_obs)
            keys = _normalise(jax.vmap(networks.predictor)(jnp.concatenate(features, axis=-1)))
            queries = _normalise(jax.vmap(networks.skill)(batch.skill))
            similarity = queries @ keys.T / self.temperature
            contrast = -jnp.mean(jnp.diag(jax.nn.log_softmax(similarity, axis=-1)))
            return contrast, {"model_loss": contrast}

        networks, metrics = descend(self._transform, loss, state.networks)
        return CICState(networks, state.distances), metrics

    def reward(
        self, state: CICState, batch: Experience, key: RandomKey
    ) -> tuple[CICState, Float[Array, " n"], Metrics]:
        """r = log(1 + mean distance from a source to its k nearest g(s') in the batch), over their running variance."""
        del key
        network = state.networks.params.state
        targets = jax.vmap(network)(batch.next_obs)
        sources = jax.vmap(network)(batch.obs) if self.sources == "obs" else targets
        neighbours = min(self.neighbours, targets.shape[0])
        distances = nearest_distances(sources, targets, neighbours)
        moments = state.distances.include(jax.lax.stop_gradient(distances).reshape(-1))
        # Identical states would otherwise drive the variance to zero and the reward to 0/0.
        scaled = distances / jnp.maximum(moments.variance, 1e-8)
        reward = jnp.log1p(jnp.mean(jnp.maximum(scaled - self.distance_floor, 0.0), axis=-1))
        return CICState(state.networks, moments), reward, {"distance_variance": moments.variance}


def _normalise(rows: Float[Array, "n d"]) -> Float[Array, "n d"]:
    return rows / jnp.sqrt(jnp.sum(rows**2, axis=-1, keepdims=True) + 1e-12)
