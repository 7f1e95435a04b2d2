"""Every family of environments through everything that a run can go through: nothing is for one family alone."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import skillscape
from skillscape.cli import main

SMALL_DREAMER = {
    "replay": {"warmup_steps": 110, "task_warmup_steps": 110, "batch_size": 2, "sequence_length": 4},
    "behaviour": {"imagined_starts": 4},
}
SMALL_DDPG = {"warmup_steps": 110, "batch_size": 16, "width": 8}
SMALL_SAC = {"warmup_steps": 210, "batch_size": 16}
FAMILIES = {
    "maze": ("maze/square_a", "reach", 2_000, {}, {"number_of_skills": 3}),
    "maze-pixels": ("maze-pixels/square_a", "reach", 200, SMALL_DREAMER, {"number_of_skills": 3}),
    "urlb": ("walker", "walker_walk", 1_050, SMALL_DDPG, {"number_of_skills": 2}),
    "urlb-pixels": ("walker-pixels", "walker_walk", 550, SMALL_DREAMER, {"number_of_skills": 2}),
    "ant": ("ant", "ant_multi_goals", 450, SMALL_SAC, {"number_of_skills": 2}),
    "half_cheetah": ("half_cheetah", "half_cheetah_hurdle", 450, SMALL_SAC, {"number_of_skills": 2}),
    "gym": ("gym/Reacher-v5", None, 450, SMALL_DDPG, {"number_of_skills": 3}),
}
"""Environment, task, steps that are enough to learn something, settings of backbone and objective."""
LOCATED = ("urlb", "urlb-pixels", "ant", "half_cheetah")
"""Families outside mazes that tell the position of the body."""
STRATEGIES = ("prior", "random", "1", "regress", "grid", "controller")


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def trained(family, tmp_path_factory):
    """A finished pre-training of each family."""
    return _pretrained(family, tmp_path_factory.mktemp(family) / "pretrained")


def _pretrained(family, out, **settings):
    env, _, steps, backbone, objective = FAMILIES[family]
    return skillscape.pretrain(
        "diayn",
        env,
        out=out,
        preset="smoke",
        steps=steps,
        backbone=backbone,
        objective=objective,
        evaluation={"every": max(steps // 2, 1), "episodes": 4},
        finetuning_steps=_task_steps(family),
        progress=False,
        **settings,
    )


def _task_steps(family):
    return {"maze": 1_200, "urlb": 1_050, "urlb-pixels": 550}.get(family, 450)


def test_a_pretraining_ends_with_results_and_skills(family, trained):
    assert trained.results["steps"] == trained.end
    assert trained.results["phase"] == "pretrain"
    assert (trained.folder / "skills").is_dir()
    assert trained.metrics()["step"]
    log = trained.evaluation()
    assert log["step"][0] == 0
    assert ("total_coverage" in log) == (family in LOCATED)
    assert 0 <= min(log["model_accuracy"]) <= max(log["model_accuracy"]) <= 1
    assert max(log["model_information"]) <= np.log(trained.config.objective.skills.count)
    assert family not in LOCATED or log["total_coverage"][-1] >= log["queue_coverage"][-1] > 0


def test_resuming_a_finished_run_changes_nothing(family, trained):
    before = trained.results
    again = _pretrained(family, trained.folder, resume=True)
    assert again.results == before


def test_a_run_that_was_stopped_goes_on_to_the_same_numbers(family, trained, tmp_path):
    class Stop(skillscape.Callback):
        def on_log(self, run, log, step, row):
            if log == "evaluation" and step > 0:
                raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, Exception)):
        _pretrained(family, tmp_path / "run", callbacks=[Stop()])
    again = _pretrained(family, tmp_path / "run", resume=True)
    assert again.results["measures"] == trained.results["measures"]
    assert again.metrics() == trained.metrics()


def test_it_loads(trained):
    loaded = skillscape.load(trained.folder)
    assert loaded.config == trained.config


def test_a_policy_acts_in_a_gymnasium_loop(family, trained, tmp_path):
    shutil.copytree(trained.folder / "skills", tmp_path / "alone")
    policy = skillscape.Policy.load(tmp_path / "alone", skill=1)
    env = skillscape.make(FAMILIES[family][0])
    obs, _ = env.reset(seed=0)
    policy.reset()
    for step in range(5):
        action = policy(obs)
        assert env.action_space.contains(action)
        obs, reward, *_ = env.step(action)
        if step == 2:
            policy.switch(0)
    assert np.isfinite(reward)
    batch = policy(np.stack([obs, obs, obs]))
    assert batch.shape == (3, *action.shape)
    env.close()


def test_it_is_evaluated(trained, capsys):
    measures = skillscape.evaluate(trained, episodes=2).measures
    assert measures["skill_accuracy"] is not None
    assert measures["model_information"] is not None
    main(["evaluate", str(trained.folder), "--episodes", "2", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["measures"]["skill_accuracy"]["mean"] == pytest.approx(measures["skill_accuracy"])
    main(["evaluate", str(trained.folder), "--episodes", "2"])
    assert "diayn in" in capsys.readouterr().out


def test_it_is_measured_by_a_task(family, trained):
    task = FAMILIES[family][1]
    found = skillscape.evaluate(trained, task=task or FAMILIES[family][0], episodes=1)
    assert len(found.returns) == trained.config.objective.skills.count


def test_it_is_plotted(family, trained, tmp_path, capsys):
    main(["plot", str(trained.folder), "--out", str(tmp_path)])
    names = {path.rpartition("/")[2] for path in capsys.readouterr().out.split()}
    assert {"evaluation.png", "metrics.png"} <= names
    assert ("trajectories.png" in names) == (trained.layout is not None)
    assert ("paths.png" in names) == (family in LOCATED)


def test_it_is_filmed(trained, tmp_path, capsys):
    main(["video", str(trained.folder), "--skill", "1", "--steps", "3", "--out", str(tmp_path)])
    assert {path.suffix for path in tmp_path.iterdir()} == {".mp4", ".png"}


@pytest.fixture(scope="module")
def finetuned(family, trained, tmp_path_factory):
    out = tmp_path_factory.mktemp("finetuned")
    return {rule: _finetuned(family, trained, out / f"diayn-{rule}", rule) for rule in STRATEGIES}


def _finetuned(family, trained, out, rule):
    return skillscape.finetune(trained, FAMILIES[family][1], skill=rule, out=out, progress=False)


@pytest.mark.parametrize("rule", STRATEGIES)
def test_it_is_fine_tuned_with_every_strategy(family, finetuned, rule):
    run = finetuned[rule]
    assert run.results["phase"] == "finetune"
    assert run.results["task"] == (FAMILIES[family][1] or FAMILIES[family][0])
    assert np.isfinite(run.results["measures"]["return"])
    assert (run.kept_skill() is None) == (rule == "prior")
    obs = np.zeros(run.spec.obs_shape, np.uint8 if run.spec.is_image else np.float32)
    assert run.policy()(obs).shape == (run.spec.action_dim,)


@pytest.fixture(scope="module")
def scratch(family, tmp_path_factory):
    env, task, _, backbone, _ = FAMILIES[family]
    return skillscape.train(
        env,
        task,
        out=tmp_path_factory.mktemp("scratch") / "scratch",
        preset="smoke",
        steps=_task_steps(family),
        backbone=backbone,
        evaluation={"every": max(FAMILIES[family][2] // 2, 1), "episodes": 4},
        progress=False,
    )


def test_it_is_trained_from_scratch(scratch):
    assert scratch.results["phase"] == "train"
    assert scratch.results["method"] == scratch.config.backbone.name


def test_a_report_shows_all_of_it(family, trained, finetuned, scratch, tmp_path, capsys):
    folders = [str(run.folder) for run in (trained, finetuned["random"], scratch)]
    main(["report", *folders, "--out", str(tmp_path / "report")])
    rows = (tmp_path / "report" / "scores.csv").read_text()
    assert scratch.config.backbone.label in rows
    assert "DIAYN" in rows
    assert ("coverage" in rows) == (trained.layout is not None or family in LOCATED)


def _toml(table, prefix=""):
    """The lines of a table, those of groups inside it by names with dots."""
    return "".join(
        _toml(value, f"{prefix}{key}.") if isinstance(value, dict) else f"{prefix}{key} = {value}\n"
        for key, value in table.items()
    )


def test_a_sweep_trains_it(family, tmp_path):
    env, task, steps, backbone, objective = FAMILIES[family]
    spec = tmp_path / "tiny.toml"
    tables = {"objective": objective, "backbone": backbone, "evaluation": {"every": steps, "episodes": 2}}
    lines = [f"[{name}]\n{_toml(table)}" for name, table in tables.items()]
    spec.write_text(
        f'methods = ["diayn"]\nenvs = ["{env}"]\ntasks = {json.dumps([task or env])}\npreset = "smoke"\n'
        f"steps = {steps}\nfinetuning_steps = {_task_steps(family)}\n" + "".join(lines)
    )
    command = [
        sys.executable,
        "-m",
        "skillscape",
        "sweep",
        str(spec),
        "--workers",
        "1",
        "--runs",
        str(tmp_path / "runs"),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert "2 of 2 runs are finished" in done.stdout, done.stderr
