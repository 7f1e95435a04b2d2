"""Videos as MP4 files, and contact sheets: frames are uint8 [height, width, 3], whatever they show."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from skillscape.plots.style import styled

Frame: TypeAlias = UInt8[np.ndarray, "h w 3"]

QUALITY = 23
"""Constant rate factor of x264: lower is larger and better, 18 is hard to tell from the frames themselves."""
SHEET_FRAMES = 8
THUMBNAIL = 160
"""Longer side of a picture on a contact sheet, in pixels."""

_DOTS_PER_INCH = 128  # a power of two: inches times this gives whole pixels again, exactly
_GAP = 4
_FRAME_GREY = 170
_LABEL_WIDTH = 104
_TITLE_HEIGHT = 30
_BT709 = 1  # the number of this colour standard in H.264, for matrix, primaries and transfer alike
_LIMITED_RANGE = 1


def load_encoder() -> ModuleType:
    """PyAV, which brings its own FFmpeg; imported late, since only videos need it."""
    try:
        import av
    except ImportError as error:
        raise UserError(f'Videos need PyAV ({error}): run `pip install "skillscape[video]"`.') from error
    return av


@contextmanager
def recording(path: Path, frames_per_second: float, *, hold: float = 0.0) -> Iterator[Callable[[Frame], None]]:
    """Write an MP4 that browsers play (H.264, yuv420p), adding frames with the function that this gives.

    ``hold``: seconds that the last frame stays. The file appears under its name when it is complete; an exception, or
    Ctrl-C, leaves nothing. All frames have the size of the first; an odd edge loses its last line, since colours are
    stored for squares of four pixels.
    """
    av = load_encoder()
    # faststart: the index goes to the front, so that a page can play the file while it loads.
    options = {"movflags": "faststart"}
    with _whole(path) as temporary, av.open(str(temporary), "w", format="mp4", options=options) as container:
        encoder = _Encoder(av, container, frames_per_second)
        yield encoder.add
        encoder.finish(round(hold * frames_per_second))


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the name of ``path`` when all is written and leaves nothing otherwise."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_video(path: Path, frames: Iterable[Frame], frames_per_second: float) -> None:
    """Write frames, [time, height, width, 3] or one after the other, as an MP4; see ``recording``."""
    with recording(path, frames_per_second) as add:
        for frame in frames:
            add(frame)


class _Encoder:
    """The one stream of a container, opened by its first frame."""

    def __init__(self, av: Any, container: Any, frames_per_second: float) -> None:  # noqa: ANN401  (imported late)
        self._av, self._container = av, container
        self._rate = Fraction(frames_per_second).limit_denominator(1000)
        self._stream: Any = None
        self._last: Frame | None = None

    def add(self, frame: Frame) -> None:
        if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8 or min(frame.shape[:2]) < 2:
            raise ValueError(f"A frame is uint8 [height, width, 3], not {frame.dtype} {frame.shape}.")
        if self._last is None:
            self._stream = self._open(frame)
        elif frame.shape != self._last.shape:
            raise ValueError(f"All frames of a video have one size: {frame.shape} came after {self._last.shape}.")
        self._last = frame
        height, width = (side - side % 2 for side in frame.shape[:2])
        picture = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(frame[:height, :width]), format="rgb24")
        picture = picture.reformat(format="yuv420p", dst_colorspace="ITU709")
        self._container.mux(self._stream.encode(picture))

    def _open(self, frame: Frame) -> Any:  # noqa: ANN401
        stream = self._container.add_stream("libx264", rate=self._rate, options={"crf": str(QUALITY)})
        stream.height, stream.width = (side - side % 2 for side in frame.shape[:2])
        stream.pix_fmt = "yuv420p"
        # Without these a player guesses the colours by the size of the picture.
        context = stream.codec_context
        context.colorspace = context.color_primaries = context.color_trc = _BT709
        context.color_range = _LIMITED_RANGE
        return stream

    def finish(self, repeats: int) -> None:
        if self._last is None:
            raise ValueError("A video needs at least one frame.")
        for _ in range(repeats):
            self.add(self._last)
        self._container.mux(self._stream.encode(None))


class Strip:
    """Keeps a few frames, evenly spread over a video whose length is not known beforehand."""

    _MOST = 64

    def __init__(self) -> None:
        self._kept: list[Frame] = []
        self._every = 1
        self._seen = 0

    def add(self, frame: Frame) -> None:
        """The next frame of the video."""
        if self._seen % self._every == 0:
            self._kept.append(frame.copy())
        self._seen += 1
        if len(self._kept) > self._MOST:
            self._kept = self._kept[::2]
            self._every *= 2

    def frames(self, number: int = SHEET_FRAMES) -> list[Frame]:
        """``number`` of them in the order of time, the first always among them; a short video repeats some."""
        return [self._kept[index] for index in np.linspace(0, len(self._kept) - 1, number).round().astype(int)]


class SheetRow(NamedTuple):
    """One line of a contact sheet: what stands beside it, and its frames in the order of time."""

    label: str
    frames: Sequence[Frame]


def contact_sheet(rows: Sequence[SheetRow], path: Path, title: str = "") -> None:
    """Save rows of frames under each other as a PNG, each shrunk to ``THUMBNAIL`` pixels, time to the right."""
    pictures = [[_shrunk(frame) for frame in row.frames] for row in rows]
    height, width = (max(one.shape[axis] for line in pictures for one in line) for axis in (0, 1))
    columns = max(len(line) for line in pictures)
    top = _TITLE_HEIGHT if title else _GAP
    size = (_LABEL_WIDTH + columns * (width + _GAP), top + len(rows) * (height + _GAP))
    with styled():
        figure = Figure(figsize=tuple(side / _DOTS_PER_INCH for side in size), dpi=_DOTS_PER_INCH)
        FigureCanvasAgg(figure)
        figure.text(_GAP / size[0], 1 - 0.5 * top / size[1], title, va="center", fontsize=8.5)
        for index, (row, line) in enumerate(zip(rows, pictures, strict=True)):
            bottom = size[1] - top - index * (height + _GAP) - height
            middle = (bottom + height / 2) / size[1]
            figure.text(_GAP / size[0], middle, row.label, va="center", fontsize=8, linespacing=1.5)
            for column, picture in enumerate(line):
                figure.figimage(_framed(picture), _LABEL_WIDTH + column * (width + _GAP) - 1, bottom - 1)
        with _whole(path) as temporary:
            figure.savefig(temporary, format="png", dpi=_DOTS_PER_INCH, facecolor="white")


def _shrunk(frame: Frame) -> Frame:
    """The frame with ``THUMBNAIL`` pixels along its longer side, or as it is where it is smaller."""
    scale = THUMBNAIL / max(frame.shape[:2])
    if scale >= 1:
        return frame
    height, width = (max(1, round(scale * side)) for side in frame.shape[:2])
    return np.asarray(Image.fromarray(frame).resize((width, height), Image.Resampling.LANCZOS))


def _framed(picture: Frame) -> Frame:
    """The picture with a line of one pixel round it: light ones would otherwise flow into each other."""
    height, width = picture.shape[:2]
    framed = np.full((height + 2, width + 2, 3), _FRAME_GREY, np.uint8)
    framed[1:-1, 1:-1] = picture
    return framed
