"""SMM (Lee et al., Efficient Exploration via State Marginal Matching, 2019): a uniform state marginal.

In the form of URLB (Laskin et al., URLB: Unsupervised Reinforcement Learning Benchmark, NeurIPS Datasets and Benchmarks
2021): the target distribution is uniform and drops out, and the squared error of a VAE approximates −log ρ(s|z).
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Shaped

from skillscape.dists import DiagonalNormal
from skillscape.nets import MLP
from skillscape.objectives.base import Adaptation, DiscreteSkills, Epsilon, Objective, Scale, SkillCount
from skillscape.objectives.encoders import StateNet, coarse_target, coarse_target_size
from skillscape.optim import TrainState, adam, gradient_step
from skillscape.ranges import POSITIVE
from skillscape.types import Experience, Metrics, RandomKey, RewardState, Spec


class JointVAE(eqx.Module):
    """A VAE of the pair x = (s, z): encoder x → mean and log variance of the code, decoder code → x.

    For images, s is the coarse target.
    """

    encoder: MLP
    decoder: MLP

    def __call__(
        self, pair: Float[Array, " x"], noise: Float[Array, " h"]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Σ (x − x̂)² for the code that ``noise`` gives, and KL[Q(h|x) ‖ N(0,I)]; log variance within [-10, 4]."""
        mean, log_variance = jnp.split(self.encoder(pair), 2)
        posterior = DiagonalNormal(mean, jnp.clip(log_variance, -10.0, 4.0))
        return jnp.sum((pair - self.decoder(posterior.sample(noise))) ** 2), posterior.kl_to_standard()


class SMMState(NamedTuple):
    """The density model ρ(s|z) and the discriminator q(z|s)."""

    density: TrainState[JointVAE]
    discriminator: TrainState[StateNet]


@dataclass(frozen=True)
class SMM(DiscreteSkills, Objective[SMMState]):
    """State marginal matching: r = −log ρ(s|z) + log q(z|s) + log n, with a VAE for ρ and a discriminator q."""

    name: ClassVar[str] = "smm"
    label: ClassVar[str] = "SMM"
    reaches_goals: ClassVar[bool] = True

    number_of_skills: SkillCount = 4
    hidden: Annotated[tuple[int, ...], POSITIVE] = (128, 128)
    """Hidden layer widths of the discriminator q."""
    density_hidden: Annotated[tuple[int, ...], POSITIVE] = (128, 128)
    """Hidden layer widths of the VAE's encoder and decoder."""
    latent_dim: Annotated[int, POSITIVE] = 8
    """Dimension of the VAE's latent code."""
    divergence_weight: float = 0.5
    """Weight β of the VAE's KL, summed over the code, against the mean squared error over the entries of (s, z)."""
    faithful_sign: bool = False
    """Subtract log q(z|s), as URLB's code does, which rewards skills that are confused with each other."""
    reward_state: RewardState = "obs"
    """State of a transition that is rewarded: s (obs) or s' (next_obs)."""
    density_learning_rate: Annotated[float, POSITIVE] = 1e-2
    """Adam's learning rate for the VAE ρ."""
    discriminator_learning_rate: Annotated[float, POSITIVE] = 1e-3
    """Adam's learning rate for the discriminator q."""
    epsilon: Epsilon = 1e-3

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """Outside mazes URLB's settings: four skills, one per episode, and a VAE of at most 150 units, 128 codes."""
        if scale.benchmark == "maze":
            return cls()
        return cls(
            number_of_skills=scale.number_of_skills if scale.benchmark == "maze-pixels" else 4,
            hidden=scale.hidden,
            density_hidden=(min(scale.width, 150),) * 2,
            latent_dim=min(scale.width, 128),
            reward_state=scale.reward_state,
            epsilon=scale.epsilon,
        )

    @property
    def adaptation(self) -> Adaptation:
        """prior: a new skill per episode, as in pre-training."""
        return "prior"

    @property
    def _density_transform(self) -> optax.GradientTransformation:
        return adam(self.density_learning_rate, epsilon=self.epsilon)

    @property
    def _discriminator_transform(self) -> optax.GradientTransformation:
        return adam(self.discriminator_learning_rate, epsilon=self.epsilon)

    def init(self, key: RandomKey, spec: Spec) -> SMMState:
        """Initial networks."""
        encoder_key, decoder_key, discriminator_key = jax.random.split(key, 3)
        pair = coarse_target_size(spec.obs_shape) + self.number_of_skills
        density = JointVAE(
            encoder=MLP.create(encoder_key, pair, self.density_hidden, 2 * self.latent_dim),
            decoder=MLP.create(decoder_key, self.latent_dim, self.density_hidden, pair),
        )
        discriminator = StateNet.create(discriminator_key, spec.obs_shape, self.hidden, self.number_of_skills)
        return SMMState(
            TrainState.create(self._density_transform, density),
            TrainState.create(self._discriminator_transform, discriminator),
        )

    def _evidence(
        self, density: JointVAE, batch: Experience, key: RandomKey
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """Squared error and KL of each (s, z), with one sample of the code."""
        pairs = jnp.concatenate([jax.vmap(coarse_target)(batch.states(self.reward_state)), batch.skill], axis=-1)
        return jax.vmap(density)(pairs, jax.random.normal(key, (pairs.shape[0], self.latent_dim)))

    def update(self, state: SMMState, batch: Experience, key: RandomKey) -> tuple[SMMState, Metrics]:
        """One step of the VAE on (s, z), one of the discriminator's cross-entropy on (s, z)."""
        entries = coarse_target_size(batch.obs.shape[1:]) + self.number_of_skills

        def density_loss(density: JointVAE) -> tuple[Float[Array, ""], Metrics]:
            squared, divergence = self._evidence(density, batch, key)
            value = jnp.mean(squared) / entries + self.divergence_weight * jnp.mean(divergence)
            return value, {"density_loss": value}

        def discriminator_loss(discriminator: StateNet) -> tuple[Float[Array, ""], Metrics]:
            log_probability = jax.nn.log_softmax(jax.vmap(discriminator)(batch.states(self.reward_state)))
            cross_entropy = -jnp.mean(jnp.sum(log_probability * batch.skill, axis=-1))
            accuracy = jnp.mean(jnp.argmax(log_probability, axis=-1) == jnp.argmax(batch.skill, axis=-1))
            return cross_entropy, {"discriminator_loss": cross_entropy, "discriminator_accuracy": accuracy}

        density, metrics = gradient_step(self._density_transform, density_loss, state.density)
        discriminator, q_metrics = gradient_step(self._discriminator_transform, discriminator_loss, state.discriminator)
        total = metrics["density_loss"] + q_metrics["discriminator_loss"]
        return SMMState(density, discriminator), {"model_loss": total, **metrics, **q_metrics}

    def reward(
        self, state: SMMState, batch: Experience, key: RandomKey
    ) -> tuple[SMMState, Float[Array, " n"], Metrics]:
        """r = Σ (x − x̂)² + log q(z|s) + log n for x = (s, z), s by ``reward_state``, one sample of the code.

        Both terms use the model after this step's update; URLB's code takes them from the forward passes of the update.
        """
        squared, _ = self._evidence(state.density.params, batch, key)
        own = jnp.sum(self.score_skills(state, batch.states(self.reward_state)) * batch.skill, axis=-1)
        reward = squared + (-own if self.faithful_sign else own) + math.log(self.number_of_skills)
        return state, reward, {"rarity": jnp.mean(squared), "log_discriminator": jnp.mean(own)}

    def score_skills(self, state: SMMState, obs: Shaped[Array, "n ..."]) -> Float[Array, "n k"]:
        """log q(z|s)."""
        return jax.nn.log_softmax(jax.vmap(state.discriminator.params)(obs))
