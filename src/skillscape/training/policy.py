"""A trained policy, loaded from a run or from its ``skills/`` folder alone."""

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
from skillscape.training.checkpoint import load_metadata, load_tree, named_leaves, save_tree
from skillscape.training.files import EXPORT_FILE
from skillscape.training.state import init_state
from skillscape.types import EnvSpec
from skillscape.zoo import locate

DRAWN_SKILLS = 8
"""Number of skills drawn, with a fixed key, to represent a continuous skill space."""


@cache
def compiled_act(backbone: Backbone[Any, Any], explore: bool) -> Callable[..., tuple[Any, PyTree]]:
    """``backbone.act`` for all runs and skills of equal settings, compiled once: (params, carry, obs, skill, key)."""
    return jax.jit(lambda params, carry, obs, skill, key: backbone.act(params, carry, obs, skill, key, explore))


def listed_skills(space: SkillSpace, drawn: int = DRAWN_SKILLS) -> Float[np.ndarray, "k z"]:
    """All discrete skills, or a fixed sample of a continuous skill space."""
    return np.asarray(space.sample(jax.random.key(0), drawn) if space.count is None else space.all())


@dataclass(frozen=True)
class TrainedPolicy:
    """Policy parameters with the configuration and shapes needed to call them."""

    config: RunConfig
    spec: EnvSpec
    params: PyTree
    """See ``Backbone.policy_params``."""
    step: int
    """Environment steps it was trained for."""
    skill: Float[np.ndarray, " z"] | None = None
    """The skill of a fine-tuning with a fixed skill, else None."""

    def trained_policy(self) -> "TrainedPolicy":
        """The policy itself, for ``HasPolicy``."""
        return self

    def save(self, folder: Path) -> None:
        """Write a folder that ``load`` reads without the rest of the run; it contains no code and no optimisers."""
        metadata = {
            "config": self.config.to_json(),
            "obs_shape": list(self.spec.obs_shape),
            "action_dim": self.spec.action_dim,
            "horizon": self.spec.horizon,
            "step": self.step,
            "skill": None if self.skill is None else self.skill.tolist(),
        }
        optimisers = [name for name, _ in named_leaves(self.params) if "opt_state" in name]
        save_tree(folder, self.params, left_out=optimisers, metadata=metadata)

    @staticmethod
    def load(folder: Path) -> "TrainedPolicy":
        """Read a folder that ``save`` wrote."""
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
            raise UserError(
                f"{folder} is damaged: its metadata are incomplete; copy it again or train again with --force."
            ) from error
        return TrainedPolicy(config, spec, load_tree(folder, like), step, skill)


@runtime_checkable
class HasPolicy(Protocol):
    """A source of a policy: a run, or a ``TrainedPolicy``."""

    def trained_policy(self) -> TrainedPolicy:
        """The trained policy."""


class Policy:
    """A trained policy with a skill: maps an observation to an action in [-1, 1].

    >>> policy = run.policy(skill=3)
    >>> policy.reset()
    >>> action = policy(obs)

    ``obs`` is one observation or a batch of them, [n, *obs_shape]. ``reset`` starts new episodes; recurrent policies
    need it. ``switch`` changes the skill at any time. All skills share one compiled program.
    """

    def __init__(
        self,
        source: HasPolicy,
        skill: int | Float[np.ndarray, "..."] | None = None,
        *,
        explore: bool = False,
        seed: int = 0,
    ) -> None:
        """Start with a skill: its index, a vector, or None for the fine-tuned skill, else the first.

        ``explore`` samples actions instead of taking the mode; ``seed``: random seed of the samples.
        """
        self._trained = trained = source.trained_policy()
        self._backbone = trained.config.backbone
        self._skills = trained.config.reward.skills
        self._act = compiled_act(self._backbone, explore)
        self._explore = explore
        # World models sample latent states even if actions are modes: with a fixed key, as in evaluations.
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
        path = locate(folder)
        inside = path / "skills"
        if (path / EXPORT_FILE).exists() and not inside.is_dir():
            from skillscape.training.run import Run  # runs are built on policies

            return Run(path).policy(skill, explore=explore, seed=seed)
        if (path / "config.json").exists() and not inside.is_dir():
            raise UserError(
                f"{path} has no skills/ yet, which is written at the end of a run; train it further with --resume."
            )
        return Policy(TrainedPolicy.load(inside if inside.is_dir() else path), skill, explore=explore, seed=seed)

    @property
    def config(self) -> RunConfig:
        """The configuration of the run that trained it."""
        return self._trained.config

    @property
    def spec(self) -> EnvSpec:
        """Shapes of observations and actions."""
        return self._trained.spec

    @property
    def skill(self) -> Float[np.ndarray, " z"]:
        """The current skill."""
        return self._vector.copy()

    @property
    def number_of_skills(self) -> int | None:
        """Number of discrete skills; None for a continuous skill space."""
        return self._skills.count

    def switch(self, skill: int | Float[np.ndarray, "..."] | None) -> None:
        """Change the skill within the episode."""
        if skill is None:
            kept = self._trained.skill
            self._vector = listed_skills(self._skills)[0] if kept is None else kept
            return
        if isinstance(skill, (int, np.integer)):
            known = listed_skills(self._skills)
            if not 0 <= skill < len(known):
                raise UserError(f"There is no skill {skill}; choose one from 0 to {len(known) - 1}.")
            self._vector = known[int(skill)]
            return
        vector = _array(skill, np.float32)
        if vector is None or vector.shape != (self._skills.width,) or not np.isfinite(vector).all():
            raise UserError(
                f"skill cannot be {skill!r}; give an index or a vector of {self._skills.width} finite numbers."
            )
        self._vector = vector

    def reset(self) -> None:
        """Start new episodes."""
        self._carry: PyTree = None
        self._rows = 0

    def __call__(self, obs: Shaped[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """The action at ``obs``, [a], or the actions at a batch of them, [n, a]."""
        shape = self.spec.obs_shape
        rows = _array(obs, None if self.spec.is_image else np.float32)
        single = rows is not None and rows.shape == shape
        if rows is None or not (single or (rows.ndim > 0 and rows.shape[1:] == shape)):
            got = repr(obs) if rows is None else rows.shape
            raise UserError(f"obs has the wrong shape: {got}; give {shape}, or a batch of them.")
        if self.spec.is_image and rows.dtype != np.uint8:
            raise UserError(f"obs is {rows.dtype}; give images as uint8 in [0, 255].")
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
    """Values as an array, of their own type if ``kind`` is None; None if that is impossible."""
    try:
        return np.asarray(values, kind)
    except (TypeError, ValueError):
        return None
