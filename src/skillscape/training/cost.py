"""What a run costs: the parameters that it trains, and the wall-clock time of its training."""

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from skillscape.training.files import damaged, read_json, write_json

TIMING = "timing.json"
SECONDS = "seconds"


class Parameters(NamedTuple):
    """Numbers of parameters that gradient steps move."""

    backbone: int
    """Policy, critic and, if there is one, world model; no target networks."""
    objective: int
    """The method's own model."""


class Timing(NamedTuple):
    """Wall-clock time of training, evaluations and checkpoints included, over all resumes."""

    seconds: float
    steps: int
    steps_per_second: float


class Stopwatch:
    """Seconds of training up to a checkpoint; a resumed run continues from those of its checkpoint."""

    def __init__(self, metadata: Mapping[str, Any] | None) -> None:
        """``metadata``: of the checkpoint that training continues from; None for a new run."""
        self._before = 0.0 if metadata is None else seconds_of(metadata)
        self._began = time.perf_counter()

    def metadata(self) -> dict[str, Any]:
        """An entry of a checkpoint's metadata; empty where the time before a resume is unknown."""
        return {} if self._before is None else {SECONDS: self._before + time.perf_counter() - self._began}


def seconds_of(metadata: Mapping[str, Any]) -> float | None:
    """Seconds of training until a checkpoint, or None if its metadata do not tell them."""
    value = metadata.get(SECONDS)
    return float(value) if _is_duration(value) else None


def _is_duration(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def write_timing(folder: Path, seconds: float, steps: int) -> None:
    """Write timing.json, apart from the results: these are the same bits however often a run was interrupted."""
    write_json(folder / TIMING, Timing(seconds, steps, steps / max(seconds, 1e-9))._asdict())


def read_timing(folder: Path, advice: str) -> Timing | None:
    """The timing of a finished run; None if it recorded none."""
    path = folder / TIMING
    if not path.exists():
        return None
    values = read_json(path, advice=advice)
    if not all(_is_duration(values.get(name)) for name in Timing._fields):
        raise damaged(path, "it holds no seconds, steps and steps per second", advice)
    return Timing(float(values["seconds"]), int(values["steps"]), float(values["steps_per_second"]))


def read_parameters(results: Mapping[str, Any]) -> Parameters | None:
    """The numbers of parameters in results.json; None if the run recorded none."""
    values = results.get("parameters")
    if not isinstance(values, dict) or not all(isinstance(values.get(name), int) for name in Parameters._fields):
        return None
    return Parameters(**{name: values[name] for name in Parameters._fields})
