"""Which observations and actions of Gymnasium can be learned from, and what to do about the others."""

import contextlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium import spaces

from skillscape.errors import UserError

CHANNELS = (1, 3, 4)
"""How many numbers a pixel of an image may have."""
SMALLEST_PICTURE = 16
"""Rows and columns from which a grid of bytes, or of numbers with channels, is taken for a picture, not a vector."""


def continuous(identifier: str, space: "spaces.Space[Any]") -> spaces.Box:
    """The Box of real numbers with bounds that actions are from; any other space is refused."""
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise UserError(
            f"{identifier} has the actions {space}, but every method here needs a Box of real numbers: "
            f"wrap the environment, or choose one with continuous actions."
        )
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise UserError(
            f"{identifier} has actions without bounds ({space}), so [-1, 1] cannot be stretched to them: "
            f"wrap it with gymnasium.wrappers.RescaleAction or give its action_space finite bounds."
        )
    return space


def image_shape(identifier: str, space: "spaces.Space[Any]") -> tuple[int, int, int] | None:
    """Height, width and channels of observations that are images; pictures in another form are refused."""
    no_images = "or, if they are no images, use gymnasium.wrappers.FlattenObservation"
    within = _picture_within(space)
    if within is not None:
        raise UserError(
            f"{identifier} has observations with a picture in one of their parts ({within}), and flat it would be no "
            f"picture any more: hand out that part alone with gymnasium.wrappers.TransformObservation, {no_images}."
        )
    if not isinstance(space, spaces.Box):
        return None
    if _is_laid_out(space) and space.dtype == np.uint8:
        height, width, channels = space.shape
        return height, width, channels
    if not _is_picture(space):
        return None
    if space.dtype != np.uint8:
        raise UserError(
            f"{identifier} has observations of shape {space.shape} and type {space.dtype}, which look like images that "
            f"are not of bytes: scale them to uint8 with gymnasium.wrappers.TransformObservation, {no_images}."
        )
    raise UserError(
        f"{identifier} has observations of shape {space.shape} and type uint8, which look like images without 1, 3 or "
        f"4 channels in their last axis: {_remedy(space.shape)}, {no_images}."
    )


def _is_laid_out(space: spaces.Box) -> bool:
    """Whether a Box is height by width by channel."""
    return len(space.shape) == 3 and space.shape[2] in CHANNELS


def _is_picture(space: spaces.Box) -> bool:
    """Whether a Box is taken for a picture: it has the size of one, and is of bytes or laid out like one."""
    large = sum(side >= SMALLEST_PICTURE for side in space.shape) >= 2
    return large and (space.dtype == np.uint8 or _is_laid_out(space))


def _picture_within(space: "spaces.Space[Any]") -> spaces.Box | None:
    """The first picture among the parts of a Dict or Tuple, however deep."""
    parts: Iterable[spaces.Space[Any]] = ()
    if isinstance(space, spaces.Dict):
        parts = space.spaces.values()
    elif isinstance(space, spaces.Tuple):
        parts = space.spaces
    for part in parts:
        found = part if isinstance(part, spaces.Box) and _is_picture(part) else _picture_within(part)
        if found is not None:
            return found
    return None


def _remedy(shape: tuple[int, ...]) -> str:
    """How pictures of this shape become height by width by channel."""
    if len(shape) == 2:
        return f"add that axis with gymnasium.wrappers.ReshapeObservation(env, {(*shape, 1)})"
    if len(shape) == 3 and shape[0] in CHANNELS:
        return "put the channels last with gymnasium.wrappers.TransformObservation"
    return "give one frame in grey or colour, for instance with gymnasium.wrappers.TransformObservation"


def flat_size(identifier: str, space: "spaces.Space[Any]") -> int:
    """Entries of an observation that is flattened to one vector; one that cannot be is refused."""
    flat = space
    with contextlib.suppress(NotImplementedError):
        flat = spaces.flatten_space(space)
    if not isinstance(flat, spaces.Box) or not flat.shape:
        raise UserError(
            f"{identifier} has the observations {space}, which do not flatten to one vector of fixed size: "
            f"wrap it so that they are a Box, or a Dict or Tuple of them."
        )
    return int(np.prod(flat.shape))
