"""Ant and HalfCheetah as METRA's line of work uses them, with the tasks that its skills are put to.

Park et al., METRA: Scalable Unsupervised RL with Metric-Aware Abstraction, ICLR 2024. The bodies are Gymnasium's: with
their position in the observation, without contact forces, without early termination, in episodes of 200 steps, and
standardised by the means and deviations that METRA's code fixes. The tasks are those of Zheng et al., Can a MISL Fly?
Analysis and Ingredients for Mutual Information Skill Learning, ICLR 2025.
"""

import importlib.util
import tempfile
import xml.etree.ElementTree as ElementTree
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from jaxtyping import Float, Float32

from skillscape.envs.base import HostEnv, HostStep
from skillscape.envs.gymnasium_adapter import GymnasiumEnv, make_gymnasium
from skillscape.envs.urlb.control import load_module
from skillscape.types import EnvSpec

HORIZON = 200
GOAL_RADIUS = 3.0
"""Distance in metres within which a goal is reached."""
HURDLES = (-15.0, -13.0, -9.0, -5.0, -1.0, 3.0, 7.0, 11.0, 15.0, 19.0, 23.0, 27.0)
"""x of the hurdles in metres."""
HURDLE_HEIGHT = 0.2
HURDLE_SIZE = (0.05, 1.0, 0.03)
"""Half the length, width and thickness of a bar, which hangs at ``HURDLE_HEIGHT``."""

# Separates goals from the random numbers that Gymnasium draws from the same seed.
_STREAM = 0x676F616C


class Body(NamedTuple):
    """A body of Gymnasium, with METRA's arguments, its fixed standardisation, and its coordinates."""

    gymnasium_id: str
    kwargs: dict[str, Any]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    coordinates: int
    """The first entries of the observation: x and y, or x alone."""
    goal_range: float
    """R in metres of zero-shot goals, as Zheng et al. draw them."""


# Moments of the states of 10,000 random episodes of 50 steps, as METRA's code has them.
# fmt: off
_ANT_MEAN = (
    0.00486117, 0.011312, 0.7022248, 0.8454677, -0.00102548, -0.00300276, 0.00311523, -0.00139029, 0.8607109,
    -0.00185301, -0.8556998, 0.00343217, -0.8585605, -0.00109082, 0.8558013, 0.00278213, 0.00618173, -0.02584622,
    -0.00599026, -0.00379596, 0.00526138, -0.0059213, 0.27686235, 0.00512205, -0.27617684, -0.0033233, -0.2766923,
    0.00268359, 0.27756855,
)
_ANT_STD = (
    0.62473416, 0.61958003, 0.1717569, 0.28629342, 0.20020866, 0.20572574, 0.34922406, 0.40098143, 0.3114514, 0.4024826,
    0.31057045, 0.40343934, 0.3110796, 0.40245822, 0.31100526, 0.81786263, 0.8166509, 0.9870919, 1.7525449, 1.7468817,
    1.8596431, 4.502961, 4.4070187, 4.522444, 4.3518476, 4.5105968, 4.3704205, 4.5175962, 4.3704395,
)
_HALF_CHEETAH_MEAN = (
    -0.07861924, -0.08627162, 0.08968642, 0.00960849, 0.02950368, -0.00948337, 0.01661406, -0.05476654, -0.04932635,
    -0.08061652, -0.05205841, 0.04500197, 0.02638421, -0.04570961, 0.03183838, 0.01736591, 0.0091929, -0.0115027,
)
_HALF_CHEETAH_STD = (
    0.4039283, 0.07610687, 0.23817, 0.2515473, 0.2698137, 0.26374814, 0.32229397, 0.2896734, 0.2774097, 0.73060024,
    0.77360505, 1.5871304, 5.5405455, 6.7097645, 6.8253727, 6.3142195, 6.417641, 5.9759197,
)
# fmt: on

BODIES = {
    "ant": Body(
        "Ant-v5",
        {
            "exclude_current_positions_from_observation": False,
            "include_cfrc_ext_in_observation": False,
            "terminate_when_unhealthy": False,
        },
        _ANT_MEAN,
        _ANT_STD,
        2,
        50.0,
    ),
    "half_cheetah": Body(
        "HalfCheetah-v5",
        {"exclude_current_positions_from_observation": False},
        _HALF_CHEETAH_MEAN,
        _HALF_CHEETAH_STD,
        1,
        100.0,
    ),
}
"""Every body by its ID."""


class Task(ABC):
    """A reward, and what the observation shows of it: metres behind the standardised entries of the body."""

    goal_dim: ClassVar[int]

    @abstractmethod
    def reset(self, env: GymnasiumEnv, position: Float[np.ndarray, " p"], seed: int) -> None:
        """Begin the episode of a seed."""

    @abstractmethod
    def reward(self, env: GymnasiumEnv, position: Float[np.ndarray, " p"]) -> float:
        """What arriving at a state gives; called once for every step."""

    @abstractmethod
    def observe(self, env: GymnasiumEnv) -> Float[np.ndarray, " g"]:
        """What the observation shows after ``reward``."""


@final
class MultiGoals(Task):
    """Four goals of 50 steps each: the first uniform within ±7.5 m of the origin in x and y, each next of the last.

    The reward is 1 at every step within 3 m of the present goal. The observation shows its x and y; at the last step of
    a goal it shows the next one.
    """

    goal_dim = 2
    number = 4
    steps = HORIZON // number
    reach = 7.5

    def reset(self, env: GymnasiumEnv, position: Float[np.ndarray, " p"], seed: int) -> None:
        """Draw all goals."""
        del env, position
        random = np.random.default_rng((_STREAM, seed))
        self.goals = np.cumsum(random.uniform(-self.reach, self.reach, (self.number, 2)), axis=0)
        self._taken = 0

    def reward(self, env: GymnasiumEnv, position: Float[np.ndarray, " p"]) -> float:
        """1 near the goal that this step was taken for."""
        del env
        reached = float(np.linalg.norm(position - self._goal) <= GOAL_RADIUS)
        self._taken += 1
        return reached

    def observe(self, env: GymnasiumEnv) -> Float[np.ndarray, "2"]:
        """The goal of the next step."""
        del env
        return self._goal

    @property
    def _goal(self) -> Float[np.ndarray, "2"]:
        goal: Float[np.ndarray, "2"] = self.goals[min(self._taken // self.steps, self.number - 1)]
        return goal


@final
class Goal(Task):
    """One goal, uniform within ±100 m in x; the reward is 1 at every step within 3 m. The observation shows its x."""

    goal_dim = 1
    reach = 100.0

    def reset(self, env: GymnasiumEnv, position: Float[np.ndarray, " p"], seed: int) -> None:
        """Draw the goal."""
        del env, position
        self.goal = np.random.default_rng((_STREAM, seed)).uniform(-self.reach, self.reach, 1)

    def reward(self, env: GymnasiumEnv, position: Float[np.ndarray, " p"]) -> float:
        """1 near the goal."""
        del env
        return float(abs(position[0] - self.goal[0]) <= GOAL_RADIUS)

    def observe(self, env: GymnasiumEnv) -> Float[np.ndarray, "1"]:
        """The goal."""
        del env
        return self.goal


@final
class Hurdles(Task):
    """Bars across the track: the reward is the number of bars at x ≥ 0 that the back foot passes in a step.

    A bar that it passes backwards costs 1. The observation shows x of the first bar that the back foot has not passed,
    and how far the foot is from there; beyond the last bar, those of the one at 15 m, as the reference does.
    """

    goal_dim = 2

    def reset(self, env: GymnasiumEnv, position: Float[np.ndarray, " p"], seed: int) -> None:
        """Count the bars ahead."""
        del position, seed
        self._ahead = self._bars_ahead(env)

    def reward(self, env: GymnasiumEnv, position: Float[np.ndarray, " p"]) -> float:
        """How many bars fewer are ahead than before."""
        del position
        before, self._ahead = self._ahead, self._bars_ahead(env)
        return float(before - self._ahead)

    def observe(self, env: GymnasiumEnv) -> Float[np.ndarray, "2"]:
        """The next bar, and the distance to it."""
        foot = _back_foot(env)
        bar = next((bar for bar in HURDLES if bar >= foot), 15.0)
        return np.array([bar, abs(bar - foot)])

    def _bars_ahead(self, env: GymnasiumEnv) -> int:
        foot = _back_foot(env)
        return sum(bar >= max(foot, 0.0) for bar in HURDLES)


def _back_foot(env: GymnasiumEnv) -> float:
    return float(env.simulator.data.body("bfoot").xpos[0])


TASKS: dict[str, dict[str, type[Task]]] = {
    "ant": {"ant_multi_goals": MultiGoals},
    "half_cheetah": {"half_cheetah_goal": Goal, "half_cheetah_hurdle": Hurdles},
}
"""The tasks of every body."""


@final
class LocomotionEnv(HostEnv):
    """A body with standardised states, and behind them what a task shows of its goal.

    A policy that was trained without the task reads the entries of the body alone, ``spec.without_goal``. Without a
    task the reward is Gymnasium's own.
    """

    def __init__(self, body: Body, inner: GymnasiumEnv, task: Task | None) -> None:
        self.inner = inner
        """The environment of Gymnasium, whose simulator a camera can render."""
        self._task = task
        self._mean, self._std = np.array(body.mean, np.float32), np.array(body.std, np.float32)
        self._coordinates = body.coordinates
        self._position: Float32[np.ndarray, " p"] = np.zeros(body.coordinates, np.float32)

    @property
    def spec(self) -> EnvSpec:
        """The entries of the body and of the goal, the actions of the body, and 200 steps."""
        width, goal = len(self._mean), 0 if self._task is None else self._task.goal_dim
        return EnvSpec((width + goal,), self.inner.spec.action_dim, self.inner.spec.horizon, goal)

    def reset(self, seed: int) -> Float32[np.ndarray, " o"]:
        """Start the episode of a seed."""
        state = self.inner.reset(seed)
        self._position = state[: self._coordinates]
        if self._task is not None:
            self._task.reset(self.inner, self._position, seed)
        return self._observation(state)

    def step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        """Take one step of Gymnasium, and the reward of the task."""
        step = self.inner.step(action)
        self._position = step.obs[: self._coordinates]
        reward = step.reward if self._task is None else self._task.reward(self.inner, self._position)
        return step._replace(obs=self._observation(step.obs), reward=reward)

    @property
    def position(self) -> Float32[np.ndarray, " p"]:
        """Coordinates of the torso in metres: x and y of the ant, x of the cheetah."""
        return self._position.copy()

    def with_position(
        self, obs: Float[np.ndarray, " o"], position: Float[np.ndarray, " p"]
    ) -> Float32[np.ndarray, " o"]:
        """An observation with the torso elsewhere, in metres; standardised like the other entries."""
        moved, entries = obs.astype(np.float32), self._coordinates
        moved[:entries] = (position - self._mean[:entries]) / self._std[:entries]
        return moved

    def close(self) -> None:
        """Close Gymnasium's environment."""
        self.inner.close()

    def _observation(self, state: Float32[np.ndarray, " d"]) -> Float32[np.ndarray, " o"]:
        standard = (state - self._mean) / self._std
        if self._task is None:
            return standard
        return np.concatenate([standard, self._task.observe(self.inner).astype(np.float32)])


def make_locomotion(env_id: str, task: str | None) -> LocomotionEnv:
    """The environment of an ID with one of its tasks; imports MuJoCo."""
    body = BODIES[env_id]
    built = None if task is None else TASKS[env_id][task]()
    kwargs: dict[str, Any] = {**body.kwargs, "max_episode_steps": HORIZON}
    with _quiet():
        inner = make_gymnasium(body.gymnasium_id, kwargs=kwargs)
        if isinstance(built, Hurdles):
            inner.close()
            with _with_hurdles(inner.simulator.fullpath) as file:
                inner = make_gymnasium(body.gymnasium_id, kwargs={**kwargs, "xml_file": file})
    return LocomotionEnv(body, inner, built)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep to itself what MuJoCo says of every cheetah: that its file has an attribute of earlier versions."""
    if importlib.util.find_spec("mujoco") is None:
        yield  # Gymnasium tells what is missing
        return
    mujoco = load_module("mujoco")
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda _: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


@contextmanager
def _with_hurdles(path: str) -> Iterator[str]:
    """A copy of a model's file with bars in the world, while the block lasts."""
    model = ElementTree.parse(path)
    world = model.getroot().find("worldbody")
    assert world is not None
    for number, bar in enumerate(HURDLES):
        ElementTree.SubElement(
            world,
            "geom",
            name=f"hurdle-{number}",
            type="box",
            pos=f"{bar} 0 {HURDLE_HEIGHT}",
            size=" ".join(f"{side}" for side in HURDLE_SIZE),
            conaffinity="1",
            condim="3",
            rgba="0.3 0.16 0 1",
        )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "half_cheetah_hurdle.xml"
        model.write(file)
        yield str(file)
