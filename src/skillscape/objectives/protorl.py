"""ProtoRL (Yarats et al., Reinforcement Learning with Prototypical Representations, ICML 2021): novelty by prototypes.

In the form for state vectors of Laskin et al., URLB: Unsupervised Reinforcement Learning Benchmark, NeurIPS 2021.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.nets import MLP, Linear
from skillscape.objectives.base import AdamTrained, Objective, Scale
from skillscape.objectives.encoders import ObsEncoder
from skillscape.optim import TrainState, ema, gradient_step
from skillscape.ranges import FRACTION, POSITIVE
from skillscape.stats import nearest_distances, sinkhorn, unit_rows
from skillscape.types import Experience, Metrics, RandomKey, Spec


class ProtoRLNetworks(eqx.Module):
    """Predictor p: s → R^h, linear on the encoding, projector q: R^h → R^h, and prototypes C, rows in R^h."""

    obs_encoder: ObsEncoder
    predictor: Linear
    projector: MLP
    prototypes: Float[Array, "k h"]

    def predict(self, obs: Shaped[Array, "n ..."]) -> Float[Array, "n h"]:
        """p(s)."""
        return _predicted(self.obs_encoder, self.predictor, obs)


class ProtoRLState(NamedTuple):
    """Networks, the EMA copy p̄ of encoder and predictor, and the candidate queue, newest first (initially zeros)."""

    networks: TrainState[ProtoRLNetworks]
    target_obs_encoder: ObsEncoder
    target: Linear
    queue: Float[Array, "rows h"]


@dataclass(frozen=True)
class ProtoRL(AdamTrained, Objective[ProtoRLState]):
    """Particle entropy with prototypes: r = distance of p(s') to its k-th nearest in a queue filled by prototypes."""

    name: ClassVar[str] = "protorl"
    label: ClassVar[str] = "ProtoRL"
    keeps_critic: ClassVar[bool] = True

    number_of_prototypes: Annotated[int, POSITIVE] = 128
    """Number of prototypes, and of candidates added to the queue per batch."""
    queue_size: Annotated[int, POSITIVE] = 2048
    """Number of candidates in the queue, which starts with zeros; until it is full, rewards are at most one."""
    neighbours: Annotated[int, POSITIVE] = 3
    """Rank k of the nearest neighbour whose distance is the reward."""
    feature_dim: Annotated[int, POSITIVE] = 64
    """Dimension of the representation p(s)."""
    hidden: Annotated[tuple[int, ...], POSITIVE] = (128,)
    """Hidden layer widths of the projector; the predictor is linear."""
    temperature: Annotated[float, POSITIVE] = 0.1
    """Temperature T of the assignments to prototypes, in both branches of the loss."""
    sinkhorn_iterations: Annotated[int, POSITIVE] = 3
    """Sinkhorn iterations that balance the assignments to prototypes."""
    tau: Annotated[float, POSITIVE, FRACTION] = 0.05
    """EMA rate τ of the target network p̄ per update, in (0, 1]."""

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """Outside mazes URLB's settings, scaled from its width of 1024."""
        if scale.benchmark == "maze":
            return cls()
        return replace(
            cls.sized(scale),
            number_of_prototypes=scale.width // 2,
            feature_dim=scale.width // 8,
            hidden=(scale.width // 2,),
        )

    def init(self, key: RandomKey, spec: Spec) -> ProtoRLState:
        """Initial networks, random unit prototypes, p̄ = p, and a queue of zeros."""
        predictor_key, projector_key, prototype_key = jax.random.split(key, 3)
        obs_encoder = ObsEncoder.create(key, spec.obs_shape)
        predictor = Linear.create(predictor_key, obs_encoder.width, self.feature_dim)
        networks = ProtoRLNetworks(
            obs_encoder=obs_encoder,
            predictor=predictor,
            projector=MLP.create(projector_key, self.feature_dim, self.hidden, self.feature_dim),
            prototypes=unit_rows(jax.random.normal(prototype_key, (self.number_of_prototypes, self.feature_dim))),
        )
        # Copied leaves: a compiled loop that donates its state must not be given one buffer twice.
        target_obs_encoder, target = jax.tree.map(jnp.copy, (obs_encoder, predictor))
        queue = jnp.zeros((self.queue_size, self.feature_dim))
        return ProtoRLState(TrainState.create(self._transform, networks), target_obs_encoder, target, queue)

    def update(self, state: ProtoRLState, batch: Experience, key: RandomKey) -> tuple[ProtoRLState, Metrics]:
        """One cross-entropy step of q(p(s)) on the prototype assignments of p̄(s'), then one EMA step of p̄.

        loss = −mean Σₖ aₖ log softmaxₖ(C u / T), u = unit q(p(s)); a = Sinkhorn(C ū / T), ū = unit p̄(s'), constant.
        """
        del key
        # Prototypes are normalised before each step, not after it.
        params = state.networks.params
        networks = state.networks._replace(
            params=eqx.tree_at(lambda tree: tree.prototypes, params, unit_rows(params.prototypes))
        )
        slow = unit_rows(_predicted(state.target_obs_encoder, state.target, batch.next_obs))
        assignment = sinkhorn(slow @ networks.params.prototypes.T / self.temperature, self.sinkhorn_iterations)

        def loss(networks: ProtoRLNetworks) -> tuple[Float[Array, ""], Metrics]:
            fast = unit_rows(jax.vmap(networks.projector)(networks.predict(batch.obs)))
            log_probability = jax.nn.log_softmax(fast @ networks.prototypes.T / self.temperature, axis=-1)
            value = -jnp.mean(jnp.sum(assignment * log_probability, axis=-1))
            return value, {"model_loss": value}

        networks, metrics = gradient_step(self._transform, loss, networks)
        online = networks.params.obs_encoder, networks.params.predictor
        target_obs_encoder, target = ema((state.target_obs_encoder, state.target), online, self.tau)
        return ProtoRLState(networks, target_obs_encoder, target, state.queue), metrics

    def reward(
        self, state: ProtoRLState, batch: Experience, key: RandomKey
    ) -> tuple[ProtoRLState, Float[Array, " n"], Metrics]:
        """r = distance from w = unit p(s') to its k-th nearest candidate of the queue, this batch's own included.

        Each prototype draws one candidate from the batch, with probability softmax over the rows of C w.
        """
        params = state.networks.params
        states = unit_rows(params.predict(batch.next_obs))
        drawn = jax.random.categorical(key, unit_rows(params.prototypes) @ states.T, axis=-1)
        queue = jnp.concatenate([jax.lax.stop_gradient(states)[drawn], state.queue])[: self.queue_size]
        reward = nearest_distances(states, queue, self.neighbours)[:, -1]
        return state._replace(queue=queue), reward, {}


def _predicted(obs_encoder: ObsEncoder, predictor: Linear, obs: Shaped[Array, "n ..."]) -> Float[Array, "n h"]:
    return jax.vmap(lambda state: predictor(obs_encoder(state)))(obs)
