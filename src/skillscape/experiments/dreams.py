"""What a world model makes of what happens, and what it expects of the same actions by itself."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, UInt8

from skillscape.backbones.dreamer.agent import Dreamer, DreamerAgent
from skillscape.envs.base import HostEnv
from skillscape.errors import UserError
from skillscape.training.jobs import JobRun
from skillscape.types import Sequences

CONTEXT = 5
"""Frames that the model is shown before it goes on by itself."""

Film = UInt8[np.ndarray, "t h w 3"]


class Dreamed:
    """Plays episodes of a run that was trained from images, and imagines them after the first frames."""

    def __init__(self, run: JobRun) -> None:
        """Make the environment and load the newest snapshot."""
        backbone, spec = run.config.backbone, run.spec
        if not (isinstance(backbone, Dreamer) and spec.is_image and spec.obs_shape[2] == 3):
            raise UserError(
                f"{run.folder} has no world model of images; --imagined is for walker-pixels, quadruped-pixels, "
                "maze-pixels/NAME and environments with images in colour."
            )
        self.step, agent, _ = run.snapshot()
        self._agent: DreamerAgent = agent
        self._backbone = backbone
        self._env: HostEnv = run.config.make_env()
        self._act: Callable[..., tuple[Array, PyTree]] = jax.jit(
            lambda policy, carry, obs, skill: backbone.act(policy, carry, obs, skill, jax.random.key(0), False)
        )
        self._predict = jax.jit(backbone.predict, static_argnums=2)

    @property
    def horizon(self) -> int:
        """The longest an episode can be."""
        return self._env.spec.horizon

    def play(self, skill: Float[np.ndarray, " z"], steps: int) -> tuple[Film, Film, Film]:
        """Frames of an episode, the model's of each when it has seen it, and those after it has seen ``CONTEXT``."""
        policy, carry = self._backbone.policy_params(self._agent), self._backbone.initial_carry(1)
        frames, actions = [self._env.reset(0)], [np.zeros(self._env.spec.action_dim, np.float32)]
        for _ in range(steps):
            action, carry = self._act(policy, carry, frames[-1][None], skill[None])
            actions.append(np.asarray(action[0]))
            result = self._env.step(actions[-1])
            frames.append(result.obs)
            if result.terminated or result.truncated:
                break
        real = np.stack(frames)
        length = len(real)
        first = np.zeros((1, length), np.float32)
        first[0, 0] = 1
        batch = Sequences(
            obs=jnp.asarray(real[None]),
            action=jnp.asarray(np.stack(actions)[None]),
            reward=jnp.zeros((1, length)),
            discount=jnp.ones((1, length)),
            skill=jnp.broadcast_to(jnp.asarray(skill), (1, length, len(skill))),
            first=jnp.asarray(first),
        )
        return real, self._decoded(batch, length), self._decoded(batch, CONTEXT)

    def _decoded(self, batch: Sequences, context: int) -> Film:
        expected = np.asarray(self._predict(self._agent, batch, context))[0]
        frames: Film = np.clip(np.round(255 * (expected + 0.5)), 0, 255).astype(np.uint8)
        return frames

    def close(self) -> None:
        """Close the environment."""
        self._env.close()
