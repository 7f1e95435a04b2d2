"""The records that the layers hand to each other. No logic lives here.

Shape letters used in every docstring of the library: ``n`` rows of a flat batch, ``t`` time steps,
``e`` episodes run side by side, ``a`` action dimensions, ``z`` width of a skill vector, ``k`` skills.
"""

from typing import Literal, NamedTuple, TypeAlias

from jaxtyping import Array, Float, Key, Shaped

Metrics: TypeAlias = dict[str, Float[Array, ""]]
"""Named scalars that a learning step reports; always computed, logged or not."""

RandomKey: TypeAlias = Key[Array, ""]
"""One typed JAX random key."""

Benchmark: TypeAlias = Literal["maze", "maze-pixels", "urlb", "urlb-pixels", "locomotion", "playground"]
"""Whose settings apply: mazes or URLB, each from numbers or from images, METRA's locomotion, or MuJoCo Playground."""


class Spec(NamedTuple):
    """Shapes of the states that an objective is applied to; it picks an MLP or a CNN by them.

    States of three dimensions are images [height, width, channel], of bytes or of numbers in [-½, ½].
    """

    obs_shape: tuple[int, ...]
    action_dim: int


class EnvSpec(NamedTuple):
    """Sizes of an environment. Actions are always in [-1, 1]; environments scale them to their own units.

    Observations of three dimensions are images, uint8 [height, width, channel]; all others are float32 vectors.
    ``goal_dim``: the last entries of the observation that only a task shows, its goal; 0 without a task.
    """

    obs_shape: tuple[int, ...]
    action_dim: int
    horizon: int
    goal_dim: int = 0

    @property
    def is_image(self) -> bool:
        """Whether observations are images."""
        return len(self.obs_shape) == 3

    @property
    def without_goal(self) -> "EnvSpec":
        """The sizes that the same environment has without a task."""
        if not self.goal_dim:
            return self
        (width,) = self.obs_shape
        return EnvSpec((width - self.goal_dim,), self.action_dim, self.horizon)


class Experience(NamedTuple):
    """A flat batch of transitions, with states as the backbone passes them to objectives.

    obs and next_obs: [n, ...]; action: [n, a]; skill: [n, z] (the skill that chose the action); reward: [n].
    """

    obs: Shaped[Array, "n ..."]
    action: Float[Array, "n a"]
    next_obs: Shaped[Array, "n ..."]
    skill: Float[Array, "n z"]
    reward: Float[Array, " n"]

    def states(self, end: "RewardState") -> Shaped[Array, "n ..."]:
        """The states that were left, or those that were reached."""
        return self.obs if end == "obs" else self.next_obs


RewardState: TypeAlias = Literal["obs", "next_obs"]
"""The state of a transition that a method rewards.

URLB's code rewards s for some methods; a world model rewards s'.
"""


class Rollout(NamedTuple):
    """Episodes run side by side, time first.

    ``discount`` is 0 where the task ended and 1 elsewhere; ``last`` marks the final step of an episode, ended or cut.
    ``next_obs`` is the state the action led to, also at the last step, before any reset.
    """

    obs: Shaped[Array, "t e ..."]
    action: Float[Array, "t e a"]
    next_obs: Shaped[Array, "t e ..."]
    skill: Float[Array, "t e z"]
    reward: Float[Array, "t e"]
    discount: Float[Array, "t e"]
    last: Float[Array, "t e"]


class Transitions(NamedTuple):
    """A batch from a replay buffer: what one action led to, one step and n steps later.

    ``reward`` is the discounted sum over the n steps and ``discount`` what the value at ``bootstrap_obs`` counts for:
    γⁿ, or 0 where the task ended on the way. ``next_discount`` is the same for ``next_obs``. Arrays of the host: they
    move to the device when the update is called.
    """

    obs: Shaped[Array, "n ..."]
    action: Float[Array, "n a"]
    skill: Float[Array, "n z"]
    reward: Float[Array, " n"]
    discount: Float[Array, " n"]
    bootstrap_obs: Shaped[Array, "n ..."]
    next_obs: Shaped[Array, "n ..."]
    next_discount: Float[Array, " n"]

    def split(self, number: int) -> "list[Transitions]":
        """The batch cut into equal parts."""
        rows = self.reward.shape[0] // number
        return [
            Transitions(*(values[begin : begin + rows] for values in self)) for begin in range(0, number * rows, rows)
        ]


class Sequences(NamedTuple):
    """Stretches of episodes from a replay buffer, none across two episodes, the batch first.

    Row t is a state with what led to it: ``action`` is the one taken before it and ``reward`` what arriving there gave,
    both 0 in the first state of an episode; ``discount`` is 0 where the task ended there and 1 elsewhere; ``skill``
    chose that action, or chooses the first one. ``first`` is 1 where nothing before is known: at t = 0 and in the first
    state of an episode. Arrays of the host, as in ``Transitions``.
    """

    obs: Shaped[Array, "b t ..."]
    action: Float[Array, "b t a"]
    reward: Float[Array, "b t"]
    discount: Float[Array, "b t"]
    skill: Float[Array, "b t z"]
    first: Float[Array, "b t"]


class Schedule(NamedTuple):
    """When a backbone that learns from replay begins to learn, how often it does, and from how much."""

    warmup_steps: int
    """Environment steps before the first update: uniform random, or by the policy if ``warmup_policy``."""
    update_every: int
    """Environment steps for each learning step."""
    batch_size: int
    """Transitions, or sequences, of a batch."""
    nstep: int
    """n of the n-step returns."""
    discount: float
    """γ."""
    capacity: int
    """Transitions that the buffer holds."""
    sequence_length: int = 1
    """States of each sequence, where the backbone learns from sequences."""
    warmup_policy: bool = False
    """Whether the policy takes the first steps, which are not learned from yet, instead of chance."""
