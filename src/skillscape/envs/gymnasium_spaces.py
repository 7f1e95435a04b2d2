"""Which observation and action spaces of Gymnasium are supported, and which wrapper to use for the others."""

import contextlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium import spaces

from skillscape.errors import UserError

CHANNELS = (1, 3, 4)
"""Supported numbers of image channels."""
MIN_IMAGE_SIDE = 16
"""Height and width from which a Box of bytes, or a Box with channels, counts as an image and not as a vector."""


def continuous_actions(identifier: str, space: "spaces.Space[Any]") -> spaces.Box:
    """The action space as a bounded Box of floats; any other space is refused."""
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise UserError(
            f"{identifier} has the action space {space}, but every method here needs a Box of floats: "
            f"wrap the environment, or choose one with continuous actions."
        )
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise UserError(
            f"{identifier} has unbounded actions ({space}), to which [-1, 1] cannot be scaled: "
            f"wrap it with gymnasium.wrappers.RescaleAction or give its action_space finite bounds."
        )
    return space


def image_shape(identifier: str, space: "spaces.Space[Any]") -> tuple[int, int, int] | None:
    """Height, width and channels of image observations, None for vectors; images in another layout are refused."""
    no_images = "or, if they are not images, use gymnasium.wrappers.FlattenObservation"
    part = _nested_image(space)
    if part is not None:
        raise UserError(
            f"{identifier} has observations with an image inside ({part}), which flattening would destroy: "
            f"return that part alone with gymnasium.wrappers.TransformObservation, {no_images}."
        )
    if not isinstance(space, spaces.Box):
        return None
    if _has_channels_last(space) and space.dtype == np.uint8:
        height, width, channels = space.shape
        return height, width, channels
    if not _looks_like_image(space):
        return None
    if space.dtype != np.uint8:
        raise UserError(
            f"{identifier} has observations of shape {space.shape} and dtype {space.dtype}, which look like images but "
            f"are not uint8: scale them to uint8 with gymnasium.wrappers.TransformObservation, {no_images}."
        )
    raise UserError(
        f"{identifier} has observations of shape {space.shape} and dtype uint8, which look like images without 1, 3 or "
        f"4 channels in the last axis: {_remedy(space.shape)}, {no_images}."
    )


def flat_size(identifier: str, space: "spaces.Space[Any]") -> int:
    """Length of the vector that an observation is flattened to; a space that cannot be flattened is refused."""
    flat = space
    with contextlib.suppress(NotImplementedError):
        flat = spaces.flatten_space(space)
    if not isinstance(flat, spaces.Box) or not flat.shape:
        raise UserError(
            f"{identifier} has the observation space {space}, which does not flatten to a vector of fixed size: "
            f"wrap it so that it is a Box, or a Dict or Tuple of them."
        )
    return int(np.prod(flat.shape))


def _has_channels_last(space: spaces.Box) -> bool:
    return len(space.shape) == 3 and space.shape[2] in CHANNELS


def _looks_like_image(space: spaces.Box) -> bool:
    large = sum(side >= MIN_IMAGE_SIDE for side in space.shape) >= 2
    return large and (space.dtype == np.uint8 or _has_channels_last(space))


def _nested_image(space: "spaces.Space[Any]") -> spaces.Box | None:
    """The first image among the parts of a Dict or Tuple, at any depth."""
    parts: Iterable[spaces.Space[Any]] = ()
    if isinstance(space, spaces.Dict):
        parts = space.spaces.values()
    elif isinstance(space, spaces.Tuple):
        parts = space.spaces
    for part in parts:
        image = part if isinstance(part, spaces.Box) and _looks_like_image(part) else _nested_image(part)
        if image is not None:
            return image
    return None


def _remedy(shape: tuple[int, ...]) -> str:
    if len(shape) == 2:
        return f"add that axis with gymnasium.wrappers.ReshapeObservation(env, {(*shape, 1)})"
    if len(shape) == 3 and shape[0] in CHANNELS:
        return "put the channels last with gymnasium.wrappers.TransformObservation"
    return "return one grey or colour frame, for instance with gymnasium.wrappers.TransformObservation"
