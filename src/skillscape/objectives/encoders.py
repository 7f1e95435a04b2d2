"""Encoders and targets for objectives, of states that are vectors or images.

The networks of an objective see a state through an ``ObsEncoder``, which learns with them. What an objective predicts,
or models the density of, is the ``coarse_target``, which is fixed: a learned target could shrink to a point and so make
its prediction trivial. For a vector both are the vector itself.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.conv import KERNEL, Kernel, area_weights, convolved, is_image, preprocess
from skillscape.nets import MLP, Linear
from skillscape.types import RandomKey

DEPTH = 16
"""Channels of an encoder's first convolution; each further one has twice as many."""
LAYERS = 4
"""Most convolutions of an encoder, 64 → 31 → 14 → 6 → 2; a smaller image has as many as it is large enough for."""
CELLS = 8
"""Most cells of a coarse target along either side."""
ENCODER_KEY = 0x657965
"""Folded into an encoder's key. Far from the small numbers: ``fold_in(key, i)`` is key i of ``split(key)``."""


def to_storage(obs: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
    """What is worth keeping of a state: an image as bytes, the inverse of ``preprocess``; a vector as it is."""
    if not is_image(obs.shape) or obs.dtype == jnp.uint8:
        return obs
    return jnp.clip(jnp.round((obs + 0.5) * 255), 0, 255).astype(jnp.uint8)


def empty_states(rows: int, shape: tuple[int, ...]) -> Shaped[Array, "rows ..."]:
    """Room for so many states as they are stored."""
    return jnp.zeros((rows, *shape), jnp.uint8 if is_image(shape) else jnp.float32)


class ObsEncoder(eqx.Module):
    """What the networks of an objective read of a state: a vector as it is, an image through convolutions of its own.

    For vectors it has no leaves: a network behind it is the network alone, to the last bit and in every checkpoint. The
    convolutions have stride two and a ReLU after each; an image too small for any is read pixel by pixel.
    """

    layers: tuple[Kernel, ...]
    width: int = eqx.field(static=True)
    """Of the vector that it gives."""

    @staticmethod
    def create(key: RandomKey, shape: tuple[int, ...]) -> "ObsEncoder":
        """For states of this shape; ``key`` may serve others too, since the eye folds one of its own out of it."""
        if not is_image(shape):
            return ObsEncoder((), shape[0])
        own = jax.random.fold_in(key, ENCODER_KEY)
        height, wide, channels = shape
        depths = [channels]
        while len(depths) <= LAYERS and min(height, wide) >= KERNEL:
            height, wide = ((side - KERNEL) // 2 + 1 for side in (height, wide))
            depths.append(DEPTH * 2 ** (len(depths) - 1))
        # Smaller weights, or biases, would leave of several layers a vector that is nearly the same for all images, and
        # so what is to tell them apart, by contrast above all, would not begin to learn.
        layers = tuple(
            Kernel.preserving(jax.random.fold_in(own, layer), KERNEL, *both)
            for layer, both in enumerate(pairwise(depths))
        )
        return ObsEncoder(layers, height * wide * depths[-1])

    def __call__(self, obs: Shaped[Array, "..."]) -> Float[Array, " e"]:
        """One state as a vector."""
        return convolved(self.layers, preprocess(obs), "relu")


class StateNet(eqx.Module):
    """An MLP on what an eye gives of a state, and on a vector beside it where there is one.

    The layers are fields of its own: on vectors its leaves are those of an ``MLP`` of the same key, also by name.
    """

    obs_encoder: ObsEncoder
    layers: tuple[Linear, ...]

    @staticmethod
    def create(
        key: RandomKey, shape: tuple[int, ...], hidden: Sequence[int], outputs: int, extra: int = 0
    ) -> "StateNet":
        """``shape``: of a state; ``extra``: entries of what comes with it."""
        obs_encoder = ObsEncoder.create(key, shape)
        return StateNet(obs_encoder, MLP.create(key, obs_encoder.width + extra, hidden, outputs).layers)

    def __call__(self, obs: Shaped[Array, "..."], extra: Float[Array, " b"] | None = None) -> Float[Array, " out"]:
        """The output at one state."""
        seen = self.obs_encoder(obs)
        return MLP(self.layers)(seen if extra is None else jnp.concatenate([seen, extra]))


def coarse_target(obs: Shaped[Array, "..."]) -> Float[Array, " o"]:
    """What an objective predicts of a state, or has a density of: a vector as it is, of an image its coarse pixels.

    These are the means over the areas of at most ``CELLS`` by ``CELLS`` equal cells, prepared: in [-½, ½].

    Reference: Ecoffet et al., First return, then explore, Nature 2021, whose cells are coarse pixels too.
    """
    if not is_image(obs.shape):
        return preprocess(obs)
    rows, columns = (jnp.asarray(area_weights(side, min(side, CELLS))) for side in obs.shape[:2])
    coarse = jnp.einsum("ih,hwc->iwc", rows, preprocess(obs))
    return jnp.einsum("jw,iwc->ijc", columns, coarse).reshape(-1)


def coarse_target_size(shape: tuple[int, ...]) -> int:
    """Entries of the outline of a state of this shape."""
    return math.prod(min(side, CELLS) for side in shape[:2]) * shape[2] if is_image(shape) else shape[0]
