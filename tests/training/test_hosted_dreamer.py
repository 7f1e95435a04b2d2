"""Dreamer in the hosted loop: it learns from sequences, and what acting remembers survives a stop."""

import os
import re
import signal
from dataclasses import replace

import jax
import numpy as np
import pytest
import toys

from skillscape.backbones.dreamer.agent import Dreamer
from skillscape.errors import Interrupted, UserError
from skillscape.objectives.aps import APS
from skillscape.objectives.diayn import DIAYN
from skillscape.replay import Visible
from skillscape.training import hosted
from skillscape.training.jobs import Job, JobRun, adapted_state, finetuning, init_state
from skillscape.training.log import read_metrics
from skillscape.types import EnvSpec

TINY = Dreamer(
    embedding=4,
    memory=4,
    hidden=4,
    groups=2,
    classes=2,
    units=4,
    layers=1,
    activation="relu",
    batch_size=2,
    sequence_length=4,
    horizon=2,
    update_every=10,
    random_steps=40,
    policy_steps=40,
    replay_capacity=1000,
)
JOB = Job(
    phase="pretrain",
    env="gym/toys:Toy-v0",
    task=None,
    noise=0.0,
    objective=DIAYN(3, (4,), resample_every=7),
    backbone=TINY,
    steps=120,
    seed=3,
    evaluate_every=50,
    evaluation_episodes=1,
)
JOBS = {
    "vectors": JOB,
    "images": replace(
        JOB,
        env="gym/toys:Pictured-v0",
        backbone=replace(TINY, encoder="patches", patch=32, patch_width=2, standardise_frames=True),
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation():
    """These runs take a few steps; compiling them well would take longer."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(hosted, "LOG_EVERY", 20)


def train(folder, job=JOB):
    run = JobRun(folder) if folder.exists() else JobRun.create(folder, job)
    state = init_state(run.config, run.spec)
    hosted.train_job(run, state, lambda *_: {"return": 0.0}, lambda *_: None)
    return run


def contents(folder):
    """Everything that training wrote, but times and events."""
    names = [path for path in sorted(folder.rglob("*")) if path.suffix in (".csv", ".safetensors", ".f32", ".u8")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in names}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Makes the folder of a run that nothing stopped, once for vectors and once for images."""
    folder = tmp_path_factory.mktemp("whole")

    def make(seen):
        if not (folder / seen).exists():
            train(folder / seen, JOBS[seen])
        return folder / seen

    return make


def test_it_learns_once_for_every_tenth_step_and_changes_every_part(tmp_path):
    run = train(tmp_path / "run")
    state, _ = run.newest()
    assert int(state.agent.updates) == (JOB.steps - TINY.random_steps) // TINY.update_every
    before = init_state(JOB, run.spec).agent
    for part in ("world", "actor", "critic"):
        old, new = getattr(before, part).params, getattr(state.agent, part).params
        assert old != new
    metrics = read_metrics(run.folder / "metrics.csv")
    assert np.all(np.isfinite(metrics["reward"]))


# It is saved in the middle of an episode with a policy that has changed since it began, or between two episodes.
@pytest.mark.parametrize(
    ("seen", "lived"),
    [("vectors", 58), ("vectors", 63), ("vectors", 74), ("vectors", 88), ("images", 88)],
)
def test_a_run_that_is_stopped_goes_on_to_the_same_numbers(tmp_path, monkeypatch, whole, seen, lived):
    step = toys.Toy.step

    def stepping(self, action):
        if self.lived == lived:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, action)

    with monkeypatch.context() as patch:
        patch.setattr(toys.Toy, "step", stepping)
        with pytest.raises(Interrupted):
            train(tmp_path / "run", JOBS[seen])
    assert contents(train(tmp_path / "run", JOBS[seen]).folder) == contents(whole(seen))


def test_images_go_to_a_buffer_of_bytes_and_their_moments_stay_with_the_agent(whole):
    found = contents(whole("images"))
    assert {"replay/obs.u8", "replay/action.f32"} <= set(found)
    assert "replay/obs.f32" not in found
    frames = JobRun(whole("images")).newest()[0].agent.frames
    # One frame of each sequence of every update.
    updates = (JOB.steps - TINY.random_steps) // TINY.update_every
    assert float(frames.moments.count) == pytest.approx(updates * TINY.batch_size, abs=0.01)


def test_the_policy_takes_the_first_steps_of_a_fine_tuning(tmp_path):
    tuned = replace(JOB, phase="finetune", task=JOB.env, backbone=TINY.for_task(pretrained=True), steps=40, skill="1")
    folders = [tmp_path / "random", tmp_path / "policy"]
    train(folders[0], replace(tuned, backbone=TINY.for_task(pretrained=False)))
    train(folders[1], tuned)
    actions = [np.fromfile(folder / "replay" / "action.f32", np.float32) for folder in folders]
    assert not np.array_equal(*actions)
    notes = [JobRun(folder).newest()[1]["collector"] for folder in folders]
    # Random steps need no memory; the policy's memory is not empty in the middle of an episode.
    assert not np.any(notes[0]["carry"][0])
    assert np.any(notes[1]["carry"][0])


def test_a_skill_is_inferred_from_what_the_objective_saw(tmp_path):
    source = train(tmp_path / "source", replace(JOB, objective=APS(3, (4,), neighbours=2), steps=60))
    tuned = finetuning(source, JOB.env, None, None, steps=50, seed=3)
    assert tuned.skill == "infer"
    run = JobRun.create(tmp_path / "run", tuned)
    run.lend_model(source.snapshot()[2])
    hosted.train_job(run, adapted_state(tuned, source), lambda *_: {"return": 0.0}, lambda *_: None)
    chosen = np.array(run.newest()[1]["collector"]["lasting"])
    assert np.linalg.norm(chosen) == pytest.approx(1, abs=1e-5)


def test_what_is_learned_after_the_choice_of_a_skill_is_under_that_skill(tmp_path, monkeypatch):
    shown, plain = [], hosted.update_step

    def watched(job):
        update = plain(job)

        def step(state, batch):
            jax.debug.callback(lambda skill: shown.append(np.array(skill)), batch.skill, ordered=True)
            return update(state, batch)

        return step

    monkeypatch.setattr(hosted, "update_step", watched)
    tuned = replace(JOB, phase="finetune", task=JOB.env, backbone=TINY.for_task(pretrained=True), steps=80)
    grid = train(tmp_path / "grid", replace(tuned, skill="grid"))
    chosen = np.array(grid.newest()[1]["collector"]["lasting"], np.float32)
    acted = np.fromfile(grid.folder / "replay" / "skill.f32", np.float32).reshape(-1, 3)
    assert len(np.unique(acted[: TINY.policy_steps], axis=0)) > 1
    assert shown
    assert all((skill == chosen).all() for skill in shown)


def test_no_skill_is_inferred_from_what_fine_tuning_does_not_compute(tmp_path):
    scored = replace(JOB, objective=APS(3, (4,), neighbours=2), backbone=replace(TINY, reward_on="replayed"), steps=60)
    source = train(tmp_path / "source", scored)
    with pytest.raises(UserError, match="no skill can be inferred"):
        finetuning(source, JOB.env, None, None, steps=50, seed=3)
    assert finetuning(source, JOB.env, "random", None, steps=50, seed=3).skill == "random"


def test_episodes_that_are_too_short_for_a_sequence_are_refused():
    with pytest.raises(UserError, match=r"; set --backbone.sequence-length of at most 3"):
        JOB.check_env(EnvSpec((2,), 1, 2))
    with pytest.raises(UserError, match=r"; pre-train again with --backbone.sequence-length of at most 3"):
        replace(JOB, source="runs/x").check_env(EnvSpec((2,), 1, 2))
    with pytest.raises(UserError, match=r"from scratch in Python with backbone=\{'sequence_length': 3\}"):
        replace(JOB, phase="finetune").check_env(EnvSpec((2,), 1, 2))


def end_after(monkeypatch, steps):
    """Every episode is over after so many steps, whatever limit the environment was registered with."""
    step = toys.Toy.step

    def stepping(self, action):
        obs, reward, _, cut, told = step(self, action)
        return obs, reward, self.time == steps, cut, told

    monkeypatch.setattr(toys.Toy, "step", stepping)


@pytest.mark.parametrize(("random_steps", "episodes"), [(10, 20), (40, 20), (60, 30)])
def test_episodes_that_always_end_before_a_sequence_are_told(tmp_path, monkeypatch, random_steps, episodes):
    end_after(monkeypatch, 2)
    job = replace(JOB, backbone=replace(TINY, random_steps=random_steps), evaluate_every=20)
    told = (
        f"longest of the first {episodes} episodes of {JOB.env} has 2 steps, but sequences of 4 states are learned "
        "from; train again with --force and --backbone.sequence-length of at most 3."
    )
    for _ in range(2):  # going on with it, the same
        with pytest.raises(UserError, match=re.escape(told)):
            train(tmp_path / "run", job)
        assert [int(path.name) for path in sorted(JobRun(tmp_path / "run").checkpoints.iterdir())] == [
            2 * episodes - 20,
            2 * episodes,
        ]


def test_episodes_of_just_a_sequence_are_learned_from(tmp_path, monkeypatch):
    end_after(monkeypatch, 3)
    state, _ = train(tmp_path / "run", replace(JOB, steps=80)).newest()
    assert int(state.agent.updates) == 4


def test_a_run_that_has_learned_goes_on_where_the_episodes_become_too_short():
    loop = object.__new__(hosted._Loop)
    loop._job = JOB
    rows = np.array([(3 * number, 2, 1, 0) for number in range(30)])

    def check(some):
        loop._check_lengths(Visible(some, 2 * np.arange(1, len(some) + 1)))

    check(rows[:0])
    check(rows[:19])
    with pytest.raises(UserError, match="longest of the first 20 episodes"):
        check(rows[:20])
    check(rows[1:])  # the first one has been given up, and may have been longer
    loop._job = replace(JOB, phase="finetune", source="somewhere")
    with pytest.raises(UserError, match=r"pre-train again with --backbone.sequence-length of at most 3"):
        check(rows)
