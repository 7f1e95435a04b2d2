"""The maze figures of the paper as comparisons: the square maze, the tree, and the exploration ratio."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from skillscape.errors import UserError, choose
from skillscape.experiments.comparison import Arm, Comparison
from skillscape.objectives.sd3 import SD3
from skillscape.presets import Settings, settings

PAPER_METHODS = ("sd3", "diayn", "dads", "cic")
LABELS = {"sd3": "SD3", "diayn": "DIAYN", "dads": "DADS", "cic": "CIC"}
EXPLORATION_RATIOS = (0.0, 0.02, 0.04, 0.08)


@dataclass(frozen=True)
class Request:
    """What the command line asks of an experiment."""

    command: str
    preset: str = "default"
    methods: tuple[str, ...] = PAPER_METHODS
    seeds: int = 10
    steps: int | None = None
    entropy: float | None = None
    """PPO's entropy weight for all methods; the preset's if not given."""


def _settings(request: Request, method: str) -> Settings:
    chosen = settings(method, request.preset)
    if request.entropy is None:
        return chosen
    return replace(chosen, backbone=replace(chosen.backbone, entropy=request.entropy))


def _arm(request: Request, method: str, skills: int) -> Arm:
    chosen = _settings(request, method)
    objective = replace(chosen.objective, number_of_skills=skills)  # type: ignore[call-arg]
    return Arm(LABELS.get(method, method), method, method, objective, chosen.backbone)


def _comparison(request: Request, name: str, env: str, arms: Sequence[Arm]) -> Comparison:
    steps = request.steps or settings("sd3", request.preset).steps
    return Comparison(name, env, tuple(arms), steps, request.seeds, request.preset, request.command)


def maze(request: Request) -> list[Comparison]:
    """Figure "results for maze experiment": SD3, DIAYN, DADS and CIC with 10 skills in the square maze."""
    arms = [_arm(request, method, 10) for method in request.methods]
    return [_comparison(request, "maze", "maze/square_a", arms)]


def tree(request: Request) -> list[Comparison]:
    """The tree-like maze with 10 and with 20 skills."""
    return [
        _comparison(
            request,
            f"tree-{skills}",
            "maze/square_tree",
            [_arm(request, method, skills) for method in request.methods],
        )
        for skills in (10, 20)
    ]


def ablation_alpha(request: Request) -> list[Comparison]:
    """SD3 in the square maze at exploration ratios α ∈ {0, 0.02, 0.04, 0.08}."""
    chosen = _settings(request, "sd3")
    if not isinstance(chosen.objective, SD3):
        raise UserError("ablation-alpha is about SD3 only.")
    arms = [
        Arm(
            f"SD3, α = {ratio:g}",
            f"alpha-{ratio:g}",
            "sd3",
            replace(chosen.objective, exploration_ratio=ratio),
            chosen.backbone,
        )
        for ratio in EXPLORATION_RATIOS
    ]
    return [_comparison(request, "ablation-alpha", "maze/square_a", arms)]


EXPERIMENTS: dict[str, Callable[[Request], list[Comparison]]] = {
    "maze": maze,
    "tree": tree,
    "ablation-alpha": ablation_alpha,
}


def plan(name: str, request: Request) -> list[Comparison]:
    """The comparisons that an experiment consists of."""
    choose("experiment", name, EXPERIMENTS, "skillscape reproduce --help")
    for method in request.methods:
        choose("method", method, LABELS, "skillscape methods")
    return EXPERIMENTS[name](request)
