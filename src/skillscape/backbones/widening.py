"""A pre-trained agent in an environment that shows more than before: the goal of a task, at the end of observations."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree, Shaped


def widened(agent: PyTree, like: PyTree, width: int) -> PyTree:
    """An agent that reads longer observations, and acts as before whatever their new entries are.

    ``like``: shapes of an agent for the longer observations; ``width``: entries of the shorter ones, which come first
    in what networks read. Weights of the new entries, which follow them, are zero.
    """

    def widen(old: Shaped[Array, "..."], new: jax.ShapeDtypeStruct) -> Shaped[Array, "..."]:
        if old.shape == new.shape:
            return old
        (axis,) = (axis for axis, sizes in enumerate(zip(old.shape, new.shape, strict=True)) if sizes[0] != sizes[1])
        blank = jnp.zeros([*old.shape[:axis], new.shape[axis] - old.shape[axis], *old.shape[axis + 1 :]], old.dtype)
        first, rest = jnp.split(old, [width], axis=axis)
        return jnp.concatenate([first, blank, rest], axis=axis)

    return jax.tree.map(widen, agent, like)
