"""A Dreamer small enough to compile in seconds, and sequences for it to learn from."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from probes import quick

from skillscape.backbones.dreamer.agent import Dreamer
from skillscape.backbones.dreamer.config import BehaviourConfig, WorldConfig
from skillscape.backbones.dreamer.networks import fresh_agent
from skillscape.config_io import overridden
from skillscape.objectives.extrinsic import Extrinsic
from skillscape.optim import TrainState
from skillscape.types import EnvSpec, Sequences

SPEC = EnvSpec(obs_shape=(3,), action_dim=2, horizon=10)
SKILLS = 4
SKILLED = Extrinsic(skill_kind="discrete", skill_width=SKILLS)
TINY = Dreamer(
    world=WorldConfig(embedding=5, deter=6, hidden=7, stoch=2, classes=3, units=8, layers=1),
    behaviour=BehaviourConfig(units=8, layers=1, horizon=3, imagined_starts=6),
)
ROWS, TIMES = 3, 4
KEY = jax.random.key(11)


def changed(backbone, **groups):
    """The backbone with other settings, by group: ``changed(TINY, world={"deter": 8})``."""
    return overridden(backbone, groups, "backbone")


def sequences(objective=SKILLED, seed=0, rows=ROWS, times=TIMES):
    """Sequences of noise, each from the beginning of an episode, under skills of the objective."""
    generator = np.random.default_rng(seed)
    first = np.zeros((rows, times), np.float32)
    first[:, 0] = 1
    skill = objective.skills.sample(jax.random.key(seed), rows * times)
    return Sequences(
        obs=jnp.asarray(generator.normal(size=(rows, times, 3)), jnp.float32),
        action=jnp.asarray(generator.uniform(-1, 1, (rows, times, 2)), jnp.float32),
        reward=jnp.asarray(generator.normal(size=(rows, times)), jnp.float32),
        discount=jnp.ones((rows, times)),
        skill=skill.reshape(rows, times, objective.skills.width),
        first=jnp.asarray(first),
    )


def filled(shapes, seed):
    """Numbers for networks of these shapes: drawing them as ``init`` does takes seconds to compile."""
    generator = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(0.3 * generator.normal(size=leaf.shape), leaf.dtype), shapes)


@cache
def begun(backbone=TINY, objective=SKILLED, spec=SPEC):
    """An agent and the state of an objective before anything is learned."""
    shapes = jax.eval_shape(lambda: backbone.init(KEY, spec, objective))
    networks = [filled(part.params, seed) for seed, part in enumerate((shapes.world, shapes.actor, shapes.critic))]
    head = shapes.reward_head and TrainState.create(backbone.world.optimizer, filled(shapes.reward_head.params, 3))
    state = quick(lambda: objective.init(jax.random.key(1), backbone.objective_spec(spec)))()
    return fresh_agent(backbone, *networks, head, None), state
