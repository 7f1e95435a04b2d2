"""A trained policy that acts: from a run, or from its ``skills/`` folder alone."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree, Shaped

from skillscape.backbones.base import Backbone
from skillscape.config import RunConfig
from skillscape.errors import UserError
from skillscape.skills import SkillSpace
from skillscape.training.checkpoint import load_metadata, load_tree, save_tree
from skillscape.training.state import init_state
from skillscape.types import EnvSpec

DRAWN_SKILLS = 8
"""Skills that stand for a continuum; always the same ones."""


@cache
def compiled_act(backbone: Backbone[Any, Any], explore: bool) -> Callable[..., tuple[Any, PyTree]]:
    """``backbone.act`` for all runs and skills of equal settings, compiled once: (params, carry, obs, skill, key)."""
    return jax.jit(lambda params, carry, obs, skill, key: backbone.act(params, carry, obs, skill, key, explore))


def listed_skills(space: SkillSpace, drawn: int = DRAWN_SKILLS) -> Float[np.ndarray, "k z"]:
    """Every skill, or the same few draws each time where skills are a continuum."""
    return np.asarray(space.sample(jax.random.key(0), drawn) if space.count is None else space.all())


@dataclass(frozen=True)
class TrainedPolicy:
    """What acts: parameters with all that is needed to call them."""

    config: RunConfig
    spec: EnvSpec
    params: PyTree
    """See ``Backbone.policy_params``."""
    step: int
    """Environment steps it was trained for."""
    skill: Float[np.ndarray, " z"] | None = None
    """The skill that a fine-tuning kept, if it kept one."""

    def trained_policy(self) -> "TrainedPolicy":
        """Itself."""
        return self

    def save(self, folder: Path) -> None:
        """Write it to a folder that ``load`` reads without the rest of the run; nothing in it is code."""
        metadata = {
            "config": self.config.to_json(),
            "obs_shape": list(self.spec.obs_shape),
            "action_dim": self.spec.action_dim,
            "horizon": self.spec.horizon,
            "step": self.step,
            "skill": None if self.skill is None else self.skill.tolist(),
        }
        save_tree(folder, self.params, metadata=metadata)

    @staticmethod
    def load(folder: Path) -> "TrainedPolicy":
        """Read what ``save`` wrote."""
        metadata = load_metadata(folder)
        try:
            config = RunConfig.from_json(metadata["config"])
            config.check()
            spec = EnvSpec(tuple(metadata["obs_shape"]), int(metadata["action_dim"]), int(metadata["horizon"]))
            kept = metadata["skill"]
            skill = None if kept is None else np.asarray(kept, np.float32).reshape(config.reward.skills.width)
            step = int(metadata["step"])
            like = jax.eval_shape(lambda: config.backbone.policy_params(init_state(config, spec).agent))
        except UserError as error:
            raise UserError(f"{folder}: {error}") from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise UserError(f"{folder} is damaged: it does not say which policy it holds.") from error
        return TrainedPolicy(config, spec, load_tree(folder, like), step, skill)


@runtime_checkable
class HasPolicy(Protocol):
    """What a policy can be taken from: a run, or a ``TrainedPolicy`` itself."""

    def trained_policy(self) -> TrainedPolicy:
        """What acts."""


class Policy:
    """A trained policy that acts with one skill: call it with an observation, get an action in [-1, 1].

    >>> policy = run.policy(skill=3)
    >>> policy.reset()
    >>> action = policy(obs)

    ``obs`` is one observation or a batch of them, [n, *obs_shape]; ``reset`` begins new episodes, which recurrent
    policies must be told. ``switch`` changes the skill at any time. All skills share one compiled program.
    """

    def __init__(
        self,
        source: HasPolicy,
        skill: int | Float[np.ndarray, "..."] | None = None,
        *,
        explore: bool = False,
        seed: int = 0,
    ) -> None:
        """Begin with a skill: its index, a vector, or None for the one that a fine-tuning kept, else the first.

        ``explore`` draws actions from the policy instead of taking its mode; ``seed`` is that of the draws.
        """
        self._trained = trained = source.trained_policy()
        self._backbone = trained.config.backbone
        self._skills = trained.config.reward.skills
        self._act = compiled_act(self._backbone, explore)
        self._explore = explore
        # World models draw their latent states also where actions are not drawn: always the same, as evaluations do.
        self._key = jax.random.key(seed if explore else 0)
        self._vector = np.zeros(self._skills.width, np.float32)
        self.switch(skill)
        self.reset()

    @staticmethod
    def load(
        folder: str | Path,
        skill: int | Float[np.ndarray, "..."] | None = None,
        *,
        explore: bool = False,
        seed: int = 0,
    ) -> "Policy":
        """The policy in the ``skills/`` folder of a run, which may have been copied anywhere, or in a run folder."""
        path = Path(folder)
        inside = path / "skills"
        if (path / "config.json").exists() and not inside.is_dir():
            raise UserError(
                f"{path} has no skills/ yet, which a run writes at its end; train it further with --resume."
            )
        return Policy(TrainedPolicy.load(inside if inside.is_dir() else path), skill, explore=explore, seed=seed)

    @property
    def config(self) -> RunConfig:
        """The configuration of the run that trained it."""
        return self._trained.config

    @property
    def spec(self) -> EnvSpec:
        """Sizes of observations and actions."""
        return self._trained.spec

    @property
    def skill(self) -> Float[np.ndarray, " z"]:
        """The skill that acts."""
        return self._vector.copy()

    @property
    def number_of_skills(self) -> int | None:
        """How many skills there are; None where they are a continuum."""
        return self._skills.count

    def switch(self, skill: int | Float[np.ndarray, "..."] | None) -> None:
        """Act with another skill from now on; the episode goes on."""
        if skill is None:
            kept = self._trained.skill
            self._vector = listed_skills(self._skills)[0] if kept is None else kept
            return
        if isinstance(skill, (int, np.integer)):
            known = listed_skills(self._skills)
            if not 0 <= skill < len(known):
                raise UserError(f"There is no skill {skill}: this policy has skills 0 to {len(known) - 1}.")
            self._vector = known[int(skill)]
            return
        vector = _array(skill, np.float32)
        if vector is None or vector.shape != (self._skills.width,) or not np.isfinite(vector).all():
            raise UserError(
                f"A skill of this policy is an index or a vector of {self._skills.width} finite numbers, not {skill!r}."
            )
        self._vector = vector

    def reset(self) -> None:
        """Begin new episodes."""
        self._carry: PyTree = None
        self._rows = 0

    def __call__(self, obs: Shaped[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """The action at ``obs``, [a], or the actions at a batch of them, [n, a]."""
        shape = self.spec.obs_shape
        rows = _array(obs, None if self.spec.is_image else np.float32)
        single = rows is not None and rows.shape == shape
        if rows is None or not (single or (rows.ndim > 0 and rows.shape[1:] == shape)):
            got = repr(obs) if rows is None else rows.shape
            raise UserError(f"This policy takes observations of shape {shape}, or a batch of them, not {got}.")
        if self.spec.is_image and rows.dtype != np.uint8:
            raise UserError(f"This policy takes images of uint8, 0 to 255, not of {rows.dtype}.")
        rows = rows[None] if single else rows
        if self._carry is None or len(rows) != self._rows:
            self._carry, self._rows = self._backbone.initial_carry(len(rows)), len(rows)
        key = self._key
        if self._explore:
            self._key, key = jax.random.split(key)
        skill = jnp.broadcast_to(jnp.asarray(self._vector), (len(rows), len(self._vector)))
        action, self._carry = self._act(self._trained.params, self._carry, rows, skill, key)
        actions = np.asarray(action)
        return actions[0] if single else actions


def _array(values: Any, kind: type[np.generic] | None) -> Shaped[np.ndarray, "..."] | None:  # noqa: ANN401
    """Values of any origin as an array, of their own type if none is given; None for what cannot be one."""
    try:
        return np.asarray(values, kind)
    except (TypeError, ValueError):
        return None
