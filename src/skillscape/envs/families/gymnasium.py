"""Environments of Gymnasium (``gym/ID``), those of the user's own modules (``gym/module:ID``) included."""

from collections.abc import Mapping
from typing import Any, final

import gymnasium

from skillscape.envs.base import NO_ARGUMENTS, Arguments, Benchmark, Drawn, EnvFamily, refuse_wishes
from skillscape.envs.gymnasium_adapter import GymnasiumEnv, make_gymnasium
from skillscape.envs.gymnasium_modules import PREFIX
from skillscape.errors import UserError

_benchmarks: dict[str, Benchmark] = {}
"""What was found out by making an environment once, by its name and arguments."""


@final
class Gymnasium(EnvFamily):
    """Whatever ``gymnasium.make`` makes; its task is the environment itself."""

    name = "gym"

    def owns(self, env_id: str) -> bool:
        """Whether the name begins with gym/."""
        return env_id.startswith(PREFIX)

    def hint(self, env_id: str) -> str | None:
        """An ID without gym/ before it."""
        if env_id not in gymnasium.registry:
            return None
        return f"There is no environment {env_id!r}: did you mean {PREFIX + env_id!r}?"

    def describe(self) -> list[tuple[str, str]]:
        """One pattern for all."""
        text = (
            "Any Gymnasium environment with continuous actions, such as gym/Pendulum-v1 or gym/module:ID; images "
            "(uint8, channels last) are scaled to 64 × 64."
        )
        return [(f"{PREFIX}ID", text)]

    def make(
        self,
        env_id: str,
        task: str | None = None,
        *,
        kwargs: Arguments = NO_ARGUMENTS,
        definition: Mapping[str, Any] | None = None,
    ) -> GymnasiumEnv:
        """The environment; a module that only the folder of a run names is not imported, see ``trust``."""
        self.task(env_id, task, definition=definition)
        return make_gymnasium(env_id.removeprefix(PREFIX), kwargs=kwargs)

    def tasks(self, env_id: str) -> tuple[str, ...]:
        """The environment itself."""
        return (env_id,)

    def task(self, env_id: str, task: str | None, *, definition: Mapping[str, Any] | None = None) -> str:
        """The environment itself, which need not be said."""
        del definition
        if task is not None and task != env_id:
            raise UserError(
                f"{env_id} has one task, itself, and {task} is another: leave the task out, or give the environment it "
                "is of."
            )
        return env_id

    def benchmark(self, env_id: str, *, kwargs: Arguments = NO_ARGUMENTS) -> Benchmark:
        """That of images or of states, whichever its observations are; one is made to find out."""
        key = f"{env_id} {sorted(kwargs.items())}"
        if key not in _benchmarks:
            env = self.make(env_id, kwargs=kwargs)
            env.close()
            _benchmarks[key] = "urlb-pixels" if env.spec.is_image else "urlb"
        return _benchmarks[key]

    def definition(self, env_id: str) -> None:
        """None: the name is enough."""
        del env_id

    def layout(self, env_id: str, definition: Mapping[str, Any] | None = None) -> None:
        """None: there is no map to draw."""
        del env_id, definition

    def folder_name(self, env_id: str) -> str:
        """The ID, with the module that it is from."""
        return env_id.removeprefix(PREFIX).replace("/", "-").replace(":", "-")

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
        """The environment with its own ``render()``."""
        refuse_wishes(env_id, size, shadows)
        task = self.task(env_id, task, definition=definition)
        env = make_gymnasium(env_id.removeprefix(PREFIX), kwargs=kwargs, drawn=True)
        return Drawn(env, env.draw, env.steps_per_second, task, "its own render()", env.close)
