"""Settings: read from JSON with their types, overridden by name, kept as JSON, compared in words."""

import json
from dataclasses import asdict

import pytest

from skillscape.backbones.dreamer import BehaviourConfig, Dreamer, ReplayConfig, WorldConfig
from skillscape.backbones.ppo import PPO
from skillscape.config import EvaluationConfig
from skillscape.config_io import (
    as_json,
    check_unchanged,
    differences,
    from_fields,
    nested,
    overridden,
    plain,
    setting,
    setting_names,
)
from skillscape.errors import UserError
from skillscape.objectives.diayn import DIAYN
from skillscape.objectives.sd3 import SD3

# From JSON


NESTED = Dreamer(world=WorldConfig(deter=64), behaviour=BehaviourConfig(horizon=5))


@pytest.mark.parametrize(
    "part", [PPO(hidden=(3,), clip=0.5), SD3(floor=-2.5, clip_norm=None), EvaluationConfig(7, 8), NESTED]
)
def test_settings_read_back_from_json(part):
    assert from_fields(type(part), json.loads(json.dumps(asdict(part)))) == part
    assert as_json(part) == json.loads(json.dumps(asdict(part)))


@pytest.mark.parametrize("name", ["hidden", "clip"])
def test_a_missing_field_takes_its_default(name):
    values = {key: value for key, value in asdict(PPO(hidden=(3,), clip=0.5)).items() if key != name}
    assert getattr(from_fields(PPO, values), name) == getattr(PPO(), name)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (SD3, "number_of_skills", "ten"),
        (SD3, "number_of_skills", True),
        (SD3, "number_of_skills", 2.5),
        (SD3, "number_of_skills", None),
        (SD3, "floor", "low"),
        (SD3, "floor", [1.0]),
        (SD3, "density", "density"),
        (SD3, "no_such_field", 1),
        (PPO, "hidden", 128),
        (PPO, "hidden", [128, "128"]),
        (PPO, "hidden", [[128]]),
        (PPO, "normalize_obs", 1),
        (PPO, "clip", True),
        (PPO, "name", "ppo"),
    ],
)
def test_a_wrong_field_or_type_is_refused_by_its_name(kind, name, value):
    with pytest.raises(UserError, match=name):
        from_fields(kind, {name: value})


@pytest.mark.parametrize(
    ("world", "answer"),
    [({"deter": "wide"}, "WorldConfig.deter cannot be 'wide'"), ({"memory": 8}, "WorldConfig has no setting 'memory'")],
)
def test_a_wrong_field_of_a_group_is_refused_by_its_name(world, answer):
    with pytest.raises(UserError, match=answer):
        from_fields(Dreamer, {"world": world})
    with pytest.raises(UserError, match=r"Dreamer\.world cannot be 5"):
        from_fields(Dreamer, {"world": 5})


# In place of others


def test_some_fields_are_replaced_and_the_others_kept():
    assert overridden(DIAYN(7, hidden=(8,)), {"hidden": [16, 4]}, "objective") == DIAYN(7, hidden=(16, 4))
    assert overridden(DIAYN(7), {}, "objective") == DIAYN(7)


def test_settings_of_a_group_are_replaced_and_its_others_kept():
    changed = overridden(NESTED, {"world": {"stoch": 4}, "replay": {"batch_size": 2}}, "backbone")
    assert changed == Dreamer(WorldConfig(deter=64, stoch=4), BehaviourConfig(horizon=5), replay=ReplayConfig(2))
    assert overridden(NESTED, {"world": WorldConfig(stoch=4)}, "backbone").world == WorldConfig(stoch=4)
    assert overridden(NESTED, {"world": {}}, "backbone") == NESTED


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ({"world": {"detr": 5}}, "backbone.world.detr is not a setting of WorldConfig; did you mean 'deter'?"),
        ({"deter": 5}, "backbone.deter is not a setting of Dreamer; did you mean 'world.deter'?"),
        ({"learning_rate": 1.0}, "did you mean 'world.learning_rate' or 'behaviour.learning_rate'?"),
        ({"memory": 5}, "backbone.memory is not a setting of Dreamer; known are world, behaviour, objective, replay."),
        ({"world": {"deter": "wide"}}, "WorldConfig.deter cannot be 'wide'"),
        ({"world": 5}, "backbone.world cannot be 5; give settings by name, such as {'encoder': …}."),
    ],
)
def test_what_does_not_fit_in_a_group_is_one_sentence(values, answer):
    with pytest.raises(UserError) as caught:
        overridden(NESTED, values, "backbone")
    assert answer in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_of_groups_have_names_with_dots():
    assert list(setting_names(EvaluationConfig())) == ["every", "episodes", "coverage_episodes"]
    names = list(setting_names(NESTED))
    assert {"world.deter", "behaviour.horizon", "objective.features", "replay.capacity"} <= set(names)
    assert not {"world", "deter"} & set(names)
    assert setting(NESTED, "world.deter") == 64
    assert nested([("clip", 1), ("world.deter", 2), ("world.stoch", 3)]) == {
        "clip": 1,
        "world": {"deter": 2, "stoch": 3},
    }


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        (
            {"number_of_skils": 5},
            "objective.number_of_skils is not a setting of DIAYN; did you mean 'number_of_skills'?",
        ),
        ({"Hidden": 5}, "did you mean 'hidden'?"),
        ({"xyzzy": 5}, "objective.xyzzy is not a setting of DIAYN; known are number_of_skills"),
        ({"number_of_skills": "five"}, "DIAYN.number_of_skills cannot be 'five'"),
        ({"number_of_skills": True}, "DIAYN.number_of_skills cannot be True"),
        (DIAYN(5), "objective cannot be DIAYN("),
        (5, "objective cannot be 5; give settings by name"),
    ],
)
def test_what_does_not_fit_is_one_sentence(values, answer):
    with pytest.raises(UserError) as caught:
        overridden(DIAYN(), values, "objective")
    assert answer in str(caught.value)
    assert "\n" not in str(caught.value)


# Kept as JSON


def test_what_is_kept_is_what_a_file_gives_back():
    assert plain({"a": (1, 2.5), "b": {"c": None}, "d": True}, "--env.kwargs") == {
        "a": [1, 2.5],
        "b": {"c": None},
        "d": True,
    }


@pytest.mark.parametrize("value", [{1, 2}, b"text", object(), float("nan"), 1j, [float("inf")]])
def test_what_no_file_can_hold_is_refused_by_its_name(value):
    with pytest.raises(UserError, match=r"--env\.kwargs .* JSON, which cannot hold a="):
        plain({"b": 1, "a": value}, "--env.kwargs")


# Compared


@pytest.mark.parametrize(
    ("theirs", "ours", "words"),
    [
        ({"steps": 1}, {"steps": 1}, []),
        ({"steps": 100_000}, {"steps": 250_000}, ["steps: 100,000 in the run, 250,000 asked for"]),
        # The snapshots follow from the steps.
        ({"steps": 1, "snapshots": [1]}, {"steps": 2, "snapshots": []}, ["steps: 1 in the run, 2 asked for"]),
        ({"snapshots": [1]}, {"snapshots": []}, ["snapshots: [1] in the run, [] asked for"]),
        (
            {"objective": {"name": "sd3", "width": 8, "floor": None}},
            {"objective": {"name": "sd3", "width": 16, "floor": -1.0}},
            ["objective.width: 8 in the run, 16 asked for", "objective.floor: none in the run, -1.0 asked for"],
        ),
        (
            {"objective": {"name": "sd3", "width": 8}},
            {"objective": {"name": "cic", "hidden": [8]}},
            ["objective.name: sd3 in the run, cic asked for"],
        ),
        (
            {"backbone": {"name": "dreamer", "world": {"deter": 200, "stoch": 32}}},
            {"backbone": {"name": "dreamer", "world": {"deter": 300, "stoch": 32}}},
            ["backbone.world.deter: 200 in the run, 300 asked for"],
        ),
        (
            {"backbone": {"name": "dreamer", "world": {"deter": 200}}},
            {"backbone": {"name": "sac", "tau": 0.1}},
            ["backbone.name: dreamer in the run, sac asked for"],
        ),
        ({"objective": None}, {"objective": {"name": "cic"}}, ["objective: none in the run, cic asked for"]),
        ({"phase": "a", "task": None}, {"phase": "b", "task": "c"}, ["phase: a in the run, b asked for"]),
        (
            {"env": "x", "definition": {"walls": []}},
            {"env": "x", "definition": {"walls": [1]}},
            ["the file of the environment has changed"],
        ),
        # The layout follows from the maze.
        (
            {"env": "x", "definition": {"walls": []}},
            {"env": "y", "definition": {"walls": [1]}},
            ["env: x in the run, y asked for"],
        ),
        (
            {"evaluation": {"every": 10, "episodes": 2}},
            {"evaluation": {"every": 10, "episodes": 3}},
            ["evaluation.episodes: 2 in the run, 3 asked for"],
        ),
        ({"env_kwargs": {"g": 1}}, {"env_kwargs": {"g": 2}}, ["env_kwargs.g: 1 in the run, 2 asked for"]),
        ({"env_kwargs": {"g": 1}}, {"env_kwargs": {}}, ["env_kwargs.g: 1 in the run, none asked for"]),
        ({"env_kwargs": {}}, {"env_kwargs": {"g": 1}}, ["env_kwargs.g: none in the run, 1 asked for"]),
    ],
)
def test_differences_are_named_with_both_values(theirs, ours, words):
    assert differences(theirs, ours) == words


def test_other_settings_are_refused_with_all_that_differs(tmp_path):
    check_unchanged(tmp_path, {"steps": 1}, {"steps": 1})
    with pytest.raises(UserError) as caught:
        check_unchanged(tmp_path, {"steps": 1, "seed": 2}, {"steps": 3, "seed": 4})
    assert str(caught.value) == (
        f"{tmp_path} was trained with other settings (steps: 1 in the run, 3 asked for; seed: 2 in the run, 4 asked for"
        "); resume it with its own, or choose another --out."
    )
