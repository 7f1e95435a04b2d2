"""Pictures of any size as image observations."""

from typing import final

import numpy as np
from jaxtyping import UInt8

from skillscape.envs import IMAGE_SIDE
from skillscape.vision import area_weights


@final
class Scaling:
    """Brings pictures of one size to 64 × 64: a pixel is the mean of the area it covers, in parts of pixels too."""

    def __init__(self, height: int, width: int) -> None:
        self._rows, self._columns = area_weights(height, IMAGE_SIDE), area_weights(width, IMAGE_SIDE)
        self._as_it_is = (height, width) == (IMAGE_SIDE, IMAGE_SIDE)

    def __call__(self, picture: UInt8[np.ndarray, "h w c"]) -> UInt8[np.ndarray, "64 64 c"]:
        """A new array, whatever the size was."""
        if self._as_it_is:
            return picture.copy()
        scaled = np.einsum("ih,hwc->iwc", self._rows, picture.astype(np.float32), optimize=True)
        scaled = np.einsum("jw,iwc->ijc", self._columns, scaled, optimize=True)
        image: UInt8[np.ndarray, "64 64 c"] = np.rint(scaled).astype(np.uint8)
        return image
