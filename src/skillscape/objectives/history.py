"""Recent states and their skills, for a method that fits more than the newest batch without a replay buffer."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from skillscape.conv import preprocess
from skillscape.objectives.encoders import empty_states, to_storage
from skillscape.types import RandomKey


class History(NamedTuple):
    """A queue of states with their skills, newest first, images as bytes; ``filled``: rows in use."""

    obs: Shaped[Array, "rows ..."]
    skill: Float[Array, "rows z"]
    filled: Int[Array, ""]

    @staticmethod
    def create(rows: int, obs_shape: tuple[int, ...], skill_width: int) -> "History":
        """An empty queue; one without rows keeps nothing."""
        return History(empty_states(rows, obs_shape), jnp.zeros((rows, skill_width)), jnp.asarray(0, jnp.int32))

    @property
    def rows(self) -> int:
        """The number of states that fit in."""
        return self.skill.shape[0]

    def include(self, obs: Shaped[Array, "n ..."], skill: Float[Array, "n z"]) -> "History":
        """The queue with these states in front, its oldest dropped."""
        if not self.rows:
            return self
        newest = jax.vmap(to_storage)(jax.lax.stop_gradient(obs))
        return History(
            jnp.concatenate([newest, self.obs])[: self.rows],
            jnp.concatenate([skill, self.skill])[: self.rows],
            jnp.minimum(self.filled + skill.shape[0], self.rows),
        )

    def mixed_into(
        self, obs: Shaped[Array, "n ..."], skill: Float[Array, "n z"], newest_fraction: float, key: RandomKey
    ) -> tuple[Float[Array, "n ..."], Float[Array, "n z"]]:
        """A batch, preprocessed, of which about ``newest_fraction`` is kept and the rest drawn from the queue."""
        obs = preprocess(obs)
        if not self.rows:
            return obs, skill
        number = obs.shape[0]
        index_key, choice_key = jax.random.split(key)
        index = jax.random.randint(index_key, (number,), 0, jnp.maximum(self.filled, 1))
        is_old = (jax.random.uniform(choice_key, (number, 1)) > newest_fraction) & (self.filled > 0)
        old = preprocess(self.obs[index])
        return (
            jnp.where(is_old.reshape(number, *[1] * (obs.ndim - 1)), old, obs),
            jnp.where(is_old, self.skill[index], skill),
        )
