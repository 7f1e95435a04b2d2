"""Controllers over frozen skills: the environment they act in, how they are trained, resumed and opened again."""

import json
import signal
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from untrained import untrained_run

import skillscape
from skillscape.backbones.ddpg import DDPG
from skillscape.cli import main
from skillscape.configure import controlling
from skillscape.envs.base import HostEnv, JaxEnv, Timestep
from skillscape.envs.host_adapter import HostJaxEnv
from skillscape.envs.registry import families, family_of, host_env, make_env
from skillscape.errors import Interrupted, UserError
from skillscape.launch import launch
from skillscape.skill_control import SkillJaxEnv, control_id
from skillscape.training.run import Run
from skillscape.types import EnvSpec

TOY = "gym/toys:Toy-v0"
"""Twenty steps, three numbers to read."""


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation():
    """These runs take a few steps; compiling them well would take longer."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Makes a run of a method, once."""
    folder, made = tmp_path_factory.mktemp("runs"), {}

    def make(method="diayn", env="maze/square_a"):
        if (method, env) not in made:
            made[method, env] = untrained_run(folder / f"{method}-{len(made)}", method, env)
        return made[method, env]

    return make


def chosen(number, skill):
    action = np.full(number, -1.0, np.float32)
    action[skill] = 0.3
    return action


def test_the_family_is_known_wherever_a_run_is_opened():
    assert "skills" in families()
    assert family_of("skills/anywhere/at/all").name == "skills"


@pytest.mark.parametrize(("env", "kind"), [("maze/square_a", JaxEnv), (TOY, HostEnv)])
def test_a_choice_is_the_policy_acting_with_a_skill(runs, env, kind):
    run = runs("diayn", env)
    task = family_of(env).task(env, None)
    number, hold = run.config.reward.skills.width, 8
    made = make_env(control_id(run), task, kwargs={"hold": hold})
    assert isinstance(made, kind)
    horizon = run.spec.horizon
    assert made.spec == EnvSpec(run.spec.obs_shape, number, -(-horizon // hold))
    control, plain, policy = host_env(control_id(run), task, kwargs={"hold": hold}), host_env(env, task), run.policy()
    shown, expected = control.reset(5), plain.reset(5)
    np.testing.assert_allclose(shown, expected, atol=1e-6)
    for choice in range(made.spec.horizon):
        policy.switch(choice)
        total = 0.0
        for _ in range(min(hold, horizon - choice * hold)):
            step = plain.step(policy(expected))
            expected, total = step.obs, total + step.reward
        held = control.step(chosen(number, choice))
        # In a maze the distance to a wall after a collision is random: below 0.01.
        np.testing.assert_allclose(held.obs, expected, atol=0.03 if kind is JaxEnv else 1e-6)
        assert held.reward == pytest.approx(total, abs=1e-4)
        assert held.truncated == (choice == made.spec.horizon - 1)
    if kind is HostEnv:
        np.testing.assert_array_equal(control.reset(5), shown)
    assert (control.position is None) == (plain.position is None)


class Falling(JaxEnv):
    """Ends after three steps, each of which gives its own number; the state counts them."""

    spec = EnvSpec((3,), 2, 20)

    def reset(self, key):
        return jnp.float32(0)

    reset_for_evaluation = reset

    def observe(self, state):
        return jnp.full(3, state)

    def step(self, state, action, key):
        state = state + 1
        return state, Timestep(self.observe(state), state, jnp.float32(state >= 3))


def test_a_compiled_choice_ends_with_the_task(runs):
    trained = runs("diayn", TOY).trained_policy()
    env = SkillJaxEnv(Falling(), trained.config.backbone, trained.config.reward.skills, 3, 2, "", trained.params)
    host = HostJaxEnv(env)
    host.reset(0)
    action = chosen(16, 0)
    first, second = host.step(action), host.step(action)
    assert (first.reward, first.terminated, first.obs[0]) == (3.0, False, 2)
    assert (second.reward, second.terminated, second.truncated, second.obs[0]) == (3.0, True, False, 3)


def test_equal_environments_compile_once_and_other_parameters_do_not_count_as_equal(runs, tmp_path):
    first, again = (make_env(control_id(runs()), "reach") for _ in range(2))
    assert first == again
    assert hash(first) == hash(again)
    other = untrained_run(tmp_path / "other", seed=4)
    assert make_env(control_id(other), "reach") != first
    assert make_env(control_id(runs()), "reach", kwargs={"hold": 10}) != first


def test_environment_steps_become_choices(runs):
    maze, toy = runs(), runs("diayn", TOY)
    default = controlling(maze, "reach")
    assert (default.phase, default.task, default.backbone.name) == ("train", "reach", "ppo")
    assert (default.steps, default.evaluation.every, dict(default.env_kwargs)) == (4_000, 1_000, {"hold": 25})
    assert controlling(maze, "reach", hold=10, steps=50_000).steps == 5_000
    sac = controlling(toy, hold=20)
    assert (sac.backbone.name, sac.backbone.update_every, sac.backbone.warmup_steps) == ("sac", 1, 200)
    ddpg = controlling(toy, backbone="ddpg").backbone
    assert isinstance(ddpg, DDPG)
    assert ddpg.nstep == 1
    existing = replace(sac, steps=77)
    resumed = controlling(toy, existing=existing)
    assert resumed == existing
    assert controlling(toy, existing=existing, steps=2_000).steps == 100


def test_ppo_learns_a_controller_in_a_maze(runs, tmp_path, capsys):
    run, out = runs(), tmp_path / "control"
    arguments = ["control", str(run.folder), "--task", "reach", "--preset", "smoke", "--hold", "10", "--steps", "2000"]
    main([*arguments, "--out", str(out), "--scratch"])
    control, scratch = Run(out), Run(tmp_path / "control-scratch")
    assert (control.end, scratch.end) == (200, 2_000)
    assert control.config.env == control_id(run)
    assert control.results["measures"]["length"] == 5
    assert scratch.config.env == "maze/square_a"
    # All that is known of runs applies to it.
    assert set(skillscape.evaluate(out).returns) == {"policy 0"}
    assert skillscape.Policy.load(out / "skills")(np.zeros(2, np.float32)).shape == (10,)
    main([*arguments, "--out", str(out), "--resume"])
    told = capsys.readouterr().err
    assert "skillscape train --env maze/square_a --task reach --backbone ppo --preset smoke" in told
    assert f"--steps 2000 --out {out}-scratch" in told


class CtrlC(skillscape.Callback):
    """Presses Ctrl-C at the first evaluation after the start."""

    def on_log(self, run, kind, step, values):
        if kind == "evaluation" and step:
            signal.raise_signal(signal.SIGINT)


def test_sac_learns_a_controller_elsewhere_and_resumes_it(runs, tmp_path):
    run = runs("aps", TOY)
    config = controlling(run, preset="smoke", hold=5, steps=400)
    sac = replace(config.backbone, warmup_steps=20)
    config = replace(config, backbone=sac, evaluation=replace(config.evaluation, every=40))
    (whole,) = launch([config], tmp_path / "whole")
    assert (whole.end, whole.config.backbone.name, whole.spec.action_dim) == (80, "sac", 10)
    assert whole.results["measures"]["return"] < 0
    with pytest.raises(Interrupted):
        launch([config], tmp_path / "stopped", callbacks=[CtrlC()])
    assert 40 <= Run(tmp_path / "stopped").trained_steps < 80
    (resumed,) = launch([config], tmp_path / "stopped", resume=True)
    assert resumed.results == whole.results
    obs = np.zeros(3, np.float32)
    np.testing.assert_array_equal(resumed.policy()(obs), whole.policy()(obs))


def test_a_source_that_moved_or_learned_on_is_told_in_a_sentence(tmp_path):
    source = untrained_run(tmp_path / "source")
    out, env = tmp_path / "control", control_id(source)
    config = controlling(source, "reach", preset="smoke", steps=25 * 200)
    run = Run.create(out, config)
    assert config.definition == {
        "env": "maze/square_a",
        "env_kwargs": {},
        "definition": json.loads(json.dumps(source.config.definition)),
        "step": 2_000,
    }
    (source.folder / "snapshots" / "000000002000").rename(source.folder / "snapshots" / "000000002400")
    with pytest.raises(UserError, match=r"were those of step 2,000, but .*source is now at step 2,400"):
        _ = run.spec
    source.folder.rename(tmp_path / "elsewhere")
    opened = Run(out)
    assert opened.config.task == "reach"
    with pytest.raises(UserError, match="which is not there; move it back"):
        _ = opened.spec
    with pytest.raises(UserError, match="not there"):
        family_of(env).benchmark(env)


@pytest.mark.parametrize(
    ("method", "kwargs", "said"),
    [
        ("rnd", {}, "rnd has no skills to choose from"),
        ("diayn", {"hold": 0}, "at least 1, not 0"),
        ("diayn", {"held": 3}, "takes the keyword argument hold, not held"),
    ],
)
def test_what_cannot_be_controlled_is_refused(runs, method, kwargs, said):
    with pytest.raises(UserError, match=said):
        make_env(control_id(runs(method)), "reach", kwargs=kwargs)


def test_a_damaged_definition_is_refused(runs):
    with pytest.raises(UserError, match="damaged: definition, env, env_kwargs is missing"):
        make_env(control_id(runs()), "reach", definition={"step": 2_000})


def test_several_seeds_have_a_controller_each(tmp_path):
    for seed in (1, 2):
        untrained_run(tmp_path / "source" / f"seed_{seed}", seed=seed)
    with pytest.raises(UserError, match="holds 2 seeds; give one of them"):
        make_env(f"skills/{tmp_path / 'source'}", "reach")
    out = tmp_path / "control"
    arguments = ["--preset", "smoke", "--steps", "5000", "--out", str(out), "--scratch"]
    main(["control", str(tmp_path / "source"), *arguments])
    assert [run.config.seed for run in skillscape.load_seeds(out)] == [1, 2]
    assert [run.config.seed for run in skillscape.load_seeds(tmp_path / "control-scratch")] == [1, 2]
    assert family_of("skills/runs/a/seed_1").folder_name("skills/runs/a/seed_1") == "a-seed_1"


@pytest.mark.parametrize("command", ["control", "train"])
def test_a_controller_never_replaces_the_run_whose_skills_it_chooses(runs, capsys, command):
    run = runs()
    source = [str(run.folder)] if command == "control" else ["--env", control_id(run)]
    with pytest.raises(SystemExit):
        main([command, *source, "--task", "reach", "--out", str(run.folder), "--force"])
    assert "overlaps its pre-training" in capsys.readouterr().err
    assert Run(run.folder).trained_steps == 2_000


def test_a_folder_is_named_after_the_task(runs, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("skillscape.launch.train", lambda *_arguments, **_options: None)
    for env in ("maze/square_a", TOY):
        main(["control", str(runs("diayn", env).folder), "--preset", "smoke", "--steps", "5000"])
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "diayn-square_a-reach-control",
        "diayn-toys-Toy-v0-control",
    ]
