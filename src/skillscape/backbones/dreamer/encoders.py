"""What the world model sees and predicts: encoders and decoders of images and of vectors.

Images are [height, width, channel], preprocessed. Each network maps one example.
"""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from skillscape.conv import KERNEL, Kernel, convolve_transposed, convolved, from_depth, of_each_image, to_depth
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

    def of_each(self, obs: Float[Array, "n ..."]) -> Float[Array, "n e"]:
        """The embeddings of n observations."""
        return jax.vmap(self)(obs)


class Decoder(eqx.Module):
    """From a feature of the world model to the mean of a preprocessed observation."""

    @abstractmethod
    def __call__(self, feature: Float[Array, " f"]) -> Float[Array, "..."]:
        """The mean of one observation."""

    def squared_errors(self, feature: Float[Array, "n f"], obs: Float[Array, "n ..."]) -> Float[Array, " n"]:
        """|obs − mean|² of n observations, each summed over its entries."""
        return jax.vmap(lambda feature, obs: jnp.sum((self(feature) - obs) ** 2))(feature, obs)


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
        return self._joined(self._of_patches(obs))

    def of_each(self, obs: Float[Array, "n h w c"]) -> Float[Array, "n e"]:
        """Patches of some images at a time, then all patches of all images."""
        return jax.vmap(self._joined)(of_each_image(self._of_patches, obs))

    def _of_patches(self, obs: Float[Array, "h w c"]) -> Float[Array, " pw"]:
        """All patches, each through the same layer, before its activation."""
        return jax.vmap(self.patch)(patch_rows(obs, self.size)).reshape(-1)

    def _joined(self, patches: Float[Array, " pw"]) -> Float[Array, " e"]:
        activate = ACTIVATIONS[self.activation]
        return activate(self.join(activate(patches)))


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
        rows = jax.vmap(self.patch)(self._hidden(feature))
        return from_depth(rows.reshape(self.shape[0] // self.size, self.shape[1] // self.size, -1), self.size)

    def squared_errors(self, feature: Float[Array, "n f"], obs: Float[Array, "n h w c"]) -> Float[Array, " n"]:
        """|obs − mean|² of n images: the first layer at once, then the patches of some images at a time."""

        def squared_error(row: tuple[Float[Array, "p u"], Float[Array, "h w c"]]) -> Float[Array, ""]:
            # Cutting the image takes one pass; the mean and its gradient would each take one to put together.
            hidden, image = row
            return jnp.sum((jax.vmap(self.patch)(hidden) - patch_rows(image, self.size)) ** 2)

        return of_each_image(squared_error, (jax.vmap(self._hidden)(feature), obs))

    def _hidden(self, feature: Float[Array, " f"]) -> Float[Array, "p u"]:
        """What every patch is computed from."""
        return ACTIVATIONS[self.activation](self.split(feature)).reshape(-1, self.patch.weight.shape[1])


def patch_rows(image: Float[Array, "h w c"], size: int) -> Float[Array, "p d"]:
    """The patches of size × size pixels, each as a row."""
    blocks = to_depth(image, size)
    return blocks.reshape(-1, blocks.shape[2])


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
