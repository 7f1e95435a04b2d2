"""From pre-training to fine-tuning, trained for real on a toy. A thousand steps end where learning would begin."""

import json
import shutil
from dataclasses import replace
from itertools import pairwise

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toys  # noqa: F401  makes gym/toys:… known

from skillscape import evaluate
from skillscape.api import finetune, load, load_seeds, pretrain, train
from skillscape.configure import pretraining
from skillscape.errors import Notice, UserError
from skillscape.launch import enable_compilation_cache
from skillscape.objectives import trainable
from skillscape.skill_selection import best_tried

ENV = "gym/toys:Long-v0"
SKILLS = 16


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation():
    """These runs take a few steps; compiling them well would take longer."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Makes the folder of a pre-trained run of a method, once."""
    folder = tmp_path_factory.mktemp("pretrained")

    def make(method):
        if not (folder / method).exists():
            steps = 1040 if method == "diayn" else 1000
            pretrain(method, ENV, out=folder / method, preset="smoke", steps=steps, seed=4)
        return folder / method

    return make


@pytest.fixture(scope="module")
def tuned(trained, tmp_path_factory):
    """Makes the run that fine-tunes DIAYN with a strategy, once."""
    folder = tmp_path_factory.mktemp("finetuned")

    def make(skill, steps=1000):
        out = folder / f"{skill}-{steps}"
        return load(out) if out.exists() else finetune(trained("diayn"), ENV, out=out, skill=skill, steps=steps)

    return make


def files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


# What is left behind


def test_a_pre_training_leaves_all_that_a_run_holds(trained):
    folder = trained("diayn")
    results = json.loads((folder / "results.json").read_text())
    assert results == {
        "method": "diayn",
        "phase": "pretrain",
        "env": ENV,
        "task": None,
        "images": False,
        "seed": 4,
        "steps": 1040,
        "source": None,
        "snapshot": None,
        "skill_strategy": "prior",
        "evaluation_episodes": 2,
        "parameters": results["parameters"],
        "measures": results["measures"],
    }
    names = ["return", "return_best", "return_worst", "length", "model_accuracy", "model_information"]
    assert list(results["measures"]) == names
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "versions.json", "timing.json", "metrics.csv", "evaluation.csv"} <= names
    assert {"checkpoints", "skills", "snapshots", "tensorboard"} <= names
    assert "replay" not in names
    assert not list(folder.rglob("*.partial"))
    assert [path.name for path in (folder / "snapshots").iterdir()] == ["000000001040"]


def layers(*widths):
    """Parameters of a chain of dense layers."""
    return sum((before + 1) * after for before, after in pairwise(widths))


def test_a_run_tells_its_trained_parameters(tmp_path):
    run = pretrain("diayn", out=tmp_path / "run", preset="smoke", steps=400, progress=False)
    skills, widths = run.config.objective.number_of_skills, run.config.objective.hidden
    policy = run.config.backbone.hidden
    # Position and skill to two parameters of each of two actions, and to a value; position to logits of skills.
    backbone = layers(2 + skills, *policy, 4) + layers(2 + skills, *policy, 1)
    assert run.parameters == (backbone, layers(2, *widths, skills))
    assert run.results["parameters"] == run.parameters._asdict()


def test_the_time_of_a_run_adds_up_over_resumes(tmp_path, monkeypatch):
    clock = iter(range(10**6))
    monkeypatch.setattr("skillscape.training.cost.time.perf_counter", lambda: float(next(clock)))
    options = {"out": tmp_path / "run", "preset": "smoke", "progress": False}
    run = pretrain("diayn", steps=800, **options)
    first = run.timing
    assert first.seconds == run.seconds > 0
    assert first.steps_per_second == 800 / first.seconds
    longer = pretrain("diayn", steps=1600, resume=True, **options)
    assert longer.timing.steps == 1600
    # The clock advances by a second at each look, and as many looks are taken in 800 steps as in the next 800.
    assert longer.timing.seconds > 1.5 * first.seconds
    assert json.loads((run.folder / "timing.json").read_text()) == longer.timing._asdict()


def test_a_run_begun_without_a_clock_has_no_time(tmp_path):
    options = {"out": tmp_path / "run", "preset": "smoke", "progress": False}
    run = pretrain("diayn", steps=800, **options)
    state, metadata = run.newest()
    run.save(state, {name: value for name, value in metadata.items() if name != "seconds"})
    (run.folder / "timing.json").unlink()
    longer = pretrain("diayn", steps=1600, resume=True, **options)
    assert longer.results["steps"] == 1600
    assert longer.timing is longer.seconds is None
    assert not (run.folder / "timing.json").exists()


def test_snapshots_are_kept_where_they_were_asked_for_and_can_be_begun_with(tmp_path):
    run = pretrain("diayn", ENV, out=tmp_path / "run", preset="smoke", steps=1010, snapshots=(7, 1004), progress=False)
    assert sorted(int(path.name) for path in (run.folder / "snapshots").iterdir()) == [7, 1004, 1010]
    early, late = (
        finetune(run, out=tmp_path / f"{step}", snapshot=step, steps=20, progress=False) for step in (1004, None)
    )
    assert (early.config.snapshot, late.config.snapshot) == (1004, 1010)
    weights = [each.snapshot(20).agent.actor.params.output.weight for each in (early, late)]
    kept = [run.snapshot(step).agent.actor.params.output.weight for step in (1004, 1010)]
    for ours, theirs in zip(weights, kept, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (weights[0] != weights[1]).any()
    with pytest.raises(UserError, match=r"has no snapshot of step 8; choose one of 7, 1004, 1010\."):
        finetune(run, out=tmp_path / "never", snapshot=8)
    assert not (tmp_path / "never").exists()


def test_snapshots_are_kept_in_mazes_too(tmp_path):
    run = pretrain("diayn", out=tmp_path / "run", preset="smoke", steps=1200, snapshots=(400,), progress=False)
    assert sorted(int(path.name) for path in (run.folder / "snapshots").iterdir()) == [400, 1200]


# Tasks


def test_a_task_gets_the_steps_of_the_preset_with_and_without_pre_training(trained, tmp_path):
    tuned = finetune(trained("diayn"), ENV, out=tmp_path / "tuned")
    alone = train(ENV, ENV, out=tmp_path / "alone", preset="smoke")
    assert tuned.config.steps == alone.config.steps == tuned.results["steps"] == 2_000


def skills_evaluated(run):
    return run.evaluation()["skill"]


@pytest.mark.parametrize(
    ("skill", "kind"),
    [
        ("random", "random"),
        ("3", "fixed"),
        ("prior", "prior"),
        ("regress", "regress"),
        ("grid", "grid"),
        ("controller", "controller"),
    ],
)
def test_every_strategy_fine_tunes_and_says_so(tuned, skill, kind):
    run = tuned(skill)
    results = json.loads((run.folder / "results.json").read_text())
    assert results["skill_strategy"] == kind
    assert results["phase"] == "finetune"
    assert results["task"] == ENV
    assert results["seed"] == 4
    assert results["source"] == "diayn"
    assert results["snapshot"] == 1040
    assert np.isfinite(results["measures"]["return"])
    assert run.evaluation()["step"] == [0, 1000]
    assert not (run.folder / "replay").exists()


def test_a_number_evaluates_the_skill_with_this_index(tuned):
    assert skills_evaluated(tuned("3")) == [3, 3]
    np.testing.assert_array_equal(tuned("3").policy().skill, np.eye(SKILLS)[3])


def test_a_random_skill_stays(tuned):
    first, last = skills_evaluated(tuned("random"))
    assert first == last == np.argmax(tuned("random").kept_skill())


def test_the_same_seed_tunes_the_same_random_skill(tuned, trained, tmp_path):
    again = finetune(trained("diayn"), ENV, out=tmp_path / "again", skill="random", steps=1000)
    assert (again.folder / "evaluation.csv").read_bytes() == (tuned("random").folder / "evaluation.csv").read_bytes()


@pytest.mark.parametrize("skill", ["random", "controller"])
def test_fine_tuning_begins_with_the_actor_and_the_trunk_of_the_snapshot(tuned, trained, skill):
    before, after = load(trained("diayn")).snapshot().agent, tuned(skill).snapshot().agent
    # A thousand steps are taken at random, and nothing is learned in them.
    kept = [
        (agent.actor.params.trunk, agent.actor.params.output, agent.critic.params.trunk) for agent in (before, after)
    ]
    jax.tree.map(np.testing.assert_array_equal, *kept)
    assert (before.critic.params.hidden.weight != after.critic.params.hidden.weight).all()
    assert (after.actor.params.controller is not None) == (skill == "controller")


def test_fine_tuning_learns(tuned, trained):
    run = tuned("controller", steps=1040)
    before, after = load(trained("diayn")).snapshot().agent, run.snapshot().agent
    assert (after.actor.params.output.weight != before.actor.params.output.weight).any()
    assert np.asarray(after.actor.params.controller.layers[-1].bias).any()
    (row,) = run.metrics()["critic_loss"]
    assert row > 0


def test_fine_tuning_leaves_its_source_as_it_was(trained, tmp_path):
    before = files(trained("diayn"))
    finetune(trained("diayn"), ENV, out=tmp_path / "tuned", steps=20)
    assert files(trained("diayn")) == before


@pytest.mark.parametrize(("method", "kind"), [("sd3", "random"), ("diayn", "prior")])
def test_without_a_word_the_method_s_own_rule_holds(trained, tmp_path, method, kind):
    run = finetune(trained(method), ENV, out=tmp_path / "run", steps=20)
    assert run.results["skill_strategy"] == kind


def test_training_from_scratch_has_no_skills(tmp_path):
    run = train(ENV, ENV, out=tmp_path / "run", preset="smoke", steps=1040, seed=2)
    assert run.results["method"] == "ddpg"
    assert (run.results["phase"], run.results["snapshot"], run.results["seed"]) == ("train", None, 2)
    agent = run.snapshot().agent
    assert agent.actor.params.trunk.linear.weight.shape[1] == 3
    assert list(evaluate(run, episodes=2).returns) == ["policy 0"]


def test_training_from_scratch_takes_several_seeds(tmp_path):
    runs = train(ENV, out=tmp_path / "run", preset="smoke", steps=20, seed=2, seeds=2, progress=False)
    assert [run.folder for run in runs] == [tmp_path / "run" / f"seed_{seed}" for seed in (2, 3)]
    assert [run.results["seed"] for run in runs] == [2, 3]


# What the skills earn


def test_returns_of_skills_are_those_of_episodes_played_by_hand(trained):
    found = evaluate(trained("diayn"), episodes=2)
    assert list(found.returns) == [f"skill {index}" for index in range(SKILLS)]
    agent = load(trained("diayn")).snapshot().agent
    env = gymnasium.make("toys:Long-v0")
    for index in (0, 9):
        for seed in range(2):
            (obs, _), total, over = env.reset(seed=seed), 0.0, False
            while not over:
                action = agent.actor.params(jnp.asarray(obs), jnp.eye(SKILLS)[index])
                obs, reward, ended, cut, _ = env.step(np.asarray(action))
                total, over = total + reward, ended or cut
            assert found.returns[f"skill {index}"][seed] == pytest.approx(total, rel=1e-4)


def test_a_controller_is_one_policy(tuned):
    assert list(evaluate(tuned("controller"), episodes=2).returns) == ["controller"]


# Several seeds


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds") / "diayn"
    pretrain("diayn", ENV, out=folder, preset="smoke", steps=1000, seed=4, seeds=2)
    return folder


def test_several_seeds_are_pre_trained_and_fine_tuned_in_folders_of_their_own(seeds, tmp_path):
    sources = load_seeds(seeds)
    runs = finetune(sources, ENV, out=tmp_path / "tuned", skill="random", steps=1000)
    assert [run.folder for run in runs] == [tmp_path / "tuned" / f"seed_{seed}" for seed in (4, 5)]
    assert [run.results["seed"] for run in runs] == [4, 5]
    for run, source in zip(runs, sources, strict=True):
        ours, theirs = (each.snapshot().agent.actor.params.output.weight for each in (run, source))
        np.testing.assert_array_equal(ours, theirs)


def test_a_seed_of_a_finished_pair_is_not_trained_again(seeds):
    before = files(seeds)
    pretrain("diayn", ENV, out=seeds, preset="smoke", steps=1000, seed=4, seeds=2, resume=True)
    assert files(seeds) == before


# Skills that are chosen by what was earned


def test_a_method_of_a_box_is_tuned_in_its_middle(trained, tmp_path):
    run = finetune(trained("cic"), ENV, out=tmp_path / "run", steps=1000)
    assert run.config.strategy.kind == "constant"
    found = evaluate(run, episodes=1)
    assert list(found.returns) == ["fine-tuned", *(f"draw {index}" for index in range(8))]
    assert found.finetuned == "fine-tuned"


def test_a_grid_search_tries_every_candidate_with_the_policy_and_keeps_the_best(trained, tmp_path, monkeypatch):
    seen = []

    def remember(trajectories):
        seen.extend(trajectories)
        return best_tried(trajectories)

    monkeypatch.setattr("skillscape.skill_selection.best_tried", remember)
    run = finetune(trained("cic"), ENV, out=tmp_path / "run", skill="grid", steps=1000)
    tried = np.concatenate([segment.skill for segment in seen])
    values, counts = np.unique(tried[:, 0], return_counts=True)
    np.testing.assert_allclose(values, np.arange(11) / 10, atol=1e-6)
    assert counts.min() >= 1000 // 11
    assert run.config.strategy.kind == "grid"
    np.testing.assert_array_equal(run.kept_skill(), best_tried(seen))


def test_a_method_that_cannot_infer_a_skill_says_so_before_it_begins(trained, tmp_path):
    with pytest.raises(UserError, match="diayn cannot infer a skill"):
        finetune(trained("diayn"), ENV, out=tmp_path / "run", skill="infer", steps=1000)
    assert not (tmp_path / "run").exists()


def test_aps_infers_its_task_vector_from_the_first_rewards(tmp_path):
    source = pretrain("aps", ENV, out=tmp_path / "source", preset="smoke", steps=1020)
    run = finetune(source, ENV, out=tmp_path / "run", steps=1020)
    assert run.config.strategy.kind == "infer"
    assert np.linalg.norm(run.kept_skill()) == pytest.approx(1, abs=1e-5)
    before, after = run.model(), source.snapshot().objective
    np.testing.assert_array_equal(before.features.params.layers[0].weight, after.features.params.layers[0].weight)


# Every method, every backbone


@pytest.mark.parametrize("method", trainable())
def test_every_method_learns_on_a_host_environment(method, tmp_path):
    run = pretrain(method, ENV, out=tmp_path / "run", preset="smoke", steps=1020)
    metrics = run.metrics()
    assert metrics["step"] == [1020]
    assert np.isfinite([values[0] for values in metrics.values()]).all()
    assert (run.config.backbone.pairs == "one-step") == (method in ("metra", "csd", "lsd", "csf"))


@pytest.mark.parametrize("env", [ENV, "maze/square_a"])
def test_sac_learns_wherever_there_are_numbers(env, tmp_path):
    """From pre-training to fine-tuning and from scratch, on a gym and in a maze."""
    sac = replace(pretraining("diayn", env, preset="smoke", backbone="sac").backbone, warmup_steps=110, batch_size=16)
    options = {"steps": 240, "progress": False, "evaluation": {"every": 120, "episodes": 2}}
    run = pretrain("diayn", env, out=tmp_path / "run", preset="smoke", backbone=sac, **options)
    assert run.config.backbone.name == "sac"
    assert run.metrics()["step"] == [240]
    assert np.isfinite([values[-1] for values in run.metrics().values()]).all()
    assert run.policy(1)(np.zeros(run.spec.obs_shape)).shape == (2,)
    tuned = finetune(run, out=tmp_path / "tuned", skill="random", **options)
    alone = train(env, out=tmp_path / "alone", preset="smoke", backbone=sac, **options)
    assert (tuned.results["phase"], alone.results["method"]) == ("finetune", "sac")
    assert all(np.isfinite(each.results["measures"]["return"]) for each in (tuned, alone))
    assert evaluate(run, episodes=2).measures["skill_accuracy"] is not None


def test_a_gymnasium_environment_that_shows_images_is_learned_with_dreamer(tmp_path):
    env = "gym/toys:Pictured-v0"
    run = pretrain("diayn", env, out=tmp_path / "run", preset="smoke", steps=1060)
    assert run.config.backbone.name == "dreamer"
    assert run.spec.obs_shape == (64, 64, 3)
    assert run.results["images"] is True
    metrics = run.metrics()
    assert metrics["step"] == [1060]
    assert np.isfinite([values[0] for values in metrics.values()]).all()
    step, agent, _ = run.snapshot()
    assert (step, int(agent.updates)) == (1060, 3)
    found = evaluate(run, episodes=1)
    assert np.isfinite([*found.returns.values()]).all()


def test_an_environment_gets_its_arguments_and_copies_of_it_are_stepped_side_by_side(tmp_path):
    arguments = {"ends": True}
    options = {"preset": "smoke", "steps": 1040, "progress": False}
    run = pretrain("diayn", ENV, out=tmp_path / "run", env_kwargs=arguments, copies=3, **options)
    assert run.metrics()["step"] == [1040]
    assert run.evaluation()["length"][0] < 60
    assert load(run.folder).config.env_kwargs == arguments


# Budgets that are too small


def test_a_budget_that_ends_before_learning_begins_is_told(tmp_path):
    with pytest.warns(
        Notice, match=r"nothing was learned in 20 steps, since the first update comes after 1,000 of them"
    ):
        pretrain("diayn", ENV, out=tmp_path / "run", preset="smoke", steps=20, progress=False)


def test_a_budget_that_is_learned_in_is_not(trained, tmp_path, recwarn):
    folder = shutil.copytree(trained("diayn"), tmp_path / "copy")
    (folder / "results.json").unlink()
    recwarn.clear()
    again = pretrain("diayn", ENV, out=folder, resume=True, progress=False)
    assert again.results == load(trained("diayn")).results
    assert not [warning for warning in recwarn if issubclass(warning.category, Notice)]


# Where compiled programs go


@pytest.mark.parametrize("given", [True, False])
def test_compiled_programs_are_kept_in_the_user_s_cache_or_where_the_user_says(monkeypatch, tmp_path, given):
    told = {}
    monkeypatch.setattr(jax.config, "update", told.__setitem__)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere" if given else "")
    enable_compilation_cache()
    assert told.get("jax_compilation_cache_dir") == (None if given else str(tmp_path / "skillscape" / "jax"))


def test_a_command_of_python_says_how_far_it_is_unless_told_not_to(tmp_path, capsys):
    pretrain("diayn", ENV, out=tmp_path / "run", preset="smoke", steps=20)
    assert capsys.readouterr().err.startswith(f"training in {tmp_path}/run; compiling first")
    pretrain("diayn", ENV, out=tmp_path / "quiet", preset="smoke", steps=20, progress=False)
    assert capsys.readouterr().err == ""
