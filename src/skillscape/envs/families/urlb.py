"""The Unsupervised RL Benchmark, from states (``walker``) and from images (``walker-pixels``)."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, final

from skillscape.envs.base import NO_ARGUMENTS, Arguments, Benchmark, Drawn, EnvFamily, refuse_arguments
from skillscape.envs.urlb.camera import Camera, View, rendering_backend
from skillscape.envs.urlb.pixels import ACTION_REPEAT, CAMERAS, ControlPixels, make_control_pixels
from skillscape.envs.urlb.suite import ControlEnv, load_task
from skillscape.envs.urlb.tasks import DOMAINS, TASKS, Domain, domain_of
from skillscape.errors import UserError

PIXEL_DOMAINS: dict[str, str] = {f"{name}-pixels": name for name in CAMERAS}
"""The domains that have a camera to learn from, by the name of the environment."""

DEFAULT_WIDTH = 320
"""Pixels of a picture, 4:3."""

# The benchmark's camera of jaco, close in front of the brick, loses the arm when it rises.
_WHOLE_ARM = View((0.0, 0.1, 0.55), 1.85, 120.0, -22.0)

_REFERENCE = "/reference"


class _DomainFamily(EnvFamily):
    """What both have in common: the domain behind a name, and its tasks."""

    name: ClassVar[Benchmark]

    @abstractmethod
    def _domain(self, env_id: str) -> Domain:
        """The body that a name stands for."""

    @abstractmethod
    def _load(self, env_id: str, task: str) -> ControlEnv | ControlPixels:
        """The environment of a task of its own."""

    def make(
        self,
        env_id: str,
        task: str | None = None,
        *,
        kwargs: Arguments = NO_ARGUMENTS,
        definition: Mapping[str, Any] | None = None,
    ) -> ControlEnv | ControlPixels:
        """The body, set to a task, or to the one that the benchmark pre-trains on."""
        del definition
        refuse_arguments(env_id, kwargs)
        domain = self._domain(env_id)
        return self._load(env_id, domain.primal_task if task is None else self.task(env_id, task))

    def tasks(self, env_id: str) -> tuple[str, ...]:
        """The four of the domain."""
        return self._domain(env_id).tasks

    def task(self, env_id: str, task: str | None, *, definition: Mapping[str, Any] | None = None) -> str:
        """One of the four, which has to be named."""
        del definition
        domain = self._domain(env_id)
        if task is None:
            listed = ", ".join(domain.tasks)
            raise UserError(f"Say which task to learn, for example --task {domain.tasks[1]}; {env_id} has {listed}.")
        if "/" in task or domain_of(task) != domain:
            raise UserError(f"{task} is not a task of {env_id}: those are {', '.join(domain.tasks)}.")
        return task

    def benchmark(self, env_id: str, *, kwargs: Arguments = NO_ARGUMENTS) -> Benchmark:
        """The family's own."""
        del env_id, kwargs
        return self.name

    def definition(self, env_id: str) -> None:
        """None: the name is enough."""
        del env_id

    def layout(self, env_id: str, definition: Mapping[str, Any] | None = None) -> None:
        """None: there is no map to draw."""
        del env_id, definition

    def folder_name(self, env_id: str) -> str:
        """The name itself."""
        return env_id.replace("/", "-")

    def drawn(
        self,
        env_id: str,
        task: str | None = None,
        *,
        size: int | None = None,
        shadows: bool = False,
        kwargs: Arguments = NO_ARGUMENTS,
        definition: Mapping[str, Any] | None = None,
    ) -> Drawn:
        """The body from outside, drawn by MuJoCo; ``shadows``: reflections and smooth edges too."""
        made = self.make(env_id, task, kwargs=kwargs, definition=definition)
        inner, held = (made.inner, ACTION_REPEAT) if isinstance(made, ControlPixels) else (made, 1)
        width = DEFAULT_WIDTH if size is None else size
        try:
            camera = Camera(
                inner.environment.physics,
                CAMERAS.get(inner.domain.name, _WHOLE_ARM),
                "reference" if shadows else "fast",
                width=width,
                height=2 * round(3 * width / 8),
            )
        except BaseException:
            made.close()
            raise

        def close() -> None:
            camera.close()
            made.close()

        rate = 1 / (held * inner.environment.control_timestep())
        return Drawn(made, camera.frame, rate, task or inner.domain.primal_task, rendering_backend(), close)


@final
class Domains(_DomainFamily):
    """The benchmark from states."""

    name = "urlb"

    def owns(self, env_id: str) -> bool:
        """Whether it is one of the three domains."""
        return env_id in DOMAINS

    def hint(self, env_id: str) -> str | None:
        """A task in place of its domain."""
        if env_id not in TASKS:
            return None
        return f"{env_id} is a task: give {domain_of(env_id).name} as the environment and {env_id} as its task."

    def describe(self) -> list[tuple[str, str]]:
        """The three domains."""
        bodies = {
            "walker": "A planar walker with two legs",
            "quadruped": "A four-legged body on a plane",
            "jaco": "A robot arm with three fingers and a brick",
        }
        return [
            (
                name,
                f"{bodies[name]}: {domain.obs_size} state values, {domain.action_size} actions, episodes of "
                f"{domain.horizon:,} steps. Tasks: {', '.join(domain.tasks)}.",
            )
            for name, domain in DOMAINS.items()
        ]

    def _domain(self, env_id: str) -> Domain:
        return DOMAINS[env_id]

    def _load(self, env_id: str, task: str) -> ControlEnv:
        del env_id
        return load_task(task)


@final
class DomainsFromPixels(_DomainFamily):
    """The benchmark from images."""

    name = "urlb-pixels"

    def owns(self, env_id: str) -> bool:
        """Whether it is a domain that has a camera, in either quality."""
        return env_id.removesuffix(_REFERENCE) in PIXEL_DOMAINS

    def describe(self) -> list[tuple[str, str]]:
        """The domains that have a camera."""
        return [
            (
                "walker-pixels",
                "The walker in images of 64 × 64, each action held for two steps, so episodes of 500; the tasks of "
                "walker. walker-pixels/reference draws shadows, reflections and smooth edges, which takes ten times as "
                "long and more.",
            ),
            ("quadruped-pixels", "The quadruped in images, likewise; the tasks of quadruped."),
        ]

    def _domain(self, env_id: str) -> Domain:
        return DOMAINS[PIXEL_DOMAINS[env_id.removesuffix(_REFERENCE)]]

    def _load(self, env_id: str, task: str) -> ControlPixels:
        return make_control_pixels(task, "reference" if env_id.endswith(_REFERENCE) else "fast")
