"""Sweep specifications: a TOML file, checked and read into a grid."""

import itertools
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from skillscape.errors import UserError
from skillscape.experiments.engine import Resources
from skillscape.experiments.grid import MOST_RUNS, Grid, Pairs, Variant, variant

OWN = "own"
"""Value of ``skills`` for the method's own selection rule."""

Values = tuple[tuple[str, tuple[Any, ...]], ...]
"""Names of settings with the values to sweep over."""


class Sweep(NamedTuple):
    """A grid, and the resources of each of its runs."""

    grid: Grid
    resources: Resources


def read_sweep(path: Path) -> Sweep:
    """The sweep of a TOML file."""
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
    for key in ("methods", "envs"):
        if key not in values:
            raise UserError(
                f'{key} is missing; add a line such as {key} = ["{"sd3" if key == "methods" else "walker"}"].'
            )
    read = _read("", KEYS, values)
    resources = Resources(**_read("resources.", RESOURCES, dict(read.pop("resources", ()))))
    axes: dict[str, Any] = {key: _value_lists(key, read.pop(key, ())) for key in ("objective", "backbone")}
    axes |= {key: read.pop(key, ()) for key in ("methods", "backbones", "skills", "snapshots", "noise")}
    return Sweep(Grid(**{"name": stem, "variants": tuple(dict.fromkeys(_variants(**axes))), **read}), resources)


def _read(prefix: str, keys: "Mapping[str, KeySpec]", values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of known keys, checked; lists may not have duplicates."""
    checked = {}
    for name, value in values.items():
        key = f"{prefix}{name}"
        if name not in keys:
            raise UserError(f"There is no key {key!r}; known are {', '.join(f'{prefix}{known}' for known in keys)}.")
        if not keys[name].fits(value):
            raise UserError(f"{key} must be {keys[name].description.format(key=key)}, not {value!r}.")
        checked[name] = built = keys[name].build(value)
        twice = Counter(built).most_common(1) if isinstance(value, list) else ()
        if twice and twice[0][1] > 1:
            raise UserError(f"{key} names {twice[0][0]!r} twice; keep one.")
    return checked


def _value_lists(key: str, pairs: Pairs) -> Values:
    """Settings with the values to sweep over; one that is itself a list, such as hidden, takes a list of lists.

    A table inside the table is a group of settings: [backbone.world] with deter is "world.deter".
    """
    flat = [pair for name, entry in pairs for pair in _flat(name, entry)]
    axes = tuple((name, entry if isinstance(entry, tuple) else (entry,)) for name, entry in flat)
    for name, values in axes:
        if not values or not _plain(values):
            raise UserError(f"{key}.{name} must be a value or a list of values to try, not {dict(flat)[name]!r}.")
    return axes


def _flat(name: str, entry: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
    if not isinstance(entry, dict):
        return [(name, _tuples(entry))]
    return [pair for inner, value in entry.items() for pair in _flat(f"{name}.{inner}", value)]


def _variants(
    methods: Sequence[str],
    backbones: Sequence[str],
    skills: Sequence[str],
    snapshots: Sequence[int],
    noise: Sequence[float],
    objective: Values,
    backbone: Values,
) -> Iterator[Variant]:
    """The columns: all combinations of the axes; training from scratch varies the backbone's settings only."""
    rest = (backbones or (None,), noise or (0.0,), skills or (OWN,), snapshots or (None,))
    if (
        math.prod(len(axis) for axis in (methods, *rest, *(values for _, values in (*objective, *backbone))))
        > MOST_RUNS
    ):
        raise UserError(f"The grid has more than {MOST_RUNS:,} runs; try fewer values at a time.")
    for method, settings in itertools.product(methods, _combinations(backbone)):
        if variant(method).method is None:
            yield variant(method, _label(method, settings), settings=settings)
            continue
        for changes, backbone_name, noise_std, skill, snapshot in itertools.product(_combinations(objective), *rest):
            rule = None if skill == OWN else skill
            named = [*changes, ("backbone", backbone_name), *settings, ("noise", noise_std or None)]
            named += [("skill", rule), ("snapshot", snapshot)]
            yield variant(
                method,
                _label(method, named),
                backbone=backbone_name,
                objective=changes,
                settings=settings,
                noise=noise_std,
                skill=rule,
                snapshot=snapshot,
            )


def _combinations(values: Values) -> Iterator[Pairs]:
    names = [name for name, _ in values]
    for combination in itertools.product(*(axis for _, axis in values)):
        yield tuple(zip(names, combination, strict=True))


def _label(method: str, settings: Iterable[tuple[str, Any]]) -> str:
    return ", ".join([method, *(f"{name} {value}" for name, value in settings if value is not None)])


class KeySpec(NamedTuple):
    """The values of a key: their description after "must be", their check, and the conversion from TOML."""

    description: str
    fits: Callable[[Any], bool]
    build: Callable[[Any], Any]


def _whole(value: Any, least: int = 0) -> bool:  # noqa: ANN401
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _real(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _text(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, str) and value != ""


def _list(value: Any, fits: Callable[[Any], bool], least: int = 0) -> bool:  # noqa: ANN401
    return isinstance(value, list) and len(value) >= least and all(fits(entry) for entry in value)


def _plain(value: Any) -> bool:  # noqa: ANN401
    return all(_plain(entry) for entry in value) if isinstance(value, tuple) else not isinstance(value, dict)


def _tuples(value: Any) -> Any:  # noqa: ANN401
    return tuple(_tuples(entry) for entry in value) if isinstance(value, list) else value


_TEXT = KeySpec("a text in quotes", _text, str)
_TEXTS = KeySpec("a list of texts with at least one", lambda value: _list(value, _text, 1), tuple)
_STEPS = KeySpec("a whole number above zero", lambda value: _whole(value, 1), int)
_TABLE = KeySpec(
    "a table, written [{key}]",
    lambda value: isinstance(value, dict),
    lambda value: tuple((name, _tuples(entry)) for name, entry in value.items()),
)
KEYS = {
    "name": KeySpec(
        "the name of a folder, without slashes and without a dot in front",
        lambda value: _text(value) and "/" not in value and value[0] != ".",
        str,
    ),
    "methods": _TEXTS,
    "envs": _TEXTS,
    "tasks": KeySpec(
        '"all" or a list of tasks',
        lambda value: value == "all" or _list(value, _text),
        lambda value: None if value == "all" else tuple(value),
    ),
    "seeds": KeySpec(
        f"how many seeds, up to {MOST_RUNS:,}, or a list of seeds that are not negative",
        lambda value: _list(value, _whole, 1) or (_whole(value, 1) and value <= MOST_RUNS),
        lambda value: tuple(value if isinstance(value, list) else range(value)),
    ),
    "preset": _TEXT,
    "steps": _STEPS,
    "finetuning_steps": _STEPS,
    "backbones": _TEXTS,
    "skills": _TEXTS,
    "snapshots": KeySpec("a list of steps above zero", lambda value: _list(value, lambda step: _whole(step, 1)), tuple),
    "noise": KeySpec(
        "a standard deviation of at least 0 or a list of them",
        lambda value: _real(value) or _list(value, _real, 1),
        lambda value: tuple(float(entry) for entry in (value if isinstance(value, list) else [value])),
    ),
    "copies": _STEPS,
    "objective": _TABLE,
    "backbone": _TABLE,
    "evaluation": _TABLE,
    "env_kwargs": _TABLE,
    "resources": _TABLE,
}
RESOURCES = {
    "cpus": _STEPS,
    "gpus": KeySpec(
        "a share between 0 and 1 or a whole number",
        lambda value: _real(value) and (value <= 1 or value % 1 == 0),
        float,
    ),
    "retries": KeySpec("a whole number of at least 0", _whole, int),
}
