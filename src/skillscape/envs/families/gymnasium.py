"""Environments of Gymnasium (``gym/ID``), including those that the user's modules register (``gym/module:ID``)."""

from typing import final

import gymnasium

from skillscape.envs.base import NO_KWARGS, Definition, EnvFamily, Kwargs, RenderedEnv, refuse_render_options
from skillscape.envs.gymnasium_adapter import GymnasiumEnv, make_gymnasium
from skillscape.envs.gymnasium_modules import PREFIX
from skillscape.errors import UserError
from skillscape.types import Benchmark

_benchmarks: dict[str, Benchmark] = {}
"""Benchmarks of the environments that were made once to look at their observations, by ID and arguments."""


@final
class Gymnasium(EnvFamily):
    """Every environment of ``gymnasium.make``, with its own reward as the only task, named like the environment."""

    name = "gym"

    def owns(self, env_id: str) -> bool:
        """Whether the ID begins with gym/."""
        return env_id.startswith(PREFIX)

    def hint(self, env_id: str) -> str | None:
        """Adds the missing gym/ to a registered ID."""
        if env_id not in gymnasium.registry:
            return None
        return f"There is no environment {env_id!r}: did you mean {PREFIX + env_id!r}?"

    def describe(self) -> list[tuple[str, str]]:
        """One pattern for all IDs."""
        text = (
            "Any Gymnasium environment with continuous actions, such as gym/Pendulum-v1 or gym/module:ID; images "
            "(uint8, channels last) are resized to 64 × 64."
        )
        return [(f"{PREFIX}ID", text)]

    def make(
        self, env_id: str, task: str | None = None, *, kwargs: Kwargs = NO_KWARGS, definition: Definition = None
    ) -> GymnasiumEnv:
        """The environment; its module is imported only with the user's permission, see ``trust``."""
        self.task(env_id, task, definition=definition)
        return make_gymnasium(env_id.removeprefix(PREFIX), kwargs=kwargs)

    def tasks(self, env_id: str) -> tuple[str, ...]:
        """The ID itself."""
        return (env_id,)

    def task(self, env_id: str, task: str | None, *, definition: Definition = None) -> str:
        """The ID itself, also by default."""
        del definition
        if task not in (None, env_id):
            raise UserError(
                f"{env_id} has one task, itself, and {task} is another: leave the task out, or give the environment "
                "that it belongs to."
            )
        return env_id

    def benchmark(self, env_id: str, *, kwargs: Kwargs = NO_KWARGS) -> Benchmark:
        """URLB's presets for images or for states; the environment is made once to see which it observes."""
        key = f"{env_id} {sorted(kwargs.items())}"
        if key not in _benchmarks:
            env = self.make(env_id, kwargs=kwargs)
            env.close()
            _benchmarks[key] = "urlb-pixels" if env.spec.is_image else "urlb"
        return _benchmarks[key]

    def folder_name(self, env_id: str) -> str:
        """The ID with its module, without gym/."""
        return env_id.removeprefix(PREFIX).replace("/", "-").replace(":", "-")

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
        """The environment with its own ``render()``."""
        refuse_render_options(env_id, size, shadows)
        task = self.task(env_id, task, definition=definition)
        env = make_gymnasium(env_id.removeprefix(PREFIX), kwargs=kwargs, rendered=True)
        return RenderedEnv(env, env.render, env.steps_per_second, task, "its own render()", env.close)
