"""What the world model sees and predicts: encoders and decoders of images and of vectors.

Images are [height, width, channel] with entries in [-½, ½]. Each network maps one example.
"""

from abc import abstractmethod
from typing import Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.errors import UserError
from skillscape.nets import ACTIVATIONS, MLP, Activation, Linear, uniform
from skillscape.types import RandomKey

Lowering: TypeAlias = Literal["convolution", "product"]
KERNEL = 4
"""Of every convolution of the encoder."""
KERNELS = (5, 5, 6, 6)
"""Of the transposed convolutions of the decoder: 1 → 5 → 13 → 30 → 64."""
SIDE = 64
"""Of the images that the convolutions are made for."""


def lowering() -> Lowering:
    """How convolutions are computed here: XLA's own are slow on a CPU, their gradients above all."""
    return "product" if jax.default_backend() == "cpu" else "convolution"


def convolve(
    x: Float[Array, "h w c"], kernel: Float[Array, "k k c o"], form: Lowering | None = None
) -> Float[Array, "h2 w2 o"]:
    """A convolution of stride two without padding: y[i, j] = Σ x[2i + a, 2j + b] W[a, b], 0 ≤ a, b < k."""
    if (form or lowering()) == "convolution":
        numbers = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x[None], kernel, (2, 2), "VALID", dimension_numbers=numbers)[0]
    size, _, channels, outputs = kernel.shape
    reach = size // 2
    rows, columns = ((length - size) // 2 + 1 for length in x.shape[:2])
    # Blocks of 2 × 2 pixels become channels; a window is then reach × reach neighbours at stride one.
    high, wide = rows + reach - 1, columns + reach - 1
    blocks = _to_depth(x[: 2 * high, : 2 * wide])
    windows = jnp.concatenate(
        [blocks[i : i + rows, j : j + columns] for i in range(reach) for j in range(reach)], axis=-1
    )
    weight = kernel.reshape(reach, 2, reach, 2, channels, outputs).transpose(0, 2, 1, 3, 4, 5)
    return windows @ weight.reshape(-1, outputs)


def convolve_transposed(
    x: Float[Array, "h w c"], kernel: Float[Array, "k k c o"], form: Lowering | None = None
) -> Float[Array, "h2 w2 o"]:
    """Its transpose: y[2i + a, 2j + b] += x[i, j] W[a, b]; h becomes 2 (h − 1) + k."""
    size, _, channels, outputs = kernel.shape
    if (form or lowering()) == "convolution":
        padding = [(size - 1, size - 1)] * 2
        return jax.lax.conv_general_dilated(
            x[None],
            kernel[::-1, ::-1],
            (1, 1),
            padding,
            lhs_dilation=(2, 2),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )[0]
    rows, columns = x.shape[:2]
    reach = (size + 1) // 2
    odd = 2 * reach - size
    padded = jnp.pad(kernel, ((0, odd), (0, odd), (0, 0), (0, 0)))
    weight = padded.reshape(reach, 2, reach, 2, channels, outputs).transpose(4, 0, 2, 1, 3, 5)
    spread = (x @ weight.reshape(channels, -1)).reshape(rows, columns, reach, reach, 4 * outputs)
    canvas = sum(
        jnp.pad(spread[:, :, i, j], ((i, reach - 1 - i), (j, reach - 1 - j), (0, 0)))
        for i in range(reach)
        for j in range(reach)
    )
    return _from_depth(jnp.asarray(canvas))[: 2 * (rows - 1) + size, : 2 * (columns - 1) + size]


def _to_depth(x: Float[Array, "h w c"], size: int = 2) -> Float[Array, "h2 w2 d"]:
    """Blocks of size × size pixels as channels."""
    rows, columns, channels = x.shape[0] // size, x.shape[1] // size, x.shape[2]
    blocks = x.reshape(rows, size, columns, size, channels).transpose(0, 2, 1, 3, 4)
    return blocks.reshape(rows, columns, size * size * channels)


def _from_depth(x: Float[Array, "h w d"], size: int = 2) -> Float[Array, "h2 w2 c"]:
    """The inverse of ``_to_depth``."""
    rows, columns, depth = x.shape
    channels = depth // (size * size)
    pixels = x.reshape(rows, columns, size, size, channels).transpose(0, 2, 1, 3, 4)
    return pixels.reshape(size * rows, size * columns, channels)


def prepared(obs: Shaped[Array, "..."]) -> Float[Array, "..."]:
    """Images of bytes as numbers in [-½, ½]; vectors as they are."""
    return obs.astype(jnp.float32) / 255 - 0.5 if obs.dtype == jnp.uint8 else obs


class Encoder(eqx.Module):
    """From a prepared observation to its embedding."""

    @abstractmethod
    def __call__(self, obs: Float[Array, "..."]) -> Float[Array, " e"]:
        """The embedding of one observation."""


class Decoder(eqx.Module):
    """From a feature of the world model to the mean of a prepared observation."""

    @abstractmethod
    def __call__(self, feature: Float[Array, " f"]) -> Float[Array, "..."]:
        """The mean of one observation."""

    @abstractmethod
    def squared_error(self, feature: Float[Array, " f"], obs: Float[Array, "..."]) -> Float[Array, ""]:
        """How far this mean is from a prepared observation: Σ (mean − obs)²."""


class Kernel(eqx.Module):
    """Weight and bias of a convolution. weight: [k, k, in, out]."""

    weight: Float[Array, "k k c o"]
    bias: Float[Array, " o"]

    @staticmethod
    def create(key: RandomKey, size: int, inputs: int, outputs: int, fan_in: int) -> "Kernel":
        """Uniform in ±1/√(fan_in · k²)."""
        weight_key, bias_key = jax.random.split(key)
        fan = fan_in * size * size
        return Kernel(uniform(weight_key, (size, size, inputs, outputs), fan), uniform(bias_key, (outputs,), fan))


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
        for layer in self.layers:
            obs = ACTIVATIONS[self.activation](convolve(obs, layer.weight) + layer.bias[None, None, :])
        return obs.reshape(-1)


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

    def squared_error(self, feature: Float[Array, " f"], obs: Float[Array, "h w c"]) -> Float[Array, ""]:
        """Σ (mean − obs)²."""
        return jnp.sum((self(feature) - obs) ** 2)


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
        rows = _to_depth(obs, self.size).reshape(-1, self.patch.weight.shape[1])
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

    def _rows(self, feature: Float[Array, " f"]) -> Float[Array, "p q"]:
        """The mean of the image, patch by patch."""
        hidden = ACTIVATIONS[self.activation](self.split(feature))
        return jax.vmap(self.patch)(hidden.reshape(-1, self.patch.weight.shape[1]))

    def __call__(self, feature: Float[Array, " f"]) -> Float[Array, "h w c"]:
        """The mean of the image."""
        grid = self._rows(feature).reshape(self.shape[0] // self.size, self.shape[1] // self.size, -1)
        return _from_depth(grid, self.size)

    def squared_error(self, feature: Float[Array, " f"], obs: Float[Array, "h w c"]) -> Float[Array, ""]:
        """Σ (mean − obs)²."""
        # The observation is cut into patches: putting the mean's together costs more than all products here.
        rows = self._rows(feature)
        return jnp.sum((rows - _to_depth(obs, self.size).reshape(rows.shape)) ** 2)


def patches(shape: tuple[int, ...], size: int) -> int:
    """How many patches an image has."""
    if shape[0] % size or shape[1] % size:
        raise UserError(f"Images of {shape[0]} by {shape[1]} cannot be cut in patches of {size}; set --backbone.patch.")
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

    def squared_error(self, feature: Float[Array, " f"], obs: Float[Array, " d"]) -> Float[Array, ""]:
        """Σ (mean − obs)²."""
        return jnp.sum((self(feature) - obs) ** 2)
