"""Skill selection in fine-tuning: resampled, fixed, selected from warm-up data, or mixed by a controller."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from skillscape.backbones.base import Backbone
from skillscape.errors import UserError
from skillscape.replay import Trajectory
from skillscape.skills import Box, SignedBox, SkillSpace
from skillscape.types import RandomKey

WINDOW = 50
"""Window in steps over which ``regress`` sums rewards and action log-likelihoods; shorter in short episodes."""

Infer = Callable[[Shaped[Array, "n ..."], Float[Array, " n"]], Float[Array, " z"]]
"""The skill inferred from objective observations and rewards: a method's pre-trained ``infer_skill``."""
StrategyKind = Literal["prior", "random", "fixed", "constant", "controller", "regress", "grid", "infer"]
STRATEGY_KINDS: tuple[StrategyKind, ...] = get_args(StrategyKind)


@dataclass(frozen=True)
class Strategy:
    """The skill selection of a fine-tuning.

    prior: resampled as in pre-training; random: one draw for the whole run; fixed: the skill with ``index``; constant:
    the centre of the skill box; controller: a state-dependent mixture of all skills. The others select from the warm-up
    data. regress: the skill whose action likelihood correlates best with return; grid: the skill with the highest mean
    reward when each acts in turn; infer: the skill that the method's model infers from the rewards.
    """

    kind: StrategyKind
    index: int = 0

    @property
    def needs_warmup_data(self) -> bool:
        """Whether the skill is selected from warm-up data."""
        return self.kind in ("regress", "grid", "infer")

    @property
    def infers(self) -> bool:
        """Whether the skill is selected by the method's pre-trained model."""
        return self.kind == "infer"

    @property
    def uses_controller(self) -> bool:
        """Whether a controller mixes all skills, see ``Backbone.with_controller``."""
        return self.kind == "controller"

    def initial(self, skills: SkillSpace, key: RandomKey) -> Float[np.ndarray, " z"] | None:
        """The skill of the whole run from its start, or None if skills are resampled or selected later."""
        if self.kind == "random":
            return np.asarray(skills.sample(key, 1)[0])
        if self.kind == "fixed":
            return np.asarray(skills.all()[self.index])
        if self.kind == "constant":
            return np.full(skills.width, 0.5, np.float32)
        if self.kind == "controller":
            # The controller mixes all skills itself; the skill-conditioned critic gets their mean.
            return np.asarray(jnp.mean(skills.all(), axis=0))
        return None

    def trials(self, skills: SkillSpace) -> Float[np.ndarray, "k z"] | None:
        """The skills that act in turn in the warm-up, or None."""
        return candidates(skills) if self.kind == "grid" else None

    def select(
        self,
        backbone: Backbone[Any, Any],
        agent: PyTree,
        skills: SkillSpace,
        trajectories: Sequence[Trajectory],
        infer: Infer | None = None,
    ) -> Float[np.ndarray, " z"]:
        """The skill selected from warm-up data; ``infer``: required if ``infers``."""
        if self.kind == "grid":
            return best_tried(trajectories)
        if self.kind == "regress":
            return regress(backbone, agent, skills, trajectories)
        if self.kind == "infer" and infer is not None:
            return inferred(backbone, agent, trajectories, infer)
        raise UserError(f"--skill {self.kind} does not select a skill from warm-up data; use regress or grid.")


def parse_strategy(text: str, skills: SkillSpace) -> Strategy:
    """Parse ``--skill``; a selection that the skill space does not allow is refused."""
    if skills.width == 0:
        return Strategy("prior")
    if text.isdecimal():
        return _fixed(int(text), skills)
    kind = next((known for known in STRATEGY_KINDS if known == text and known != "fixed"), None)
    if kind is None:
        names = ", ".join(known for known in STRATEGY_KINDS if known != "fixed")
        raise UserError(f"--skill cannot be {text!r}; choose {names}, or the index of a skill.")
    boxed = isinstance(skills, (Box, SignedBox))
    if kind == "constant" and not boxed:
        raise UserError("--skill constant needs skills from a box, such as CIC's; use --skill random or an index.")
    if kind == "grid" and not boxed and skills.count is None:
        raise UserError("--skill grid needs discrete skills or skills from a box; use --skill random or prior.")
    if kind in ("regress", "controller") and skills.count is None:
        raise UserError(f"--skill {kind} needs discrete skills; use --skill random or prior.")
    return Strategy(kind)


def _fixed(index: int, skills: SkillSpace) -> Strategy:
    if skills.count is None:
        raise UserError(f"--skill {index} is an index, but the skills are continuous; use --skill random or prior.")
    if index >= skills.count:
        raise UserError(f"There is no skill {index}; choose one from 0 to {skills.count - 1}.")
    return Strategy("fixed", index)


def candidates(skills: SkillSpace) -> Float[np.ndarray, "k z"]:
    """The skills that ``grid`` tries: all of them, or from a box the constant vectors 0, 0.1, …, 1; signed, from −1."""
    if isinstance(skills, (Box, SignedBox)):
        values = np.linspace(0, 1, 11) if isinstance(skills, Box) else np.linspace(-1, 1, 21)
        return np.repeat(values.astype(np.float32)[:, None], skills.width, axis=1)
    return np.asarray(skills.all())


def best_tried(trajectories: Sequence[Trajectory]) -> Float[np.ndarray, " z"]:
    """The skill with the highest mean reward per step."""
    skill = np.concatenate([trajectory.skill for trajectory in trajectories])
    reward = np.concatenate([trajectory.reward for trajectory in trajectories])
    tried, index = np.unique(skill, axis=0, return_inverse=True)
    means = np.bincount(index, reward) / np.bincount(index)
    best: Float[np.ndarray, " z"] = tried[int(np.argmax(means))]
    return best


def inferred(
    backbone: Backbone[Any, Any], agent: PyTree, trajectories: Sequence[Trajectory], infer: Infer
) -> Float[np.ndarray, " z"]:
    """The skill that a method's model infers from the rewards, at the objective observations of the trajectories."""
    objective_obs = jax.jit(backbone.objective_obs)
    states = [
        objective_obs(agent, trajectory.obs, trajectory.action) for trajectory in trajectories if len(trajectory.reward)
    ]
    rewards = jnp.concatenate([trajectory.reward for trajectory in trajectories])
    return np.asarray(infer(jnp.concatenate(states), rewards))


def regress(
    backbone: Backbone[Any, Any], agent: PyTree, skills: SkillSpace, trajectories: Sequence[Trajectory]
) -> Float[np.ndarray, " z"]:
    """The skill whose action likelihood correlates best with return: argmax_z corr(Σ r, Σ log π(a|s, z)).

    The sums are over windows inside an episode, of ``WINDOW`` steps or as long as the longest episode if that is
    shorter. Without centring, the skill most similar to the behaviour policy would win, whatever its rewards; without
    scaling, the skill whose likelihoods vary most.
    """
    length = min(WINDOW, max((len(trajectory.reward) for trajectory in trajectories), default=0))
    if length == 0:
        raise UserError("--skill regress needs warm-up data, but there is none; set warm-up steps above 0.")
    windows = [window for trajectory in trajectories for window in _windows(trajectory, length)]
    returns = np.array([window.reward.sum() for window in windows])
    obs, action = (np.stack([window[field] for window in windows]) for field in (0, 1))
    likelihood = jax.jit(
        lambda skill, obs, action: jax.vmap(lambda s, a: backbone.log_prob(agent, s, _repeat(skill, length), a))(
            obs, action
        )
    )
    totals = np.array([np.asarray(likelihood(skill, obs, action)).sum(axis=1) for skill in skills.all()])
    centred = totals - totals.mean(axis=1, keepdims=True)
    spread = np.linalg.norm(centred, axis=1)
    scores = centred @ (returns - returns.mean()) / np.maximum(spread, 1e-12)
    return np.asarray(skills.all()[int(np.argmax(scores))])


def _repeat(skill: Float[Array, " z"], rows: int) -> Float[Array, "n z"]:
    return jnp.broadcast_to(skill, (rows, skill.shape[0]))


def _windows(trajectory: Trajectory, length: int) -> list[Trajectory]:
    starts = range(0, len(trajectory.reward) - length + 1, length)
    return [Trajectory(*(field[start : start + length] for field in trajectory)) for start in starts]
