"""Reconstructions and open-loop predictions of a world model on the frames of an episode."""

from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, UInt8

from skillscape.backbones.dreamer.agent import Dreamer
from skillscape.backbones.dreamer.networks import DreamerAgent
from skillscape.errors import UserError
from skillscape.training.policy import compiled_act
from skillscape.training.run import Run
from skillscape.types import Sequences

CONTEXT = 5
"""Number of observed frames before the open-loop prediction."""

Frames: TypeAlias = UInt8[np.ndarray, "t h w 3"]


class OpenLoop:
    """Runs episodes of a run that was trained from images, and predicts their frames."""

    def __init__(self, run: Run) -> None:
        """Create the environment and load the newest snapshot."""
        backbone = run.config.backbone
        refusal = UserError(f"{run.folder} has no world model of images; --imagined is for Dreamer on colour images.")
        if not isinstance(backbone, Dreamer):
            raise refusal
        env = run.config.host_env()
        if not (env.spec.is_image and env.spec.obs_shape[2] == 3):
            env.close()
            raise refusal
        self.step, agent, _ = run.snapshot()
        self._agent: DreamerAgent = agent
        self._backbone = backbone
        self.env = env
        self._act = compiled_act(backbone, False)
        self._predict = jax.jit(backbone.predict, static_argnums=2)

    def run(self, skill: Float[np.ndarray, " z"], steps: int) -> tuple[Frames, Frames, Frames]:
        """Frames of an episode, their reconstructions, and the open-loop predictions after ``CONTEXT`` frames."""
        params, carry = self._backbone.policy_params(self._agent), self._backbone.initial_carry(1)
        key = jax.random.key(0)
        frames, actions = [self.env.reset(0)], [np.zeros(self.env.spec.action_dim, np.float32)]
        for _ in range(steps):
            action, carry = self._act(params, carry, frames[-1][None], skill[None], key)
            actions.append(np.asarray(action[0]))
            result = self.env.step(actions[-1])
            frames.append(result.obs)
            if result.terminated or result.truncated:
                break
        real = np.stack(frames)
        length = len(real)
        batch = Sequences(
            obs=jnp.asarray(real[None]),
            action=jnp.asarray(np.stack(actions)[None]),
            reward=jnp.zeros((1, length)),
            discount=jnp.ones((1, length)),
            skill=jnp.broadcast_to(jnp.asarray(skill), (1, length, len(skill))),
            first=jnp.zeros((1, length)).at[:, 0].set(1),
        )
        reconstructed, predicted = (
            np.clip(np.round(255 * (np.asarray(self._predict(self._agent, batch, context))[0] + 0.5)), 0, 255)
            for context in (length, CONTEXT)
        )
        return real, reconstructed.astype(np.uint8), predicted.astype(np.uint8)
