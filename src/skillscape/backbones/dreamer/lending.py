"""What objectives are shown of replayed states, and where imagination begins."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.backbones.dreamer.world_model import Latent
from skillscape.types import Experience, RandomKey, Sequences


def standardised(rows: Float[Array, "p q x"]) -> Float[Array, "p q x"]:
    """Each row with mean zero and variance one over its entries: the same scale at any time of the training."""
    centred = rows - jnp.mean(rows, axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1e-5)


def pairs(
    lent: Shaped[Array, "b t ..."], feature: Float[Array, "b t f"], batch: Sequences
) -> tuple[Experience, Float[Array, "n f"]]:
    """Neighbours in time as one flat batch, and the model's feature of the later one of each.

    lent: what objectives see of each state, a vector or an image.
    No pair crosses the beginning of an episode: its place is taken by another pair of the batch.
    """
    rows = batch.first[:, 1:].size
    broken = batch.first[:, 1:].reshape(rows) > 0
    order = jnp.argsort(broken)
    chosen = order[jnp.arange(rows) % jnp.maximum(jnp.sum(~broken), 1)]

    def picked(part: Shaped[Array, "b t1 ..."]) -> Shaped[Array, "n ..."]:
        return part.reshape(rows, *part.shape[2:])[chosen]

    seen = Experience(
        obs=picked(lent[:, :-1]),
        action=picked(batch.action[:, 1:]),
        next_obs=picked(lent[:, 1:]),
        skill=picked(batch.skill[:, 1:]),
        reward=picked(batch.reward[:, 1:]),
    )
    return seen, picked(feature[:, 1:])


class Starts(NamedTuple):
    """Where imagination begins: n replayed states, with what led there."""

    state: Latent
    before: Float[Array, "n x"]
    """What objectives see of the state before; of the state itself where none is known."""
    action: Float[Array, "n a"]
    skill: Float[Array, "n z"]
    known: Float[Array, " n"]
    """Whether the state before is known, and with it the reward of arriving here."""


def replayed_starts(
    posterior: Latent, lent: Float[Array, "b t x"], batch: Sequences, number: int, key: RandomKey
) -> Starts:
    """``number`` states drawn from the batch, or all where that is 0, with the skills that acted in them."""
    rows = batch.first.size
    chosen = jax.random.permutation(key, rows)[:number] if 0 < number < rows else jnp.arange(rows)

    def picked(part: Float[Array, "b t ..."]) -> Float[Array, "n ..."]:
        return part.reshape(rows, *part.shape[2:])[chosen]

    before = jnp.concatenate([lent[:, :1], lent[:, :-1]], axis=1)
    # The skill that acts in a state is the one that chose the action after it.
    acting = jnp.concatenate([batch.skill[:, 1:], batch.skill[:, -1:]], axis=1)
    return Starts(
        state=Latent(*(picked(part) for part in posterior)),
        before=picked(jnp.where(batch.first[:, :, None] > 0, lent, before)),
        action=picked(batch.action),
        skill=picked(acting),
        known=picked(1 - batch.first),
    )
