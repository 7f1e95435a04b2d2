"""Environments that are looked at: those that draw themselves, those that MuJoCo draws, and those that nobody can."""

import gymnasium
import numpy as np
import pytest
import toys  # noqa: F401  makes gym/toys:… known

from skillscape.envs.gymnasium_adapter import make_gymnasium
from skillscape.envs.registry import family_of
from skillscape.envs.urlb.camera import rendering_backend
from skillscape.errors import UserError

SEEN = "gym/toys:Seen-v0"


def make_drawn(env, task, **wishes):
    return family_of(env).drawn(env, task, **wishes)


def test_an_environment_that_draws_itself():
    drawn = make_drawn(SEEN, None)
    drawn.env.reset(0)
    first = drawn.draw()
    drawn.env.step(np.zeros(2, np.float32))
    assert first.shape == (33, 48, 3)
    assert (drawn.draw() == first + 3).all()
    assert drawn.steps_per_second == 50
    assert drawn.task == SEEN
    drawn.close()


def test_a_maze_of_any_size():
    drawn = make_drawn("maze/square_a", "reach:1,0")
    drawn.env.reset(0)
    first = drawn.draw()
    assert first.shape == (256, 256, 3)
    drawn.env.step(np.array([0, -1], np.float32))
    # The agent is red, and went down.
    red = [np.nonzero((picture == (220, 60, 50)).all(axis=-1))[0].mean() for picture in (first, drawn.draw())]
    assert red[0] < red[1]
    assert (drawn.task, drawn.drawn_by) == ("reach:1,0", "NumPy")


def test_a_maze_that_is_seen():
    drawn = make_drawn("maze-pixels/square_a", None)
    seen = drawn.env.reset(0)
    assert drawn.draw().shape == (384, 384, 3)
    assert (drawn.draw()[3::6, 3::6] == seen).all()
    assert (drawn.task, drawn.steps_per_second) == (None, 10)


@pytest.fixture(scope="module")
def backend():
    """The name of what draws here."""
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
def test_bodies_are_drawn(backend, env, rate, task):
    drawn = make_drawn(env, None, size=96)
    assert (drawn.steps_per_second, drawn.task, drawn.drawn_by) == (pytest.approx(rate), task, backend)
    obs = drawn.env.reset(0)
    first = drawn.draw().astype(int)
    assert first.shape == (72, 96, 3)
    assert first.std() > 5
    for _ in range(20):
        drawn.env.step(np.ones(drawn.env.spec.action_dim, np.float32))
    assert np.abs(drawn.draw() - first).mean() > 0.3
    # Looking does not change what is learned from, nor the other way round.
    np.testing.assert_array_equal(drawn.env.reset(0), obs)
    np.testing.assert_array_equal(drawn.draw(), first)
    drawn.close()
    with_shadows = make_drawn(env, None, size=96, shadows=True)
    with_shadows.env.reset(0)
    assert np.abs(with_shadows.draw() - first).mean() > 1
    with_shadows.close()


def test_a_task_of_its_own(backend):
    drawn = make_drawn("walker", "walker_flip")
    drawn.env.reset(0)
    assert drawn.task == "walker_flip"
    assert drawn.draw().shape == (240, 320, 3)
    drawn.close()


def test_the_whole_arm_is_seen(backend):
    """The dark arm stays in the picture when it is stretched upwards; nothing of it touches the edge."""
    drawn = make_drawn("jaco", None)
    drawn.env.reset(1)
    drawn.env.environment.physics.data.qpos[:6] = (0, 3.14, 3.14, 0, 0, 0)
    drawn.env.environment.physics.forward()
    dark = drawn.draw().max(axis=2) < 40
    assert dark[:, 60:260].sum() > 200
    assert not dark[0, 60:260].any()
    drawn.close()


def test_mujoco_of_gymnasium_needs_no_screen(backend, monkeypatch):
    pytest.importorskip("imageio")
    monkeypatch.delenv("DISPLAY", raising=False)
    drawn = make_drawn("gym/InvertedPendulum-v5", None)
    drawn.env.reset(0)
    assert drawn.draw().std() > 0
    drawn.close()


def test_one_that_takes_no_render_mode_is_told():
    with pytest.raises(UserError, match="toys:Toy-v0 does not draw itself: give it the render mode rgb_array"):
        make_drawn("gym/toys:Toy-v0", None)
    assert make_gymnasium("toys:Toy-v0").steps_per_second == 30


class Odd(gymnasium.Env):
    """Draws whatever it is told to."""

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
        (None, "does not draw itself"),
        (np.zeros((4, 4), np.uint8), "does not draw itself"),
        (np.zeros((4, 4, 3)), "does not draw itself"),
        (NotImplementedError(), "does not draw itself"),
        (gymnasium.error.DependencyNotInstalled("pygame is not installed"), "pygame is not installed"),
    ],
)
def test_pictures_that_are_none(monkeypatch, picture, message):
    monkeypatch.setattr("gymnasium.envs.registration.registry", {**gymnasium.registry})
    monkeypatch.setattr("gymnasium.registry", gymnasium.envs.registration.registry)
    gymnasium.register("Odd-v0", entry_point=Odd, kwargs={"picture": picture})
    drawn = make_drawn("gym/Odd-v0", None)
    drawn.env.reset(0)
    with pytest.raises(UserError, match=message):
        drawn.draw()


@pytest.mark.parametrize("env", [SEEN, "maze/square_a", "maze-pixels/square_a"])
@pytest.mark.parametrize(("wish", "flag"), [({"size": 100}, "--size"), ({"shadows": True}, "--shadows")])
def test_wishes_that_it_does_not_take(env, wish, flag):
    with pytest.raises(UserError, match=flag):
        make_drawn(env, None, **wish)
