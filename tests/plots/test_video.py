"""Videos are read back with the library that wrote them; failed or interrupted ones leave no file."""

import sys

import numpy as np
import pytest
from matplotlib.image import imread

from skillscape.errors import UserError
from skillscape.plots.video import (
    SHEET_FRAMES,
    THUMBNAIL,
    FrameSampler,
    SheetRow,
    contact_sheet,
    recording,
)

av = pytest.importorskip("av")


def moving_square(frames=12, height=48, width=64):
    """A red square that moves over blue."""
    video = np.full((frames, height, width, 3), (20, 40, 200), np.uint8)
    for time in range(frames):
        video[time, 16:32, 2 * time : 2 * time + 16] = (220, 30, 30)
    return video


def write_video(path, frames, frames_per_second):
    with recording(path, frames_per_second) as add:
        for frame in frames:
            add(frame)


def read(path):
    """The frames of a video and its stream."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]), stream


def test_a_video_can_be_read_back(tmp_path):
    video = moving_square()
    write_video(tmp_path / "video.mp4", video, 25)
    decoded, stream = read(tmp_path / "video.mp4")
    assert decoded.shape == video.shape
    assert float(stream.average_rate) == 25
    difference = np.abs(decoded.astype(int) - video)
    assert difference.mean() < 4
    # The order of time is kept, and so are the colours: a wrong matrix would shift whole areas.
    assert difference[:, 40:, 40:].max() < 12
    edges = [int((frame[24, :, 0] > 120).argmax()) for frame in decoded]
    assert edges == pytest.approx([2 * time for time in range(12)], abs=1)


def test_browsers_can_play_it(tmp_path):
    write_video(tmp_path / "video.mp4", moving_square(), 30)
    _, stream = read(tmp_path / "video.mp4")
    assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
    content = (tmp_path / "video.mp4").read_bytes()
    assert 0 < content.index(b"moov") < content.index(b"mdat")  # the index first, so that it plays while it loads


def test_ten_seconds_stay_small(tmp_path):
    noise = np.random.default_rng(0).integers(0, 40, (240, 320, 3)).astype(np.uint8)
    write_video(tmp_path / "video.mp4", (np.roll(noise, time, axis=1) for time in range(250)), 25)
    assert (tmp_path / "video.mp4").stat().st_size < 1e6


def test_odd_edges_are_cut(tmp_path):
    write_video(tmp_path / "video.mp4", moving_square(3, 33, 49), 12.5)
    decoded, stream = read(tmp_path / "video.mp4")
    assert decoded.shape == (3, 32, 48, 3)
    assert float(stream.average_rate) == 12.5


def test_the_last_frame_stays(tmp_path):
    with recording(tmp_path / "video.mp4", 20, hold=0.5) as add:
        for frame in moving_square(5):
            add(frame)
    decoded, _ = read(tmp_path / "video.mp4")
    assert len(decoded) == 15
    assert np.abs(decoded[4].astype(int) - decoded[14]).mean() < 2


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ValueError])
def test_an_interrupted_video_leaves_nothing_and_keeps_the_older_file(tmp_path, stop):
    write_video(tmp_path / "video.mp4", moving_square(4), 25)
    before = (tmp_path / "video.mp4").read_bytes()
    with pytest.raises(stop), recording(tmp_path / "video.mp4", 25) as add:  # noqa: PT012
        add(moving_square()[0])
        raise stop
    assert [path.name for path in tmp_path.iterdir()] == ["video.mp4"]
    assert (tmp_path / "video.mp4").read_bytes() == before


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ([], "at least one frame"),
        ([np.zeros((8, 8, 3), np.float32)], "uint8"),
        ([np.zeros((8, 8), np.uint8)], "height, width, 3"),
        ([np.zeros((8, 8, 3), np.uint8), np.zeros((8, 10, 3), np.uint8)], "one size"),
    ],
)
def test_invalid_frames_are_refused(tmp_path, frames, message):
    with pytest.raises(ValueError, match=message):
        write_video(tmp_path / "video.mp4", frames, 25)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_encoder_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(UserError, match=r'pip install "skillscape\[video\]"'):
        write_video(tmp_path / "video.mp4", moving_square(), 25)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", [1, 5, 8, 64, 65, 400, 1001])
def test_sampled_frames_spread_over_a_video_of_any_length(length):
    sampler = FrameSampler()
    for time in range(length):
        sampler.add(np.full((1, 1, 3), time // 4, np.uint8))
    shown = [4 * int(frame[0, 0, 0]) for frame in sampler.frames()]
    assert len(shown) == SHEET_FRAMES
    assert shown[0] == 0
    # Evenly spread to the end, but for the 64 or more frames that are kept of it.
    assert shown == pytest.approx(np.linspace(0, length - 1, SHEET_FRAMES), abs=4 + length / 32)


def test_a_contact_sheet_is_pixel_exact(tmp_path):
    small = [np.full((60, 80, 3), 100 + 10 * column, np.uint8) for column in range(3)]
    large = [np.full((240, 320, 3), 40, np.uint8)] * 3
    contact_sheet(
        [SheetRow("skill 0\nreturn 3.0", small), SheetRow("skill 1", large)], tmp_path / "sheet.png", "a title"
    )
    image = (imread(tmp_path / "sheet.png")[..., :3] * 255).round().astype(int)
    assert image.shape[1] - 3 * (THUMBNAIL + 4) in range(60, 160)  # the labels
    for value, area in ((100, 60 * 80), (110, 60 * 80), (120, 60 * 80), (40, 3 * 120 * 160)):
        assert (image == value).all(axis=2).sum() == pytest.approx(area, abs=20)  # a few dots more, in the letters
    columns = [np.flatnonzero((image == value).all(axis=2).sum(axis=0) > 50)[0] for value in (100, 110, 120)]
    assert columns == sorted(columns)
    assert [path.name for path in tmp_path.iterdir()] == ["sheet.png"]


def test_light_frames_have_a_border(tmp_path):
    white = np.full((60, 80, 3), 255, np.uint8)
    contact_sheet([SheetRow("", [white, white]), SheetRow("", [white, white])], tmp_path / "sheet.png")
    image = (imread(tmp_path / "sheet.png")[..., :3] * 255).round().astype(int)
    grey = ((image > 100) & (image < 220)).all(axis=2)
    assert grey.sum() == 4 * (2 * 82 + 2 * 60)
    assert sum(row.sum() == 2 * 82 for row in grey) == 4  # the upper and the lower line of two rows
