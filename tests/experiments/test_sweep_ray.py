"""A sweep on a real cluster of two nodes that loses a worker process and then a whole node."""

import os
import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from skillscape.errors import Interrupted, UserError
from skillscape.experiments.engine import Resources, execute
from skillscape.experiments.grid import Grid, variant
from skillscape.experiments.processes import ProcessExecutor
from skillscape.experiments.ray import RayExecutor
from skillscape.experiments.results import log_file, results_folder
from skillscape.experiments.worker import bookkeeping, trained_steps

# Ray starts its processes by fork and exec; JAX, if another test has loaded it, warns of forks that go on as they are.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")]
ray = pytest.importorskip("ray")

TESTS = Path(__file__).parents[1]
GRID = Grid(
    name="lost",
    variants=(variant("diayn"), variant("ddpg")),
    envs=("gym/toys:Toy-v0",),
    preset="smoke",
    steps=3000,
    finetuning_steps=3000,
)
RESOURCES = Resources(cpus=1, retries=3)
COMPARED = ("metrics.csv", "evaluation.csv", "results.json", "config.json")


@pytest.fixture
def environment(monkeypatch):
    """What the processes of the cluster and of the workers inherit."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), str(TESTS.parent / "src")]))
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")


@pytest.fixture
def cluster(environment):
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield made
    ray.shutdown()
    made.shutdown()


def holder(runs, folder):
    """The process that holds a run, and its parent."""
    process = int(bookkeeping(runs, "locks", f"{folder}.lock").read_text().split()[0])
    status = Path(f"/proc/{process}/stat").read_text()
    return process, int(status.rpartition(")")[2].split()[1])


class Misfortune:
    """Kills the process of the first run that is half done, then the second node while it has one half done."""

    def __init__(self, runs, planned, cluster, node):
        self.runs, self.planned, self.cluster, self.node = runs, planned, cluster, node
        self.raylet = node.all_processes["raylet"][0].process.pid
        self.lost_process = self.lost_node = None

    def __call__(self, progress):
        for run in self.planned:
            if (self.runs / run.folder / "results.json").exists() or not trained_steps(self.runs, run.folder):
                continue
            try:
                process, parent = holder(self.runs, run.folder)
            except (OSError, IndexError):
                continue
            if self.lost_process is None:
                os.kill(process, signal.SIGKILL)
                self.lost_process = run.folder
            elif self.lost_node is None and parent == self.raylet:
                self.cluster.remove_node(self.node, allow_graceful=False)
                self.lost_node = run.folder


def test_every_run_finishes_once_whatever_is_lost(cluster, tmp_path):
    planned = GRID.specs
    assert [run.config.phase for run in planned] == ["pretrain", "finetune", "train"]
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    disturbed, whole = tmp_path / "disturbed", tmp_path / "whole"
    disturbed.mkdir()
    misfortune = Misfortune(disturbed, planned, cluster, node)
    executor = RayExecutor(RESOURCES, None, cluster.address, disturbed)
    assert executor.load.cores == 2
    report = execute(GRID.name, planned, disturbed, executor, misfortune)
    assert misfortune.lost_process is not None
    assert misfortune.lost_node is not None
    assert report.failures == {}
    assert list(report.results) == [run.folder for run in planned]
    lost = [misfortune.lost_process, misfortune.lost_node]
    for folder in lost:
        lines = log_file(disturbed, GRID.name, folder).read_text().splitlines()
        assert sum(" process " in line for line in lines) == 1 + lost.count(folder)
        assert sum(line.endswith(" finished") for line in lines) == 1
        # It went on from its checkpoint, not from the start.
        assert sum(" 1,000/3,000 steps " in line for line in lines) == 1

    execute(GRID.name, planned, whole, ProcessExecutor(RESOURCES, 2, whole), lambda _: None)
    for run in planned:
        for name in COMPARED:
            assert (disturbed / run.folder / name).read_bytes() == (whole / run.folder / name).read_bytes(), name
    tables = [(results_folder(runs, GRID.name) / "results.csv").read_text() for runs in (disturbed, whole)]
    assert tables[0] == tables[1]
    assert len(tables[0].splitlines()) == 1 + len(planned)


def test_ctrl_c_lets_a_task_save(cluster, tmp_path):
    (run,) = planned = replace(GRID, variants=(variant("ddpg"),), finetuning_steps=100_000).specs

    def interrupt(progress):
        if trained_steps(tmp_path, run.folder):
            raise KeyboardInterrupt

    executor = RayExecutor(RESOURCES, None, cluster.address, tmp_path)
    with pytest.raises(Interrupted):
        execute(GRID.name, planned, tmp_path, executor, interrupt)
    assert log_file(tmp_path, GRID.name, run.folder).read_text().endswith(" stopped and saved\n")
    assert not ray.is_initialized()


def test_a_cluster_that_is_not_there_is_one_sentence(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    for wrong in (address, f"ray://{address}"):
        with pytest.raises(UserError, match=f"Cannot reach the Ray cluster {wrong}: nothing answers there"):
            RayExecutor(Resources(), None, wrong, tmp_path)
    assert not ray.is_initialized()


def test_what_the_cluster_cannot_do_is_said_at_once(cluster, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="has 64 cores and 0 GPUs"):
        RayExecutor(Resources(cpus=64), None, cluster.address, tmp_path)
    monkeypatch.setattr("skillscape.experiments.ray.sees", lambda path, content: False)
    with pytest.raises(UserError, match="does not see"):
        RayExecutor(Resources(), None, cluster.address, tmp_path)
    assert list(tmp_path.iterdir()) == []
