"""What CIC, MOSS and CeSD share: a representation of states learned by contrast between transitions and skills.

CIC and MOSS also share their settings and their model (``ContrastiveEntropy``).

Laskin et al., Contrastive Intrinsic Control, NeurIPS 2022; InfoNCE is of van den Oord et al., Representation Learning
with Contrastive Predictive Coding, 2018.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.nets import MLP
from skillscape.objectives.base import AdamTrained, Objective, SkillSteps
from skillscape.objectives.encoders import StateNet
from skillscape.optim import TrainState, gradient_step
from skillscape.ranges import POSITIVE
from skillscape.stats import Moments, particle_entropy, unit_rows
from skillscape.types import Experience, Metrics, RandomKey, RewardState, Spec

CANDIDATES = 1024
"""Skills of a continuum among which the one for a goal is searched."""


class ContrastNetworks(eqx.Module):
    """State net g, transition predictor p on (g(s), g(s')), skill net h."""

    state: StateNet
    predictor: MLP
    skill: MLP

    @staticmethod
    def create(
        key: RandomKey, obs_shape: tuple[int, ...], skill_width: int, hidden: Sequence[int], features: int
    ) -> "ContrastNetworks":
        """Fresh networks of the same hidden widths."""
        state_key, predictor_key, skill_key = jax.random.split(key, 3)
        return ContrastNetworks(
            state=StateNet.create(state_key, obs_shape, hidden, features),
            predictor=MLP.create(predictor_key, 2 * features, hidden, features),
            skill=MLP.create(skill_key, skill_width, hidden, features),
        )

    def keys(self, obs: Shaped[Array, "n ..."], next_obs: Shaped[Array, "n ..."]) -> Float[Array, "n d"]:
        """p(g(s), g(s')) of unit length."""
        features = jax.vmap(self.state)(obs), jax.vmap(self.state)(next_obs)
        return unit_rows(jax.vmap(self.predictor)(jnp.concatenate(features, axis=-1)))

    def queries(self, skill: Float[Array, "n z"]) -> Float[Array, "n d"]:
        """h(z) of unit length."""
        return unit_rows(jax.vmap(self.skill)(skill))


def contrast_loss(networks: ContrastNetworks, batch: Experience, temperature: float) -> Float[Array, ""]:
    """InfoNCE: row i's skill h(zᵢ) is to pick row i's transition p(g(s), g(s')) out of the batch."""
    similarity = networks.queries(batch.skill) @ networks.keys(batch.obs, batch.next_obs).T / temperature
    return -jnp.mean(jnp.diag(jax.nn.log_softmax(similarity, axis=-1)))


class ContrastState(NamedTuple):
    """Networks, and running moments of the neighbour distances."""

    networks: TrainState[ContrastNetworks]
    distances: Moments


@dataclass(frozen=True, kw_only=True)
class ContrastiveEntropy(AdamTrained, Objective[ContrastState]):
    """Settings and model of the methods that reward particle entropy of g; each defines its skills and its reward."""

    reward_gradient: ClassVar[bool] = False
    reaches_goals: ClassVar[bool] = True

    feature_dim: Annotated[int, POSITIVE] = 10
    """Dimension of the representations g(s) and h(z)."""
    temperature: Annotated[float, POSITIVE] = 0.5
    """Temperature of the InfoNCE loss between transitions and skills."""
    neighbours: Annotated[int, POSITIVE] = 16
    """Number of neighbours k of the particle entropy: the nearest next states of the batch."""
    distance_floor: float = 5e-4
    """Constant subtracted from the scaled neighbour distances, which are then clipped below at zero."""
    resample_every: SkillSteps = None

    def init(self, key: RandomKey, spec: Spec) -> ContrastState:
        """Initial networks and empty moments."""
        networks = ContrastNetworks.create(key, spec.obs_shape, self.skills.width, self.hidden, self.feature_dim)
        return ContrastState(TrainState.create(self._transform, networks), Moments.create())

    def update(self, state: ContrastState, batch: Experience, key: RandomKey) -> tuple[ContrastState, Metrics]:
        """One InfoNCE step with queries h(zᵢ) and keys p(g(sᵢ), g(s'ᵢ)); the other rows are negatives."""
        del key

        def loss(networks: ContrastNetworks) -> tuple[Float[Array, ""], Metrics]:
            contrast = contrast_loss(networks, batch, self.temperature)
            return contrast, {"model_loss": contrast}

        networks, metrics = gradient_step(self._transform, loss, state.networks)
        return ContrastState(networks, state.distances), metrics

    def entropy(
        self, state: ContrastState, batch: Experience, sources: RewardState, *, centred: bool = False
    ) -> tuple[ContrastState, Float[Array, " n"]]:
        """log(1 + meanₖ max(dₖ / V − floor, 0)), dₖ from g of a source to its k nearest g(s') of the batch.

        V: running variance of all distances, this batch's included, as in the state that is returned; with ``centred``
        their running mean is subtracted from dₖ first.
        """
        network = state.networks.params.state
        targets = jax.vmap(network)(batch.next_obs)
        queries = jax.vmap(network)(batch.obs) if sources == "obs" else targets
        moments, entropy = particle_entropy(
            queries,
            targets,
            state.distances,
            self.neighbours,
            scale="variance",
            floor=self.distance_floor,
            centred=centred,
        )
        return ContrastState(state.networks, moments), entropy

    def skill_for_goal(
        self, state: ContrastState, obs: Shaped[Array, "n ..."], goal: Shaped[Array, "n ..."]
    ) -> Float[Array, "n z"]:
        """The skill whose query is most similar to the key of a step to the goal: argmax_z h(z)·p(g(s), g(goal)).

        Of a continuum, among ``CANDIDATES`` draws from the prior, which are the same at every call.
        """
        skills, networks = self.skills, state.networks.params
        candidates = skills.sample(jax.random.key(0), CANDIDATES) if skills.count is None else skills.all()
        similarity = networks.keys(obs, goal) @ networks.queries(candidates).T
        return candidates[jnp.argmax(similarity, axis=-1)]
