"""Registries of classes: folders, entry points, and what a user registers."""

import sys
import textwrap
from importlib.metadata import EntryPoint

import pytest

from skillscape import registry as module
from skillscape.errors import Notice, UserError
from skillscape.objectives.base import Objective
from skillscape.objectives.diayn import DIAYN
from skillscape.registry import Registry

FILES = {
    "zoo/__init__.py": "",
    "zoo/base.py": """
        from abc import ABC, abstractmethod
        from typing import ClassVar

        class Animal(ABC):
            name: ClassVar[str]
            label: ClassVar[str]
            legs: ClassVar[int] = 4

            @abstractmethod
            def speak(self) -> str: ...
    """,
    "zoo/cat.py": """
        from zoo.base import Animal
        from zoo.dog import Dog  # of another file: not this one's

        class Cat(Animal):
            name = "cat"
            label = "Cat"
            def speak(self): return "meow"
    """,
    "zoo/dog/__init__.py": "from zoo.dog.big import Dog",
    "zoo/dog/big.py": """
        from zoo.base import Animal

        class Dog(Animal):
            name = "dog"
            label = "Dog"
            def speak(self): return "woof"
    """,
    "plugins.py": """
        from zoo.base import Animal
        from zoo.cat import Cat

        class Eel(Animal):
            name, label = "eel", "Eel"
            def speak(self): return ""

        class Thief(Cat): pass
    """,
    "broken.py": "import nothing_of_this_name",
}


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """A package of animals and its registry, without entry points."""
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    offer(monkeypatch)
    from zoo.base import Animal

    yield Registry("zoo", Animal, "zoo.animals")
    for name in set(sys.modules) - known:
        if name.split(".")[0] in ("zoo", "plugins", "broken"):
            del sys.modules[name]


def offer(monkeypatch, **points):
    offered = [EntryPoint(name, value, "zoo.animals") for name, value in points.items()]
    monkeypatch.setattr(module, "entry_points", lambda group: [point for point in offered if point.group == group])


def eel():
    from plugins import Eel

    return Eel


def test_a_folder_is_a_registry(zoo):
    assert list(zoo()) == ["cat", "dog"]


def test_what_is_handed_out_is_a_copy(zoo):
    zoo().clear()
    assert list(zoo()) == ["cat", "dog"]


def test_a_registered_class_comes_after_the_folder_s(zoo):
    assert zoo.register(eel()) is eel()
    assert list(zoo()) == ["cat", "dog", "eel"]
    zoo.register(eel())
    assert list(zoo()) == ["cat", "dog", "eel"]


def test_a_class_that_is_defined_again_replaces_its_older_self(zoo):
    zoo.register(eel())
    again = type("Eel", (eel(),), {"__module__": "plugins", "__qualname__": "Eel"})
    assert zoo.register(again) is zoo()["eel"] is again


def test_what_cannot_be_registered_is_refused(zoo):
    from plugins import Thief
    from zoo.base import Animal

    with pytest.raises(UserError, match="<class 'int'> cannot be registered; give a subclass of Animal"):
        zoo.register(int)
    with pytest.raises(UserError, match="3 cannot be registered; give a subclass of Animal"):
        zoo.register(3)
    with pytest.raises(UserError, match="Animal does not define label, name, speak"):
        zoo.register(Animal)
    with pytest.raises(UserError, match=r"'cat' of plugins.Thief is taken by zoo.cat.Cat; choose another name"):
        zoo.register(Thief)
    assert list(zoo()) == ["cat", "dog"]


def test_installed_packages_offer_classes(zoo, monkeypatch):
    offer(monkeypatch, eel="plugins:Eel")
    assert list(zoo()) == ["cat", "dog", "eel"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("broken:Anything", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("plugins:Nobody", "AttributeError"),
        ("plugins:Thief", "UserError: The name 'cat'"),
        ("textwrap:dedent", "UserError: <function dedent .*> cannot be registered"),
    ],
)
def test_a_broken_plug_in_is_left_out_with_a_notice(zoo, monkeypatch, value, why):
    offer(monkeypatch, bad=value, eel="plugins:Eel")
    with pytest.warns(Notice, match=rf"The plug-in 'bad' \({value}\) of zoo.animals is skipped: {why}"):
        assert list(zoo()) == ["cat", "dog", "eel"]
    assert list(zoo()) == ["cat", "dog", "eel"]


def test_an_objective_of_the_user_is_registered_by_a_decorator():
    objectives = Registry("skillscape.objectives", Objective, "skillscape.objectives")

    @objectives.register
    class Mine(DIAYN):
        name = "mine"

    assert objectives()["mine"] is Mine
    assert "sd3" in objectives()


def test_a_named_module_is_loaded_when_the_registry_is_first_used(zoo, monkeypatch):
    monkeypatch.setattr(module, "_later", {})
    module.name_module("zoo.animals", "plugins")
    module.name_module("zoo.animals", "plugins")
    module.name_module("zoo.plants", "broken")
    assert "plugins" not in sys.modules
    # Its own classes, not those it imports.
    assert zoo()["eel"].__module__ == "plugins"
    assert list(zoo()) == ["cat", "dog", "eel"]
