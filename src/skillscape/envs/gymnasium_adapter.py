"""Gymnasium environments with continuous actions under the ``HostEnv`` interface."""

import contextlib
import difflib
import warnings
from collections.abc import Iterator
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium import spaces
from jaxtyping import Float, Shaped, UInt8

from skillscape.envs import IMAGE_SIDE
from skillscape.envs.base import NO_KWARGS, HostEnv, HostStep, Kwargs
from skillscape.envs.gymnasium_modules import import_env_module, missing_package, raised
from skillscape.envs.gymnasium_spaces import continuous_actions, flat_size, image_shape
from skillscape.envs.resize import AreaResize
from skillscape.envs.urlb.camera import headless
from skillscape.errors import EnvFault, UserError
from skillscape.types import EnvSpec

DEFAULT_HORIZON = 1000
"""Episode length for environments that were registered without max_episode_steps."""
DEFAULT_STEPS_PER_SECOND = 30.0
"""Frame rate for environments without render_fps."""
RESERVED = ("id", "disable_env_checker", "render_mode")
"""Arguments of ``gymnasium.make`` that this module sets itself."""
BRIDGES = ("GymV21Environment-v0", "GymV26Environment-v0")
"""Environments that make another one from an ID among their arguments, and would import its module."""

_OLD_API_HINTS = {
    "unexpected keyword argument 'seed'": "let its reset() take the argument seed",
    "values to unpack": "return (observation, reward, terminated, truncated, info) from its step()",
}
"""Advice for environments of the old Gym API, by a part of Python's error message."""


@final
class GymnasiumEnv(HostEnv):
    """A Gymnasium environment with observations flattened to float32 and actions scaled from [-1, 1] to its Box.

    Dicts and Tuples are flattened in Gymnasium's order, discrete parts to one-hot vectors. An image (a uint8 Box with
    1, 3 or 4 channels last) is resized to 64 × 64; images in another layout or inside a Dict are refused. Every
    exception of the environment becomes an ``EnvFault``.
    """

    def __init__(self, identifier: str, inner: "gymnasium.Env[Any, Any]") -> None:
        self._identifier = identifier
        self._inner = inner
        self._seed = 0
        self._steps_left = 0
        with _as_fault(identifier, "when it was asked for its spaces"):
            action_space, self._observation_space = inner.action_space, inner.observation_space
        self._action_space = continuous_actions(identifier, action_space)
        self._low, self._high = (
            np.asarray(bound, np.float64).ravel() for bound in (self._action_space.low, self._action_space.high)
        )
        self._scale = (self._high - self._low) / 2
        image = image_shape(identifier, self._observation_space)
        self._resize = None if image is None else AreaResize(*image[:2])
        shape = (IMAGE_SIDE, IMAGE_SIDE, image[2]) if image else (flat_size(identifier, self._observation_space),)
        limit = None if inner.spec is None else inner.spec.max_episode_steps
        self._spec = EnvSpec(shape, self._low.size, limit or DEFAULT_HORIZON)

    @property
    def spec(self) -> EnvSpec:
        """Shape of the flat or image observation, size of the flat action, and the registered time limit."""
        return self._spec

    def reset(self, seed: int) -> Shaped[np.ndarray, "..."]:
        """Start the episode of a seed."""
        self._seed = seed
        # An image observation may be rendered here for the first time.
        rendering = contextlib.nullcontext() if self._resize is None else headless()
        with _as_fault(self._identifier, "in reset()", f" with seed {seed}"), rendering:
            returned = self._inner.reset(seed=seed)
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise EnvFault(
                f"{self._identifier} returned a value {_type_of(returned)} from reset(), not (observation, info)"
            )
        self._steps_left = self._spec.horizon
        return self._observation(returned[0])

    def step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        """Take one step of the environment."""
        if self._steps_left == 0:
            raise RuntimeError("The episode is over; call reset() first.")
        space = self._action_space
        raw = (self._low + self._scale * (action + np.float64(1))).astype(space.dtype).reshape(space.shape)
        # Rounding, here or in the policy, must not carry an action out of the Box.
        raw = np.minimum(np.maximum(raw, space.low), space.high)
        where = f" at step {self._spec.horizon - self._steps_left + 1} after reset(seed={self._seed})"
        with _as_fault(self._identifier, "in step()", where):
            obs, reward, terminated, truncated, _ = self._inner.step(raw)
            terminated, truncated = bool(terminated), bool(truncated)
        number = np.asarray(reward)
        if number.shape or number.dtype.kind not in "biuf":
            raise EnvFault(f"{self._identifier} returned a reward {_type_of(reward)} from step(), not a number", where)
        self._steps_left -= 1
        # The environment's own time limit truncates at the same step; ours matters only where it has none.
        truncated = truncated or (self._steps_left == 0 and not terminated)
        if terminated or truncated:
            self._steps_left = 0
        return HostStep(self._observation(obs), float(number), terminated, truncated)

    @property
    def simulator(self) -> Any:  # noqa: ANN401  (whatever class the environment has)
        """The environment itself, without Gymnasium's wrappers."""
        return self._inner.unwrapped

    @property
    def steps_per_second(self) -> float:
        """The environment's render_fps, or a default."""
        with _as_fault(self._identifier, "when it was asked for its render_fps"):
            return float(self._inner.metadata.get("render_fps") or DEFAULT_STEPS_PER_SECOND)

    def render(self) -> UInt8[np.ndarray, "h w 3"]:
        """A frame from the environment's own ``render``; needs ``make_gymnasium(…, rendered=True)``."""
        with _as_fault(self._identifier, "in render()"), headless():
            try:
                frame = self._inner.render()
            except gymnasium.error.DependencyNotInstalled as error:
                raise missing_package(self._identifier, error) from error
            except NotImplementedError as error:
                raise _not_rendered(self._identifier) from error
        if not (isinstance(frame, np.ndarray) and frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3):
            raise _not_rendered(self._identifier)
        return frame

    def close(self) -> None:
        """Close the environment; a failure to do so is only a warning, since it is no longer needed."""
        self._steps_left = 0
        try:
            self._inner.close()
        except (Exception, SystemExit) as error:
            warnings.warn(f"{self._identifier} {raised(error)} in close().", RuntimeWarning, stacklevel=2)

    def _observation(self, obs: Any) -> Shaped[np.ndarray, "..."]:  # noqa: ANN401  (unchecked user data)
        space, cause = self._observation_space, None
        try:
            if self._resize is None:
                # Flattening any other space makes a new array; a Box could hand out the environment's own memory.
                flat = obs if isinstance(space, spaces.Box) else spaces.flatten(space, obs)
                return np.array(flat, dtype=np.float32).reshape(self._spec.obs_shape)
            frame = np.asarray(obs)
            if frame.shape == space.shape and frame.dtype == np.uint8:
                return self._resize(frame)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            cause = error
        raise EnvFault(
            f"{self._identifier} returned an observation {_type_of(obs)} outside its observation_space {space}",
            advice="correct the one or the other",
        ) from cause


def make_gymnasium(identifier: str, *, kwargs: Kwargs = NO_KWARGS, rendered: bool = False) -> GymnasiumEnv:
    """The Gymnasium environment of an ID; ``module:ID`` first imports the module that registers it.

    ``kwargs``: for ``gymnasium.make``, hence the constructor; ``rendered``: with the render mode "rgb_array".
    """
    name = import_env_module(identifier)
    for argument in kwargs:
        if not argument.isidentifier() or argument in RESERVED:
            raise _not_accepted(identifier, argument)
    if kwargs and name in BRIDGES:
        # The arguments may come from a run folder, which must not cause any import.
        raise UserError(f"{identifier} makes another environment from its ID: register that one under its own ID.")
    advice = "correct the environment, or give it other arguments" if kwargs else "correct the environment"
    with _as_fault(identifier, "when it was made", advice=advice), warnings.catch_warnings():
        if rendered:
            # Gymnasium's warning about an unsupported mode is repeated, as one sentence, by the first render().
            warnings.filterwarnings("ignore", ".*render_mode")
        mode: dict[str, Any] = {"render_mode": "rgb_array"} if rendered else {}
        try:
            inner = gymnasium.make(name, disable_env_checker=True, **mode, **kwargs)
        except TypeError as error:
            if rendered and "unexpected keyword argument 'render_mode'" in str(error):
                raise _not_rendered(identifier) from error
            for argument in kwargs:
                if f"unexpected keyword argument '{argument}'" in str(error):
                    raise _not_accepted(identifier, argument) from error
            raise
        except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
            raise missing_package(identifier, error) from error
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


@contextlib.contextmanager
def _as_fault(identifier: str, call: str, where: str = "", advice: str = "correct the environment") -> Iterator[None]:
    """Turn any exception of the user's environment, except Ctrl-C, into an ``EnvFault``."""
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        advice = next((hint for text, hint in _OLD_API_HINTS.items() if text in str(error)), advice)
        raise EnvFault(f"{identifier} {raised(error)} {call}", where, advice) from error


def _type_of(value: Any) -> str:  # noqa: ANN401  (unchecked user data)
    if isinstance(value, np.ndarray):
        return f"of shape {value.shape} and dtype {value.dtype}"
    return f"of type {type(value).__name__}"


def _not_accepted(identifier: str, argument: str) -> UserError:
    return UserError(
        f"{identifier} does not take the keyword argument {argument!r}: leave it out, or give one that its constructor "
        "has."
    )


def _not_rendered(identifier: str) -> UserError:
    return UserError(
        f"{identifier} does not render itself: give it the render mode rgb_array, "
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
