"""Carrying out a plan: order, failures, losses, what is told and what is written. The runs are stood in for."""

import csv
import json
import sys
from pathlib import Path

import pytest

from skillscape.cli import execution, main
from skillscape.errors import Interrupted, UserError
from skillscape.experiments import cost, processes
from skillscape.experiments.cost import CostModel, record_rate, shipped_rates, shipped_seconds_per_step
from skillscape.experiments.engine import Executor, Load, Progress, Resources, execute
from skillscape.experiments.grid import Grid, Variant, distinct, variant
from skillscape.experiments.processes import ProcessExecutor, available_cores, slots
from skillscape.experiments.results import results_folder
from skillscape.experiments.worker import Outcome

STUB = Path(__file__).parent / "stub_worker.py"
TASKS = ("walker_run", "walker_walk")


def plan(*methods, envs=("walker",), **changes):
    columns = tuple(method if isinstance(method, Variant) else variant(method) for method in methods)
    return distinct(Grid("grid", columns, tuple(envs), **{"tasks": TASKS, "preset": "smoke", **changes}).specs)


@pytest.fixture(autouse=True)
def _stubbed(monkeypatch):
    monkeypatch.setattr(processes, "COMMAND", (sys.executable, str(STUB)))


class Recorder(Executor):
    """Ends every run at once, in the order in which they were begun; those with a reason fail."""

    def __init__(self, capacity, reasons=None):
        self.capacity, self.reasons = capacity, reasons or {}
        self.under_way, self.began, self.stopped, self.most = [], [], False, 0

    @property
    def load(self):
        return Load(self.capacity - len(self.under_way), len(self.under_way), float(self.capacity))

    def submit(self, spec, log):
        assert spec.folder not in self.began
        self.began.append(spec.folder)
        self.under_way.append(spec)
        self.most = max(self.most, len(self.under_way))

    def wait(self, seconds):
        run = self.under_way.pop(0)
        reason = self.reasons.get(run.folder, "")
        return [(run, Outcome(None if reason else {"measures": {"return": 1.0}}, reason))]

    def stop(self):
        self.stopped = True


def carry_out(planned, runs, executor, told=None):
    return execute("grid", planned, runs, executor, ([] if told is None else told).append)


def workers(runs, number=2, **resources):
    return ProcessExecutor(Resources(**resources), number, runs)


@pytest.mark.parametrize("capacity", [1, 3, 100])
def test_every_run_begins_once_and_after_what_it_needs(tmp_path, capacity):
    executor = Recorder(capacity)
    planned = plan("diayn", "ddpg", seeds=(0, 1))
    report = carry_out(planned, tmp_path, executor)
    assert sorted(executor.began) == sorted(run.folder for run in planned)
    for run in planned:
        if run.needs is not None:
            assert executor.began.index(run.needs) < executor.began.index(run.folder)
    assert executor.most <= capacity
    assert executor.stopped
    assert list(report.results) == [run.folder for run in planned]


def test_a_failure_holds_back_only_what_needs_it(tmp_path):
    planned = plan("diayn", "ddpg", seeds=(0, 1))
    broken = planned[0]
    report = carry_out(planned, tmp_path, Recorder(2, {broken.folder: "it broke"}))
    held_back = {run.folder for run in planned if run.needs == broken.folder}
    assert report.failures == {
        broken.folder: "it broke",
        **dict.fromkeys(held_back, f"needs {broken.folder}, which failed"),
    }
    assert set(report.results) == {run.folder for run in planned} - {broken.folder} - held_back


def test_progress_counts_down(tmp_path):
    told = []
    planned = plan("diayn", "ddpg")
    carry_out(planned, tmp_path, Recorder(1, {planned[1].folder: "it broke"}), told)
    assert (told[0].done, told[0].total) == (0, len(planned))
    assert told[0].seconds_left == pytest.approx(CostModel(tmp_path).total(planned))
    assert (told[-1].done, told[-1].failed, told[-1].running, told[-1].seconds_left) == (len(planned) - 1, 1, 0, 0.0)
    left = [progress.seconds_left for progress in told]
    assert left == sorted(left, reverse=True)
    assert sum("failed: it broke" in progress.event for progress in told) == 1


def test_the_results_are_one_row_per_run(tmp_path):
    planned = plan("diayn", "ddpg")
    failed = planned[-1].folder
    report = carry_out(planned, tmp_path, Recorder(2, {failed: "it broke"}))
    folder = results_folder(tmp_path, "grid")
    table = json.loads((folder / "results.json").read_text())
    assert (table["planned"], table["finished"], table["failed"]) == (5, 4, {failed: "it broke"})
    with (folder / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["folder"] for row in rows] == [row["folder"] for row in table["runs"]] == list(report.results)
    assert rows[1] | {"folder": ""} == {
        "folder": "",
        "label": "diayn",
        "phase": "finetune",
        "method": "diayn",
        "env": "walker",
        "task": planned[1].config.task,
        "seed": "0",
        "preset": "smoke",
        "steps": "2000",
        "noise": "0.0",
        "skill_strategy": "prior",
        "snapshot": "2000",
        "return": "1.0",
    }
    assert not list(folder.glob("*.partial"))


# Processes of this machine


def attempts(runs, run):
    return (runs / run.folder / "attempts").read_text().splitlines()


def test_runs_are_processes_on_cores_of_their_own(tmp_path):
    planned = plan("diayn", seeds=(0, 1))
    report = carry_out(planned, tmp_path, workers(tmp_path, None))
    returns = [report.results[run.folder]["measures"]["return"] for run in planned]
    assert returns == [run.config.seed + 0.5 for run in planned]
    told = {attempts(tmp_path, run)[0] for run in planned}
    # The stub shows where it runs and what it was told: the real worker goes there itself.
    cores = {line.split("] ")[1] + "]" for line in told}
    assert cores <= {f"[{core}]" for core in available_cores()}
    assert all(line.endswith(" 1") for line in told)
    log = results_folder(tmp_path, "grid") / "logs" / f"{planned[0].folder}.log"
    assert log.read_text() == "a library says something\n"


def test_finished_runs_are_not_begun_again(tmp_path):
    planned = plan("diayn")
    carry_out(planned, tmp_path, workers(tmp_path))
    told = []
    report = carry_out(planned, tmp_path, workers(tmp_path), told)
    assert told[0].event == "3 of 3 runs are finished already"
    assert len(report.results) == 3
    assert all(len(attempts(tmp_path, run)) == 1 for run in planned)


def test_a_lost_process_is_started_again(tmp_path):
    planned = plan("rnd")
    report = carry_out(planned, tmp_path, workers(tmp_path))
    assert report.failures == {}
    assert all(len(attempts(tmp_path, run)) == 2 for run in planned)


def test_a_process_that_is_always_lost_is_given_up(tmp_path):
    planned = plan("smm", "diayn")
    report = carry_out(planned, tmp_path, workers(tmp_path, retries=2))
    assert report.failures[planned[0].folder] == "its process was lost 3 times, the last time killed by signal 9"
    assert len(attempts(tmp_path, planned[0])) == 3
    assert len(report.results) == 3


def test_ctrl_c_lets_every_run_save(tmp_path):
    planned = plan("apt", "diayn")
    slow = next(run for run in planned if run.label == "apt" and run.needs is None)
    quick = [run for run in planned if run.label == "diayn"]

    def interrupt(progress):
        if (tmp_path / slow.folder / "ready").exists() and progress.done == len(quick):
            raise KeyboardInterrupt

    executor = workers(tmp_path)
    with pytest.raises(Interrupted):
        execute("grid", planned, tmp_path, executor, interrupt)
    assert (tmp_path / slow.folder / "saved").exists()
    assert executor.processes == []
    table = json.loads((results_folder(tmp_path, "grid") / "results.json").read_text())
    assert [row["folder"] for row in table["runs"]] == [run.folder for run in quick]


def test_slots_share_out_the_cores(monkeypatch):
    monkeypatch.setattr(processes, "available_cores", lambda: [2, 3, 5, 7])
    assert slots(None, 1) == [(2,), (3,), (5,), (7,)]
    assert slots(None, 2) == [(2, 3), (5, 7)]
    assert slots(None, 3) == [(2, 3, 5)]
    assert slots(None, 8) == [(2, 3, 5, 7)]
    assert slots(3, 2) == [(2, 3), (5, 7), (2, 3)]
    with pytest.raises(UserError, match="--workers must be at least 1"):
        ProcessExecutor(Resources(), 0, Path("runs"))


# Estimates


def test_shipped_rates_cover_every_preset_and_method():
    rates = shipped_rates()
    assert rates["how"]
    assert rates["machine"]
    for preset in ("smoke", "compact", "paper"):
        for run in plan("sd3", "icm", "ddpg", "sac", envs=("walker", "quadruped", "jaco"), tasks=None, preset=preset):
            assert shipped_seconds_per_step(run) > 0
    for run in plan("sd3", "ppo", "ddpg", envs=("maze/square_a",), tasks=None, preset="default"):
        assert shipped_seconds_per_step(run) > 0
    for preset in ("smoke", "laptop", "paper"):
        envs = ("walker-pixels", "quadruped-pixels", "maze-pixels/square_a")
        for run in plan("sd3", "icm", "dreamer", envs=envs, tasks=None, preset=preset):
            assert shipped_seconds_per_step(run) > 0


def test_from_images_a_step_takes_longer_than_from_states():
    seen = plan("sd3", envs=("walker-pixels",), preset="paper")[0]
    felt = plan("sd3", preset="paper")[0]
    assert shipped_seconds_per_step(seen) > shipped_seconds_per_step(felt)


def test_a_larger_preset_takes_longer():
    small, large = (plan("sd3", preset=preset)[0] for preset in ("compact", "paper"))
    assert shipped_seconds_per_step(large) > 10 * shipped_seconds_per_step(small)


def test_a_method_that_was_not_measured_goes_by_its_ratio(monkeypatch):
    tables = {"compact": {"ddpg": 2.0, "icm": 3.0, "sd3": 8.0}, "paper": {"ddpg": 100.0, "sd3": 900.0}}
    rates = {"learning_core_milliseconds": {"ddpg": tables}, "acting_core_milliseconds": {"walker": 0.0}}
    rates["steps_per_episode"] = {"walker": 1000}
    monkeypatch.setattr(cost, "shipped_rates", lambda: rates)
    runs = plan("icm", "sd3", "rnd", tasks=(), preset="paper")
    # A learning step comes every second step; what nobody measured is taken for the slowest.
    assert [1e3 * shipped_seconds_per_step(run) for run in runs] == pytest.approx([75.0, 450.0, 450.0])


def test_what_was_measured_here_goes_before_what_was_shipped(tmp_path):
    runs = plan("diayn", seeds=(0, 1))
    source, tuned = runs[0], runs[1]
    before = CostModel(tmp_path)
    record_rate(source, tmp_path, 1000, 5.0)
    record_rate(runs[3], tmp_path, 3000, 7.0)
    (tmp_path / "sweeps" / "paces" / "damaged.json").write_text("{")
    before.learn_from(source)
    assert before.core_seconds(source) == pytest.approx(source.config.steps * 5.0 / 1000)
    after = CostModel(tmp_path)
    assert after.core_seconds(source) == pytest.approx(source.config.steps * 12.0 / 4000)
    assert after.core_seconds(source, 10) == pytest.approx(10 * 12.0 / 4000)
    assert after.core_seconds(tuned) == before.core_seconds(tuned)


def test_a_controller_is_slower_and_does_not_spoil_the_pace_of_others(tmp_path):
    runs = plan("sd3", variant("sd3", skill="controller"))
    own = next(run for run in runs if run.config.skill == "random")
    controlled = next(run for run in runs if run.config.skill == "controller")
    assert shipped_seconds_per_step(controlled) > 2 * shipped_seconds_per_step(own)
    record_rate(own, tmp_path, 1000, 5.0)
    record_rate(controlled, tmp_path, 1000, 30.0)
    after = CostModel(tmp_path)
    assert [after.core_seconds(run, 1000) for run in (own, controlled)] == pytest.approx([5.0, 30.0])


@pytest.mark.parametrize("text", ["{", "[]", "{}", "[" * 100_000])
def test_a_run_with_damaged_results_holds_back_only_what_needs_it(tmp_path, text):
    planned = plan("diayn", "ddpg")
    broken = planned[0]
    (tmp_path / broken.folder).mkdir(parents=True)
    (tmp_path / broken.folder / "results.json").write_text(text)
    report = carry_out(planned, tmp_path, Recorder(2))
    assert "results.json is damaged: " in report.failures[broken.folder]
    assert "; delete it " in report.failures[broken.folder]
    assert set(report.results) == {run.folder for run in planned if broken.folder not in (run.folder, run.needs)}
    assert report.results


# The command


def test_a_damaged_run_is_named_by_a_dry_run_which_counts_the_others(tmp_path, capsys):
    folder = tmp_path / "runs" / "urlb-smoke-2000" / "diayn-walker" / "seed_0"
    folder.mkdir(parents=True)
    (folder / "results.json").write_text("{")
    with pytest.raises(SystemExit) as stop:
        main(["sweep", write(tmp_path, ["diayn"], "seeds = 2"), "--runs", str(tmp_path / "runs"), "--dry-run"])
    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert printed.out.startswith("grid: 4 runs")
    assert "core minutes in all" in printed.out
    assert f"{folder}/results.json is damaged" in printed.err


def write(folder, methods, more=""):
    path = folder / "grid.toml"
    path.write_text(
        f'methods = {json.dumps(methods)}\nenvs = ["walker"]\npreset = "smoke"\ntasks = ["walker_run"]\n{more}'
    )
    return str(path)


def test_the_command_trains_and_says_where_the_results_are(tmp_path, capsys):
    runs = tmp_path / "runs"
    main(["sweep", write(tmp_path, ["diayn", "ddpg"]), "--runs", str(runs), "--workers", "2"])
    printed = capsys.readouterr()
    folder = runs / "sweeps" / "grid"
    assert printed.out.splitlines() == ["3 of 3 runs are finished.", f"{folder}/results.json", f"{folder}/results.csv"]
    assert "3 of 3 runs done · 0 running · 0 left" in printed.err


def test_failed_runs_are_told_at_the_end_with_their_logs(tmp_path, capsys):
    runs = tmp_path / "runs"
    with pytest.raises(SystemExit) as stop:
        main(["sweep", write(tmp_path, ["icm", "diayn"]), "--runs", str(runs)])
    assert stop.value.code == 2
    printed = capsys.readouterr()
    assert printed.out.startswith("2 of 4 runs are finished.")
    broken, held_back, last = printed.err.splitlines()[-3:]
    name = "urlb-smoke-2000/icm-walker/seed_0"
    log = runs / "sweeps" / "grid" / "logs" / f"{name}.log"
    assert broken == f"{name} failed: the environment broke; see {log}"
    assert log.exists()
    assert f"failed: needs {name}, which failed" in held_back
    assert last.startswith("skillscape: 2 of 4 runs failed; fix the errors above")


def test_a_dry_run_counts_and_touches_nothing(tmp_path, capsys):
    path = Path(__file__).parents[2] / "sweeps" / "paper-urlb.toml"
    main(["sweep", str(path), "--dry-run", "--runs", str(tmp_path / "runs")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "paper-urlb: 2,070 runs = 390 pre-trainings + 1,560 fine-tunings + 120 from scratch; 0 are"
    )
    assert len(lines) < 60
    assert sum("10 pre-trainings → 40 fine-tunings" in line for line in lines) == 39
    assert any("core hours in all" in line for line in lines)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.toml"], "Cannot read the sweep none.toml"),
        (["SPEC", "--address", "auto"], "--address needs --on ray"),
        (["SPEC", "--workers", "0"], "--workers must be at least 1"),
        (["SPEC", "--runs", "/dev/null/runs"], "choose other --runs"),
    ],
)
def test_mistakes_are_one_line(tmp_path, capsys, arguments, said):
    path = write(tmp_path, ["diayn"])
    with pytest.raises(SystemExit) as stop:
        main(["sweep", *(path if argument == "SPEC" else argument for argument in arguments)])
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_what_the_grid_gets_wrong_names_the_file(tmp_path, capsys):
    path = write(tmp_path, ["diayn"], "[objective]\nregularity = 1.0\n")
    with pytest.raises(SystemExit):
        main(["sweep", path, "--dry-run"])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"skillscape: {path}: objective.regularity is not a setting of DIAYN; known are ")


def test_ray_that_is_not_installed_is_said_in_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SystemExit) as stop:
        main(["sweep", write(tmp_path, ["diayn"]), "--on", "ray", "--runs", str(tmp_path / "runs")])
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith('run `pip install "skillscape[ray]"`, or use --on local.')


def test_a_sweep_without_a_terminal_says_now_and_then_how_it_stands(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(execution.time, "monotonic", lambda: now[0])
    lines = execution.ProgressLine("grid")
    standing = Progress(done=1, failed=0, running=2, total=5, seconds_left=600.0, event="")
    for second in range(0, 2 * int(execution.PROGRESS_INTERVAL) + 10, 10):
        now[0] = float(second)
        lines.show(standing)
    told = capsys.readouterr().err.splitlines()
    assert told == ["grid: 1 of 5 runs done · 2 running · 4 left · about 10 min left"]
    lines.show(standing._replace(event="a run is finished"))
    assert capsys.readouterr().err.startswith("a run is finished (grid: 1 of 5")
