"""MP4 videos and contact sheets of frames, uint8 [height, width, 3]."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import UInt8
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from skillscape.errors import UserError
from skillscape.plots.style import EXACT_DOTS_PER_INCH, styled

Frame: TypeAlias = UInt8[np.ndarray, "h w 3"]

QUALITY = 23
"""Constant rate factor of x264: lower is larger and better; 18 is almost indistinguishable from the input."""
SHEET_FRAMES = 8
THUMBNAIL = 160
"""Longer side of a frame on a contact sheet, in pixels."""

_GAP = 4
_BORDER_GREY = 170
_LABEL_WIDTH = 104
_TITLE_HEIGHT = 30
_BT709 = 1  # the number of this colour standard in H.264, for matrix, primaries and transfer alike
_LIMITED_RANGE = 1


def load_encoder() -> ModuleType:
    """PyAV, which ships its own FFmpeg; imported late, since only videos need it."""
    try:
        import av
    except ImportError as error:
        raise UserError(f'Videos need PyAV ({error}): run `pip install "skillscape[video]"`.') from error
    return av


@contextmanager
def recording(path: Path, frames_per_second: float, *, hold: float = 0.0) -> Iterator[Callable[[Frame], None]]:
    """Write an MP4 that browsers play (H.264, yuv420p); yields the function that adds a frame.

    ``hold``: seconds for which the last frame is repeated. The file appears when it is complete; an exception or Ctrl-C
    leaves nothing. All frames have the size of the first; odd sizes lose their last row or column, since yuv420p stores
    colours for blocks of 2 × 2 pixels.
    """
    av = load_encoder()
    # faststart: the index goes to the front, so that a page can play the file while it loads.
    options = {"movflags": "faststart"}
    with _atomic(path) as temporary, av.open(str(temporary), "w", format="mp4", options=options) as container:
        encoder = _Encoder(av, container, frames_per_second)
        yield encoder.add
        encoder.finish(round(hold * frames_per_second))


@contextmanager
def _atomic(path: Path) -> Iterator[Path]:
    """A temporary path that replaces ``path`` at the end of the block, or is deleted on an exception."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class _Encoder:
    """The video stream of a container, opened by the first frame."""

    def __init__(self, av: Any, container: Any, frames_per_second: float) -> None:  # noqa: ANN401  (imported late)
        self._av, self._container = av, container
        self._rate = Fraction(frames_per_second).limit_denominator(1000)
        self._stream: Any = None
        self._last: Frame | None = None

    def add(self, frame: Frame) -> None:
        if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8 or min(frame.shape[:2]) < 2:
            raise ValueError(f"A frame is uint8 [height, width, 3], not {frame.dtype} {frame.shape}.")
        height, width = (side - side % 2 for side in frame.shape[:2])
        if self._last is None:
            self._open(height, width)
        elif frame.shape != self._last.shape:
            raise ValueError(f"All frames of a video have one size: {frame.shape} came after {self._last.shape}.")
        self._last = frame
        picture = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(frame[:height, :width]), format="rgb24")
        picture = picture.reformat(format="yuv420p", dst_colorspace="ITU709")
        self._container.mux(self._stream.encode(picture))

    def _open(self, height: int, width: int) -> None:
        self._stream = stream = self._container.add_stream("libx264", rate=self._rate, options={"crf": str(QUALITY)})
        stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
        # Without these a player guesses the colours from the size of the picture.
        context = stream.codec_context
        context.colorspace = context.color_primaries = context.color_trc = _BT709
        context.color_range = _LIMITED_RANGE

    def finish(self, repeats: int) -> None:
        if self._last is None:
            raise ValueError("A video needs at least one frame.")
        for _ in range(repeats):
            self.add(self._last)
        self._container.mux(self._stream.encode(None))


class FrameSampler:
    """Evenly spaced frames of a video of unknown length."""

    _MAX_STORED = 64

    def __init__(self) -> None:
        self._stored: list[Frame] = []
        self._stride = 1
        self._seen = 0

    def add(self, frame: Frame) -> None:
        """The next frame of the video."""
        if self._seen % self._stride == 0:
            self._stored.append(frame.copy())
        self._seen += 1
        if len(self._stored) > self._MAX_STORED:
            self._stored = self._stored[::2]
            self._stride *= 2

    def frames(self, number: int = SHEET_FRAMES) -> list[Frame]:
        """``number`` frames in order of time, starting with the first; a short video repeats some."""
        return [self._stored[index] for index in np.linspace(0, len(self._stored) - 1, number).round().astype(int)]


class SheetRow(NamedTuple):
    """One row of a contact sheet: its label, and its frames in order of time."""

    label: str
    frames: Sequence[Frame]


def contact_sheet(rows: Sequence[SheetRow], path: Path, title: str = "") -> None:
    """Save rows of frames as a PNG, time to the right, each frame shrunk to ``THUMBNAIL`` pixels."""
    thumbnails = [[_thumbnail(frame) for frame in row.frames] for row in rows]
    height, width = (max(frame.shape[axis] for line in thumbnails for frame in line) for axis in (0, 1))
    columns = max(len(line) for line in thumbnails)
    top = _TITLE_HEIGHT if title else _GAP
    size = (_LABEL_WIDTH + columns * (width + _GAP), top + len(rows) * (height + _GAP))
    with styled():
        figure = Figure(figsize=tuple(side / EXACT_DOTS_PER_INCH for side in size), dpi=EXACT_DOTS_PER_INCH)
        FigureCanvasAgg(figure)
        figure.text(_GAP / size[0], 1 - 0.5 * top / size[1], title, va="center", fontsize=8.5)
        for index, (row, line) in enumerate(zip(rows, thumbnails, strict=True)):
            bottom = size[1] - top - index * (height + _GAP) - height
            middle = (bottom + height / 2) / size[1]
            figure.text(_GAP / size[0], middle, row.label, va="center", fontsize=8, linespacing=1.5)
            for column, frame in enumerate(line):
                # A border of one pixel: light frames would otherwise flow into each other.
                bordered = np.pad(frame, ((1, 1), (1, 1), (0, 0)), constant_values=_BORDER_GREY)
                figure.figimage(bordered, _LABEL_WIDTH + column * (width + _GAP) - 1, bottom - 1)
        with _atomic(path) as temporary:
            figure.savefig(temporary, format="png", dpi=EXACT_DOTS_PER_INCH, facecolor="white")


def _thumbnail(frame: Frame) -> Frame:
    """The frame with ``THUMBNAIL`` pixels along its longer side; smaller frames are not enlarged."""
    scale = THUMBNAIL / max(frame.shape[:2])
    if scale >= 1:
        return frame
    height, width = (max(1, round(scale * side)) for side in frame.shape[:2])
    return np.asarray(Image.fromarray(frame).resize((width, height), Image.Resampling.LANCZOS))
