"""Environments with a camera: those that render themselves, those that MuJoCo renders, and those without a renderer."""

import gymnasium
import numpy as np
import pytest
import toys  # noqa: F401  makes gym/toys:… known

from skillscape.envs.gymnasium_adapter import make_gymnasium
from skillscape.envs.registry import family_of
from skillscape.envs.urlb.camera import rendering_backend
from skillscape.errors import UserError

SELF_RENDERED = "gym/toys:Seen-v0"


def make_rendered(env, task, **options):
    return family_of(env).rendered(env, task, **options)


def test_an_environment_that_renders_itself():
    rendered = make_rendered(SELF_RENDERED, None)
    rendered.env.reset(0)
    first = rendered.render()
    rendered.env.step(np.zeros(2, np.float32))
    assert first.shape == (33, 48, 3)
    assert (rendered.render() == first + 3).all()
    assert rendered.steps_per_second == 50
    assert rendered.task == SELF_RENDERED
    rendered.close()


def test_a_maze_of_any_size():
    rendered = make_rendered("maze/square_a", "reach:1,0")
    rendered.env.reset(0)
    first = rendered.render()
    assert first.shape == (256, 256, 3)
    rendered.env.step(np.array([0, -1], np.float32))
    # The agent is red, and went down.
    red = [np.nonzero((picture == (220, 60, 50)).all(axis=-1))[0].mean() for picture in (first, rendered.render())]
    assert red[0] < red[1]
    assert (rendered.task, rendered.renderer) == ("reach:1,0", "NumPy")


def test_a_maze_from_pixels():
    rendered = make_rendered("maze-pixels/square_a", None)
    obs = rendered.env.reset(0)
    assert rendered.render().shape == (384, 384, 3)
    assert (rendered.render()[3::6, 3::6] == obs).all()
    assert (rendered.task, rendered.steps_per_second) == (None, 10)


@pytest.fixture(scope="module")
def backend():
    """The rendering backend of this machine."""
    pytest.importorskip("dm_control")
    try:
        return rendering_backend()
    except UserError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("env", "rate", "task"),
    [
        ("walker", 40, "walker_stand"),
        ("quadruped", 50, "quadruped_walk"),
        ("jaco", 25, "jaco_reach_top_left"),
        ("walker-pixels", 20, "walker_stand"),
    ],
)
def test_mujoco_renders_the_domains(backend, env, rate, task):
    rendered = make_rendered(env, None, size=96)
    assert (rendered.steps_per_second, rendered.task, rendered.renderer) == (pytest.approx(rate), task, backend)
    obs = rendered.env.reset(0)
    first = rendered.render().astype(int)
    assert first.shape == (72, 96, 3)
    assert first.std() > 5
    for _ in range(20):
        rendered.env.step(np.ones(rendered.env.spec.action_dim, np.float32))
    assert np.abs(rendered.render() - first).mean() > 0.3
    # Rendering does not change the observations, nor the other way round.
    np.testing.assert_array_equal(rendered.env.reset(0), obs)
    np.testing.assert_array_equal(rendered.render(), first)
    rendered.close()
    with_shadows = make_rendered(env, None, size=96, shadows=True)
    with_shadows.env.reset(0)
    assert np.abs(with_shadows.render() - first).mean() > 1
    with_shadows.close()


def test_another_task(backend):
    rendered = make_rendered("walker", "walker_flip")
    rendered.env.reset(0)
    assert rendered.task == "walker_flip"
    assert rendered.render().shape == (240, 320, 3)
    rendered.close()


def test_the_whole_arm_is_visible(backend):
    """The dark arm stays in the picture when it is stretched upwards; nothing of it touches the edge."""
    rendered = make_rendered("jaco", None)
    rendered.env.reset(1)
    rendered.env.environment.physics.data.qpos[:6] = (0, 3.14, 3.14, 0, 0, 0)
    rendered.env.environment.physics.forward()
    dark = rendered.render().max(axis=2) < 40
    assert dark[:, 60:260].sum() > 200
    assert not dark[0, 60:260].any()
    rendered.close()


def test_mujoco_of_gymnasium_needs_no_screen(backend, monkeypatch):
    pytest.importorskip("imageio")
    monkeypatch.delenv("DISPLAY", raising=False)
    rendered = make_rendered("gym/InvertedPendulum-v5", None)
    rendered.env.reset(0)
    assert rendered.render().std() > 0
    rendered.close()


def test_an_environment_without_a_render_mode_is_refused():
    with pytest.raises(UserError, match="toys:Toy-v0 does not render itself: give it the render mode rgb_array"):
        make_rendered("gym/toys:Toy-v0", None)
    assert make_gymnasium("toys:Toy-v0").steps_per_second == 30


class Odd(gymnasium.Env):
    """Renders whatever it was given."""

    metadata = {"render_modes": ["human"]}  # noqa: RUF012
    observation_space = action_space = gymnasium.spaces.Box(-1, 1, (2,))

    def __init__(self, picture, render_mode=None):
        self.picture, self.render_mode = picture, render_mode

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def render(self):
        if isinstance(self.picture, Exception):
            raise self.picture
        return self.picture


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (None, "does not render itself"),
        (np.zeros((4, 4), np.uint8), "does not render itself"),
        (np.zeros((4, 4, 3)), "does not render itself"),
        (NotImplementedError(), "does not render itself"),
        (gymnasium.error.DependencyNotInstalled("pygame is not installed"), "pygame is not installed"),
    ],
)
def test_invalid_frames_are_refused(monkeypatch, picture, message):
    monkeypatch.setattr("gymnasium.envs.registration.registry", {**gymnasium.registry})
    monkeypatch.setattr("gymnasium.registry", gymnasium.envs.registration.registry)
    gymnasium.register("Odd-v0", entry_point=Odd, kwargs={"picture": picture})
    rendered = make_rendered("gym/Odd-v0", None)
    rendered.env.reset(0)
    with pytest.raises(UserError, match=message):
        rendered.render()


@pytest.mark.parametrize("env", [SELF_RENDERED, "maze/square_a", "maze-pixels/square_a"])
@pytest.mark.parametrize(("option", "flag"), [({"size": 100}, "--size"), ({"shadows": True}, "--shadows")])
def test_options_of_mujoco_are_refused_by_others(env, option, flag):
    with pytest.raises(UserError, match=flag):
        make_rendered(env, None, **option)
