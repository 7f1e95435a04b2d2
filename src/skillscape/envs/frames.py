"""Images as observations: their size, and how pictures of other sizes come to it."""

from typing import final

import numpy as np
from jaxtyping import Float, UInt8

IMAGE_SIDE = 64
"""Height and width of every image that is learned from."""


@final
class Scaling:
    """Brings pictures of one size to 64 × 64: a pixel is the mean of the area it covers, in parts of pixels too."""

    def __init__(self, height: int, width: int) -> None:
        self._rows, self._columns = _shares(height), _shares(width)
        self._as_it_is = (height, width) == (IMAGE_SIDE, IMAGE_SIDE)

    def __call__(self, picture: UInt8[np.ndarray, "h w c"]) -> UInt8[np.ndarray, "64 64 c"]:
        """A new array, whatever the size was."""
        if self._as_it_is:
            return picture.copy()
        scaled = np.einsum("ih,hwc->iwc", self._rows, picture.astype(np.float32), optimize=True)
        scaled = np.einsum("jw,iwc->ijc", self._columns, scaled, optimize=True)
        image: UInt8[np.ndarray, "64 64 c"] = np.rint(scaled).astype(np.uint8)
        return image


def _shares(side: int) -> Float[np.ndarray, "64 side"]:
    """How much each pixel of the new side takes from each of the old one; rows sum to 1."""
    edges = np.arange(IMAGE_SIDE + 1) * (side / IMAGE_SIDE)
    low, high = edges[:-1, None], edges[1:, None]
    pixel = np.arange(side)
    overlap = np.clip(np.minimum(high, pixel + 1) - np.maximum(low, pixel), 0, None)
    shares: Float[np.ndarray, "64 side"] = (overlap * (IMAGE_SIDE / side)).astype(np.float32)
    return shares
