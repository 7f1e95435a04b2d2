"""Skills of bodies without a task, as METRA's line of work compares them."""

from dataclasses import dataclass
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

    def grids(self) -> list[Grid]:
        """One comparison for each body."""
        columns = [column(method) for method in selected(self.methods, METHODS)]
        return [self.grid(f"locomotion-{env.replace('/', '-')}", env, columns) for env in self.envs]

    def subject(self) -> Subject:
        """Where bodies go."""
        return BODIES
