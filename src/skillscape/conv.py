"""Images: their preparation, and convolutions in the form that is fastest on this device.

Images are [height, width, channel], of bytes or preprocessed: floats in [-½, ½]. Each function maps one example.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from skillscape.errors import UserError
from skillscape.nets import ACTIVATIONS, Activation, uniform
from skillscape.types import RandomKey

Lowering: TypeAlias = Literal["convolution", "product"]
KERNEL = 4
"""Side of the kernel of every encoder's convolution."""
BLOCK_IMAGES = 16
"""Images that a CPU takes at a time where they are cut in patches: what they need then stays in its cache."""


def lowering() -> Lowering:
    """The implementation of convolutions on this device: XLA's are slow on a CPU, especially their gradients."""
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
    blocks = to_depth(x[: 2 * high, : 2 * wide])
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
    return from_depth(jnp.asarray(canvas))[: 2 * (rows - 1) + size, : 2 * (columns - 1) + size]


def to_depth(x: Float[Array, "h w c"], size: int = 2) -> Float[Array, "h2 w2 d"]:
    """Blocks of size × size pixels as channels."""
    rows, columns, channels = x.shape[0] // size, x.shape[1] // size, x.shape[2]
    blocks = x.reshape(rows, size, columns, size, channels).transpose(0, 2, 1, 3, 4)
    return blocks.reshape(rows, columns, size * size * channels)


def from_depth(x: Float[Array, "h w d"], size: int = 2) -> Float[Array, "h2 w2 c"]:
    """The inverse of ``to_depth``."""
    rows, columns, depth = x.shape
    channels = depth // (size * size)
    pixels = x.reshape(rows, columns, size, size, channels).transpose(0, 2, 1, 3, 4)
    return pixels.reshape(size * rows, size * columns, channels)


def of_each_image(function: Callable[[PyTree], Float[Array, "..."]], rows: PyTree) -> Float[Array, "n ..."]:
    """``function`` of each of n images, or of what belongs to them; on a CPU in blocks.

    Where a gradient is taken a block is computed again: to keep what the gradients of all blocks need takes longer.
    """
    if lowering() == "convolution":
        return jax.vmap(function)(rows)
    # A function of its own: JAX hashes it, and the method of a network whose weights are being traced has no hash.
    again = jax.checkpoint(lambda row: function(row), prevent_cse=False)
    mapped: Array = jax.lax.map(again, rows, batch_size=BLOCK_IMAGES)
    return mapped


def preprocess(obs: Shaped[Array, "..."]) -> Float[Array, "..."]:
    """Images of bytes as floats in [-½, ½]; floats unchanged."""
    return obs.astype(jnp.float32) / 255 - 0.5 if obs.dtype == jnp.uint8 else obs


def is_image(shape: tuple[int, ...]) -> bool:
    """Whether states of this shape are images, not vectors; other shapes are refused."""
    if len(shape) not in (1, 3):
        raise UserError(
            f"States of shape {shape} are neither vectors nor images of height by width by channel; flatten them."
        )
    return len(shape) == 3


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

    @staticmethod
    def preserving(key: RandomKey, size: int, inputs: int, outputs: int) -> "Kernel":
        """Weights uniform in ±√(6 / (in · k²)), biases zero: a ReLU after it preserves the second moment.

        Reference: He et al., Delving Deep into Rectifiers, ICCV 2015.
        """
        weight = math.sqrt(6) * uniform(key, (size, size, inputs, outputs), inputs * size * size)
        return Kernel(weight, jnp.zeros(outputs))


def convolved(layers: Sequence[Kernel], image: Float[Array, "..."], activation: Activation) -> Float[Array, " e"]:
    """An image through convolutions of stride two, an activation after each, as one vector."""
    for layer in layers:
        image = ACTIVATIONS[activation](convolve(image, layer.weight) + layer.bias[None, None, :])
    return image.reshape(-1)


def area_weights(side: int, cells: int) -> Float[np.ndarray, "cells side"]:
    """How much of each of ``cells`` equal cells each pixel covers along a side; rows sum to 1.

    Where a cell ends inside a pixel, both cells have their part of it.
    """
    ends = np.arange(1, cells + 1)[:, None] * side / cells
    pixels = np.arange(side)[None, :]
    overlap = np.minimum(ends, pixels + 1) - np.maximum(ends - side / cells, pixels)
    shares: np.ndarray = np.maximum(overlap, 0) * cells / side
    return shares.astype(np.float32)
