"""Positions of bodies: who tells them, and that no wrapper touches them."""

import numpy as np
import pytest
import toys  # noqa: F401  makes gym/toys:… known

from skillscape.envs.locomotion import BODIES
from skillscape.envs.registry import host_env, make_env
from skillscape.envs.urlb.camera import rendering_backend
from skillscape.errors import UserError

TOY = "gym/toys:Toy-v0"
COORDINATES = {
    "maze/square_a": 2,
    "maze-pixels/square_a": 2,
    "walker": 1,
    "quadruped": 2,
    "jaco": None,
    "walker-pixels": 1,
    TOY: None,
}


def made(env_id, **options):
    if "/" not in env_id:
        pytest.importorskip("dm_control")
    if env_id == "walker-pixels":
        try:
            rendering_backend()
        except UserError as error:
            pytest.skip(str(error))
    return host_env(env_id, **options)


@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize("env_id", COORDINATES)
def test_a_position_is_told_always_or_never(env_id, noise):
    env, number = made(env_id, noise=noise), COORDINATES[env_id]
    moments = [env.position]
    env.reset(1)
    moments.append(env.position)
    for _ in range(3):
        env.step(np.ones(env.spec.action_dim, np.float32))
        moments.append(env.position)
    env.close()
    if number is None:
        assert moments == [None] * 5
        return
    assert [moment.shape for moment in moments] == [(number,)] * 5
    assert (moments[1] != moments[-1]).any()


@pytest.mark.parametrize("env_id", ["walker", "quadruped", "maze/square_a"])
def test_noise_leaves_positions_alone(env_id):
    places = []
    for noise in (0.0, 0.5):
        env = made(env_id, noise=noise)
        env.reset(1)
        env.step(np.ones(env.spec.action_dim, np.float32))
        places.append(env.position)
        env.close()
    np.testing.assert_array_equal(*places)


def test_a_position_is_that_of_the_simulator():
    env = made("quadruped")
    env.reset(2)
    for _ in range(5):
        env.step(np.ones(12, np.float32))
    np.testing.assert_array_equal(env.position, env.environment.physics.named.data.xpos["torso"][:2])
    env.close()
    env = made("walker")
    env.reset(2)
    env.step(np.ones(6, np.float32))
    np.testing.assert_array_equal(env.position, env.environment.physics.named.data.xpos["torso"][:1])
    env.position[:] = 99.0
    assert env.position[0] < 99
    env.close()


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_entries_of_an_observation_can_be_the_position(noise):
    env = host_env(TOY, position=(1, 0), noise=noise)
    plain = host_env(TOY)
    np.testing.assert_array_equal(env.position, [0, 0])
    env.reset(3)
    np.testing.assert_array_equal(env.position, plain.reset(3)[[1, 0]])
    push = np.array([1, -1], np.float32)
    env.step(push)
    np.testing.assert_array_equal(env.position, plain.step(push).obs[[1, 0]])
    assert env.spec == plain.spec


@pytest.mark.parametrize(
    ("env_id", "position", "message"),
    [
        (
            TOY,
            (0, 3),
            "--env.position names entry 3, but the observation of gym/toys:Toy-v0 has the entries 0 to 2: give",
        ),
        (TOY, (-1,), "names entry -1"),
        (TOY, (1, 1), "names an entry twice"),
        ("gym/toys:Pictured-v0", (0,), "but gym/toys:Pictured-v0 shows images: leave it out"),
        ("maze/square_a", (0,), "--env.position is for .*, not for maze/square_a: leave it out"),
    ],
)
def test_a_wrong_entry_is_refused_in_one_sentence(env_id, position, message):
    with pytest.raises(UserError, match=message) as caught:
        make_env(env_id, position=position)
    assert "\n" not in str(caught.value)


def test_an_observation_can_be_moved_elsewhere_where_it_holds_the_position():
    maze = host_env("maze/square_a")
    np.testing.assert_array_equal(maze.with_position(maze.reset(0), np.float32([2, 1])), [2, 1])
    toy = host_env("gym/toys:Toy-v0", position=(2, 0), noise=0.1)
    obs = toy.reset(0)
    np.testing.assert_array_equal(toy.with_position(obs, np.float32([7, 8])), [8, obs[1], 7])
    plain = host_env("gym/toys:Toy-v0")
    assert plain.with_position(plain.reset(0), np.float32([7, 8])) is None


@pytest.mark.parametrize(("body", "width"), [("ant", 2), ("half_cheetah", 1)])
def test_a_body_is_moved_in_metres(body, width):
    pytest.importorskip("mujoco")
    pytest.importorskip("imageio")
    env = host_env(body)
    obs = env.reset(0)
    np.testing.assert_allclose(env.with_position(obs, env.position), obs, rtol=1e-6)
    moved = env.with_position(obs, np.float32([10, -20][:width]))
    raw = moved * BODIES[body].std + BODIES[body].mean
    np.testing.assert_allclose(raw[:width], [10, -20][:width], rtol=1e-5)
    np.testing.assert_array_equal(moved[width:], obs[width:])
    env.close()
