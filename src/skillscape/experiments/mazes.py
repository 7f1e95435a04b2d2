"""Figures in mazes as comparisons: the square maze, the tree, SD3 with one setting changed, and the maze as images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skillscape.errors import UserError, choose
from skillscape.experiments.comparison import Arm, Comparison
from skillscape.objectives import registry, trainable
from skillscape.presets import Settings, default_preset, hosted_settings, settings

PAPER_METHODS = ("sd3", "diayn", "dads", "cic")
SEEN_METHODS = ("sd3", "diayn", "apt")
SEEN_MAZE = "maze-pixels/square_a"
EXPLORATION_RATIOS = (0.0, 0.02, 0.04, 0.08)
DEVIATION_WEIGHTS = (0.5, 1.0, 1.5, 2.0, 3.0)


@dataclass(frozen=True)
class Request:
    """What the command line asks of an experiment."""

    command: str
    preset: str = "default"
    methods: tuple[str, ...] = ()
    """The experiment's own if none."""
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
    # Methods without skills, or with a continuum of them, have no number of skills.
    counted = "number_of_skills" in vars(chosen.objective)
    objective = replace(chosen.objective, **({"number_of_skills": skills} if counted else {}))
    return Arm(registry()[method].label, method, method, objective, chosen.backbone)


def _comparison(request: Request, name: str, env: str, arms: Sequence[Arm]) -> Comparison:
    budget = settings("sd3", request.preset).steps
    steps = request.steps or budget
    made = Comparison(name, env, tuple(arms), steps, request.seeds, request.preset, request.command)
    return _named(request, made, budget)


def _named(request: Request, comparison: Comparison, budget: int) -> Comparison:
    # Another entropy, preset or budget is another experiment: its runs and results must not meet the default's.
    entropy = "" if request.entropy is None else f"-entropy-{request.entropy:g}"
    preset = "" if comparison.preset in ("default", "compact", "laptop") else f"-{comparison.preset}"
    steps = "" if comparison.steps == budget else f"-{comparison.steps}"
    return replace(comparison, name=f"{comparison.name}{entropy}{preset}{steps}")


def maze(request: Request) -> list[Comparison]:
    """Figure "results for maze experiment": SD3, DIAYN, DADS and CIC with 10 skills in the square maze."""
    methods = request.methods or PAPER_METHODS
    arms = [_arm(request, method, 10) for method in methods]
    name = "maze" if set(methods) <= set(PAPER_METHODS) else "maze-all"
    return [_comparison(request, name, "maze/square_a", arms)]


def tree(request: Request) -> list[Comparison]:
    """The tree-like maze with 10 and with 20 skills."""
    return [
        _comparison(
            request,
            f"tree-{skills}",
            "maze/square_tree",
            [_arm(request, method, skills) for method in request.methods or PAPER_METHODS],
        )
        for skills in (10, 20)
    ]


def _sd3_arms(request: Request, variants: Sequence[tuple[str, str, dict[str, Any]]]) -> list[Arm]:
    """SD3 with some settings changed: (label, folder, changes) each."""
    chosen = _settings(request, "sd3")
    return [
        Arm(label, folder, "sd3", replace(chosen.objective, **changes), chosen.backbone)
        for label, folder, changes in variants
    ]


def ablation_alpha(request: Request) -> list[Comparison]:
    """SD3 in the square maze at exploration ratios α ∈ {0, 0.02, 0.04, 0.08}."""
    variants = [
        (f"SD3, α = {value:g}", f"alpha-{value:g}", {"exploration_ratio": value}) for value in EXPLORATION_RATIOS
    ]
    return [_comparison(request, "ablation-alpha", "maze/square_a", _sd3_arms(request, variants))]


def ablation_lambda(request: Request) -> list[Comparison]:
    """SD3 in the square maze at deviation weights λ ∈ {0.5, 1, 1.5, 2, 3}."""
    variants = [
        (f"SD3, λ = {value:g}", f"lambda-{value:g}", {"deviation_weight": value}) for value in DEVIATION_WEIGHTS
    ]
    return [_comparison(request, "ablation-lambda", "maze/square_a", _sd3_arms(request, variants))]


def ablation_softmod(request: Request) -> list[Comparison]:
    """SD3 in the square maze with soft modules and with a plain conditional VAE."""
    variants: list[tuple[str, str, dict[str, Any]]] = [
        ("SD3, soft modules", "soft-modular", {"architecture": "soft-modular"}),
        ("SD3, plain network", "plain", {"architecture": "plain", "width": 128}),
    ]
    return [_comparison(request, "ablation-softmod", "maze/square_a", _sd3_arms(request, variants))]


def maze_pixels(request: Request) -> list[Comparison]:
    """SD3, DIAYN and APT, which has no skills, with Dreamer in the square maze seen from above."""
    if request.entropy is not None:
        raise UserError("--entropy is PPO's; what is seen is learned with Dreamer, which has its own.")
    preset = default_preset(SEEN_MAZE) if request.preset == "default" else request.preset
    chosen = {method: hosted_settings(method, SEEN_MAZE, preset) for method in request.methods or SEEN_METHODS}
    arms = [
        Arm(registry()[method].label, method, method, one.objective, one.backbone)
        for method, one in chosen.items()
        if one.objective is not None
    ]
    budget = next(iter(chosen.values())).steps
    steps = request.steps or budget
    comparison = Comparison("maze-pixels", SEEN_MAZE, tuple(arms), steps, request.seeds, preset, request.command)
    return [_named(request, comparison, budget)]


EXPERIMENTS: dict[str, Callable[[Request], list[Comparison]]] = {
    "maze": maze,
    "tree": tree,
    "ablation-alpha": ablation_alpha,
    "ablation-lambda": ablation_lambda,
    "ablation-softmod": ablation_softmod,
    "maze-pixels": maze_pixels,
}


def methods_in_order() -> tuple[str, ...]:
    """All methods as tables list them: those of the paper's figure, others with skills, those without."""
    others = [name for name in trainable() if name not in PAPER_METHODS]
    return (*PAPER_METHODS, *sorted(others, key=lambda name: registry()[name]().skills.width == 0))


def plan(name: str, request: Request) -> list[Comparison]:
    """The comparisons that an experiment consists of."""
    choose("experiment", name, EXPERIMENTS, "skillscape reproduce --help")
    if request.methods == ("all",):
        request = replace(request, methods=methods_in_order())
    for method in request.methods:
        choose("method", method, trainable(), "skillscape methods")
    return EXPERIMENTS[name](request)
