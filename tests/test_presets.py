"""The preset ``paper`` from images is pixel-based URLB, number by number; an action takes two frames."""

import pytest

from skillscape.objectives import registry
from skillscape.presets import hosted_settings

BUDGET = {
    "steps": 1_000_000,
    "finetuning_steps": 50_000,
    "evaluation_episodes": 10,
    "snapshots": (50_000, 250_000, 500_000, 1_000_000),
}
MODEL = {
    "encoder": "convolutions",
    "depth": 48,
    "standardise_frames": False,
    "memory": 200,
    "hidden": 200,
    "groups": 32,
    "classes": 32,
    "units": 400,
    "layers": 4,
    "skill_scale": 1.0,
    "activation": "elu",
    "uniform_mix": 0.0,
    "divergence_scale": 1.0,
    "balance": 0.8,
    "free_nats": 1.0,
    "predict_ends": False,
    "model_learning_rate": 3e-4,
}
BEHAVIOUR = {
    "imagined_starts": 0,
    "horizon": 15,
    "discount": 0.99,
    "trace_decay": 0.95,
    "reward_rate": 0.95,
    "critic": "normal",
    "restraint": 0.0,
    "centred": False,
    "target_every": 100,
    "learning_rate": 8e-5,
    "epsilon": 1e-5,
    "clip_norm": 100.0,
    "decay": 1e-6,
}
SCHEDULE = {
    "batch_size": 50,
    "sequence_length": 50,
    "update_every": 5,
    "random_steps": 2_000,
    "replay_capacity": 1_000_000,
}
PRETRAINING = {"reward_shapes_model": False, "policy_first": False, "imagined_skills": "fresh"}
FINETUNING = {
    "entropy": 1e-4,
    "normalise": "none",
    "reward_shapes_model": True,
    "policy_first": True,
    "reward_on": "imagined",
    "reward_gradient": True,
    "imagined_skills": "replayed",
}


def paper(method):
    return hosted_settings(method, "walker-pixels", "paper")


def check(part, table):
    assert {name: getattr(part, name) for name in table} == table


@pytest.mark.parametrize("method", registry())
def test_the_paper_preset_from_images_is_the_reference(method):
    chosen = paper(method)
    check(chosen, BUDGET)
    check(chosen.backbone, MODEL | BEHAVIOUR | SCHEDULE | PRETRAINING)
    check(chosen.backbone.for_task(pretrained=True), MODEL | BEHAVIOUR | SCHEDULE | FINETUNING)
    # Whoever learns a task from scratch knows no better than chance at first.
    check(paper(None).backbone, MODEL | BEHAVIOUR | SCHEDULE | FINETUNING | {"policy_first": False})


@pytest.mark.parametrize(
    ("method", "entropy", "normalise", "climbed"),
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
def test_what_goes_with_a_method_is_as_in_the_reference(method, entropy, normalise, climbed):
    check(paper(method).backbone, {"entropy": entropy, "normalise": normalise, "reward_gradient": climbed})


def test_a_skill_lasts_a_hundred_frames():
    assert paper("diayn").objective.resample_every == 50
