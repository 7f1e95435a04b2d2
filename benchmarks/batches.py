"""Batches of noise with the shapes that learners meet."""

import jax
import numpy as np

from skillscape.skills import SkillSpace
from skillscape.types import EnvSpec, Schedule, Sequences


def random_sequences(schedule: Schedule, spec: EnvSpec, skills: SkillSpace) -> Sequences:
    """Sequences of frames, as many and as long as a learning step takes."""
    shape, generator = (schedule.batch_size, schedule.sequence_length), np.random.default_rng(0)
    first = np.zeros(shape, "f4")
    first[:, 0] = 1
    return Sequences(
        obs=generator.integers(0, 256, (*shape, *spec.obs_shape), np.uint8),
        action=generator.uniform(-1, 1, (*shape, spec.action_dim)).astype("f4"),
        reward=np.zeros(shape, "f4"),
        discount=np.ones(shape, "f4"),
        skill=np.asarray(skills.sample(jax.random.key(0), shape[0] * shape[1])).reshape(*shape, -1),
        first=first,
    )
