"""Specifications of sweeps: a TOML file, read into frozen dataclasses; every mistake in it is one sentence."""

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skillscape.errors import UserError

MOST_RUNS = 100_000
"""Runs of a sweep; a grid beyond is a slip of the pen, and would only be counted for hours."""
OWN = "own"
"""The skill that a method fine-tunes by its own rule."""

Values = tuple[tuple[str, tuple[Any, ...]], ...]
"""Fields and the values each of them is tried with."""


@dataclass(frozen=True)
class Resources:
    """What one run gets."""

    cpus: int = 1
    """Cores, and threads, of a run."""
    gpus: float = 0.0
    """Share of a GPU of a run, on Ray."""
    retries: int = 3
    """How often a run is taken up again after its process or its machine was lost."""


@dataclass(frozen=True)
class Sweep:
    """A grid: every method in every environment with every seed, and each of them on every task."""

    name: str
    methods: tuple[str, ...]
    """Methods to pre-train; ddpg is training from scratch."""
    envs: tuple[str, ...]
    """walker, quadruped, jaco, maze/NAME or gym/ID."""
    tasks: tuple[str, ...] | None = None
    """Tasks to fine-tune on, all of each environment if None; mazes have none."""
    seeds: tuple[int, ...] = (0,)
    preset: str | None = None
    """As for `skillscape pretrain --preset`; that command's default if None."""
    steps: int | None = None
    """Steps of pre-training; the preset's if None."""
    finetuning_steps: int | None = None
    """Steps of fine-tuning, and of training from scratch; the preset's if None."""
    skills: tuple[str, ...] = (OWN,)
    """Which skill is fine-tuned: see `skillscape finetune --skill`, or "own" for the method's own rule."""
    snapshots: tuple[int, ...] = ()
    """Steps of the pre-training to fine-tune from; only its end if empty."""
    noise: tuple[float, ...] = (0.0,)
    """Deviations of the observation noise in pre-training."""
    objective: Values = ()
    """Fields of the method in place of the preset's, each with the values to try."""
    backbone: Values = ()
    """The same for the learner."""
    resources: Resources = field(default_factory=Resources)


def read_sweep(path: Path) -> Sweep:
    """Read a specification."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UserError(
            f"Cannot read the sweep {path}: {reason}; give a TOML file such as sweeps/smoke.toml."
        ) from error
    try:
        values = tomllib.loads(text)
    except RecursionError as error:
        raise UserError(f"{path} is nested too deeply; a sweep has tables of values and of lists.") from error
    except ValueError as error:
        raise UserError(f"{path} is not TOML: {error}.") from error
    try:
        return _sweep(path.stem, values)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _sweep(stem: str, values: Mapping[str, Any]) -> Sweep:
    readers: dict[str, Callable[[str, Any], Any]] = {
        "name": _name,
        "methods": _texts,
        "envs": _texts,
        "tasks": _tasks,
        "seeds": _seeds,
        "preset": _text,
        "steps": _positive,
        "finetuning_steps": _positive,
        "skills": _texts,
        "snapshots": _snapshots,
        "noise": _noise,
        "objective": _values,
        "backbone": _values,
        "resources": _resources,
    }
    _known("", values, readers)
    for key in ("methods", "envs"):
        if key not in values:
            raise UserError(
                f'{key} is missing; add a line such as {key} = ["{"sd3" if key == "methods" else "walker"}"].'
            )
    read = {key: readers[key](key, value) for key, value in values.items()}
    return Sweep(**{"name": stem, **read})


def _resources(key: str, value: Any) -> Resources:  # noqa: ANN401
    readers: dict[str, Callable[[str, Any], Any]] = {"cpus": _positive, "gpus": _share, "retries": _count}
    _known(f"{key}.", _table(key, value), readers)
    return Resources(**{name: readers[name](f"{key}.{name}", entry) for name, entry in value.items()})


def _known(prefix: str, values: Iterable[str], known: Iterable[str]) -> None:
    names = list(known)
    for key in values:
        if key not in names:
            raise UserError(
                f"There is no key {prefix + key!r}; known are {', '.join(prefix + name for name in names)}."
            )


def _table(key: str, value: Any) -> Mapping[str, Any]:  # noqa: ANN401
    if not isinstance(value, dict):
        raise UserError(f"{key} must be a table, written [{key}], not {value!r}.")
    return value


def _values(key: str, value: Any) -> Values:  # noqa: ANN401
    found = []
    for name, entry in _table(key, value).items():
        if isinstance(entry, dict) or entry == []:
            raise UserError(f"{key}.{name} must be a value or a list of values to try, not {entry!r}.")
        tried = entry if isinstance(entry, list) else [entry]
        # A field that is itself a list, such as hidden widths, is tried with a list of lists.
        found.append((name, tuple(tuple(one) if isinstance(one, list) else one for one in tried)))
    return tuple(found)


def _text(key: str, value: Any) -> str:  # noqa: ANN401
    if not isinstance(value, str) or not value:
        raise UserError(f"{key} must be a text in quotes, not {value!r}.")
    return value


def _name(key: str, value: Any) -> str:  # noqa: ANN401
    if "/" in _text(key, value) or value.startswith("."):
        raise UserError(f"{key} names a folder, so it cannot be {value!r}; leave out slashes and a dot in front.")
    return str(value)


def _texts(key: str, value: Any) -> tuple[str, ...]:  # noqa: ANN401
    if not isinstance(value, list) or not value or not all(isinstance(one, str) and one for one in value):
        raise UserError(f"{key} must be a list of texts with at least one, not {value!r}.")
    return _distinct(key, value)


def _tasks(key: str, value: Any) -> tuple[str, ...] | None:  # noqa: ANN401
    if value == "all":
        return None
    if value == []:
        return ()
    if isinstance(value, str):
        raise UserError(f'{key} must be "all" or a list of tasks, not {value!r}.')
    return _texts(key, value)


def _seeds(key: str, value: Any) -> tuple[int, ...]:  # noqa: ANN401
    if _whole(value) and value > 0:
        if value > MOST_RUNS:
            raise UserError(f"{key} cannot be {value:,}: a sweep has at most {MOST_RUNS:,} runs.")
        return tuple(range(value))
    if isinstance(value, list) and value and all(_whole(one) and 0 <= one < 2**31 for one in value):
        return _distinct(key, value)
    raise UserError(f"{key} must be how many seeds, or a list of seeds that are not negative, not {value!r}.")


def _snapshots(key: str, value: Any) -> tuple[int, ...]:  # noqa: ANN401
    if isinstance(value, list) and all(_whole(one) and one > 0 for one in value):
        return _distinct(key, value)
    raise UserError(f"{key} must be a list of steps above zero, not {value!r}.")


def _noise(key: str, value: Any) -> tuple[float, ...]:  # noqa: ANN401
    tried = value if isinstance(value, list) else [value]
    if tried and all(_real(one) and one >= 0 for one in tried):
        return _distinct(key, [float(one) for one in tried])
    raise UserError(f"{key} must be a deviation of at least 0 or a list of them, not {value!r}.")


def _positive(key: str, value: Any) -> int:  # noqa: ANN401
    if not _whole(value) or value < 1:
        raise UserError(f"{key} must be a whole number above zero, not {value!r}.")
    return int(value)


def _count(key: str, value: Any) -> int:  # noqa: ANN401
    if not _whole(value) or value < 0:
        raise UserError(f"{key} must be a whole number of at least 0, not {value!r}.")
    return int(value)


def _share(key: str, value: Any) -> float:  # noqa: ANN401
    if not _real(value) or value < 0 or (value > 1 and value != int(value)):
        raise UserError(f"{key} must be a share between 0 and 1 or a whole number, not {value!r}.")
    return float(value)


def _distinct(key: str, values: list[Any]) -> tuple[Any, ...]:
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            raise UserError(f"{key} names {value!r} twice; keep one.")
        seen.add(value)
    return tuple(values)


def _whole(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, int) and not isinstance(value, bool)


def _real(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
