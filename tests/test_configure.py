"""What a run is trained with: presets, overrides, backbones, what a run that goes on keeps. Nothing is trained here."""

import json
import shutil
from dataclasses import replace

import pytest
import toys  # noqa: F401  makes gym/toys:… known
from laid_out import configuration, lay_out_only

import skillscape
from skillscape import presets
from skillscape.api import finetune, load_seeds, pretrain, train
from skillscape.backbones.ddpg import DDPG
from skillscape.backbones.ppo import PPO
from skillscape.config_io import overridden
from skillscape.configure import existing_config, finetuning, from_scratch, of_seeds, pretraining
from skillscape.errors import UserError
from skillscape.objectives.diayn import DIAYN
from skillscape.objectives.sd3 import SD3

ENV = "gym/toys:Long-v0"
MAZE = "maze/square_a"


@pytest.fixture(autouse=True)
def _untrained(monkeypatch):
    lay_out_only(monkeypatch)


def objective_of(run):
    return run.config.to_json()["objective"]


# Presets and overrides


@pytest.mark.parametrize("env", [MAZE, ENV])
def test_overrides_change_the_preset_and_nothing_else(tmp_path, env):
    plain = pretrain("sd3", env, out=tmp_path / "plain", preset="smoke")
    run = pretrain(
        "sd3",
        env,
        out=tmp_path / "run",
        preset="smoke",
        objective={"number_of_skills": 5},
        backbone={"learning_rate": 1e-3},
        evaluation={"episodes": 7},
    )
    assert objective_of(run) == {**objective_of(plain), "number_of_skills": 5}
    assert run.config.to_json()["backbone"] == {**plain.config.to_json()["backbone"], "learning_rate": 1e-3}
    assert run.config.evaluation == replace(plain.config.evaluation, episodes=7)


def test_a_whole_objective_or_backbone_is_taken_as_it_is(tmp_path):
    run = pretrain(SD3(number_of_skills=5), ENV, out=tmp_path / "run", preset="smoke", backbone=DDPG(width=8))
    assert run.config.objective == SD3(number_of_skills=5)
    assert run.config.backbone == DDPG(width=8)
    maze = pretrain(DIAYN(number_of_skills=3), MAZE, out=tmp_path / "maze", backbone=PPO(episodes=5))
    assert (maze.config.objective, maze.config.backbone) == (DIAYN(number_of_skills=3), PPO(episodes=5))


def test_a_whole_objective_can_stand_beside_its_name_and_no_other(tmp_path):
    asked = DIAYN(number_of_skills=3)
    assert pretraining("diayn", "walker", objective=asked).objective == asked
    with pytest.raises(UserError, match="method is 'dads' but objective is 'diayn'"):
        pretraining("dads", "walker", objective=asked)


def test_settings_of_a_run_are_those_that_were_asked_for(tmp_path):
    run = pretrain(
        "diayn",
        ENV,
        out=tmp_path / "run",
        preset="smoke",
        steps=1700,
        seed=7,
        noise=0.5,
        copies=2,
        snapshots=(300, 900),
        finetuning_steps=600,
        evaluation={"every": 50},
    )
    config = run.config
    assert (config.steps, config.seed, config.noise, config.copies) == (1700, 7, 0.5, 2)
    assert (config.snapshots, config.finetuning_steps, config.evaluation.every) == ((300, 900), 600, 50)


def test_a_setting_that_there_is_not_is_an_error_of_python(tmp_path):
    with pytest.raises(TypeError, match="'stepz' is not a setting of a run"):
        pretrain("diayn", ENV, out=tmp_path / "run", stepz=5)


def test_training_from_scratch_takes_overrides(tmp_path):
    run = train(ENV, out=tmp_path / "run", preset="smoke", backbone={"width": 24})
    assert (run.config.backbone.width, run.config.backbone.batch_size) == (24, 32)


def test_fine_tuning_takes_overrides(source, tmp_path):
    run = finetune(
        source, out=tmp_path / "tuned", backbone={"batch_size": 8}, evaluation={"episodes": 3}, steps=1100, seed=9
    )
    config = run.config
    assert (config.backbone.batch_size, config.evaluation.episodes, config.steps, config.seed) == (8, 3, 1100, 9)
    assert config.evaluation.every == 1000


@pytest.mark.parametrize("env", [MAZE, ENV])
@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"objective": {"number_of_skils": 5}}, "did you mean 'number_of_skills'"),
        ({"objective": {"number_of_skills": "5"}}, "SD3.number_of_skills cannot be '5'"),
        ({"objective": 5}, "objective cannot be 5; give settings by name"),
        ({"objective": DIAYN()}, "method is 'sd3' but objective is 'diayn'"),
        ({"backbone": {"learning_rates": 1.0}}, "backbone.learning_rates is not a setting of"),
        ({"backbone": {"learning_rate": -1.0}}, "--backbone.learning-rate must be above zero"),
        ({"objective": {"number_of_skills": 0}}, "must be above zero"),
        ({"evaluation": {"often": 5}}, "evaluation.often is not a setting of EvaluationConfig"),
        ({"evaluation": {"episodes": 0}}, "--evaluation.episodes must be between 1 and 10,000"),
        ({"preset": "smok"}, "did you mean 'smoke'"),
        ({"backbone": "dpg"}, "There is no backbone 'dpg': did you mean 'ddpg'"),
        ({"steps": 0}, "--steps must be above zero"),
        ({"seed": -1}, "--seed must be between"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"workers": 0}, "--workers must be at least 1"),
        ({"noise": -1.0}, "--env.noise must be zero or more"),
        ({"copies": 0}, "--env.copies must be between 1 and 256"),
        ({"env_kwargs": {"ends": object()}}, "--env.kwargs is stored as JSON"),
        ({"resume": True, "force": True}, "exclude each other"),
    ],
)
def test_what_does_not_fit_is_one_sentence_and_leaves_no_folder(tmp_path, env, given, answer):
    with pytest.raises(UserError, match=answer):
        pretrain("sd3", env, out=tmp_path / "run", **{"preset": "smoke", **given})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("method", "env", "given", "answer"),
    [
        ("dais", MAZE, {}, "There is no method 'dais'"),
        ("extrinsic", MAZE, {}, "There is no method 'extrinsic'"),
        ("diayn", "square_a", {}, "write maze/square_a"),
        ("diayn", "Pendulum-v1", {}, "did you mean 'gym/Pendulum-v1'"),
        ("diayn", MAZE, {"noise": 0.1}, r"--env\.noise is for .*, not for maze/square_a"),
        ("diayn", MAZE, {"env_kwargs": {"a": 1}}, "maze/square_a takes no keyword arguments: leave a out"),
        ("diayn", MAZE, {"copies": 2}, r"--env\.copies is 2, but PPO does not learn from replay"),
        ("diayn", ENV, {"backbone": PPO()}, "PPO needs an environment written in JAX"),
        ("diayn", "gym/toys:Pictured-v0", {"backbone": "ddpg"}, "shows images, which DDPG does not learn from"),
        ("diayn", "gym/toys:Pictured-v0", {"backbone": "sac"}, "shows images, which SAC does not learn from"),
        ("diayn", "gym/toys:Nothing-v0", {}, "Nothing-v0"),
    ],
)
def test_what_cannot_be_trained_there_is_one_sentence_and_leaves_no_folder(tmp_path, method, env, given, answer):
    with pytest.raises(UserError, match=answer) as caught:
        pretrain(method, env, out=tmp_path / "run", **{"preset": "smoke", **given})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("env", "backbone"), [(MAZE, "sac"), (MAZE, "ddpg"), (ENV, "sac"), ("walker", "sac"), ("walker", "ddpg")]
)
def test_another_backbone_has_the_sizes_of_its_preset(env, backbone):
    config = pretraining("diayn", env, preset="smoke", backbone=backbone)
    wanted = presets.get("diayn", config.family.benchmark(env), env, "smoke", backbone)
    assert config.backbone.name == backbone
    assert (config.backbone, config.objective) == (wanted.backbone, wanted.objective)
    assert from_scratch(env, "walker_walk" if env == "walker" else None, backbone=backbone).backbone.name == backbone


def test_snapshots_of_a_preset_are_those_that_the_steps_reach():
    assert pretraining("diayn", "walker", preset="smoke").snapshots == ()
    assert pretraining("diayn", "walker", preset="smoke", steps=600_000).snapshots == (100_000, 500_000)
    assert pretraining("diayn", "walker", preset="smoke", snapshots=(5,)).snapshots == (5,)


def test_seeds_count_from_the_first():
    config = configuration(seed=4)
    assert [each.seed for each in of_seeds(config, 3)] == [4, 5, 6]
    assert of_seeds(config, None) == [config]


# Going on


@pytest.mark.parametrize("env", [MAZE, ENV])
@pytest.mark.parametrize("preset", [None, "smoke"])
def test_a_run_that_goes_on_keeps_its_budget_and_its_settings(tmp_path, env, preset):
    given = {"objective": {"number_of_skills": 5}, "evaluation": {"every": 400}} if preset is None else {}
    first = pretrain("diayn", env, out=tmp_path, preset="smoke", steps=1600, **given)
    before = (tmp_path / "config.json").read_bytes()
    run = pretrain("diayn", env, out=tmp_path, preset=preset, resume=True)
    assert run.config == first.config
    assert (tmp_path / "config.json").read_bytes() == before


def test_a_run_that_goes_on_keeps_what_only_some_environments_have(tmp_path):
    given = {"noise": 0.5, "copies": 3, "seed": 7, "snapshots": (50,), "env_kwargs": {"ends": True}}
    first = pretrain("diayn", ENV, out=tmp_path, preset="smoke", steps=1600, backbone="sac", **given)
    assert pretrain("diayn", ENV, out=tmp_path, resume=True).config == first.config
    for setting, words in (
        ({"noise": 0.25}, "noise: 0.5 in the run, 0.25 asked for"),
        ({"copies": 2}, "copies: 3 in the run, 2 asked for"),
        ({"snapshots": (60,)}, r"snapshots: \[50\] in the run, \[60\] asked for"),
        ({"env_kwargs": {"ends": False}}, r"env_kwargs.ends: True in the run, False asked for"),
        ({"env_kwargs": {}}, r"env_kwargs.ends: True in the run, none asked for"),
        ({"backbone": "ddpg"}, "backbone.name: sac in the run, ddpg asked for"),
        ({"evaluation": {"episodes": 9}}, "evaluation.episodes: 2 in the run, 9 asked for"),
    ):
        with pytest.raises(UserError, match=words):
            pretrain("diayn", ENV, out=tmp_path, resume=True, **setting)


def test_missing_seeds_get_the_budget_of_those_that_stand(tmp_path):
    pretrain("diayn", MAZE, out=tmp_path, preset="smoke", steps=1600, seeds=2)
    shutil.rmtree(tmp_path / "seed_1")
    runs = pretrain("diayn", MAZE, out=tmp_path, resume=True, seeds=2)
    assert [run.config.steps for run in runs] == [1600, 1600]


def test_seeds_go_on_from_the_first_by_number(tmp_path):
    pretrain("diayn", MAZE, out=tmp_path, preset="smoke", seed=9, seeds=2)
    assert existing_config(tmp_path).seed == 9
    runs = pretrain("diayn", MAZE, out=tmp_path, resume=True, seeds=2)
    assert [run.config.seed for run in runs] == [9, 10]
    assert [run.folder.name for run in load_seeds(tmp_path)] == ["seed_9", "seed_10"]


def test_seeds_that_stand_are_not_taken_for_one_run(tmp_path):
    pretrain("diayn", MAZE, out=tmp_path, preset="smoke", seeds=2)
    for option in ({}, {"resume": True}, {"force": True}):
        with pytest.raises(UserError, match="holds 2 seeds; give --seeds, or choose another --out"):
            pretrain("diayn", MAZE, out=tmp_path, preset="smoke", **option)
    with pytest.raises(UserError, match="holds a single run; choose another --out for several seeds"):
        pretrain("diayn", MAZE, out=tmp_path / "seed_0", preset="smoke", seeds=2)


def test_nothing_stands_in_an_empty_folder(tmp_path):
    assert existing_config(tmp_path) is None
    assert existing_config(tmp_path / "missing") is None


def test_the_budget_of_a_maze_can_be_raised_and_with_replay_not(tmp_path):
    pretrain("diayn", MAZE, out=tmp_path / "maze", preset="smoke", steps=1600)
    run = pretrain("diayn", MAZE, out=tmp_path / "maze", steps=2400, resume=True)
    assert run.config.steps == 2400
    with pytest.raises(
        UserError, match=r"steps: 2,400 in the run, 1,600 asked for; --resume can only raise the budget of"
    ):
        pretrain("diayn", MAZE, out=tmp_path / "maze", steps=1600, resume=True)
    for env, options in ((ENV, {}), (MAZE, {"backbone": "sac"})):
        out = tmp_path / env.replace("/", "-")
        pretrain("diayn", env, out=out, preset="smoke", steps=1600, **options)
        with pytest.raises(UserError, match="steps: 1,600 in the run, 2,400 asked for"):
            pretrain("diayn", env, out=out, steps=2400, resume=True)


@pytest.mark.parametrize("env", [MAZE, ENV])
@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"objective": {"number_of_skills": 5}}, r"objective.number_of_skills: \d+ in the run, 5 asked for"),
        ({"backbone": {"learning_rate": 0.5}}, "backbone.learning_rate: .* in the run, 0.5 asked for"),
        ({"seed": 3}, "seed: 0 in the run, 3 asked for"),
        ({"evaluation": {"every": 7}}, r"evaluation.every: \S+ in the run, 7 asked for"),
        ({"backbone": "dreamer"}, r"backbone.name: \w+ in the run, dreamer asked for"),
    ],
)
def test_other_settings_are_refused_by_name_with_both_values(tmp_path, env, given, answer):
    pretrain("diayn", env, out=tmp_path / "run", preset="smoke")
    with pytest.raises(UserError, match=answer):
        pretrain("diayn", env, out=tmp_path / "run", resume=True, **given)


def test_another_place_or_method_is_refused_by_name(tmp_path):
    pretrain("diayn", ENV, out=tmp_path / "run", preset="smoke")
    with pytest.raises(UserError, match=f"env: {ENV} in the run, {MAZE} asked for"):
        pretrain("diayn", MAZE, out=tmp_path / "run", resume=True)
    with pytest.raises(UserError, match=r"objective.name: diayn in the run, cic asked for"):
        pretrain("cic", ENV, out=tmp_path / "run", preset="smoke", resume=True)


def test_another_phase_is_refused_by_name(source, tmp_path):
    finetune(source, out=tmp_path / "tuned", steps=1600)
    with pytest.raises(UserError, match="phase: finetune in the run, pretrain asked for"):
        pretrain("diayn", ENV, out=tmp_path / "tuned", resume=True)
    with pytest.raises(UserError, match="phase: finetune in the run, train asked for"):
        train(ENV, out=tmp_path / "tuned", resume=True)
    train(ENV, out=tmp_path / "alone", preset="smoke")
    with pytest.raises(UserError, match="phase: train in the run, finetune asked for"):
        finetune(source, out=tmp_path / "alone", resume=True)


@pytest.mark.parametrize("told", ["skillscape-run-1", "skillscape-job-1"])
def test_a_run_of_an_earlier_version_is_neither_continued_nor_fine_tuned(tmp_path, told):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text(json.dumps({"format": told, "env": ENV}))
    before = (tmp_path / "run" / "config.json").read_bytes()
    for use in (
        lambda: pretrain("diayn", ENV, out=tmp_path / "run", resume=True),
        lambda: train(ENV, out=tmp_path / "run", resume=True),
        lambda: finetune(tmp_path / "run", out=tmp_path / "tuned"),
    ):
        with pytest.raises(UserError, match="written by an earlier version of skillscape"):
            use()
    assert (tmp_path / "run" / "config.json").read_bytes() == before
    pretrain("diayn", ENV, out=tmp_path / "run", preset="smoke", force=True)


def test_a_maze_that_was_drawn_anew_is_noticed_and_one_that_is_gone_was_kept(tmp_path):
    drawing = tmp_path / "own.txt"
    drawing.write_text("S..\n")
    env = f"maze/{drawing}"
    first = pretrain("diayn", env, out=tmp_path / "run", preset="smoke")
    alone = train(env, out=tmp_path / "alone", preset="smoke")
    drawing.write_text("S...\n")
    for resume in (
        lambda: pretrain("diayn", env, out=tmp_path / "run", resume=True),
        lambda: train(env, out=tmp_path / "alone", resume=True),
    ):
        with pytest.raises(UserError, match="the file of the environment has changed"):
            resume()
    drawing.unlink()
    assert pretrain("diayn", env, out=tmp_path / "run", resume=True).config == first.config
    assert train(env, out=tmp_path / "alone", resume=True).config == alone.config
    assert len(first.layout.cells) == 3


def test_a_run_goes_on_whatever_its_fine_tuning_would_take(tmp_path):
    pretrain("diayn", ENV, out=tmp_path, preset="smoke")
    config = json.loads((tmp_path / "config.json").read_text())
    del config["finetuning_steps"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    run = pretrain("diayn", ENV, out=tmp_path, preset="smoke", resume=True)
    assert run.config.finetuning_steps == 100_000


# Fine-tuning


@pytest.fixture
def source(tmp_path):
    return pretrain("diayn", ENV, out=tmp_path / "source", preset="smoke", steps=1600).folder


def test_a_fine_tuning_has_the_settings_of_its_source_set_to_learn_a_task(source, tmp_path):
    pretrained, run = skillscape.load(source), finetune(source, out=tmp_path / "tuned")
    config = run.config
    assert (config.phase, config.task, config.source, config.snapshot) == ("finetune", ENV, "source", 1600)
    assert (config.skill, config.noise, config.snapshots) == ("prior", 0.0, ())
    assert config.steps == pretrained.config.finetuning_steps == 2000
    assert config.backbone == pretrained.config.backbone.task_config(pretrained=True)
    assert (config.objective, config.seed) == (pretrained.config.objective, pretrained.config.seed)


def test_noise_is_for_the_pre_training_and_the_rest_for_both(tmp_path):
    given = {"noise": 0.5, "copies": 3, "env_kwargs": {"ends": True}}
    source = pretrain("diayn", ENV, out=tmp_path / "source", preset="smoke", **given)
    config = finetune(source, out=tmp_path / "tuned").config
    assert (config.noise, config.copies, config.env_kwargs) == (0.0, 3, {"ends": True})


def test_a_fine_tuning_that_goes_on_keeps_what_is_not_said(source, tmp_path):
    given = {"backbone": {"batch_size": 8}, "evaluation": {"episodes": 3}, "snapshot": 800}
    first = finetune(source, out=tmp_path / "tuned", skill="3", steps=1200, seed=8, **given)
    run = finetune(source, out=tmp_path / "tuned", resume=True)
    assert run.config == first.config
    for setting, words in (
        ({"steps": 1300}, "steps: 1,200 in the run, 1,300 asked for"),
        ({"skill": "random"}, "skill: 3 in the run, random asked for"),
        ({"skill": 4}, "skill: 3 in the run, 4 asked for"),
        ({"seed": 9}, "seed: 8 in the run, 9 asked for"),
        ({"snapshot": 1600}, "snapshot: 800 in the run, 1,600 asked for"),
        ({"backbone": {"batch_size": 9}}, "backbone.batch_size: 8 in the run, 9 asked for"),
    ):
        with pytest.raises(UserError, match=words):
            finetune(source, out=tmp_path / "tuned", resume=True, **setting)


def test_training_from_scratch_that_goes_on_keeps_what_is_not_said(tmp_path):
    given = {"steps": 1200, "backbone": {"width": 24}, "copies": 2, "seed": 5}
    first = train(ENV, out=tmp_path / "run", preset="smoke", **given)
    assert train(ENV, out=tmp_path / "run", resume=True).config == first.config
    with pytest.raises(UserError, match=r"backbone.width: 24 in the run, 16 asked for"):
        train(ENV, out=tmp_path / "run", preset="smoke", resume=True)
    with pytest.raises(UserError, match=r"backbone.name: ddpg in the run, sac asked for"):
        train(ENV, out=tmp_path / "run", backbone="sac", resume=True)


@pytest.mark.parametrize("task", ["reach:1,0", None])
def test_a_task_that_is_not_said_is_that_of_the_run_that_goes_on(tmp_path, task):
    source = pretrain("diayn", MAZE, out=tmp_path / "maze", preset="smoke")
    first = finetune(source, "reach:1,0", out=tmp_path / "tuned")
    assert finetune(source, task, out=tmp_path / "tuned", resume=True).config == first.config
    alone = train(MAZE, "reach:1,0", out=tmp_path / "alone", preset="smoke")
    assert train(MAZE, task, out=tmp_path / "alone", resume=True).config == alone.config
    with pytest.raises(UserError, match="task: reach:1,0 in the run, reach asked for"):
        train(MAZE, "reach", out=tmp_path / "alone", resume=True)


def test_what_was_trained_on_a_task_already_is_not_fine_tuned(source, tmp_path):
    tuned = finetune(source, out=tmp_path / "tuned")
    alone = train(ENV, out=tmp_path / "alone", preset="smoke")
    for run in (tuned, alone):
        with pytest.raises(UserError, match="on a task reward, not pre-trained; give a run of `skillscape pretrain`"):
            finetune(run, out=tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_no_skill_is_inferred_from_what_fine_tuning_does_not_compute():
    base = configuration("aps", "gym/toys:Pictured-v0")
    told = {"source": "aps", "snapshot": 5}
    assert finetuning(base, **told).strategy.infers
    other = replace(base, backbone=overridden(base.backbone, {"objective": {"reward_on": "replayed"}}, "backbone"))
    with pytest.raises(UserError, match="aps was pre-trained on other objective features"):
        finetuning(other, **told)
    assert not finetuning(other, skill="random", **told).strategy.infers


@pytest.mark.parametrize(
    ("method", "env", "rule"),
    [
        ("sd3", "gym/toys:Pictured-v0", "regress"),
        ("diayn", "gym/toys:Pictured-v0", "regress"),
        ("cic", "gym/toys:Pictured-v0", "constant"),
        ("aps", "gym/toys:Pictured-v0", "infer"),
        ("apt", "gym/toys:Pictured-v0", "random"),
        ("sd3", "gym/toys:Toy-v0", "random"),
        ("diayn", "gym/toys:Toy-v0", "prior"),
    ],
)
def test_from_images_a_discrete_skill_is_selected_by_regress(method, env, rule):
    base = configuration(method, env)
    assert finetuning(base, source="x", snapshot=5).skill == rule
    assert finetuning(base, source="x", snapshot=5, skill="prior").skill == "prior"


# Tasks and folders


def test_the_one_task_of_an_environment_need_not_be_said(source, tmp_path):
    assert finetune(source, out=tmp_path / "tuned").config.task == ENV
    assert train(ENV, out=tmp_path / "alone", preset="smoke").config.task == ENV


def test_one_of_several_tasks_has_to_be_said(tmp_path):
    with pytest.raises(UserError, match=r"Say which task to learn.*walker has walker_stand, walker_walk"):
        train("walker", out=tmp_path / "run", preset="smoke")
    pretrain("diayn", "walker", out=tmp_path / "walker", preset="smoke")
    with pytest.raises(UserError, match=r"Say which task to learn"):
        finetune(tmp_path / "walker", out=tmp_path / "run")
    with pytest.raises(UserError, match="quadruped_walk is not a task of walker"):
        finetune(tmp_path / "walker", "quadruped_walk", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("env", [MAZE, "maze-pixels/square_a"])
def test_mazes_have_tasks_too(tmp_path, env):
    pretrain("diayn", env, out=tmp_path / "maze", preset="smoke")
    assert finetune(tmp_path / "maze", out=tmp_path / "tuned").config.task == "reach"
    assert train(env, "reach:1,0", out=tmp_path / "alone", preset="smoke").config.task == "reach:1,0"
    for use in (
        lambda: finetune(tmp_path / "maze", "walker_walk", out=tmp_path / "no"),
        lambda: train(env, "walker_walk", out=tmp_path / "no", preset="smoke"),
    ):
        with pytest.raises(UserError, match="walker_walk"):
            use()
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("place", ["source", "source/tuned", ".", "link", "source/../source"])
@pytest.mark.parametrize("option", [{}, {"force": True}, {"resume": True}])
def test_a_fine_tuning_never_writes_into_its_source(source, tmp_path, place, option):
    (tmp_path / "link").symlink_to(source)
    before = {path: path.read_bytes() for path in sorted(source.rglob("*")) if path.is_file()}
    with pytest.raises(UserError, match="which overlaps its pre-training"):
        finetune(source, out=tmp_path / place, **option)
    assert {path: path.read_bytes() for path in sorted(source.rglob("*")) if path.is_file()} == before
    assert json.loads((source / "config.json").read_text())["phase"] == "pretrain"


def test_several_seeds_are_fine_tuned_in_folders_of_their_own_and_keep_their_seeds(tmp_path):
    runs = pretrain("diayn", ENV, out=tmp_path / "source", preset="smoke", seed=4, seeds=2)
    tuned = finetune(runs, out=tmp_path / "tuned")
    assert [run.folder for run in tuned] == [tmp_path / "tuned" / f"seed_{seed}" for seed in (4, 5)]
    assert [run.config.seed for run in tuned] == [4, 5]
    with pytest.raises(UserError, match="Several runs have the same seed"):
        finetune(runs, out=tmp_path / "other", seed=1)
    assert not (tmp_path / "other").exists()
    (alone,) = finetune(runs[:1], out=tmp_path / "alone", seed=1)
    assert (alone.folder, alone.config.seed) == (tmp_path / "alone", 1)
    with pytest.raises(UserError, match="holds 2 seeds; load one of them, or all with load_seeds"):
        finetune(tmp_path / "source", out=tmp_path / "other")


def test_what_stands_in_the_way_is_said_for_python_too(source):
    with pytest.raises(skillscape.UserError, match=r"resume=True.*force=True"):
        pretrain("diayn", ENV, out=source, preset="smoke")
