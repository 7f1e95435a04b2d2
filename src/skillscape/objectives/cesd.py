"""CeSD (Bai et al., Constrained Ensemble Exploration for Unsupervised Skill Discovery, ICML 2024).

Prototypes cut the states that were visited into as many clusters as there are skills. Each skill explores its own
cluster, by particle entropy among the states of the cluster, and is paid more where few states of the cluster were
visited by other skills.

Departures: the authors' critic has one head for each skill, which learns from the states of its cluster alone; here the
critic reads the skill, and a transition is relabelled: it is learned under the skill of the cluster that it led to. A
cluster with fewer rows than neighbours is scored by those it has, where the authors pay nothing. Backbones that cannot
relabel, PPO and Dreamer, learn a transition under the skill that acted, and its reward is weighted by the probability
that the state belongs to the cluster of that skill.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from skillscape.objectives.base import AdamTrained, DiscreteSkills, Objective, Scale
from skillscape.objectives.skill_contrast import ContrastNetworks, contrast_loss
from skillscape.optim import TrainState, gradient_step
from skillscape.ranges import NON_NEGATIVE, POSITIVE
from skillscape.stats import Moments, nearest_distances, sinkhorn, unit_rows
from skillscape.types import Experience, Metrics, RandomKey, Spec

ON_URLB = {"walker": (6, 1.0), "quadruped": (5, 1.0), "jaco": (4, 0.1)}
"""Sinkhorn iterations and β of the authors for each body."""


class CeSDNetworks(eqx.Module):
    """The networks of the contrast, of which the state net f gives the features, and one prototype for each skill."""

    contrast: ContrastNetworks
    prototypes: Float[Array, "k d"]

    def similarity(self, obs: Shaped[Array, "n ..."]) -> Float[Array, "n k"]:
        """C f̂(s), rows of C and f̂ of unit length; the gradient reaches C alone."""
        features = unit_rows(jax.vmap(self.contrast.state)(obs))
        return jax.lax.stop_gradient(features) @ unit_rows(self.prototypes).T


class CeSDState(NamedTuple):
    """Networks, and the running moments of the distances."""

    networks: TrainState[CeSDNetworks]
    distances: Moments


@dataclass(frozen=True)
class CeSD(AdamTrained, DiscreteSkills, Objective[CeSDState]):
    """Particle entropy within the cluster i of s', plus β / (1 + rows of the cluster in which another skill acted)."""

    name: ClassVar[str] = "cesd"
    label: ClassVar[str] = "CeSD"
    reward_gradient: ClassVar[bool] = False
    reaches_goals: ClassVar[bool] = True
    # What other skills did in a cluster counts: the labels have to be the true ones.
    scores_other_skills: ClassVar[bool] = False

    relabelled: bool = False
    """Learn a transition under the skill of the cluster of s' (DDPG and SAC), not under the skill that acted."""
    constraint_weight: Annotated[float, NON_NEGATIVE] = 1.0
    """Weight β of the reward for clusters that no other skill visits."""
    feature_dim: Annotated[int, POSITIVE] = 16
    """Width of the features f(s) and of the prototypes."""
    temperature: Annotated[float, POSITIVE] = 0.5
    """Temperature of the contrast that the features are learned by."""
    cluster_temperature: Annotated[float, POSITIVE] = 0.1
    """Temperature of the assignment of states to prototypes."""
    sinkhorn_iterations: Annotated[int, POSITIVE] = 5
    """Rounds of balancing the assignments that the prototypes are learned from."""
    neighbours: Annotated[int, POSITIVE] = 16
    """k of the particle entropy within a cluster; a state is its own nearest neighbour and counts as one of them."""
    smallest_cluster: Annotated[int, NON_NEGATIVE] = 0
    """Rows of a batch that a cluster needs for its states to be rewarded at all (17 in the authors' code)."""
    distance_floor: float = 5e-4
    """Subtracted from the scaled distances to the neighbours, which are then floored at zero."""

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """As the authors on URLB; relabelled where transitions are replayed, and not imagined."""
        body = next((body for body in ON_URLB if scale.env_id.startswith(body)), "quadruped")
        iterations, weight = ON_URLB[body]
        return replace(
            cls.sized(scale).with_skills(scale),
            relabelled=scale.replayed and not scale.imagined,
            constraint_weight=weight,
            sinkhorn_iterations=iterations,
        )

    @property
    def relabels(self) -> bool:
        """As ``relabelled`` says."""
        return self.relabelled

    def init(self, key: RandomKey, spec: Spec) -> CeSDState:
        """Fresh networks, prototypes in random directions; no distances seen."""
        contrast_key, prototype_key = jax.random.split(key)
        networks = CeSDNetworks(
            contrast=ContrastNetworks.create(
                contrast_key, spec.obs_shape, self.number_of_skills, self.hidden, self.feature_dim
            ),
            prototypes=unit_rows(jax.random.normal(prototype_key, (self.number_of_skills, self.feature_dim))),
        )
        return CeSDState(TrainState.create(self._transform, networks), Moments.create())

    def update(self, state: CeSDState, batch: Experience, key: RandomKey) -> tuple[CeSDState, Metrics]:
        """One step of f on InfoNCE, as CIC's, and of the prototypes C on the assignments of s' predicted from s.

        Prototypes: −mean Σₖ qₖ log softmaxₖ(C f̂(s) / T), q = Sinkhorn(C f̂(s') / T), constant.
        """
        del key
        # Prototypes are put back on the sphere before each step, which itself is free to leave it.
        params = state.networks.params
        networks = state.networks._replace(
            params=eqx.tree_at(lambda tree: tree.prototypes, params, unit_rows(params.prototypes))
        )
        scores = networks.params.similarity(batch.next_obs) / self.cluster_temperature
        assignment = jax.lax.stop_gradient(sinkhorn(scores, self.sinkhorn_iterations))

        def loss(networks: CeSDNetworks) -> tuple[Float[Array, ""], Metrics]:
            contrast = contrast_loss(networks.contrast, batch, self.temperature)
            log_probability = jax.nn.log_softmax(networks.similarity(batch.obs) / self.cluster_temperature)
            clustering = -jnp.mean(jnp.sum(assignment * log_probability, axis=-1))
            metrics = {"contrast_loss": contrast, "cluster_loss": clustering}
            return contrast + clustering, {"model_loss": contrast + clustering, **metrics}

        networks, metrics = gradient_step(self._transform, loss, networks)
        return CeSDState(networks, state.distances), metrics

    def _clusters(self, state: CeSDState, batch: Experience, key: RandomKey) -> Int[Array, " n"]:
        """i(s') of every row, drawn from softmax(C f̂(s') / T)."""
        return jax.random.categorical(key, self.score_skills(state, batch.next_obs))

    def reward(
        self, state: CeSDState, batch: Experience, key: RandomKey
    ) -> tuple[CeSDState, Float[Array, " n"], Metrics]:
        """r = log(1 + mean distance from f(s') to its k nearest in the cluster) + β / (1 + rows of it of other skills).

        The cluster is i(s') if ``relabelled``, and that of the acting skill z otherwise, where p(i = z|s') is a factor.
        Distances are over their running variance, this batch's included.
        """
        features = jax.vmap(state.networks.params.contrast.state)(batch.next_obs)
        cluster, acting = self._clusters(state, batch, key), jnp.argmax(batch.skill, axis=-1)
        members = jax.nn.one_hot(cluster, self.number_of_skills)
        size, strangers = jnp.sum(members, axis=0), jnp.sum(members * (1 - batch.skill), axis=0)
        scored = cluster if self.relabelled else acting

        rows = features.shape[0]
        distances = nearest_distances(features, features, min(self.neighbours, rows), groups=(scored, cluster))
        known = jnp.isfinite(distances)
        moments = state.distances.include_where(jax.lax.stop_gradient(distances), known)
        scaled = jnp.where(known, distances, 0.0) / jnp.maximum(moments.variance, 1e-8)
        excess = jnp.where(known, jnp.maximum(scaled - self.distance_floor, 0.0), 0.0)
        entropy = jnp.log1p(jnp.sum(excess, axis=-1) / jnp.maximum(jnp.sum(known.astype(jnp.float32), axis=-1), 1.0))
        constraint = self.constraint_weight / (1 + strangers[scored])

        reward = jnp.where(size[scored] >= self.smallest_cluster, entropy + constraint, 0.0)
        if not self.relabelled:
            reward = reward * jnp.exp(jnp.sum(self.score_skills(state, batch.next_obs) * batch.skill, axis=-1))
        metrics = {
            "cluster_entropy": jnp.mean(entropy),
            "constraint": jnp.mean(constraint),
            "own_cluster": jnp.mean((cluster == acting).astype(jnp.float32)),
            "largest_cluster": jnp.max(size) / rows,
        }
        return CeSDState(state.networks, moments), reward, metrics

    def relabel(self, state: CeSDState, batch: Experience, key: RandomKey) -> Float[Array, "n z"]:
        """The skill of the cluster of s', the same draw as in ``reward`` with this key."""
        if not self.relabelled:
            return batch.skill
        return jax.nn.one_hot(self._clusters(state, batch, key), self.number_of_skills)

    def score_skills(self, state: CeSDState, obs: Shaped[Array, "n ..."]) -> Float[Array, "n k"]:
        """log softmax(C f̂(s) / T): the log probability of each cluster."""
        return jax.nn.log_softmax(state.networks.params.similarity(obs) / self.cluster_temperature)
