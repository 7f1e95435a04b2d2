"""What the world model sees and predicts: encoders and decoders of images and of vectors.

Images are [height, width, channel], preprocessed. Each network maps one example.
"""

from abc import abstractmethod

import equinox as eqx
import jax
from jaxtyping import Array, Float

from skillscape.conv import KERNEL, Kernel, convolve_transposed, convolved, from_depth, to_depth
from skillscape.errors import UserError
from skillscape.nets import ACTIVATIONS, MLP, Activation, Linear
from skillscape.types import RandomKey

KERNELS = (5, 5, 6, 6)
"""Kernel sizes of the decoder's transposed convolutions: 1 → 5 → 13 → 30 → 64."""
SIDE = 64
"""Side in pixels of the images that the convolutions are made for."""


class Encoder(eqx.Module):
    """From a preprocessed observation to its embedding."""

    @abstractmethod
    def __call__(self, obs: Float[Array, "..."]) -> Float[Array, " e"]:
        """The embedding of one observation."""


class Decoder(eqx.Module):
    """From a feature of the world model to the mean of a preprocessed observation."""

    @abstractmethod
    def __call__(self, feature: Float[Array, " f"]) -> Float[Array, "..."]:
        """The mean of one observation."""


class ConvolutionalEncoder(Encoder):
    """Four convolutions of stride two, 64 → 31 → 14 → 6 → 2, with depth, 2, 4 and 8 times depth channels."""

    layers: tuple[Kernel, ...]
    activation: Activation = eqx.field(static=True)

    @staticmethod
    def create(key: RandomKey, channels: int, depth: int, activation: Activation) -> "ConvolutionalEncoder":
        """The embedding has 32 · depth entries."""
        sizes = (channels, depth, 2 * depth, 4 * depth, 8 * depth)
        layers = tuple(
            Kernel.create(one, KERNEL, sizes[i], sizes[i + 1], sizes[i])
            for i, one in enumerate(jax.random.split(key, 4))
        )
        return ConvolutionalEncoder(layers, activation)

    def __call__(self, obs: Float[Array, "h w c"]) -> Float[Array, " e"]:
        """All layers in turn, flattened."""
        return convolved(self.layers, obs, self.activation)


class ConvolutionalDecoder(Decoder):
    """A linear layer and four transposed convolutions of stride two, 1 → 5 → 13 → 30 → 64; nothing after the last."""

    enter: Linear
    layers: tuple[Kernel, ...]
    activation: Activation = eqx.field(static=True)

    @staticmethod
    def create(
        key: RandomKey, inputs: int, channels: int, depth: int, activation: Activation
    ) -> "ConvolutionalDecoder":
        """Channels 4, 2 and 1 times depth on the way to the image's."""
        enter_key, *keys = jax.random.split(key, 5)
        sizes = (32 * depth, 4 * depth, 2 * depth, depth, channels)
        layers = tuple(
            Kernel.create(one, KERNELS[i], sizes[i], sizes[i + 1], sizes[i + 1]) for i, one in enumerate(keys)
        )
        return ConvolutionalDecoder(Linear.create(enter_key, inputs, 32 * depth), layers, activation)

    def __call__(self, feature: Float[Array, " f"]) -> Float[Array, "h w c"]:
        """The mean of the image."""
        image = self.enter(feature)[None, None, :]
        for layer in self.layers[:-1]:
            image = ACTIVATIONS[self.activation](convolve_transposed(image, layer.weight) + layer.bias[None, None, :])
        last = self.layers[-1]
        return convolve_transposed(image, last.weight) + last.bias[None, None, :]


class PatchEncoder(Encoder):
    """One linear layer shared by all patches, one on all of them together: products only, which a CPU is fast at."""

    patch: Linear
    join: Linear
    size: int = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)

    @staticmethod
    def create(
        key: RandomKey, shape: tuple[int, ...], size: int, width: int, outputs: int, activation: Activation
    ) -> "PatchEncoder":
        """``width`` numbers per patch of size × size pixels."""
        patch_key, join_key = jax.random.split(key)
        number = patches(shape, size)
        patch = Linear.create(patch_key, size * size * shape[2], width)
        return PatchEncoder(patch, Linear.create(join_key, number * width, outputs), size, activation)

    def __call__(self, obs: Float[Array, "h w c"]) -> Float[Array, " e"]:
        """Patches, then all of them."""
        activate = ACTIVATIONS[self.activation]
        rows = to_depth(obs, self.size).reshape(-1, self.patch.weight.shape[1])
        return activate(self.join(activate(jax.vmap(self.patch)(rows)).reshape(-1)))


class PatchDecoder(Decoder):
    """The mirror of ``PatchEncoder``."""

    split: Linear
    patch: Linear
    shape: tuple[int, ...] = eqx.field(static=True)
    size: int = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)

    @staticmethod
    def create(
        key: RandomKey, inputs: int, shape: tuple[int, ...], size: int, width: int, activation: Activation
    ) -> "PatchDecoder":
        """``width`` numbers per patch of size × size pixels."""
        split_key, patch_key = jax.random.split(key)
        number = patches(shape, size)
        patch = Linear.create(patch_key, width, size * size * shape[2])
        return PatchDecoder(Linear.create(split_key, inputs, number * width), patch, shape, size, activation)

    def __call__(self, feature: Float[Array, " f"]) -> Float[Array, "h w c"]:
        """The mean of the image."""
        hidden = ACTIVATIONS[self.activation](self.split(feature))
        rows = jax.vmap(self.patch)(hidden.reshape(-1, self.patch.weight.shape[1]))
        return from_depth(rows.reshape(self.shape[0] // self.size, self.shape[1] // self.size, -1), self.size)


def patches(shape: tuple[int, ...], size: int) -> int:
    """How many patches an image has."""
    if shape[0] % size or shape[1] % size:
        raise UserError(
            f"Images of {shape[0]} by {shape[1]} cannot be cut in patches of {size}; set --backbone.world.patch."
        )
    return (shape[0] // size) * (shape[1] // size)


class VectorEncoder(Encoder):
    """An MLP with an activation after its last layer too."""

    network: MLP

    def __call__(self, obs: Float[Array, " d"]) -> Float[Array, " e"]:
        """The embedding of a vector."""
        return ACTIVATIONS[self.network.activation](self.network(obs))


class VectorDecoder(Decoder):
    """An MLP."""

    network: MLP

    def __call__(self, feature: Float[Array, " f"]) -> Float[Array, " d"]:
        """The mean of the vector."""
        return self.network(feature)
