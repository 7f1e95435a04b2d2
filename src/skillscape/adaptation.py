"""Which skill to fine-tune: drawn as in pre-training, one for the whole run, the most promising, or a mixture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from skillscape.backbones.base import ReplayedBackbone
from skillscape.errors import UserError
from skillscape.replay import Segment
from skillscape.skills import SkillSpace
from skillscape.types import RandomKey

WINDOW = 50
"""Steps over which ``regress`` pairs a sum of rewards with the likelihood of the actions."""


@dataclass(frozen=True)
class Strategy:
    """How the skill of a fine-tuning run is chosen.

    prior: anew as in pre-training; random: one draw that stays; fixed: the skill with ``index``; regress: random
    until learning begins, then the one that explains the rewards best; controller: all of them, mixed state by state.
    """

    kind: Literal["prior", "random", "fixed", "regress", "controller"]
    index: int = 0


def parse_strategy(text: str, skills: SkillSpace) -> Strategy:
    """Read ``--skill``; what the skills cannot do is refused."""
    if skills.width == 0:
        return Strategy("prior")
    if text in ("prior", "random"):
        return Strategy("prior" if text == "prior" else "random")
    if text.isdecimal():
        number = skills.count
        if number is None:
            raise UserError(
                f"--skill {text} is an index, but these skills are a continuum; use --skill random or prior."
            )
        if int(text) >= number:
            raise UserError(f"There is no skill {text}: the run has skills 0 to {number - 1}.")
        return Strategy("fixed", int(text))
    if text in ("regress", "controller"):
        if skills.count is None:
            raise UserError(f"--skill {text} needs skills that can be listed; use --skill random or prior.")
        return Strategy("regress" if text == "regress" else "controller")
    raise UserError(f"--skill cannot be {text!r}; choose prior, random, regress, controller or the number of a skill.")


def lasting_skill(strategy: Strategy, skills: SkillSpace, key: RandomKey) -> Float[np.ndarray, " z"] | None:
    """The skill that a run keeps from its start, or None where skills change."""
    if strategy.kind == "random":
        return np.asarray(skills.sample(key, 1)[0])
    if strategy.kind == "fixed":
        return np.asarray(skills.all()[strategy.index])
    if strategy.kind == "controller":
        # The controller looks at all skills itself; the critic, which was trained with skills, is shown their mean.
        return np.asarray(jnp.mean(skills.all(), axis=0))
    return None


def regress(
    backbone: ReplayedBackbone[Any],
    agent: PyTree,
    skills: SkillSpace,
    segments: Sequence[Segment],
) -> Float[np.ndarray, " z"]:
    """The skill whose actions go with high rewards: argmax_z of the correlation of Σ r and Σ log π(a|s, z).

    The sums are over windows of ``WINDOW`` steps inside an episode. Uncentred, the score would favour the skill that is
    most like random actions, whatever they earned; unscaled, the one with the largest actions, whose likelihoods vary
    most.
    """
    windows = [window for segment in segments for window in _windows(segment)]
    if not windows:
        raise UserError(f"--skill regress needs an episode of at least {WINDOW} steps before learning begins.")
    returns = np.array([window.reward.sum() for window in windows])
    obs, action = (np.concatenate([window[field] for window in windows]) for field in (0, 1))
    likelihood = jax.jit(
        lambda skill: backbone.log_prob(agent, jnp.asarray(obs), _repeat(skill, len(obs)), jnp.asarray(action))
    )
    totals = np.array(
        [np.asarray(likelihood(skill)).reshape(len(windows), WINDOW).sum(axis=1) for skill in skills.all()]
    )
    centred = totals - totals.mean(axis=1, keepdims=True)
    spread = np.linalg.norm(centred, axis=1)
    scores = centred @ (returns - returns.mean()) / np.maximum(spread, 1e-12)
    return np.asarray(skills.all()[int(np.argmax(scores))])


def _repeat(skill: Float[Array, " z"], rows: int) -> Float[Array, "n z"]:
    return jnp.broadcast_to(skill, (rows, skill.shape[0]))


def _windows(segment: Segment) -> list[Segment]:
    starts = range(0, len(segment.reward) - WINDOW + 1, WINDOW)
    return [Segment(*(field[start : start + WINDOW] for field in segment)) for start in starts]
