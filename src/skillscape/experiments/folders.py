"""Where results go: an experiment never writes over the results of another one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skillscape.errors import UserError
from skillscape.experiments.base import Experiment
from skillscape.experiments.grid import Grid
from skillscape.formatting import counted


def results_folder(experiment: Experiment, grid: Grid, out: Path) -> Path:
    """The folder of the grid's name, or, where other results have it, one that tells everything that was asked for."""
    asked = experiment.identity(grid)
    if not asked:
        return out / grid.name
    methods = dict.fromkeys(variant.method or str(variant.backbone) for variant in grid.variants)
    budgets = [f"{asked[name]}" for name in ("pretraining_steps", "finetuning_steps") if name in asked]
    seeds = counted(asked["seeds"], "seed").replace(" ", "-")
    plain, whole = out / grid.name, out / "-".join([grid.name, *methods, *budgets, seeds])
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
