"""A body under MuJoCo Playground's interface that needs none of its packages: a point on a line, pushed about."""

import dataclasses
import sys
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from skillscape.envs import playground

EDGE = 2.0
"""Where the task ends."""
BREAKS = 1.5
"""Beyond this a point that was told to break is nowhere."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Data:
    qpos: Any
    qvel: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    data: Any
    obs: Any
    reward: Any
    done: Any
    metrics: Any
    info: Any

    def replace(self, **changes):
        return dataclasses.replace(self, **changes)


class Point:
    """Position and speed; ``kind``: what it observes, an array, a dictionary, or an image."""

    action_size = 1

    def __init__(self, kind="array", breaks=False, root=False):
        self.kind, self.breaks = kind, breaks
        joints = [SimpleNamespace(name="arm"), SimpleNamespace(name="rootx" if root else "slide")]
        self.mj_model = SimpleNamespace(njnt=2, jnt_type=[3, 2], jnt_qposadr=[1, 0], joint=joints.__getitem__)

    def reset(self, rng):
        assert rng.dtype == jnp.uint32, "Playground splits keys without a type"
        rng, own = jax.random.split(rng)
        data = Data(jnp.stack([jax.random.uniform(own, minval=-0.1, maxval=0.1), 0.0]), jnp.zeros(1))
        # A number without a type of its own, and another type than that of a step: both occur in Playground.
        return State(data, self.look(data), 0.0 * data.qpos[0], jnp.zeros(()), {"far": 0.0}, {"rng": rng})

    def step(self, state, action):
        speed = state.data.qvel + 0.1 * action
        place = state.data.qpos.at[0].add(0.1 * speed[0])
        if self.breaks:
            place = jnp.where(jnp.abs(place) > BREAKS, jnp.nan, place)
        data = Data(place, speed)
        state.metrics["far"] = jnp.abs(place[0])
        done = jnp.abs(place[0]) > EDGE
        return State(data, self.look(data), place[0], done, state.metrics, state.info)

    def look(self, data):
        seen = jnp.concatenate([data.qpos[:1], data.qvel])
        if self.kind == "image":
            return jnp.zeros((4, 4, 3))
        return {"state": seen, "privileged_state": jnp.zeros(7)} if self.kind == "dictionary" else seen


class Settings(dict):
    """A configuration of Playground, whose entries are attributes too."""

    __getattr__ = dict.__getitem__


class Registry:
    """Playground's registry, with two bodies."""

    ALL_ENVS = ("PointPush", "PointPicture")

    def __init__(self):
        self.loaded = []

    def get_default_config(self, name):
        return Settings(episode_length=20, ctrl_dt=0.02, impl="warp", scales=Settings(speed=1.0))

    def load(self, name, config_overrides):
        self.loaded.append((name, config_overrides))
        if config_overrides.get("ctrl_dt") == 0:
            raise ValueError("no time\npasses")
        return Point("image" if name == "PointPicture" else "array", root=True)


@pytest.fixture
def registry(monkeypatch):
    """A made-up Playground in place of the real one, installed or not."""
    made_up = Registry()
    monkeypatch.setitem(sys.modules, "mujoco_playground", SimpleNamespace(registry=made_up))
    playground._loaded.cache_clear()
    yield made_up
    playground._loaded.cache_clear()
