"""MuJoCo Playground from pre-training to fine-tuning: on a made-up body, and, if the extra is installed, on its own.

The slow tests also hold the simulator that runs in compiled programs, MJX, against MuJoCo itself.
"""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bodies import registry  # noqa: F401  (a fixture)
from test_cuda_lowering import custom_calls, doubles, lowered

import skillscape
from skillscape.envs.registry import make_env
from skillscape.training.jit_collector import iteration
from skillscape.training.state import init_state
from skillscape.training.unroll import episode_shapes

QUIET = {"callbacks": (), "progress": False}
SMALL = {"episodes": 8, "unroll": 12, "hidden": (8,), "minibatches": 2}


def trained(folder, env, method, objective, kwargs, steps, skill):
    """A pre-training, its evaluation, and its fine-tuning on the environment's own reward."""
    run = skillscape.pretrain(
        method, env, preset="smoke", objective=objective, backbone=SMALL, env_kwargs=kwargs, steps=steps,
        out=folder / "run", **QUIET
    )  # fmt: skip
    measures = skillscape.evaluate(run, episodes=2).measures
    tuned = skillscape.finetune(run, skill=skill, steps=2 * steps, out=folder / "tuned", **QUIET)
    return run, measures, tuned


def check(run, measures, tuned, length):
    """What can be said of a few steps: every number is there and finite, and the normaliser has seen every step."""
    state, _ = run.newest()
    assert run.end == int(state.step) > 0
    assert state.agent.moments.count == pytest.approx(run.end, rel=1e-3)
    assert (state.episodes.age < length).all()
    assert np.isfinite(list(run.metrics().values())).all()
    assert np.isfinite([measures["return"], measures["return_best"]]).all()
    assert set(run.evaluation()["length"]) == {length}
    assert tuned.results["measures"]["return"] == pytest.approx(tuned.evaluation()["return"][-1])
    assert tuned.kept_skill() is not None
    # The task's reward is what fine-tuning learns from.
    assert tuned.metrics()["reward"] != run.metrics()["reward"]


@pytest.mark.usefixtures("registry")
def test_a_made_up_body_goes_all_the_way(tmp_path):
    objective = {"number_of_skills": 2, "hidden": (8,)}
    run, measures, tuned = trained(tmp_path, "playground/PointPush", "diayn", objective, {}, 192, "grid")
    check(run, measures, tuned, 20)
    # It tells its position, so pre-training is measured by where the body goes.
    assert "policy_coverage" in run.evaluation()
    again = skillscape.pretrain(
        "diayn", "playground/PointPush", preset="smoke", objective=objective, backbone=SMALL, steps=96,
        out=tmp_path / "resumed", **QUIET
    )  # fmt: skip
    assert again.end == 96
    skillscape.pretrain(
        "diayn", "playground/PointPush", preset="smoke", objective=objective, backbone=SMALL, steps=192,
        out=tmp_path / "resumed", resume=True, **QUIET
    )  # fmt: skip
    assert again.metrics() == run.metrics()


# Playground's own bodies


@pytest.fixture
def _playground():
    """Skips where the extra is missing; MJX broadcasts ranks silently, which the suite forbids elsewhere."""
    if importlib.util.find_spec("mujoco_playground") is None:
        pytest.skip('needs MuJoCo Playground: pip install "skillscape[playground]"')
    before = jax.config.jax_numpy_rank_promotion
    jax.config.update("jax_numpy_rank_promotion", "allow")
    yield
    jax.config.update("jax_numpy_rank_promotion", before)


@pytest.mark.slow
@pytest.mark.usefixtures("_playground")
def test_the_pendulum_goes_all_the_way(tmp_path):
    objective = {"number_of_skills": 2, "width": 8, "modules": 2, "module_width": 4, "history": 100}
    kwargs = {"episode_length": 40}
    run, measures, tuned = trained(tmp_path, "playground/PendulumSwingup", "sd3", objective, kwargs, 384, "1")
    check(run, measures, tuned, 40)


@pytest.mark.slow
@pytest.mark.usefixtures("_playground")
@pytest.mark.parametrize("name", ["PendulumSwingup", "WalkerRun"])
def test_an_iteration_at_full_size_lowers_for_cuda_on_the_device_alone_and_in_32_bits(name):
    config = skillscape.pretraining_config("sd3", f"playground/{name}")
    env = config.make_env()
    state = jax.eval_shape(lambda: init_state(config, env.spec))._replace(episodes=episode_shapes(config))
    text = lowered(iteration(config, env), state)
    assert doubles(text) == []
    # The Cholesky factors of the mass matrices and of the solver.
    assert custom_calls(text) == {"cusolver_potrf_ffi"}


@pytest.mark.slow
@pytest.mark.usefixtures("_playground")
@pytest.mark.parametrize(
    ("name", "tolerance"),
    [("PendulumSwingup", 1e-4), ("CartpoleBalance", 1e-3)],
)
def test_a_trajectory_is_that_of_mujoco_itself(name, tolerance):
    """The same model and controls in MuJoCo's engine, which computes with doubles: 50 control steps."""
    import mujoco

    env = make_env(f"playground/{name}")
    controls = np.random.default_rng(0).uniform(-1, 1, (50, env.spec.action_dim)).astype(np.float32)
    key = jax.random.key(0)

    def step(state, action):
        state, timestep = env.step(state, action, key)
        return state, (state.data.qpos, state.data.qvel, timestep)

    start = jax.jit(env.reset)(key)
    _, (places, speeds, timesteps) = jax.jit(lambda start: jax.lax.scan(step, start, jnp.asarray(controls)))(start)
    model = env.inner.mj_model
    data = mujoco.MjData(model)
    data.qpos, data.qvel = start.data.qpos, start.data.qvel
    reference = []
    for control in controls:
        data.ctrl = control
        mujoco.mj_step(model, data, env.inner.n_substeps)
        reference.append((data.qpos.copy(), data.qvel.copy()))
    ours = np.concatenate([places, speeds], axis=1)
    theirs = np.stack([np.concatenate(row) for row in reference])
    assert np.abs(theirs - theirs[0]).max() > 0.1, "the body moves"
    np.testing.assert_allclose(ours, theirs, atol=tolerance)
    assert not timesteps.terminated.any()
    assert np.isfinite(timesteps.reward).all()
