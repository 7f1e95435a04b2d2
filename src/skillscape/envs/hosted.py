"""A compiled environment stepped by ordinary Python, one episode at a time."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, Shaped

from skillscape.envs.base import HostEnv, HostStep, JaxEnv
from skillscape.types import EnvSpec


class Compiled(NamedTuple):
    """The functions of a ``JaxEnv``, jitted; episodes are named by their seeds."""

    reset: Callable[[int], PyTree]
    """The state that the episode of a seed begins in."""
    reset_for_evaluation: Callable[[int], PyTree]
    """The same for an evaluation episode."""
    observe: Callable[[PyTree], Array]
    """The observation of a state."""
    step: Callable[..., tuple[PyTree, Array, Float[Array, "2"]]]
    """Of a state, an action, the episode's seed and how many steps it makes with this: the new state, its observation,
    and (reward, terminated) as one array, which is one transfer instead of two."""


@cache
def compiled(env: JaxEnv) -> Compiled:
    """Compiled once and shared by all equal environments."""

    def step(
        state: PyTree, action: Array, seed: Int[Array, ""], count: Int[Array, ""]
    ) -> tuple[PyTree, Array, Float[Array, "2"]]:
        state, result = env.step(state, action, jax.random.fold_in(jax.random.key(seed), count))
        return state, result.obs, jnp.stack([result.reward, result.terminated])

    return Compiled(
        jax.jit(lambda seed: env.reset(jax.random.key(seed))),
        jax.jit(lambda seed: env.reset_for_evaluation(jax.random.key(seed))),
        jax.jit(env.observe),
        jax.jit(step),
    )


@final
class HostedJaxEnv(HostEnv):
    """A ``JaxEnv`` as a ``HostEnv``: one call of a compiled function a step, truncated at the horizon.

    An episode begins with the key of its seed, k; step t = 1, 2, … draws from ``fold_in(k, t)``.
    """

    def __init__(self, env: JaxEnv) -> None:
        self._functions = compiled(env)
        self._spec = env.spec
        self._state: PyTree = None
        self._seed = 0
        self._count = self._spec.horizon

    @property
    def spec(self) -> EnvSpec:
        """That of the compiled environment."""
        return self._spec

    @property
    def state(self) -> PyTree:
        """The present state of the compiled environment; None before the first reset."""
        return self._state

    def reset(self, seed: int) -> Shaped[np.ndarray, "..."]:
        """Begin the episode of this seed."""
        return self.reset_to(self._functions.reset(seed), seed)

    def reset_for_evaluation(self, seed: int) -> Shaped[np.ndarray, "..."]:
        """Begin the episode of this seed where evaluation episodes do."""
        return self.reset_to(self._functions.reset_for_evaluation(seed), seed)

    def reset_to(self, state: PyTree, seed: int) -> Shaped[np.ndarray, "..."]:
        """Begin the episode of this seed in a given state."""
        self._state, self._seed, self._count = state, seed, 0
        return np.array(self._functions.observe(state))

    def step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        """Take one step of the compiled environment."""
        if self._count >= self._spec.horizon:
            raise RuntimeError("The episode is over; call reset() first.")
        self._count += 1
        self._state, obs, outcome = self._functions.step(self._state, action, self._seed, self._count)
        reward, terminated = np.asarray(outcome).tolist()
        truncated = self._count == self._spec.horizon and not terminated
        if terminated:
            self._count = self._spec.horizon
        return HostStep(np.array(obs), reward, bool(terminated), truncated)

    def close(self) -> None:
        """End the episode; nothing else is held."""
        self._count = self._spec.horizon
