"""Observation encoders and prediction targets of objectives, for states that are vectors or images.

The networks of an objective read a state through an ``ObsEncoder``, which is trained with them. An objective predicts,
or models the density of, the ``coarse_target``, which is fixed: a learned target could collapse and make its prediction
trivial. For a vector both are the identity.
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
"""Channels of the first convolution; each further one has twice as many."""
LAYERS = 4
"""Maximum number of convolutions (64 → 31 → 14 → 6 → 2 pixels); smaller images get fewer."""
CELLS = 8
"""Maximum number of cells of a coarse target along either side."""
ENCODER_KEY = 0x657965
"""Folded into an encoder's key. Far from the small numbers: ``fold_in(key, i)`` is key i of ``split(key)``."""


def to_storage(obs: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
    """A state as it is stored: images as bytes, the inverse of ``preprocess``; vectors unchanged."""
    if not is_image(obs.shape) or obs.dtype == jnp.uint8:
        return obs
    return jnp.clip(jnp.round((obs + 0.5) * 255), 0, 255).astype(jnp.uint8)


def empty_states(rows: int, shape: tuple[int, ...]) -> Shaped[Array, "rows ..."]:
    """Zeros in the shape and type of ``rows`` stored states."""
    return jnp.zeros((rows, *shape), jnp.uint8 if is_image(shape) else jnp.float32)


class ObsEncoder(eqx.Module):
    """Encoder of a state: the identity for vectors, a CNN for images.

    For vectors it has no leaves, so results and checkpoints are those of the network alone. The convolutions have
    stride two and a ReLU after each; an image smaller than the kernel is flattened.
    """

    layers: tuple[Kernel, ...]
    width: int = eqx.field(static=True)
    """Dimension of the encoding."""

    @staticmethod
    def create(key: RandomKey, shape: tuple[int, ...]) -> "ObsEncoder":
        """An encoder for states of this shape; it folds a key of its own out of ``key``, which others may use too."""
        if not is_image(shape):
            return ObsEncoder((), shape[0])
        own = jax.random.fold_in(key, ENCODER_KEY)
        height, wide, channels = shape
        depths = [channels]
        while len(depths) <= LAYERS and min(height, wide) >= KERNEL:
            height, wide = ((side - KERNEL) // 2 + 1 for side in (height, wide))
            depths.append(DEPTH * 2 ** (len(depths) - 1))
        # With smaller weights, or with biases, the encodings of all images are nearly equal after several layers, and
        # contrastive losses do not start to learn.
        layers = tuple(
            Kernel.preserving(jax.random.fold_in(own, layer), KERNEL, *channels_in_out)
            for layer, channels_in_out in enumerate(pairwise(depths))
        )
        return ObsEncoder(layers, height * wide * depths[-1])

    def __call__(self, obs: Shaped[Array, "..."]) -> Float[Array, " e"]:
        """One state as a vector."""
        return convolved(self.layers, preprocess(obs), "relu")


class StateNet(eqx.Module):
    """An MLP on the encoding of a state, concatenated with an extra vector such as the action if there is one.

    The layers are fields of its own: for vectors its leaves are those of an ``MLP`` of the same key, also by name.
    """

    obs_encoder: ObsEncoder
    layers: tuple[Linear, ...]

    @staticmethod
    def create(
        key: RandomKey, shape: tuple[int, ...], hidden: Sequence[int], outputs: int, extra: int = 0
    ) -> "StateNet":
        """``shape``: of a state; ``extra``: dimension of the extra vector."""
        obs_encoder = ObsEncoder.create(key, shape)
        return StateNet(obs_encoder, MLP.create(key, obs_encoder.width + extra, hidden, outputs).layers)

    def __call__(self, obs: Shaped[Array, "..."], extra: Float[Array, " b"] | None = None) -> Float[Array, " out"]:
        """The output at one state."""
        features = self.obs_encoder(obs)
        return MLP(self.layers)(features if extra is None else jnp.concatenate([features, extra]))


def coarse_target(obs: Shaped[Array, "..."]) -> Float[Array, " o"]:
    """The prediction target of a state: a vector unchanged, an image downsampled to at most ``CELLS`` × ``CELLS``.

    Pixels are averaged over equal cells by area and scaled to [-½, ½].

    Reference: Ecoffet et al., First return, then explore, Nature 2021, whose cells are coarse pixels too.
    """
    if not is_image(obs.shape):
        return preprocess(obs)
    rows, columns = (jnp.asarray(area_weights(side, min(side, CELLS))) for side in obs.shape[:2])
    coarse = jnp.einsum("ih,hwc->iwc", rows, preprocess(obs))
    return jnp.einsum("jw,iwc->ijc", columns, coarse).reshape(-1)


def coarse_target_size(shape: tuple[int, ...]) -> int:
    """Dimension of the coarse target of a state of this shape."""
    return math.prod(min(side, CELLS) for side in shape[:2]) * shape[2] if is_image(shape) else shape[0]
