"""Environments of Gymnasium under the interface of this library: all that have real-valued actions."""

import contextlib
import difflib
import warnings
from collections.abc import Iterator
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium import spaces
from jaxtyping import Float, Float32, Shaped, UInt8

from skillscape.envs import IMAGE_SIDE
from skillscape.envs.base import NO_ARGUMENTS, Arguments, HostEnv, HostStep
from skillscape.envs.gymnasium_modules import bring_in, missing, raised
from skillscape.envs.gymnasium_spaces import continuous, flat_size, image_shape
from skillscape.envs.resize import Scaling
from skillscape.envs.urlb.camera import without_screen
from skillscape.errors import EnvFault, UserError
from skillscape.types import EnvSpec

DEFAULT_HORIZON = 1000
"""Where episodes are cut if the environment was registered without a limit of its own."""
DEFAULT_STEPS_PER_SECOND = 30.0
"""How fast to show an environment that does not say."""
RESERVED = ("id", "disable_env_checker", "render_mode")
"""What ``gymnasium.make`` is given by this module itself."""
BRIDGES = ("GymV21Environment-v0", "GymV26Environment-v0")
"""Environments that make others by a name among their arguments, and would import its module."""

_HINTS = {
    "unexpected keyword argument 'seed'": "let its reset() take the argument seed",
    "values to unpack": "return (observation, reward, terminated, truncated, info) from its step()",
}
"""What to correct in an environment of the old interface, by what Python says of it."""


@final
class GymnasiumEnv(HostEnv):
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
        self._action_space = continuous(identifier, action_space)
        self._low, self._high = (
            np.asarray(bound, np.float64).ravel() for bound in (self._action_space.low, self._action_space.high)
        )
        self._scale = (self._high - self._low) / 2
        limit = None if inner.spec is None else inner.spec.max_episode_steps
        seen = image_shape(identifier, self._observation_space)
        self._scaling = None if seen is None else Scaling(*seen[:2])
        shape = (flat_size(identifier, self._observation_space),) if seen is None else (IMAGE_SIDE, IMAGE_SIDE, seen[2])
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
        """The environment's own picture of itself; see ``drawn`` of ``make_gymnasium``."""
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


def make_gymnasium(identifier: str, *, kwargs: Arguments = NO_ARGUMENTS, drawn: bool = False) -> GymnasiumEnv:
    """The Gymnasium environment of this ID; ``module:ID`` first imports the module that registers it.

    ``kwargs``: for ``gymnasium.make``, and so for the environment's constructor; ``drawn``: made with the render mode
    "rgb_array", so that it can be looked at.
    """
    name = bring_in(identifier)
    _check_arguments(identifier, name, kwargs)
    advice = "correct the environment, or give it other arguments" if kwargs else "correct the environment"
    with _faults(identifier, "when it was made", advice=advice), warnings.catch_warnings():
        if drawn:
            # What Gymnasium says of a mode that is not there is said again, in one sentence, when it is drawn.
            warnings.filterwarnings("ignore", ".*render_mode")
        mode: dict[str, Any] = {"render_mode": "rgb_array"} if drawn else {}
        try:
            inner = gymnasium.make(name, disable_env_checker=True, **mode, **kwargs)
        except TypeError as error:
            if drawn and "unexpected keyword argument 'render_mode'" in str(error):
                raise _undrawn(identifier) from error
            for argument in kwargs:
                if f"unexpected keyword argument '{argument}'" in str(error):
                    raise _not_taken(identifier, argument) from error
            raise
        except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
            raise missing(identifier, error) from error
        except gymnasium.error.Error as error:
            if name in gymnasium.registry:
                raise
            raise _unknown(identifier, error) from error
    try:
        return GymnasiumEnv(identifier, inner)
    except UserError:
        with contextlib.suppress(Exception, SystemExit):
            inner.close()
        raise


def _check_arguments(identifier: str, name: str, kwargs: Arguments) -> None:
    for argument in kwargs:
        if not argument.isidentifier() or argument in RESERVED:
            raise _not_taken(identifier, argument)
    if kwargs and name in BRIDGES:
        # The arguments may come from the folder of a run, which must not make anything be imported.
        raise UserError(
            f"{identifier} makes another environment by its name: register that one under an ID of its own."
        )


def _not_taken(identifier: str, argument: str) -> UserError:
    return UserError(
        f"{identifier} does not take the keyword argument {argument!r}: leave it out, or give one that its constructor "
        "has."
    )


@contextlib.contextmanager
def _faults(identifier: str, call: str, where: str = "", advice: str = "correct the environment") -> Iterator[None]:
    """Whatever the user's code raises in here is told as the environment's fault; Ctrl-C is not."""
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        advice = next((hint for text, hint in _HINTS.items() if text in str(error)), advice)
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
