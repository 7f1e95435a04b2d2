"""Which module may import which, and three habits of the source: read from the syntax, nothing is run."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "skillscape"

# Each row may import the rows above it, and itself. Rows that do not exist yet keep their place.
ROWS = (
    "errors",
    "types",
    "nets",
    "vision",
    "dists",
    "optim",
    "stats",
    "skills",
    "envs",
    "replay",
    "objectives",
    "backbones",
    "adaptation",
    "training",
    "evaluation",
    "plots",
    "presets",
    "doctor",
    "api",
    "experiments",
    "sweeps",
    "cli",
    "__main__",
)
# A leaf beside the others: drawing must not cost a start of JAX.
PLOTS_MAY_IMPORT = (
    "errors",
    "envs.layouts",
    "evaluation.aggregate",
    "evaluation.scoreboard",
    "evaluation.scores",
    "evaluation.summary",
    "plots",
)
# `import skillscape` offers the interface, loaded on first use, and makes the environments known to Gymnasium.
PACKAGE_MAY_IMPORT = ("errors", "api", "envs.gym", "evaluation.scoreboard", "training.runs")
# Gymnasium asks its environments to call super().reset(seed=seed).
SUPER_IN = ("envs/gym.py",)

MODULES = {path.relative_to(SOURCE).as_posix(): path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
EVERY_MODULE = pytest.mark.parametrize("path", MODULES)


def imported(path: str, source: str) -> set[str]:
    """Dotted names inside the package that a module imports, anywhere in it: ``envs.layouts``, ``errors``."""
    package = ["skillscape", *Path(path).parent.parts]
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from skillscape import api` imports a module, `from skillscape.api import load` a name of one.
            names |= {f"{module}.{alias.name}" for alias in node.names} if module == "skillscape" else {module}
    return {name.removeprefix("skillscape.") for name in names if name.startswith("skillscape.")}


def row(name: str) -> str:
    """The row of a dotted name or of a path: its first part."""
    return name.replace("/", ".").removesuffix(".py").split(".")[0]


def allowed(path: str, name: str) -> bool:
    """Whether the module at ``path`` may import ``name``."""
    if path == "__init__.py":
        return name in PACKAGE_MAY_IMPORT
    if row(path) == "plots":
        return any(name == prefix or name.startswith(f"{prefix}.") for prefix in PLOTS_MAY_IMPORT)
    if row(name) not in ROWS:
        return name.startswith("__")  # names of the package itself, such as __version__
    return ROWS.index(row(name)) <= ROWS.index(row(path))


def violations(path: str, source: str) -> set[str]:
    return {name for name in imported(path, source) if not allowed(path, name)}


def called(source: str) -> set[str]:
    """Names of the functions that a module calls."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return {call.func.id for call in calls if isinstance(call.func, ast.Name)}


def test_every_module_has_a_row():
    assert {path for path in MODULES if path != "__init__.py" and row(path) not in ROWS} == set()


@EVERY_MODULE
def test_imports_point_upwards(path):
    assert violations(path, MODULES[path]) == set()


@EVERY_MODULE
def test_no_hasattr(path):
    assert "hasattr" not in called(MODULES[path])


@EVERY_MODULE
def test_no_super(path):
    assert ("super" in called(MODULES[path])) == (path in SUPER_IN)


@EVERY_MODULE
def test_only_the_command_line_prints(path):
    assert path.startswith("cli/") or "print" not in called(MODULES[path])


def test_the_check_reads_the_whole_package():
    assert {"nets.py", "objectives/sd3.py", "plots/mazes.py"} <= MODULES.keys()
    assert "nets" in imported("objectives/sd3.py", MODULES["objectives/sd3.py"])


@pytest.mark.parametrize(
    ("path", "source", "found"),
    [
        ("nets.py", "from skillscape.objectives.sd3 import SD3", {"objectives.sd3"}),
        ("nets.py", "import skillscape.skills", {"skills"}),
        ("nets.py", "from skillscape import api", {"api"}),
        ("nets.py", "def late():\n    from skillscape.envs.mazes import Maze", {"envs.mazes"}),
        ("nets.py", "from .skills import Discrete", {"skills"}),
        ("envs/mazes.py", "from ..backbones import ppo", {"backbones"}),
        ("envs/mazes.py", "from .layouts import Layout", set()),
        ("objectives/sd3.py", "from skillscape.nets import MLP", set()),
        ("nets.py", "from skillscape.newcomer import anything", {"newcomer"}),
        ("plots/mazes.py", "from skillscape.evaluation.mazes import measure", {"evaluation.mazes"}),
        ("plots/mazes.py", "from skillscape.types import Spec", {"types"}),
        ("plots/mazes.py", "from skillscape.plots.style import save", set()),
        ("experiments/maze.py", "from skillscape.plots.mazes import Panel", set()),
        ("evaluation/mazes.py", "from skillscape.plots.mazes import Panel", {"plots.mazes"}),
        ("__init__.py", "from skillscape.nets import MLP", {"nets"}),
    ],
)
def test_the_check_finds_violations(path, source, found):
    assert violations(path, source) == found


def test_the_check_sees_calls():
    assert called("class A(B):\n    def f(self):\n        super().f(hasattr(self, 'x'))\n        print(1)") == {
        "super",
        "hasattr",
        "print",
    }


def test_plots_do_not_import_jax():
    modules = [f"skillscape.plots.{path.stem}" for path in (SOURCE / "plots").glob("*.py") if path.stem != "__init__"]
    program = f"import sys, {', '.join(modules)}; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
