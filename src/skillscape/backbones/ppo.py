"""Proximal policy optimisation (Schulman et al., 2017) with a Beta policy, on rollouts of the newest policy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from skillscape.backbones.base import TooShort, VectorBackbone
from skillscape.backbones.controller import controlled, mixture
from skillscape.dists import Beta
from skillscape.nets import MLP
from skillscape.objectives.base import Objective
from skillscape.optim import TrainState, adam, gradient_step
from skillscape.ranges import FRACTION, NON_NEGATIVE, POSITIVE
from skillscape.stats import Moments
from skillscape.types import EnvSpec, Experience, Metrics, RandomKey, Rollout


class ActorCritic(eqx.Module):
    """Separate networks on (state, skill): the policy's 2a concentration logits, and the value.

    With a ``controller``, c(z|s), the policy's concentrations are mixed over all skills by c(z|s): the skill it is
    given does not matter then.
    """

    policy: MLP
    value: MLP
    controller: MLP | None = None


class PPOAgent(NamedTuple):
    """Networks with their optimiser, and the moments that inputs are normalised with."""

    networks: TrainState[ActorCritic]
    moments: Moments


class Sample(NamedTuple):
    """One row of a policy minibatch."""

    inputs: Float[Array, "n i"]
    action: Float[Array, "n a"]
    log_prob: Float[Array, " n"]
    advantage: Float[Array, " n"]
    value_target: Float[Array, " n"]


def advantages(
    reward: Float[Array, "t e"],
    discount: Float[Array, "t e"],
    last: Float[Array, "t e"],
    value: Float[Array, "t e"],
    next_value: Float[Array, "t e"],
    gae_lambda: float,
) -> Float[Array, "t e"]:
    """Generalised advantage estimates (Schulman et al., 2016), cut at episode ends.

    ``discount`` is γ, or 0 where the task ended; a step that is merely the last of its episode still bootstraps from
    ``next_value``, the value of the state it led to.
    """
    errors = reward + discount * next_value - value

    def backward(
        carry: Float[Array, " e"], step: tuple[Float[Array, " e"], Float[Array, " e"], Float[Array, " e"]]
    ) -> tuple[Float[Array, " e"], Float[Array, " e"]]:
        error, factor, end = step
        carry = error + factor * gae_lambda * (1 - end) * carry
        return carry, carry

    return jax.lax.scan(backward, jnp.zeros_like(value[0]), (errors, discount, last), reverse=True)[1]


@dataclass(frozen=True)
class PPO(VectorBackbone[PPOAgent, Rollout]):
    """PPO with a Beta policy and separate policy and value networks."""

    name: ClassVar[str] = "ppo"
    label: ClassVar[str] = "PPO"
    on_policy: ClassVar[bool] = True

    episodes: Annotated[int, POSITIVE] = 50
    """Episodes collected in parallel for one iteration."""
    unroll: Annotated[int | None, POSITIVE] = None
    """Environment steps T that every parallel episode advances by in one iteration; the next iteration continues it.
    None collects whole episodes."""
    hidden: Annotated[tuple[int, ...], POSITIVE] = (128, 128)
    """Widths of the hidden layers of the policy and value networks."""
    discount: Annotated[float, FRACTION] = 0.99
    """Discount factor γ of the returns."""
    gae_lambda: Annotated[float, FRACTION] = 0.98
    """Mixing parameter λ of generalised advantage estimation (GAE)."""
    clip: Annotated[float, POSITIVE] = 0.2
    """Clipping range ε of the probability ratio in the surrogate objective."""
    epochs: Annotated[int, POSITIVE] = 4
    """Passes over each iteration's batch when fitting the policy and value networks."""
    minibatches: Annotated[int, POSITIVE] = 10
    """Minibatches per pass over the batch, with one gradient step each."""
    model_epochs: Annotated[int, POSITIVE] = 4
    """Passes over each iteration's batch when fitting the objective's model, in as many minibatches."""
    learning_rate: Annotated[float, POSITIVE] = 3e-4
    """Adam's learning rate for the policy and value networks."""
    epsilon: Annotated[float, POSITIVE] = 1e-3
    """Adam's ε for the policy and value networks."""
    entropy: Annotated[float, NON_NEGATIVE] = 0.1
    """Weight of the policy's entropy (mean over action dimensions) in the loss."""
    value_weight: float = 1.0
    """Weight of the value network's squared error in the loss."""
    skill_scale: Annotated[float, POSITIVE] = 3.0
    """Factor on the skill vector at the networks' input; at 1, untrained skills behave too alike to separate."""
    normalize_obs: bool = True
    """Standardise observations by their running mean and variance before the networks read them."""
    normalize_objective_obs: bool = False
    """Standardise the states that the method sees in the same way; for observations of mixed units."""
    min_concentration: float = 1.05
    """Lower bound of the Beta policy's concentrations α and β; above 1 its density is unimodal."""

    @property
    def _transform(self) -> optax.GradientTransformation:
        return adam(self.learning_rate, epsilon=self.epsilon)

    def init(self, key: RandomKey, env_spec: EnvSpec, objective: Objective[Any]) -> PPOAgent:
        """Fresh networks."""
        inputs = self.observation_width(env_spec) + objective.skills.width
        policy_key, value_key = jax.random.split(key)
        networks = ActorCritic(
            policy=MLP.create(policy_key, inputs, self.hidden, 2 * env_spec.action_dim),
            value=MLP.create(value_key, inputs, self.hidden, 1),
        )
        return PPOAgent(TrainState.create(self._transform, networks), Moments.create(env_spec.obs_shape))

    # Acting

    def policy_params(self, agent: PPOAgent) -> PPOAgent:
        """All of it: a policy reads the moments of its inputs too."""
        return agent

    def act(
        self,
        policy: PPOAgent,
        carry: PyTree,
        obs: Float[Array, "n d"],
        skill: Float[Array, "n z"],
        key: RandomKey,
        explore: bool,
    ) -> tuple[Float[Array, "n a"], PyTree]:
        """A draw from the policy, or its mode."""
        actions = self._policy(policy.networks.params, self._inputs(policy, obs, skill))
        return (actions.sample(key) if explore else actions.mode()), carry

    def log_prob(
        self, agent: PPOAgent, obs: Float[Array, "n d"], skill: Float[Array, "n z"], action: Float[Array, "n a"]
    ) -> Float[Array, " n"]:
        """How likely the policy is to take these actions."""
        policy = self._policy(agent.networks.params, self._inputs(agent, obs, skill))
        # At ±1 itself the density is zero; the policy's own draws stay this far off, others' may not.
        return policy.log_prob(jnp.clip(action, -1 + 2e-6, 1 - 2e-6))

    # What objectives see

    def objective_obs(
        self, agent: PPOAgent, obs: Float[Array, "t d"], action: Float[Array, "t a"]
    ) -> Float[Array, "t d"]:
        """The observations, standardised if ``normalize_objective_obs``."""
        del action
        return agent.moments.normalise(obs) if self.normalize_objective_obs else obs

    # Learning

    def steps_per_iteration(self, env_spec: EnvSpec) -> int:
        """T steps, or all, of each of ``episodes`` episodes."""
        return self.episodes * (self.unroll or env_spec.horizon)

    @property
    def unroll_steps(self) -> int | None:
        """T."""
        return self.unroll

    def too_short(self, steps: int) -> TooShort | None:
        """Every part of a batch needs a step."""
        rows = self.episodes * (self.unroll or steps)
        if rows >= self.minibatches:
            return None
        return TooShort(f"{self.minibatches} parts of {self.episodes} of them", "minibatches", rows)

    def critic_loss(self, networks: ActorCritic, batch: Sample) -> tuple[Float[Array, ""], Metrics]:
        """Half the mean squared error of the value network."""
        value = jax.vmap(networks.value)(batch.inputs)[:, 0]
        loss = 0.5 * jnp.mean((value - batch.value_target) ** 2)
        return loss, {"value_loss": loss}

    def actor_loss(self, networks: ActorCritic, batch: Sample) -> tuple[Float[Array, ""], Metrics]:
        """−(clipped surrogate + entropy bonus) of the policy (PPO Eq. 7, and the last term of Eq. 9)."""
        policy = self._policy(networks, batch.inputs)
        ratio = jnp.exp(policy.log_prob(batch.action) - batch.log_prob)
        clipped = jnp.clip(ratio, 1 - self.clip, 1 + self.clip)
        surrogate = jnp.mean(jnp.minimum(ratio * batch.advantage, clipped * batch.advantage))
        entropy = jnp.mean(policy.entropy())
        return -surrogate - self.entropy * entropy, {
            "policy_loss": -surrogate,
            "entropy": entropy,
            "clipped": jnp.mean(jnp.abs(ratio - 1) > self.clip),
        }

    def learn(
        self, agent: PPOAgent, objective: Objective[Any], objective_state: PyTree, batch: Rollout, key: RandomKey
    ) -> tuple[PPOAgent, PyTree, Metrics]:
        """Rollout → model update → rewards → advantages → clipped epochs."""
        model_key, reward_key, policy_key = jax.random.split(key, 3)
        flat = Experience(*(_flatten(field) for field in batch[:5]))
        flat = flat._replace(
            obs=self.objective_obs(agent, flat.obs, flat.action),
            next_obs=self.objective_obs(agent, flat.next_obs, flat.action),
        )
        updates = self.model_epochs * objective.updates_per_step

        def fit(state: PyTree, step: tuple[Experience, RandomKey]) -> tuple[PyTree, Metrics]:
            return objective.update(state, *step)

        objective_state, model_metrics = _in_minibatches(
            fit, objective_state, flat, updates, self.minibatches, model_key
        )
        objective_state, reward, reward_metrics = objective.reward(objective_state, flat, reward_key)
        agent, policy_metrics = self._improve(agent, batch, reward.reshape(batch.reward.shape), policy_key)
        metrics = {"reward": jnp.mean(reward), "reward_std": jnp.std(reward)}
        return agent, objective_state, {**model_metrics, **reward_metrics, **policy_metrics, **metrics}

    def _improve(
        self, agent: PPOAgent, batch: Rollout, reward: Float[Array, "t e"], key: RandomKey
    ) -> tuple[PPOAgent, Metrics]:
        """The clipped epochs on one rewarded rollout."""
        networks = agent.networks.params
        inputs = _flatten(self._inputs(agent, batch.obs, batch.skill))
        next_inputs = _flatten(self._inputs(agent, batch.next_obs, batch.skill))
        action = _flatten(batch.action)
        value = jax.vmap(networks.value)(inputs)[:, 0].reshape(reward.shape)
        next_value = jax.vmap(networks.value)(next_inputs)[:, 0].reshape(reward.shape)
        advantage = advantages(reward, self.discount * batch.discount, batch.last, value, next_value, self.gae_lambda)
        samples = Sample(
            inputs=inputs,
            action=action,
            log_prob=self._policy(networks, inputs).log_prob(action),
            advantage=((advantage - jnp.mean(advantage)) / (jnp.std(advantage) + 1e-8)).reshape(-1),
            value_target=(advantage + value).reshape(-1),
        )

        def improve(
            networks: TrainState[ActorCritic], step: tuple[Sample, RandomKey]
        ) -> tuple[TrainState[ActorCritic], Metrics]:
            def loss(params: ActorCritic) -> tuple[Float[Array, ""], Metrics]:
                actor, actor_metrics = self.actor_loss(params, step[0])
                critic, critic_metrics = self.critic_loss(params, step[0])
                return actor + self.value_weight * critic, {**actor_metrics, **critic_metrics}

            return gradient_step(self._transform, loss, networks)

        trained, metrics = _in_minibatches(improve, agent.networks, samples, self.epochs, self.minibatches, key)
        return PPOAgent(trained, agent.moments.include(_flatten(batch.obs))), {
            **metrics,
            "value": jnp.mean(value),
        }

    # Learning a task

    def task_config(self, *, pretrained: bool) -> "PPO":
        """The same settings."""
        del pretrained
        return self

    def adapt(self, agent: PPOAgent, key: RandomKey, *, keep_critic: bool = False) -> PPOAgent:
        """Keep the policy and the input moments; a fresh value network and optimiser, since the reward is another."""
        networks = agent.networks.params
        if not keep_critic:
            sizes = [layer.weight.shape for layer in networks.value.layers]
            value = MLP.create(key, sizes[0][1], [outputs for outputs, _ in sizes[:-1]], sizes[-1][0])
            networks = ActorCritic(networks.policy, value, networks.controller)
        return PPOAgent(TrainState.create(self._transform, networks), agent.moments)

    def with_controller(self, agent: PPOAgent, key: RandomKey, env_spec: EnvSpec, skills: int) -> PPOAgent:
        """The agent with a fresh controller over its skills and a fresh optimiser."""
        network = MLP.create(key, self.observation_width(env_spec), self.hidden[:1], skills)
        return agent._replace(networks=TrainState.create(self._transform, controlled(agent.networks.params, network)))

    # Helpers

    def _inputs(self, agent: PPOAgent, obs: Float[Array, "*n d"], skill: Float[Array, "*n z"]) -> Float[Array, "*n i"]:
        normalised = agent.moments.normalise(obs) if self.normalize_obs else obs
        return jnp.concatenate([normalised, self.skill_scale * skill], axis=-1)

    def _policy(self, networks: ActorCritic, inputs: Float[Array, "n i"]) -> Beta:
        controller = networks.controller
        if controller is None:
            concentrations = self._concentrations(jax.vmap(networks.policy)(inputs))
        else:
            skills = controller.layers[-1].bias.shape[0]

            def mixed(obs: Float[Array, " d"]) -> Float[Array, " c"]:
                def under(skill: Float[Array, " z"]) -> Float[Array, " c"]:
                    return self._concentrations(networks.policy(jnp.concatenate([obs, self.skill_scale * skill])))

                concentrations: Float[Array, " c"] = mixture(controller, obs, under, skills)
                return concentrations

            concentrations = jax.vmap(mixed)(inputs[:, :-skills])
        alpha, beta = jnp.split(concentrations, 2, axis=-1)
        return Beta(alpha, beta)

    def _concentrations(self, logits: Float[Array, "*n c"]) -> Float[Array, "*n c"]:
        return jax.nn.softplus(logits) + self.min_concentration


def _flatten(field: Float[Array, "t e ..."]) -> Float[Array, "n ..."]:
    return field.reshape(field.shape[0] * field.shape[1], *field.shape[2:])


def _in_minibatches(
    step: Callable[[Any, tuple[Any, RandomKey]], tuple[Any, Metrics]],
    state: PyTree,
    data: PyTree,
    epochs: int,
    minibatches: int,
    key: RandomKey,
) -> tuple[PyTree, Metrics]:
    """Scan ``step`` over ``epochs`` shuffled passes of the rows of ``data``; metrics are means over the last pass.

    Rows that do not fill the last minibatch of a pass are left out of that pass.
    """
    rows = jax.tree.leaves(data)[0].shape[0]
    size = rows // minibatches
    shuffle_key, step_key = jax.random.split(key)
    orders = jax.vmap(lambda k: jax.random.permutation(k, rows))(jax.random.split(shuffle_key, epochs))
    index = orders[:, : size * minibatches].reshape(epochs * minibatches, size)
    keys = jax.random.split(step_key, epochs * minibatches)

    def one(state: PyTree, at: tuple[Int[Array, " size"], RandomKey]) -> tuple[PyTree, Metrics]:
        rows, key = at
        return step(state, (jax.tree.map(lambda field: field[rows], data), key))

    state, metrics = jax.lax.scan(one, state, (index, keys))
    return state, jax.tree.map(lambda values: jnp.mean(values[-minibatches:]), metrics)
