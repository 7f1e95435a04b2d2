"""A user's own environment: anything that Gymnasium can make and that has real-valued actions."""

import contextlib
import difflib
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium import spaces
from jaxtyping import Float, Float32, Shaped, UInt8

from skillscape.envs.base import HostEnv, HostStep
from skillscape.envs.frames import IMAGE_SIDE, Scaling
from skillscape.envs.modules import bring_in, missing, raised
from skillscape.envs.urlb.camera import without_screen
from skillscape.errors import EnvFault, UserError
from skillscape.types import EnvSpec

DEFAULT_HORIZON = 1000
"""Where episodes are cut if the environment was registered without a limit of its own."""
DEFAULT_STEPS_PER_SECOND = 30.0
"""How fast to show an environment that does not say."""
CHANNELS = (1, 3, 4)
"""How many numbers a pixel of an image may have."""
SMALLEST_PICTURE = 16
"""Rows and columns from which a grid of bytes, or of numbers with channels, is taken for a picture, not a vector."""

_HINTS = {
    "unexpected keyword argument 'seed'": "let its reset() take the argument seed",
    "values to unpack": "return (observation, reward, terminated, truncated, info) from its step()",
}
"""What to correct in an environment of the old interface, by what Python says of it."""


@final
class OwnEnv(HostEnv):
    """A Gymnasium environment: its observation flattened to float32, actions stretched from [-1, 1] to its Box.

    Dictionaries and tuples are flattened in Gymnasium's order, discrete parts of an observation become one-hot. An
    image, a Box of uint8 with 1, 3 or 4 channels last, stays one, scaled to 64 × 64; one in another form, or inside a
    dictionary, is refused. Whatever the environment raises becomes an ``EnvFault``.
    """

    def __init__(self, identifier: str, inner: "gymnasium.Env[Any, Any]") -> None:
        self._identifier = identifier
        self._inner = inner
        self._seed = 0
        with _faults(identifier, "when it was asked for its spaces"):
            action_space, self._observation_space = inner.action_space, inner.observation_space
        self._action_space = _continuous(identifier, action_space)
        self._low, self._high = (
            np.asarray(bound, np.float64).ravel() for bound in (self._action_space.low, self._action_space.high)
        )
        self._scale = (self._high - self._low) / 2
        limit = None if inner.spec is None else inner.spec.max_episode_steps
        seen = _image_shape(identifier, self._observation_space)
        self._scaling = None if seen is None else Scaling(*seen[:2])
        shape = (
            (_flat_size(identifier, self._observation_space),) if seen is None else (IMAGE_SIDE, IMAGE_SIDE, seen[2])
        )
        self._spec = EnvSpec(shape, self._low.size, limit or DEFAULT_HORIZON)
        self._left = 0

    @property
    def spec(self) -> EnvSpec:
        """Sizes of the flat vectors or of the image, and the limit the environment was registered with."""
        return self._spec

    def reset(self, seed: int) -> Shaped[np.ndarray, "..."]:
        """Begin the episode of this seed."""
        self._seed = seed
        # What is seen may be drawn here for the first time.
        drawing = contextlib.nullcontext() if self._scaling is None else without_screen()
        with _faults(self._identifier, "in reset()", f" with seed {seed}"), drawing:
            returned = self._inner.reset(seed=seed)
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise EnvFault(
                f"{self._identifier} returned {_kind(returned)} from reset(), not the pair (observation, info)"
            )
        self._left = self._spec.horizon
        return self._observed(returned[0])

    def step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        """Take one step of the environment."""
        if self._left == 0:
            raise RuntimeError("The episode is over; call reset() first.")
        space = self._action_space
        raw = (self._low + self._scale * (action + np.float64(1))).astype(space.dtype).reshape(space.shape)
        # Rounding, here or in whatever computed the action, must not carry it out of the Box.
        raw = np.minimum(np.maximum(raw, space.low), space.high)
        where = f" {self._spec.horizon - self._left + 1} after reset(seed={self._seed})"
        with _faults(self._identifier, "in step()", f" at step{where}"):
            obs, reward, terminated, truncated, _ = self._inner.step(raw)
            terminated, truncated = bool(terminated), bool(truncated)
        number = np.asarray(reward)
        if number.shape or number.dtype.kind not in "biuf":
            raise EnvFault(
                f"{self._identifier} returned {_kind(reward)} as the reward from step(), not a number",
                f" at step{where}",
            )
        self._left -= 1
        # The environment's own limit cuts at the same step; ours only matters where it has none.
        truncated = truncated or (self._left == 0 and not terminated)
        if terminated or truncated:
            self._left = 0
        return HostStep(self._observed(obs), float(number), terminated, truncated)

    @property
    def steps_per_second(self) -> float:
        """How fast the environment wants to be shown."""
        with _faults(self._identifier, "when it was asked for its render_fps"):
            return float(self._inner.metadata.get("render_fps") or DEFAULT_STEPS_PER_SECOND)

    def draw(self) -> UInt8[np.ndarray, "h w 3"]:
        """The environment's own picture of itself; see ``drawn`` of ``make_own``."""
        with _faults(self._identifier, "in render()"), without_screen():
            try:
                picture = self._inner.render()
            except gymnasium.error.DependencyNotInstalled as error:
                raise missing(self._identifier, error) from error
            except NotImplementedError as error:
                raise _undrawn(self._identifier) from error
        if (
            not isinstance(picture, np.ndarray)
            or picture.ndim != 3
            or picture.shape[2] != 3
            or picture.dtype != np.uint8
        ):
            raise _undrawn(self._identifier)
        return picture

    def close(self) -> None:
        """Close the environment; one that fails to is not needed any more, so nothing ends over it."""
        self._left = 0
        try:
            self._inner.close()
        except (Exception, SystemExit) as error:
            warnings.warn(f"{self._identifier} {raised(error)} in close().", RuntimeWarning, stacklevel=2)

    def _observed(self, obs: Any) -> Shaped[np.ndarray, "..."]:  # noqa: ANN401  (whatever the space holds)
        if self._scaling is None:
            return self._flat(obs)
        picture = np.asarray(obs)
        if picture.shape != self._observation_space.shape or picture.dtype != np.uint8:
            raise self._wrong(obs)
        return self._scaling(picture)

    def _flat(self, obs: Any) -> Float32[np.ndarray, " o"]:  # noqa: ANN401  (whatever the space holds)
        space = self._observation_space
        try:
            # Flattening any other space makes a new array; a Box could hand out the environment's own memory.
            flat = obs if isinstance(space, spaces.Box) else spaces.flatten(space, obs)
            vector = np.array(flat, dtype=np.float32).reshape(-1)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            raise self._wrong(obs) from error
        if vector.shape != self._spec.obs_shape:
            raise self._wrong(obs)
        return vector

    def _wrong(self, obs: Any) -> EnvFault:  # noqa: ANN401  (whatever came out)
        return EnvFault(
            f"{self._identifier} returned an observation {_kind(obs).removeprefix('something ')}, which is not in its "
            f"observation_space {self._observation_space}",
            advice="correct the one or the other",
        )


def make_own(identifier: str, *, drawn: bool = False) -> OwnEnv:
    """The Gymnasium environment of this ID; ``module:ID`` first imports the module that registers it.

    ``drawn``: made with the render mode "rgb_array", so that it can be looked at.
    """
    name = bring_in(identifier)
    with _faults(identifier, "when it was made"), warnings.catch_warnings():
        if drawn:
            # What Gymnasium says of a mode that is not there is said again, in one sentence, when it is drawn.
            warnings.filterwarnings("ignore", ".*render_mode")
        mode: dict[str, Any] = {"render_mode": "rgb_array"} if drawn else {}
        try:
            inner = gymnasium.make(name, disable_env_checker=True, **mode)
        except TypeError as error:
            if drawn and "render_mode" in str(error):
                raise _undrawn(identifier) from error
            raise
        except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
            raise missing(identifier, error) from error
        except gymnasium.error.Error as error:
            if name in gymnasium.registry:
                raise
            raise _unknown(identifier, error) from error
    try:
        return OwnEnv(identifier, inner)
    except UserError:
        with contextlib.suppress(Exception, SystemExit):
            inner.close()
        raise


@contextlib.contextmanager
def _faults(identifier: str, call: str, where: str = "") -> Iterator[None]:
    """Whatever the user's code raises in here is told as the environment's fault; Ctrl-C is not."""
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        advice = next((hint for text, hint in _HINTS.items() if text in str(error)), "correct the environment")
        raise EnvFault(f"{identifier} {raised(error)} {call}", where, advice) from error


def _kind(value: Any) -> str:  # noqa: ANN401  (whatever came out)
    if isinstance(value, np.ndarray):
        return f"something of shape {value.shape} and type {value.dtype}"
    return f"something of type {type(value).__name__}"


def _undrawn(identifier: str) -> UserError:
    return UserError(
        f"{identifier} does not draw itself: give it the render mode rgb_array, "
        f"with a render() that returns uint8 pixels [height, width, 3]."
    )


def _unknown(identifier: str, error: Exception) -> UserError:
    known = {name.lower(): name for name in gymnasium.registry}
    wanted = identifier.rpartition(":")[2].lower()
    near = [known[name] for name in difflib.get_close_matches(wanted, known, n=3, cutoff=0.6)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"Gymnasium says: {' '.join(str(error).split())}"
    return UserError(
        f"Gymnasium has no environment {identifier!r}: {hint} One that a module registers is written module:ID."
    )


def _continuous(identifier: str, space: "spaces.Space[Any]") -> spaces.Box:
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise UserError(
            f"{identifier} has the actions {space}, but every method here needs a Box of real numbers: "
            f"wrap the environment, or choose one with continuous actions."
        )
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise UserError(
            f"{identifier} has actions without bounds ({space}), so [-1, 1] cannot be stretched to them: "
            f"wrap it with gymnasium.wrappers.RescaleAction or give its action_space finite bounds."
        )
    return space


def _image_shape(identifier: str, space: "spaces.Space[Any]") -> tuple[int, int, int] | None:
    """Height, width and channels of observations that are images; pictures in another form are refused."""
    no_images = "or, if they are no images, use gymnasium.wrappers.FlattenObservation"
    within = _picture_within(space)
    if within is not None:
        raise UserError(
            f"{identifier} has observations with a picture in one of their parts ({within}), and flat it would be no "
            f"picture any more: hand out that part alone with gymnasium.wrappers.TransformObservation, {no_images}."
        )
    if not isinstance(space, spaces.Box):
        return None
    if _is_laid_out(space) and space.dtype == np.uint8:
        height, width, channels = space.shape
        return height, width, channels
    if not _is_picture(space):
        return None
    if space.dtype != np.uint8:
        raise UserError(
            f"{identifier} has observations of shape {space.shape} and type {space.dtype}, which look like images that "
            f"are not of bytes: scale them to uint8 with gymnasium.wrappers.TransformObservation, {no_images}."
        )
    raise UserError(
        f"{identifier} has observations of shape {space.shape} and type uint8, which look like images without 1, 3 or "
        f"4 channels in their last axis: {_remedy(space.shape)}, {no_images}."
    )


def _is_laid_out(space: spaces.Box) -> bool:
    """Whether a Box is height by width by channel."""
    return len(space.shape) == 3 and space.shape[2] in CHANNELS


def _is_picture(space: spaces.Box) -> bool:
    """Whether a Box is taken for a picture: it has the size of one, and is of bytes or laid out like one."""
    large = sum(side >= SMALLEST_PICTURE for side in space.shape) >= 2
    return large and (space.dtype == np.uint8 or _is_laid_out(space))


def _picture_within(space: "spaces.Space[Any]") -> spaces.Box | None:
    """The first picture among the parts of a Dict or Tuple, however deep."""
    parts: Iterable[spaces.Space[Any]] = ()
    if isinstance(space, spaces.Dict):
        parts = space.spaces.values()
    elif isinstance(space, spaces.Tuple):
        parts = space.spaces
    for part in parts:
        found = part if isinstance(part, spaces.Box) and _is_picture(part) else _picture_within(part)
        if found is not None:
            return found
    return None


def _remedy(shape: tuple[int, ...]) -> str:
    """How pictures of this shape become height by width by channel."""
    if len(shape) == 2:
        return f"add that axis with gymnasium.wrappers.ReshapeObservation(env, {(*shape, 1)})"
    if len(shape) == 3 and shape[0] in CHANNELS:
        return "put the channels last with gymnasium.wrappers.TransformObservation"
    return "give one frame in grey or colour, for instance with gymnasium.wrappers.TransformObservation"


def _flat_size(identifier: str, space: "spaces.Space[Any]") -> int:
    flat = space
    with contextlib.suppress(NotImplementedError):
        flat = spaces.flatten_space(space)
    if not isinstance(flat, spaces.Box) or not flat.shape:
        raise UserError(
            f"{identifier} has the observations {space}, which do not flatten to one vector of fixed size: "
            f"wrap it so that they are a Box, or a Dict or Tuple of them."
        )
    return int(np.prod(flat.shape))
