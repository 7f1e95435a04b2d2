"""What ``import skillscape`` offers: all of it there, typed, loaded on first use."""

import ast
import inspect
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import skillscape

SOURCE = Path(skillscape.__file__)


@pytest.mark.parametrize("name", skillscape.__all__)
def test_what_is_offered_is_there_and_says_what_it_is(name):
    value = getattr(skillscape, name)
    assert value is not None
    if getattr(value, "__module__", "").startswith("skillscape"):
        assert value.__doc__
        assert value.__name__ == name


@pytest.mark.parametrize("name", skillscape.__all__)
def test_functions_are_typed(name):
    value = getattr(skillscape, name)
    methods = [value] if inspect.isfunction(value) else []
    if inspect.isclass(value) and value.__module__.startswith("skillscape"):
        methods = [
            method
            for called, method in vars(value).items()
            if inspect.isfunction(method) and (called == "__call__" or not called.startswith("_"))
        ]
    for method in methods:
        parameters = inspect.signature(method).parameters
        untyped = [
            parameter.name
            for parameter in parameters.values()
            if parameter.annotation is parameter.empty and parameter.name not in ("self", "cls")
        ]
        assert untyped == [], f"{method.__qualname__} {untyped}"
        assert "return" in method.__annotations__, method.__qualname__


@pytest.mark.parametrize("name", ["pretrain", "finetune", "train"])
def test_options_are_typed_by_their_names(name):
    options = inspect.signature(getattr(skillscape, name)).parameters["options"]
    assert typing.get_origin(options.annotation) is typing.Unpack
    (record,) = typing.get_args(options.annotation)
    assert {"resume", "force", "callbacks", "progress", "steps", "seed", "backbone"} <= set(
        typing.get_type_hints(record)
    )


def test_what_type_checkers_see_is_what_is_loaded():
    """The imports under TYPE_CHECKING, the table that is loaded from, and __all__ name the same."""
    seen = {}
    for node in ast.walk(ast.parse(SOURCE.read_text())):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for line in node.body:
                seen |= {alias.name: line.module.removeprefix("skillscape.") for alias in line.names}
    assert seen == skillscape._HOME
    assert sorted(seen) == sorted(skillscape.__all__)


def test_a_name_that_there_is_not_is_no_attribute():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = skillscape.nonsense


def test_the_package_is_marked_as_typed():
    assert (SOURCE.parent / "py.typed").exists()


def test_importing_the_package_loads_neither_jax_nor_mujoco():
    program = "import sys, skillscape; sys.exit(bool({'jax', 'mujoco', 'matplotlib', 'tyro'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", program], check=True)
