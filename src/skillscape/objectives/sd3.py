"""SD3: Unsupervised Skill Discovery through Skill Regions Differentiation.

Density deviation rewards regions that the other skills do not visit (Eqs. 1 and 7). The densities are evidence lower
bounds of one conditional VAE (Eq. 3) with soft modules (Eq. 4). Its KL term is the exploration bonus within a skill
(Eq. 6).
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Shaped

from skillscape.conv import is_image
from skillscape.errors import UserError
from skillscape.nets import Conditional, ConditionalMLP, Linear, SoftModular
from skillscape.objectives.base import LearningRate, Objective, Scale, SkillCount, SkillSteps
from skillscape.objectives.cvae import PIXEL_UNIT, ConditionalVAE, Evidence
from skillscape.objectives.density_deviation import (
    continuous_deviation_reward,
    deviation_reward,
    deviation_under_each,
    posterior,
)
from skillscape.objectives.encoders import ObsEncoder, coarse_target_size
from skillscape.objectives.history import History
from skillscape.optim import TrainState, adam, gradient_step
from skillscape.ranges import FRACTION, NON_NEGATIVE, POSITIVE, Range
from skillscape.skills import Discrete, Sphere
from skillscape.stats import Moments, variance_share
from skillscape.types import Experience, Metrics, RandomKey, Spec


class SD3State(NamedTuple):
    """The density model, earlier states that it is also fitted on, and the moments that settings need."""

    model: TrainState[ConditionalVAE]
    history: History
    moments: Moments | None
    """Of all states that the density was fitted on."""
    bonus_moments: Moments | None
    """Of the KL in all rewards, or of its standard deviation in each batch of them."""
    kl_moments: Moments | None
    """Of the KL in all rewards, where the bonus is weighted by the posterior."""


class Terms(NamedTuple):
    """What a reward is made of: r_sd3, the KL of the own skill or its mean over all, and the posterior p(z|s)."""

    deviation: Float[Array, "*n"]
    kl: Float[Array, "*n"]
    posterior: Float[Array, "*n"]


@dataclass(frozen=True)
class SD3(Objective[SD3State]):
    """Density deviation between skills, with densities d_z(s) of a conditional VAE, plus α times its KL as a bonus."""

    name: ClassVar[str] = "sd3"
    label: ClassVar[str] = "SD3"
    reaches_goals: ClassVar[bool] = True
    imagined_entropy: ClassVar[float | None] = 0.1

    number_of_skills: SkillCount = 10
    skill_kind: Literal["discrete", "sphere"] = "discrete"
    """Skill space: n one-hot vectors, or unit vectors, of which a share 1/n of the prior counts as the own skill."""
    skill_dim: Annotated[int, Range("at least 2", low=2)] = 2
    """Dimension of unit-vector skills; unused for one-hot skills."""
    skill_draws: Annotated[int, POSITIVE] = 32
    """Samples K of unit-vector skills that stand for the other skills in a reward, at least n − 1."""
    deviation_weight: Annotated[float, POSITIVE] = 1.0
    """λ of Eq. 1, 1.5 in the paper; above one it weakens the deviation from the other skills."""
    exploration_ratio: float = 0.04
    """Exploration ratio α, the weight of the KL bonus r_exp within a skill."""
    density: Literal["elbo", "reconstruction"] = "elbo"
    """Estimate of log d_z(s): the ELBO (the paper), or its reconstruction term alone (the authors' code)."""
    bonus: Literal["own", "mean", "posterior"] = "own"
    """Exploration bonus r_exp: the KL under the own skill (the paper), its mean over skills (the authors' code), or
    p(z|s) (KL − its running mean), p(z|s) ∝ d_z(s) the posterior: the KL counts where a state identifies the skill."""
    bonus_scale: float = 31.25
    """Factor on r_exp in addition to α; 1 in the paper."""
    latent_samples: int = 0
    """Samples of the latent h averaged in a reward; 0 uses the posterior mean, which adds no noise."""
    bonus_unit: Literal["nats", "running-mean", "running-std"] = "running-mean"
    """Unit of the KL in r_exp: nats (the paper), or its running mean, or that of its standard deviation in a batch."""
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
    standardize: Annotated[float, FRACTION] = 0.0
    """Power p in [0, 1] of the running standard deviation by which the density model divides states: 0 models raw
    states, 1 standardised ones; between them entries of large scale, such as velocities, count more. Vectors only."""
    background: Annotated[float, NON_NEGATIVE, Range("at most 0.99", high=0.99)] = 0.0
    """Weight ε of a Gaussian d_0 of all states in each density, log((1 − ε) d_z + ε d_0), below 1; vectors only."""

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
        """At preset paper the paper's settings, on URLB the authors'; otherwise those of docs/notebook/."""
        if scale.benchmark == "maze":
            return cls._in_mazes(scale)
        on_urlb = cls(
            number_of_skills=scale.number_of_skills,
            deviation_weight=1.5,
            # The KL hardly varies on jaco, so the authors weight it fifty times as much there.
            exploration_ratio=2.0 if scale.env_id == "jaco" else 0.04,
            bonus_scale=1.0,
            bonus_unit="nats",
            latent_samples=1,
            floor=None,
            reward_scale=0.1,
            width=scale.density_width,
            module_width=scale.module_width,
            latent_dim=40,
            decoder_variance=0.25,
            learning_rate=scale.learning_rate,
            clip_norm=0.5,
            history=0 if scale.replayed else cls.history,
            resample_every=scale.resample_every,
        )
        if not scale.imagined:
            return on_urlb if scale.preset == "paper" else on_urlb._calibrated()
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
            deviation_weight=1.5,
            bonus_scale=1.0,
            bonus_unit="nats",
            floor=None,
            width=128,
            module_width=64,
            decoder_variance=0.02,
            learning_rate=1e-3,
            history=0,
        )

    def _calibrated(self) -> Self:
        """The same for states of bodies: densities that are not overconfident, and a bonus with a std of 0.9."""
        weighed = replace(self, exploration_ratio=0.04, bonus_scale=22.5, bonus_unit="running-std", latent_samples=0)
        return replace(weighed, learning_rate=1e-3, decoder_variance=1.0, standardize=0.5, background=0.1)

    @property
    def skills(self) -> Discrete | Sphere:
        """n one-hot skills, or a sphere of them."""
        return Discrete(self.number_of_skills) if self.skill_kind == "discrete" else Sphere(self.skill_dim)

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
        self._check(spec)
        encoder_key, decoder_key, *embedding_keys = jax.random.split(key, 4)
        obs_encoder = ObsEncoder.create(key, spec.obs_shape)
        model = ConditionalVAE(
            obs_encoder=obs_encoder,
            encoder=self._network(encoder_key, obs_encoder.width, 2 * self.latent_dim),
            decoder=self._network(decoder_key, self.latent_dim, coarse_target_size(spec.obs_shape)),
            embed_for_encoder=Linear.create(embedding_keys[0], self.skills.width, self.width),
            embed_for_decoder=Linear.create(embedding_keys[1], self.skills.width, self.width),
            variance=self.decoder_variance,
            unit=PIXEL_UNIT if is_image(spec.obs_shape) else 1.0,
        )
        history = History.create(self.history, spec.obs_shape, self.skills.width)
        moments = Moments.create(spec.obs_shape) if self.standardize or self.background else None
        bonus_moments = None if self.bonus_unit == "nats" else Moments.create()
        kl_moments = Moments.create() if self.bonus == "posterior" else None
        return SD3State(TrainState.create(self._transform, model), history, moments, bonus_moments, kl_moments)

    def _check(self, spec: Spec) -> None:
        if (self.standardize or self.background) and is_image(spec.obs_shape):
            raise UserError(
                f"standardize and background need states that are vectors, not images of shape {spec.obs_shape}; "
                "leave both off, or let SD3 see a world model's features."
            )
        if self.skill_kind == "sphere" and not 1 <= self.number_of_skills - 1 <= self.skill_draws:
            raise UserError(
                "On a sphere number_of_skills must be at least 2 and skill_draws at least number_of_skills - 1, "
                f"not {self.number_of_skills} and {self.skill_draws}."
            )

    def model_input(self, state: SD3State, obs: Shaped[Array, "n ..."]) -> Shaped[Array, "n ..."]:
        """States as the density model reads them."""
        if state.moments is None or not self.standardize:
            return obs
        kept = jnp.sqrt(self._input_variance(state.moments))
        return state.moments.normalise(obs, clip=math.inf) * kept[None]

    def _input_variance(self, moments: Moments) -> Float[Array, "*d"]:
        """The variance of the density model's inputs, if ``standardize`` is on; their mean is zero."""
        return jnp.maximum(moments.variance, 0.01) ** (1 - self.standardize)

    def log_density(self, state: SD3State, inputs: Shaped[Array, "n ..."], evidence: Evidence) -> Float[Array, "n ..."]:
        """log d_z of ``inputs``, ``model_input(s)``, from their evidence.

        With a ``background`` it is log((1 − ε) d_z + ε d_0): far from all that was fitted, all skills tie. d_0 has the
        running mean of all inputs, and their variances plus σ², since the model sees no detail below that.
        """
        log_density = evidence.bound if self.density == "elbo" else evidence.log_likelihood
        if state.moments is None or not self.background:
            return log_density
        mean, variance = state.moments.mean, state.moments.variance
        if self.standardize:
            mean, variance = jnp.zeros_like(mean), self._input_variance(state.moments)
        variance += self.decoder_variance
        terms = (inputs - mean[None]) ** 2 / variance[None] + jnp.log(2 * math.pi * variance)[None]
        common = -0.5 * jnp.sum(terms, axis=-1).reshape(-1, *[1] * (log_density.ndim - 1))
        return jnp.logaddexp(log_density + math.log1p(-self.background), common + math.log(self.background))

    def _noise(self, key: RandomKey) -> Float[Array, "samples h"]:
        if not self.latent_samples:
            return jnp.zeros((1, self.latent_dim))
        return jax.random.normal(key, (self.latent_samples, self.latent_dim))

    def evidence_of_all_skills(self, model: ConditionalVAE, obs: Shaped[Array, "n ..."], key: RandomKey) -> Evidence:
        """The bound's terms of every state under every skill, [n, k], in one pass."""
        return model.evidence_of_each(obs, self.skills.all(), self._noise(key))

    def update(self, state: SD3State, batch: Experience, key: RandomKey) -> tuple[SD3State, Metrics]:
        """``fitting_steps`` gradient steps on the negative ELBO (Eq. 3) of the states under their own skill."""
        if state.moments is not None:
            state = state._replace(moments=state.moments.include(batch.next_obs))

        def step(model: TrainState[ConditionalVAE], key: RandomKey) -> tuple[TrainState[ConditionalVAE], Metrics]:
            data_key, noise_key = jax.random.split(key)
            obs, skill = state.history.mixed_into(batch.next_obs, batch.skill, self.newest_fraction, data_key)
            obs = self.model_input(state, obs)
            noise = jax.random.normal(noise_key, (obs.shape[0], 1, self.latent_dim))

            def loss(model: ConditionalVAE) -> tuple[Float[Array, ""], Metrics]:
                evidence = jax.vmap(model.evidence)(obs, skill, noise)
                value = -jnp.mean(evidence.bound)
                return value, {
                    "model_loss": value,
                    "log_likelihood": jnp.mean(evidence.log_likelihood),
                    "divergence": jnp.mean(evidence.divergence),
                    **jax.tree.map(jnp.mean, jax.vmap(model.diagnostics)(obs, skill, noise)),
                }

            return gradient_step(self._transform, loss, model)

        model, metrics = jax.lax.scan(step, state.model, jax.random.split(key, self.fitting_steps))
        return state._replace(model=model), jax.tree.map(lambda values: values[-1], metrics)

    def _terms(self, state: SD3State, batch: Experience, key: RandomKey) -> Terms:
        """The terms of the reward at s'; means over all skills are over the draws that stand for a continuum."""
        model, obs = state.model.params, self.model_input(state, batch.next_obs)
        if self.skill_kind == "discrete":
            evidence = self.evidence_of_all_skills(model, obs, key)
            log_density = self.log_density(state, obs, evidence)
            deviation, unweighted = (
                deviation_reward(log_density, batch.skill, weight) for weight in (self.deviation_weight, 1.0)
            )
            own, mean = jnp.sum(evidence.divergence * batch.skill, axis=-1), jnp.mean(evidence.divergence, axis=-1)
        else:
            draw_key, noise_key = jax.random.split(key)
            draws, noise = self.skills.sample(draw_key, self.skill_draws), self._noise(noise_key)
            mine = jax.vmap(model.evidence, (0, 0, None))(obs, batch.skill, noise)
            others = model.evidence_of_each(obs, draws, noise)
            densities = self.log_density(state, obs, mine), self.log_density(state, obs, others)
            deviation, unweighted = (
                continuous_deviation_reward(*densities, self.number_of_skills, weight)
                for weight in (self.deviation_weight, 1.0)
            )
            own, mean = mine.divergence, jnp.mean(others.divergence, axis=-1)
        kl = mean if self.bonus == "mean" else own
        return Terms(deviation, kl, posterior(unweighted, self.number_of_skills))

    def _bonus(self, state: SD3State, terms: Terms) -> Float[Array, "*n"]:
        """r_exp, before its weight and its unit."""
        return terms.kl if state.kl_moments is None else terms.posterior * (terms.kl - state.kl_moments.mean)

    def reward(
        self, state: SD3State, batch: Experience, key: RandomKey
    ) -> tuple[SD3State, Float[Array, " n"], Metrics]:
        """scale · (max(r_sd3(s', z), floor) + α r_exp(s', z)), Eqs. 6 and 7; adds the states to the history."""
        terms = self._terms(state, batch, key)
        if state.kl_moments is not None:
            state = state._replace(kl_moments=state.kl_moments.include(jax.lax.stop_gradient(terms.kl)))
        deviation, bonus = terms.deviation, self._bonus(state, terms)
        floored = deviation if self.floor is None else jnp.maximum(deviation, self.floor)
        weighted = self.exploration_ratio * self.bonus_scale * bonus
        if state.bonus_moments is not None:
            unit = terms.kl if self.bonus_unit == "running-mean" else jnp.std(terms.kl, keepdims=True)
            moments = state.bonus_moments.include(jax.lax.stop_gradient(unit))
            state, weighted = state._replace(bonus_moments=moments), weighted / jnp.maximum(moments.mean, 1e-6)
        total = floored + weighted
        metrics = {
            "density_deviation": jnp.mean(deviation),
            "density_deviation_std": jnp.std(deviation),
            "density_deviation_floored": jnp.mean(floored - deviation > 0),
            "density_deviation_share": variance_share(floored, total),
            "bonus": jnp.mean(bonus),
            "bonus_std": jnp.std(bonus),
            "bonus_share": variance_share(weighted, total),
        }
        history = state.history.include(batch.next_obs, batch.skill)
        return state._replace(history=history), self.reward_scale * total, metrics

    def score_skills(self, state: SD3State, obs: Shaped[Array, "n ..."]) -> Float[Array, "n k"]:
        """log d_z(s) of every skill, or of the ten draws of a continuum that evaluations roll out; always the same."""
        listed = self.skills.all() if self.skill_kind == "discrete" else self.skills.sample(jax.random.key(0), 10)
        return self._scores(state, obs, listed)

    def skill_for_goal(
        self, state: SD3State, obs: Shaped[Array, "n ..."], goal: Shaped[Array, "n ..."]
    ) -> Float[Array, "n z"]:
        """The skill under which each goal is densest: of all skills, or of 256 draws from a sphere, always the same."""
        del obs
        candidates = self.skills.all() if self.skill_kind == "discrete" else self.skills.sample(jax.random.key(1), 256)
        return candidates[jnp.argmax(self._scores(state, goal, candidates), axis=-1)]

    def _scores(self, state: SD3State, obs: Shaped[Array, "n ..."], skills: Float[Array, "k z"]) -> Float[Array, "n k"]:
        inputs = self.model_input(state, obs)
        evidence = state.model.params.evidence_of_each(inputs, skills, self._noise(jax.random.key(0)))
        return self.log_density(state, inputs, evidence)

    def diagnose(
        self, state: SD3State, obs: Shaped[Array, "n ..."], skill: Float[Array, "n z"], random: Shaped[Array, "m ..."]
    ) -> Metrics:
        """Means of r_sd3 and r_exp: of visited states under their own skill and the others, of random walks.

        r_sd3 is before its floor, r_exp in nats before α. Random walks count under every skill. For one-hot skills.
        """

        def terms(obs: Shaped[Array, "n ..."]) -> dict[str, Float[Array, "n k"]]:
            inputs = self.model_input(state, obs)
            evidence = self.evidence_of_all_skills(state.model.params, inputs, jax.random.key(0))
            density = self.log_density(state, inputs, evidence)
            deviation, unweighted = (deviation_under_each(density, weight) for weight in (self.deviation_weight, 1.0))
            mean = jnp.broadcast_to(jnp.mean(evidence.divergence, axis=-1, keepdims=True), density.shape)
            kl = mean if self.bonus == "mean" else evidence.divergence
            reward_terms = Terms(deviation, kl, posterior(unweighted, self.number_of_skills))
            return {"density_deviation": deviation, "bonus": self._bonus(state, reward_terms)}

        at_random = terms(random)
        means: Metrics = {}
        for name, values in terms(obs).items():
            means[f"{name}_own_skill"] = jnp.sum(values * skill) / jnp.sum(skill)
            means[f"{name}_other_skills"] = jnp.sum(values * (1 - skill)) / jnp.sum(1 - skill)
            means[f"{name}_random_walks"] = jnp.mean(at_random[name])
        return means

    def routing_weights(self, state: SD3State) -> dict[str, Float[Array, "layers m k"]]:
        """``ConditionalVAE.routing_weights`` of every skill, or of ten draws of a continuum."""
        listed = self.skills.all() if self.skill_kind == "discrete" else self.skills.sample(jax.random.key(0), 10)
        return state.model.params.routing_weights(listed, jax.random.normal(jax.random.key(0), (64, self.latent_dim)))
