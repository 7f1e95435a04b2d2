"""Presets: their names, what a backbone is at each, and that ``paper`` from images is pixel-based URLB.

The last number by number; an action takes two frames.
"""

import dataclasses
from typing import ClassVar

import pytest

from skillscape import backbones, presets
from skillscape.backbones.ddpg import DDPG
from skillscape.backbones.ppo import PPO
from skillscape.backbones.sac import SAC
from skillscape.errors import UserError
from skillscape.objectives import registry
from skillscape.objectives.diayn import DIAYN
from skillscape.objectives.sd3 import SD3
from skillscape.ranges import check_ranges

BUDGET = {
    "steps": 1_000_000,
    "finetuning_steps": 50_000,
    "evaluation_episodes": 10,
    "snapshots": (50_000, 250_000, 500_000, 1_000_000),
}
OPTIMIZER = {"epsilon": 1e-5, "clip_norm": 100.0, "weight_decay": 1e-6}
HEADS = {"units": 400, "layers": 4, "activation": "elu"}
REFERENCE = {
    "world": {
        "encoder": "convolutions",
        "depth": 48,
        "normalize_images": False,
        "deter": 200,
        "hidden": 200,
        "stoch": 32,
        "classes": 32,
        "unimix": 0.0,
        "kl_scale": 1.0,
        "kl_balance": 0.8,
        "free_nats": 1.0,
        "continue_head": False,
        "learning_rate": 3e-4,
        **HEADS,
        **OPTIMIZER,
    },
    "behaviour": {
        "skill_scale": 1.0,
        "imagined_starts": 0,
        "horizon": 15,
        "discount": 0.99,
        "discount_lambda": 0.95,
        "reward_norm_momentum": 0.95,
        "critic": "normal",
        "actor_output_l2": 0.0,
        "center_rewards": False,
        "target_every": 100,
        "learning_rate": 8e-5,
        **HEADS,
        **OPTIMIZER,
    },
    "replay": {
        "batch_size": 50,
        "sequence_length": 50,
        "update_every": 5,
        "warmup_steps": 2_000,
        "capacity": 1_000_000,
    },
}
PRETRAINING = {
    "world": {"reward_head_gradient": False},
    "objective": {"imagined_skills": "fresh"},
    "replay": {"warmup_policy": False},
}
FINETUNING = {
    "world": {"reward_head_gradient": True},
    "behaviour": {"entropy": 1e-4, "normalize": "none"},
    "objective": {"reward_on": "imagined", "reward_gradient": True, "imagined_skills": "replayed"},
    "replay": {"warmup_policy": True},
}


def paper(method):
    return presets.get(method, "urlb-pixels", "walker-pixels", "paper")


def check(part, table):
    assert {name: getattr(part, name) for name in table} == table


def check_groups(backbone, *tables):
    for table in tables:
        for group, settings in table.items():
            check(getattr(backbone, group), settings)


@pytest.mark.parametrize("method", registry())
def test_the_paper_preset_from_images_is_the_reference(method):
    chosen = paper(method)
    check(chosen, BUDGET)
    check_groups(chosen.backbone, REFERENCE, PRETRAINING)
    check_groups(chosen.backbone.task_config(pretrained=True), REFERENCE, FINETUNING)
    # Whoever learns a task from scratch knows no better than chance at first.
    check_groups(paper(None).backbone, REFERENCE, {**FINETUNING, "replay": {"warmup_policy": False}})


@pytest.mark.parametrize(
    ("method", "entropy", "normalize", "climbed"),
    [
        ("icm", 0.0, "rewards", True),
        ("disagreement", 0.0, "rewards", True),
        ("rnd", 0.0, "none", True),
        ("apt", 0.0, "rewards", False),
        ("aps", 0.0, "none", False),
        # Where the reference leaves CIC's rewards as they are, its critic is one of successor features.
        ("cic", 0.0, "rewards", False),
        ("diayn", 0.1, "rewards", True),
    ],
)
def test_what_goes_with_a_method_is_as_in_the_reference(method, entropy, normalize, climbed):
    behaviour, objective = {"entropy": entropy, "normalize": normalize}, {"reward_gradient": climbed}
    check_groups(paper(method).backbone, {"behaviour": behaviour, "objective": objective})


def test_a_skill_lasts_a_hundred_frames():
    assert paper("diayn").objective.resample_every == 50


ENVS = {
    "maze": "maze/square_a",
    "maze-pixels": "maze-pixels/square_a",
    "urlb": "walker",
    "urlb-pixels": "walker-pixels",
    "playground": "playground/CartpoleBalance",
}
EVERY_PRESET = pytest.mark.parametrize(
    ("benchmark", "preset"), [(benchmark, preset) for benchmark in ENVS for preset in presets.names(benchmark)]
)


@EVERY_PRESET
@pytest.mark.parametrize("method", [None, *registry()])
def test_every_method_has_legal_settings_with_every_backbone(method, benchmark, preset):
    for backbone in (None, *backbones.registry()):
        settings = presets.get(method, benchmark, ENVS[benchmark], preset, backbone)
        check_ranges(settings.backbone, "backbone")
        assert backbone in (None, settings.backbone.name)
        assert (settings.objective is None) == (method is None)
        if settings.objective is not None:
            check_ranges(settings.objective, "objective")
            assert settings.objective.name == method


def test_presets_are_listed_with_the_default_first():
    assert presets.names("maze") == ("default", "compact", "paper", "long", "smoke")
    assert presets.names("urlb") == ("compact", "paper", "smoke")
    assert presets.names("playground") == ("default", "compact", "smoke")
    assert presets.names("urlb-pixels") == presets.names("maze-pixels") == ("laptop", "paper", "smoke")
    for benchmark, env in ENVS.items():
        default = presets.default_preset(benchmark)
        assert default == presets.names(benchmark)[0]
        assert presets.get("sd3", benchmark, env) == presets.get("sd3", benchmark, env, default)


def test_every_benchmark_has_a_backbone_of_its_own():
    named = {benchmark: presets.get(None, benchmark, env).backbone.name for benchmark, env in ENVS.items()}
    assert named == {
        "maze": "ppo",
        "maze-pixels": "dreamer",
        "urlb": "ddpg",
        "urlb-pixels": "dreamer",
        "playground": "ppo",
    }


@pytest.mark.parametrize("preset", ["default", "compact", "paper", "long", "smoke"])
def test_mazes_keep_no_snapshots_on_the_way(preset):
    settings = presets.get("sd3", "maze", "maze/square_a", preset)
    assert settings.snapshots == ()
    assert settings.finetuning_steps == (2_000 if preset == "smoke" else 100_000)


def test_the_compact_preset_of_mazes_is_the_default_one():
    assert presets.get("sd3", "maze", "maze/square_a", "compact") == presets.get("sd3", "maze", "maze/square_a")


@pytest.mark.parametrize(
    ("benchmark", "preset", "backbone"),
    [
        ("urlb", "compact", SAC(hidden=(256, 256), skill_scale=3.0)),
        ("urlb", "paper", SAC(hidden=(1024, 1024))),
        ("urlb", "smoke", SAC(hidden=(16, 16), batch_size=32, warmup_steps=1_000)),
        ("maze", "default", SAC(hidden=(128, 128), warmup_steps=2_000)),
        ("maze", "default", DDPG(width=128, batch_size=256, warmup_steps=2_000)),
        ("maze", "paper", PPO(entropy=0.025, skill_scale=1.0, normalize_obs=False)),
        ("urlb", "compact", PPO()),
    ],
)
def test_a_backbone_can_be_chosen_at_the_size_of_the_preset(benchmark, preset, backbone):
    assert presets.get("diayn", benchmark, ENVS[benchmark], preset, backbone.name).backbone == backbone


@pytest.mark.parametrize(("benchmark", "preset", "size"), [("urlb", "compact", "laptop"), ("maze", "smoke", "smoke")])
@pytest.mark.parametrize("method", registry())
def test_from_numbers_dreamer_and_its_methods_are_as_from_images(method, benchmark, preset, size):
    numbers = presets.get(method, benchmark, ENVS[benchmark], preset, "dreamer")
    images = presets.get(method, f"{benchmark}-pixels", ENVS[f"{benchmark}-pixels"], size)
    assert (numbers.objective, numbers.backbone) == (images.objective, images.backbone)


def test_replayed_mazes_keep_the_maze_s_skills():
    objective = presets.get("sd3", "maze", "maze/square_a", backbone="sac").objective
    assert objective == SD3(history=0)
    assert (objective.number_of_skills, objective.resample_every) == (10, None)


@pytest.mark.parametrize(("method", "pairs"), [("metra", "one-step"), ("csd", "one-step"), ("sd3", "n-step")])
def test_methods_that_constrain_single_steps_are_shown_single_steps(method, pairs):
    assert presets.get(method, "urlb", "walker").backbone.pairs == pairs


def test_a_method_may_be_a_class_that_nobody_registered():
    class Mine(DIAYN):
        name: ClassVar[str] = "mine"

    mine, diayn = (presets.get(method, "urlb", "walker") for method in (Mine, "diayn"))
    assert type(mine.objective) is Mine
    assert dataclasses.asdict(mine.objective) == dataclasses.asdict(diayn.objective)


def test_a_plug_in_backbone_has_its_own_defaults(monkeypatch):
    class Mine(DDPG):
        name: ClassVar[str] = "mine"

    known = {**backbones.registry(), "mine": Mine}
    monkeypatch.setattr(backbones, "registry", lambda: known)
    assert presets.get("diayn", "urlb", "walker", backbone="mine").backbone == Mine()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "sd4"}, "no method 'sd4': did you mean 'sd3'"),
        ({"preset": "papr"}, "no preset 'papr': did you mean 'paper'"),
        ({"preset": "laptop"}, "no preset 'laptop': known are compact, paper, smoke"),
        ({"backbone": "sak"}, "no backbone 'sak': did you mean 'sac'"),
        ({"benchmark": "urbl"}, "no benchmark 'urbl': did you mean 'urlb'"),
    ],
)
def test_unknown_names_are_refused(changes, words):
    with pytest.raises(UserError, match=words):
        presets.get(**{"method": "sd3", "benchmark": "urlb", "env_id": "walker", **changes})


# MuJoCo Playground


@pytest.mark.parametrize("preset", presets.names("playground"))
def test_bodies_are_unrolled_and_what_methods_see_is_standardised(preset):
    ppo = presets.get("sd3", "playground", "playground/CartpoleBalance", preset).backbone
    assert ppo.unroll is not None
    assert ppo.normalize_obs
    assert ppo.normalize_objective_obs
    assert ppo.episodes * ppo.unroll % ppo.minibatches == 0


def test_sd3_remembers_earlier_states_where_no_replay_buffer_does():
    for backbone, history in (("ppo", SD3.history), ("sac", 0)):
        objective = presets.get("sd3", "playground", "playground/CartpoleBalance", None, backbone).objective
        assert objective.history == history


# METRA's locomotion


def test_locomotion_is_trained_as_metra_trains_it():
    settings = presets.get("metra", "locomotion", "ant", "paper")
    assert settings.backbone == SAC(
        hidden=(1024, 1024),
        batch_size=256,
        learning_rate=1e-4,
        discount=0.99,
        tau=0.005,
        # 50 updates for every 8 episodes of 200 steps.
        update_every=8 * 200 // 50,
        warmup_steps=10_000,
        replay_capacity=1_000_000,
    )
    assert (settings.steps, settings.coverage_episodes) == (10_000_000, 48)
    assert settings.objective.hidden == (1024, 1024)
    assert (settings.objective.skill_kind, settings.objective.dimension) == ("continuous", 2)
    cheetah = presets.get("metra", "locomotion", "half_cheetah", "paper").objective
    assert (cheetah.skill_kind, cheetah.number_of_skills) == ("discrete", 16)


@pytest.mark.parametrize("preset", presets.names("locomotion"))
def test_a_skill_lasts_an_episode_of_locomotion(preset):
    for name in ("diayn", "sd3", "metra", "csd", "becl", "cic"):
        assert presets.get(name, "locomotion", "ant", preset).objective.resample_every is None


def test_coverage_counts_extra_episodes_in_locomotion_alone():
    for benchmark in ("maze", "maze-pixels", "urlb", "urlb-pixels"):
        for preset in presets.names(benchmark):
            assert presets.get("diayn", benchmark, "walker", preset).coverage_episodes == 0
