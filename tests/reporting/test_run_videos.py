"""Videos of whole runs: a maze, a toy that renders itself, and the three robots; refusals leave nothing."""

import json
import re
import sys

import jax
import numpy as np
import pytest
import toys  # noqa: F401  makes gym/toys:… known

from skillscape.api import finetune, pretrain
from skillscape.cli import main
from skillscape.configure import from_scratch, pretraining
from skillscape.conv import preprocess
from skillscape.envs.urlb import camera
from skillscape.errors import UserError
from skillscape.plots import video
from skillscape.reporting.open_loop import CONTEXT, OpenLoop
from skillscape.reporting.video import VideoRequest, make_videos
from skillscape.training.policy import DRAWN_SKILLS
from skillscape.training.run import Run
from skillscape.training.state import init_state

av = pytest.importorskip("av")

SEEN = "gym/toys:Seen-v0"


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation():
    """These runs take a few steps; compiling them well would take longer."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def maze(tmp_path_factory):
    """Two seeds in a maze, as they are before training."""
    folder = tmp_path_factory.mktemp("maze")
    for seed in (3, 4):
        untrained(folder / f"seed_{seed}", pretraining("diayn", "maze/square_a", preset="smoke", seed=seed))
    return folder


def untrained(folder, config):
    """A run as it is before training."""
    run = Run.create(folder, config)
    run.keep_snapshot(init_state(run.config, run.spec))
    return run


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """Makes the run of a method on a toy that renders itself, once."""
    folder = tmp_path_factory.mktemp("toys")

    def make(method):
        if not (folder / method).exists():
            pretrain(method, SEEN, preset="smoke", steps=1000, out=folder / method, progress=False)
        return folder / method

    return make


@pytest.fixture
def walker(tmp_path):
    """A walker run as it is before training."""
    pytest.importorskip("dm_control")
    return untrained(tmp_path / "walker", pretraining("diayn", "walker", preset="smoke")).folder


def recorded(folder, out=None, **request):
    """Names of the files, arguments of the callbacks, and the folder of the files."""
    calls = []
    paths = list(make_videos(folder, out, VideoRequest(**request), lambda *start: calls.append(start), calls.append))
    assert len({path.parent for path in paths}) == 1
    assert {path.name for path in paths} <= {path.name for path in paths[0].parent.iterdir()}
    assert not list(paths[0].parent.glob(".*"))
    return [path.name for path in paths], calls, paths[0].parent


def frames(path):
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def test_a_maze(maze, tmp_path):
    names, calls, out = recorded(maze, tmp_path / "videos", steps=4, size=96)
    assert names == [*(f"skill_{number:02d}.mp4" for number in range(10)), "skills.png"]
    assert calls == [("matplotlib", 10), *(f"skill {number}" for number in range(10))]
    video_frames = frames(out / "skill_07.mp4")
    assert len(video_frames) == 4 * 3 + 1 + 30  # three frames a step, and a second on the last
    assert video_frames[0].shape == (96, 96, 3)


def test_a_task_in_a_maze_is_one_episode_with_its_return(tmp_path, monkeypatch):
    sheets = []
    monkeypatch.setattr("skillscape.reporting.video.contact_sheet", lambda *sheet: sheets.append(sheet))
    run = untrained(tmp_path / "run", from_scratch("maze/square_a", "reach", preset="smoke"))
    list(make_videos(run.folder, None, VideoRequest(steps=3), lambda *_: None, lambda _: None))
    ((rows, _, title),) = sheets
    assert [row.label for row in rows] == ["policy 0\nreturn 0.0"]
    assert title == "PPO · maze/square_a · 0 steps · seed 0 · the first 0.3 s, returns of reach"
    assert len(frames(run.folder / "videos" / "skill_00.mp4")) == 4
    with pytest.raises(UserError, match="--rollouts is for pre-training in mazes"):
        recorded(run.folder, rollouts=2)


def test_seeds(maze):
    _, _, first = recorded(maze, skill=1, steps=1, size=64)
    names, _, second = recorded(maze, skill=1, steps=1, size=64, seed=4)
    assert names == ["skill_01.mp4", "skill_01.png"]
    assert (first, second) == (maze / "seed_3" / "videos", maze / "seed_4" / "videos")
    with pytest.raises(UserError, match=r"There is no seed 9: .* has 3, 4"):
        recorded(maze, seed=9)


def test_an_environment_that_renders_itself(toy):
    names, calls, out = recorded(toy("diayn"))
    assert names == [*(f"skill_{number:02d}.mp4" for number in range(16)), "skills.png"]
    assert out == toy("diayn") / "videos"
    assert calls[0] == ("its own render()", 16)
    video_frames = frames(out / "skill_03.mp4")
    # The episode is shorter than ten seconds; of fifty steps a second, every other is a frame.
    assert len(video_frames) == 31
    assert [frame.mean() for frame in video_frames] == pytest.approx([40 + 6 * time for time in range(31)], abs=3)


def test_labels_have_the_returns_of_evaluate(toy, tmp_path, monkeypatch, capsys):
    sheets = []
    monkeypatch.setattr("skillscape.reporting.video.contact_sheet", lambda *sheet: sheets.append(sheet))
    list(make_videos(toy("diayn"), tmp_path, VideoRequest(steps=2), lambda *_: None, lambda _: None))
    capsys.readouterr()
    main(["evaluate", str(toy("diayn")), "--json", "--episodes", "2"])
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    ((rows, path, title),) = sheets
    assert [row.label for row in rows] == [
        f"{name}\nreturn {returns[0]:,.1f}" for name, returns in run["returns"].items()
    ]
    assert path == tmp_path / "skills.png"
    assert "DIAYN" in title
    assert SEEN in title


@pytest.mark.parametrize(("method", "number", "noun"), [("cic", DRAWN_SKILLS, "draw"), ("rnd", 1, "policy")])
def test_a_continuum_and_none(toy, tmp_path, method, number, noun):
    names, calls, _ = recorded(toy(method), tmp_path, steps=2)
    assert len(names) == number + 1
    assert calls[1:] == [f"{noun} {index}" for index in range(number)]


def test_a_fine_tuned_run_shows_its_skill(toy, tmp_path):
    run = finetune(toy("diayn"), SEEN, out=tmp_path / "tuned", skill=5, steps=1000, progress=False)
    assert np.argmax(run.kept_skill()) == 5
    assert recorded(run.folder, steps=2)[0] == ["skill_05.mp4", "skills.png"]
    assert recorded(run.folder, steps=2, skill=7)[0] == ["skill_07.mp4", "skill_07.png"]
    assert len(recorded(run.folder, steps=2, skill="all")[0]) == 17


def test_a_mixture_is_one_video(toy, tmp_path):
    run = finetune(toy("diayn"), SEEN, out=tmp_path / "tuned", skill="controller", steps=1000, progress=False)
    assert recorded(run.folder, steps=2)[1:][0] == [("its own render()", 1), "controller"]
    with pytest.raises(UserError, match="mixture of its skills; leave --skill out"):
        recorded(run.folder, skill=2)


def test_ctrl_c_keeps_complete_videos(toy, tmp_path, monkeypatch):
    count = [0]

    def stopping(_sampler, _frame):
        count[0] += 1
        if count[0] == 40:
            raise KeyboardInterrupt

    monkeypatch.setattr(video.FrameSampler, "add", stopping)
    monkeypatch.setattr(video.FrameSampler, "frames", lambda _: [])
    with pytest.raises(KeyboardInterrupt):
        recorded(toy("diayn"), tmp_path / "videos")
    assert [path.name for path in (tmp_path / "videos").iterdir()] == ["skill_00.mp4"]


def refused(capsys, *arguments):
    """The one line of a command that is refused."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(["video", *map(str, arguments)])
    assert stop.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--skill", "16"], "There is no skill 16: .* has skills 0 to 15"),
        (["--skill", "first"], "--skill cannot be 'first'; give the index"),
        (["--seed", "1"], "There is no seed 1: .* has 0"),
        (["--steps", "0"], "--steps must be at least 1"),
        (["--size", "100"], "renders itself, so its frames cannot be set up: leave --size out"),
        (["--size", "65"], "--size must be an even number between 64 and 1920"),
        (["--shadows"], "leave --shadows out"),
        (["--rollouts", "3"], "--rollouts is for pre-training in mazes"),
    ],
)
def test_refusals_are_one_line_and_leave_nothing(toy, tmp_path, capsys, arguments, sentence):
    line = refused(capsys, toy("diayn"), "--out", tmp_path / "videos", *arguments)
    assert re.search(sentence, line)
    assert not (tmp_path / "videos").exists()


def test_more_refusals(maze, toy, tmp_path, capsys, monkeypatch):
    assert "does not exist" in refused(capsys, tmp_path / "nowhere")
    assert "--shadows applies to MuJoCo environments" in refused(capsys, maze, "--shadows")
    (tmp_path / "file").write_text("")
    assert "choose another --out" in refused(capsys, toy("diayn"), "--out", tmp_path / "file" / "videos")
    monkeypatch.setitem(sys.modules, "av", None)
    assert 'pip install "skillscape[video]"' in refused(capsys, toy("diayn"), "--out", tmp_path / "videos")
    assert not (tmp_path / "videos").exists()


def test_an_environment_that_does_not_render_itself(toy, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("toys.Seen.render", lambda _: None)
    assert "does not render itself" in refused(capsys, toy("diayn"), "--out", tmp_path / "videos")
    assert not (tmp_path / "videos").exists()


def test_missing_graphics_are_one_line(walker, capsys, monkeypatch):
    def fail(backend):
        raise ImportError(f"no lib{backend}")

    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(camera, "try_backend", fail)
    monkeypatch.setattr(camera, "rendering_backend", camera.rendering_backend.__wrapped__)
    line = refused(capsys, walker)
    assert "libegl1" in line
    assert "libosmesa6" in line
    assert not (walker / "videos").exists()


def test_the_command_prints_the_renderer_and_the_paths(toy, tmp_path, capsys):
    capsys.readouterr()
    main(["video", str(toy("diayn")), "--skill", "2", "--steps", "2", "--out", str(tmp_path)])
    printed = capsys.readouterr()
    assert printed.out.split() == [str(tmp_path / "skill_02.mp4"), str(tmp_path / "skill_02.png")]
    assert printed.err.splitlines() == ["rendering with its own render()", "skill 2 · 1 of 1"]


@pytest.mark.slow
@pytest.mark.parametrize(("env", "length"), [("walker", 401), ("quadruped", 251), ("jaco", 251)])
def test_videos_of_robots(env, length, tmp_path):
    pytest.importorskip("dm_control")
    try:
        backend = camera.rendering_backend()
    except UserError as error:
        pytest.skip(str(error))
    pretrain("diayn", env, preset="smoke", steps=1000, out=tmp_path / "run", progress=False)
    names, calls, out = recorded(tmp_path / "run", skill=3)
    assert names == ["skill_03.mp4", "skill_03.png"]
    assert calls == [(backend, 1), "skill 3"]
    video_frames = frames(out / "skill_03.mp4")
    assert len(video_frames) == length
    assert video_frames[0].shape == (240, 320, 3)
    assert video_frames[0].std() > 5
    assert np.abs(video_frames[0].astype(int) - video_frames[20]).max() > 60
    assert (out / "skill_03.mp4").stat().st_size < 1e6


def test_real_frames_beside_predictions(tmp_path, maze):
    run = untrained(tmp_path / "images", pretraining("diayn", "maze-pixels/square_a", preset="smoke"))
    names, calls, out = recorded(run.folder, skill=2, imagined=True, steps=8, size=64)
    assert names == ["skill_02-imagined.mp4", "skill_02-imagined.png"]
    assert calls[0] == ("the agent's own images", 1)
    video_frames = frames(out / names[0])
    assert video_frames[0].shape == (64, 192, 3)
    # The maze on the left; an untrained model neither reconstructs nor predicts it.
    first = run.config.host_env().reset(0)
    assert np.abs(video_frames[0][:, :64].astype(int) - first).mean() < 5
    for view in (slice(64, 128), slice(128, 192)):
        assert min(np.abs(frame[:, :64].astype(int) - frame[:, view]).mean() for frame in video_frames) > 20
    with pytest.raises(UserError, match="--shadows does not go with --imagined"):
        recorded(run.folder, imagined=True, shadows=True)
    with pytest.raises(UserError, match="has no world model of images"):
        recorded(maze, imagined=True)


def test_a_maze_from_images_is_shown_like_one_from_positions(tmp_path):
    run = untrained(tmp_path / "images", pretraining("diayn", "maze-pixels/square_a", preset="smoke"))
    names, calls, out = recorded(run.folder, skill=2, steps=3, size=96, rollouts=2)
    assert calls == [("matplotlib", 1), "skill 2"]
    assert frames(out / names[0])[0].shape == (96, 96, 3)


def test_reconstructions_and_open_loop_predictions(tmp_path, monkeypatch):
    run = untrained(tmp_path / "images", pretraining("diayn", "maze-pixels/square_a", preset="smoke"))
    open_loop = OpenLoop(run)
    calls = []

    def predict(agent, batch, context):
        calls.append((context, batch.action.shape, float(batch.first.sum())))
        return preprocess(batch.obs) + context / 255

    monkeypatch.setattr(open_loop, "_predict", predict)
    real, reconstructed, predicted = open_loop.run(np.eye(10, dtype=np.float32)[3], 8)
    assert calls == [(9, (1, 9, 2), 1.0), (CONTEXT, (1, 9, 2), 1.0)]
    np.testing.assert_array_equal(reconstructed, np.minimum(real.astype(int) + 9, 255))
    np.testing.assert_array_equal(predicted, np.minimum(real.astype(int) + CONTEXT, 255))
    open_loop.env.close()


def test_open_loop_needs_images(toy):
    with pytest.raises(UserError, match="has no world model of images"):
        recorded(toy("diayn"), imagined=True)
