"""What can be said of a GPU without one: the programs that train lower for CUDA, on the device alone, in 32 bits."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import skillscape
from skillscape import conv
from skillscape.replay import Replay
from skillscape.training.host_collector import update_step
from skillscape.training.jit_collector import iteration
from skillscape.training.state import init_state
from skillscape.types import EnvSpec

STATES, IMAGES = EnvSpec((24,), 6, 20), EnvSpec((64, 64, 3), 6, 20)


def ppo():
    config = skillscape.pretraining_config("sd3", "maze/square_a", preset="smoke")
    env = config.make_env()
    return iteration(config, env), (jax.eval_shape(lambda: init_state(config, env.spec)),)


def seeds():
    config = skillscape.pretraining_config("sd3", "maze/square_a", preset="smoke")
    init, train = skillscape.make_train(config)
    return jax.vmap(train), (jax.eval_shape(init, jax.random.split(jax.random.key(0), 4)),)


def of_batch(config, spec):
    """The update of a run, and a state and a batch to call it with."""
    schedule = config.backbone.schedule
    width = config.reward.skills.width
    replay = Replay(spec, width, capacity=100, nstep=schedule.nstep, discount=schedule.discount, seed=0)
    obs, action = np.zeros(spec.obs_shape), np.zeros(spec.action_dim)
    replay.begin(obs)
    for _ in range(spec.horizon):
        replay.add(action, np.zeros(width), 0.0, 1.0, obs)
    replay.finish()
    batch = config.backbone.sample(replay, replay.snapshot().episode_index, config.reward.updates_per_step)
    state = jax.eval_shape(lambda: init_state(config, spec))
    return update_step(config.backbone, config.reward), (state, batch)


def from_states(backbone):
    return of_batch(skillscape.pretraining_config("sd3", "walker", preset="smoke", backbone=backbone), STATES)


def from_images(encoder):
    world = {"encoder": encoder, "depth": 2}
    return of_batch(
        skillscape.pretraining_config("sd3", "walker-pixels", preset="smoke", backbone={"world": world}), IMAGES
    )


PROGRAMS = {
    "ppo": ppo,
    "ppo, four seeds": seeds,
    "ddpg": lambda: from_states("ddpg"),
    "sac": lambda: from_states("sac"),
    "dreamer, patches": lambda: from_images("patches"),
    "dreamer, convolutions": lambda: from_images("convolutions"),
}


def lowered(function, *arguments):
    """The program for CUDA, as text; an operation that has no form there is an error."""
    exported = jax.export.export(jax.jit(function), platforms=["cuda"])(*arguments)
    assert exported.platforms == ("cuda",)
    return exported.mlir_module()


def doubles(text):
    return re.findall(r"tensor<[\dx?]*(?:f64|complex<f64>)>", text)


def custom_calls(text):
    return set(re.findall(r"custom_call @([\w.]+)", text)) | set(re.findall(r'call_target_name = "([\w.]+)"', text))


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request):
    with pytest.MonkeyPatch.context() as patch:
        # As on a GPU: on this machine the choice would be that of a CPU.
        patch.setattr(conv, "lowering", lambda: "convolution")
        function, arguments = PROGRAMS[request.param]()
        return request.param, lowered(function, *arguments)


def test_programs_that_train_lower_for_cuda_on_the_device_alone_and_in_32_bits(program):
    name, text = program
    assert doubles(text) == []
    assert custom_calls(text) == set()
    # Each is the program that it is taken for.
    assert ("stablehlo.convolution" in text) == (name == "dreamer, convolutions")
    assert "stablehlo.dot_general" in text


def test_a_gpu_gets_convolutions(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert conv.lowering() == "convolution"


def test_the_check_sees_doubles_calls_to_the_host_and_calls_of_libraries():
    with jax.enable_x64(True):
        assert doubles(lowered(lambda x: x * 2, np.ones(3)))
    assert doubles(lowered(lambda x: x * 2, np.ones(3, np.float32))) == []
    shape = jax.ShapeDtypeStruct((3,), jnp.float32)

    def hosted(x):
        return jax.pure_callback(np.sin, shape, x)

    assert any("callback" in name for name in custom_calls(jax.jit(hosted).lower(shape).as_text()))
    with pytest.raises(ValueError, match="different from the lowering platform cuda"):
        lowered(hosted, shape)
    # Orthogonal weights are a library call, which is why no program that trains contains an initialiser.
    assert "cusolver_geqrf_ffi" in custom_calls(lowered(jnp.linalg.qr, jnp.ones((4, 4))))
