"""What DDPG and SAC share: an actor and twin critics that learn from single replayed transitions."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeVar, final

import jax
import optax
from jaxtyping import Array, Float, PyTree

from skillscape.backbones.base import VectorBackbone
from skillscape.dists import SquashedNormal, TruncatedNormal
from skillscape.optim import adam
from skillscape.ranges import FRACTION, NON_NEGATIVE, POSITIVE
from skillscape.types import RandomKey, Transitions

Agent = TypeVar("Agent")


@dataclass(frozen=True, kw_only=True)
class OffPolicy(VectorBackbone[Agent, Transitions]):
    """Settings and acting of backbones with an actor and twin critics; each defines its networks and its learning."""

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
