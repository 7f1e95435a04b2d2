"""The Unsupervised RL Benchmark, from states (``walker``) and from images (``walker-pixels``)."""

from abc import abstractmethod
from typing import ClassVar, final

from skillscape.envs.base import NO_KWARGS, Definition, EnvFamily, Kwargs, RenderedEnv, refuse_kwargs
from skillscape.envs.urlb.camera import CameraPose, filmed
from skillscape.envs.urlb.pixels import ACTION_REPEAT, CAMERAS, ControlPixels
from skillscape.envs.urlb.suite import ControlEnv, load_task
from skillscape.envs.urlb.tasks import DOMAINS, TASKS, Domain, domain_of
from skillscape.errors import UserError
from skillscape.types import Benchmark

PIXEL_DOMAINS: dict[str, str] = {f"{name}-pixels": name for name in CAMERAS}
"""The domains with image observations, by the ID of the environment."""

# The benchmark's own camera of jaco, close in front of the brick, loses the arm when it rises.
_WHOLE_ARM = CameraPose((0.0, 0.1, 0.55), 1.85, 120.0, -22.0)

_REFERENCE = "/reference"

_DESCRIPTIONS = {
    "walker": "A planar walker with two legs",
    "quadruped": "A four-legged body on a plane",
    "jaco": "A robot arm with three fingers and a brick",
}


class _UrlbFamily(EnvFamily):
    """Tasks and rendering, which do not depend on the observation."""

    name: ClassVar[Benchmark]

    @abstractmethod
    def _load(self, env_id: str, task: str) -> ControlEnv | ControlPixels:
        """The environment with the reward of a valid task."""

    def make(
        self, env_id: str, task: str | None = None, *, kwargs: Kwargs = NO_KWARGS, definition: Definition = None
    ) -> ControlEnv | ControlPixels:
        """The environment with the reward of a task, or of the one that the benchmark pre-trains on."""
        refuse_kwargs(env_id, kwargs)
        primal = _domain(env_id).primal_task
        return self._load(env_id, primal if task is None else self.task(env_id, task, definition=definition))

    def tasks(self, env_id: str) -> tuple[str, ...]:
        """The four tasks of the domain."""
        return _domain(env_id).tasks

    def task(self, env_id: str, task: str | None, *, definition: Definition = None) -> str:
        """A task of the domain; there is no default."""
        del definition
        domain = _domain(env_id)
        if task is None:
            listed = ", ".join(domain.tasks)
            raise UserError(f"Say which task to learn, for example --task {domain.tasks[1]}; {env_id} has {listed}.")
        if "/" in task or domain_of(task) != domain:
            raise UserError(f"{task} is not a task of {env_id}: those are {', '.join(domain.tasks)}.")
        return task

    def benchmark(self, env_id: str, *, kwargs: Kwargs = NO_KWARGS) -> Benchmark:
        """The benchmark of the family's own name."""
        del env_id, kwargs
        return self.name

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
        """The environment rendered by MuJoCo; ``shadows`` also turns on reflections and antialiasing."""
        env = self.make(env_id, task, kwargs=kwargs, definition=definition)
        inner, repeat = (env.inner, ACTION_REPEAT) if isinstance(env, ControlPixels) else (env, 1)
        return filmed(
            env,
            inner.environment.physics,
            CAMERAS.get(inner.domain.name, _WHOLE_ARM),
            size=size,
            shadows=shadows,
            steps_per_second=1 / (repeat * inner.environment.control_timestep()),
            task=task or inner.domain.primal_task,
        )


def _domain(env_id: str) -> Domain:
    name = env_id.removesuffix(_REFERENCE)
    return DOMAINS[PIXEL_DOMAINS.get(name, name)]


@final
class UrlbStates(_UrlbFamily):
    """The three domains of the benchmark from states."""

    name = "urlb"

    def owns(self, env_id: str) -> bool:
        """Whether the ID is a domain."""
        return env_id in DOMAINS

    def hint(self, env_id: str) -> str | None:
        """Corrects a task in place of its domain."""
        if env_id not in TASKS:
            return None
        return f"{env_id} is a task: give {domain_of(env_id).name} as the environment and {env_id} as its task."

    def describe(self) -> list[tuple[str, str]]:
        """One row for each domain."""
        return [
            (
                name,
                f"{_DESCRIPTIONS[name]}: {domain.obs_size} state values, {domain.action_size} actions, episodes of "
                f"{domain.horizon:,} steps. Tasks: {', '.join(domain.tasks)}.",
            )
            for name, domain in DOMAINS.items()
        ]

    def _load(self, env_id: str, task: str) -> ControlEnv:
        del env_id
        return load_task(task)


@final
class UrlbPixels(_UrlbFamily):
    """Walker and quadruped from images."""

    name = "urlb-pixels"

    def owns(self, env_id: str) -> bool:
        """Whether the ID is a domain with image observations, in either render quality."""
        return env_id.removesuffix(_REFERENCE) in PIXEL_DOMAINS

    def describe(self) -> list[tuple[str, str]]:
        """One row for each domain with image observations."""
        return [
            (
                env_id,
                f"The {name} in images of 64 × 64, with an action repeat of 2, so episodes of 500 steps; the tasks of "
                f"{name}. {env_id}{_REFERENCE} adds shadows, reflections and smooth edges, and is at least ten times "
                "slower.",
            )
            for env_id, name in PIXEL_DOMAINS.items()
        ]

    def _load(self, env_id: str, task: str) -> ControlPixels:
        return ControlPixels(task, "reference" if env_id.endswith(_REFERENCE) else "fast")
