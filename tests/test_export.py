"""Exported runs: small, acting and fine-tuned like the run that they come from, not to be resumed."""

import json
import shlex

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from untrained import untrained_run

import skillscape
from skillscape.cli import main
from skillscape.configure import finetuning_of, pretraining
from skillscape.errors import UserError
from skillscape.export import command_of, export_run, leaves_read
from skillscape.objectives import trainable
from skillscape.training.checkpoint import named_leaves
from skillscape.training.run import Run, adapted_state
from skillscape.types import Experience

QUICK = ("sd3", "metra")


def finished(folder, method="sd3", env="maze/square_a", **asked):
    """An untrained run that has results, as if it had been trained to its end."""
    run = untrained_run(folder, method, env, **asked)
    (folder / "results.json").write_text(json.dumps({"steps": run.end, "measures": {"coverage": 0.5}}))
    return run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that has learned a little, and its export."""
    folder = tmp_path_factory.mktemp("runs")
    main(["pretrain", "sd3", "--preset", "smoke", "--steps", "1600", "--seed", "3", "--out", str(folder / "run")])
    main(["export", str(folder / "run"), str(folder / "export")])
    return folder


def actions(run, explore=False):
    rng = np.random.default_rng(0)
    policies = [run.policy(skill, explore=explore) for skill in range(min(2, run.config.reward.skills.count or 2))]
    shape = run.spec.obs_shape
    obs = rng.integers(0, 256, (7, *shape), np.uint8) if run.spec.is_image else rng.normal(size=(7, *shape))
    return np.stack([policy(obs) for policy in policies])


def fine_tuning_start(run, task):
    config = finetuning_of(run, task, skill="random")
    return adapted_state(config, run, config.spec())


def assert_alike(run, export, task="reach"):
    """Both act, reward, score and start a fine-tuning alike, to the bit."""
    for explore in (False, True):
        np.testing.assert_array_equal(actions(export, explore), actions(run, explore))
    old, new = fine_tuning_start(run, task), fine_tuning_start(export, task)
    for (name, expected), (_, value) in zip(named_leaves(old.agent), named_leaves(new.agent), strict=True):
        np.testing.assert_array_equal(np.asarray(value), np.asarray(expected), err_msg=name)
    for use in uses_of_the_model(run):
        expected, value = (jax.tree.leaves(use(source.snapshot().objective)) for source in (run, export))
        for ours, theirs in zip(value, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def uses_of_the_model(run):
    objective, spec = run.config.reward, run.config.backbone.objective_spec(run.spec)
    key = jax.random.key(1)
    obs, after = jax.random.normal(key, (2, 64, *spec.obs_shape))
    skill = objective.skills.sample(key, 64)
    batch = Experience(obs, jnp.zeros((64, spec.action_dim)), after, skill, jnp.ones(64))
    yield lambda state: objective.reward(state, batch, key)[1]
    yield objective.routing_weights
    if objective.reaches_goals:
        yield lambda state: objective.skill_for_goal(state, obs, after)
    if objective.infers_skill:
        yield lambda state: objective.infer_skill(state, obs, jnp.ones(64))


def test_an_export_acts_and_is_measured_as_its_run(trained, capsys):
    run, export = Run(trained / "run"), Run(trained / "export")
    assert_alike(run, export)
    assert export.config == run.config
    assert export.results == run.results
    assert export.trained_steps == run.trained_steps
    assert skillscape.evaluate(export, episodes=2) == skillscape.evaluate(run, episodes=2)
    np.testing.assert_array_equal(
        skillscape.Policy.load(trained / "export", 1)(np.zeros(2)), run.policy(1)(np.zeros(2))
    )


def test_an_export_has_no_training_state(trained):
    run, export = trained / "run", trained / "export"
    size = {
        folder: sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) for folder in (run, export)
    }
    assert size[export] < size[run] / 3
    assert {path.name for path in export.iterdir()} == {
        *("config.json", "results.json", "versions.json", "timing.json", "export.json"),
        *("evaluation.csv", "metrics.csv", "rollouts", "snapshots"),
    }
    assert len(list((export / "rollouts").iterdir())) == 1
    (arrays,) = export.glob("snapshots/*/arrays.json")
    left_out = json.loads(arrays.read_text())["left_out"]
    assert "['objective'].history.obs" in left_out
    assert not any("policy" in name for name in left_out)


@pytest.mark.parametrize(
    "method", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in trainable()]
)
@pytest.mark.parametrize(
    ("env", "task", "backbone"),
    [
        ("maze/square_a", "reach", "ddpg"),
        ("maze/square_a", "reach", "sac"),
        pytest.param("maze/square_a", "reach", "ppo", marks=pytest.mark.slow),
        pytest.param("walker", "walker_walk", "ddpg", marks=pytest.mark.slow),
        pytest.param("half_cheetah", "half_cheetah_goal", "sac", marks=pytest.mark.slow),
    ],
)
def test_every_method_and_backbone_is_exported_whole(tmp_path, method, env, task, backbone):
    try:
        run = finished(tmp_path / "run", method, env, backbone=backbone)
    except UserError as refused:
        pytest.skip(str(refused))
    assert_alike(run, export_run(run, tmp_path / "export"), task)


@pytest.mark.slow
def test_a_world_model_is_exported(tmp_path):
    run = finished(tmp_path / "run", "sd3", "maze-pixels/square_a")
    export = export_run(run, tmp_path / "export")
    np.testing.assert_array_equal(actions(export), actions(run))
    world = [name for name, _ in named_leaves(run.snapshot().agent.world.params)]
    (arrays,) = (tmp_path / "export").glob("snapshots/*/arrays.json")
    left_out = json.loads(arrays.read_text())["left_out"]
    assert not any(f"['agent'].world.params{name}" in left_out for name in world if "decoder" in name)


def test_fine_tuning_an_export_gives_the_numbers_of_its_run(trained, tmp_path):
    logs = []
    for name in ("run", "export"):
        out = tmp_path / name
        main(["finetune", str(trained / name), "--task", "reach", "--skill", "1", "--steps", "800", "--out", str(out)])
        logs.append((out / "metrics.csv").read_bytes())
    assert logs[0] == logs[1]


def test_a_fine_tuning_is_exported_as_its_policy_and_skill(trained, tmp_path):
    flags = ["--task", "reach", "--skill", "1", "--steps", "800"]
    main(["finetune", str(trained / "run"), *flags, "--out", str(tmp_path / "tuned")])
    run, export = Run(tmp_path / "tuned"), export_run(tmp_path / "tuned", tmp_path / "export")
    np.testing.assert_array_equal(actions(export), actions(run))
    np.testing.assert_array_equal(export.kept_skill(), run.kept_skill())
    assert not (tmp_path / "export" / "snapshots").exists()
    assert "opt_state" not in (tmp_path / "export" / "skills" / "arrays.safetensors").read_bytes().decode(
        errors="ignore"
    )
    with pytest.raises(UserError, match="trained on a task reward"):
        finetuning_of(export, "reach")


def test_without_its_model_a_run_acts_and_is_fine_tuned_but_reaches_no_goals(trained, tmp_path, capsys):
    main(["export", str(trained / "run"), str(tmp_path / "small"), "--no-model"])
    small, run = Run(tmp_path / "small"), Run(trained / "run")
    np.testing.assert_array_equal(actions(small), actions(run))
    fine_tuning_start(small, "reach")
    main(["plot", str(tmp_path / "small")])
    assert not (tmp_path / "small" / "plots" / "density.png").exists()
    with pytest.raises(UserError, match="without the model of its method"):
        skillscape.goals(small)


@pytest.mark.parametrize("more", [[], ["--steps", "3200"]])
def test_an_export_is_not_resumed(trained, more, capsys):
    files = {path: path.read_bytes() for path in (trained / "export").rglob("*.*")}
    command = ["pretrain", "sd3", "--preset", "smoke", "--seed", "3", "--out", str(trained / "export"), "--resume"]
    with pytest.raises(SystemExit) as stopped:
        main([*command, *(more or ["--steps", "1600"])])
    assert stopped.value.code == 2
    assert "is an exported run, without the optimiser states" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (trained / "export").rglob("*.*")} == files


def test_what_cannot_be_exported_is_refused(trained, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="is unfinished; train it to the end"):
        export_run(untrained_run(tmp_path / "begun"), tmp_path / "out")
    with pytest.raises(UserError, match="is an exported run already"):
        export_run(trained / "export", tmp_path / "out")
    with pytest.raises(UserError, match="overlaps the run"):
        export_run(trained / "run", trained / "run" / "export")
    with pytest.raises(UserError, match="exists already; add --force"):
        export_run(trained / "run", trained / "export")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="zoo/ names the runs of the package"):
        export_run(trained / "run", "zoo/mine")
    assert {path.name for path in tmp_path.iterdir()} == {"begun"}


def test_force_replaces_an_export(trained, tmp_path):
    export_run(trained / "run", tmp_path / "out", model=False)
    assert export_run(trained / "run", tmp_path / "out", force=True).snapshot().model is not None
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_damaged_list_of_what_was_left_out_is_refused(trained, tmp_path):
    export = export_run(trained / "run", tmp_path / "out")
    (arrays,) = (tmp_path / "out").glob("snapshots/*/arrays.json")
    description = json.loads(arrays.read_text())
    arrays.write_text(json.dumps({**description, "left_out": []}))
    with pytest.raises(UserError, match="do not match their checksum"):
        export.snapshot()


@pytest.mark.parametrize(
    ("method", "env", "asked"),
    [
        ("sd3", "maze/square_a", {}),
        ("sd3", "walker", {"preset": "paper", "steps": 1_000_000, "seed": 4}),
        ("sd3", "walker", {"objective": {"standardize": 0.0, "floor": None}, "backbone": {"batch_size": 512}}),
        ("sd3", "walker", {"objective": {"standardize": 1.0, "floor": -1.0}, "snapshots": ()}),
        ("sd3", "maze/square_a", {"backbone": {"hidden": (32, 16), "normalize_obs": False}, "snapshots": (50_000,)}),
        ("diayn", "walker", {"backbone": "sac", "noise": 0.1, "copies": 4, "snapshots": (100, 5_000)}),
        ("metra", "half_cheetah", {"evaluation": {"every": 50_000}, "steps": 150_000}),
        ("sd3", "maze-pixels/square_a", {"preset": "smoke", "backbone": {"world": {"deter": 24}}}),
        ("cic", "gym/Pendulum-v1", {"env_kwargs": {"g": 9.5}, "env_position": (0, 1)}),
    ],
)
def test_the_command_gives_the_configuration(monkeypatch, method, env, asked):
    config = pretraining(method, env, **asked)
    configs = []
    monkeypatch.setattr("skillscape.cli.train.train_runs", lambda made, *_, **__: configs.extend(made))
    program, *arguments = shlex.split(command_of(config))
    assert program == "skillscape"
    main(arguments)
    assert configs == [config]


def test_only_a_pretraining_of_a_known_method_has_a_command(trained):
    config = finetuning_of(Run(trained / "run"), "reach")
    assert command_of(config) is None


def test_leaves_are_read_if_a_value_depends_on_them():
    tree = {"used": jnp.ones(2), "shape": jnp.ones(3), "unused": jnp.ones(4), "returned": jnp.ones(5)}

    def function(tree):
        wasted = jnp.sin(tree["unused"])
        del wasted
        return jnp.zeros(tree["shape"].shape) + jnp.sum(tree["used"]), tree["returned"]

    assert leaves_read(function, tree) == {"['used']", "['returned']"}


@pytest.mark.slow
@pytest.mark.parametrize(("env", "task"), [("walker", "walker_walk"), ("half_cheetah", "half_cheetah_goal")])
def test_a_robot_is_trained_exported_measured_and_fine_tuned(tmp_path, monkeypatch, capsys, env, task):
    monkeypatch.chdir(tmp_path)
    main(["pretrain", "sd3", "--env", env, "--preset", "smoke", "--out", "run"])
    main(["export", "run", "export"])
    main(["export", "run", "small", "--no-model"])
    capsys.readouterr()
    evaluations, logs = [], []
    for name in ("run", "export", "small"):
        main(["evaluate", name, "--episodes", "2", "--json"])
        evaluations.append(json.loads(capsys.readouterr().out)["measures"])
        main(["finetune", name, "--task", task, "--steps", "1500", "--out", f"tuned-{name}"])
        logs.append((tmp_path / f"tuned-{name}" / "metrics.csv").read_bytes())
    whole, exported, small = evaluations
    assert whole == exported
    assert small == {name: whole[name] for name in small}
    assert {"model_accuracy", "density_deviation_own_skill"} <= whole.keys() - small.keys()
    assert logs[0] == logs[1] == logs[2]
    assert logs[0].count(b"\n") > 1
