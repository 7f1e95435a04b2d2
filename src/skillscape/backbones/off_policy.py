"""What DDPG and SAC share: an actor and twin critics that learn from single replayed transitions."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar, final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree

from skillscape.backbones.base import VectorBackbone
from skillscape.dists import SquashedNormal, TruncatedNormal
from skillscape.objectives.base import Objective
from skillscape.optim import adam
from skillscape.ranges import FRACTION, NON_NEGATIVE, POSITIVE
from skillscape.replay import EpisodeIndex, Replay
from skillscape.types import Experience, Metrics, RandomKey, Transitions

Agent = TypeVar("Agent")


@dataclass(frozen=True, kw_only=True)
class OffPolicy(VectorBackbone[Agent, Transitions]):
    """Settings, acting and rewards of backbones with actor and twin critics; each defines its networks and losses."""

    relabels: ClassVar[bool] = True

    learning_rate: Annotated[float, POSITIVE] = 1e-4
    """Adam's learning rate for actor, critics and, where there is one, temperature."""
    discount: Annotated[float, FRACTION] = 0.99
    """Discount factor γ of the returns."""
    update_every: Annotated[int, POSITIVE] = 2
    """Environment steps between two updates."""
    warmup_steps: Annotated[int, NON_NEGATIVE] = 4_000
    """Environment steps with uniformly random actions before the first update, in pre-training and in fine-tuning."""
    replay_capacity: Annotated[int, POSITIVE] = 1_000_000
    """Capacity of the replay buffer in transitions."""
    skill_scale: Annotated[float, POSITIVE] = 1.0
    """Factor on the skill vector at the inputs of actor and critics."""

    @property
    def _transform(self) -> optax.GradientTransformation:
        return adam(self.learning_rate)

    @abstractmethod
    def policy(
        self, actor: PyTree, obs: Float[Array, "n d"], skill: Float[Array, "n z"]
    ) -> TruncatedNormal | SquashedNormal:
        """π(·|s, z)."""

    @abstractmethod
    def experience(self, batch: Transitions) -> Experience:
        """A batch as objectives see it."""

    @final
    def act(
        self,
        policy: PyTree,
        carry: PyTree,
        obs: Float[Array, "n d"],
        skill: Float[Array, "n z"],
        key: RandomKey,
        explore: bool,
    ) -> tuple[Float[Array, "n a"], PyTree]:
        """A draw from the policy, or its mode where ``explore`` is off."""
        actions = self.policy(policy, obs, skill)
        return (actions.sample(jax.random.normal(key, actions.mean.shape)) if explore else actions.mode()), carry

    @final
    def log_prob(
        self, agent: Agent, obs: Float[Array, "n d"], skill: Float[Array, "n z"], action: Float[Array, "n a"]
    ) -> Float[Array, " n"]:
        """How likely the policy is to take these actions."""
        return self.policy(self.policy_params(agent), obs, skill).log_prob(action)

    @final
    def sample(
        self, replay: Replay, episode_index: EpisodeIndex, updates: int, skill: Float[np.ndarray, " z"] | None = None
    ) -> Transitions | None:
        """Transitions under the skills that acted; as many batches at once as the objective's model has updates."""
        del skill
        return replay.sample(self.schedule.batch_size * updates, episode_index) if episode_index.drawable else None

    @final
    def rewarded(
        self, objective: Objective[Any], state: PyTree, batch: Transitions, model_key: RandomKey, reward_key: RandomKey
    ) -> tuple[PyTree, Transitions, Float[Array, " n"], Metrics]:
        """Batch → updates of the objective's model → rewards → skills to learn under.

        An objective of several updates per step gets a part of the batch for each. Returned are its state, the last
        part, from which the agent learns, under the skills that the objective relabels it with, and its rewards.
        """
        parts = batch.split(objective.updates_per_step)
        metrics: Metrics = {}
        for part, update_key in zip(parts, jax.random.split(model_key, len(parts)), strict=True):
            state, metrics = objective.update(state, self.experience(part), update_key)
        seen = self.experience(parts[-1])
        state, reward, reward_metrics = objective.reward(state, seen, reward_key)
        batch = parts[-1]._replace(skill=objective.relabel(state, seen, reward_key))
        reward = jax.lax.stop_gradient(reward)
        return state, batch, reward, {**metrics, **reward_metrics, "reward": jnp.mean(reward)}


def critic_loss(
    critic: PyTree, batch: Transitions, value_target: Float[Array, " n"]
) -> tuple[Float[Array, ""], Metrics]:
    """The sum of both critics' mean squared errors."""
    values = jax.vmap(critic)(batch.obs, batch.skill, batch.action)
    loss = jnp.sum(jnp.mean((values - value_target[:, None]) ** 2, axis=0))
    return loss, {"critic_loss": loss, "value": jnp.mean(values)}
