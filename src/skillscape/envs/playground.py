"""MuJoCo Playground's environments, simulated by MJX inside compiled programs, under the ``JaxEnv`` interface.

Reference: Zakka et al., MuJoCo Playground, 2025.
"""

import importlib
import json
import subprocess
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from skillscape.envs.base import JaxEnv, Kwargs, Timestep
from skillscape.errors import UserError, nearest
from skillscape.types import EnvSpec, RandomKey

PREFIX = "playground/"
"""Prefix of the IDs of Playground's environments."""
FREE_JOINT = 0
"""MuJoCo's number of a joint with six degrees of freedom."""
INSTALL = 'run `pip install "skillscape[playground]"`'
OBSERVATION = "state"
"""The entry that a policy reads where Playground observes a dictionary; others are for its own critics."""


@final
@dataclass(frozen=True)
class PlaygroundEnv(JaxEnv):
    """An environment of Playground; its states are Playground's own.

    ``inner``: the environment, without wrappers; ``horizon``: its episode length; ``coordinates``: entries of MuJoCo's
    qpos that are the position of the body, none where it stays in place.

    Actions are controls in [-1, 1], as Playground's own training has them. A step into a state that is not finite ends
    the episode in the observation before, with reward 0.
    """

    inner: Any
    horizon: int
    coordinates: tuple[int, ...] = ()

    @cached_property
    def spec(self) -> EnvSpec:
        """The entries of the observation, the controls, and the episode length."""
        return EnvSpec(jax.eval_shape(self.observe, self._like).shape, int(self.inner.action_size), self.horizon)

    @cached_property
    def _like(self) -> PyTree:
        """Shapes of a state."""
        return jax.eval_shape(self.inner.reset, jax.random.key_data(jax.random.key(0)))

    def reset(self, key: RandomKey) -> PyTree:
        """Playground's first state."""
        # Playground's environments expect keys without a type.
        return self._typed(self.inner.reset(jax.random.key_data(key)))

    def reset_for_evaluation(self, key: RandomKey) -> PyTree:
        """The same: Playground has no fixed start."""
        return self.reset(key)

    def observe(self, state: PyTree) -> Float[Array, "..."]:
        """Playground's observation, or what a policy reads of it."""
        obs: Float[Array, "..."] = state.obs[OBSERVATION] if isinstance(state.obs, Mapping) else state.obs
        return obs

    def position(self, state: PyTree) -> Float[Array, " p"] | None:
        """Coordinates of the body in metres."""
        return state.data.qpos[jnp.asarray(self.coordinates)] if self.coordinates else None

    def step(self, state: PyTree, action: Float[Array, " a"], key: RandomKey) -> tuple[PyTree, Timestep]:
        """One control step of Playground, whose randomness is in its state."""
        del key
        # A copy, since environments write into the dictionaries of the state that they are given.
        after = self._typed(self.inner.step(jax.tree.map(lambda leaf: leaf, state), jnp.clip(action, -1.0, 1.0)))
        obs = self.observe(after)
        finite = jnp.isfinite(obs).all() & jnp.isfinite(after.reward)
        obs = jnp.where(finite, obs, self.observe(state))
        observed = {**after.obs, OBSERVATION: obs} if isinstance(after.obs, Mapping) else obs
        timestep = Timestep(
            obs=obs,
            reward=jnp.where(finite, after.reward, 0.0).astype(jnp.float32),
            terminated=((after.done > 0) | ~finite).astype(jnp.float32),
        )
        return after.replace(obs=observed), timestep

    def _typed(self, state: PyTree) -> PyTree:
        """A state with the types of the first one, which a compiled loop has to keep."""
        return jax.tree.map(lambda leaf, like: jnp.asarray(leaf, like.dtype), state, self._like)


def load_playground(name: str, kwargs: Kwargs) -> PlaygroundEnv:
    """The environment of a name, simulated by MJX unless ``kwargs`` say otherwise; imports Playground.

    ``kwargs``: entries of the environment's configuration, those of nested parts with dots, such as episode_length.
    """
    return _loaded(name, json.dumps(dict(kwargs), sort_keys=True))


@cache
def _loaded(name: str, overrides: str) -> PlaygroundEnv:
    """Cached: equal environments are one, so that programs are compiled once for them."""
    env_id, kwargs = PREFIX + name, json.loads(overrides)
    registry = _registry(env_id)
    _check(env_id, name, registry, kwargs)
    config = registry.get_default_config(name)
    # Playground's own default, Warp, needs an NVIDIA GPU.
    chosen = {"impl": "jax", **kwargs} if "impl" in config else kwargs
    try:
        inner = registry.load(name, config_overrides=chosen)
        env = PlaygroundEnv(inner, int(kwargs.get("episode_length", config.episode_length)), _coordinates(inner))
        shape = env.spec.obs_shape
    except subprocess.CalledProcessError as error:
        raise UserError(
            f"{env_id} needs the models of MuJoCo Menagerie, which Playground could not download with git: connect to "
            "the network once, or choose an environment of the Control Suite, such as playground/CheetahRun."
        ) from error
    except Exception as error:
        text = " ".join(str(error).split())
        advice = f"correct or leave out --env.kwargs {', '.join(kwargs)}" if kwargs else "choose another environment"
        raise UserError(f"{env_id} cannot be made ({type(error).__name__}: {text}): {advice}.") from error
    if len(shape) != 1:
        raise UserError(f"{env_id} observes an array of shape {shape}, not a vector: choose another environment.")
    return env


def _check(env_id: str, name: str, registry: Any, kwargs: Kwargs) -> None:  # noqa: ANN401  a module
    """Refuse a name that Playground does not have, and settings that its environment does not have."""
    if name not in registry.ALL_ENVS:
        near = nearest(name, registry.ALL_ENVS)
        hint = f"did you mean {PREFIX}{near}?" if near else "`mujoco_playground.registry.ALL_ENVS` lists its names."
        raise UserError(f"MuJoCo Playground has no environment {name!r}: {hint}")
    known = list(registry.get_default_config(name))
    if unknown := [setting for setting in kwargs if setting.partition(".")[0] not in known]:
        raise UserError(f"{env_id} has no setting {unknown[0]!r}; its settings are {', '.join(known)}.")


def _registry(env_id: str) -> Any:  # noqa: ANN401  a module of an untyped package
    """Playground's registry. Its packages warn when they are imported, which a user cannot do anything about."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("mujoco_playground").registry
    except ModuleNotFoundError as error:
        raise UserError(f"{env_id} needs {error.name}, which is not installed: {INSTALL}.") from error


def _coordinates(inner: Any) -> tuple[int, ...]:  # noqa: ANN401  an environment of Playground
    """Entries of qpos with x and y of a body that moves freely, or x of a planar one; none where it stays in place."""
    model = inner.mj_model
    names = [model.joint(index).name for index in range(model.njnt)]
    if names and model.jnt_type[0] == FREE_JOINT:
        return (0, 1)
    return (int(model.jnt_qposadr[names.index("rootx")]),) if "rootx" in names else ()
