"""Deep deterministic policy gradient as the unsupervised RL benchmark runs it.

Lillicrap et al., Continuous Control with Deep Reinforcement Learning, ICLR 2016, with the twin critics and the clipped
noise of TD3 (Fujimoto et al., 2018), n-step returns and a normalised first layer; Laskin et al., URLB: Unsupervised
Reinforcement Learning Benchmark, NeurIPS 2021 (Datasets and Benchmarks).
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree, Shaped

from skillscape.backbones.base import ReplayedBackbone
from skillscape.dists import TruncatedNormal
from skillscape.errors import UserError
from skillscape.nets import MLP, LayerNorm, Linear
from skillscape.objectives.base import Objective
from skillscape.optim import Learner, adam, descend, ema, learner
from skillscape.types import EnvSpec, Experience, Metrics, RandomKey, Schedule, Spec, Transitions, View


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

    @staticmethod
    def create(key: RandomKey, inputs: int, width: int, actions: int) -> "Actor":
        """Orthogonal weights, no controller."""
        trunk_key, hidden_key, output_key = jax.random.split(key, 3)
        return Actor(
            trunk=Trunk.create(trunk_key, inputs, width),
            hidden=Linear.orthogonal(hidden_key, width, width),
            output=Linear.orthogonal(output_key, width, actions),
            controller=None,
        )

    def __call__(self, obs: Float[Array, " d"], skill: Float[Array, " z"]) -> Float[Array, " a"]:
        """μ(s, z), or the controller's mixture."""
        if self.controller is None:
            return self._mean(obs, skill)
        share = jax.nn.softmax(self.controller(obs))
        means = jax.vmap(lambda one: self._mean(obs, one))(jnp.eye(skill.shape[0]))
        return share @ means

    def _mean(self, obs: Float[Array, " d"], skill: Float[Array, " z"]) -> Float[Array, " a"]:
        hidden = jax.nn.relu(self.hidden(self.trunk(jnp.concatenate([obs, skill]))))
        return jnp.tanh(self.output(hidden))


class Critic(eqx.Module):
    """Two values Q(s, z, a) on one trunk; with head width z they are successor features ψ, and Q = ψ·z.

    The hidden layers of the two heads are one matrix [2d, d], which is one large product instead of two.
    """

    trunk: Trunk
    hidden: Linear
    weight: Float[Array, "2 out d"]
    bias: Float[Array, "2 out"]

    @staticmethod
    def create(key: RandomKey, inputs: int, width: int, outputs: int) -> "Critic":
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
        )

    def __call__(
        self, obs: Float[Array, " d"], skill: Float[Array, " z"], action: Float[Array, " a"]
    ) -> Float[Array, "2"]:
        """Q₁ and Q₂."""
        features = self.trunk(jnp.concatenate([obs, skill, action]))
        hidden = jax.nn.relu(self.hidden(features)).reshape(2, -1)
        outputs = jnp.einsum("hod,hd->ho", self.weight, hidden) + self.bias
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs @ skill


class DDPGAgent(NamedTuple):
    """Actor and critic with their optimisers, and the slowly following copy of the critic."""

    actor: Learner[Actor]
    critic: Learner[Critic]
    target: Critic


@dataclass(frozen=True)
class DDPG(ReplayedBackbone[DDPGAgent, Transitions]):
    """DDPG with twin critics on a shared trunk, constant action noise and n-step returns."""

    view: ClassVar[View] = "transitions"
    name: ClassVar[str] = "ddpg"
    label: ClassVar[str] = "DDPG"

    width: int = 1024
    """Of every hidden layer."""
    batch_size: int = 1024
    learning_rate: float = 1e-4
    discount: float = 0.99
    """γ."""
    steps_ahead: int = 3
    """n of the n-step returns."""
    target_rate: float = 0.01
    """τ: how far the target critic moves at each learning step."""
    action_deviation: float = 0.2
    """σ of the policy, in both phases."""
    noise_clip: float = 0.3
    """How far from its mean an action may be in the losses; acting does not clip."""
    update_every: int = 2
    """Environment steps for each learning step."""
    random_steps: int = 4_000
    """Uniform random steps at the start of pre-training and of fine-tuning, before learning begins."""
    replay_capacity: int = 1_000_000
    """Transitions."""
    pairs: Literal["n-step", "one-step"] = "n-step"
    """What objectives see as s': s_{t+n} with its value at γⁿ, as URLB, or s_{t+1} with its value at γ."""
    fresh_target: bool = True
    """Fine-tuning starts with a random target critic, as URLB; otherwise with a copy of the critic."""

    @property
    def schedule(self) -> Schedule:
        """When to act at random, learn, and from how much."""
        return Schedule(
            self.random_steps,
            self.update_every,
            self.batch_size,
            self.steps_ahead,
            self.discount,
            self.replay_capacity,
        )

    def for_task(self, *, pretrained: bool) -> "DDPG":
        """Rewards of a task are summed over n steps, whatever pairs the method was pre-trained with."""
        del pretrained
        return replace(self, pairs="n-step")

    @property
    def _transform(self) -> optax.GradientTransformation:
        return adam(self.learning_rate)

    def objective_spec(self, env_spec: EnvSpec) -> Spec:
        """The observations themselves."""
        return Spec(env_spec.obs_shape, env_spec.action_dim)

    def init(self, key: RandomKey, env_spec: EnvSpec, objective: Objective[Any]) -> DDPGAgent:
        """Fresh networks; the target is a copy of the critic. Outside jit only: see ``nets.orthogonal``."""
        if env_spec.is_image:
            raise UserError("This environment shows images, which DDPG does not learn from: choose Dreamer.")
        (observations,) = env_spec.obs_shape
        inputs = observations + objective.skills.width
        outputs = objective.skills.width if objective.critic_head == "skill" else 1
        actor_key, critic_key = jax.random.split(key)
        actor = Actor.create(actor_key, inputs, self.width, env_spec.action_dim)
        critic = Critic.create(critic_key, inputs + env_spec.action_dim, self.width, outputs)
        return DDPGAgent(learner(self._transform, actor), learner(self._transform, critic), critic)

    def initial_carry(self, rows: int) -> tuple[()]:
        """Nothing is carried."""
        del rows
        return ()

    def policy_params(self, agent: DDPGAgent) -> Actor:
        """The actor is all that acting reads."""
        return agent.actor.params

    def _policy(self, actor: Actor, obs: Float[Array, "n d"], skill: Float[Array, "n z"]) -> TruncatedNormal:
        return TruncatedNormal(jax.vmap(actor)(obs, skill), self.action_deviation)

    def act(
        self,
        policy: Actor,
        carry: PyTree,
        obs: Float[Array, "n d"],
        skill: Float[Array, "n z"],
        key: RandomKey,
        explore: bool,
    ) -> tuple[Float[Array, "n a"], PyTree]:
        """The mean action, with noise where ``explore`` is on."""
        actions = self._policy(policy, obs, skill)
        if not explore:
            return actions.mean, carry
        return actions.sample(jax.random.normal(key, actions.mean.shape)), carry

    def log_prob(
        self, agent: DDPGAgent, obs: Float[Array, "n d"], skill: Float[Array, "n z"], action: Float[Array, "n a"]
    ) -> Float[Array, " n"]:
        """How likely the policy is to take these actions."""
        return self._policy(agent.actor.params, obs, skill).log_prob(action)

    def learn(
        self, agent: DDPGAgent, objective: Objective[Any], objective_state: PyTree, batch: Transitions, key: RandomKey
    ) -> tuple[DDPGAgent, PyTree, Metrics]:
        """Batch → model update → rewards → critic → actor → target.

        A method of several updates per step gets a batch of as many equal parts, one for each; the last part is what
        the agent learns from.
        """
        model_key, reward_key, target_key, actor_key = jax.random.split(key, 4)
        parts = batch.split(objective.updates_per_step)
        metrics: Metrics = {}
        for part, update_key in zip(parts, jax.random.split(model_key, len(parts)), strict=True):
            objective_state, metrics = objective.update(objective_state, self._seen(part), update_key)
        batch = parts[-1]
        seen = self._seen(batch)
        objective_state, reward, reward_metrics = objective.reward(objective_state, seen, reward_key)
        reward = jax.lax.stop_gradient(reward)

        discount = batch.next_discount if self.pairs == "one-step" else batch.discount
        next_action = self._policy(agent.actor.params, seen.next_obs, batch.skill).sample(
            jax.random.normal(target_key, batch.action.shape), self.noise_clip
        )
        next_value = jnp.min(jax.vmap(agent.target)(seen.next_obs, batch.skill, next_action), axis=-1)
        critic, critic_metrics = self._improve_critic(agent.critic, batch, reward + discount * next_value)
        noise = jax.random.normal(actor_key, batch.action.shape)
        actor, actor_metrics = self._improve_actor(agent.actor, critic.params, batch, noise)
        target = ema(agent.target, critic.params, self.target_rate)
        metrics = {**metrics, **reward_metrics, **critic_metrics, **actor_metrics, "reward": jnp.mean(reward)}
        return DDPGAgent(actor, critic, target), objective_state, metrics

    def _seen(self, batch: Transitions) -> Experience:
        """What objectives see of a batch."""
        next_obs = batch.next_obs if self.pairs == "one-step" else batch.end_obs
        return Experience(batch.obs, batch.action, next_obs, batch.skill, batch.reward)

    def _improve_critic(
        self, critic: Learner[Critic], batch: Transitions, value_target: Float[Array, " n"]
    ) -> tuple[Learner[Critic], Metrics]:
        """The sum of both critics' mean squared errors."""

        def loss(critic: Critic) -> tuple[Float[Array, ""], Metrics]:
            values = jax.vmap(critic)(batch.obs, batch.skill, batch.action)
            error = jnp.sum(jnp.mean((values - value_target[:, None]) ** 2, axis=0))
            return error, {"critic_loss": error, "value": jnp.mean(values)}

        return descend(self._transform, loss, critic)

    def _improve_actor(
        self, actor: Learner[Actor], critic: Critic, batch: Transitions, noise: Float[Array, "n a"]
    ) -> tuple[Learner[Actor], Metrics]:
        """Deterministic policy gradient through the smaller of the two values."""

        def loss(actor: Actor) -> tuple[Float[Array, ""], Metrics]:
            action = self._policy(actor, batch.obs, batch.skill).sample(noise, self.noise_clip)
            value = jnp.mean(jnp.min(jax.vmap(critic)(batch.obs, batch.skill, action), axis=-1))
            return -value, {"actor_loss": -value}

        return descend(self._transform, loss, actor)

    def adapt(self, agent: DDPGAgent, key: RandomKey, *, keep_critic: bool = False) -> DDPGAgent:
        """Keep the actor and the critic's trunk, or all of it; fresh heads, optimisers, and (as URLB) random target."""
        critic_key, target_key = jax.random.split(key)
        old = agent.critic.params
        width, inputs = old.trunk.linear.weight.shape
        outputs = old.bias.shape[1]
        fresh = Critic.create(critic_key, inputs, width, outputs)
        critic = old if keep_critic else eqx.tree_at(lambda one: one.trunk, fresh, old.trunk)
        target = Critic.create(target_key, inputs, width, outputs) if self.fresh_target else critic
        return DDPGAgent(learner(self._transform, agent.actor.params), learner(self._transform, critic), target)

    def objective_obs(
        self, agent: DDPGAgent, obs: Shaped[Array, "t ..."], action: Float[Array, "t a"]
    ) -> Shaped[Array, "t ..."]:
        """The states themselves."""
        del agent, action
        return obs

    def with_controller(self, agent: DDPGAgent, key: RandomKey, env_spec: EnvSpec, skills: int) -> DDPGAgent:
        """The agent with a fresh controller over its skills, at first indifferent between them."""
        (observations,) = env_spec.obs_shape
        network = MLP.create(key, observations, (self.width,), skills)
        indifferent = eqx.tree_at(
            lambda one: (one.layers[-1].weight, one.layers[-1].bias), network, replace_fn=jnp.zeros_like
        )
        actor = eqx.tree_at(
            lambda one: one.controller, agent.actor.params, indifferent, is_leaf=lambda leaf: leaf is None
        )
        return agent._replace(actor=learner(self._transform, actor))
