"""From pre-training to fine-tuning in Python, on a toy. Runs of a thousand steps end where learning would begin."""

import json
import shutil

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.adaptation import best_tried
from skillscape.api import finetune, load_jobs, pretrain, skill_returns, train_from_scratch
from skillscape.backbones.ppo import PPO
from skillscape.errors import UserError
from skillscape.objectives import registry
from skillscape.training import hosted
from skillscape.training.log import read_metrics

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
        if out.exists():
            return load_jobs(out)[0]
        return finetune(trained("diayn"), ENV, out=out, skill=skill, steps=steps)[0]

    return make


def test_a_task_gets_the_steps_of_the_preset_with_and_without_pre_training(trained, tmp_path):
    (tuned,) = finetune(trained("diayn"), ENV, out=tmp_path / "tuned")
    alone = train_from_scratch(ENV, ENV, out=tmp_path / "alone", preset="smoke")
    assert tuned.config.steps == alone.config.steps == tuned.results["steps"] == 2_000


def skills_evaluated(run):
    return read_metrics(run.folder / "evaluation.csv")["skill"]


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
def test_every_strategy_fine_tunes_and_says_so(tuned, trained, skill, kind):
    run = tuned(skill)
    results = json.loads((run.folder / "results.json").read_text())
    assert results["skill_strategy"] == kind
    assert results["phase"] == "finetune"
    assert results["task"] == ENV
    assert results["seed"] == 4
    assert results["snapshot"] == 1040
    assert np.isfinite(results["measures"]["return"])
    assert read_metrics(run.folder / "evaluation.csv")["step"] == [0, 1000]
    assert not (run.folder / "replay").exists()


def test_a_number_evaluates_the_skill_with_this_index(tuned):
    assert skills_evaluated(tuned("3")) == [3, 3]


def test_a_random_skill_stays(tuned):
    first, last = skills_evaluated(tuned("random"))
    assert first == last


def test_the_same_seed_tunes_the_same_random_skill(tuned, trained, tmp_path):
    (again,) = finetune(trained("diayn"), ENV, out=tmp_path / "again", skill="random", steps=1000)
    assert (again.folder / "evaluation.csv").read_bytes() == (tuned("random").folder / "evaluation.csv").read_bytes()


@pytest.mark.parametrize("skill", ["random", "controller"])
def test_fine_tuning_begins_with_the_actor_and_the_trunk_of_the_snapshot(tuned, trained, skill):
    (source,) = load_jobs(trained("diayn"))
    _, before, _ = source.snapshot()
    _, after, _ = tuned(skill).snapshot()
    # A thousand steps are taken at random, and nothing is learned in them.
    kept = [
        (agent.actor.params.trunk, agent.actor.params.output, agent.critic.params.trunk) for agent in (before, after)
    ]
    jax.tree.map(np.testing.assert_array_equal, *kept)
    assert (before.critic.params.hidden.weight != after.critic.params.hidden.weight).all()
    assert (after.actor.params.controller is not None) == (skill == "controller")


def test_fine_tuning_learns(tuned, trained):
    run = tuned("controller", steps=1040)
    _, before, _ = load_jobs(trained("diayn"))[0].snapshot()
    _, after, _ = run.snapshot()
    assert (after.actor.params.output.weight != before.actor.params.output.weight).any()
    assert np.asarray(after.actor.params.controller.layers[-1].bias).any()
    (row,) = read_metrics(run.folder / "metrics.csv")["critic_loss"]
    assert row > 0


@pytest.mark.parametrize(("method", "kind"), [("sd3", "random"), ("diayn", "prior")])
def test_without_a_word_the_method_s_own_rule_holds(trained, tmp_path, method, kind):
    (run,) = finetune(trained(method), ENV, out=tmp_path / "run", steps=20)
    assert run.results["skill_strategy"] == kind


def test_training_from_scratch_has_no_skills(tmp_path):
    run = train_from_scratch(ENV, ENV, out=tmp_path / "run", preset="smoke", steps=1040, seed=2)
    assert run.results["method"] == "ddpg"
    assert (run.results["phase"], run.results["snapshot"], run.results["seed"]) == ("finetune", None, 2)
    _, agent, _ = run.snapshot()
    assert agent.actor.params.trunk.linear.weight.shape[1] == 3
    (found,) = skill_returns(tmp_path / "run", episodes=2)
    assert list(found["returns"]) == ["skill 0"]


# What the skills earn


def test_returns_of_skills_are_those_of_episodes_played_by_hand(trained):
    (found,) = skill_returns(trained("diayn"), episodes=2)
    assert list(found["returns"]) == [f"skill {index}" for index in range(SKILLS)]
    (run,) = load_jobs(trained("diayn"))
    _, agent, _ = run.snapshot()
    env = gymnasium.make("toys:Long-v0")
    for index in (0, 9):
        for seed in range(2):
            (obs, _), total, over = env.reset(seed=seed), 0.0, False
            while not over:
                action = agent.actor.params(jnp.asarray(obs), jnp.eye(SKILLS)[index])
                obs, reward, ended, cut, _ = env.step(np.asarray(action))
                total, over = total + reward, ended or cut
            assert found["returns"][f"skill {index}"][seed] == pytest.approx(total, rel=1e-4)


def test_a_controller_is_one_policy(tuned):
    (found,) = skill_returns(tuned("controller").folder, episodes=2)
    assert len(found["returns"]) == 1


# Several seeds


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds") / "diayn"
    pretrain("diayn", ENV, out=folder, preset="smoke", steps=1000, seed=4, seeds=2)
    return folder


def test_several_seeds_are_pre_trained_and_fine_tuned_in_folders_of_their_own(seeds, tmp_path):
    runs = finetune(seeds, ENV, out=tmp_path / "tuned", skill="random", steps=1000)
    assert [run.folder for run in runs] == [tmp_path / "tuned" / f"seed_{seed}" for seed in (4, 5)]
    assert [run.results["seed"] for run in runs] == [4, 5]
    for run, source in zip(runs, load_jobs(seeds), strict=True):
        ours, theirs = (one.snapshot()[1].actor.params.output.weight for one in (run, source))
        np.testing.assert_array_equal(ours, theirs)
    assert [found["seed"] for found in skill_returns(seeds, episodes=1)] == [4, 5]


def test_several_seeds_keep_their_own(seeds, tmp_path):
    with pytest.raises(UserError, match="--seed is for one run"):
        finetune(seeds, ENV, out=tmp_path / "tuned", seed=1)


def test_a_seed_of_a_finished_pair_is_not_trained_again(seeds):
    before = {path: path.stat().st_mtime_ns for path in seeds.rglob("*") if path.is_file()}
    pretrain("diayn", ENV, out=seeds, preset="smoke", steps=1000, seed=4, seeds=2, resume=True)
    assert {path: path.stat().st_mtime_ns for path in seeds.rglob("*") if path.is_file()} == before


# Mistakes


def test_a_fine_tuned_run_is_not_fine_tuned_again(tuned, tmp_path):
    with pytest.raises(UserError, match="give a run of `skillscape pretrain`"):
        finetune(tuned("random").folder, ENV, out=tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"backbone": PPO()}, "PPO runs in mazes only"),
        ({"steps": 0}, "--steps must be at least 1"),
        ({"seed": -1}, "--seed must be between"),
        ({"noise": -1.0}, "--env.noise"),
        ({"preset": "smok"}, "did you mean 'smoke'"),
        ({"resume": True, "force": True}, "exclude each other"),
    ],
)
def test_what_cannot_be_trained_leaves_no_folder(tmp_path, options, answer):
    with pytest.raises(UserError, match=answer):
        pretrain("diayn", ENV, out=tmp_path / "run", **{"preset": "smoke", **options})
    assert not (tmp_path / "run").exists()


def test_a_method_of_a_box_is_tuned_in_its_middle(trained, tmp_path):
    (run,) = finetune(trained("cic"), ENV, out=tmp_path / "run", steps=1000)
    assert run.config.strategy.kind == "constant"
    (found,) = skill_returns(run.folder, episodes=1, drawn=3)
    assert list(found["returns"]) == ["fine-tuned", "draw 0", "draw 1", "draw 2"]


def test_a_grid_search_tries_every_candidate_with_the_policy_and_keeps_the_best(trained, tmp_path, monkeypatch):
    seen = []

    def remember(segments):
        seen.extend(segments)
        return best_tried(segments)

    monkeypatch.setattr(hosted, "best_tried", remember)
    (run,) = finetune(trained("cic"), ENV, out=tmp_path / "run", skill="grid", steps=1000)
    tried = np.concatenate([segment.skill for segment in seen])
    values, counts = np.unique(tried[:, 0], return_counts=True)
    np.testing.assert_allclose(values, np.arange(11) / 10, atol=1e-6)
    assert counts.min() >= 1000 // 11
    assert run.config.strategy.kind == "grid"


def test_a_method_that_cannot_infer_a_skill_says_so_before_it_begins(trained, tmp_path):
    with pytest.raises(UserError, match="diayn cannot infer a skill"):
        finetune(trained("diayn"), ENV, out=tmp_path / "run", skill="infer", steps=1000)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", sorted(set(registry()) - {"extrinsic"}))
def test_every_method_learns_on_a_host_environment(method, tmp_path):
    (run,) = pretrain(method, ENV, out=tmp_path / "run", preset="smoke", steps=1020)
    metrics = read_metrics(run.folder / "metrics.csv")
    assert metrics["step"] == [1020]
    assert np.isfinite([values[0] for values in metrics.values()]).all()
    assert (run.config.backbone.pairs == "one-step") == (method in ("metra", "csd"))


def test_a_gymnasium_environment_that_is_seen_is_learned_with_dreamer(tmp_path):
    env = "gym/toys:Pictured-v0"
    (run,) = pretrain("diayn", env, out=tmp_path / "run", preset="smoke", steps=1060)
    assert run.config.backbone.name == "dreamer"
    assert run.spec.obs_shape == (64, 64, 3)
    metrics = read_metrics(run.folder / "metrics.csv")
    assert metrics["step"] == [1060]
    assert np.isfinite([values[0] for values in metrics.values()]).all()
    step, agent, _ = run.snapshot()
    assert (step, int(agent.updates)) == (1060, 3)
    (found,) = skill_returns(run.folder, episodes=1)
    assert np.isfinite([*found["returns"].values()]).all()


def test_aps_infers_its_task_vector_from_the_first_rewards(tmp_path):
    pretrain("aps", ENV, out=tmp_path / "source", preset="smoke", steps=1020)
    (run,) = finetune(tmp_path / "source", ENV, out=tmp_path / "run", steps=1020)
    assert run.config.strategy.kind == "infer"
    _, notes = run.newest()
    chosen = np.array(notes["collector"]["lasting"])
    assert np.linalg.norm(chosen) == pytest.approx(1, abs=1e-5)
    before, after = run.lent_model(), load_jobs(tmp_path / "source")[0].snapshot()[2]
    np.testing.assert_array_equal(before.features.params.layers[0].weight, after.features.params.layers[0].weight)


def test_a_run_goes_on_whatever_its_fine_tuning_would_take(trained, tmp_path):
    shutil.copytree(trained("diayn"), tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    del config["finetuning_steps"]
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    (run,) = pretrain("diayn", ENV, out=tmp_path / "run", preset="smoke", steps=1040, seed=4, resume=True)
    assert run.config.finetuning_steps == 100_000
