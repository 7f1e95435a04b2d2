"""Dreamer as the pixel version of the unsupervised RL benchmark runs it, with skills.

Hafner et al., Mastering Atari with Discrete World Models, ICLR 2021, with continuous actions; Rajeswar et al.,
Mastering the Unsupervised Reinforcement Learning Benchmark from Pixels, ICML 2023. Optional parts are from Hafner et
al., Mastering Diverse Domains through World Models, 2023. A skill enters actor and critic only.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, Shaped

from skillscape.backbones.base import Backbone, TooShort
from skillscape.backbones.dreamer.config import DreamerConfig
from skillscape.backbones.dreamer.encoders import Encoder
from skillscape.backbones.dreamer.image_norm import ImageNorm, normalize_obs
from skillscape.backbones.dreamer.imagination import (
    Actor,
    Critic,
    cumulative_weights,
    imagine,
    lambda_returns,
    track_magnitude,
    track_mean,
    track_range,
)
from skillscape.backbones.dreamer.networks import DreamerAgent, adapted, create, with_controller
from skillscape.backbones.dreamer.objective_interface import (
    Starts,
    fit_objective,
    imagined_reward,
    imagined_starts,
    objective_features,
    objective_spec,
)
from skillscape.backbones.dreamer.world_model import RSSM, Latent, Posterior, WorldModel
from skillscape.conv import preprocess
from skillscape.dists import OneHot, TruncatedNormal
from skillscape.errors import UserError
from skillscape.objectives.base import Objective
from skillscape.optim import TrainState, gradient_step
from skillscape.replay import EpisodeIndex, Replay
from skillscape.types import EnvSpec, Metrics, RandomKey, Schedule, Sequences, Spec


class DreamerPolicy(NamedTuple):
    """The part of an agent that acts."""

    image_norm: ImageNorm | None
    encoder: Encoder
    dynamics: RSSM
    actor: Actor


class Belief(NamedTuple):
    """What acting carries: the recurrent state after the newest action, and the steps since the episode began."""

    deter: Float[Array, "n d"]
    time: Int[Array, " n"]


class Imagined(NamedTuple):
    """What the actor loss computes and the critic learns from: n trajectories of h + 1 states, time first."""

    feature: Float[Array, "h1 n f"]
    returns: Float[Array, "h n"]
    weight: Float[Array, "h1 n"]
    """See ``cumulative_weights``."""
    scale: Float[Array, ""]
    reward_mean: Float[Array, ""]
    objective_state: PyTree
    metrics: Metrics


@dataclass(frozen=True)
class Dreamer(DreamerConfig, Backbone[DreamerAgent, Sequences]):
    """DreamerV2: discrete latents, KL balancing, and an actor that climbs the gradient of imagined returns."""

    name: ClassVar[str] = "dreamer"
    label: ClassVar[str] = "Dreamer"
    selects_skill_by_regress: ClassVar[bool] = True

    def init(self, key: RandomKey, env_spec: EnvSpec, objective: Objective[Any]) -> DreamerAgent:
        """Fresh networks; the target is a copy of the critic."""
        if self.behaviour.horizon < 2:
            raise UserError(f"--backbone.behaviour.horizon must be at least 2, not {self.behaviour.horizon}.")
        # One compiled program instead of a hundred small ones.
        created: DreamerAgent = jax.jit(lambda key: create(self, key, env_spec, objective))(key)
        return created

    # Acting

    def initial_carry(self, rows: int) -> Belief:
        """Recurrent states of zeros at the start of each episode."""
        return Belief(jnp.zeros((rows, self.world.deter)), jnp.zeros(rows, jnp.int32))

    def policy_params(self, agent: DreamerAgent) -> DreamerPolicy:
        """Moments of images, encoder, dynamics and actor."""
        world = agent.world.params
        return DreamerPolicy(agent.image_norm, world.encoder, world.dynamics, agent.actor.params)

    def act(
        self,
        policy: DreamerPolicy,
        carry: Belief,
        obs: Shaped[Array, "n ..."],
        skill: Float[Array, "n z"],
        key: RandomKey,
        explore: bool,
    ) -> tuple[Float[Array, "n a"], Belief]:
        """Update the belief by what is seen, draw a state from it, and act; the mean where ``explore`` is off.

        The state is drawn in either case, as in training; each step of an episode draws anew also from the same key.
        """
        dynamics, rows, latents = policy.dynamics, skill.shape[0], self.world.stoch
        actions = dynamics.input.weight.shape[1] - latents * self.world.classes
        deter, stoch = dynamics.initial(rows)
        fresh = jax.vmap(dynamics.transition)(deter, stoch, jnp.zeros((rows, actions)))
        deter = jnp.where(carry.time[:, None] == 0, fresh, carry.deter)
        embedding = jax.vmap(policy.encoder)(normalize_obs(policy.image_norm, obs))
        logits = jax.vmap(dynamics.infer_posterior)(deter, jax.vmap(dynamics.project_embedding)(embedding))

        def draw(key: RandomKey, time: Int[Array, ""]) -> tuple[Float[Array, " s"], Float[Array, " a"]]:
            state_key, action_key = jax.random.split(jax.random.fold_in(key, time))
            return jax.random.uniform(state_key, (latents,)), jax.random.normal(action_key, (actions,))

        uniform, noise = jax.vmap(draw)(jax.random.split(key, rows), carry.time)
        state = Latent(deter, OneHot(logits).sample(uniform), logits)
        distribution = jax.vmap(policy.actor)(state.feature, skill)
        action = distribution.sample(noise) if explore else distribution.mean
        return action, Belief(jax.vmap(dynamics.transition)(deter, state.stoch, action), carry.time + 1)

    def log_prob(
        self, agent: DreamerAgent, obs: Shaped[Array, "t ..."], skill: Float[Array, "t z"], action: Float[Array, "t a"]
    ) -> Float[Array, " t"]:
        """How likely the policy is to take these actions, one after the other, having seen what came before."""
        states = _episode_states(agent, obs, action)
        distribution: TruncatedNormal = jax.vmap(agent.actor.params)(states.feature[0], skill)
        return distribution.log_prob(action)

    # What objectives see

    def objective_spec(self, env_spec: EnvSpec) -> Spec:
        """Features of the world model; of replayed observations, they themselves or the embeddings of images."""
        return objective_spec(self, env_spec)

    def objective_obs(
        self, agent: DreamerAgent, obs: Shaped[Array, "t ..."], action: Float[Array, "t a"]
    ) -> Float[Array, "t x"]:
        """What imagined states are scored by: the model's features of the states."""
        return objective_features(self, _episode_states(agent, obs, action))[0]

    def predict(self, agent: DreamerAgent, batch: Sequences, context: int) -> Float[Array, "b t ..."]:
        """Observations (images in [-½, ½]): the first ``context`` as reconstructed, the rest as predicted open loop."""
        known = batch._replace(obs=normalize_obs(agent.image_norm, batch.obs))
        expected = agent.world.params.predict(known, context, jax.random.key(0))
        return expected if agent.image_norm is None else agent.image_norm.denormalize(expected)

    # Learning

    @property
    def schedule(self) -> Schedule:
        """When learning begins, how often, and from how much."""
        return Schedule(
            self.replay.warmup_steps,
            self.replay.update_every,
            self.replay.batch_size,
            1,
            self.behaviour.discount,
            self.replay.capacity,
            self.replay.sequence_length,
            self.replay.warmup_policy,
        )

    def sample(
        self, replay: Replay, episode_index: EpisodeIndex, updates: int, skill: Float[np.ndarray, " z"] | None = None
    ) -> Sequences | None:
        """Sequences, all updates of an objective's model from the same ones."""
        del updates
        length = self.replay.sequence_length
        if not len(episode_index.long_enough(length)):
            return None
        drawn = replay.sample_sequences(self.replay.batch_size, length, episode_index)
        # What is imagined goes on under the skill that was chosen, also from states that others led to.
        return drawn if skill is None else drawn._replace(skill=jnp.broadcast_to(skill, drawn.skill.shape))

    def too_short(self, steps: int) -> TooShort | None:
        """A sequence of L states needs L − 1 steps."""
        length = self.replay.sequence_length
        if steps + 1 >= length:
            return None
        return TooShort(f"sequences of {length} states", "replay.sequence_length", steps + 1)

    def critic_loss(
        self, critic: Critic, imagined: Imagined, skill: Float[Array, "n z"], known: Float[Array, " n"]
    ) -> tuple[Float[Array, ""], Metrics]:
        """E[−wₜ log p(Gₜ | sₜ, z)] over all states but the last; known: see ``Starts``."""
        # The reward of arriving at a start is not known where nothing came before it.
        weight = jnp.concatenate([imagined.weight[:1] * known[None], imagined.weight[1:-1]])
        loss = jnp.mean(weight * critic.nll(imagined.feature[:-1], skill, imagined.returns))
        return loss, {"critic_loss": loss}

    def actor_loss(
        self,
        actor: Actor,
        agent: DreamerAgent,
        objective: Objective[Any],
        objective_state: PyTree,
        starts: Starts,
        key: RandomKey,
    ) -> tuple[Float[Array, ""], Imagined]:
        """−E[wₜ (Gₜ₊₁ + η Hₜ − ½ ρ |xₜ|²)], backpropagated through the dynamics; ρ: ``actor_output_l2``."""
        config, world, skill = self.behaviour, agent.world.params, starts.skill
        head = None if agent.reward_head is None else agent.reward_head.params
        dream_key, reward_key = jax.random.split(key)
        dream = imagine(world.dynamics, actor, starts.state, skill, config.horizon, dream_key)
        feature = dream.states.feature
        objective_state, reward, metrics = imagined_reward(
            self, world, head, objective, objective_state, starts, dream, feature, reward_key
        )
        scale, reward_mean = agent.scale, agent.reward_mean
        scaled = reward
        if config.center_rewards and world.continue_head is None:
            reward_mean = track_mean(reward_mean, reward[1:], agent.updates, config.center_momentum)
            scaled = reward - reward_mean
        if config.normalize == "rewards":
            scale = track_magnitude(scale, reward[1:], config.reward_norm_momentum)
            scaled = scaled / (scale + 1e-8)
        discount = config.discount * world.continue_prob(feature)
        value = agent.target.values(feature, skill)
        returns = lambda_returns(scaled, value, discount, config.discount_lambda)
        weight = cumulative_weights(discount)
        gain = returns[1:]
        if config.normalize == "returns":
            scale = track_range(scale, returns, config.return_norm_rate)
            gain = gain / jnp.maximum(scale, 1.0)
        entropy, output_l2 = dream.entropy[:-1], dream.output_l2[:-1]
        loss = -jnp.mean(weight[:-2] * (gain + config.entropy * entropy - config.actor_output_l2 * output_l2))
        metrics = {
            **metrics,
            "actor_loss": loss,
            "entropy": jnp.mean(entropy),
            "actor_output_l2": jnp.mean(output_l2),
            "reward": jnp.mean(reward[1:]),
            "imagined_return": jnp.mean(returns),
            "value": jnp.mean(value),
            "norm_scale": scale,
            "reward_mean": reward_mean,
        }
        return loss, Imagined(feature, returns, weight, scale, reward_mean, objective_state, metrics)

    def learn(
        self,
        agent: DreamerAgent,
        objective: Objective[Any],
        objective_state: PyTree,
        batch: Sequences,
        key: RandomKey,
    ) -> tuple[DreamerAgent, PyTree, Metrics]:
        """World model → objective on replayed states → imagine with its skills → rewards → actor → critic."""
        world_key, model_key, head_key, start_key, dream_key = jax.random.split(key, 5)
        obs, unit, image_norm = preprocess(batch.obs), jnp.ones(()), agent.image_norm
        if image_norm is not None:
            image_norm = image_norm.include(obs)
            obs, unit = image_norm.normalize(obs), image_norm.unit
        world, (posterior, metrics) = self._improve_world(agent.world, batch._replace(obs=obs), unit, world_key)
        objective_state, reward_head, objective_metrics = fit_objective(
            self, objective, objective_state, agent.reward_head, posterior, batch, (model_key, head_key)
        )
        agent = agent._replace(world=world, reward_head=reward_head, image_norm=image_norm)
        starts = imagined_starts(self, posterior, batch, objective.skills, start_key)
        agent, objective_state, behaviour_metrics = self._improve_behaviour(
            agent, objective, objective_state, starts, dream_key
        )
        return agent, objective_state, {**metrics, **objective_metrics, **behaviour_metrics}

    def _improve_world(
        self, world: TrainState[WorldModel], batch: Sequences, unit: Float[Array, ""], key: RandomKey
    ) -> tuple[TrainState[WorldModel], tuple[Posterior, Metrics]]:
        """One step of the world model. batch.obs: preprocessed; unit: see ``WorldModel.loss``."""
        return gradient_step(
            self.world.optimizer, lambda model: model.loss(batch, key, unit=unit, config=self.world), world
        )

    def _improve_behaviour(
        self,
        agent: DreamerAgent,
        objective: Objective[Any],
        objective_state: PyTree,
        starts: Starts,
        key: RandomKey,
    ) -> tuple[DreamerAgent, PyTree, Metrics]:
        """One step of the actor up the imagined returns, one of the critic towards them."""
        optimizer = self.behaviour.optimizer
        actor, imagined = gradient_step(
            optimizer,
            lambda actor: self.actor_loss(actor, agent, objective, objective_state, starts, key),
            agent.actor,
        )
        critic, critic_metrics = gradient_step(
            optimizer, lambda critic: self.critic_loss(critic, imagined, starts.skill, starts.known), agent.critic
        )
        updates = agent.updates + 1
        renewed = updates % self.behaviour.target_every == 0
        target = jax.tree.map(lambda old, new: jnp.where(renewed, new, old), agent.target, critic.params)
        agent = agent._replace(
            actor=actor,
            critic=critic,
            target=target,
            scale=imagined.scale,
            reward_mean=imagined.reward_mean,
            updates=updates,
        )
        return agent, imagined.objective_state, {**imagined.metrics, **critic_metrics}

    # Learning a task

    def task_config(self, *, pretrained: bool) -> "Dreamer":
        """A little entropy, plain rewards, whose gradient trains the model; the skills that act are imagined too."""
        normalize = "none" if self.behaviour.normalize == "rewards" else self.behaviour.normalize
        return replace(
            self,
            world=replace(self.world, reward_head_gradient=True),
            behaviour=replace(self.behaviour, entropy=1e-4, normalize=normalize),
            objective=replace(self.objective, reward_on="imagined", reward_gradient=True, imagined_skills="replayed"),
            replay=replace(self.replay, warmup_policy=pretrained, warmup_steps=self.replay.task_warmup_steps),
        )

    def adapt(self, agent: DreamerAgent, key: RandomKey, *, keep_critic: bool = False) -> DreamerAgent:
        """Keep the world model but for its heads, and the actor; fresh heads, critic (unless kept) and optimisers."""
        return adapted(self, agent, key, keep_critic=keep_critic)

    def with_controller(self, agent: DreamerAgent, key: RandomKey, env_spec: EnvSpec, skills: int) -> DreamerAgent:
        """The agent with a fresh controller over its skills and a fresh optimiser of the actor."""
        del env_spec
        return with_controller(self, agent, key, skills)


def _episode_states(agent: DreamerAgent, obs: Shaped[Array, "t ..."], action: Float[Array, "t a"]) -> Latent:
    """Posterior states [1, t] of an episode from its start; ``action``: taken in each state."""
    before = jnp.concatenate([jnp.zeros_like(action[:1]), action[:-1]])
    first = jnp.zeros(action.shape[:1]).at[0].set(1.0)
    world = agent.world.params
    embedding = world.embed(normalize_obs(agent.image_norm, obs))
    states, _ = world.dynamics.observe(embedding[None], before[None], first[None], jax.random.key(0))
    return states
