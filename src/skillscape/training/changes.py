"""Settings in place of others: what a user overrides in a preset, and what may not differ when a run goes on."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from skillscape.errors import UserError, nearest
from skillscape.training.runs import from_fields


def overridden(part: Any, values: Mapping[str, Any], key: str) -> Any:  # noqa: ANN401  any dataclass
    """A method or learner with some fields replaced; ``key``, "objective" or "backbone", names it in a refusal."""
    known = [field.name for field in fields(part)]
    for name in values:
        if name not in known:
            near = nearest(str(name), known, cutoff=0.6)
            hint = f"did you mean {near!r}?" if near else f"known are {', '.join(known)}."
            raise UserError(f"{key}.{name} is no setting of {type(part).__name__.lower()}; {hint}")
    return from_fields(type(part), {**vars(part), **values}) if values else part


def check_unchanged(folder: Path, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Refuse to go on with a run under other settings than its own, each named with both values; both are JSON."""
    found = differences(theirs, ours)
    if found:
        raise UserError(
            f"{folder} was trained with other settings ({'; '.join(found)}): resume it with its own, or choose "
            "another --out."
        )


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """In which settings two configurations differ, in words; those that follow from another one are left out."""
    differing = [name for name in ours if ours[name] != theirs.get(name)]
    if "phase" in differing:
        differing = ["phase"]  # little else could be the same
    # The drawing comes with the maze's name, and the steps decide which snapshots there can be.
    followers = {"layout": "env", "snapshots": "steps"}
    found = []
    for name in differing:
        if followers.get(name) in differing:
            continue
        mine, there = ours[name], theirs.get(name)
        if name == "layout":
            found.append("the maze has been drawn anew since")
        elif isinstance(mine, dict) and isinstance(there, dict):
            changed = [one for one in mine if mine[one] != there.get(one)]
            # Another method has other settings: its name says it all.
            named = ["name"] if "name" in changed else changed
            found += [_difference(f"{name}.{one}", there.get(one), mine[one]) for one in named]
        else:
            found.append(_difference(name, there, mine))
    return found


def _difference(name: str, theirs: Any, ours: Any) -> str:  # noqa: ANN401
    return f"{name}: {_word(theirs)} in the run, {_word(ours)} asked for"


def _word(value: Any) -> str:  # noqa: ANN401
    if value is None:
        return "none"
    if isinstance(value, dict):
        return str(value.get("name", value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"{value}"
