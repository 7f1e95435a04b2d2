"""BeCL (Yang et al., Behavior Contrastive Learning for Unsupervised Skill Discovery, ICML 2023).

States of the same skill are positives of each other, and all other states of the batch are negatives.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from skillscape.nets import MLP
from skillscape.objectives.base import AdamTrained, DiscreteSkills, Objective, Scale
from skillscape.objectives.encoders import StateNet
from skillscape.optim import TrainState, gradient_step
from skillscape.ranges import POSITIVE
from skillscape.stats import unit_rows
from skillscape.types import Experience, Metrics, RandomKey, Spec

TINY = 1e-6
"""Added to the denominator and to the ratio, as in the authors' code."""


class BeCLNetworks(eqx.Module):
    """Embedding of a state, and the projection head on it."""

    embedding: StateNet
    projection: MLP


class BeCLState(NamedTuple):
    """The networks of the contrastive loss."""

    networks: TrainState[BeCLNetworks]


@dataclass(frozen=True)
class BeCL(AdamTrained, DiscreteSkills, Objective[BeCLState]):
    """Contrastive learning of skills: r = exp(fᵢ·f₊/T) / Σ_{j≠i} exp(fᵢ·fⱼ/T), f₊ of another state of the same skill.

    f has unit length. f₊ is the first other row of the batch with the skill of row i. A row without a positive is left
    out of the loss, and its reward has numerator zero.
    """

    name: ClassVar[str] = "becl"
    label: ClassVar[str] = "BeCL"
    updates_per_step: ClassVar[int] = 3
    # A row is compared with other rows of the same skill, so a relabelled skill has no meaning.
    scores_other_skills: ClassVar[bool] = False

    projection_hidden: Annotated[tuple[int, ...], POSITIVE] = (128,)
    """Hidden layer widths of the projection head."""
    feature_dim: Annotated[int, POSITIVE] = 10
    """Dimension of the embedding and of its projection f."""
    temperature: Annotated[float, POSITIVE] = 0.5
    """Temperature T of the InfoNCE loss."""
    reward_scale: float = 1.0
    """Factor on the intrinsic reward, which is of order 1 / batch size."""

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """10 features in mazes, as many as skills, and 16 elsewhere."""
        return replace(
            cls.sized(scale).with_skills(scale),
            projection_hidden=(scale.width,),
            feature_dim=10 if scale.benchmark == "maze" else 16,
        )

    def init(self, key: RandomKey, spec: Spec) -> BeCLState:
        """Initial networks."""
        embedding_key, projection_key = jax.random.split(key)
        networks = BeCLNetworks(
            embedding=StateNet.create(embedding_key, spec.obs_shape, self.hidden, self.feature_dim),
            projection=MLP.create(projection_key, self.feature_dim, self.projection_hidden, self.feature_dim),
        )
        return BeCLState(TrainState.create(self._transform, networks))

    def _ratio(self, networks: BeCLNetworks, batch: Experience) -> tuple[Float[Array, " n"], Bool[Array, " n"]]:
        """exp(−InfoNCE) of each row at s', and whether the row has a positive in the batch."""
        projected = jax.vmap(lambda state: networks.projection(networks.embedding(state)))(batch.next_obs)
        features = unit_rows(projected)
        similarity = features @ features.T / self.temperature
        others = ~jnp.eye(similarity.shape[0], dtype=bool)
        # The lower bound −1/T is the maximum of a batch of one row.
        largest = jnp.max(similarity, axis=-1, keepdims=True, where=others, initial=-1 / self.temperature)
        relative = similarity - jax.lax.stop_gradient(largest)
        # Masked before the exponential: the self-similarity may overflow at low temperatures.
        weights = jnp.exp(jnp.where(others, relative, -jnp.inf))
        label = jnp.argmax(batch.skill, axis=-1)
        same_skill = (label[:, None] == label[None, :]) & others
        first = jnp.argmax(same_skill, axis=-1)
        has_positive = jnp.any(same_skill, axis=-1)
        positive = jnp.take_along_axis(weights, first[:, None], axis=-1)[:, 0]
        ratio = jnp.where(has_positive, positive, 0.0) / (jnp.sum(weights, axis=-1) + TINY) + TINY
        return ratio, has_positive

    def update(self, state: BeCLState, batch: Experience, key: RandomKey) -> tuple[BeCLState, Metrics]:
        """One InfoNCE step, averaged over the rows that have a positive."""
        del key

        def loss(networks: BeCLNetworks) -> tuple[Float[Array, ""], Metrics]:
            ratio, has_positive = self._ratio(networks, batch)
            rows = jnp.sum(has_positive.astype(jnp.float32))
            contrast = -jnp.sum(jnp.where(has_positive, jnp.log(ratio), 0.0)) / jnp.maximum(rows, 1.0)
            return contrast, {"model_loss": contrast}

        networks, metrics = gradient_step(self._transform, loss, state.networks)
        return BeCLState(networks), metrics

    def reward(
        self, state: BeCLState, batch: Experience, key: RandomKey
    ) -> tuple[BeCLState, Float[Array, " n"], Metrics]:
        """scale · exp(−InfoNCE) of each row; in (0, scale], and about scale / n at initialisation."""
        del key
        ratio, has_positive = self._ratio(state.networks.params, batch)
        return state, self.reward_scale * ratio, {"has_positive": jnp.mean(has_positive.astype(jnp.float32))}
