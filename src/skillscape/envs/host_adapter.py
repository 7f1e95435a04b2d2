"""A ``JaxEnv`` stepped from ordinary Python, one episode at a time."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, Shaped

from skillscape.envs.base import HostEnv, HostStep, JaxEnv
from skillscape.types import EnvSpec


class CompiledEnv(NamedTuple):
    """Jitted functions of a ``JaxEnv``, with the seed of an episode in place of a key.

    ``step`` maps (state, action, seed, number of the step from 1) to the new state, its observation, and
    [reward, terminated], one array so that a step costs one transfer less.
    """

    reset: Callable[[int], PyTree]
    observe: Callable[[PyTree], Array]
    step: Callable[..., tuple[PyTree, Array, Float[Array, "2"]]]


@cache
def compile_env(env: JaxEnv) -> CompiledEnv:
    """The compiled functions, shared by all equal environments."""

    def step(
        state: PyTree, action: Array, seed: Int[Array, ""], count: Int[Array, ""]
    ) -> tuple[PyTree, Array, Float[Array, "2"]]:
        state, result = env.step(state, action, jax.random.fold_in(jax.random.key(seed), count))
        return state, result.obs, jnp.stack([result.reward, result.terminated])

    return CompiledEnv(
        jax.jit(lambda seed: env.reset(jax.random.key(seed))),
        jax.jit(env.observe),
        jax.jit(step),
    )


@final
class HostJaxEnv(HostEnv):
    """A ``JaxEnv`` as a ``HostEnv``: one call of a compiled function per step, truncated at the horizon.

    An episode starts from the key k of its seed; step t = 1, 2, … uses ``fold_in(k, t)``.
    """

    def __init__(self, env: JaxEnv) -> None:
        self._env = env
        self._functions = compile_env(env)
        self._spec = env.spec
        self.state: PyTree = None
        """The current state of the ``JaxEnv``; None before the first reset."""
        self._seed = 0
        self._count = self._spec.horizon

    @property
    def spec(self) -> EnvSpec:
        """The spec of the ``JaxEnv``."""
        return self._spec

    def reset(self, seed: int) -> Shaped[np.ndarray, "..."]:
        """Start the episode of a seed."""
        return self.reset_to(self._functions.reset(seed), seed)

    def reset_to(self, state: PyTree, seed: int) -> Shaped[np.ndarray, "..."]:
        """Start the episode of a seed in a given state."""
        self.state, self._seed, self._count = state, seed, 0
        return np.array(self._functions.observe(state))

    def reset_for_evaluation(self, seed: int) -> Shaped[np.ndarray, "..."]:
        """Start the episode of a seed in the fixed start of measured trajectories."""
        return self.reset_to(self._env.reset_for_evaluation(jax.random.key(seed)), seed)

    def step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        """Take one step of the ``JaxEnv``."""
        if self._count >= self._spec.horizon:
            raise RuntimeError("The episode is over; call reset() first.")
        self._count += 1
        self.state, obs, outcome = self._functions.step(self.state, action, self._seed, self._count)
        reward, terminated = np.asarray(outcome).tolist()
        truncated = self._count == self._spec.horizon and not terminated
        if terminated:
            self._count = self._spec.horizon
        return HostStep(np.array(obs), reward, bool(terminated), truncated)

    @property
    def position(self) -> Float[np.ndarray, " p"] | None:
        """Where the ``JaxEnv`` says that the body is; zeros before the first reset."""
        if self.state is None:
            shape = jax.eval_shape(lambda key: self._env.position(self._env.reset(key)), jax.random.key(0))
            return None if shape is None else np.zeros(shape.shape, shape.dtype)
        position = self._env.position(self.state)
        return None if position is None else np.array(position)

    def with_position(
        self, obs: Float[np.ndarray, " d"], position: Float[np.ndarray, " p"]
    ) -> Float[np.ndarray, " d"] | None:
        """What the ``JaxEnv`` would observe with the body there."""
        moved = self._env.with_position(jnp.asarray(obs), jnp.asarray(position))
        return None if moved is None else np.array(moved)

    def close(self) -> None:
        """End the episode; there is nothing else to free."""
        self._count = self._spec.horizon
