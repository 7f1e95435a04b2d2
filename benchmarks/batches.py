"""Random batches with the shapes that backbones learn from."""

import jax
import numpy as np

from skillscape.backbones.dreamer.agent import Dreamer
from skillscape.config import RunConfig
from skillscape.types import EnvSpec, Sequences, Transitions


def random_batch(config: RunConfig, spec: EnvSpec) -> Transitions | Sequences:
    """A random batch for one learning step of a run."""
    return _sequences(config, spec) if isinstance(config.backbone, Dreamer) else _transitions(config, spec)


def _transitions(config: RunConfig, spec: EnvSpec) -> Transitions:
    """One batch for each update of the objective's model, concatenated."""
    size = config.backbone.schedule.batch_size * config.reward.updates_per_step
    normal = np.random.default_rng(0).normal
    widths = {
        "obs": spec.obs_shape,
        "action": (spec.action_dim,),
        "bootstrap_obs": spec.obs_shape,
        "next_obs": spec.obs_shape,
    }
    arrays = {name: normal(size=(size, *width)).astype("f4") for name, width in widths.items()}
    rows = {name: normal(size=size).astype("f4") for name in ("reward", "discount", "next_discount")}
    skill = np.asarray(config.reward.skills.sample(jax.random.key(0), size))
    return Transitions(**arrays, **rows, skill=skill)


def _sequences(config: RunConfig, spec: EnvSpec) -> Sequences:
    """Image sequences in the number and length of a learning step."""
    schedule, generator = config.backbone.schedule, np.random.default_rng(0)
    shape = (schedule.batch_size, schedule.sequence_length)
    first = np.zeros(shape, "f4")
    first[:, 0] = 1
    return Sequences(
        obs=generator.integers(0, 256, (*shape, *spec.obs_shape), np.uint8),
        action=generator.uniform(-1, 1, (*shape, spec.action_dim)).astype("f4"),
        reward=np.zeros(shape, "f4"),
        discount=np.ones(shape, "f4"),
        skill=np.asarray(config.reward.skills.sample(jax.random.key(0), shape[0] * shape[1])).reshape(*shape, -1),
        first=first,
    )
