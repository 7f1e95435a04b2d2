"""Mazes, which are written in JAX, learned from a replay buffer on the host like any other environment."""

from dataclasses import replace

import numpy as np
import pytest
from counting import contents

from skillscape.api import finetune, load, pretrain
from skillscape.backbones.ddpg import DDPG
from skillscape.backbones.dreamer import BehaviourConfig, Dreamer, ReplayConfig, WorldConfig
from skillscape.backbones.sac import SAC
from skillscape.errors import Interrupted
from skillscape.training import host_collector

pytestmark = pytest.mark.usefixtures("_quick_compilation")

BACKBONES = {
    "ddpg": DDPG(width=4, batch_size=4, warmup_steps=60),
    "sac": SAC(hidden=(4,), batch_size=4, warmup_steps=60),
    "dreamer": Dreamer(
        world=WorldConfig(embedding=4, deter=4, hidden=4, stoch=2, classes=2, units=4, layers=1),
        behaviour=BehaviourConfig(units=4, layers=1, horizon=2),
        replay=ReplayConfig(batch_size=2, sequence_length=4, update_every=10, warmup_steps=60, capacity=1000),
    ),
}


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(host_collector, "LOG_EVERY", 20)


def trained(out, backbone, *, steps=140, **options):
    return pretrain(
        "diayn",
        "maze/square_a",
        out=out,
        preset="smoke",
        steps=steps,
        backbone=BACKBONES[backbone],
        objective={"number_of_skills": 2},
        evaluation={"every": 70, "episodes": 2},
        finetuning_steps=80,
        progress=False,
        **options,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mazes")


@pytest.fixture
def whole(folder):
    """A run that nothing disturbs, once for each backbone."""

    def make(backbone, **options):
        name = "-".join([backbone, *options])
        return load(folder / name) if (folder / name).exists() else trained(folder / name, backbone, **options)

    return make


@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_backbone_with_replay_learns_in_a_maze(whole, backbone):
    run = whole(backbone)
    # The first complete episode has 50 steps, and learning begins after 60.
    assert run.metrics()["step"] == [80, 100, 120, 140]
    assert np.isfinite(run.metrics()["reward"]).all()
    # The measures of a maze, from the start on.
    assert run.evaluation()["step"] == [0, 70, 140]
    assert {"coverage", "reach", "skill_accuracy"} <= run.evaluation().keys()
    assert run.results["steps"] == 140
    assert run.policy(skill=1)(np.zeros(2)).shape == (2,)


@pytest.mark.parametrize(("backbone", "options"), [("sac", {"copies": 3}), ("dreamer", {})])
def test_a_run_that_is_stopped_in_a_maze_goes_on_to_the_same_numbers(whole, stopping, tmp_path, backbone, options):
    with pytest.raises(Interrupted):
        trained(tmp_path / "run", backbone, callbacks=[stopping(100)], **options)
    run = trained(tmp_path / "run", backbone, resume=True, **options)
    assert contents(run.folder) == contents(whole(backbone, **options).folder)
    assert run.results == whole(backbone, **options).results


def test_what_was_learned_from_replay_is_fine_tuned_on_a_task_of_the_maze(whole, tmp_path):
    run = finetune(whole("ddpg"), "reach", skill="grid", out=tmp_path / "run", progress=False)
    assert run.results["skill_strategy"] == "grid"
    assert run.config.backbone == replace(BACKBONES["ddpg"], pairs="n-step")
    assert float(run.kept_skill().sum()) == 1
    assert run.evaluation()["step"] == [0, 70, 80]
