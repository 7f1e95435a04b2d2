"""Runs with a fresh agent that count as trained: a policy and a model to use, without the time to learn them."""

import jax.numpy as jnp
from laid_out import configuration

from skillscape.training.run import Run
from skillscape.training.state import init_state


def untrained_run(folder, method="diayn", env="maze/square_a", **asked):
    """A finished run whose agent and objective are as they were at the start."""
    run = Run.create(folder, configuration(method, env, **asked))
    state = init_state(run.config, run.spec)._replace(step=jnp.int32(run.config.steps))
    run.save(state, {"skill": None})
    run.keep_snapshot(state)
    run.trained_policy().save(folder / "skills")
    return run
