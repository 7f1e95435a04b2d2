"""Which module may import which, and some habits of the source: read from the syntax, nothing is run."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "skillscape"

# Each row may import the rows above it, and itself.
ROWS = (
    "errors",
    "formatting",
    "zoo",
    "types",
    "ranges",
    "registry",
    "nets",
    "conv",
    "dists",
    "optim",
    "stats",
    "skills",
    "envs",
    "replay",
    "objectives",
    "backbones",
    "skill_selection",
    "config_io",
    "config",
    "presets",
    "training",
    "skill_env",
    "skill_control",
    "configure",
    "export",
    "evaluation",
    "launch",
    "functional",
    "options",
    "api",
    "plugins",
    "plots",
    "reporting",
    "experiments",
    "doctor",
    "cli",
    "__main__",
)
# A leaf beside the others: drawing must not cost a start of JAX.
PLOTS_MAY_IMPORT = (
    "errors",
    "envs.mazes.layouts",
    "evaluation.aggregate",
    "evaluation.scoreboard",
    "evaluation.scores",
    "evaluation.summary",
    "plots",
)
# `import skillscape` names the interface for type checkers, loads it on first use, makes mazes known to Gymnasium, and
# names the family of environments that is above the others.
PACKAGE_MAY_IMPORT = ("envs.gymnasium_export", "registry")
# Gymnasium asks its environments to call super().reset(seed=seed).
SUPER_IN = ("envs/gymnasium_export.py",)
MAY_TELL_FAMILIES = ("envs/",)
"""Where the name of an environment may be taken apart: everything else asks its family."""
MAY_WRITE_TO_THE_TERMINAL = ("cli/", "training/progress.py")
MOST_LINES, MOST_LINES_OF_THE_API = 400, 200

MODULES = {path.relative_to(SOURCE).as_posix(): path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
EVERY_MODULE = pytest.mark.parametrize("path", MODULES)


@cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


def imported(path: str, source: str) -> set[str]:
    """Dotted names inside the package that a module imports, anywhere in it: ``envs.mazes.layouts``, ``errors``."""
    package = ["skillscape", *Path(path).parent.parts]
    names = set()
    tree = parsed(source)
    if path == "__init__.py":
        body = [node for node in tree.body if not (isinstance(node, ast.If) and for_type_checkers(node))]
        tree = ast.Module(body, [])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from skillscape import api` imports a module, `from skillscape.api import load` a name of one.
            names |= {f"{module}.{alias.name}" for alias in node.names} if module == "skillscape" else {module}
    return {name.removeprefix("skillscape.") for name in names if name.startswith("skillscape.")}


def for_type_checkers(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


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
    calls = (node for node in ast.walk(parsed(source)) if isinstance(node, ast.Call))
    return {call.func.id for call in calls if isinstance(call.func, ast.Name)}


def kinds_asked_for(source: str) -> list[str]:
    """Every ``isinstance`` of a run or of its configuration: there is one kind of each."""
    found = []
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            asked = node.args[0]
            name = asked.id if isinstance(asked, ast.Name) else asked.attr if isinstance(asked, ast.Attribute) else ""
            if name.strip("_") in ("run", "config"):
                found.append(ast.unparse(node))
    return found


PREFIXES = ("maze/", "gym/", "-pixels")
TAKING_APART = {
    *("startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "rsplit"),
    *("find", "index", "count", "match", "fullmatch", "search"),
}


def families_told(source: str) -> list[str]:
    """Every comparison, or other look at a text, that tells a family of environments by its name."""
    found = []
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Compare):
            # A benchmark is what a family says of a name, and no name itself.
            told = isinstance(node.left, ast.Attribute) and node.left.attr == "benchmark"
            looked_for = [] if told else [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TAKING_APART:
            looked_for = node.args
        elif isinstance(node, ast.MatchValue):
            looked_for = [node.value]
        else:
            continue
        texts = [
            part.value
            for each in looked_for
            for part in ast.walk(each)
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
        ]
        if any(prefix in text for text in texts for prefix in PREFIXES):
            found.append(ast.unparse(node))
    return found


def terminal(source: str) -> list[str]:
    """Every use of ``print``, ``input`` or a standard stream."""
    found = []
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "input"):
            found.append(ast.unparse(node.func))
        elif isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr", "__stdout__", "__stderr__"):
            if isinstance(node.value, ast.Name) and node.value.id == "sys":
                found.append(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom) and node.module == "sys":
            found += [alias.name for alias in node.names if alias.name in ("stdout", "stderr")]
    return found


def imported_at_the_top(source: str) -> set[str]:
    """What a module imports when it is itself imported."""
    tree = parsed(source)
    top = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
    return {name.partition(".")[0] for name in _names(top)}


def _names(tree: ast.Module) -> set[str]:
    names = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module)
    return names


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
def test_only_the_command_line_and_progress_write_to_the_terminal(path):
    assert path.startswith(MAY_WRITE_TO_THE_TERMINAL) or terminal(MODULES[path]) == []


@EVERY_MODULE
def test_no_kind_of_run_is_asked_for(path):
    assert kinds_asked_for(MODULES[path]) == []


@EVERY_MODULE
def test_families_are_told_apart_by_the_registry_alone(path):
    assert path.startswith(MAY_TELL_FAMILIES) or families_told(MODULES[path]) == []


@EVERY_MODULE
def test_no_file_is_too_long_to_be_read_at_once(path):
    assert len(MODULES[path].splitlines()) <= (MOST_LINES_OF_THE_API if path == "api.py" else MOST_LINES)


@EVERY_MODULE
def test_the_command_line_starts_without_jax(path):
    if path.startswith("cli/"):
        assert imported_at_the_top(MODULES[path]) & {"jax", "numpy", "equinox", "optax", "matplotlib"} == set()


def test_the_check_reads_the_whole_package():
    assert {"nets.py", "objectives/sd3.py", "plots/mazes.py"} <= MODULES.keys()
    assert "nets" in imported("objectives/sd3.py", MODULES["objectives/sd3.py"])


@pytest.mark.parametrize(
    ("path", "source", "found"),
    [
        ("nets.py", "from skillscape.objectives.sd3 import SD3", {"objectives.sd3"}),
        ("nets.py", "import skillscape.skills", {"skills"}),
        ("nets.py", "from skillscape import api", {"api"}),
        ("nets.py", "def late():\n    from skillscape.envs.mazes.maze import Maze", {"envs.mazes.maze"}),
        ("nets.py", "from .skills import Discrete", {"skills"}),
        ("envs/noise.py", "from ..backbones import ppo", {"backbones"}),
        ("envs/mazes/maze.py", "from .layouts import Layout", set()),
        ("objectives/sd3.py", "from skillscape.nets import MLP", set()),
        ("nets.py", "from skillscape.newcomer import anything", {"newcomer"}),
        ("plots/mazes.py", "from skillscape.evaluation.mazes import measure", {"evaluation.mazes"}),
        ("plots/mazes.py", "from skillscape.types import Spec", {"types"}),
        ("plots/mazes.py", "from skillscape.plots.style import save", set()),
        ("experiments/maze.py", "from skillscape.plots.mazes import Panel", set()),
        ("evaluation/mazes.py", "from skillscape.plots.mazes import Panel", {"plots.mazes"}),
        ("reporting/html.py", "from skillscape.experiments.urlb import Score", {"experiments.urlb"}),
        ("config.py", "from skillscape.training.run import Run", {"training.run"}),
        ("training/run.py", "from skillscape.configure import pretraining", {"configure"}),
        ("evaluation/returns.py", "from skillscape.launch import launch", {"launch"}),
        ("doctor.py", "from skillscape.cli import main", {"cli"}),
        ("__init__.py", "from skillscape.nets import MLP", {"nets"}),
        ("__init__.py", "if TYPE_CHECKING:\n    from skillscape.nets import MLP", set()),
        ("nets.py", "if TYPE_CHECKING:\n    from skillscape.api import load", {"api"}),
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


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("isinstance(run, Run)", ["isinstance(run, Run)"]),
        ("isinstance(self._run, (A, B))", ["isinstance(self._run, (A, B))"]),
        ("isinstance(run.config, Job)", ["isinstance(run.config, Job)"]),
        ("isinstance(source, Run)", []),
        ("isinstance(env, JaxEnv)", []),
    ],
)
def test_the_check_sees_kinds_of_runs(source, found):
    assert kinds_asked_for(source) == found


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ("env.startswith('maze/')", 1),
        ("env.startswith(('walker', 'gym/'))", 1),
        ("env.removeprefix('gym/')", 1),
        ("env.endswith('-pixels')", 1),
        ("'-pixels' in env", 1),
        ("env == 'maze/square_a'", 1),
        ("env in {'maze/square_a', 'walker'}", 1),
        ("re.fullmatch('maze/(.*)', env)", 1),
        ("match env:\n    case 'maze/square_a':\n        pass", 1),
        ("env = 'maze/square_a'", 0),
        ("scale.benchmark == 'maze-pixels'", 0),
        ("make('gym/Pendulum-v1')", 0),
        ("env.startswith(prefix)", 0),
    ],
)
def test_the_check_sees_families(source, number):
    assert len(families_told(source)) == number


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ("print(1)", 1),
        ("sys.stderr.write('x')", 1),
        ("sys.stdout.flush()", 1),
        ("from sys import stderr", 1),
        ("input()", 1),
        ("sys.path.append('x')", 0),
        ("run.stdout", 0),
    ],
)
def test_the_check_sees_the_terminal(source, number):
    assert len(terminal(source)) == number


def test_plots_do_not_import_jax():
    modules = [f"skillscape.plots.{path.stem}" for path in (SOURCE / "plots").glob("*.py") if path.stem != "__init__"]
    program = f"import sys, {', '.join(modules)}; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
