"""Training as a pure function: the numbers of the trainer, one seed at a time or many in a batch."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import skillscape
from skillscape.training.state import first_state

SEEDS = (4, 5)
STEPS = 1_300
"""Three iterations of 400 steps, and too few steps for a fourth."""
SETTINGS = {"preset": "smoke", "steps": STEPS, "backbone": {"hidden": (16,)}}
SMALL = {
    "sd3": {"number_of_skills": 3, "width": 16, "modules": 2, "module_width": 8, "history": 900},
    "diayn": {"number_of_skills": 3, "hidden": (16,)},
}


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation():
    """Runs of a few iterations: compiling them well would take longer."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def a_config(method, **changes):
    return skillscape.pretraining_config(method, "maze/square_a", objective=SMALL[method], **{**SETTINGS, **changes})


def numbers(tree):
    """The leaves as arrays, random keys included."""
    return [
        np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)
        for leaf in jax.tree.leaves(tree)
    ]


def assert_equal(left, right):
    for ours, theirs in zip(numbers(left), numbers(right), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_seeds_alone_and_in_a_batch_learn_what_the_trainer_teaches_them_in_threads(tmp_path):
    init, train = skillscape.make_train(a_config("sd3"))
    runs = skillscape.pretrain(
        "sd3",
        "maze/square_a",
        objective=SMALL["sd3"],
        out=tmp_path / "runs",
        seed=SEEDS[0],
        seeds=2,
        workers=2,
        callbacks=(),
        progress=False,
        **SETTINGS,
    )
    compiled = jax.jit(train)
    together, rows = jax.jit(jax.vmap(train))(init(jax.vmap(jax.random.key)(jnp.asarray(SEEDS))))
    for place, (seed, run) in enumerate(zip(SEEDS, runs, strict=True)):
        state, metrics = compiled(init(jax.random.key(seed)))
        assert_equal(state, run.newest()[0])
        logged = run.metrics()
        assert logged.pop("step") == [400, 800, 1200]
        assert logged.keys() == metrics.keys()
        for name, values in logged.items():
            np.testing.assert_array_equal(np.float32(values), metrics[name])
        for ours, theirs in zip(numbers((together, rows)), numbers((state, metrics)), strict=True):
            np.testing.assert_allclose(ours[place], theirs, rtol=1e-4, atol=1e-5)
    assert not np.array_equal(rows["reward"][0], rows["reward"][1])


def test_initial_states_are_those_of_the_seeds_stacked():
    config = a_config("diayn")
    init, _ = skillscape.make_train(config)
    stacked = init(jnp.stack([jax.random.key(seed) for seed in SEEDS]))
    for place, seed in enumerate(SEEDS):
        first = first_state(a_config("diayn", seed=seed), config.make_env().spec)
        assert_equal(jax.tree.map(lambda leaf: leaf[place], stacked), first)  # noqa: B023  used at once
        assert_equal(init(jax.random.key(seed)), first)


def test_initial_states_are_never_batched(monkeypatch):
    # Batched LAPACK calls in a compiled initialiser can deadlock; the program of one seed is called for each.
    init, _ = skillscape.make_train(a_config("diayn"))
    stacked = init(jax.random.split(jax.random.key(0), 3))
    with monkeypatch.context() as patch:
        patch.setattr(jax, "vmap", None)
        assert_equal(init(jax.random.split(jax.random.key(0), 3)), stacked)


def test_training_from_scratch_has_the_reward_of_its_task():
    config = skillscape.training_config("maze/square_a", "reach", **SETTINGS)
    assert (config.phase, config.task, config.steps) == ("train", "reach", STEPS)
    init, train = skillscape.make_train(config)
    state, metrics = jax.jit(train)(init(jax.random.key(0)))
    assert int(state.step) == 1200
    assert metrics["reward"].shape == (3,)


def test_a_configuration_is_that_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr("skillscape.launch.train", lambda *_, **__: None)
    run = skillscape.pretrain("diayn", out=tmp_path / "run", objective=SMALL["diayn"], progress=False, **SETTINGS)
    assert run.config == a_config("diayn")
    run = skillscape.train("maze/square_a", "reach", out=tmp_path / "scratch", progress=False, **SETTINGS)
    assert run.config == skillscape.training_config("maze/square_a", "reach", **SETTINGS)


def test_what_cannot_be_a_pure_function_is_refused():
    with pytest.raises(skillscape.UserError, match="DDPG learns from replay"):
        skillscape.make_train(skillscape.pretraining_config("sd3", "maze/square_a", backbone="ddpg"))
    with pytest.raises(skillscape.UserError, match=r"the run is a fine-tuning; use skillscape\.finetune"):
        skillscape.make_train(replace(a_config("diayn"), phase="finetune", task="reach"))
    with pytest.raises(skillscape.UserError, match="--steps is 100"):
        skillscape.make_train(a_config("diayn", steps=100))
    with pytest.raises(TypeError, match="'workers' is not a setting"):
        skillscape.pretraining_config("sd3", "maze/square_a", workers=2)
