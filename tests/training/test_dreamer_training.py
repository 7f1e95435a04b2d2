"""Training Dreamer: it learns from sequences, and what acting remembers survives a stop."""

import re
from dataclasses import replace

import numpy as np
import pytest
import toys
from counting import opened, saved_steps, signalling_at, train_runs
from dreams import changed

from skillscape.backbones.dreamer import BehaviourConfig, Dreamer, ReplayConfig, WorldConfig
from skillscape.config import EvaluationConfig, RunConfig
from skillscape.configure import finetuning_of
from skillscape.errors import Interrupted, UserError
from skillscape.objectives.aps import APS
from skillscape.objectives.diayn import DIAYN
from skillscape.replay import EpisodeIndex
from skillscape.training import host_collector, trainer
from skillscape.training.host_collector import HostCollector
from skillscape.training.run import Run, adapted_state
from skillscape.training.state import init_state
from skillscape.types import EnvSpec

pytestmark = pytest.mark.usefixtures("_toy_loop", "_quick_compilation")

TINY = Dreamer(
    world=WorldConfig(embedding=4, deter=4, hidden=4, stoch=2, classes=2, units=4, layers=1, activation="relu"),
    behaviour=BehaviourConfig(units=4, layers=1, activation="relu", horizon=2),
    replay=ReplayConfig(
        batch_size=2, sequence_length=4, update_every=10, warmup_steps=40, task_warmup_steps=40, capacity=1000
    ),
)
CONFIG = RunConfig(
    phase="pretrain",
    env="gym/toys:Toy-v0",
    task=None,
    objective=DIAYN(3, hidden=(4,), resample_every=7),
    backbone=TINY,
    steps=120,
    seed=3,
    evaluation=EvaluationConfig(50, 1),
)
CONFIGS = {
    "vectors": CONFIG,
    "copies": replace(CONFIG, env="gym/toys:Ending-v0", copies=3),
    "images": replace(
        CONFIG,
        env="gym/toys:Pictured-v0",
        backbone=changed(TINY, world={"encoder": "patches", "patch": 32, "patch_width": 2, "normalize_images": True}),
    ),
}


def train(folder, config=CONFIG):
    run = opened(folder, config)
    train_runs([run], lambda *_: {"return": 0.0})
    return run


def contents(folder):
    """Everything that training wrote, but times and events."""
    names = [path for path in sorted(folder.rglob("*")) if path.suffix in (".csv", ".safetensors", ".f32", ".u8")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in names}


@pytest.fixture(scope="module")
def folder_of_wholes(tmp_path_factory):
    return tmp_path_factory.mktemp("whole")


@pytest.fixture
def whole(folder_of_wholes):
    """Makes the folder of a run that nothing stopped, once for each configuration."""

    def make(name):
        if not (folder_of_wholes / name).exists():
            train(folder_of_wholes / name, CONFIGS[name])
        return folder_of_wholes / name

    return make


def test_it_learns_once_for_every_tenth_step_and_changes_every_part(whole):
    run = Run(whole("vectors"))
    state, _ = run.newest()
    assert int(state.agent.updates) == (CONFIG.steps - TINY.replay.warmup_steps) // TINY.replay.update_every
    before = init_state(CONFIG, run.spec).agent
    for part in ("world", "actor", "critic"):
        old, new = getattr(before, part).params, getattr(state.agent, part).params
        assert old != new
    assert np.all(np.isfinite(run.metrics()["reward"]))


# It is saved in the middle of an episode with a policy that has changed it began, or between two episodes.
@pytest.mark.parametrize(
    ("name", "lived"),
    [
        ("vectors", 58),
        ("vectors", 63),
        ("vectors", 74),
        ("vectors", 88),
        ("images", 88),
        ("copies", 50),
        ("copies", 74),
    ],
)
def test_a_run_that_is_stopped_goes_on_to_the_same_numbers(tmp_path, monkeypatch, whole, name, lived):
    config = CONFIGS[name]
    with monkeypatch.context() as patch:
        signalling_at(patch, lived)
        with pytest.raises(Interrupted):
            train(tmp_path / "run", config)
    assert contents(train(tmp_path / "run", config).folder) == contents(whole(name))


def test_images_go_to_a_buffer_of_bytes_and_their_moments_stay_with_the_agent(whole):
    found = contents(whole("images"))
    assert {"replay/obs.u8", "replay/action.f32"} <= set(found)
    assert "replay/obs.f32" not in found
    frames = Run(whole("images")).newest()[0].agent.image_norm
    # One frame of each sequence of every update.
    updates = (CONFIG.steps - TINY.replay.warmup_steps) // TINY.replay.update_every
    assert float(frames.moments.count) == pytest.approx(updates * TINY.replay.batch_size, abs=0.01)


def test_the_policy_takes_the_first_steps_of_a_fine_tuning(tmp_path):
    tuned = replace(
        CONFIG, phase="finetune", task=CONFIG.env, backbone=TINY.task_config(pretrained=True), steps=30, skill="1"
    )
    folders = [tmp_path / "random", tmp_path / "policy"]
    train(folders[0], replace(tuned, backbone=TINY.task_config(pretrained=False)))
    train(folders[1], tuned)
    actions = [np.fromfile(folder / "replay" / "action.f32", np.float32) for folder in folders]
    assert not np.array_equal(*actions)
    carries = [Run(folder).newest()[1]["envs"]["carry"] for folder in folders]
    # Random steps need no memory; the policy's memory is not empty in the middle of an episode.
    assert not np.any(carries[0][0])
    assert np.any(carries[1][0])


def test_a_skill_is_inferred_from_what_the_objective_saw(tmp_path):
    source = train(tmp_path / "source", replace(CONFIG, objective=APS(3, hidden=(4,), neighbours=2), steps=60))
    tuned = finetuning_of(source, CONFIG.env, steps=50)
    assert tuned.skill == "infer"
    run = Run.create(tmp_path / "run", tuned)
    run.keep_model(source.snapshot().objective)
    begin, evaluate = lambda run: adapted_state(run.config, source, run.spec), lambda *_: {"return": 0.0}
    trainer.train([run], begin, [evaluate], [], workers=1, on_end=lambda run: None)
    assert np.linalg.norm(run.kept_skill()) == pytest.approx(1, abs=1e-5)


def test_what_is_learned_after_the_choice_of_a_skill_is_under_that_skill(tmp_path, monkeypatch):
    shown, plain = [], host_collector.compiled_update

    def watched(*settings):
        update = plain(*settings)

        def step(state, batch):
            shown.append(np.array(batch.skill))
            return update(state, batch)

        return step

    monkeypatch.setattr(host_collector, "compiled_update", watched)
    tuned = replace(CONFIG, phase="finetune", task=CONFIG.env, backbone=TINY.task_config(pretrained=True), steps=80)
    grid = train(tmp_path / "grid", replace(tuned, skill="grid"))
    chosen = grid.kept_skill()
    acted = np.fromfile(grid.folder / "replay" / "skill.f32", np.float32).reshape(-1, 3)
    assert len(np.unique(acted[: TINY.replay.task_warmup_steps], axis=0)) > 1
    assert shown
    assert all((skill == chosen).all() for skill in shown)


def test_no_skill_is_inferred_from_what_fine_tuning_does_not_compute(tmp_path):
    on_replayed = changed(TINY, objective={"reward_on": "replayed"})
    scored = replace(CONFIG, objective=APS(3, hidden=(4,), neighbours=2), backbone=on_replayed, steps=60)
    source = train(tmp_path / "source", scored)
    with pytest.raises(UserError, match="--skill infer is not available"):
        finetuning_of(source, CONFIG.env, steps=50)
    assert finetuning_of(source, CONFIG.env, skill="random", steps=50).skill == "random"


def test_episodes_that_are_too_short_for_a_sequence_are_refused():
    told = "Episodes of gym/toys:Toy-v0 have 2 steps, but sequences of 4 states are learned from; set "
    told += "--backbone.replay.sequence-length to at most 3."
    for config in (CONFIG, replace(CONFIG, phase="finetune", source="runs/x"), replace(CONFIG, phase="train")):
        with pytest.raises(UserError, match=re.escape(told)):
            config.check_env(EnvSpec((2,), 1, 2))


def end_after(monkeypatch, steps):
    """Every episode is over after so many steps, whatever limit the environment was registered with."""
    step = toys.Toy.step

    def stepping(self, action):
        obs, reward, _, cut, told = step(self, action)
        return obs, reward, self.time == steps, cut, told

    monkeypatch.setattr(toys.Toy, "step", stepping)


@pytest.mark.parametrize(("warmup_steps", "episodes"), [(10, 20), (40, 20), (60, 30)])
def test_episodes_that_always_end_before_a_sequence_are_told(tmp_path, monkeypatch, warmup_steps, episodes):
    end_after(monkeypatch, 2)
    backbone, evaluation = changed(TINY, replay={"warmup_steps": warmup_steps}), EvaluationConfig(20, 1)
    config = replace(CONFIG, backbone=backbone, evaluation=evaluation)
    told = (
        f"longest of the first {episodes} episodes of {CONFIG.env} has 2 steps, but sequences of 4 states are learned "
        "from; train again with --force and set --backbone.replay.sequence-length to at most 3."
    )
    for _ in range(2):  # going on with it, the same
        with pytest.raises(UserError, match=re.escape(told)):
            train(tmp_path / "run", config)
        assert saved_steps(tmp_path / "run") == [2 * episodes - 20, 2 * episodes]


def test_episodes_of_just_a_sequence_are_learned_from(tmp_path, monkeypatch):
    end_after(monkeypatch, 3)
    state, _ = train(tmp_path / "run", replace(CONFIG, steps=80)).newest()
    assert int(state.agent.updates) == 4


def test_a_run_that_has_learned_goes_on_where_the_episodes_become_too_short():
    collector = object.__new__(HostCollector)
    collector._config = CONFIG
    rows = np.array([(3 * number, 2, 1, 0) for number in range(30)])

    def check(some):
        collector._check_lengths(EpisodeIndex(some, 2 * np.arange(1, len(some) + 1)))

    check(rows[:0])
    check(rows[:19])
    with pytest.raises(UserError, match="longest of the first 20 episodes"):
        check(rows[:20])
    check(rows[1:])  # the first one has been given up, and may have been longer
