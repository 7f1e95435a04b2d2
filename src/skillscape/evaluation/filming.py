"""Episodes of a policy on a host environment, drawn while they are played."""

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import numpy as np
from jaxtyping import Float, PyTree, UInt8

from skillscape.backbones.base import Backbone
from skillscape.envs.base import Drawn
from skillscape.training.policy import compiled_act

Show: TypeAlias = Callable[[UInt8[np.ndarray, "h w 3"]], None]
"""Takes one frame."""


class Filmer:
    """Plays deterministic episodes with a policy held to one skill, and shows them."""

    def __init__(self, drawn: Drawn, backbone: Backbone[Any, Any]) -> None:
        """The environment to play in, and what acts."""
        self._drawn = drawn
        self._backbone = backbone
        self._act = compiled_act(backbone, False)

    def film(
        self,
        params: PyTree,
        skill: Float[np.ndarray, " z"],
        show: Show,
        *,
        seed: int,
        steps: int,
        every: int,
    ) -> float:
        """Return of the episode of a seed; of its first ``steps`` steps, each ``every``-th is shown, with the start.

        What comes after them is played unseen, so that the return is that of a whole episode. params: see
        ``Backbone.policy_params``.
        """
        env = self._drawn.env
        obs, carry, key = env.reset(seed), self._backbone.initial_carry(1), jax.random.key(0)
        show(self._drawn.draw())
        earned, step = 0.0, 0
        while True:
            actions, carry = self._act(params, carry, obs[None], skill[None], key)
            result = env.step(np.asarray(actions[0]))
            obs, step = result.obs, step + 1
            earned += result.reward
            over = result.terminated or result.truncated
            if step <= steps and (step % every == 0 or over):
                show(self._drawn.draw())
            if over:
                return earned

    def close(self) -> None:
        """Close the environment and what draws it."""
        self._drawn.close()
