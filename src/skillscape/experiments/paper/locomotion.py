"""Skills of bodies without a task, as METRA's line of work compares them."""

from dataclasses import dataclass, replace
from typing import Annotated, final

from typing_extensions import Doc

from skillscape.experiments.base import Seeds, Steps
from skillscape.experiments.bodies import BODIES
from skillscape.experiments.comparison import Comparison, Subject, column
from skillscape.experiments.grid import Grid
from skillscape.experiments.paper.maze import Methods, selected

METHODS = ("sd3", "metra", "csf", "lsd", "csd", "diayn", "apt")


@final
@dataclass(frozen=True)
class Locomotion(Comparison):
    """SD3, METRA, CSF, LSD, CSD, DIAYN and APT on bodies: how far their skills go, how distinct, zero-shot goals."""

    name = "locomotion"
    seeds: Seeds = 3
    steps: Steps = 200_000
    envs: Annotated[tuple[str, ...], Doc("Bodies whose position is known: half_cheetah, ant, quadruped, walker.")] = (
        "half_cheetah",
        "quadruped",
    )
    methods: Methods = ()
    episodes: Annotated[
        int | None,
        Doc(
            "Episodes of an evaluation, divided equally among the skills; the preset's if not given. Four of each "
            "skill give a column of accuracy."
        ),
    ] = None
    evaluate_every: Annotated[
        int | None, Doc("Environment steps between two evaluations; the preset's if not given.")
    ] = None

    def grids(self) -> list[Grid]:
        """One comparison for each body."""
        columns = [column(method) for method in selected(self.methods, METHODS)]
        words = [] if self.episodes is None else [f"{self.episodes}-episodes"]
        asked = {"episodes": self.episodes, "every": self.evaluate_every}
        evaluation = tuple((name, value) for name, value in asked.items() if value is not None)
        names = {env: "-".join(["locomotion", env.replace("/", "-"), *words]) for env in self.envs}
        return [replace(self.grid(name, env, columns), evaluation=evaluation) for env, name in names.items()]

    def subject(self) -> Subject:
        """Where bodies go."""
        return BODIES
