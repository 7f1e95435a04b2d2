"""SD3: Unsupervised Skill Discovery through Skill Regions Differentiation.

Density deviation rewards regions that the other skills do not visit (Eqs. 1 and 7). The densities are evidence lower
bounds of one conditional VAE (Eq. 3) with soft modules (Eq. 4). Its KL term is the exploration bonus within a skill
(Eq. 6).
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree, Shaped

from skillscape.conv import is_image, preprocess
from skillscape.dists import DiagonalNormal
from skillscape.nets import Conditional, ConditionalMLP, Linear, SoftModular
from skillscape.objectives.base import DiscreteSkills, LearningRate, Objective, Scale, SkillCount, SkillSteps
from skillscape.objectives.encoders import ObsEncoder, coarse_target, coarse_target_size, empty_states, to_storage
from skillscape.optim import TrainState, adam, gradient_step
from skillscape.ranges import FRACTION, NON_NEGATIVE, POSITIVE, Range
from skillscape.types import Experience, Metrics, RandomKey, Spec

PIXEL_UNIT = 1 / 32
"""Unit of the coarse target of an image, whose entries in [-½, ½] differ little from state to state."""


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
    unit: float = eqx.field(static=True, default=1.0)
    """Unit of the entries of a state in the squared error."""

    def shared(self, obs: Shaped[Array, "..."]) -> PyTree:
        """The part of the encoder that does not depend on the skill, at one state."""
        return self.encoder.shared(self.obs_encoder(obs))

    def posterior(self, shared: PyTree, skill: Float[Array, " z"]) -> DiagonalNormal:
        """Q(h|s,z) from ``shared(s)``; the log variance is kept within [-10, 4]."""
        mean, log_variance = jnp.split(self.encoder.conditioned(shared, self.embed_for_encoder(skill)), 2)
        return DiagonalNormal(mean, jnp.clip(log_variance, -10.0, 4.0))

    def decode(self, latent: Float[Array, " h"], skill: Float[Array, " z"]) -> Float[Array, " d"]:
        """The mean of P(s|h,z)."""
        return self.decoder.conditioned(self.decoder.shared(latent), self.embed_for_decoder(skill))

    def target(self, obs: Shaped[Array, "..."]) -> Float[Array, " t"]:
        """The part of the likelihood that does not depend on the skill, at one state."""
        return self.decoder.last.target(coarse_target(obs))

    def squared_error(
        self, target: Float[Array, " t"], latent: Float[Array, " h"], skill: Float[Array, " z"]
    ) -> Float[Array, ""]:
        """|s − ``decode(h, z)``|² in units, from ``target(s)``."""
        hidden = self.decoder.hidden(self.decoder.shared(latent), self.embed_for_decoder(skill))
        return self.decoder.last.squared_error(hidden, target) / self.unit**2


class Evidence(NamedTuple):
    """The two terms of the bound: log P(s|h,z) at the latents used, and KL[Q(h|s,z) ‖ N(0,I)]."""

    log_likelihood: Float[Array, "*n"]
    divergence: Float[Array, "*n"]

    @property
    def bound(self) -> Float[Array, "*n"]:
        """ELBO, Eq. 3."""
        return self.log_likelihood - self.divergence


class History(NamedTuple):
    """Recently rewarded states and their skills, newest first, images as bytes; ``filled``: rows in use."""

    obs: Shaped[Array, "rows ..."]
    skill: Float[Array, "rows z"]
    filled: Int[Array, ""]


class SD3State(NamedTuple):
    """The density model, and earlier states that it is also fitted on."""

    model: TrainState[ConditionalVAE]
    history: History


def deviation_reward(log_density: Float[Array, "n k"], skill: Float[Array, "n k"], weight: float) -> Float[Array, " n"]:
    """r_sd3 of Eq. 7, all in log space: log n + log λ + ℓ_z − logsumexpₖ(ℓₖ + [k = z] log λ).

    log_density: ℓ, the log density of each state under each skill; skill: one-hot rows; ``weight``: λ.
    At most log n; log(λn / (λ + n − 1)) where all densities tie; no lower bound.
    """
    number = log_density.shape[-1]
    weighted = log_density + skill * math.log(weight)
    return math.log(number) + jnp.sum(jax.nn.log_softmax(weighted, axis=-1) * skill, axis=-1)


@dataclass(frozen=True)
class SD3(DiscreteSkills, Objective[SD3State]):
    """Density deviation between skills, with densities d_z(s) of a conditional VAE, plus α times its KL as a bonus."""

    name: ClassVar[str] = "sd3"
    label: ClassVar[str] = "SD3"
    reaches_goals: ClassVar[bool] = True
    imagined_entropy: ClassVar[float | None] = 0.1

    number_of_skills: SkillCount = 10
    deviation_weight: Annotated[float, POSITIVE] = 1.5
    """λ of Eq. 1; above one it weakens the deviation from the other skills."""
    exploration_ratio: float = 0.04
    """Exploration ratio α, the weight of the KL bonus r_exp within a skill."""
    density: Literal["elbo", "reconstruction"] = "elbo"
    """Estimate of log d_z(s): the ELBO (the paper), or its reconstruction term alone (the authors' code)."""
    bonus: Literal["own", "mean"] = "own"
    """Exploration bonus r_exp: the KL under the own skill (the paper), or its mean over skills (the authors' code)."""
    bonus_scale: float = 16.25
    """Factor on r_exp in addition to α; it offsets the dependence of the KL on the decoder's variance."""
    latent_samples: int = 0
    """Samples of the latent h averaged in a reward; 0 uses the posterior mean, which adds no noise."""
    floor: float | None = -1.0
    """Lower clip of r_sd3; None does not clip, so crossing another skill's region is penalised without bound."""
    reward_scale: float = 1.0
    """Factor on the intrinsic reward."""

    architecture: Literal["soft-modular", "plain"] = "soft-modular"
    """Encoder and decoder: soft modules (Eq. 4), or MLPs with the skill as input of the first layer."""
    width: Annotated[int, POSITIVE] = 64
    """Width d of the joint state and skill embedding, and of the layers of a plain network."""
    layers: Annotated[int, POSITIVE, Range("at most 100", high=100)] = 2
    """Number of layers L of encoder and decoder, at most 100."""
    modules: Annotated[int, POSITIVE] = 4
    """Number of modules m per layer of a soft-modular network."""
    module_width: Annotated[int, POSITIVE] = 32
    """Width of each module of a soft-modular network."""
    temperature: Annotated[float, POSITIVE] = 1.0
    """Temperature of the routing softmax between modules."""
    latent_dim: Annotated[int, POSITIVE] = 8
    """Dimension of the VAE's latent h."""
    decoder_variance: Annotated[float, POSITIVE] = 0.1
    """Decoder variance σ² of P(s|h,z), the resolution of the density; for images in units of (range / 32)²."""

    learning_rate: LearningRate = 3e-3
    clip_norm: Annotated[float | None, POSITIVE] = None
    """Maximum global gradient norm; None does not clip."""
    fitting_steps: Annotated[int, POSITIVE] = 1
    """Gradient steps on the density model per update."""
    history: Annotated[int, NON_NEGATIVE] = 12_500
    """Number of earlier states that the density model is also fitted on; 0 with a replay buffer."""
    newest_fraction: Annotated[float, FRACTION] = 0.8
    """Fraction of newest states in a fitting batch, in [0, 1], if --objective.history is above 0."""
    resample_every: SkillSteps = None

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """In mazes the settings of docs/notebook/mazes.md, or the paper's (preset paper); on URLB the authors'."""
        if scale.benchmark == "maze":
            return cls._in_mazes(scale)
        on_urlb = cls(
            number_of_skills=scale.number_of_skills,
            # The KL hardly varies on jaco, so the authors weight it fifty times as much there.
            exploration_ratio=2.0 if scale.env_id == "jaco" else 0.04,
            bonus_scale=1.0,
            latent_samples=1,
            floor=None,
            reward_scale=0.1,
            width=scale.density_width,
            module_width=scale.module_width,
            latent_dim=40,
            decoder_variance=0.25,
            learning_rate=scale.learning_rate,
            clip_norm=0.5,
            history=0,
            resample_every=scale.resample_every,
        )
        if not scale.imagined:
            return on_urlb
        # At the variance of a state vector, differences in 200 standardised features are hundreds of nats.
        # No floor: the actor backpropagates through the reward, and a clipped reward has no gradient.
        # At weight one skills stop exploring and cover less; docs/notebook/pixels.md compares larger weights.
        bonus = 3.0 if scale.benchmark == "maze-pixels" else 1.0
        return replace(
            on_urlb, latent_dim=16, decoder_variance=4.0, latent_samples=0, reward_scale=1.0, bonus_scale=bonus
        )

    @classmethod
    def _in_mazes(cls, scale: Scale) -> Self:
        if scale.preset != "paper":
            return cls(history=0) if scale.replayed else cls()
        return cls(
            bonus_scale=1.0,
            floor=None,
            width=128,
            module_width=64,
            decoder_variance=0.02,
            learning_rate=1e-3,
            history=0,
        )

    @property
    def _transform(self) -> optax.GradientTransformation:
        return adam(self.learning_rate, clip_norm=self.clip_norm)

    def _network(self, key: RandomKey, inputs: int, outputs: int) -> Conditional:
        if self.architecture == "plain":
            return ConditionalMLP.create(key, inputs, self.width, self.layers, outputs)
        return SoftModular.create(
            key, inputs, self.width, self.layers, self.modules, self.module_width, outputs, self.temperature
        )

    def init(self, key: RandomKey, spec: Spec) -> SD3State:
        """A fresh density model and an empty history."""
        encoder_key, decoder_key, *embedding_keys = jax.random.split(key, 4)
        obs_encoder = ObsEncoder.create(key, spec.obs_shape)
        model = ConditionalVAE(
            obs_encoder=obs_encoder,
            encoder=self._network(encoder_key, obs_encoder.width, 2 * self.latent_dim),
            decoder=self._network(decoder_key, self.latent_dim, coarse_target_size(spec.obs_shape)),
            embed_for_encoder=Linear.create(embedding_keys[0], self.number_of_skills, self.width),
            embed_for_decoder=Linear.create(embedding_keys[1], self.number_of_skills, self.width),
            unit=PIXEL_UNIT if is_image(spec.obs_shape) else 1.0,
        )
        history = History(
            empty_states(self.history, spec.obs_shape),
            jnp.zeros((self.history, self.skills.width)),
            jnp.asarray(0, jnp.int32),
        )
        return SD3State(TrainState.create(self._transform, model), history)

    def _log_likelihood(
        self, model: ConditionalVAE, target: Float[Array, " t"], latent: Float[Array, " h"], skill: Float[Array, " z"]
    ) -> Float[Array, ""]:
        constant = model.decoder.last.bias.shape[0] * math.log(2 * math.pi * self.decoder_variance)
        return -0.5 * (model.squared_error(target, latent, skill) / self.decoder_variance + constant)

    def _evidence(
        self,
        model: ConditionalVAE,
        target: Float[Array, " t"],
        shared: PyTree,
        skill: Float[Array, " z"],
        noise: Float[Array, "samples h"],
    ) -> Evidence:
        """The terms of the ELBO at one state and skill.

        target, shared: the model's parts of the state; ``noise``: standard-normal samples for the latents.
        """
        posterior = model.posterior(shared, skill)
        likelihoods = [
            self._log_likelihood(model, target, posterior.sample(noise[sample]), skill)
            for sample in range(noise.shape[0])
        ]
        return Evidence(sum(likelihoods[1:], likelihoods[0]) / len(likelihoods), posterior.kl_to_standard())

    def evidence_of_all_skills(self, model: ConditionalVAE, obs: Shaped[Array, "n ..."], key: RandomKey) -> Evidence:
        """The terms of the ELBO of every state under every skill, [n, k], in one pass."""
        # All skills share the same noise, so that most of it cancels in their ratio.
        noise = (
            jax.random.normal(key, (self.latent_samples, self.latent_dim))
            if self.latent_samples
            else jnp.zeros((1, self.latent_dim))
        )
        skills = self.skills.all()
        states, number = obs.shape[0], skills.shape[0]
        # Pairs as the rows of one flat batch: every layer is then one large matmul.
        targets, shared = jax.tree.map(
            lambda part: jnp.repeat(part, number, axis=0), (jax.vmap(model.target)(obs), jax.vmap(model.shared)(obs))
        )
        pairs = jax.vmap(lambda target, part, skill: self._evidence(model, target, part, skill, noise))(
            targets, shared, jnp.tile(skills, (states, 1))
        )
        return Evidence(*(part.reshape(states, number) for part in pairs))

    def _fitting_batch(
        self, history: History, batch: Experience, key: RandomKey
    ) -> tuple[Float[Array, "n ..."], Float[Array, "n z"]]:
        """The newest states, some of them replaced by states of the history; images preprocessed."""
        obs, skill = preprocess(batch.next_obs), batch.skill
        if not self.history:
            return obs, skill
        rows = obs.shape[0]
        index_key, choice_key = jax.random.split(key)
        index = jax.random.randint(index_key, (rows,), 0, jnp.maximum(history.filled, 1))
        is_old = (jax.random.uniform(choice_key, (rows, 1)) > self.newest_fraction) & (history.filled > 0)
        old = preprocess(history.obs[index])
        return (
            jnp.where(is_old.reshape(rows, *[1] * (obs.ndim - 1)), old, obs),
            jnp.where(is_old, history.skill[index], skill),
        )

    def update(self, state: SD3State, batch: Experience, key: RandomKey) -> tuple[SD3State, Metrics]:
        """``fitting_steps`` gradient steps on the negative ELBO (Eq. 3) of the states under their own skill."""

        def step(model: TrainState[ConditionalVAE], key: RandomKey) -> tuple[TrainState[ConditionalVAE], Metrics]:
            data_key, noise_key = jax.random.split(key)
            obs, skill = self._fitting_batch(state.history, batch, data_key)
            noise = jax.random.normal(noise_key, (obs.shape[0], 1, self.latent_dim))

            def loss(model: ConditionalVAE) -> tuple[Float[Array, ""], Metrics]:
                evidence = jax.vmap(lambda s, z, e: self._evidence(model, model.target(s), model.shared(s), z, e))(
                    obs, skill, noise
                )
                value = -jnp.mean(evidence.bound)
                return value, {
                    "model_loss": value,
                    "log_likelihood": jnp.mean(evidence.log_likelihood),
                    "divergence": jnp.mean(evidence.divergence),
                }

            return gradient_step(self._transform, loss, model)

        model, metrics = jax.lax.scan(step, state.model, jax.random.split(key, self.fitting_steps))
        return SD3State(model, state.history), jax.tree.map(lambda values: values[-1], metrics)

    def reward(
        self, state: SD3State, batch: Experience, key: RandomKey
    ) -> tuple[SD3State, Float[Array, " n"], Metrics]:
        """scale · (max(r_sd3(s', z), floor) + α r_exp(s', z)), Eqs. 6 and 7; adds the states to the history."""
        evidence = self.evidence_of_all_skills(state.model.params, batch.next_obs, key)
        log_density = evidence.bound if self.density == "elbo" else evidence.log_likelihood
        deviation = deviation_reward(log_density, batch.skill, self.deviation_weight)
        own = jnp.sum(evidence.divergence * batch.skill, axis=-1)
        bonus = own if self.bonus == "own" else jnp.mean(evidence.divergence, axis=-1)
        floored = deviation if self.floor is None else jnp.maximum(deviation, self.floor)
        weight = self.exploration_ratio * self.bonus_scale
        reward = self.reward_scale * (floored + weight * bonus)
        metrics = {
            "density_deviation": jnp.mean(deviation),
            "density_deviation_floored": jnp.mean(floored - deviation > 0),
            "bonus": jnp.mean(bonus),
            "bonus_std": jnp.std(bonus),
        }
        return SD3State(state.model, self._remember(state.history, batch)), reward, metrics

    def _remember(self, history: History, batch: Experience) -> History:
        """Add the batch to the history and drop the oldest rows."""
        if not self.history:
            return history
        newest = jax.vmap(to_storage)(jax.lax.stop_gradient(batch.next_obs))
        obs = jnp.concatenate([newest, history.obs])[: self.history]
        skill = jnp.concatenate([batch.skill, history.skill])[: self.history]
        return History(obs, skill, jnp.minimum(history.filled + batch.skill.shape[0], self.history))

    def score_skills(self, state: SD3State, obs: Shaped[Array, "n ..."]) -> Float[Array, "n k"]:
        """log d_z(s) for every skill; samples of h, if any, are the same at every call."""
        evidence = self.evidence_of_all_skills(state.model.params, obs, jax.random.key(0))
        return evidence.bound if self.density == "elbo" else evidence.log_likelihood
