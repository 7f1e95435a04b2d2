"""Soft actor-critic with an automatic temperature.

Haarnoja et al., Soft Actor-Critic Algorithms and Applications, 2018, with the sizes and rates that METRA's line of work
trains skills with: two hidden layers of 1024, Adam 1e-4, batches of 256, τ = 0.005, γ = 0.99, and half an action's
worth of target entropy (Park et al., METRA: Scalable Unsupervised RL with Metric-Aware Abstraction, ICLR 2024).
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from skillscape.backbones.controller import controlled, mixture
from skillscape.backbones.off_policy import OffPolicy
from skillscape.dists import SquashedNormal
from skillscape.nets import MLP
from skillscape.objectives.base import Objective
from skillscape.optim import TrainState, ema, gradient_step
from skillscape.ranges import FRACTION, POSITIVE
from skillscape.replay import EpisodeIndex, Replay
from skillscape.types import EnvSpec, Experience, Metrics, RandomKey, Schedule, Transitions

LOG_STD_RANGE = (-10.0, 2.0)


class Actor(eqx.Module):
    """The policy's distribution over actions π(·|s, z): mean and log standard deviation before the tanh.

    With a ``controller``, c(z|s), both are mixed over all skills by c(z|s): the skill it is given does not matter then.
    """

    network: MLP
    controller: MLP | None
    skill_scale: float = eqx.field(static=True)

    def __call__(self, obs: Float[Array, " d"], skill: Float[Array, " z"]) -> Float[Array, " out"]:
        """Means, then log standard deviations."""
        if self.controller is None:
            return self._outputs(obs, skill)
        outputs: Float[Array, " out"] = mixture(
            self.controller, obs, lambda each: self._outputs(obs, each), skill.shape[0]
        )
        return outputs

    def _outputs(self, obs: Float[Array, " d"], skill: Float[Array, " z"]) -> Float[Array, " out"]:
        return self.network(jnp.concatenate([obs, self.skill_scale * skill]))


class Critic(eqx.Module):
    """Two values Q(s, z, a) of networks of their own; with head width z they are successor features ψ, and Q = ψ·z."""

    networks: MLP
    """Both networks, stacked along the first axis of every array."""
    skill_scale: float = eqx.field(static=True)

    @staticmethod
    def create(key: RandomKey, inputs: int, hidden: tuple[int, ...], outputs: int, skill_scale: float) -> "Critic":
        """Two independent networks."""
        networks = jax.vmap(lambda head: MLP.create(head, inputs, hidden, outputs))(jax.random.split(key))
        return Critic(networks, skill_scale)

    def __call__(
        self, obs: Float[Array, " d"], skill: Float[Array, " z"], action: Float[Array, " a"]
    ) -> Float[Array, "2"]:
        """Q₁ and Q₂."""
        inputs = jnp.concatenate([obs, self.skill_scale * skill, action])
        outputs: Float[Array, "2 out"] = jax.vmap(lambda network: network(inputs))(self.networks)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs @ skill


class SACAgent(NamedTuple):
    """Actor, critic and log temperature with their optimisers, and the slowly following copy of the critic."""

    actor: TrainState[Actor]
    critic: TrainState[Critic]
    log_temperature: TrainState[Float[Array, ""]]
    target: Critic


@dataclass(frozen=True)
class SAC(OffPolicy[SACAgent]):
    """Soft actor-critic: twin critics, a squashed Gaussian policy, and a temperature that holds its entropy."""

    name: ClassVar[str] = "sac"
    label: ClassVar[str] = "SAC"

    hidden: Annotated[tuple[int, ...], POSITIVE] = (1024, 1024)
    """Widths of the hidden layers of actor and critics."""
    batch_size: Annotated[int, POSITIVE] = 256
    """Transitions in the batch of an update."""
    tau: Annotated[float, FRACTION, POSITIVE] = 0.005
    """Update rate τ of the target critics: fraction of the way to the critics per update."""
    initial_temperature: Annotated[float, POSITIVE] = 0.01
    """Initial temperature α, the weight of the policy's entropy."""
    entropy_scale: float = 0.5
    """Target entropy divided by minus the number of action dimensions, in nats."""

    def init(self, key: RandomKey, env_spec: EnvSpec, objective: Objective[Any]) -> SACAgent:
        """Fresh networks; the target is a copy of the critic."""
        inputs = self.observation_width(env_spec) + objective.skills.width
        actor_key, critic_key = jax.random.split(key)
        actor = Actor(MLP.create(actor_key, inputs, self.hidden, 2 * env_spec.action_dim), None, self.skill_scale)
        critic = Critic.create(
            critic_key, inputs + env_spec.action_dim, self.hidden, objective.critic_width, self.skill_scale
        )
        return self._agent(actor, critic)

    # Acting

    def policy_params(self, agent: SACAgent) -> Actor:
        """The actor is all that acting reads."""
        return agent.actor.params

    def policy(self, actor: Actor, obs: Float[Array, "n d"], skill: Float[Array, "n z"]) -> SquashedNormal:
        """A normal in front of a tanh."""
        mean, log_std = jnp.split(jax.vmap(actor)(obs, skill), 2, axis=-1)
        return SquashedNormal(mean, jnp.clip(log_std, *LOG_STD_RANGE))

    # Learning

    @property
    def schedule(self) -> Schedule:
        """When to act at random, learn, and from how much; returns are one step long."""
        return Schedule(self.warmup_steps, self.update_every, self.batch_size, 1, self.discount, self.replay_capacity)

    def sample(
        self, replay: Replay, episode_index: EpisodeIndex, updates: int, skill: Float[np.ndarray, " z"] | None = None
    ) -> Transitions | None:
        """Transitions under the skills that acted; as many batches at once as the objective's model has updates."""
        del skill
        return replay.sample(self.batch_size * updates, episode_index) if episode_index.drawable else None

    def critic_loss(
        self, critic: Critic, batch: Transitions, value_target: Float[Array, " n"]
    ) -> tuple[Float[Array, ""], Metrics]:
        """The sum of both critics' mean squared errors."""
        values = jax.vmap(critic)(batch.obs, batch.skill, batch.action)
        loss = jnp.sum(jnp.mean((values - value_target[:, None]) ** 2, axis=0))
        return loss, {"critic_loss": loss, "value": jnp.mean(values)}

    def actor_loss(
        self,
        actor: Actor,
        critic: Critic,
        temperature: Float[Array, ""],
        batch: Transitions,
        noise: Float[Array, "n a"],
    ) -> tuple[Float[Array, ""], Metrics]:
        """E[α log π(a|s, z) − min Q(s, z, a)] through a reparameterised action."""
        policy = self.policy(actor, batch.obs, batch.skill)
        values = jnp.min(jax.vmap(critic)(batch.obs, batch.skill, policy.sample(noise)), axis=-1)
        log_prob = policy.log_prob_of_noise(noise)
        loss, entropy = jnp.mean(temperature * log_prob - values), -jnp.mean(log_prob)
        return loss, {"actor_loss": loss, "policy_entropy": entropy}

    def temperature_loss(
        self, log_temperature: Float[Array, ""], surplus: Float[Array, ""]
    ) -> tuple[Float[Array, ""], Metrics]:
        """log α · (entropy − target): raises α where the entropy is below its target, lowers it where above."""
        return log_temperature * surplus, {"temperature": jnp.exp(log_temperature)}

    def learn(
        self, agent: SACAgent, objective: Objective[Any], objective_state: PyTree, batch: Transitions, key: RandomKey
    ) -> tuple[SACAgent, PyTree, Metrics]:
        """Batch → model update → rewards → skills to learn under → critic → actor → temperature → target."""
        model_key, reward_key, target_key, actor_key = jax.random.split(key, 4)
        # As in DDPG: a part of the batch for each update of the objective; the agent learns from the last.
        parts = batch.split(objective.updates_per_step)
        metrics: Metrics = {}
        for part, update_key in zip(parts, jax.random.split(model_key, len(parts)), strict=True):
            objective_state, metrics = objective.update(objective_state, self._experience(part), update_key)
        batch = parts[-1]
        experience = self._experience(batch)
        objective_state, reward, reward_metrics = objective.reward(objective_state, experience, reward_key)
        batch = batch._replace(skill=objective.relabel(objective_state, experience, reward_key))
        reward = jax.lax.stop_gradient(reward)
        metrics = {**metrics, **reward_metrics, "reward": jnp.mean(reward)}

        temperature = jnp.exp(agent.log_temperature.params)
        policy = self.policy(agent.actor.params, batch.next_obs, batch.skill)
        noise = jax.random.normal(target_key, batch.action.shape)
        next_value = jnp.min(jax.vmap(agent.target)(batch.next_obs, batch.skill, policy.sample(noise)), axis=-1)
        soft_value = next_value - temperature * policy.log_prob_of_noise(noise)
        value_target = reward + batch.next_discount * soft_value
        critic, critic_metrics = gradient_step(
            self._transform, lambda critic: self.critic_loss(critic, batch, value_target), agent.critic
        )
        noise = jax.random.normal(actor_key, batch.action.shape)
        actor, actor_metrics = gradient_step(
            self._transform, lambda actor: self.actor_loss(actor, critic.params, temperature, batch, noise), agent.actor
        )
        # The target entropy is −``entropy_scale`` per action dimension.
        surplus = actor_metrics["policy_entropy"] + self.entropy_scale * batch.action.shape[-1]
        log_temperature, temperature_metrics = gradient_step(
            self._transform, lambda log: self.temperature_loss(log, surplus), agent.log_temperature
        )
        target = ema(agent.target, critic.params, self.tau)
        metrics = {**metrics, **critic_metrics, **actor_metrics, **temperature_metrics}
        return SACAgent(actor, critic, log_temperature, target), objective_state, metrics

    # Learning a task

    def task_config(self, *, pretrained: bool) -> "SAC":
        """The same settings."""
        del pretrained
        return self

    def adapt(self, agent: SACAgent, key: RandomKey, *, keep_critic: bool = False) -> SACAgent:
        """Keep the actor, and the critic where asked; fresh critics, optimisers and temperature otherwise."""
        critic = agent.critic.params
        return self._agent(agent.actor.params, critic if keep_critic else _redrawn(critic, key))

    def with_controller(self, agent: SACAgent, key: RandomKey, env_spec: EnvSpec, skills: int) -> SACAgent:
        """The agent with a fresh controller over its skills and a fresh optimiser of the actor."""
        network = MLP.create(key, self.observation_width(env_spec), self.hidden[:1], skills)
        return agent._replace(actor=TrainState.create(self._transform, controlled(agent.actor.params, network)))

    # Helpers

    def _experience(self, batch: Transitions) -> Experience:
        """The batch as objectives see it: single steps."""
        return Experience(batch.obs, batch.action, batch.next_obs, batch.skill, batch.reward)

    def _agent(self, actor: Actor, critic: Critic) -> SACAgent:
        """Networks with fresh optimisers, target and temperature."""
        log_temperature = jnp.log(jnp.float32(self.initial_temperature))
        return SACAgent(
            TrainState.create(self._transform, actor),
            TrainState.create(self._transform, critic),
            TrainState.create(self._transform, log_temperature),
            critic,
        )


def _redrawn(critic: Critic, key: RandomKey) -> Critic:
    """A critic of the same sizes with fresh weights."""
    layers = critic.networks.layers
    inputs, outputs = layers[0].weight.shape[-1], layers[-1].weight.shape[-2]
    hidden = tuple(layer.weight.shape[-2] for layer in layers[:-1])
    return Critic.create(key, inputs, hidden, outputs, critic.skill_scale)
