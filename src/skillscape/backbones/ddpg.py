"""Deep deterministic policy gradient as the unsupervised RL benchmark runs it.

Lillicrap et al., Continuous Control with Deep Reinforcement Learning, ICLR 2016, with the twin critics and the clipped
noise of TD3 (Fujimoto et al., 2018), n-step returns and a normalised first layer; Laskin et al., URLB: Unsupervised
Reinforcement Learning Benchmark, NeurIPS 2021 (Datasets and Benchmarks).
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from skillscape.backbones.base import TooShort
from skillscape.backbones.controller import controlled, mixture
from skillscape.backbones.off_policy import OffPolicy
from skillscape.dists import TruncatedNormal
from skillscape.nets import MLP, LayerNorm, Linear
from skillscape.objectives.base import Objective
from skillscape.optim import TrainState, ema, gradient_step
from skillscape.ranges import FRACTION, POSITIVE
from skillscape.replay import EpisodeIndex, Replay
from skillscape.types import EnvSpec, Experience, Metrics, RandomKey, Schedule, Transitions


class Trunk(eqx.Module):
    """The first layer of actor and critic: linear, layer norm, tanh."""

    linear: Linear
    norm: LayerNorm

    @staticmethod
    def create(key: RandomKey, inputs: int, width: int) -> "Trunk":
        """Orthogonal weights."""
        return Trunk(Linear.orthogonal(key, inputs, width), LayerNorm.create(width))

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " d"]:
        """One vector of width d, each entry in (-1, 1)."""
        return jnp.tanh(self.norm(self.linear(x)))


class Actor(eqx.Module):
    """The mean action μ(s, z), in (-1, 1).

    With a ``controller``, c(z|s), the mean is Σ_z c(z|s) μ(s, z): the skill it is given does not matter then.
    """

    trunk: Trunk
    hidden: Linear
    output: Linear
    controller: MLP | None
    skill_scale: float = eqx.field(static=True)

    @staticmethod
    def create(key: RandomKey, inputs: int, width: int, actions: int, skill_scale: float) -> "Actor":
        """Orthogonal weights, no controller."""
        trunk_key, hidden_key, output_key = jax.random.split(key, 3)
        return Actor(
            trunk=Trunk.create(trunk_key, inputs, width),
            hidden=Linear.orthogonal(hidden_key, width, width),
            output=Linear.orthogonal(output_key, width, actions),
            controller=None,
            skill_scale=skill_scale,
        )

    def __call__(self, obs: Float[Array, " d"], skill: Float[Array, " z"]) -> Float[Array, " a"]:
        """μ(s, z), or the controller's mixture."""
        if self.controller is None:
            return self._mean(obs, skill)
        mean: Float[Array, " a"] = mixture(self.controller, obs, lambda each: self._mean(obs, each), skill.shape[0])
        return mean

    def _mean(self, obs: Float[Array, " d"], skill: Float[Array, " z"]) -> Float[Array, " a"]:
        hidden = jax.nn.relu(self.hidden(self.trunk(jnp.concatenate([obs, self.skill_scale * skill]))))
        return jnp.tanh(self.output(hidden))


class Critic(eqx.Module):
    """Two values Q(s, z, a) on one trunk; with head width z they are successor features ψ, and Q = ψ·z.

    The hidden layers of the two heads are one matrix [2d, d], which is one large product instead of two.
    """

    trunk: Trunk
    hidden: Linear
    weight: Float[Array, "2 out d"]
    bias: Float[Array, "2 out"]
    skill_scale: float = eqx.field(static=True)

    @staticmethod
    def create(key: RandomKey, inputs: int, width: int, outputs: int, skill_scale: float) -> "Critic":
        """Orthogonal weights, each head on its own."""
        trunk_key, *head_keys = jax.random.split(key, 5)
        hidden = [Linear.orthogonal(head_key, width, width) for head_key in head_keys[:2]]
        last = [Linear.orthogonal(head_key, width, outputs) for head_key in head_keys[2:]]
        return Critic(
            trunk=Trunk.create(trunk_key, inputs, width),
            hidden=Linear(
                jnp.concatenate([head.weight for head in hidden]), jnp.concatenate([head.bias for head in hidden])
            ),
            weight=jnp.stack([head.weight for head in last]),
            bias=jnp.stack([head.bias for head in last]),
            skill_scale=skill_scale,
        )

    def __call__(
        self, obs: Float[Array, " d"], skill: Float[Array, " z"], action: Float[Array, " a"]
    ) -> Float[Array, "2"]:
        """Q₁ and Q₂."""
        features = self.trunk(jnp.concatenate([obs, self.skill_scale * skill, action]))
        hidden = jax.nn.relu(self.hidden(features)).reshape(2, -1)
        outputs = jnp.einsum("hod,hd->ho", self.weight, hidden) + self.bias
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs @ skill


class DDPGAgent(NamedTuple):
    """Actor and critic with their optimisers, and the slowly following copy of the critic."""

    actor: TrainState[Actor]
    critic: TrainState[Critic]
    target: Critic


@dataclass(frozen=True)
class DDPG(OffPolicy[DDPGAgent]):
    """DDPG with twin critics on a shared trunk, constant action noise and n-step returns."""

    name: ClassVar[str] = "ddpg"
    label: ClassVar[str] = "DDPG"

    width: Annotated[int, POSITIVE] = 1024
    """Width of every hidden layer of actor and critic."""
    batch_size: Annotated[int, POSITIVE] = 1024
    """Transitions in the batch of an update."""
    nstep: Annotated[int, POSITIVE] = 3
    """Number of steps n of the n-step returns."""
    tau: Annotated[float, FRACTION, POSITIVE] = 0.01
    """Update rate τ of the target critic: fraction of the way to the critic per update."""
    action_std: Annotated[float, POSITIVE] = 0.2
    """Standard deviation σ of the Gaussian noise on actions, which are in [-1, 1]."""
    noise_clip: Annotated[float, POSITIVE] = 0.3
    """Clipping range of the action noise in the losses; acting does not clip."""
    pairs: Literal["n-step", "one-step"] = "n-step"
    """Next state s' that objectives see and returns bootstrap from: s_{t+n} (as URLB) or s_{t+1}."""
    fresh_target: bool = True
    """Start fine-tuning with a random target critic, as URLB does, instead of a copy of the critic."""

    def init(self, key: RandomKey, env_spec: EnvSpec, objective: Objective[Any]) -> DDPGAgent:
        """Fresh networks; the target is a copy of the critic. Outside jit only: see ``nets.orthogonal``."""
        inputs = self.observation_width(env_spec) + objective.skills.width
        actor_key, critic_key = jax.random.split(key)
        actor = Actor.create(actor_key, inputs, self.width, env_spec.action_dim, self.skill_scale)
        critic = Critic.create(
            critic_key, inputs + env_spec.action_dim, self.width, objective.critic_width, self.skill_scale
        )
        return DDPGAgent(TrainState.create(self._transform, actor), TrainState.create(self._transform, critic), critic)

    # Acting

    def policy_params(self, agent: DDPGAgent) -> Actor:
        """The actor is all that acting reads."""
        return agent.actor.params

    def policy(self, actor: Actor, obs: Float[Array, "n d"], skill: Float[Array, "n z"]) -> TruncatedNormal:
        """A normal around the mean action, clipped to (-1, 1)."""
        return TruncatedNormal(jax.vmap(actor)(obs, skill), self.action_std)

    # Learning

    @property
    def schedule(self) -> Schedule:
        """When to act at random, learn, and from how much."""
        return Schedule(
            self.warmup_steps,
            self.update_every,
            self.batch_size,
            self.nstep,
            self.discount,
            self.replay_capacity,
        )

    def too_short(self, steps: int) -> TooShort | None:
        """An n-step return needs n steps."""
        if steps >= self.nstep:
            return None
        return TooShort(f"returns over {self.nstep} steps", "nstep", steps)

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
        self, actor: Actor, critic: Critic, batch: Transitions, noise: Float[Array, "n a"]
    ) -> tuple[Float[Array, ""], Metrics]:
        """−E[min Q(s, z, a)]: the deterministic policy gradient through the smaller of the two values."""
        action = self.policy(actor, batch.obs, batch.skill).sample(noise, self.noise_clip)
        value = jnp.mean(jnp.min(jax.vmap(critic)(batch.obs, batch.skill, action), axis=-1))
        return -value, {"actor_loss": -value}

    def learn(
        self, agent: DDPGAgent, objective: Objective[Any], objective_state: PyTree, batch: Transitions, key: RandomKey
    ) -> tuple[DDPGAgent, PyTree, Metrics]:
        """Batch → model update → rewards → skills to learn under → critic → actor → target."""
        model_key, reward_key, target_key, actor_key = jax.random.split(key, 4)
        # An objective of several updates per step gets a part of the batch for each; the agent learns from the last.
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

        next_obs, discount = self._next(batch)
        next_policy = self.policy(agent.actor.params, next_obs, batch.skill)
        next_action = next_policy.sample(jax.random.normal(target_key, batch.action.shape), self.noise_clip)
        next_value = jnp.min(jax.vmap(agent.target)(next_obs, batch.skill, next_action), axis=-1)
        value_target = reward + discount * next_value
        critic, critic_metrics = gradient_step(
            self._transform, lambda critic: self.critic_loss(critic, batch, value_target), agent.critic
        )
        noise = jax.random.normal(actor_key, batch.action.shape)
        actor, actor_metrics = gradient_step(
            self._transform, lambda actor: self.actor_loss(actor, critic.params, batch, noise), agent.actor
        )
        target = ema(agent.target, critic.params, self.tau)
        return DDPGAgent(actor, critic, target), objective_state, {**metrics, **critic_metrics, **actor_metrics}

    # Learning a task

    def task_config(self, *, pretrained: bool) -> "DDPG":
        """Rewards of a task are summed over n steps, whatever pairs the method was pre-trained with."""
        del pretrained
        return replace(self, pairs="n-step")

    def adapt(self, agent: DDPGAgent, key: RandomKey, *, keep_critic: bool = False) -> DDPGAgent:
        """Keep the actor and the critic's trunk, or all of it; fresh heads, optimisers, and (as URLB) random target."""
        old = agent.critic.params
        width, inputs = old.trunk.linear.weight.shape
        fresh = Critic.create(key, inputs, width, old.bias.shape[1], self.skill_scale)
        critic = old if keep_critic else eqx.tree_at(lambda net: net.trunk, fresh, old.trunk)
        target = fresh if self.fresh_target else critic
        return DDPGAgent(
            TrainState.create(self._transform, agent.actor.params), TrainState.create(self._transform, critic), target
        )

    def with_controller(self, agent: DDPGAgent, key: RandomKey, env_spec: EnvSpec, skills: int) -> DDPGAgent:
        """The agent with a fresh controller over its skills and a fresh optimiser of the actor."""
        network = MLP.create(key, self.observation_width(env_spec), (self.width,), skills)
        return agent._replace(actor=TrainState.create(self._transform, controlled(agent.actor.params, network)))

    # Helpers

    def _next(self, batch: Transitions) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """The state to bootstrap from, and the discount of its value."""
        if self.pairs == "one-step":
            return batch.next_obs, batch.next_discount
        return batch.bootstrap_obs, batch.discount

    def _experience(self, batch: Transitions) -> Experience:
        """The batch as objectives see it."""
        return Experience(batch.obs, batch.action, self._next(batch)[0], batch.skill, batch.reward)
