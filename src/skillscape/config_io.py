"""Settings as dataclasses: read from JSON with type checks, overridden by name, compared."""

import json
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from skillscape.errors import UserError, nearest

T = TypeVar("T")


def from_fields(kind: type[T], values: Mapping[str, Any]) -> T:
    """Build a dataclass from JSON values: lists become tuples again; a wrong field or type is a user's error."""
    hints = typing.get_type_hints(kind)
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if wrong := sorted(set(values) - known):
        raise UserError(f"{kind.__name__} has no setting {wrong[0]!r}; its settings are {', '.join(sorted(known))}.")
    built = {name: _built(hints[name], value) for name, value in values.items()}
    for name, value in built.items():
        if not fits(value, hints[name]):
            raise UserError(
                f"{kind.__name__}.{name} cannot be {value!r}; correct it, or train again if an earlier version "
                "wrote it."
            )
    return kind(**built)


def _built(hint: Any, value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict) and isinstance(hint, type) and is_dataclass(hint):
        return from_fields(hint, value)
    return tuple(value) if isinstance(value, list) else value


def fits(value: Any, hint: Any) -> bool:  # noqa: ANN401
    """Whether a value has the type that a field is annotated with."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin is typing.Literal:
        return value in arguments
    if origin is typing.Annotated:
        return fits(value, arguments[0])
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, option) for option in arguments)
    if origin is tuple:
        return isinstance(value, tuple) and all(fits(entry, arguments[0]) for entry in value)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, origin or hint)


def plain(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Values as JSON gives them back; values that JSON cannot hold are refused."""
    for key, value in values.items():
        try:
            json.dumps(value, allow_nan=False)
        except (RecursionError, TypeError, ValueError) as error:
            raise UserError(
                f"{name} is stored as JSON, which cannot hold {key}={value!r}; give numbers, text, booleans, None, "
                "lists or dictionaries."
            ) from error
    restored: dict[str, Any] = json.loads(json.dumps(dict(values)))
    return restored


def overridden(part: T, values: Mapping[str, Any], key: str) -> T:
    """A dataclass with some fields replaced, those of nested dataclasses by mappings: {"world": {"deter": 64}}.

    ``key``, such as "objective", names the dataclass in errors.
    """
    if not isinstance(values, Mapping):
        raise UserError(f"{key} cannot be {values!r}; give settings by name, such as {{{_first(part)!r}: …}}.")
    known = [field.name for field in fields(part)]  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            raise UserError(f"{key}.{name} is not a setting of {type(part).__name__}; {_hint(part, str(name))}")
    built = {
        name: overridden(own, value, f"{key}.{name}")
        if is_dataclass(own := vars(part)[name]) and not isinstance(value, type(own))
        else value
        for name, value in values.items()
    }
    return from_fields(type(part), {**vars(part), **built}) if values else part


def _hint(part: Any, name: str) -> str:  # noqa: ANN401  any dataclass
    """What may have been meant by a name that is no setting: one of a nested dataclass, or one spelled alike."""
    known = [field.name for field in fields(part)]
    nested = [path for path in setting_names(part) if path.rpartition(".")[2] == name]
    near = nearest(name, known, cutoff=0.6)
    meant = nested or ([near] if near else [])
    return f"did you mean {' or '.join(map(repr, meant))}?" if meant else f"known are {', '.join(known)}."


def setting_names(part: Any) -> Iterator[str]:  # noqa: ANN401  any dataclass
    """The names of all settings, those of nested dataclasses with dots: "world.deter"."""
    for field in fields(part):
        value = getattr(part, field.name)
        if is_dataclass(value):
            yield from (f"{field.name}.{name}" for name in setting_names(value))
        else:
            yield field.name


def setting(part: Any, name: str) -> Any:  # noqa: ANN401  any dataclass
    """The value of a setting by its name with dots."""
    for step in name.split("."):
        part = vars(part)[step]
    return part


def nested(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Settings by names with dots as nested mappings, as ``overridden`` takes them."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        *groups, last = name.split(".")
        inner = found
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[last] = value
    return found


def as_json(value: Any) -> Any:  # noqa: ANN401  a setting
    """A setting as JSON has it: tuples as lists, nested dataclasses as dictionaries."""
    if is_dataclass(value):
        return {name: as_json(entry) for name, entry in vars(value).items()}
    return list(value) if isinstance(value, tuple) else value


def _first(part: Any) -> str:  # noqa: ANN401  any dataclass
    return next(field.name for field in fields(part))


def check_unchanged(folder: Path, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Refuse to resume a run with other settings; the error names each with both values. Both are JSON."""
    if changes := differences(theirs, ours):
        raise UserError(
            f"{folder} was trained with other settings ({'; '.join(changes)}); resume it with its own, or choose "
            "another --out."
        )


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """The settings in which two configurations differ, as text, without those that follow from another setting."""
    differing = [name for name in ours if ours[name] != theirs.get(name)]
    if "phase" in differing:
        differing = ["phase"]  # most other settings follow from it
    # The layout follows from the maze's name, and the default snapshots from the steps.
    followers = {"definition": "env", "snapshots": "steps"}
    changes = []
    for name in differing:
        if followers.get(name) in differing:
            continue
        mine, there = ours[name], theirs.get(name)
        if name == "definition":
            changes.append("the file of the environment has changed")
        elif isinstance(mine, dict) and isinstance(there, dict):
            # Another method has other settings, so its name is enough.
            own = ["name"] if mine.get("name") != there.get("name") else [*{**there, **mine}]
            for entry in own:
                changes += _differing(f"{name}.{entry}", there.get(entry), mine.get(entry))
        else:
            changes += _differing(name, there, mine)
    return changes


def _differing(name: str, theirs: Any, ours: Any) -> list[str]:  # noqa: ANN401
    """The differences of two values; dictionaries are compared by entry, "world.deter: 200 in the run, …"."""
    if theirs == ours:
        return []
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return [
            line
            for entry in {**theirs, **ours}
            for line in _differing(f"{name}.{entry}", theirs.get(entry), ours.get(entry))
        ]
    return [f"{name}: {_word(theirs)} in the run, {_word(ours)} asked for"]


def _word(value: Any) -> str:  # noqa: ANN401
    if value is None:
        return "none"
    if isinstance(value, dict):
        return str(value.get("name", value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"{value}"
