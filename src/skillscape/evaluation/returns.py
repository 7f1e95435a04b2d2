"""Episodes of a policy on the host: several side by side, so that the policy acts in one batch."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree, Shaped

from skillscape.backbones.base import Backbone
from skillscape.envs.base import HostEnv
from skillscape.training.policy import compiled_act

SAMPLED_STATES = 50
"""States of an episode that are kept, evenly spread over the longest it can be."""


class Returns(NamedTuple):
    """What episodes earned, how long they were, and some of the states they led to."""

    returns: Float[np.ndarray, " e"]
    lengths: Float[np.ndarray, " e"]
    states: list[Shaped[np.ndarray, "m ..."]]


class Player:
    """Plays deterministic episodes with a policy, each held to a skill of its own."""

    def __init__(self, envs: Sequence[HostEnv], backbone: Backbone[Any, Any]) -> None:
        """One environment per episode that is played at the same time."""
        self._envs = list(envs)
        self._backbone = backbone
        self._act = compiled_act(backbone, False)

    def play(self, params: PyTree, skills: Float[np.ndarray, "e z"], seeds: Sequence[int]) -> Returns:
        """One episode per row of ``skills`` and per seed; as many of both as there are environments."""
        rows = len(self._envs)
        obs = np.stack([env.reset(seed) for env, seed in zip(self._envs, seeds, strict=True)])
        stride = max(1, self._envs[0].spec.horizon // SAMPLED_STATES)
        held = jnp.asarray(skills)
        carry = self._backbone.initial_carry(rows)
        key = jax.random.key(0)
        returns, lengths, running = np.zeros(rows), np.zeros(rows), np.ones(rows, bool)
        states: list[list[Shaped[np.ndarray, "..."]]] = [[] for _ in range(rows)]
        while running.any():
            actions, carry = self._act(params, carry, obs, held, key)
            actions = np.asarray(actions)
            for row in np.flatnonzero(running):
                step = self._envs[row].step(actions[row])
                obs[row] = step.obs
                returns[row] += step.reward
                lengths[row] += 1
                running[row] = not (step.terminated or step.truncated)
                if lengths[row] % stride == 0 or not running[row]:
                    states[row].append(np.array(step.obs))
        return Returns(returns, lengths, [np.stack(episode) for episode in states])

    def close(self) -> None:
        """Close the environments."""
        for env in self._envs:
            env.close()
