"""Specifications: what a file means, and one sentence for every mistake in it."""

from pathlib import Path

import pytest

from skillscape.errors import UserError
from skillscape.experiments.engine import Resources
from skillscape.experiments.grid import Grid, variant
from skillscape.experiments.spec import Sweep, read_sweep

MINIMAL = 'methods = ["sd3"]\nenvs = ["walker"]\n'


def read(folder, text):
    path = folder / "grid.toml"
    path.write_text(text)
    return read_sweep(path)


def test_what_is_not_said_has_a_default(tmp_path):
    assert read(tmp_path, MINIMAL) == Sweep(Grid("grid", (variant("sd3"),), ("walker",)), Resources())


def test_everything_can_be_said(tmp_path):
    text = """
    name = "all"
    methods = ["sd3", "ddpg"]
    envs = ["walker", "gym/Pendulum-v1"]
    tasks = ["walker_run"]
    seeds = [3, 5]
    preset = "paper"
    steps = 1_000_000
    finetuning_steps = 50_000
    backbones = ["ddpg"]
    skills = ["3"]
    snapshots = [100_000]
    noise = 0.1
    copies = 4
    [objective]
    hidden = [[64, 64]]
    width = 64
    [backbone]
    learning_rate = 1e-3
    [evaluation]
    every = 5_000
    [env_kwargs]
    g = 9.81
    [resources]
    cpus = 2
    gpus = 0.5
    retries = 0
    """
    backbone = (("learning_rate", 1e-3),)
    columns = (
        variant(
            "sd3",
            "sd3, hidden (64, 64), width 64, backbone ddpg, learning_rate 0.001, noise 0.1, skill 3, snapshot 100000",
            backbone="ddpg",
            objective=(("hidden", (64, 64)), ("width", 64)),
            settings=backbone,
            noise=0.1,
            skill="3",
            snapshot=100_000,
        ),
        variant("ddpg", "ddpg, learning_rate 0.001", settings=backbone),
    )
    grid = Grid(
        name="all",
        variants=columns,
        envs=("walker", "gym/Pendulum-v1"),
        tasks=("walker_run",),
        seeds=(3, 5),
        preset="paper",
        steps=1_000_000,
        finetuning_steps=50_000,
        evaluation=(("every", 5_000),),
        env_kwargs=(("g", 9.81),),
        copies=4,
    )
    assert read(tmp_path, text) == Sweep(grid, Resources(cpus=2, gpus=0.5, retries=0))


def test_every_combination_is_a_column(tmp_path):
    text = f'{MINIMAL}skills = ["own", "regress"]\nsnapshots = [1, 2]\nnoise = [0, 0.1]\n'
    grid = read(tmp_path, f"{text}[objective]\nexploration_ratio = [0.02, 0.04]\n[backbone]\nwidth = [8, 16]").grid
    assert len(set(grid.variants)) == len({one.label for one in grid.variants}) == 2**5
    assert {one.skill for one in grid.variants} == {None, "regress"}


def test_a_number_of_seeds_counts_from_zero(tmp_path):
    assert read(tmp_path, f"{MINIMAL}seeds = 3").grid.seeds == (0, 1, 2)


def test_all_tasks_and_no_task(tmp_path):
    assert read(tmp_path, f'{MINIMAL}tasks = "all"').grid.tasks is None
    assert read(tmp_path, f"{MINIMAL}tasks = []").grid.tasks == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('methods = ["sd3"]', "envs is missing; add a line such as envs"),
        (f"{MINIMAL}task = 1", "There is no key 'task'; known are name, methods, envs, tasks"),
        (f"{MINIMAL}[resources]\ncores = 1", "no key 'resources.cores'; known are resources.cpus, resources.gpus"),
        ('methods = "sd3"\nenvs = ["walker"]', "methods must be a list of texts with at least one, not 'sd3'"),
        ('methods = []\nenvs = ["walker"]', "methods must be a list of texts"),
        ('methods = ["sd3", "sd3"]\nenvs = ["walker"]', "methods names 'sd3' twice"),
        (f'{MINIMAL}seeds = "ten"', "seeds must be how many seeds"),
        (f"{MINIMAL}seeds = 0", "seeds must be how many seeds"),
        (f"{MINIMAL}seeds = true", "seeds must be how many seeds"),
        (f"{MINIMAL}seeds = [-1]", "not negative"),
        (f"{MINIMAL}steps = 1.5", "steps must be a whole number above zero, not 1.5"),
        (f"{MINIMAL}finetuning_steps = 0", "finetuning_steps must be a whole number above zero"),
        (f"{MINIMAL}preset = 3", "preset must be a text in quotes"),
        (f'{MINIMAL}tasks = "walk"', 'tasks must be "all" or a list of tasks'),
        (f"{MINIMAL}snapshots = 5", "snapshots must be a list of steps above zero"),
        (f"{MINIMAL}noise = -0.1", "noise must be a standard deviation of at least 0"),
        (f"{MINIMAL}noise = nan", "noise must be a standard deviation of at least 0"),
        (f'{MINIMAL}name = "a/b"', "name must be the name of a folder, without slashes"),
        (f"{MINIMAL}objective = 3", r"objective must be a table, written \[objective\]"),
        (f"{MINIMAL}[objective]\nwidth = []", "objective.width must be a value or a list of values to try"),
        (f"{MINIMAL}[objective]\nwidth = [[{{x = 1}}]]", "objective.width must be a value or a list of values to try"),
        (f"{MINIMAL}[backbone.world]\ndeter = []", "backbone.world.deter must be a value or a list of values to try"),
        (f"{MINIMAL}[resources]\ncpus = 0", "resources.cpus must be a whole number above zero"),
        (f"{MINIMAL}[resources]\ngpus = 1.5", "resources.gpus must be a share between 0 and 1 or a whole number"),
        (f"{MINIMAL}[resources]\nretries = -1", "resources.retries must be a whole number of at least 0"),
        ("methods = [", "is not TOML"),
        ('methods = ["sd4"]\nenvs = ["walker"]', "did you mean 'sd3'"),
        (f"{MINIMAL}copies = 0", "copies must be a whole number above zero"),
        (f"{MINIMAL}env_kwargs = 3", r"env_kwargs must be a table, written \[env_kwargs\]"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_file_and_the_key(tmp_path, text, said):
    with pytest.raises(UserError, match=said) as error:
        read(tmp_path, text)
    assert str(error.value).startswith(str(tmp_path / "grid.toml"))
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match=r"Cannot read the sweep .*No such file"):
        read_sweep(tmp_path / "none.toml")
    with pytest.raises(UserError, match="Cannot read the sweep"):
        read_sweep(Path(tmp_path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{MINIMAL}seeds = 1000000000", "seeds must be how many seeds, up to 100,000"),
        (
            f"{MINIMAL}[objective]\nwidth = {list(range(1, 1001))}\nmodule_width = {list(range(1, 1001))}",
            "The grid has more than 100,000 runs",
        ),
        (f"{MINIMAL}x = {'[' * 5_000}{']' * 5_000}", "is nested too deeply"),
        (f"{MINIMAL}x = {'{a = ' * 5_000}1{'}' * 5_000}", "is nested too deeply"),
        (f"{MINIMAL}steps = {'9' * 5_000}", "is not TOML"),
    ],
)
def test_what_would_fill_the_memory_is_one_sentence(tmp_path, text, said):
    with pytest.raises(UserError, match=said):
        read(tmp_path, text)


def test_a_long_list_is_read_at_once(tmp_path):
    assert len(read(tmp_path, f"{MINIMAL}seeds = {list(range(90_000))}").grid.seeds) == 90_000
