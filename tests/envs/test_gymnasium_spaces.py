"""Observations and actions of Gymnasium: what stays an image, what is flattened, and what is refused."""

import numpy as np
import pytest
from gymnasium import spaces, wrappers

from skillscape.errors import UserError

DICT = spaces.Dict(
    {"b": spaces.Box(-1, 1, (2, 2)), "a": spaces.Tuple((spaces.Discrete(3), spaces.Box(0, 255, (1,), np.uint8)))}
)


def test_nested_observations_are_flattened_in_the_order_of_gymnasium(make):
    def observe(state):
        return {"b": np.full((2, 2), 0.25, np.float32), "a": (np.int64(1), np.array([state[1]], np.uint8))}

    env = make(observation_space=DICT, observe=observe)
    assert env.spec.obs_shape == (8,)
    np.testing.assert_array_equal(env.reset(0), [0, 1, 0, 0, *[0.25] * 4])
    step = env.step(np.zeros(2, np.float32))
    np.testing.assert_array_equal(step.obs, [0, 1, 0, 1, *[0.25] * 4])
    assert step.obs.dtype == np.float32


def box(*shape, dtype=np.uint8):
    return spaces.Box(0, 255, shape, dtype)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_an_image_stays_an_image(make, channels):
    picture = np.random.default_rng(0).integers(0, 256, (64, 64, channels), np.uint8)
    env = make(observation_space=box(64, 64, channels), observe=lambda _: picture)
    assert env.spec.obs_shape == (64, 64, channels)
    assert env.spec.is_image
    obs = env.reset(0)
    assert obs.dtype == np.uint8
    np.testing.assert_array_equal(obs, picture)
    np.testing.assert_array_equal(env.step(np.zeros(2, np.float32)).obs, picture)
    picture += 1
    assert (obs != picture).all()  # the caller's to keep


@pytest.mark.parametrize("size", [(128, 192), (96, 96), (40, 500)])
def test_images_of_other_sizes_are_resized(make, size):
    picture = np.zeros((*size, 3), np.uint8)
    picture[:, size[1] // 2 :] = (200, 100, 50)
    env = make(observation_space=box(*size, 3), observe=lambda _: picture)
    obs = env.reset(0)
    assert obs.shape == env.spec.obs_shape == (64, 64, 3)
    assert not obs[:, :32].any()
    assert (obs[:, 32:] == (200, 100, 50)).all()


@pytest.mark.parametrize(
    "space",
    [
        *(box(3, 8, 8), box(8, 8, 2), box(8, 8), box(128), box(4, 128), box(15, 40)),
        *(box(8, 8, 3, dtype=np.float32), box(8, 8, 3, dtype=np.int64), box(64, 64, dtype=np.float32)),
    ],
)
def test_everything_else_is_flattened(make, space):
    env = make(observation_space=space, observe=lambda _: space.sample())
    obs = env.reset(0)
    assert (obs.dtype, obs.shape) == (np.float32, (int(np.prod(space.shape)),))
    assert not env.spec.is_image


@pytest.mark.parametrize(
    ("shape", "remedy"),
    [
        ((3, 64, 64), "put the channels last"),
        ((4, 84, 84), "put the channels last"),
        ((64, 64), r"ReshapeObservation\(env, \(64, 64, 1\)\)"),
        ((16, 16), "add that axis"),
        ((84, 84, 9), "one grey or colour frame"),
        ((64, 64, 2), "one grey or colour frame"),
        ((4, 84, 84, 3), "one grey or colour frame"),
    ],
)
def test_an_image_that_is_not_height_by_width_by_channel_is_refused(make, shape, remedy):
    with pytest.raises(UserError, match=f"without 1, 3 or 4 channels in the last axis: .*{remedy}.*Flatten"):
        make(observation_space=box(*shape))


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_an_image_that_is_not_uint8_is_refused(make, dtype):
    with pytest.raises(UserError, match=r"look like images but are not uint8: scale them to uint8.*Flatten"):
        make(observation_space=box(64, 64, 3, dtype=dtype))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Dict({"eye": box(64, 64, 3), "joints": spaces.Box(-1, 1, (4,))}),
        spaces.Tuple((spaces.Discrete(2), spaces.Dict({"eyes": box(64, 64)}))),
        spaces.Dict({"eye": box(20, 30, 4, dtype=np.float32)}),
    ],
)
def test_an_image_inside_a_dict_or_tuple_is_refused(make, space):
    with pytest.raises(UserError, match=r"an image inside .*: return that part alone.*Flatten"):
        make(observation_space=space)


def test_the_image_inside_a_refused_observation_can_be_returned_alone(make):
    space = spaces.Dict({"eye": box(64, 64, 3), "joints": spaces.Box(-1, 1, (4,))})
    env = make(
        wrap=lambda env: wrappers.TransformObservation(env, lambda obs: obs["eye"], space["eye"]),
        observation_space=space,
        observe=lambda _: space.sample(),
    )
    assert env.reset(0).shape == env.spec.obs_shape == (64, 64, 3)


def test_small_grids_inside_a_dict_are_flattened(make):
    space = spaces.Dict({"grid": box(7, 7, 3), "facing": spaces.Discrete(4)})
    assert make(observation_space=space, observe=lambda _: space.sample()).reset(0).shape == (151,)


@pytest.mark.parametrize(
    ("shape", "wrap", "observed"),
    [
        ((64, 64), lambda env: wrappers.ReshapeObservation(env, (64, 64, 1)), (64, 64, 1)),
        (
            (3, 64, 64),
            lambda env: wrappers.TransformObservation(env, lambda obs: obs.transpose(1, 2, 0), box(64, 64, 3)),
            (64, 64, 3),
        ),
        (
            (84, 84, 9),
            lambda env: wrappers.TransformObservation(env, lambda obs: obs[..., -3:], box(84, 84, 3)),
            (64, 64, 3),
        ),
        ((20, 30), wrappers.FlattenObservation, (600,)),
    ],
)
def test_the_advice_for_a_refused_image_works(make, shape, wrap, observed):
    picture = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    env = make(wrap=wrap, observation_space=box(*shape), observe=lambda _: picture)
    assert env.reset(0).shape == env.spec.obs_shape == observed


@pytest.mark.parametrize("wrong", [np.zeros((64, 64, 4), np.uint8), np.zeros((64, 64, 3), np.float32)])
def test_an_image_outside_its_space_is_refused(make, wrong):
    env = make(observation_space=box(64, 64, 3), observe=lambda _: wrong)
    with pytest.raises(UserError, match=r"an observation of shape \(64, 64, .\) and dtype .*correct the one"):
        env.reset(0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"action_space": spaces.Discrete(4)}, "Discrete.*continuous actions"),
        ({"action_space": spaces.Box(0, 5, (1,), np.int32)}, "Box of floats"),
        ({"action_space": spaces.Box(-np.inf, np.inf, (1,))}, "unbounded actions"),
        ({"observation_space": spaces.Sequence(spaces.Box(-1, 1))}, "does not flatten"),
    ],
)
def test_unsupported_spaces_are_refused(make, arguments, message):
    with pytest.raises(UserError, match=message):
        make(**arguments)
