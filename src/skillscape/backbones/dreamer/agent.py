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
    track_centre,
    track_magnitude,
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

    frames: ImageNorm | None
    encoder: Encoder
    dynamics: RSSM
    actor: Actor


class Belief(NamedTuple):
    """What acting carries: the recurrent state after the newest action, and the steps since the episode began."""

    deter: Float[Array, "n d"]
    time: Int[Array, " n"]


@dataclass(frozen=True)
class Dreamer(DreamerConfig, Backbone[DreamerAgent, Sequences]):
    """DreamerV2: discrete latents, KL balancing, and an actor that climbs the gradient of imagined returns."""

    name: ClassVar[str] = "dreamer"
    label: ClassVar[str] = "Dreamer"

    # Agents

    def init(self, key: RandomKey, env_spec: EnvSpec, objective: Objective[Any]) -> DreamerAgent:
        """Fresh networks; the target is a copy of the critic."""
        if self.horizon < 2:
            raise UserError(f"--backbone.horizon must be at least 2, not {self.horizon}.")
        # One compiled program instead of a hundred small ones.
        created: DreamerAgent = jax.jit(lambda key: create(self, key, env_spec, objective))(key)
        return created

    def task_config(self, *, pretrained: bool) -> "Dreamer":
        """A little entropy, plain rewards, whose gradient shapes the model; the skills that act are imagined too."""
        return replace(
            self,
            entropy=1e-4,
            normalise="none" if self.normalise == "rewards" else self.normalise,
            reward_shapes_model=True,
            reward_on="imagined",
            reward_gradient=True,
            imagined_skills="replayed",
            warmup_policy=pretrained,
            warmup_steps=self.policy_steps,
        )

    def adapt(self, agent: DreamerAgent, key: RandomKey, *, keep_critic: bool = False) -> DreamerAgent:
        """Keep the world model but for its heads, and the actor; fresh heads, critic (unless kept) and optimisers."""
        return adapted(self, agent, key, keep_critic=keep_critic)

    def with_controller(self, agent: DreamerAgent, key: RandomKey, env_spec: EnvSpec, skills: int) -> DreamerAgent:
        """The agent with a fresh controller over its skills and a fresh optimiser of the actor."""
        del env_spec
        return with_controller(self, agent, key, skills)

    # Acting

    def initial_carry(self, rows: int) -> Belief:
        """Nothing remembered."""
        return Belief(jnp.zeros((rows, self.memory)), jnp.zeros(rows, jnp.int32))

    def policy_params(self, agent: DreamerAgent) -> DreamerPolicy:
        """Moments of images, encoder, dynamics and actor."""
        world = agent.world.params
        return DreamerPolicy(agent.frames, world.encoder, world.dynamics, agent.actor.params)

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
        dynamics, rows = policy.dynamics, skill.shape[0]
        actions = dynamics.enter.weight.shape[1] - self.groups * self.classes
        deter, sample = dynamics.initial(rows)
        fresh = jax.vmap(dynamics.transition)(deter, sample, jnp.zeros((rows, actions)))
        deter = jnp.where(carry.time[:, None] == 0, fresh, carry.deter)
        embedding = jax.vmap(policy.encoder)(normalize_obs(policy.frames, obs))
        logits = jax.vmap(dynamics.infer_posterior)(deter, jax.vmap(dynamics.project_embedding)(embedding))

        def draw(key: RandomKey, time: Int[Array, ""]) -> tuple[Float[Array, " s"], Float[Array, " a"]]:
            state_key, action_key = jax.random.split(jax.random.fold_in(key, time))
            return jax.random.uniform(state_key, (self.groups,)), jax.random.normal(action_key, (actions,))

        uniform, noise = jax.vmap(draw)(jax.random.split(key, rows), carry.time)
        state = Latent(deter, OneHot(logits).sample(uniform), logits)
        distribution = jax.vmap(policy.actor)(state.feature, skill)
        action = distribution.sample(noise) if explore else distribution.mean
        return action, Belief(jax.vmap(dynamics.transition)(deter, state.sample, action), carry.time + 1)

    def log_prob(
        self, agent: DreamerAgent, obs: Shaped[Array, "t ..."], skill: Float[Array, "t z"], action: Float[Array, "t a"]
    ) -> Float[Array, " t"]:
        """How likely the policy is to take these actions, one after the other, having seen what came before."""
        states = _episode_states(agent, obs, action)
        distribution: TruncatedNormal = jax.vmap(agent.actor.params)(states.feature[0], skill)
        return distribution.log_prob(action)

    def predict(self, agent: DreamerAgent, batch: Sequences, context: int) -> Float[Array, "b t ..."]:
        """Observations (images in [-½, ½]) as the model decodes the first ``context``, and as it predicts the rest."""
        known = batch._replace(obs=normalize_obs(agent.frames, batch.obs))
        expected = agent.world.params.predict(known, context, jax.random.key(0))
        return expected if agent.frames is None else agent.frames.restored(expected)

    # What objectives see

    def objective_spec(self, env_spec: EnvSpec) -> Spec:
        """Features of the world model; of replayed observations, they themselves or the embeddings of images."""
        return objective_spec(self, env_spec)

    def objective_obs(
        self, agent: DreamerAgent, obs: Shaped[Array, "t ..."], action: Float[Array, "t a"]
    ) -> Float[Array, "t x"]:
        """What imagined states are scored by: the model's features of the states."""
        return objective_features(self, _episode_states(agent, obs, action))[0]

    # Learning

    @property
    def schedule(self) -> Schedule:
        """When learning begins, how often, and from how much."""
        return Schedule(
            self.warmup_steps,
            self.update_every,
            self.batch_size,
            1,
            self.discount,
            self.replay_capacity,
            self.sequence_length,
            self.warmup_policy,
        )

    def sample(
        self, replay: Replay, episode_index: EpisodeIndex, updates: int, skill: Float[np.ndarray, " z"] | None = None
    ) -> Sequences | None:
        """Sequences, all updates of an objective's model from the same ones."""
        del updates
        if not len(episode_index.long_enough(self.sequence_length)):
            return None
        drawn = replay.sample_sequences(self.batch_size, self.sequence_length, episode_index)
        # What is imagined goes on under the skill that was chosen, also from states that others led to.
        return drawn if skill is None else drawn._replace(skill=jnp.broadcast_to(skill, drawn.skill.shape))

    def too_short(self, steps: int) -> TooShort | None:
        """A sequence of L states needs L − 1 steps."""
        if steps + 1 >= self.sequence_length:
            return None
        return TooShort(f"sequences of {self.sequence_length} states", "sequence_length", steps + 1)

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
        obs, unit, frames = preprocess(batch.obs), jnp.ones(()), agent.frames
        if frames is not None:
            frames = frames.include(obs)
            obs, unit = frames.standardised(obs), frames.unit
        world, (posterior, metrics) = self._improve_world(agent.world, batch._replace(obs=obs), unit, world_key)
        objective_state, intrinsic, objective_metrics = fit_objective(
            self, objective, objective_state, agent.intrinsic, posterior, batch, (model_key, head_key)
        )
        agent = agent._replace(world=world, intrinsic=intrinsic, frames=frames)
        starts = imagined_starts(self, posterior, batch, objective.skills, start_key)
        agent, objective_state, behaviour_metrics = self._improve_behaviour(
            agent, objective, objective_state, starts, dream_key
        )
        return agent, objective_state, {**metrics, **objective_metrics, **behaviour_metrics}

    def _improve_world(
        self, world: TrainState[WorldModel], batch: Sequences, unit: Float[Array, ""], key: RandomKey
    ) -> tuple[TrainState[WorldModel], tuple[Posterior, Metrics]]:
        """One step of the world model. batch.obs: preprocessed; unit: see ``WorldModel.loss``."""

        def loss(world: WorldModel) -> tuple[Float[Array, ""], tuple[Posterior, Metrics]]:
            return world.loss(
                batch,
                key,
                unit=unit,
                divergence_scale=self.divergence_scale,
                balance=self.balance,
                free_nats=self.free_nats,
                reward_shapes_model=self.reward_shapes_model,
            )

        return gradient_step(self.model_transform, loss, world)

    def _improve_behaviour(
        self,
        agent: DreamerAgent,
        objective: Objective[Any],
        objective_state: PyTree,
        starts: Starts,
        key: RandomKey,
    ) -> tuple[DreamerAgent, PyTree, Metrics]:
        """One step of the actor up the imagined returns, one of the critic towards them."""
        world, target = agent.world.params, agent.target
        head = None if agent.intrinsic is None else agent.intrinsic.params
        dream_key, reward_key = jax.random.split(key)
        skill = starts.skill

        def actor_loss(actor: Actor) -> tuple[Float[Array, ""], tuple[Any, ...]]:
            dream = imagine(world.dynamics, actor, starts.state, skill, self.horizon, dream_key)
            feature = dream.states.feature
            state, reward, metrics = imagined_reward(
                self, world, head, objective, objective_state, starts, dream, feature, reward_key
            )
            scale, centre = agent.scale, agent.centre
            scaled = reward
            if self.centred and world.ends is None:
                centre = track_centre(centre, reward[1:], agent.updates, self.centre_rate)
                scaled = reward - centre
            if self.normalise == "rewards":
                scale = track_magnitude(scale, reward[1:], self.reward_rate)
                scaled = scaled / (scale + 1e-8)
            discount = self.discount * world.continue_prob(feature)
            value = target.values(feature, skill)
            returns = lambda_returns(scaled, value, discount, self.trace_decay)
            weight = cumulative_weights(discount)
            gain = returns[1:]
            if self.normalise == "returns":
                scale = track_range(scale, returns, self.range_rate)
                gain = gain / jnp.maximum(scale, 1.0)
            entropy = dream.entropy[:-1]
            strain = dream.strain[:-1]
            loss = -jnp.mean(weight[:-2] * (gain + self.entropy * entropy - self.restraint * strain))
            metrics = {
                **metrics,
                "actor_loss": loss,
                "entropy": jnp.mean(entropy),
                "strain": jnp.mean(strain),
                "reward": jnp.mean(reward[1:]),
                "imagined_return": jnp.mean(returns),
                "value": jnp.mean(value),
                "scale": scale,
                "centre": centre,
            }
            return loss, (feature, returns, weight, scale, centre, state, metrics)

        actor, (feature, returns, weight, scale, centre, objective_state, metrics) = gradient_step(
            self.transform, actor_loss, agent.actor
        )
        # The reward of arriving at a start is not known where nothing came before it.
        weight = jnp.concatenate([weight[:1] * starts.known[None], weight[1:-1]])

        def critic_loss(critic: Critic) -> tuple[Float[Array, ""], Metrics]:
            error = jnp.mean(weight * critic.nll(feature[:-1], skill, returns))
            return error, {"critic_loss": error}

        critic, critic_metrics = gradient_step(self.transform, critic_loss, agent.critic)
        updates = agent.updates + 1
        renewed = updates % self.target_every == 0
        target = jax.tree.map(lambda old, new: jnp.where(renewed, new, old), target, critic.params)
        agent = agent._replace(actor=actor, critic=critic, target=target, scale=scale, centre=centre, updates=updates)
        return agent, objective_state, {**metrics, **critic_metrics}


def _episode_states(agent: DreamerAgent, obs: Shaped[Array, "t ..."], action: Float[Array, "t a"]) -> Latent:
    """Posterior states [1, t] of an episode from its start; ``action``: taken in each state."""
    before = jnp.concatenate([jnp.zeros_like(action[:1]), action[:-1]])
    first = jnp.zeros(action.shape[:1]).at[0].set(1.0)
    world = agent.world.params
    embedding = world.embed(normalize_obs(agent.frames, obs))
    states, _ = world.dynamics.observe(embedding[None], before[None], first[None], jax.random.key(0))
    return states
