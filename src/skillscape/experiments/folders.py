"""Where results go: an experiment never writes over the results of another one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skillscape.errors import UserError
from skillscape.experiments.comparison import Comparison
from skillscape.experiments.urlb import Benchmark, budget_of


def comparison_folder(comparison: Comparison, out: Path) -> Path:
    """The folder of a comparison in mazes; its name already tells entropy, preset and budget."""
    methods = dict.fromkeys(arm.method for arm in comparison.arms)
    asked = {
        "env": comparison.env,
        "steps": comparison.steps,
        "seeds": comparison.seeds,
        "methods": sorted(arm.label for arm in comparison.arms),
    }
    return _free(out, comparison.name, [*methods, _seeds(comparison.seeds)], asked)


def benchmark_folder(benchmark: Benchmark, out: Path) -> Path:
    """The folder of a benchmark; its name already tells domains or tasks, and the preset."""
    budget = budget_of(benchmark)
    methods = dict.fromkeys(variant.method for variant in benchmark.variants)
    asked = {
        "preset": benchmark.preset,
        "pretraining_steps": budget[0],
        "finetuning_steps": budget[1],
        "seeds": benchmark.seeds,
        "methods": sorted(variant.label for variant in benchmark.variants),
        "tasks": sorted(task for domain in benchmark.domains for task in benchmark.tasks_of(domain)),
    }
    told = [*methods, *(f"{steps}" for steps in budget), _seeds(benchmark.seeds)]
    return _free(out, benchmark.name, told, asked)


def _seeds(number: int) -> str:
    return f"{number}-seed{'s' if number > 1 else ''}"


def _free(out: Path, name: str, told: list[str], asked: Mapping[str, Any]) -> Path:
    """The plain name, or, where other results have it, one that tells everything that was asked for."""
    plain, whole = out / name, out / "-".join([name, *told])
    for folder in (plain, whole):
        if not (folder / "raw.json").exists() or _made(folder, asked) == asked:
            return folder
    raise UserError(f"{plain} and {whole} hold other results; choose another --out.")


def _made(folder: Path, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the results in a folder are of, as far as it was asked for; None where that cannot be told."""
    try:
        raw = json.loads((folder / "raw.json").read_text())
        rows = raw["scores"] if "scores" in raw else [{"method": arm["label"]} for arm in raw["arms"]]
        # In which order methods were named does not make other results.
        listed = {f"{key}s": sorted({row[key] for row in rows if key in row}) for key in ("method", "task")}
        return {key: listed.get(key, raw.get(key)) for key in asked}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
