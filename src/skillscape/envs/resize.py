"""Resizing of frames to the size of image observations."""

from typing import final

import numpy as np
from jaxtyping import UInt8

from skillscape.conv import area_weights
from skillscape.envs import IMAGE_SIDE


@final
class AreaResize:
    """Resizes frames of one size to 64 × 64 by area averaging, with fractional pixels weighted by their overlap."""

    def __init__(self, height: int, width: int) -> None:
        self._rows, self._columns = area_weights(height, IMAGE_SIDE), area_weights(width, IMAGE_SIDE)
        self._is_identity = (height, width) == (IMAGE_SIDE, IMAGE_SIDE)

    def __call__(self, frame: UInt8[np.ndarray, "h w c"]) -> UInt8[np.ndarray, "64 64 c"]:
        """The resized frame, always a new array."""
        if self._is_identity:
            return frame.copy()
        resized = np.einsum("ih,hwc->iwc", self._rows, frame.astype(np.float32), optimize=True)
        resized = np.einsum("jw,iwc->ijc", self._columns, resized, optimize=True)
        image: UInt8[np.ndarray, "64 64 c"] = np.rint(resized).astype(np.uint8)
        return image
