"""The configuration of a run: one record that reads back from JSON, or one sentence that says why not."""

import json
import sys
from dataclasses import replace

import jax
import pytest
from laid_out import configuration

from skillscape import presets
from skillscape.backbones.ppo import PPO
from skillscape.config import EARLIER, EvaluationConfig, RunConfig
from skillscape.envs.mazes.layouts import builtin_layouts, parse_layout
from skillscape.errors import UserError
from skillscape.objectives import registry, trainable
from skillscape.objectives.extrinsic import Extrinsic
from skillscape.objectives.sd3 import SD3
from skillscape.training.state import init_state

ENVS = {
    "maze": "maze/square_a",
    "maze-pixels": "maze-pixels/square_a",
    "urlb": "walker",
    "urlb-pixels": "walker-pixels",
}
"""An environment of each benchmark."""
EVERY_PRESET = [(env, preset) for benchmark, env in ENVS.items() for preset in presets.names(benchmark)]


def through_json(config):
    return RunConfig.from_json(json.loads(json.dumps(config.to_json())))


@pytest.mark.parametrize("method", trainable())
@pytest.mark.parametrize(("env", "preset"), EVERY_PRESET)
def test_a_configuration_reads_back_from_json(method, env, preset):
    config = configuration(method, env, preset=preset)
    assert through_json(config) == config


@pytest.mark.parametrize("maze", builtin_layouts())
def test_every_maze_reads_back_from_json(maze):
    config = configuration(env=f"maze/{maze}")
    assert through_json(config) == config
    assert config.layout == through_json(config).layout


def test_settings_away_from_the_defaults_read_back():
    config = replace(
        configuration(),
        phase="finetune",
        task="reach:1,0",
        definition=json.loads(json.dumps(parse_layout("S..\n..#", "own").to_json())),
        objective=SD3(floor=-3.0, clip_norm=1.5, density="reconstruction", resample_every=7),
        backbone=PPO(hidden=(16, 8, 4), normalize_obs=True),
        evaluation=EvaluationConfig(7, 8),
        snapshots=(400, 800),
        skill="3",
        source="diayn-square_a",
        snapshot=800,
        finetuning_steps=123,
    )
    assert through_json(config) == config


def test_training_from_scratch_has_no_objective_and_reads_back():
    config = replace(configuration(), phase="train", task="reach", objective=None)
    assert through_json(config) == config
    assert (config.method, config.label) == ("ppo", "PPO")
    assert config.reward == Extrinsic()
    assert config.resample_every is None


@pytest.mark.parametrize("method", trainable())
@pytest.mark.parametrize("preset", presets.names("maze"))
def test_every_preset_can_be_trained(method, preset):
    config = configuration(method, preset=preset)
    config.check()
    spec = config.spec()
    config.check_env(spec)
    state = jax.eval_shape(lambda: init_state(config, spec))
    assert state.step.shape == ()


def test_the_task_s_own_reward_is_learned_with_the_skills_of_the_method():
    config = configuration("cic", "walker")
    assert config.reward is config.objective
    tuned = replace(config, phase="finetune", task="walker_walk")
    assert tuned.reward == Extrinsic("box", 64)
    assert (tuned.method, tuned.label) == ("cic", "CIC")
    assert tuned.resample_every == config.objective.resample_every == 50


# What cannot be read


def changed(part, name, value, config=None):
    values = (config or configuration("sd3")).to_json()
    (values if part is None else values[part])[name] = value
    return json.loads(json.dumps(values))


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("objective", "number_of_skills", "ten"),
        ("objective", "number_of_skills", True),
        ("objective", "number_of_skills", 2.5),
        ("objective", "floor", "low"),
        ("objective", "density", "density"),
        ("objective", "no_such_field", 1),
        ("objective", "name", "no_such_method"),
        ("backbone", "hidden", 128),
        ("backbone", "hidden", [128, "128"]),
        ("backbone", "normalize_obs", 1),
        ("backbone", "no_such_field", 1),
        ("backbone", "name", "ddpg"),
        ("backbone", "name", "no_such_backbone"),
        ("evaluation", "every", "often"),
        ("evaluation", "episodes", [4]),
        ("evaluation", "no_such_field", 1),
        (None, "format", "skillscape-run-99"),
        (None, "no_such_field", 1),
        (None, "phase", "training"),
        (None, "task", 5),
        (None, "noise", "loud"),
        (None, "copies", 1.5),
        (None, "env_kwargs", [1]),
        (None, "definition", "walls"),
        (None, "steps", "many"),
        (None, "seed", None),
        (None, "seed", 1.5),
        (None, "env", 5),
        (None, "skill", 3),
        (None, "snapshots", [1, "2"]),
        (None, "snapshots", None),
        (None, "source", 1),
        (None, "snapshot", "last"),
    ],
)
def test_a_wrong_field_or_type_is_refused(part, name, value):
    with pytest.raises(UserError):
        RunConfig.from_json(changed(part, name, value))


@pytest.mark.parametrize("told", EARLIER)
def test_the_configuration_of_an_earlier_version_is_called_that(told):
    with pytest.raises(UserError, match="written by an earlier version of skillscape; read it with that version"):
        RunConfig.from_json({"format": told, "objective": {"name": "diayn"}})


@pytest.mark.parametrize("values", [{}, {"format": None}, {"format": ["skillscape-run-2"]}])
def test_what_is_no_configuration_is_called_that(values):
    with pytest.raises(UserError, match=r"config\.json has the format"):
        RunConfig.from_json(values)


@pytest.mark.parametrize(("part", "what"), [("objective", "method"), ("backbone", "backbone")])
def test_what_is_not_registered_is_neither_imported_nor_guessed(tmp_path, monkeypatch, part, what):
    (tmp_path / "mine.py").write_text("import pathlib; pathlib.Path(__file__).with_name('imported').touch()")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("mine", "mine:Mine", "mine.Mine"):
        with pytest.raises(UserError, match=f"names the {what} '{name}', which is not registered; .* --plugin"):
            RunConfig.from_json(changed(part, "name", name))
    assert not (tmp_path / "imported").exists()
    assert "mine" not in sys.modules


def test_the_environment_of_a_family_that_is_not_registered_is_called_that():
    with pytest.raises(UserError, match=r"names the environment 'plane', which is not registered; .* --plugin"):
        RunConfig.from_json(changed(None, "env", "plane"))


# What cannot be trained


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({"steps": 0}, "--steps must be above zero"),
        ({"steps": 2**31}, "--steps must be at most"),
        ({"seed": -1}, "--seed must be between 0 and"),
        ({"seed": 2**40}, "--seed must be"),
        ({"noise": -1.0}, r"--env\.noise must be zero or more, not -1\.0"),
        ({"noise": float("nan")}, r"--env\.noise must be a finite number"),
        ({"copies": 0}, r"--env\.copies must be between 1 and 256, not 0"),
        ({"copies": 257}, r"--env\.copies must be between 1 and 256"),
        ({"snapshots": (100, 0)}, "--snapshots must be steps above zero, not 0"),
        ({"finetuning_steps": 0}, "--finetuning-steps must be above zero"),
        ({"evaluation": EvaluationConfig(0, 1)}, r"--evaluation\.every"),
        ({"evaluation": EvaluationConfig(1, 0)}, r"--evaluation\.episodes"),
        ({"evaluation": EvaluationConfig(1, 1)}, r"--evaluation\.episodes is 1, but a maze needs 2 or more"),
        ({"backbone": PPO(episodes=0)}, r"--backbone\.episodes"),
        ({"objective": SD3(number_of_skills=0)}, r"--objective\.number-of-skills"),
        ({"skill": "99"}, "There is no skill 99"),
        ({"skill": "bset"}, "--skill cannot be 'bset'"),
        ({"skill": "infer"}, "diayn cannot infer a skill from rewards"),
    ],
)
def test_what_cannot_be_trained_anywhere_is_refused(changes, answer):
    with pytest.raises(UserError, match=answer):
        replace(configuration(), **changes).check()


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({"steps": 399}, r"--steps is 399, but one iteration takes 400 \(8 episodes of 50\)"),
        ({"snapshots": (400, 600)}, "--snapshots 600 is not a multiple of an iteration of 400 steps"),
        ({"snapshots": (4000,)}, "--snapshots 4000 is beyond --steps 2,000"),
        ({"copies": 2}, r"--env\.copies is 2, but PPO does not learn from replay"),
        ({"backbone": PPO(episodes=8, minibatches=401)}, r"set --backbone\.minibatches to at most 400\."),
        ({"skill": "regress", "steps": 400}, "--skill regress selects a skill from the warm-up data of 400 steps"),
    ],
)
def test_what_cannot_be_trained_in_a_maze_is_refused(changes, answer):
    config = replace(configuration(), **changes)
    config.check()
    with pytest.raises(UserError, match=answer):
        config.check_env(config.spec())


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({"snapshots": (3000,)}, "--snapshots 3000 is beyond --steps"),
        ({"skill": "regress", "steps": 20}, "--skill regress selects a skill from the warm-up data of 1,000 steps"),
    ],
)
def test_what_cannot_be_trained_on_a_host_is_refused(changes, answer):
    config = replace(configuration(env="gym/toys:Long-v0"), **changes)
    config.check()
    with pytest.raises(UserError, match=answer):
        config.check_env(config.spec())


def test_episodes_that_are_too_short_are_refused_with_the_flag_to_set():
    config = configuration(env="gym/toys:Toy-v0", backbone={"nstep": 21})
    with pytest.raises(UserError, match=r"Episodes of .* have 20 steps, but .*; set --backbone\.nstep to at most"):
        config.check_env(config.spec())


def test_one_episode_is_an_evaluation_elsewhere_and_on_a_task():
    once = EvaluationConfig(1, 1)
    replace(configuration(env="gym/toys:Long-v0"), evaluation=once).check()
    replace(configuration(), evaluation=once, phase="finetune", task="reach").check()


def test_snapshots_where_something_is_due_and_copies_with_replay_are_fine():
    config = replace(configuration(), snapshots=(400, 2000))
    config.check_env(config.spec())
    config = replace(configuration(env="gym/toys:Long-v0"), snapshots=(7, 2000), copies=3)
    config.check_env(config.spec())


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", float("nan")])
def test_arguments_that_a_file_cannot_hold_are_refused(value):
    with pytest.raises(UserError, match=r"--env\.kwargs is stored as JSON"):
        replace(configuration(), env_kwargs={"a": value})


def test_arguments_are_those_that_a_run_which_goes_on_has():
    config = replace(configuration(), env_kwargs={"a": (1, {"b": None})})
    assert config.env_kwargs == through_json(config).env_kwargs == {"a": [1, {"b": None}]}


def test_every_registered_method_has_a_configuration():
    assert set(trainable()) == set(registry()) - {"extrinsic"}
