"""Returns of a policy on host environments: several episodes side by side, so that the policy acts in one batch."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from skillscape.backbones.base import Backbone
from skillscape.envs.base import HostEnv


class Returns(NamedTuple):
    """What episodes earned and how long they were. Both: [episodes]."""

    returns: Float[np.ndarray, " e"]
    lengths: Float[np.ndarray, " e"]


class Evaluator:
    """Plays deterministic episodes with a policy, each held to a skill of its own."""

    def __init__(self, envs: Sequence[HostEnv], backbone: Backbone[Any, Any]) -> None:
        """One environment per episode that is played at the same time."""
        self._envs = list(envs)
        self._backbone = backbone
        self._act = jax.jit(
            lambda policy, carry, obs, skill: backbone.act(policy, carry, obs, skill, jax.random.key(0), False)
        )

    def play(self, policy: PyTree, skills: Float[np.ndarray, "e z"], seeds: Sequence[int]) -> Returns:
        """One episode per row of ``skills`` and per seed; as many of both as there are environments."""
        rows = len(self._envs)
        obs = np.stack([env.reset(seed) for env, seed in zip(self._envs, seeds, strict=True)])
        held = jnp.asarray(skills)
        carry = self._backbone.initial_carry(rows)
        returns, lengths, running = np.zeros(rows), np.zeros(rows), np.ones(rows, bool)
        while running.any():
            actions, carry = self._act(policy, carry, obs, held)
            actions = np.asarray(actions)
            for row in np.flatnonzero(running):
                step = self._envs[row].step(actions[row])
                obs[row] = step.obs
                returns[row] += step.reward
                lengths[row] += 1
                running[row] = not (step.terminated or step.truncated)
        return Returns(returns, lengths)

    def close(self) -> None:
        """Close the environments."""
        for env in self._envs:
            env.close()
