"""Episodes of a policy in host environments: several in parallel, so that the policy acts on one batch."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree, Shaped

from skillscape.backbones.base import Backbone
from skillscape.envs.base import HostEnv
from skillscape.training.policy import compiled_act

SAMPLED_STATES = 50
"""States stored per episode, evenly spaced over the environment's horizon."""


class Episodes(NamedTuple):
    """Returns and lengths of e episodes, and a sample of the states each visited."""

    returns: Float[np.ndarray, " e"]
    lengths: Float[np.ndarray, " e"]
    states: list[Shaped[np.ndarray, "m ..."]]


class EpisodeRunner:
    """Runs deterministic episodes of a policy, each with a fixed skill."""

    def __init__(self, envs: Sequence[HostEnv], backbone: Backbone[Any, Any]) -> None:
        """``envs``: one environment per parallel episode."""
        self._envs = list(envs)
        self._backbone = backbone
        self._act = compiled_act(backbone, False)

    def run(
        self,
        params: PyTree,
        skills: Float[np.ndarray, "e z"],
        seeds: Sequence[int],
        on_step: Callable[[int, bool], None] = lambda _step, _done: None,
    ) -> Episodes:
        """One episode per environment, with its row of ``skills`` and its seed.

        ``on_step``: called with (0, False) after the reset, and with (step, done) after every step of an environment.
        """
        rows = len(self._envs)
        obs = np.stack([env.reset(seed) for env, seed in zip(self._envs, seeds, strict=True)])
        on_step(0, False)
        stride = max(1, self._envs[0].spec.horizon // SAMPLED_STATES)
        skill = jnp.asarray(skills)
        carry = self._backbone.initial_carry(rows)
        key = jax.random.key(0)
        returns, lengths, running = np.zeros(rows), np.zeros(rows), np.ones(rows, bool)
        states: list[list[Shaped[np.ndarray, "..."]]] = [[] for _ in range(rows)]
        while running.any():
            actions, carry = self._act(params, carry, obs, skill, key)
            actions = np.asarray(actions)
            for row in np.flatnonzero(running):
                step = self._envs[row].step(actions[row])
                obs[row] = step.obs
                returns[row] += step.reward
                lengths[row] += 1
                running[row] = not (step.terminated or step.truncated)
                if lengths[row] % stride == 0 or not running[row]:
                    states[row].append(np.array(step.obs))
                on_step(int(lengths[row]), not running[row])
        return Episodes(returns, lengths, [np.stack(episode) for episode in states])

    def close(self) -> None:
        """Close the environments."""
        for env in self._envs:
            env.close()
