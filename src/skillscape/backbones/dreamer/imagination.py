"""Actor and critic, the trajectories that are imagined for them, and the returns of these.

Imagined trajectories are time first: [h + 1, n, ...], the start included. The reward of a state is that of arriving in
it, so a state's value includes its own reward: V(sₜ) = rₜ + γ V(sₜ₊₁).
"""

from typing import Literal, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from skillscape.backbones.controller import mixture
from skillscape.backbones.dreamer.world_model import RSSM, Latent
from skillscape.dists import TruncatedNormal, TwoHot
from skillscape.nets import MLP
from skillscape.types import RandomKey

CriticKind: TypeAlias = Literal["normal", "two-hot", "successor"]
BINS = 255
"""Bins of a two-hot critic."""


class Actor(eqx.Module):
    """π(a|s, z): a normal with mean in (-1, 1) and standard deviation in (0.1, 2.1), clamped when drawn.

    With a ``controller``, c(z|s), means and standard deviations are mixed by Σ_z c(z|s): the skill it is
    given does not matter.
    """

    network: MLP
    controller: MLP | None
    skill_scale: float = eqx.field(static=True, default=1.0)
    """Factor on the skill at the network's input, beside features of hundreds of entries."""

    def __call__(self, feature: Float[Array, " f"], skill: Float[Array, " z"]) -> TruncatedNormal:
        """The distribution of one action."""
        return self.with_output_l2(feature, skill)[0]

    def with_output_l2(
        self, feature: Float[Array, " f"], skill: Float[Array, " z"]
    ) -> tuple[TruncatedNormal, Float[Array, ""]]:
        """The distribution, and ½ |x|² of the network's outputs x before the tanh."""
        if self.controller is None:
            mean, std, output_l2 = self._moments(feature, skill)
            return TruncatedNormal(mean, std), output_l2
        mean, std, output_l2 = mixture(
            self.controller, feature, lambda each: self._moments(feature, each), skill.shape[0]
        )
        return TruncatedNormal(mean, std), output_l2

    def _moments(
        self, feature: Float[Array, " f"], skill: Float[Array, " z"]
    ) -> tuple[Float[Array, " a"], Float[Array, " a"], Float[Array, ""]]:
        outputs = self.network(jnp.concatenate([feature, self.skill_scale * skill]))
        mean, raw = jnp.split(outputs, 2)
        return jnp.tanh(mean), 2 * jax.nn.sigmoid(raw / 2) + 0.1, 0.5 * jnp.sum(outputs**2)


class Critic(eqx.Module):
    """V(s, z): the mean of a normal, of a two-hot distribution, or successor features times the skill, ψ·z."""

    network: MLP
    kind: CriticKind = eqx.field(static=True)
    skill_scale: float = eqx.field(static=True, default=1.0)
    """Factor on the skill at the network's input, as the actor's."""

    @property
    def outputs(self) -> int:
        """Number of the network's outputs."""
        return self.network.layers[-1].bias.shape[0]

    def _raw(self, feature: Float[Array, "p q f"], skill: Float[Array, "q z"]) -> Float[Array, "p q out"]:
        skills = jnp.broadcast_to(self.skill_scale * skill[None], (feature.shape[0], *skill.shape))
        return jax.vmap(jax.vmap(self.network))(jnp.concatenate([feature, skills], axis=-1))

    def values(self, feature: Float[Array, "p q f"], skill: Float[Array, "q z"]) -> Float[Array, "p q"]:
        """V of every state; skill: that of each trajectory."""
        raw = self._raw(feature, skill)
        if self.kind == "two-hot":
            return TwoHot(raw).mean()
        return raw[:, :, 0] if self.kind == "normal" else jnp.sum(raw * skill[None], axis=-1)

    def nll(
        self, feature: Float[Array, "p q f"], skill: Float[Array, "q z"], target: Float[Array, "p q"]
    ) -> Float[Array, "p q"]:
        """−log likelihood of the targets, constants left out."""
        if self.kind == "two-hot":
            return TwoHot(self._raw(feature, skill)).cross_entropy(target)
        return 0.5 * (self.values(feature, skill) - target) ** 2


class Dream(NamedTuple):
    """Imagined trajectories: states, the start first, actions between them, and the policy's entropy and output L2."""

    states: Latent
    action: Float[Array, "h n a"]
    entropy: Float[Array, "h n"]
    output_l2: Float[Array, "h n"]
    """½ |x|² of the actor's outputs x; see ``Actor.with_output_l2``."""


def imagine(
    dynamics: RSSM, actor: Actor, start: Latent, skill: Float[Array, "n z"], horizon: int, key: RandomKey
) -> Dream:
    """Follow the policy for ``horizon`` steps from n states, each under its own skill.

    Neither the start nor what the policy reads passes gradients on: they reach the actor through its actions, by what
    these do to the states that follow.
    """
    rows = skill.shape[0]
    action_key, state_key = jax.random.split(key)
    actions = actor.network.layers[-1].bias.shape[0] // 2
    noise = jax.random.normal(action_key, (horizon, rows, actions))
    uniform = jax.random.uniform(state_key, (horizon, rows, dynamics.stoch))

    def step(
        state: Latent, now: tuple[Float[Array, "n a"], Float[Array, "n s"]]
    ) -> tuple[Latent, tuple[Latent, Float[Array, "n a"], Float[Array, " n"], Float[Array, " n"]]]:
        noise, uniform = now
        policy, output_l2 = jax.vmap(actor.with_output_l2)(jax.lax.stop_gradient(state.feature), skill)
        action = policy.sample(noise)
        state = dynamics.imagine_step(state, action, uniform)
        return state, (state, action, policy.entropy(), output_l2)

    start = jax.lax.stop_gradient(start)
    _, (states, action, entropy, output_l2) = jax.lax.scan(step, start, (noise, uniform))
    whole = Latent(*(jnp.concatenate([first[None], rest]) for first, rest in zip(start, states, strict=True)))
    return Dream(whole, action, entropy, output_l2)


def lambda_returns(
    reward: Float[Array, "h1 n"], value: Float[Array, "h1 n"], discount: Float[Array, "h1 n"], lambda_: float
) -> Float[Array, "h n"]:
    """Gₜ = rₜ + γₜ [(1 − λ) vₜ₊₁ + λ Gₜ₊₁], begun with the last value; one fewer than there are states."""

    def step(
        later: Float[Array, " n"], now: tuple[Float[Array, " n"], Float[Array, " n"], Float[Array, " n"]]
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        reward, discount, next_value = now
        here = reward + discount * ((1 - lambda_) * next_value + lambda_ * later)
        return here, here

    _, returns = jax.lax.scan(step, value[-1], (reward[:-1], discount[:-1], value[1:]), reverse=True)
    return returns


def cumulative_weights(discount: Float[Array, "h1 n"]) -> Float[Array, "h1 n"]:
    """wₜ = Π_{k<t} γₖ: how much of a trajectory is still alive, and worth caring for, at each state. No gradient."""
    ones = jnp.ones_like(discount[:1])
    return jax.lax.stop_gradient(jnp.cumprod(jnp.concatenate([ones, discount[:-1]]), axis=0))


def track_magnitude(magnitude: Float[Array, ""], reward: Float[Array, "h n"], momentum: float) -> Float[Array, ""]:
    """μ m + (1 − μ) mean |r|: the running size of rewards, which are divided by it."""
    return momentum * magnitude + (1 - momentum) * jnp.mean(jnp.abs(jax.lax.stop_gradient(reward)))


def track_mean(
    mean: Float[Array, ""], reward: Float[Array, "h n"], updates: Int[Array, ""], momentum: float
) -> Float[Array, ""]:
    """The mean of all rewards for the first 1 / (1 − μ) updates, then m ← μ m + (1 − μ) mean r."""
    share = jnp.maximum(1 / (updates + 1), 1 - momentum)
    return mean + share * (jnp.mean(jax.lax.stop_gradient(reward)) - mean)


def track_range(spread: Float[Array, ""], returns: Float[Array, "h n"], rate: float) -> Float[Array, ""]:
    """The running distance from the 5th to the 95th percentile of returns."""
    ends: Array = jnp.quantile(jax.lax.stop_gradient(returns), jnp.asarray([0.05, 0.95]))
    return (1 - rate) * spread + rate * (ends[1] - ends[0])
