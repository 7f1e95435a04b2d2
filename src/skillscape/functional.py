"""Training as a pure function, for ``jax.jit`` and ``jax.vmap`` over seeds on an accelerator."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from skillscape.config import RunConfig
from skillscape.envs.base import JaxEnv
from skillscape.errors import UserError
from skillscape.launch import checked_spec
from skillscape.training.jit_collector import iteration
from skillscape.training.state import RunState, state_of_key
from skillscape.training.unroll import begin_episodes
from skillscape.types import Metrics, RandomKey


class PureTraining(NamedTuple):
    """The two functions of ``make_train``."""

    init: Callable[[RandomKey], RunState]
    """Key [] or keys [n] to the state at step 0, or n of them, stacked. Not for ``jit`` or ``vmap``: an initialiser may
    call LAPACK, and batched LAPACK calls inside a compiled program can deadlock on two cores."""
    train: Callable[[RunState], tuple[RunState, dict[str, Float[Array, " i"]]]]
    """A state to the one after the whole run and the metrics of each of its i iterations; pure."""


def make_train(config: RunConfig) -> PureTraining:
    """The whole of a run as a pure function of its initial state: no files, no evaluation, no checkpoints.

    >>> config = skillscape.pretraining_config("sd3", "maze/square_a")
    >>> init, train = skillscape.make_train(config)
    >>> states, metrics = jax.jit(jax.vmap(train))(init(jax.random.split(jax.random.key(0), 64)))
    >>> metrics["reward"].shape
    (64, 100)

    ``config``: a pre-training, or a training from scratch, of an on-policy backbone in a ``JaxEnv``; its ``seed`` is
    not used. ``init(jax.random.key(seed))`` is the state in which the run of that seed starts, and ``train`` repeats
    the iterations of that run. The two are apart so that ``train`` alone is compiled and batched.
    """
    if config.phase == "finetune":
        raise UserError("make_train starts with new agents, and the run is a fine-tuning; use skillscape.finetune.")
    if not config.backbone.on_policy:
        raise UserError(
            f"make_train needs an on-policy backbone, and {config.backbone.label} learns from replay; choose "
            'backbone="ppo", or use skillscape.pretrain or skillscape.train.'
        )
    spec, env = checked_spec(config), config.make_env()
    assert isinstance(env, JaxEnv)
    networks, episodes = jax.jit(partial(state_of_key, config, spec)), jax.jit(partial(begin_episodes, config, env))
    advance = iteration(config, env)
    iterations = config.steps // config.backbone.steps_per_iteration(spec)

    def initial(key: RandomKey) -> RunState:
        state: RunState = networks(key)
        return state._replace(episodes=episodes(state.key))

    def init(key: RandomKey) -> RunState:
        if key.ndim == 0:
            return initial(key)
        stacked: RunState = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(initial, key))
        return stacked

    def train(state: RunState) -> tuple[RunState, Metrics]:
        return jax.lax.scan(lambda state, _: advance(state), state, length=iterations)

    return PureTraining(init, train)
