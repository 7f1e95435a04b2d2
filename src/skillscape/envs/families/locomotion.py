"""METRA's locomotion: ``ant`` and ``half_cheetah``."""

from typing import Any, NamedTuple, final

from skillscape.envs.base import NO_KWARGS, Definition, EnvFamily, Kwargs, RenderedEnv, refuse_kwargs
from skillscape.envs.locomotion import BODIES, HORIZON, TASKS, LocomotionEnv, make_locomotion
from skillscape.envs.urlb.camera import filmed
from skillscape.errors import UserError, choose
from skillscape.types import Benchmark

_DESCRIPTIONS = {"ant": "A four-legged body on a plane", "half_cheetah": "A planar body with two legs"}
_ACTIONS = {"ant": 8, "half_cheetah": 6}


class _Pointer(NamedTuple):
    """What a camera reads of dm_control's models and data."""

    ptr: Any


class _Physics(NamedTuple):
    """Gymnasium's simulator as a camera reads it."""

    model: _Pointer
    data: _Pointer


@final
class Locomotion(EnvFamily):
    """Gymnasium's Ant and HalfCheetah with METRA's observations, episodes and tasks."""

    name = "locomotion"

    def owns(self, env_id: str) -> bool:
        """Whether the ID is a body."""
        return env_id in BODIES

    def hint(self, env_id: str) -> str | None:
        """Corrects a task in place of its body."""
        for body, tasks in TASKS.items():
            if env_id in tasks:
                return f"{env_id} is a task: give {body} as the environment and {env_id} as its task."
        return None

    def describe(self) -> list[tuple[str, str]]:
        """One row for each body."""
        return [
            (
                env_id,
                f"{_DESCRIPTIONS[env_id]}, as METRA has it: {len(body.mean)} state values with its position, "
                f"{_ACTIONS[env_id]} actions, episodes of {HORIZON} steps. Tasks: {', '.join(TASKS[env_id])}.",
            )
            for env_id, body in BODIES.items()
        ]

    def make(
        self, env_id: str, task: str | None = None, *, kwargs: Kwargs = NO_KWARGS, definition: Definition = None
    ) -> LocomotionEnv:
        """The body with the goal and the reward of a task, or without."""
        refuse_kwargs(env_id, kwargs)
        return make_locomotion(env_id, None if task is None else self.task(env_id, task, definition=definition))

    def tasks(self, env_id: str) -> tuple[str, ...]:
        """The tasks of the body."""
        return tuple(TASKS[env_id])

    def task(self, env_id: str, task: str | None, *, definition: Definition = None) -> str:
        """A task of the body; there is a default where there is one alone."""
        del definition
        known = self.tasks(env_id)
        if task is None and len(known) == 1:
            return known[0]
        if task is None:
            raise UserError(f"Say which task to learn, for example --task {known[1]}; {env_id} has {', '.join(known)}.")
        choose("task", task, known, "skillscape envs")
        return task

    def benchmark(self, env_id: str, *, kwargs: Kwargs = NO_KWARGS) -> Benchmark:
        """The benchmark of the family's own name."""
        del env_id, kwargs
        return "locomotion"

    def goal_range(self, env_id: str) -> float:
        """50 m for the ant, 100 m for the cheetah."""
        return BODIES[env_id].goal_range

    def rendered(
        self,
        env_id: str,
        task: str | None = None,
        *,
        size: int | None = None,
        shadows: bool = False,
        kwargs: Kwargs = NO_KWARGS,
        definition: Definition = None,
    ) -> RenderedEnv:
        """The body from the side, followed by the camera; ``shadows`` also turns on reflections and antialiasing."""
        env = self.make(env_id, task, kwargs=kwargs, definition=definition)
        simulator = env.inner.simulator
        physics = _Physics(_Pointer(simulator.model), _Pointer(simulator.data))
        rate = env.inner.steps_per_second
        return filmed(env, physics, 0, size=size, shadows=shadows, steps_per_second=rate, task=task)
