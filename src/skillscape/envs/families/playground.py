"""MuJoCo Playground (``playground/NAME``): bodies that are simulated inside compiled programs, for GPUs."""

from typing import final

from skillscape.envs.base import NO_KWARGS, Definition, EnvFamily, Kwargs
from skillscape.envs.playground import PREFIX, PlaygroundEnv, load_playground
from skillscape.errors import UserError
from skillscape.types import Benchmark


@final
class Playground(EnvFamily):
    """Every environment of Playground's registry, with its own reward as the only task, named like the environment."""

    name = "playground"

    def owns(self, env_id: str) -> bool:
        """Whether the ID begins with playground/."""
        return env_id.startswith(PREFIX)

    def describe(self) -> list[tuple[str, str]]:
        """One pattern for all IDs."""
        text = (
            "Any environment of MuJoCo Playground that observes a vector, such as playground/CartpoleBalance or "
            "playground/Go1JoystickFlatTerrain, simulated by MJX inside the training program: for a GPU."
        )
        return [(f"{PREFIX}NAME", text)]

    def make(
        self, env_id: str, task: str | None = None, *, kwargs: Kwargs = NO_KWARGS, definition: Definition = None
    ) -> PlaygroundEnv:
        """The environment; ``kwargs`` override its configuration."""
        if task is not None:
            self.task(env_id, task, definition=definition)
        return load_playground(env_id.removeprefix(PREFIX), kwargs)

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
        """The benchmark of the family's own name."""
        del env_id, kwargs
        return "playground"

    def folder_name(self, env_id: str) -> str:
        """The name, without playground/."""
        return env_id.removeprefix(PREFIX)
